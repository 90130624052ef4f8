//! What a question asks of whom: the limits that its policy applies, their keys, and the partitions that decide them. All
//! limits of a question that fall into one partition are one group, decided under one gate.

use std::sync::atomic::{AtomicU64, Ordering};

use limits::{AMOUNT_MAX, Fingerprint, FingerprintKey, LimitId, Part, Span, Variant};
use ownership::ingress::{AskedLeg, Asking};
use ownership::{Act, Asker, Check, CheckId, Owner as Appointed};
use policy::bounds::LIMITS_PER_CHECK_MAX;
use policy::{Applied, Domain, Matched};
use ring::{PartitionId, RoutingHash, Scope};
use smallvec::SmallVec;

use crate::brought::{self, Places};
use crate::decision::{AskedId, Decision, LegAnswer, NotPut, Question, Reason, Source, Wanted};
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
    pub(crate) legs: SmallVec<[AskedLeg; 2]>,
    pub(crate) groups: SmallVec<[Group; 1]>,
    pub(crate) wanted: Wanted,
    pub(crate) cost: u64,
    pub(crate) revision: u64,
    /// Whether a limit that it brought along is not known and was passed.
    pub(crate) passed: bool,
    name: Name,
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
    /// The owner that may have charged it when it was asked under an earlier match: whatever it comes to now, that charge is
    /// its own.
    pub(crate) spent_at: Option<Appointed>,
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
    act: Act,
    /// The id that the caller knows it by: its own, or that of the earlier charge it speaks of.
    told: CheckId,
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

    /// The id that the caller knows it by.
    pub(crate) const fn told_id(&self) -> CheckId {
        self.name.told
    }

    /// What its owners are to do.
    pub(crate) const fn act(&self) -> Act {
        self.name.act
    }

    /// The number of the next attempt, above that of any so far.
    pub(crate) fn attempt(&self) -> u8 {
        let last = self.groups.iter().map(|group| group.check.attempt).max().unwrap_or(self.name.attempt);
        last.saturating_add(1)
    }

    /// Whether what its owners would say may be known: it spends, and nobody can have decided it before under its id.
    pub(crate) fn is_repeatable(&self) -> bool {
        let Name { attempt, indexed, .. } = self.name;
        self.wanted == Wanted::Spend && self.cost > 0 && attempt == 1 && !indexed
    }

    fn add(&mut self, partition: PartitionId, mut leg: AskedLeg, budget: Span) {
        let name = self.name;
        let place = match self.groups.iter().position(|group| group.partition == partition) {
            Some(place) => place,
            None => {
                let Name { id, asker, attempt, indexed, question, act, told: _ } = name;
                let (revision, legs) = (self.revision, SmallVec::new());
                let check = Check { id, asker, attempt, indexed, revision, question, act, legs };
                self.groups.push(Group {
                    partition,
                    check,
                    budget,
                    asking: None,
                    differs: false,
                    spent_at: None,
                    settled: None,
                });
                self.groups.len() - 1
            }
        };
        let legs = &mut self.groups[place].check.legs;
        // Policies apply at most `MAX_LEGS` limits to one check, so both numbers are small.
        leg.group = place as u8;
        leg.place = legs.len() as u8;
        legs.push(leg.to_check_leg());
        self.legs.push(leg);
    }
}

impl Ingress {
    /// Matches a question with its policy.
    pub(crate) fn plan(&self, policies: &Policies, question: &Question<'_>) -> Plan {
        let Some(keys) = self.keys.get() else { return Plan::Settled(Err(NotPut::UnknownDomain)) };
        self.plan_named(policies, question, self.name(&keys.fingerprint_key, question), keys)
    }

    /// How the question is known to its owners. One that speaks of an earlier charge has an id of its own: where it must not
    /// be done twice, one that follows from what it asks, so that whoever repeats it gets the recorded answer.
    fn name(&self, key: &FingerprintKey, question: &Question<'_>) -> Name {
        let asker = self.made.asker();
        let (subject, attempt, indexed) = match question.id {
            AskedId::Made => (self.made.id(asker), 1, false),
            AskedId::Binary { id, attempt } => (CheckId(id), attempt, false),
            AskedId::Text { text, caller } => (id_of(key, caller, question.domain, text), 1, true),
        };
        let digest = if question.id == AskedId::Made { 0 } else { digest_of(key, question) };
        let act = question.wanted.act(question.cost, subject);
        let named = Name { id: subject, asker, attempt, indexed, question: digest, act, told: subject };
        match act {
            Act::Spend | Act::Peek | Act::UpTo { .. } | Act::Acquire { .. } | Act::Reserve { .. } => named,
            Act::Refund { .. } | Act::Settle { .. } | Act::Release { .. } => {
                Name { id: act_id(key, subject, digest), attempt: 1, indexed: true, ..named }
            }
            Act::Renew { .. } | Act::Reset => Name { id: self.made.id(asker), attempt: 1, indexed: false, ..named },
        }
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
        let (wanted, cost) = (question.wanted, question.cost);
        let Places { known, passed } = match brought::places(domain, question) {
            Ok(places) => places,
            Err(why) => return Plan::Settled(Err(why)),
        };
        let unasked = Unasked { wanted, cost, id: name.told, revision: domain.revision(), passed };
        let (weight, wall) = (weighed_by(wanted, cost), self.owner.wall());
        match domain.matching_with(&question.attributes, weight, wall, &known) {
            Err(_) => Plan::Settled(Err(NotPut::CostTooLarge)),
            Ok(Matched::NoLimit { .. }) => Plan::Settled(match question.limit {
                Some(_) => Err(NotPut::UnknownLimit),
                None => unasked.no_limit(),
            }),
            Ok(Matched::MissingAttribute { limit, .. }) => {
                let leg = missing_leg(limit.id());
                self.count(policies, &leg, cost);
                Plan::Settled(Ok(unasked.missing_attribute(leg)))
            }
            Ok(Matched::Limits(limits)) => {
                let times = name.act.times().unwrap_or(1);
                if limits.cost().checked_mul(times).is_none_or(|all| all > AMOUNT_MAX) {
                    return Plan::Settled(Err(NotPut::CostTooLarge));
                }
                if limits.len() > LIMITS_PER_CHECK_MAX {
                    return Plan::Settled(Err(NotPut::TooManyLimits));
                }
                let (legs, groups, revision) = (SmallVec::new(), SmallVec::new(), domain.revision());
                let mut asks = Asks { legs, groups, wanted, cost, revision, passed, name };
                let chosen = |applied: &Applied<'_>| question.limit.is_none_or(|name| applied.limit().name() == name);
                for applied in limits.iter().filter(chosen) {
                    asks.add(partition_of(keys, domain, &applied), leg_of(keys, &applied), question.budget);
                }
                if asks.legs.is_empty() { Plan::Settled(Err(NotPut::UnknownLimit)) } else { Plan::Asks(asks) }
            }
        }
    }
}

