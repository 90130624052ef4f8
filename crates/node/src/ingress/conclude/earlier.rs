//! What came of an act that speaks of an earlier charge: whether its owners found it, and what that came to. No failure mode
//! answers for an owner here, since nobody else knows what was charged; and what an owner does late is still wanted, so
//! nothing is taken back.

use ownership::Verdict;
use ownership::ingress::{LegResult, Outcome, Said, combine};
use smallvec::SmallVec;

use crate::decision::{Decision, NotPut, Reason, Wanted};
use crate::ingress::conclude::{answer_of, decision_of, is_reused, outcome_of};
use crate::ingress::plan::{Asks, Group, Leg};

/// The verdicts of all groups.
type Verdicts<'a> = SmallVec<[&'a Verdict; 2]>;

/// The answer to such a question, of which every group is settled.
pub(super) fn conclude(asks: &Asks) -> Result<Decision, NotPut> {
    if is_reused(asks) {
        return Err(NotPut::IdReused);
    }
    let results: SmallVec<[LegResult; 2]> = asks.legs.iter().map(|leg| standing(asks, leg)).collect();
    let legs = asks.legs.iter().zip(&results).map(|(leg, result)| answer_of(asks, leg, result, 0)).collect();
    let (named, told) = (combine(&results).named, decision_of(asks, legs));
    let Some(verdicts) = asks.groups.iter().map(verdict_of).collect::<Option<Verdicts<'_>>>() else {
        return Ok(Decision { named, reason: Reason::Unavailable, ..told });
    };
    let (allowed, units) = found(asks.wanted, &verdicts)?;
    Ok(Decision { named, allowed, units, ..told })
}

/// Whether what was spoken of was found, and what it came to.
fn found(wanted: Wanted, verdicts: &Verdicts<'_>) -> Result<(bool, u64), NotPut> {
    let any = verdicts.iter().any(|verdict| verdict.allowed);
    let most =
        |allowed| verdicts.iter().filter(|verdict| verdict.allowed == allowed).map(|verdict| verdict.units).max();
    match wanted {
        Wanted::Settle { .. } if any => Ok((true, most(true).unwrap_or(0))),
        Wanted::Settle { .. } => match most(false).filter(|reserved| *reserved > 0) {
            Some(reserved) => Err(NotPut::AboveReservation { reserved }),
            None => Err(NotPut::UnknownReservation),
        },
        Wanted::Renew { .. } => {
            // A partition without slots among its limits says yes, for ever.
            let shortest = verdicts.iter().map(|verdict| verdict.units).min().filter(|span| *span < u64::MAX);
            let held = verdicts.iter().all(|verdict| verdict.allowed);
            shortest.filter(|_| held).map(|span| (true, span)).ok_or(NotPut::UnknownReservation)
        }
        Wanted::Release | Wanted::Reset => Ok((any, verdicts.iter().map(|verdict| verdict.units).sum())),
        Wanted::Refund
        | Wanted::Spend
        | Wanted::Peek
        | Wanted::UpTo
        | Wanted::Acquire { .. }
        | Wanted::Reserve { .. } => Ok((any, most(true).unwrap_or(0))),
    }
}

/// How a limit stands now, as far as its owner told.
fn standing(asks: &Asks, leg: &Leg) -> LegResult {
    let verdict = verdict_of(&asks.groups[usize::from(leg.group)]);
    let said = verdict.and_then(|verdict| verdict.legs.get(usize::from(leg.place)));
    LegResult { group: leg.group, shadow: leg.shadow, said: said.map_or(Said::Closed, |said| Said::Owner(*said)) }
}

fn verdict_of(group: &Group) -> Option<&Verdict> {
    match outcome_of(group) {
        Some(Outcome::Decided(verdict)) => Some(verdict),
        Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_)) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(allowed: bool, units: u64) -> Verdict {
        Verdict { allowed, units, replayed: false, recovering: false, legs: SmallVec::new() }
    }

    fn found_by(wanted: Wanted, verdicts: &[Verdict]) -> Result<(bool, u64), NotPut> {
        found(wanted, &verdicts.iter().collect())
    }

    #[test]
    fn a_lease_lasts_as_long_as_its_shortest_part_and_partitions_without_slots_say_nothing() {
        let renew = Wanted::Renew { ttl: None };
        let (no_slots, held, lost) = (verdict(true, u64::MAX), verdict(true, 7), verdict(false, 0));
        assert_eq!(found_by(renew, &[no_slots.clone(), held.clone(), no_slots.clone()]), Ok((true, 7)));
        assert_eq!(found_by(renew, &[held, lost]), Err(NotPut::UnknownReservation));
        assert_eq!(found_by(renew, &[no_slots.clone(), no_slots]), Err(NotPut::UnknownReservation));
    }

    #[test]
    fn a_reserve_over_several_partitions_is_settled_where_any_of_them_had_it_open() {
        let settle = Wanted::Settle { debt: false };
        let (closed, gone, above) = (verdict(true, 3), verdict(false, 0), verdict(false, 9));
        assert_eq!(found_by(settle, &[gone.clone(), closed]), Ok((true, 3)));
        assert_eq!(found_by(settle, &[gone.clone(), above]), Err(NotPut::AboveReservation { reserved: 9 }));
        assert_eq!(found_by(settle, &[gone.clone(), gone]), Err(NotPut::UnknownReservation));
    }
}
