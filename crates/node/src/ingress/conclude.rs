//! From what the owners of a question's limits said, or did not say, to its decision: failure modes answer for the silent,
//! one decision is combined, what was charged in vain is taken back, and everything is counted.

mod earlier;

use std::sync::atomic::Ordering;

use limits::{Book, Charge, FailMode, LegDecision, Wait};
use ownership::ingress::{After, LegResult, Outcome, Said, after, after_grant, combine};
use ownership::{Act, CheckLeg, EmergencyAnswer, EmergencyLeg};
use smallvec::SmallVec;
use wire::forward::Forwarded;

use crate::decision::{Decision, LegAnswer, NotPut, Question, Reason, Source, Wanted};
use crate::ingress::plan::{Asks, Group, Leg};
use crate::ingress::{Ingress, Settled};
use crate::views::Policies;

/// Charges of the emergency limiter, with the units that each was for; nearly always none.
type Lent = SmallVec<[(Charge, u64); 1]>;

/// What is gone by in asking for what no owner answered: the names it is looked up by, what was lent so far, and how many
/// units are wanted, or granted by all limits so far.
struct Stand<'p> {
    policies: &'p Policies,
    wanted: Wanted,
    lent: Lent,
    units: u64,
}

impl Ingress {
    /// The decision of a question of which every group is settled.
    pub(crate) fn conclude(
        &self,
        asks: &Asks,
        question: &Question<'_>,
        policies: &Policies,
    ) -> Result<Decision, NotPut> {
        if !asks.act().decides() {
            return earlier::conclude(asks);
        }
        let decision = self.conclude_anew(asks, policies)?;
        policies.count_keys(asks, &question.attributes, &decision);
        Ok(decision)
    }

    fn conclude_anew(&self, asks: &Asks, policies: &Policies) -> Result<Decision, NotPut> {
        let units = asks.groups.iter().filter_map(granted_by).fold(asks.cost, u64::min);
        let mut stand = Stand { policies, wanted: asks.wanted, lent: SmallVec::new(), units };
        let results: SmallVec<[LegResult; 2]> =
            asks.legs.iter().map(|leg| self.result_of(asks, leg, &mut stand)).collect();
        let reused = is_reused(asks);
        let combined = combine(&results);
        let allowed = combined.allowed && !reused;
        let granted = if asks.wanted == Wanted::UpTo && allowed { stand.units } else { 0 };
        self.give_back(&stand, allowed, granted);
        if asks.wanted != Wanted::Peek {
            for (number, group) in (0u8..).zip(&asks.groups) {
                let told = after(allowed, &results, number, may_have_spent(group));
                let told = granted_by(group).map_or(told, |units| after_grant(told, units, granted));
                self.settle_up(asks, number, &results, told, granted);
            }
        }
        if reused {
            return Err(NotPut::IdReused);
        }
        let legs: SmallVec<[LegAnswer; 2]> =
            asks.legs.iter().zip(&results).map(|(leg, result)| answer_of(asks, leg, result, granted)).collect();
        for (leg, answer) in asks.legs.iter().zip(&legs).filter(|_| asks.wanted != Wanted::Peek) {
            let cost = if asks.wanted == Wanted::UpTo { leg.cost * granted } else { leg.cost };
            self.count(policies, answer, cost);
        }
        let reason = combined.named.and_then(|index| legs.get(index)).map_or(Reason::Ok, |leg| leg.reason);
        let cost = if asks.wanted == Wanted::UpTo { granted } else { asks.cost };
        let units = if allowed { granted.max(held_by(asks)) } else { 0 };
        Ok(Decision { allowed, units, reason, cost, named: combined.named, ..decision_of(asks, legs) })
    }

    /// Counts what one limit said.
    pub(crate) fn count(&self, policies: &Policies, answer: &LegAnswer, cost: u64) {
        if let Some(tally) = policies.tally.limit(answer.limit) {
            tally.count(answer, cost);
        }
    }

