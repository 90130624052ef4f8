//! From what the owners of a question's limits said, or did not say, to its decision: failure modes answer for the silent,
//! one decision is combined, and it is worked out what each owner is told afterwards and what the emergency limiter gets
//! back. Nothing is done here but to ask that limiter, which must answer at once.

use limits::{Charge, FailMode, Fingerprint, LegDecision, LimitId, Now, Shape, Variant};
use smallvec::SmallVec;

use crate::check::{Act, CheckLeg};
use crate::emergency::{Emergency, EmergencyAnswer, EmergencyLeg};
use crate::ingress::asking::Outcome;
use crate::ingress::combine::{After, LegResult, Said, after, after_grant, combine};

/// One limit of a question, with all that is needed to answer in its owner's place.
#[derive(Clone, Copy, Debug)]
pub struct AskedLeg {
    /// The limit.
    pub limit: LimitId,
    /// Which of its numbers apply.
    pub variant: Variant,
    /// The key under that limit.
    pub key: Fingerprint,
    /// Units to spend; where the act says how many times ([`Act::times`]), those of one.
    pub cost: u64,
    /// Whether the limit only watches.
    pub shadow: bool,
    /// What answers when no owner does.
    pub fail: FailMode,
    /// What answers when the owner has no room for the key.
    pub when_full: FailMode,
    /// The whole limit's numbers, of which an emergency share is a part.
    pub whole: Shape,
    /// The number of the group that decides it: the limits of the question that fall into one partition.
    pub group: u8,
    /// Its place among the legs of that group's check.
    pub place: u8,
}

/// What came of one group.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    /// What its question came to; `None` where nobody could be asked.
    pub outcome: Option<&'a Outcome>,
    /// Whether anything that was sent may have been charged ([`may_have_spent`](super::Asking::may_have_spent)).
    pub may_have_spent: bool,
}

/// The decision of a question, and what follows from it.
#[derive(Debug)]
pub struct Conclusion<'a> {
    /// What each limit said. Of a check that takes as much as there is, as it stands once all limits have been cut down to
    /// the same grant.
    pub results: SmallVec<[LegResult; 2]>,
    /// Whether the caller may go ahead.
    pub allowed: bool,
    /// The limit that the answer speaks of, as an index into the legs.
    pub named: Option<usize>,
    /// Units that all limits granted to a check that takes as much as there is; else 0.
    pub granted: u64,
    /// Whether an owner knows the id under another question: the caller's mistake, and no decision at all.
    pub id_reused: bool,
    act: Act,
    legs: &'a [AskedLeg],
    came: &'a [Came<'a>],
    /// Charges of the emergency limiter, with the units that each was for; nearly always none.
    lent: SmallVec<[(Charge, u64); 1]>,
}

/// Concludes a question that decides ([`Act::decides`]) and of which every group is settled: `came` says of each group, in
/// order, what came of it. `lend` asks this ingress's emergency limiter.
pub fn conclude<'a>(
    act: Act,
    legs: &'a [AskedLeg],
    came: &'a [Came<'a>],
    mut lend: impl FnMut(&EmergencyLeg) -> EmergencyAnswer,
) -> Conclusion<'a> {
    debug_assert!(act.decides(), "what speaks of an earlier charge is found, or not");
    let wanted = act.times().map(|units| came.iter().filter_map(Came::units).fold(units, u64::min));
    let mut stand = Stand { up_to: wanted, lent: SmallVec::new() };
    let result = |leg: &AskedLeg| LegResult {
        group: leg.group,
        shadow: leg.shadow,
        said: said(leg, came.get(usize::from(leg.group)), &mut stand, &mut lend),
    };
    let results = legs.iter().map(result).collect();
    let id_reused = came.iter().any(|came| matches!(came.outcome, Some(Outcome::IdReused)));
    Conclusion::of(act, legs, came, results, stand, id_reused)
}

/// What is gone by in asking for what no owner answered: the most units that all limits can still grant, where that is
/// asked, and what was lent so far.
struct Stand {
    up_to: Option<u64>,
    lent: SmallVec<[(Charge, u64); 1]>,
}

/// What one limit said, or what answers for it.
fn said(
    leg: &AskedLeg,
    came: Option<&Came<'_>>,
    stand: &mut Stand,
    lend: &mut impl FnMut(&EmergencyLeg) -> EmergencyAnswer,
) -> Said {
    match came.and_then(|came| came.outcome) {
        Some(Outcome::Decided(verdict)) => match verdict.legs.get(usize::from(leg.place)) {
            Some(decision) => Said::Owner(*decision),
            None => without_owner(leg, leg.fail, stand, lend),
        },
        Some(Outcome::TableFull { leg: full }) if *full == leg.place => without_owner(leg, leg.when_full, stand, lend),
        Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Stale { .. } | Outcome::Failed(_)) | None => {
            without_owner(leg, leg.fail, stand, lend)
        }
    }
}

