//! One domain at one revision, compiled: from the attributes of a check to the limits that apply and the keys they
//! count by. Nothing is allocated for a check that up to four limits apply to, and the cost does not grow with the
//! number of limits or rules.

mod compile;
mod seats;
mod variations;

use limits::{AMOUNT_MAX, Algorithm, BookEntry, DomainId, FailMode, LimitId, Rate, Shape, ShapeId, Variant, WallTime};
use smallvec::SmallVec;

use crate::address::IpPrefixes;
use crate::attributes::{Attributes, PLAN};
use crate::document::{Dialect, Missing};
use crate::index::Index;
use crate::inline::{Inline, InlineLimit, InlineRefusal};
use crate::share;

use seats::{Named, Seats, Slots};
use variations::{Measure, Overrides, Plans, Variation};

pub(crate) use compile::Listed;
pub use seats::Parts;

/// The compiled policy of one domain.
#[derive(Debug)]
pub struct Domain {
    name: Box<str>,
    id: DomainId,
    revision: u64,
    headers: Box<[Dialect]>,
    inline: Option<Inline>,
    named: Named,
    limits: Box<[Limit]>,
    /// Those of the limits that checks brought along, with their places.
    brought: Box<[(u32, InlineLimit)]>,
    /// What they brought along and does not fit, by name.
    left_out: Box<[(String, InlineRefusal)]>,
    rules: Rules,
    plans: Plans,
    overrides: Overrides,
    /// The numbers of all plans and overrides.
    variations: Box<[Variation]>,
}

/// What picks the limits of a check.
#[derive(Debug)]
enum Rules {
    /// No `rules:`: these limits apply to every check.
    None(Applications),
    /// The first rule that matches.
    First { index: Index, rules: Box<[Rule]> },
}

#[derive(Debug)]
struct Rule {
    name: Box<str>,
    cost: u64,
    applications: Applications,
}

/// The limits that a rule applies; most rules have few, and keep them where they are read anyway.
type Applications = SmallVec<[Application; 3]>;

/// A limit that a rule names, with the weaker of their modes; those that are off are left out.
#[derive(Clone, Copy, Debug)]
struct Application {
    limit: u32,
    shadow: bool,
}

/// One limit, compiled. What matching reads fits into a cache line; the rest stands apart.
#[derive(Debug)]
pub struct Limit {
    id: LimitId,
    missing: Missing,
    fail: FailMode,
    when_full: FailMode,
    key: Slots,
    route: Option<Slots>,
    /// Which of the domain's pairs of prefixes it counts addresses by.
    prefixes: u8,
    /// Whether it has numbers for checks without a plan.
    has_own: bool,
    is_by_plan: bool,
    is_overridden: bool,
    name: Box<str>,
    numbers: Box<LimitNumbers>,
}

/// The numbers of a limit.
#[derive(Debug)]
struct LimitNumbers {
    own: Measure,
    /// Places of plans' numbers among the domain's variations, by variant.
    rows: Box<[(Variant, u32)]>,
    allotted_at: u64,
}

impl Limit {
    /// Its identity.
    pub fn id(&self) -> LimitId {
        self.id
    }

    /// Its name in the document.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the ingress says when no owner can answer.
    pub fn fail(&self) -> &FailMode {
        &self.fail
    }

    /// What is said about a new key when the domain's keys are all in use: the failure mode unless the document says.
    pub fn when_full(&self) -> &FailMode {
        &self.when_full
    }

    /// Whether its numbers come from the plan of a check. Then its own, below, are those of the plan `default`; without
    /// such a row no check goes by them, and they refuse everything.
    pub fn is_by_plan(&self) -> bool {
        self.is_by_plan
    }

    /// The id of the shape of its own numbers, as the owner decides, in the catalogue's [`limits::Shapes`].
    pub fn shape_id(&self) -> ShapeId {
        self.numbers.own.shape_id
    }

    /// Its own numbers as the owner decides; of a limit with a reserved emergency share, the rest.
    pub fn shape(&self) -> &Shape {
        &self.numbers.own.owners
    }

    /// Burst, the window's amount or slots, of its own numbers as the owner decides; `u64::MAX` when unlimited.
    pub fn capacity(&self) -> u64 {
        self.numbers.own.owners.capacity().unwrap_or(u64::MAX)
    }

