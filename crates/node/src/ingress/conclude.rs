//! A question's decision in the words of the API: what its limits said, by the rules of `ownership::ingress::conclude`, with
//! who said it and under which epoch. What follows from the decision is told to the owners, and everything is counted.

mod earlier;

use std::sync::atomic::Ordering;

use limits::{Book as _, Wait};
use ownership::ingress::{After, AskedLeg, Came, Conclusion, LegResult, Outcome, Said, conclude};
use ownership::{Act, EmergencyAnswer, EmergencyLeg};
use smallvec::SmallVec;
use wire::forward::Forwarded;

use crate::decision::{Decision, LegAnswer, NotPut, Question, Reason, Source, Wanted};
use crate::ingress::plan::{Asks, Group};
use crate::ingress::{Ingress, Settled};
use crate::views::Policies;

impl Ingress {
    /// The decision of a question of which every group is settled.
    pub(crate) fn conclude(
        &self,
        asks: &Asks,
        question: &Question<'_>,
        policies: &Policies,
    ) -> Result<Decision, NotPut> {
        asks.groups.iter().filter_map(outcome_of).for_each(|outcome| self.unanswered.count(outcome));
        if !asks.act().decides() {
            return earlier::conclude(asks);
        }
        let decision = self.conclude_anew(asks, policies)?;
        policies.count_keys(asks, &question.attributes, &decision);
        Ok(decision)
    }

    fn conclude_anew(&self, asks: &Asks, policies: &Policies) -> Result<Decision, NotPut> {
        let came: SmallVec<[Came<'_>; 2]> = asks.groups.iter().map(came_of).collect();
        let concluded = conclude(asks.act(), &asks.legs, &came, |leg| self.lend(leg, policies));
        self.settle_up(asks, &concluded);
        if concluded.id_reused {
            return Err(NotPut::IdReused);
        }
        let results = asks.legs.iter().zip(&concluded.results);
        let legs: SmallVec<[LegAnswer; 2]> = results.map(|(leg, result)| answer_of(asks, leg, result)).collect();
        for (leg, answer) in asks.legs.iter().zip(&legs).filter(|_| asks.wanted != Wanted::Peek) {
            self.count(policies, answer, concluded.counted(leg));
        }
        let Conclusion { allowed, named, granted, .. } = concluded;
        let reason = named.and_then(|index| legs.get(index)).map_or(Reason::Ok, |leg| leg.reason);
        let cost = if asks.wanted == Wanted::UpTo { granted } else { asks.cost };
        let units = if allowed { granted.max(held_by(asks)) } else { 0 };
        Ok(Decision { allowed, units, reason, cost, named, ..decision_of(asks, legs) })
    }

    /// Counts what one limit said.
    pub(crate) fn count(&self, policies: &Policies, answer: &LegAnswer, cost: u64) {
        if let Some(tally) = policies.tally.limit(answer.limit) {
            tally.count(answer, cost);
        }
    }

    fn lend(&self, leg: &EmergencyLeg, policies: &Policies) -> EmergencyAnswer {
        let calendars = policies.catalogue.shapes().shared_calendars();
        let now = self.owner.now();
        match self.emergency.lock().as_mut() {
            Some(emergency) => emergency.decide(leg, calendars, now),
            None => EmergencyAnswer::Closed,
        }
    }

    /// Tells the emergency limiter and the owner of each group what became of the check, where they must know.
    fn settle_up(&self, asks: &Asks, concluded: &Conclusion<'_>) {
        if concluded.has_lent()
            && let Some(emergency) = self.emergency.lock().as_mut()
        {
            concluded.give_back(emergency, self.owner.now());
        }
        for (number, group) in (0u8..).zip(&asks.groups) {
            let after = concluded.after(number);
            let asked = group.settled.as_ref().and_then(|settled| settled.owner);
            let Some(owner) = asked.or(group.spent_at) else { continue };
            let (partition, id, asker) = (group.partition, group.check.id, group.check.asker);
            match after {
                After::Nothing => {}
                After::Cancel => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    self.tell(owner, Forwarded::Cancel(partition, id, asker));
                }
                After::Trim(units) => self.tell(owner, Forwarded::Trim(partition, id, asker, units)),
                After::Debt => self.tell(owner, Forwarded::Debt(partition, id, asker, concluded.owed(number))),
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

/// The nanoseconds that what the check holds lasts; 0 when it holds nothing.
fn held_by(asks: &Asks) -> u64 {
    let verdicts = asks.groups.iter().filter_map(|group| match (group.check.act, outcome_of(group)) {
        (Act::Acquire { .. } | Act::Reserve { .. }, Some(Outcome::Decided(verdict))) => Some(verdict.units),
        _ => None,
    });
    verdicts.filter(|nanos| *nanos > 0).min().unwrap_or(0)
}

fn came_of(group: &Group) -> Came<'_> {
    let now = group.settled.as_ref().is_some_and(|settled| settled.may_have_spent);
    let may_have_spent = now || group.spent_at.is_some();
    Came { outcome: outcome_of(group), may_have_spent }
}

pub(super) fn outcome_of(group: &Group) -> Option<&Outcome> {
    group.settled.as_ref().map(|settled| &settled.outcome)
}

fn is_replayed(group: &Group) -> bool {
    matches!(outcome_of(group), Some(Outcome::Decided(verdict)) if verdict.replayed)
}

fn is_recovering(group: &Group) -> bool {
    matches!(outcome_of(group), Some(Outcome::Decided(verdict)) if verdict.recovering)
}

/// A limit that was answered without its owner has no numbers: nobody counted, and none are invented.
pub(super) fn answer_of(asks: &Asks, leg: &AskedLeg, result: &LegResult) -> LegAnswer {
    let group = &asks.groups[usize::from(leg.group)];
    let settled: Option<&Settled> = group.settled.as_ref();
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
            numbers: Some(decision),
            owner: settled.and_then(|settled| settled.owner).map(|owner| owner.session.node),
            epoch: settled.and_then(|settled| settled.epoch),
        },
    }
}
