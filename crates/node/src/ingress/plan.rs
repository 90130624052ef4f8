//! What a question asks of whom: the limits that its policy applies, their keys, and the partitions that decide them. All
//! limits of a question that fall into one partition are one group, decided under one gate.

use std::sync::atomic::{AtomicU64, Ordering};

use limits::{FailMode, Fingerprint, FingerprintKey, LimitId, Part, Shape, Span, Variant};
use ownership::ingress::Asking;
use ownership::{Asker, Check, CheckId, CheckLeg};
use policy::{Applied, Domain, Matched};
use ring::{PartitionId, RoutingHash, Scope};
use smallvec::SmallVec;

use crate::decision::{AskedId, Decision, LegAnswer, NotPut, Question, Reason, Source};
use crate::ingress::{Ingress, Keys, Settled};
use crate::views::Policies;

/// No limit ever has this number, so what is hashed under it is no key.
const NO_LIMIT: LimitId = LimitId(0);

/// What is to be done for a question.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every plan is the large one; a box would cost each check an allocation"
)]
pub(crate) enum Plan {
    /// Nobody needs to be asked.
    Settled(Result<Decision, NotPut>),
    /// Owners are to be asked.
    Asks(Asks),
}

/// The groups of a question.
#[derive(Debug)]
pub(crate) struct Asks {
    pub(crate) legs: SmallVec<[Leg; 2]>,
    pub(crate) groups: SmallVec<[Group; 1]>,
    pub(crate) cost: u64,
    pub(crate) revision: u64,
    name: Name,
}

/// One limit of a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) limit: LimitId,
    /// Which of its numbers apply.
    pub(crate) variant: Variant,
    pub(crate) key: Fingerprint,
    pub(crate) cost: u64,
    pub(crate) shadow: bool,
    pub(crate) fail: FailMode,
    pub(crate) when_full: FailMode,
    /// The whole limit's numbers, of which an emergency share is a part.
    pub(crate) whole: Shape,
    /// Which group decides it, and its place there.
    pub(crate) group: u8,
    pub(crate) place: u8,
}

/// The limits of a question that one partition decides.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) partition: PartitionId,
    pub(crate) check: Check,
    pub(crate) budget: Span,
    /// The question under way, where the first answer did not settle it; boxed, since it hardly ever is.
    pub(crate) asking: Option<Box<Asking>>,
    /// Its owner did not know a limit: the policies there and here differ.
    pub(crate) differs: bool,
    pub(crate) settled: Option<Settled>,
}

/// How a question is known to its owners.
#[derive(Clone, Copy, Debug)]
struct Name {
    id: CheckId,
    asker: Asker,
    attempt: u8,
    indexed: bool,
    question: u64,
}

/// Makes what tells questions apart that are asked here: askers for all of them, and ids for those that come without.
/// Both are of the process's nonce and a number.
#[derive(Debug)]
pub(crate) struct Made {
    nonce: u64,
    next: AtomicU64,
}

impl Made {
    pub(crate) const fn new(nonce: u64) -> Made {
        Made { nonce, next: AtomicU64::new(1) }
    }

