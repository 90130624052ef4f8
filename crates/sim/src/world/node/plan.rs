//! What a question asks of whom, as `node::ingress::plan` works it out: the limits that its policy applies, their keys, and
//! the partitions that decide them. All limits of a question that fall into one partition are one group.

use std::sync::Arc;

use control::Genesis;
use limits::{AMOUNT_MAX, Fingerprint, FingerprintKey, LimitId, Moment, Part, PartKind, Span, WallTime};
use ownership::ingress::{AskedLeg, Asking, Outcome};
use ownership::{Act, Asker, Check, CheckId, Epoch, Owner as Appointed, SessionId};
use policy::{Applied, Attributes, Catalogue, Domain, Matched};
use ring::{PartitionCount, PartitionId, RoutingHash, RoutingSeed, Scope};
use smallvec::SmallVec;

use crate::history::Source;
use crate::world::Ask;
use crate::world::packet::Put;
use crate::world::trace::LegSeen;

/// No limit ever has this number, so what is hashed under it is no key.
const NO_LIMIT: LimitId = LimitId(0);

/// What genesis fixed, as far as checks need it.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) routing_seed: RoutingSeed,
    pub(super) fingerprint_key: FingerprintKey,
    pub(super) partitions: PartitionCount,
    pub(super) d_max: Span,
}

/// One question under way here.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) put: Put,
    pub(super) asker: Asker,
    pub(super) started: Moment,
    pub(super) matched: Arc<Catalogue>,
    pub(super) rematches: usize,
    pub(super) legs: SmallVec<[AskedLeg; 2]>,
    pub(super) groups: Vec<Group>,
}

/// The limits of a question that one partition decides.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) partition: PartitionId,
    pub(super) check: Check,
    pub(super) budget: Span,
    pub(super) asking: Option<Asking>,
    /// Its owner did not know a limit: the policies there and here differ.
    pub(super) differs: bool,
    /// Who decided, and at which epoch.
    pub(super) answered_by: Option<(Appointed, Epoch)>,
    /// What that was, for the trace.
    pub(super) witness: Option<(SessionId, Vec<LegSeen>)>,
    /// Each attempt: its number, whom it was sent to, and when.
    pub(super) sent: SmallVec<[(u8, Appointed, Moment); 2]>,
    pub(super) settled: Option<Settled>,
    /// The owner that may have charged it when it was asked under an earlier match.
    pub(super) spent_at: Option<Appointed>,
    /// Whether it was settled because the policies differ, so that the question may be matched anew.
    pub(super) is_behind: bool,
}

/// What came of one group.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) outcome: Outcome,
    pub(super) owner: Option<Appointed>,
    pub(super) epoch: Option<Epoch>,
    pub(super) source: Source,
    pub(super) may_have_spent: bool,
}

/// What is to be done for a question.
#[allow(clippy::large_enum_variant, reason = "nearly every plan is the large one")]
pub(super) enum Plan {
    /// Nothing limits it.
    NoLimit,
    /// It cannot be put: the policy is not known yet, or the question does not fit it.
    NotPut,
    /// Owners are to be asked.
    Asks(SmallVec<[AskedLeg; 2]>, Vec<Group>),
}

/// How a question is known to its owners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) id: CheckId,
    pub(super) asker: Asker,
    pub(super) attempt: u8,
    pub(super) indexed: bool,
    pub(super) budget: Span,
}

impl Keys {
    pub(super) fn of(genesis: &Genesis) -> Keys {
        Keys {
            routing_seed: genesis.routing_seed,
            fingerprint_key: genesis.fingerprint_key,
            partitions: genesis.partitions,
            d_max: genesis.lease.d_max,
        }
    }
}

/// Matches a question with the policy of its domain.
pub(super) fn plan(
    keys: &Keys,
    catalogue: &Catalogue,
    domain: &str,
    ask: &Ask,
    name: Name,
    wall: Option<WallTime>,
) -> Plan {
    let Some(domain) = catalogue.domain(domain) else { return Plan::NotPut };
    let pairs = ask.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let Ok(attributes) = Attributes::new(pairs) else { return Plan::NotPut };
    match domain.matching(&attributes, ask.cost, wall) {
        Err(_) | Ok(Matched::MissingAttribute { .. }) => Plan::NotPut,
        Ok(Matched::NoLimit { .. }) => Plan::NoLimit,
        Ok(Matched::Limits(limits)) if limits.cost() > AMOUNT_MAX => Plan::NotPut,
        Ok(Matched::Limits(limits)) => {
            let (mut legs, mut groups) = (SmallVec::new(), Vec::with_capacity(1));
            let question = (digest_of(&keys.fingerprint_key, ask), domain.revision());
            for applied in limits.iter() {
                let partition = partition_of(keys, domain, &applied);
                let place = place_of(&mut groups, partition, name, question);
                let group: &mut Group = &mut groups[place];
                let leg = leg_of(keys, &applied, place, group.check.legs.len());
                group.check.legs.push(leg.to_check_leg());
                legs.push(leg);
            }
            Plan::Asks(legs, groups)
        }
    }
}

fn place_of(groups: &mut Vec<Group>, partition: PartitionId, name: Name, (question, revision): (u64, u64)) -> usize {
    if let Some(place) = groups.iter().position(|group| group.partition == partition) {
        return place;
    }
    let Name { id, asker, attempt, indexed, budget } = name;
    let check = Check { id, asker, attempt, indexed, revision, question, act: Act::Spend, legs: SmallVec::new() };
    groups.push(Group {
        partition,
        check,
        budget,
        asking: None,
        differs: false,
        answered_by: None,
        witness: None,
        sent: SmallVec::new(),
        settled: None,
        spent_at: None,
        is_behind: false,
    });
    groups.len() - 1
}

fn leg_of(keys: &Keys, applied: &Applied<'_>, group: usize, place: usize) -> AskedLeg {
    let limit = applied.limit();
    AskedLeg {
        limit: limit.id(),
        variant: applied.variant(),
        key: Fingerprint::of(&keys.fingerprint_key, limit.id(), applied.key()),
        cost: applied.cost(),
        shadow: applied.shadow(),
        fail: *limit.fail(),
        when_full: *limit.when_full(),
        whole: *applied.whole(),
        group: group as u8,
        place: place as u8,
    }
}

/// A key has one routing key: its route within the domain, or its limit and all of it.
fn partition_of(keys: &Keys, domain: &Domain, applied: &Applied<'_>) -> PartitionId {
    let hash = match applied.route() {
        Some(route) => RoutingHash::of(&keys.routing_seed, Scope::Domain(domain.name()), route.map(bytes_of)),
        None => RoutingHash::of(&keys.routing_seed, Scope::Limit(applied.id().0), applied.key().map(bytes_of)),
    };
    hash.partition(keys.partitions)
}

fn bytes_of(part: Part<'_>) -> (u8, &[u8]) {
    (part.kind as u8, part.bytes)
}

fn digest_of(key: &FingerprintKey, ask: &Ask) -> u64 {
    let cost = ask.cost.to_le_bytes();
    let attributes = ask.attributes.iter().flat_map(|(name, value)| [Part::text(name), Part::text(value)]);
    let head = Part { kind: PartKind::Text, bytes: &cost[..] };
    Fingerprint::of(key, NO_LIMIT, [head].into_iter().chain(attributes)).0[0]
}
