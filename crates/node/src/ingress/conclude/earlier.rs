//! What came of an act that speaks of an earlier charge, in the words of the API. What an owner does late is still wanted, so
//! nothing is taken back.

use ownership::Verdict;
use ownership::ingress::{AskedLeg, Found, LegResult, Outcome, Said, combine, found};
use smallvec::SmallVec;

use crate::decision::{Decision, NotPut, Reason};
use crate::ingress::conclude::{answer_of, decision_of, outcome_of};
use crate::ingress::plan::{Asks, Group};

/// The verdicts of all groups.
type Verdicts<'a> = SmallVec<[&'a Verdict; 2]>;

/// The answer to such a question, of which every group is settled.
pub(super) fn conclude(asks: &Asks) -> Result<Decision, NotPut> {
    if asks.groups.iter().any(|group| outcome_of(group) == Some(&Outcome::IdReused)) {
        return Err(NotPut::IdReused);
    }
    let results: SmallVec<[LegResult; 2]> = asks.legs.iter().map(|leg| standing(asks, leg)).collect();
    let legs = asks.legs.iter().zip(&results).map(|(leg, result)| answer_of(asks, leg, result)).collect();
    let (named, told) = (combine(&results).named, decision_of(asks, legs));
    let Some(verdicts) = asks.groups.iter().map(verdict_of).collect::<Option<Verdicts<'_>>>() else {
        return Ok(Decision { named, reason: Reason::Unavailable, ..told });
    };
    match found(asks.act(), verdicts.iter().copied()) {
        Found::Done { allowed, units } => Ok(Decision { named, allowed, units, ..told }),
        Found::Above { reserved } => Err(NotPut::AboveReservation { reserved }),
        Found::NotHeld => Err(NotPut::UnknownReservation),
    }
}

/// How a limit stands now, as far as its owner told.
fn standing(asks: &Asks, leg: &AskedLeg) -> LegResult {
    let verdict = verdict_of(&asks.groups[usize::from(leg.group)]);
    let said = verdict.and_then(|verdict| verdict.legs.get(usize::from(leg.place)));
    LegResult { group: leg.group, shadow: leg.shadow, said: said.map_or(Said::Closed, |said| Said::Owner(*said)) }
}

fn verdict_of(group: &Group) -> Option<&Verdict> {
    match outcome_of(group) {
        Some(Outcome::Decided(verdict)) => Some(verdict),
        Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Stale { .. } | Outcome::Failed(_)) | None => None,
    }
}