    /// Its own rate as the document has it; `None` when unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.numbers.own.whole.rate
    }

    /// How it counts its own, with the burst as the document has it.
    pub fn algorithm(&self) -> Algorithm {
        self.numbers.own.whole.algorithm
    }

    /// The log entry at which the control plane allotted its id.
    pub fn allotted_at(&self) -> u64 {
        self.numbers.allotted_at
    }

    /// Of its own numbers, the shape of the small limiter with which one of at most `nodes_max` nodes answers when no owner can: the share
    /// of amount and burst, divided among the nodes and rounded down. `None` unless the failure mode is `emergency`.
    pub fn emergency_shape(&self, nodes_max: u32) -> Option<Shape> {
        share::emergency_part(self.numbers.own.whole, self.fail, nodes_max)
    }
}

/// What applies to a check.
#[derive(Debug)]
pub enum Matched<'m> {
    /// No rule matched, or the one that did leaves no limit: allowed with reason `no_limit`.
    NoLimit {
        /// The rule that matched, if one did.
        rule: Option<&'m str>,
    },
    /// An enforced limit counts by an attribute that the check lacks: denied with reason `missing_attribute`.
    MissingAttribute {
        /// The rule that matched; `None` in a domain without rules.
        rule: Option<&'m str>,
        /// The limit that refuses.
        limit: &'m Limit,
        /// The attribute it lacks; `plan` also where the check's plan is none that the policy knows.
        attribute: &'m str,
    },
    /// These limits are to be asked.
    Limits(Limits<'m>),
}

/// The cost of a check times the cost of its rule is above [`AMOUNT_MAX`]. The caller's doing; nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cost {cost} times {factor}, the cost of rule `{rule}`, is more than {AMOUNT_MAX}")]
pub struct CostOutOfRange {
    /// The check's own cost.
    pub cost: u64,
    /// The rule's cost; 1 in a domain without rules.
    pub factor: u64,
    /// The rule; empty in a domain without rules.
    pub rule: String,
}

/// The limits that apply to one check, in the order of the rule; at least one.
#[derive(Debug)]
pub struct Limits<'m> {
    domain: &'m Domain,
    rule: Option<&'m str>,
    cost: u64,
    seats: Seats<'m>,
    chosen: SmallVec<[Chosen; 4]>,
}

/// A limit that applies, and which of its numbers.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    limit: u32,
    /// A place among the domain's variations, or [`OWN`].
    numbers: u32,
    shadow: bool,
}

/// A limit's own numbers.
const OWN: u32 = u32::MAX;

impl<'m> Limits<'m> {
    /// The rule that matched; `None` in a domain without rules.
    pub fn rule(&self) -> Option<&'m str> {
        self.rule
    }

    /// What each limit is charged: the check's cost times the rule's. 0 is a peek.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How many limits apply.
    pub fn len(&self) -> usize {
        self.chosen.len()
    }

    /// Never: without limits it is [`Matched::NoLimit`].
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// The limits with their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Applied<'_>> {
        self.chosen.iter().map(|chosen| self.applied(*chosen))
    }

    fn applied(&self, chosen: Chosen) -> Applied<'_> {
        let variation = self.domain.variations.get(chosen.numbers as usize);
        let limit = &self.domain.limits[chosen.limit as usize];
        Applied { limit, variation, shadow: chosen.shadow, cost: self.cost, seats: &self.seats }
    }
}

/// One limit as it applies to one check.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'x> {
    limit: &'x Limit,
    /// The numbers of a plan or an override, if they apply.
    variation: Option<&'x Variation>,
    shadow: bool,
    cost: u64,
    seats: &'x Seats<'x>,
}

