//! One domain at one revision, compiled: from the attributes of a check to the limits that apply and the keys they
//! count by. Nothing is allocated for a check that up to four limits apply to, and the cost does not grow with the
//! number of limits or rules.

use std::cmp::Ordering;

use limits::{AMOUNT_MAX, Algorithm, DomainId, FailMode, LimitId, Part, PartKind, Rate, Shape, ShapeId, Variant};
use smallvec::SmallVec;

use crate::attributes::Attributes;
use crate::bounds::{ATTRIBUTES_NAMED_MAX, KEY_PARTS_MAX};
use crate::document::{Dialect, Document, Missing, Mode, RuleSpec};
use crate::index::{Index, Seated};
use crate::share;

/// An attribute that a check does not have.
const ABSENT: u8 = u8::MAX;

/// The compiled policy of one domain.
#[derive(Debug)]
pub struct Domain {
    name: Box<str>,
    id: DomainId,
    revision: u64,
    headers: Box<[Dialect]>,
    /// The attributes that limits and rules name, sorted; their places here are the slots of everything below.
    attributes: Box<[Box<str>]>,
    limits: Box<[Limit]>,
    rules: Rules,
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
    /// What the owner decides with.
    shape_id: ShapeId,
    missing: Missing,
    fail: FailMode,
    when_full: FailMode,
    key: Slots,
    route: Option<Slots>,
    name: Box<str>,
    numbers: Box<Numbers>,
}

/// The numbers of a limit.
#[derive(Debug)]
struct Numbers {
    /// What the owner decides with.
    owners: Shape,
    /// As the document has it, reserve included.
    whole: Shape,
    allotted_at: u64,
}

/// The slots of a key or of a route, in order.
#[derive(Debug)]
struct Slots {
    len: u8,
    slots: [u8; KEY_PARTS_MAX],
}

impl Slots {
    fn of(names: &[String], slot: &dyn Fn(&str) -> u8) -> Slots {
        let mut slots = [0; KEY_PARTS_MAX];
        slots.iter_mut().zip(names).for_each(|(place, name)| *place = slot(name));
        debug_assert!(names.len() <= KEY_PARTS_MAX, "a document's key has so many parts at most");
        Slots { len: names.len() as u8, slots }
    }

    fn iter(&self) -> std::slice::Iter<'_, u8> {
        self.slots[..usize::from(self.len)].iter()
    }
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

    /// The id of the owner's shape in the catalogue's [`limits::Shapes`].
    pub fn shape_id(&self) -> ShapeId {
        self.shape_id
    }

    /// What the owner decides with; of a limit with a reserved emergency share, the rest.
    pub fn shape(&self) -> &Shape {
        &self.numbers.owners
    }

    /// Burst, or the window's amount, as the owner decides; `u64::MAX` when unlimited.
    pub fn capacity(&self) -> u64 {
        self.numbers.owners.capacity().unwrap_or(u64::MAX)
    }

    /// The rate as the document has it; `None` when unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.numbers.whole.rate
    }

    /// How it counts, with the burst as the document has it.
    pub fn algorithm(&self) -> Algorithm {
        self.numbers.whole.algorithm
    }

    /// The log entry at which the control plane allotted its id.
    pub fn allotted_at(&self) -> u64 {
        self.numbers.allotted_at
    }

    /// The shape of the small limiter with which one of at most `nodes_max` nodes answers when no owner can: the share
    /// of amount and burst, divided among the nodes and rounded down. `None` unless the failure mode is `emergency`.
    pub fn emergency_shape(&self, nodes_max: u32) -> Option<Shape> {
        share::emergency_part(self.numbers.whole, self.fail, nodes_max)
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
        /// The attribute it lacks.
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
    applications: SmallVec<[Application; 4]>,
}

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
        self.applications.len()
    }

    /// Never: without limits it is [`Matched::NoLimit`].
    pub fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    /// The limits with their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Applied<'_>> {
        self.applications.iter().map(|application| self.applied(*application))
    }

    fn applied(&self, application: Application) -> Applied<'_> {
        let limit = &self.domain.limits[application.limit as usize];
        Applied { limit, shadow: application.shadow, cost: self.cost, seats: &self.seats }
    }
}