    fn result_of(&self, asks: &Asks, leg: &Leg, stand: &mut Stand<'_>) -> LegResult {
        let said = match outcome_of(&asks.groups[usize::from(leg.group)]) {
            Some(Outcome::Decided(verdict)) => match verdict.legs.get(usize::from(leg.place)) {
                Some(decision) => Said::Owner(*decision),
                None => self.without_owner(leg, leg.fail, stand),
            },
            Some(Outcome::TableFull { leg: full }) if *full == leg.place => {
                self.without_owner(leg, leg.when_full, stand)
            }
            Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_)) | None => {
                self.without_owner(leg, leg.fail, stand)
            }
        };
        LegResult { group: leg.group, shadow: leg.shadow, said }
    }

    /// What a failure mode says.
    fn without_owner(&self, leg: &Leg, mode: FailMode, stand: &mut Stand<'_>) -> Said {
        match mode {
            FailMode::Open => Said::Open,
            FailMode::Closed => Said::Closed,
            FailMode::Emergency { percent, .. } => self.emergency_says(leg, percent, stand),
        }
    }

    fn emergency_says(&self, leg: &Leg, percent: u8, stand: &mut Stand<'_>) -> Said {
        let up_to = (stand.wanted == Wanted::UpTo).then_some(stand.units);
        let leg = EmergencyLeg { shape: leg.whole, percent, key: leg.key, cost: leg.cost, up_to };
        let calendars = stand.policies.catalogue.shapes().shared_calendars();
        let now = self.owner.now();
        match self.emergency.lock().as_mut().map(|emergency| emergency.decide(&leg, calendars, now)) {
            Some(EmergencyAnswer::Decided { decision, charge, units }) => {
                stand.lent.extend(charge.map(|charge| (charge, units)));
                stand.units = up_to.map_or(stand.units, |wanted| wanted.min(units));
                Said::Emergency(decision)
            }
            Some(EmergencyAnswer::Closed) | None => Said::Closed,
        }
    }

    /// Takes back what the emergency limiter lent in vain: all of it where another limit refused or nothing was to be
    /// spent, and what is above the units that all limits granted.
    fn give_back(&self, stand: &Stand<'_>, allowed: bool, granted: u64) {
        if stand.lent.is_empty() {
            return;
        }
        let now = self.owner.now();
        if let Some(emergency) = self.emergency.lock().as_mut() {
            for (charge, units) in &stand.lent {
                if !allowed || stand.wanted == Wanted::Peek {
                    emergency.undo(charge, now);
                } else if stand.wanted == Wanted::UpTo && *units > granted {
                    emergency.trim(charge, *units, granted, now);
                }
            }
        }
    }

    /// Tells the owner of a group what became of the check, where it must know.
    fn settle_up(&self, asks: &Asks, number: u8, results: &[LegResult], told: After, granted: u64) {
        let group = &asks.groups[usize::from(number)];
        let Some(owner) = group.settled.as_ref().and_then(|settled| settled.owner) else { return };
        let (partition, id) = (group.partition, group.check.id);
        match told {
            After::Nothing => {}
            After::Cancel => {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
                self.tell(owner, Forwarded::Cancel(partition, id, group.check.asker));
            }
            After::Trim(units) => self.tell(owner, Forwarded::Trim(partition, id, group.check.asker, units)),
            After::Debt => {
                let times = if asks.wanted == Wanted::UpTo { granted } else { 1 };
                let unseen = |(leg, result): &(&Leg, &LegResult)| {
                    leg.group == number && !leg.shadow && result.said == Said::Open
                };
                let passed = asks.legs.iter().zip(results).filter(unseen);
                let owed = |(leg, _): (&Leg, &LegResult)| {
                    let asked = group.check.legs[usize::from(leg.place)];
                    CheckLeg { cost: asked.cost * times, ..asked }
                };
                let legs = passed.map(owed).collect();
                self.tell(owner, Forwarded::Debt(partition, id, group.check.asker, legs));
            }
        }
    }
}

