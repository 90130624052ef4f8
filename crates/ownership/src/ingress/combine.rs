//! One decision out of several. A check whose limits live in several partitions is asked of several owners at once; it is
//! allowed only if every limit allows it. What some owners charged for a check that others refused is taken back, and
//! what nobody was asked for is told afterwards, so that no charge outlives its reason by more than a round trip.

use std::cmp::Reverse;

use limits::{LegDecision, Wait};

use crate::bug::Bug;

/// What one limit said to a check, and who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegResult {
    /// The number of the question that this limit was part of: the limits that one partition decides together.
    pub group: u8,
    /// Whether the limit only watches.
    pub shadow: bool,
    /// What was said.
    pub said: Said,
}

/// Who spoke for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Its owner.
    Owner(LegDecision),
    /// No owner; the ingress's own small limiter did.
    Emergency(LegDecision),
    /// No owner; the limit fails open.
    Open,
    /// No owner; the limit fails closed.
    Closed,
}

/// The decision over all limits of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combined {
    /// Whether every limit that enforces allowed it.
    pub allowed: bool,
    /// The limit that the answer speaks of, as an index into the results: on a refusal the one to wait for longest, else
    /// the tightest. `None` when nothing enforces.
    pub named: Option<usize>,
}

/// What the owner of one group is told once the check is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// What it charged, if anything, has its reason.
    Nothing,
    /// `Cancel(id)`: nothing of this check is to be charged there.
    Cancel,
    /// `Trim(id, units)`: it granted more units than another group did, and so many are to be charged.
    Trim(u64),
    /// `Debt(id, legs)`: exactly those limits of the group are to be charged that passed the check unseen because they
    /// fail open, whatever the owner charged before.
    Debt,
}

/// Combines what the limits of a check said, given in the order of the rule.
///
/// A limit that an owner refused is named before one that only its failure mode refused. Among refusals the longest wait
/// is named; among limits that allow, the one with the least remaining, then the latest reset, then the first. A limit
/// that was passed unseen has no numbers, and is named only where no other can be.
pub fn combine(results: &[LegResult]) -> Combined {
    let enforced = || results.iter().enumerate().filter(|(_, result)| !result.shadow);
    let refused = enforced().filter_map(|(index, result)| Some((result.refusal()?, Reverse(index))));
    if let Some((_, Reverse(index))) = refused.max() {
        return Combined { allowed: false, named: Some(index) };
    }
    let tightest = enforced().filter_map(|(index, result)| {
        let decision = result.numbers()?;
        Some((decision.remaining, Reverse(decision.reset_after), index))
    });
    let named = tightest.min().map(|(_, _, index)| index).or_else(|| enforced().next().map(|(index, _)| index));
    Combined { allowed: true, named }
}

/// What the owner of group `group` is told after the check was decided, `may_have_spent` telling whether anything that was
/// sent to it may have been charged ([`may_have_spent`](super::Asking::may_have_spent)).
///
/// A group that was passed by an emergency share alone is cancelled too: the share is charged here.
pub fn after(allowed: bool, results: &[LegResult], group: u8, may_have_spent: bool) -> After {
    let passed_by = |mode| results.iter().any(|leg| leg.group == group && !leg.shadow && leg.is_passed_by(mode));
    if allowed && passed_by(Mode::Open) {
        After::Debt
    } else if may_have_spent && (!allowed || passed_by(Mode::Emergency)) && !Bug::CancelNotSent.is_here() {
        After::Cancel
    } else {
        After::Nothing
    }
}

/// What the owner of a group that granted `granted` units of what was wanted is told, where all groups together granted
/// `least`, and [`after`] has said what it is told otherwise.
pub fn after_grant(told: After, granted: u64, least: u64) -> After {
    match told {
        After::Nothing if granted > least => After::Trim(least),
        After::Nothing | After::Cancel | After::Trim(_) | After::Debt => told,
    }
}

/// A failure mode that can pass a check.
#[derive(Clone, Copy)]
enum Mode {
    Emergency,
    Open,
}

/// How a refusal ranks: the greatest is named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    Closed,
    Emergency(Wait),
    Owner(Wait),
}

impl LegResult {
    fn refusal(&self) -> Option<Refusal> {
        match self.said {
            Said::Owner(decision) => (!decision.allowed).then_some(Refusal::Owner(decision.wait)),
            Said::Emergency(decision) => (!decision.allowed).then_some(Refusal::Emergency(decision.wait)),
            Said::Open => None,
            Said::Closed => Some(Refusal::Closed),
        }
    }

    fn numbers(&self) -> Option<LegDecision> {
        match self.said {
            Said::Owner(decision) | Said::Emergency(decision) => Some(decision),
            Said::Open | Said::Closed => None,
        }
    }

    fn is_passed_by(&self, mode: Mode) -> bool {
        match (self.said, mode) {
            (Said::Open, Mode::Open) => true,
            (Said::Emergency(decision), Mode::Emergency) => decision.allowed,
            (Said::Owner(_) | Said::Closed, _) | (Said::Open, Mode::Emergency) | (Said::Emergency(_), Mode::Open) => {
                false
            }
        }
    }
}