/// One limit as it applies to one check.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'x> {
    limit: &'x Limit,
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

    /// Which of the limit's numbers apply: its own, its plan's, or an override's.
    pub fn variant(&self) -> Variant {
        Variant::OWN
    }

    /// The parts of the key, in the order of the document. An attribute that is missing and counted as anonymous is a
    /// part of text without bytes, which no value can spell.
    pub fn key(&self) -> Parts<'x> {
        Parts { slots: self.limit.key.iter(), seats: self.seats }
    }

    /// The parts of the key that route it within the domain; `None` when the limit has no `route:`, so that its id and
    /// its whole key route it. They depend on the limit and the attributes alone: never on rule, mode or cost.
    pub fn route(&self) -> Option<Parts<'x>> {
        self.limit.route.as_ref().map(|slots| Parts { slots: slots.iter(), seats: self.seats })
    }
}

/// The parts of a key or of a route.
#[derive(Clone, Debug)]
pub struct Parts<'x> {
    slots: std::slice::Iter<'x, u8>,
    seats: &'x Seats<'x>,
}

impl<'x> Iterator for Parts<'x> {
    type Item = Part<'x>;

    fn next(&mut self) -> Option<Part<'x>> {
        self.slots.next().map(|slot| self.seats.part(*slot))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Parts<'_> {}

/// Where each attribute that the domain names stands among those of the check.
#[derive(Debug)]
struct Seats<'m> {
    attributes: &'m Attributes<'m>,
    places: [u8; ATTRIBUTES_NAMED_MAX],
}

impl<'m> Seats<'m> {
    /// Both lists are sorted by name, so one walk finds all. Attributes that the domain does not name are ignored.
    fn of(attributes: &'m Attributes<'m>, named: &[Box<str>]) -> Seats<'m> {
        let mut places = [ABSENT; ATTRIBUTES_NAMED_MAX];
        let mut slot = 0;
        for (place, (name, _)) in (0..).zip(attributes.iter()) {
            while let Some(order) = named.get(slot).map(|wanted| (**wanted).cmp(name))
                && order != Ordering::Greater
            {
                if order == Ordering::Equal {
                    places[slot] = place;
                }
                slot += 1;
            }
        }
        Seats { attributes, places }
    }

    fn has(&self, slot: u8) -> bool {
        self.places[usize::from(slot)] != ABSENT
    }

    fn part(&self, slot: u8) -> Part<'_> {
        match self.places[usize::from(slot)] {
            ABSENT => Part { kind: PartKind::Text, bytes: &[] },
            place => self.attributes.part_at(usize::from(place)),
        }
    }
}

impl Seated for Seats<'_> {
    fn bytes(&self, slot: u8) -> Option<&[u8]> {
        let place = self.places[usize::from(slot)];
        (place != ABSENT).then(|| self.attributes.matched_at(usize::from(place)))
    }
}

/// What one limit is for one check.
enum Standing {
    Applies,
    Skipped,
    Lacks(u8),
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
        limit.key.iter().map(|slot| &*self.attributes[usize::from(*slot)])
    }

    /// The limits that apply to a check with these attributes and this cost.
    ///
    /// # Errors
    ///
    /// [`CostOutOfRange`] when the cost times the rule's cost is above [`AMOUNT_MAX`].
    pub fn matching<'m>(&'m self, attributes: &'m Attributes<'m>, cost: u64) -> Result<Matched<'m>, CostOutOfRange> {
        let seats = Seats::of(attributes, &self.attributes);
        let (rule, factor, candidates) = match &self.rules {
            Rules::None(all) => (None, 1, &**all),
            Rules::First { index, rules } => match index.first(&seats) {
                None => return Ok(Matched::NoLimit { rule: None }),
                Some(number) => {
                    let rule = &rules[number as usize];
                    (Some(&*rule.name), rule.cost, &*rule.applications)
                }
            },
        };
        let total = cost.checked_mul(factor).filter(|total| *total <= AMOUNT_MAX);
        let cost = total.ok_or_else(|| CostOutOfRange { cost, factor, rule: rule.unwrap_or_default().to_owned() })?;
        Ok(self.applying(rule, candidates, cost, seats))
    }

    fn applying<'m>(
        &'m self,
        rule: Option<&'m str>,
        candidates: &[Application],
        cost: u64,
        seats: Seats<'m>,
    ) -> Matched<'m> {
        let mut applications = SmallVec::new();
        for &application in candidates {
            let limit = &self.limits[application.limit as usize];
            match limit.standing(&seats) {
                Standing::Applies => applications.push(application),
                Standing::Skipped => {}
                // A shadow limit never refuses, and without a key there is nothing it could count.
                Standing::Lacks(_) if application.shadow => {}
                Standing::Lacks(slot) => {
                    let attribute = &self.attributes[usize::from(slot)];
                    return Matched::MissingAttribute { rule, limit, attribute };
                }
            }
        }
        if applications.is_empty() {
            return Matched::NoLimit { rule };
        }
        Matched::Limits(Limits { domain: self, rule, cost, seats, applications })
    }
}

