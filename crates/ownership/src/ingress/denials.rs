//! Denials that an ingress repeats without asking. An owner says of a denial for how long it is certain; until then the same
//! question gets the same answer here, with its waits shortened by the time that has passed, and its owner is left in peace.
//! Nothing is ever admitted from here. A denial counts under the policy revision, and as long as the owners are those, that
//! it was made under; who asks under an id that may have been decided before is never answered from here.

use limits::{LegDecision, Moment, Span, Wait};
use smallvec::SmallVec;

use crate::check::{CheckLeg, Verdict};
use crate::ingress::conclude::AskedLeg;
use crate::route::Owner;

/// The most denials that one ingress remembers. Two questions that fall onto one place push each other out.
pub const DENIALS_MAX: usize = 4_096;

/// What of a span is sure to have passed, or still to be left, by a clock that two others may differ from: each is allowed
/// 1 % (the lease's `rho`).
const SURE: (u64, u64) = (98, 100);

/// The denials of one ingress.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    /// Made with the first denial.
    places: Vec<Option<Denial>>,
    held: usize,
    /// When all were forgotten last: what answers a question that was sent no later may come from before.
    cleared: Option<Moment>,
}

/// One question that was denied.
#[derive(Clone, Debug)]
struct Denial {
    legs: SmallVec<[CheckLeg; 2]>,
    revision: u64,
    groups: SmallVec<[Heard; 1]>,
    heard: Moment,
    until: Moment,
}

/// What the owner of one group said, and when its question was sent.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Who said it.
    pub owner: Owner,
    /// What.
    pub verdict: Verdict,
    /// When what it answers was sent, by the clock that the denials are read by.
    pub sent: Moment,
}

impl Denials {
    /// None.
    pub fn new() -> Denials {
        Denials::default()
    }

    /// Denials that are remembered, those whose time is over among them.
    pub const fn len(&self) -> usize {
        self.held
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Remembers what the owners of a question's groups said to its limits, in the order of the groups, if it is a denial
    /// that is certain for a while. The question is one to spend its costs, matched at `revision`. Answers until when it is
    /// certain; `None` where nothing was learned.
    pub fn learn(
        &mut self,
        legs: &[AskedLeg],
        revision: u64,
        groups: SmallVec<[Heard; 1]>,
        now: Moment,
    ) -> Option<Moment> {
        if self.cleared.is_some_and(|cleared| groups.iter().any(|heard| heard.sent <= cleared)) {
            return None;
        }
        let refusing = groups.iter().filter(|heard| !heard.verdict.allowed);
        let end = |heard: &Heard| heard.sent.saturating_add(heard.verdict.cacheable.scaled(SURE.0, SURE.1));
        let until = refusing.map(end).min().filter(|until| *until > now)?;
        if self.places.is_empty() {
            self.places.resize(DENIALS_MAX, None);
        }
        let place = &mut self.places[place_of(legs)];
        self.held += usize::from(place.is_none());
        let legs = legs.iter().map(|leg| leg.to_check_leg()).collect();
        *place = Some(Denial { legs, revision, groups, heard: now, until });
        Some(until)
    }

    /// What the owners of such a question's groups would say, in the order of the groups, if all that is known: `owner_of`
    /// tells who owns each group by now.
    pub fn find(
        &self,
        legs: &[AskedLeg],
        revision: u64,
        owner_of: impl Fn(usize) -> Option<Owner>,
        now: Moment,
    ) -> Option<SmallVec<[Heard; 1]>> {
        let denial = self.places.get(place_of(legs))?.as_ref()?;
        let same = denial.revision == revision
            && denial.legs.len() == legs.len()
            && denial.legs.iter().zip(legs).all(|(known, asked)| *known == asked.to_check_leg());
        let mut owners = denial.groups.iter().enumerate();
        if !same || now >= denial.until || !owners.all(|(group, heard)| owner_of(group) == Some(heard.owner)) {
            return None;
        }
        let passed = now.since(denial.heard).scaled(SURE.0, SURE.1);
        Some(denial.groups.iter().map(|heard| heard.later_by(passed)).collect())
    }

    /// Forgets all of them: something was done that no owner foresaw. What is still under way from before is not learned.
    pub fn clear(&mut self, now: Moment) {
        self.cleared = Some(now);
        self.places.clear();
        self.held = 0;
    }
}

impl Heard {
    fn later_by(&self, passed: Span) -> Heard {
        let legs = self.verdict.legs.iter().map(|said| later(said, passed)).collect();
        Heard { verdict: Verdict { legs, cacheable: Span::ZERO, ..self.verdict.clone() }, ..self.clone() }
    }
}

/// What a limit says when so much time has passed and nothing else.
fn later(said: &LegDecision, passed: Span) -> LegDecision {
    let wait = match said.wait {
        Wait::After(wait) => Wait::After(wait.saturating_sub(passed)),
        Wait::Now => Wait::Now,
        Wait::Never => Wait::Never,
    };
    let next_unit_after = said.next_unit_after.map(|unit| unit.saturating_sub(passed));
    LegDecision { wait, reset_after: said.reset_after.saturating_sub(passed), next_unit_after, ..*said }
}

/// Fingerprints are keyed hashes, so nobody can aim at a place.
fn place_of(legs: &[AskedLeg]) -> usize {
    let mixed = |place: u64, leg: &AskedLeg| place.rotate_left(5) ^ leg.key.0[0] ^ leg.cost;
    legs.iter().fold(0, mixed) as usize % DENIALS_MAX
}