impl<'x> Applied<'x> {
    /// The limit.
    pub fn limit(&self) -> &'x Limit {
        self.limit
    }

    /// The limit's identity.
    pub fn id(&self) -> LimitId {
        self.limit.id
    }

    /// Whether it is only counted and never refuses.
    pub fn shadow(&self) -> bool {
        self.shadow
    }

    /// Units to charge: the check's cost times the rule's, at most [`AMOUNT_MAX`]; 0 is a peek.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Which of the limit's numbers apply: its own, its plan's, or an override's. An owner looks them up at the revision
    /// that it has applied.
    pub fn variant(&self) -> Variant {
        self.variation.map_or(Variant::OWN, |variation| variation.variant)
    }

    /// Those numbers as the document has them, of which an emergency share is a part.
    pub fn whole(&self) -> &'x Shape {
        &self.measure().whole
    }

    /// Those numbers as the owner decides; with a reserved emergency share, the rest.
    pub fn shape(&self) -> &'x Shape {
        &self.measure().owners
    }

    fn measure(&self) -> &'x Measure {
        self.variation.map_or(&self.limit.numbers.own, |variation| &variation.measure)
    }

    /// The parts of the key, in the order of the document. An attribute that is missing and counted as anonymous is a
    /// part of text without bytes, which no value can spell.
    pub fn key(&self) -> Parts<'x> {
        self.limit.parts(&self.limit.key, self.seats)
    }

    /// The parts of the key that route it within the domain; `None` when the limit has no `route:`, so that its id and
    /// its whole key route it. They depend on the limit and the attributes alone: never on rule, mode, cost, plan or
    /// override.
    pub fn route(&self) -> Option<Parts<'x>> {
        self.limit.route.as_ref().map(|slots| self.limit.parts(slots, self.seats))
    }
}

/// What one limit is for one check.
enum Standing<'m> {
    /// With the numbers at this place among the domain's variations, or with its own.
    Applies(u32),
    Skipped,
    Lacks(&'m str),
}

impl Domain {
    /// The domain's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in this process.
    pub fn id(&self) -> DomainId {
        self.id
    }

    /// The revision of the document it was compiled from.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The header dialects to answer in.
    pub fn headers(&self) -> &[Dialect] {
        &self.headers
    }

    /// Its limits, in the order of the document.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The names of the attributes that one of its limits counts by, in the order of the document.
    pub fn key_names<'d>(&'d self, limit: &'d Limit) -> impl Iterator<Item = &'d str> {
        limit.key.iter().map(|slot| &*self.named.names[usize::from(*slot)])
    }

    /// By which prefixes one of its limits counts addresses, where it counts by them.
    pub fn key_prefixes(&self, limit: &Limit) -> IpPrefixes {
        self.named.prefixes.get(usize::from(limit.prefixes)).copied().unwrap_or_default()
    }

    /// Whether rates may come with the check, and which.
    pub fn inline(&self) -> Option<&Inline> {
        self.inline.as_ref()
    }

    /// A limit that checks brought along, by its name: its place for [`Domain::matching_with`], and what it is.
    pub fn brought(&self, name: &str) -> Option<(u32, &InlineLimit)> {
        self.brought.iter().find(|(_, limit)| limit.name() == name).map(|(place, limit)| (*place, limit))
    }

    /// How many limits checks brought along, those that do not fit among them.
    pub fn inline_defined(&self) -> usize {
        self.brought.len() + self.left_out.len()
    }

    /// Why a limit that checks brought along is not among the domain's, if it was defined and does not fit.
    pub fn left_out(&self, name: &str) -> Option<&InlineRefusal> {
        self.left_out.iter().find(|(other, _)| other == name).map(|(_, why)| why)
    }