impl Limit {
    fn standing(&self, seats: &Seats<'_>) -> Standing {
        match (self.key.iter().find(|slot| !seats.has(**slot)), self.missing) {
            (None, _) | (Some(_), Missing::Anonymous) => Standing::Applies,
            (Some(_), Missing::Skip) => Standing::Skipped,
            (Some(slot), Missing::Deny) => Standing::Lacks(*slot),
        }
    }
}

/// What a limit of the document is in the catalogue.
pub(crate) struct Listed {
    pub(crate) id: LimitId,
    pub(crate) allotted_at: u64,
}

/// Compiling.
impl Domain {
    /// `listed` gives the identity of each limit, `intern` the id of a shape.
    pub(crate) fn compile<E>(
        document: &Document,
        id: DomainId,
        revision: u64,
        mut listed: impl FnMut(&str) -> Result<Listed, E>,
        mut intern: impl FnMut(Shape) -> ShapeId,
    ) -> Result<Domain, E> {
        let attributes: Box<[Box<str>]> = document.attributes().into_iter().map(Box::from).collect();
        let slot = |name: &str| slot_of(&attributes, name);
        let mut limits = Vec::with_capacity(document.limits.len());
        for spec in &document.limits {
            let Listed { id: limit, allotted_at } = listed(&spec.name)?;
            let (rate, algorithm, basis) = (spec.rate, spec.algorithm, spec.fail.basis());
            let whole = Shape { limit, domain: id, rate, algorithm, basis };
            let owners = share::owners_part(whole, spec.fail);
            limits.push(Limit {
                id: limit,
                shape_id: intern(owners),
                missing: spec.missing,
                fail: spec.fail,
                when_full: spec.when_full,
                key: Slots::of(&spec.key, &slot),
                route: spec.route.as_ref().map(|route| Slots::of(route, &slot)),
                name: spec.name.as_str().into(),
                numbers: Box::new(Numbers { owners, whole, allotted_at }),
            });
        }
        let rules = match &document.rules {
            None => Rules::None(applications(document, 0..document.limits.len() as u32, Mode::Enforce).collect()),
            Some(rules) => compile_rules(document, rules, &slot),
        };
        let (name, headers) = (document.domain.as_str().into(), document.headers.as_slice().into());
        Ok(Domain { name, id, revision, headers, limits: limits.into(), rules, attributes })
    }
}

fn slot_of(attributes: &[Box<str>], name: &str) -> u8 {
    let place = attributes.binary_search_by(|other| (**other).cmp(name)).expect("every attribute named has a slot");
    u8::try_from(place).expect("a document names at most ATTRIBUTES_NAMED_MAX attributes")
}

fn compile_rules(document: &Document, specs: &[RuleSpec], slot: &dyn Fn(&str) -> u8) -> Rules {
    let rule = |spec: &RuleSpec| Rule {
        name: spec.name.as_str().into(),
        cost: spec.cost,
        applications: applications(document, spec.limits.iter().copied(), spec.mode).collect(),
    };
    Rules::First { index: Index::build(specs, slot), rules: specs.iter().map(rule).collect() }
}

/// Limits with the weaker of their own mode and `mode`, without those that are off.
fn applications(
    document: &Document,
    limits: impl Iterator<Item = u32>,
    mode: Mode,
) -> impl Iterator<Item = Application> {
    limits.filter_map(move |limit| match document.limits[limit as usize].mode.max(mode) {
        Mode::Enforce => Some(Application { limit, shadow: false }),
        Mode::Shadow => Some(Application { limit, shadow: true }),
        Mode::Off => None,
    })
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