    fn asker(&self) -> Asker {
        Asker(self.nonce.wrapping_add(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn id(&self, Asker(asker): Asker) -> CheckId {
        CheckId(u128::from(self.nonce) << 64 | u128::from(asker.wrapping_sub(self.nonce)))
    }
}

impl Plan {
    pub(crate) fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        match self {
            Plan::Settled(_) => [].iter_mut(),
            Plan::Asks(asks) => asks.groups.iter_mut(),
        }
    }
}

impl Asks {
    pub(crate) fn is_settled(&self) -> bool {
        self.groups.iter().all(|group| group.settled.is_some())
    }

    pub(crate) const fn id(&self) -> CheckId {
        self.name.id
    }

    /// The number of the next attempt, above that of any so far.
    pub(crate) fn attempt(&self) -> u8 {
        let last = self.groups.iter().map(|group| group.check.attempt).max().unwrap_or(self.name.attempt);
        last.saturating_add(1)
    }

    fn add(&mut self, partition: PartitionId, mut leg: Leg, budget: Span) {
        let name = self.name;
        let place = match self.groups.iter().position(|group| group.partition == partition) {
            Some(place) => place,
            None => {
                let Name { id, asker, attempt, indexed, question } = name;
                let act = ownership::Act::Spend;
                let check = Check { id, asker, attempt, indexed, question, act, legs: SmallVec::new() };
                self.groups.push(Group { partition, check, budget, asking: None, differs: false, settled: None });
                self.groups.len() - 1
            }
        };
        let legs = &mut self.groups[place].check.legs;
        // Policies apply at most `MAX_LEGS` limits to one check, so both numbers are small.
        leg.group = place as u8;
        leg.place = legs.len() as u8;
        let Leg { limit, variant, key, cost, shadow, .. } = leg;
        legs.push(CheckLeg { limit, variant, key, cost, shadow });
        self.legs.push(leg);
    }
}

impl Ingress {
    /// Matches a question with its policy.
    pub(crate) fn plan(&self, policies: &Policies, question: &Question<'_>) -> Plan {
        let Some(keys) = self.keys.get() else { return Plan::Settled(Err(NotPut::UnknownDomain)) };
        let asker = self.made.asker();
        let name = match question.id {
            AskedId::Made => Name { id: self.made.id(asker), asker, attempt: 1, indexed: false, question: 0 },
            AskedId::Binary { id, attempt } => {
                let question = digest_of(&keys.fingerprint_key, question);
                Name { id: CheckId(id), asker, attempt, indexed: false, question }
            }
            AskedId::Text { text, caller } => {
                let id = id_of(&keys.fingerprint_key, caller, question.domain, text);
                Name { id, asker, attempt: 1, indexed: true, question: digest_of(&keys.fingerprint_key, question) }
            }
        };
        self.plan_named(policies, question, name, keys)
    }

    /// Matches a question anew, under the name it has been asked by, as attempt number `attempt`.
    pub(crate) fn plan_again(&self, policies: &Policies, question: &Question<'_>, before: &Asks) -> Plan {
        match self.keys.get() {
            Some(keys) => self.plan_named(policies, question, Name { attempt: before.attempt(), ..before.name }, keys),
            None => Plan::Settled(Err(NotPut::UnknownDomain)),
        }
    }

    fn plan_named(&self, policies: &Policies, question: &Question<'_>, name: Name, keys: &Keys) -> Plan {
        let Some(domain) = policies.catalogue.domain(question.domain) else {
            return Plan::Settled(Err(NotPut::UnknownDomain));
        };
        let revision = domain.revision();
        let settled = |allowed, reason, legs: SmallVec<[LegAnswer; 2]>| {
            let named = (!legs.is_empty()).then_some(0);
            let cost = question.cost;
            Decision { id: name.id, allowed, reason, cost, named, legs, revision, replayed: false }
        };
        match domain.matching(&question.attributes, question.cost) {
            Err(_) => Plan::Settled(Err(NotPut::CostTooLarge)),
            Ok(Matched::NoLimit { .. }) => Plan::Settled(Ok(settled(true, Reason::NoLimit, SmallVec::new()))),
            Ok(Matched::MissingAttribute { limit, .. }) => {
                let leg = missing_leg(limit.id());
                self.count(policies, &leg, question.cost);
                Plan::Settled(Ok(settled(false, Reason::MissingAttribute, SmallVec::from_iter([leg]))))
            }
            Ok(Matched::Limits(limits)) => {
                let asks = Asks { legs: SmallVec::new(), groups: SmallVec::new(), cost: question.cost, revision, name };
                let add = |mut asks: Asks, applied: Applied<'_>| {
                    let partition = partition_of(keys, domain, &applied);
                    asks.add(partition, leg_of(keys, &applied), question.budget);
                    asks
                };
                Plan::Asks(limits.iter().fold(asks, add))
            }
        }
    }
}

fn leg_of(keys: &Keys, applied: &Applied<'_>) -> Leg {
    let limit = applied.limit();
    Leg {
        limit: limit.id(),
        variant: applied.variant(),
        key: Fingerprint::of(&keys.fingerprint_key, limit.id(), applied.key()),
        cost: applied.cost(),
        shadow: applied.shadow(),
        fail: *limit.fail(),
        when_full: *limit.when_full(),
        whole: Shape { rate: limit.rate(), algorithm: limit.algorithm(), ..*limit.shape() },
        group: 0,
        place: 0,
    }
}

fn missing_leg(limit: LimitId) -> LegAnswer {
    LegAnswer {
        limit,
        allowed: false,
        enforced: true,
        reason: Reason::MissingAttribute,
        source: Source::Policy,
        numbers: None,
        owner: None,
        epoch: None,
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

/// A caller's own text id, scoped by caller and domain.
fn id_of(key: &FingerprintKey, caller: &str, domain: &str, text: &str) -> CheckId {
    let parts = [Part::text("id"), Part::text(caller), Part::text(domain), Part::text(text)];
    let Fingerprint([first, second]) = Fingerprint::of(key, NO_LIMIT, parts);
    CheckId(u128::from(first) << 64 | u128::from(second))
}

/// What a question asks, whatever the order of its attributes: they are sorted.
fn digest_of(key: &FingerprintKey, question: &Question<'_>) -> u64 {
    let cost = question.cost.to_le_bytes();
    let head = [Part::text("question"), Part::text(question.domain)];
    let cost = Part { kind: limits::PartKind::Text, bytes: &cost };
    let attributes = question.attributes.iter().flat_map(|(name, value)| [Part::text(name), Part::text(value)]);
    Fingerprint::of(key, NO_LIMIT, head.into_iter().chain([cost]).chain(attributes)).0[0]
}