/// A question that no owner needs to be asked.
struct Unasked {
    wanted: Wanted,
    cost: u64,
    id: CheckId,
    revision: u64,
    passed: bool,
}

impl Unasked {
    /// Nothing limits it: what decides is allowed, and there is no earlier charge that could be spoken of.
    fn no_limit(self) -> Result<Decision, NotPut> {
        let granted = match self.wanted {
            Wanted::Spend | Wanted::Peek | Wanted::Acquire { .. } | Wanted::Reserve { .. } => Some(0),
            Wanted::UpTo => Some(self.cost),
            Wanted::Refund | Wanted::Release | Wanted::Reset => None,
            Wanted::Settle { .. } | Wanted::Renew { .. } => return Err(NotPut::UnknownReservation),
        };
        let units = granted.unwrap_or(0);
        Ok(Decision { units, ..self.told(granted.is_some(), Reason::NoLimit, SmallVec::new()) })
    }

    fn missing_attribute(self, leg: LegAnswer) -> Decision {
        self.told(false, Reason::MissingAttribute, SmallVec::from_iter([leg]))
    }

    fn told(self, allowed: bool, reason: Reason, legs: SmallVec<[LegAnswer; 2]>) -> Decision {
        let Unasked { wanted, cost, id, revision, passed } = self;
        let named = (!legs.is_empty()).then_some(0);
        Decision { id, wanted, allowed, units: 0, reason, cost, named, legs, revision, replayed: false, passed }
    }
}

/// The cost that a question's limits are asked for at once; where the owner is told the number of units beside it, that of
/// one.
const fn weighed_by(wanted: Wanted, cost: u64) -> u64 {
    match wanted {
        Wanted::Spend | Wanted::Peek | Wanted::Acquire { .. } | Wanted::Reserve { .. } | Wanted::Renew { .. } => cost,
        Wanted::UpTo | Wanted::Settle { .. } => 1,
        Wanted::Refund | Wanted::Release | Wanted::Reset => 0,
    }
}

fn leg_of(keys: &Keys, applied: &Applied<'_>) -> AskedLeg {
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
        group: 0,
        place: 0,
    }
}

fn missing_leg(limit: LimitId) -> LegAnswer {
    LegAnswer {
        limit,
        variant: Variant::OWN,
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

/// The id of what is done about an earlier charge: the same for whoever asks the same about the same.
fn act_id(key: &FingerprintKey, of: CheckId, question: u64) -> CheckId {
    let (of, question) = (of.0.to_le_bytes(), question.to_le_bytes());
    let bytes = |bytes| Part { kind: limits::PartKind::Text, bytes };
    let Fingerprint([first, second]) =
        Fingerprint::of(key, NO_LIMIT, [Part::text("act"), bytes(&of[..]), bytes(&question[..])]);
    CheckId(u128::from(first) << 64 | u128::from(second))
}

/// What a question asks, whatever the order of its attributes: they are sorted.
fn digest_of(key: &FingerprintKey, question: &Question<'_>) -> u64 {
    let (cost, count) = (question.cost.to_le_bytes(), [question.brought.len() as u8]);
    let limit = question.limit.unwrap_or("");
    let head = ["question", question.wanted.word(), question.domain, limit].map(Part::text);
    let brought = question.brought.iter().flat_map(|limit| [Part::text(limit.name), Part::text(limit.rate)]);
    let number = |bytes| Part { kind: limits::PartKind::Text, bytes };
    let attributes = question.attributes.iter().flat_map(|(name, value)| [Part::text(name), Part::text(value)]);
    Fingerprint::of(
        key,
        NO_LIMIT,
        head.into_iter().chain([number(&cost[..]), number(&count[..])]).chain(attributes).chain(brought),
    )
    .0[0]
}
