//! What the acts of a case have in common, whichever way carries them out.

use limits::AMOUNT_MAX;

use super::case::Act;
use super::policies::AppliedLeg;
use super::run::Cannot;

impl Act {
    /// Units asked for; one where the act speaks of none.
    pub fn cost(&self) -> i128 {
        match self {
            Act::Check { cost, .. }
            | Act::UpTo { cost }
            | Act::Peek { cost, .. }
            | Act::Reserve { cost, .. }
            | Act::Settle { cost, .. }
            | Act::Acquire { cost, .. } => *cost,
            Act::Refund { .. } | Act::Renew { .. } | Act::Release { .. } | Act::Reset { .. } | Act::Apply(_) => 1,
        }
    }

    /// The same as what decides takes it. Whatever is no cost ends at the front door.
    pub(super) fn decided_cost(&self) -> Result<u64, Cannot> {
        let fits = u64::try_from(self.cost()).ok().filter(|cost| *cost <= AMOUNT_MAX);
        fits.ok_or_else(|| Cannot::because("a cost below 0 or above 10^15 - 1 ends at the front door"))
    }

    /// The limits that the act is about: all that apply, or the one it names.
    pub(super) fn narrowed(&self, legs: Vec<AppliedLeg>) -> Result<Vec<AppliedLeg>, Cannot> {
        let (Act::Peek { limit: Some(only), .. } | Act::Reset { limit: Some(only) }) = self else { return Ok(legs) };
        let legs: Vec<_> = legs.into_iter().filter(|leg| leg.limit == *only).collect();
        if legs.is_empty() { Err(Cannot::because(format!("no limit {only} applies"))) } else { Ok(legs) }
    }

    /// The legs as they are for one unit: the rule's cost alone.
    pub(super) fn of_one_unit(&self, legs: Vec<AppliedLeg>) -> Vec<AppliedLeg> {
        let units = self.decided_cost().unwrap_or(0).max(1);
        legs.into_iter().map(|leg| AppliedLeg { cost: leg.cost / units, ..leg }).collect()
    }
}