    /// What owners look up: each limit with each of its numbers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (LimitId, Variant, BookEntry)> + '_ {
        let own = self.limits.iter().filter(|limit| limit.has_own);
        let own = own.map(|limit| (limit.id, Variant::OWN, limit.shape_id(), limit.allotted_at()));
        let varied = self.variations.iter();
        let varied = varied.map(|it| (it.limit, it.variant, it.measure.shape_id, it.allotted_at));
        let revision = self.revision;
        own.chain(varied).map(move |(limit, variant, shape, allotted_at)| {
            (limit, variant, BookEntry { shape, allotted_at, revision })
        })
    }

    /// The limits that apply to a check with these attributes and this cost, at this cluster time: overrides end by it.
    ///
    /// # Errors
    ///
    /// [`CostOutOfRange`] when the cost times the rule's cost is above [`AMOUNT_MAX`].
    pub fn matching<'m>(
        &'m self,
        attributes: &'m Attributes<'m>,
        cost: u64,
        wall: Option<WallTime>,
    ) -> Result<Matched<'m>, CostOutOfRange> {
        self.matching_with(attributes, cost, wall, &[])
    }

    /// The same for a check that brings limits along, which apply beside those that the rule names: at most
    /// [`LIMITS_PER_CHECK_MAX`](crate::bounds::LIMITS_PER_CHECK_MAX) together, the document's first.
    ///
    /// # Errors
    ///
    /// As [`Domain::matching`].
    ///
    /// # Panics
    ///
    /// If one of `brought` is not the place of a limit of this domain.
    pub fn matching_with<'m>(
        &'m self,
        attributes: &'m Attributes<'m>,
        cost: u64,
        wall: Option<WallTime>,
        brought: &[u32],
    ) -> Result<Matched<'m>, CostOutOfRange> {
        let seats = Seats::of(attributes, &self.named);
        let (rule, factor, candidates) = match &self.rules {
            Rules::None(all) => (None, 1, &**all),
            Rules::First { index, rules } => match index.first(&seats) {
                None if brought.is_empty() => return Ok(Matched::NoLimit { rule: None }),
                None => (None, 1, &[][..]),
                Some(number) => {
                    let rule = &rules[number as usize];
                    (Some(&*rule.name), rule.cost, &*rule.applications)
                }
            },
        };
        let total = cost.checked_mul(factor).filter(|total| *total <= AMOUNT_MAX);
        let cost = total.ok_or_else(|| CostOutOfRange { cost, factor, rule: rule.unwrap_or_default().to_owned() })?;
        let brought = brought.iter().map(|limit| Application { limit: *limit, shadow: false });
        Ok(self.applying(rule, candidates.iter().copied().chain(brought), cost, seats, wall))
    }

    fn applying<'m>(
        &'m self,
        rule: Option<&'m str>,
        candidates: impl Iterator<Item = Application>,
        cost: u64,
        seats: Seats<'m>,
        wall: Option<WallTime>,
    ) -> Matched<'m> {
        let mut chosen = SmallVec::new();
        for Application { limit: number, shadow } in candidates {
            match self.standing(number, &seats, wall) {
                Standing::Applies(numbers) => chosen.push(Chosen { limit: number, numbers, shadow }),
                Standing::Skipped => {}
                // A shadow limit never refuses, and without a key there is nothing it could count.
                Standing::Lacks(_) if shadow => {}
                Standing::Lacks(attribute) => {
                    return Matched::MissingAttribute { rule, limit: &self.limits[number as usize], attribute };
                }
            }
        }
        if chosen.is_empty() {
            return Matched::NoLimit { rule };
        }
        Matched::Limits(Limits { domain: self, rule, cost, seats, chosen })
    }

    fn standing(&self, number: u32, seats: &Seats<'_>, wall: Option<WallTime>) -> Standing<'_> {
        let limit = &self.limits[number as usize];
        let lacking = match limit.key.iter().find(|slot| !seats.has(**slot)) {
            None => None,
            Some(_) if limit.missing == Missing::Anonymous => None,
            Some(slot) => Some(&*self.named.names[usize::from(*slot)]),
        };
        let numbers = if lacking.is_none() { self.numbers_for(number, limit, seats, wall) } else { None };
        match (numbers, limit.missing) {
            (Some(numbers), _) => Standing::Applies(numbers),
            (None, Missing::Skip) => Standing::Skipped,
            (None, Missing::Deny | Missing::Anonymous) => Standing::Lacks(lacking.unwrap_or(PLAN)),
        }
    }

    /// The numbers that a check goes by; none where they hang on a plan that it does not have.
    fn numbers_for(&self, number: u32, limit: &Limit, seats: &Seats<'_>, wall: Option<WallTime>) -> Option<u32> {
        if limit.is_overridden
            && let Some(place) = self.overrides.find(number, &limit.parts(&limit.key, seats), wall)
        {
            return Some(place);
        }
        if limit.is_by_plan
            && let Some(plan) = self.plans.of(seats)
            && let Ok(row) = limit.numbers.rows.binary_search_by_key(&plan, |(variant, _)| *variant)
        {
            return Some(limit.numbers.rows[row].1);
        }
        limit.has_own.then_some(OWN)
    }
}

impl Limit {
    fn parts<'x>(&'x self, slots: &'x Slots, seats: &'x Seats<'x>) -> Parts<'x> {
        Parts { slots: slots.iter(), prefixes: self.prefixes, seats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matching_reads_of_a_limit_and_of_a_rule_is_one_cache_line_each() {
        assert!(size_of::<Limit>() <= 64, "{}", size_of::<Limit>());
        assert!(size_of::<Rule>() <= 64, "{}", size_of::<Rule>());
    }
}