/// What a failure mode says.
fn without_owner(
    leg: &AskedLeg,
    mode: FailMode,
    stand: &mut Stand,
    lend: &mut impl FnMut(&EmergencyLeg) -> EmergencyAnswer,
) -> Said {
    let percent = match mode {
        FailMode::Open => return Said::Open,
        FailMode::Closed => return Said::Closed,
        FailMode::Emergency { percent, .. } => percent,
    };
    match lend(&EmergencyLeg { shape: leg.whole, percent, key: leg.key, cost: leg.cost, up_to: stand.up_to }) {
        EmergencyAnswer::Decided { decision, charge, units } => {
            stand.lent.extend(charge.map(|charge| (charge, units)));
            stand.up_to = stand.up_to.map(|wanted| wanted.min(units));
            Said::Emergency(decision)
        }
        EmergencyAnswer::Closed => Said::Closed,
    }
}

impl<'a> Conclusion<'a> {
    fn of(
        act: Act,
        legs: &'a [AskedLeg],
        came: &'a [Came<'a>],
        mut results: SmallVec<[LegResult; 2]>,
        Stand { up_to, lent }: Stand,
        id_reused: bool,
    ) -> Conclusion<'a> {
        let mut combined = combine(&results);
        let allowed = combined.allowed && !id_reused;
        let granted = up_to.filter(|_| allowed).unwrap_or(0);
        if up_to.is_some() && without_surplus(&mut results, legs, came, granted) {
            combined = combine(&results);
        }
        Conclusion { results, allowed, named: combined.named, granted, id_reused, act, legs, came, lent }
    }

    /// What the owner of a group is told. Whoever only looked tells nobody anything.
    pub fn after(&self, group: u8) -> After {
        let Some(came) = self.came.get(usize::from(group)).filter(|_| self.act != Act::Peek) else {
            return After::Nothing;
        };
        let told = after(self.allowed, &self.results, group, came.may_have_spent);
        match came.units().filter(|_| self.is_up_to()) {
            Some(units) => after_grant(told, units, self.granted),
            None => told,
        }
    }

    /// What a group's owner is told to book with [`After::Debt`]: the limits that passed the check unseen.
    pub fn owed(&self, group: u8) -> SmallVec<[CheckLeg; 2]> {
        let passed =
            |(leg, result): &(&AskedLeg, &LegResult)| leg.group == group && !leg.shadow && result.said == Said::Open;
        let owed = |(leg, _): (&AskedLeg, &LegResult)| CheckLeg { cost: self.counted(leg), ..leg.to_check_leg() };
        self.legs.iter().zip(&self.results).filter(passed).map(owed).collect()
    }

    /// How often the caller was granted the cost of each leg: 0 when it was refused.
    pub fn times(&self) -> u64 {
        if self.is_up_to() { self.granted } else { u64::from(self.allowed) }
    }

    /// The units of a leg that this question counts as: those that were asked for, or, of a check that takes as much as
    /// there is, those that were granted.
    pub fn counted(&self, leg: &AskedLeg) -> u64 {
        if self.is_up_to() { leg.cost.saturating_mul(self.granted) } else { leg.cost }
    }

    /// Whether the emergency limiter lent anything, so that [`give_back`](Conclusion::give_back) is worth calling.
    pub fn has_lent(&self) -> bool {
        !self.lent.is_empty()
    }

    /// Gives the emergency limiter back what it lent in vain: all of it where another limit refused or nothing was to be
    /// spent, and what is above the units that all limits granted.
    pub fn give_back(&self, emergency: &mut Emergency, now: Now) {
        for (charge, units) in &self.lent {
            if !self.allowed || self.act == Act::Peek {
                emergency.undo(charge, now);
            } else if self.is_up_to() && *units > self.granted {
                emergency.trim(charge, *units, self.granted, now);
            }
        }
    }

    fn is_up_to(&self) -> bool {
        self.act.times().is_some()
    }
}

/// Makes the numbers of each limit what stands once every owner has kept only `granted` units, and says whether that
/// changed any.
fn without_surplus(results: &mut [LegResult], legs: &[AskedLeg], came: &[Came<'_>], granted: u64) -> bool {
    let mut changed = false;
    for (leg, result) in legs.iter().zip(results) {
        let units = came.get(usize::from(leg.group)).and_then(Came::units).unwrap_or(0);
        let (surplus, Said::Owner(decision)) = (units.saturating_sub(granted), &mut result.said) else { continue };
        let back = surplus.saturating_mul(leg.cost);
        *decision =
            LegDecision { remaining: decision.remaining.saturating_add(back).min(decision.capacity), ..*decision };
        changed |= back > 0;
    }
    changed
}

impl Came<'_> {
    /// What the owner's verdict came to, if it gave one.
    fn units(&self) -> Option<u64> {
        match self.outcome {
            Some(Outcome::Decided(verdict)) => Some(verdict.units),
            Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Stale { .. } | Outcome::Failed(_)) | None => {
                None
            }
        }
    }
}

impl AskedLeg {
    /// The leg as its owner is asked for it.
    pub const fn to_check_leg(self) -> CheckLeg {
        let AskedLeg { limit, variant, key, cost, shadow, .. } = self;
        CheckLeg { limit, variant, key, cost, shadow }
    }
}