/// A decision about these limits, of which whoever makes it knows more.
pub(super) fn decision_of(asks: &Asks, legs: SmallVec<[LegAnswer; 2]>) -> Decision {
    let revisions = asks.groups.iter().filter_map(|group| group.settled.as_ref()).map(|settled| settled.revision);
    Decision {
        id: asks.told_id(),
        wanted: asks.wanted,
        allowed: false,
        units: 0,
        reason: Reason::Ok,
        cost: asks.cost,
        named: None,
        revision: revisions.max().filter(|revision| *revision > 0).unwrap_or(asks.revision),
        replayed: asks.groups.iter().any(is_replayed),
        passed: asks.passed,
        legs,
    }
}

pub(super) fn is_reused(asks: &Asks) -> bool {
    asks.groups.iter().any(|group| outcome_of(group) == Some(&Outcome::IdReused))
}

/// The units that the owner of a group granted to a check that takes as much as there is.
fn granted_by(group: &Group) -> Option<u64> {
    match (group.check.act, outcome_of(group)) {
        (Act::UpTo { .. }, Some(Outcome::Decided(verdict))) => Some(verdict.units),
        _ => None,
    }
}

/// The nanoseconds that what the check holds lasts; 0 when it holds nothing.
fn held_by(asks: &Asks) -> u64 {
    let verdicts = asks.groups.iter().filter_map(|group| match (group.check.act, outcome_of(group)) {
        (Act::Acquire { .. } | Act::Reserve { .. }, Some(Outcome::Decided(verdict))) => Some(verdict.units),
        _ => None,
    });
    verdicts.filter(|nanos| *nanos > 0).min().unwrap_or(0)
}

pub(super) fn outcome_of(group: &Group) -> Option<&Outcome> {
    group.settled.as_ref().map(|settled| &settled.outcome)
}

fn may_have_spent(group: &Group) -> bool {
    group.settled.as_ref().is_some_and(|settled| settled.may_have_spent)
}

fn is_replayed(group: &Group) -> bool {
    matches!(outcome_of(group), Some(Outcome::Decided(verdict)) if verdict.replayed)
}

fn is_recovering(group: &Group) -> bool {
    matches!(outcome_of(group), Some(Outcome::Decided(verdict)) if verdict.recovering)
}

/// A limit that was answered without its owner has no numbers: nobody counted, and none are invented. `granted` is what a
/// check that takes as much as there is got from all limits: what this one granted beyond it is undone.
pub(super) fn answer_of(asks: &Asks, leg: &Leg, result: &LegResult, granted: u64) -> LegAnswer {
    let group = &asks.groups[usize::from(leg.group)];
    let settled: Option<&Settled> = group.settled.as_ref();
    let surplus = granted_by(group).unwrap_or(0).saturating_sub(granted);
    let degraded = |allowed, source| LegAnswer {
        limit: leg.limit,
        variant: leg.variant,
        allowed,
        enforced: !leg.shadow,
        reason: Reason::Unavailable,
        source,
        numbers: None,
        owner: None,
        epoch: None,
    };
    match result.said {
        Said::Open => degraded(true, Source::Open),
        Said::Closed => degraded(false, Source::Closed),
        Said::Emergency(decision) => degraded(decision.allowed, Source::Emergency),
        Said::Owner(decision) => LegAnswer {
            limit: leg.limit,
            variant: leg.variant,
            allowed: decision.allowed,
            enforced: !leg.shadow,
            reason: match decision.wait {
                _ if decision.allowed => Reason::Ok,
                Wait::Never => Reason::Never,
                Wait::Now | Wait::After(_) if is_recovering(group) => Reason::Recovering,
                Wait::Now | Wait::After(_) => Reason::Limit,
            },
            source: settled.map_or(Source::Forwarded, |settled| settled.source),
            numbers: Some(without_surplus(decision, surplus.saturating_mul(leg.cost))),
            owner: settled.and_then(|settled| settled.owner).map(|owner| owner.session.node),
            epoch: settled.and_then(|settled| settled.epoch),
        },
    }
}

/// What stands once `surplus` units of a charge are undone.
fn without_surplus(decision: LegDecision, surplus: u64) -> LegDecision {
    let remaining = decision.remaining.saturating_add(surplus).min(decision.capacity);
    LegDecision { remaining, ..decision }
}
