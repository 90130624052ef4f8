//! From what the owners of a question's limits said, or did not say, to its decision: failure modes answer for the silent,
//! one decision is combined, what was charged in vain is taken back, and everything is counted.

use std::sync::atomic::Ordering;

use limits::{Charge, FailMode, Wait};
use ownership::ingress::{After, LegResult, Outcome, Said, after, combine};
use ownership::{EmergencyAnswer, EmergencyLeg};
use smallvec::SmallVec;
use wire::forward::Forwarded;

use crate::decision::{Decision, LegAnswer, NotPut, Reason, Source};
use crate::ingress::plan::{Asks, Group, Leg};
use crate::ingress::{Ingress, Settled};
use crate::views::Policies;

/// Charges of the emergency limiter; nearly always none.
type Lent = SmallVec<[Charge; 1]>;

impl Ingress {
    /// The decision of a question of which every group is settled.
    pub(crate) fn conclude(&self, asks: &Asks, policies: &Policies) -> Result<Decision, NotPut> {
        // What the emergency limiter charged here, in case another limit refuses.
        let mut lent = SmallVec::new();
        let results: SmallVec<[LegResult; 2]> =
            asks.legs.iter().map(|leg| self.result_of(asks, leg, &mut lent)).collect();
        let reused = asks.groups.iter().any(|group| outcome_of(group) == Some(&Outcome::IdReused));
        let combined = combine(&results);
        let allowed = combined.allowed && !reused;
        if !allowed {
            self.take_back(&lent);
        }
        for (number, group) in (0u8..).zip(&asks.groups) {
            let told = after(allowed, &results, number, may_have_spent(group));
            self.settle_up(asks, number, &results, told);
        }
        if reused {
            return Err(NotPut::IdReused);
        }
        let legs: SmallVec<[LegAnswer; 2]> =
            asks.legs.iter().zip(&results).map(|(leg, result)| answer_of(asks, leg, result)).collect();
        for (leg, answer) in asks.legs.iter().zip(&legs) {
            self.count(policies, answer, leg.cost);
        }
        let named = combined.named.and_then(|index| legs.get(index));
        let revisions = asks.groups.iter().filter_map(|group| group.settled.as_ref()).map(|settled| settled.revision);
        Ok(Decision {
            id: asks.id(),
            allowed,
            reason: named.map_or(Reason::Ok, |leg| leg.reason),
            cost: asks.cost,
            named: combined.named,
            revision: revisions.max().filter(|revision| *revision > 0).unwrap_or(asks.revision),
            replayed: asks.groups.iter().any(is_replayed),
            legs,
        })
    }

    /// Counts what one limit said.
    pub(crate) fn count(&self, policies: &Policies, answer: &LegAnswer, cost: u64) {
        if let Some(tally) = policies.tally.limit(answer.limit) {
            tally.count(answer, cost);
        }
    }

    fn result_of(&self, asks: &Asks, leg: &Leg, lent: &mut Lent) -> LegResult {
        let said = match outcome_of(&asks.groups[usize::from(leg.group)]) {
            Some(Outcome::Decided(verdict)) => match verdict.legs.get(usize::from(leg.place)) {
                Some(decision) => Said::Owner(*decision),
                None => self.without_owner(leg, leg.fail, lent),
            },
            Some(Outcome::TableFull { leg: full }) if *full == leg.place => {
                self.without_owner(leg, leg.when_full, lent)
            }
            Some(Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_)) | None => {
                self.without_owner(leg, leg.fail, lent)
            }
        };
        LegResult { group: leg.group, shadow: leg.shadow, said }
    }

    /// What a failure mode says.
    fn without_owner(&self, leg: &Leg, mode: FailMode, lent: &mut Lent) -> Said {
        match mode {
            FailMode::Open => Said::Open,
            FailMode::Closed => Said::Closed,
            FailMode::Emergency { percent, .. } => self.emergency_says(leg, percent, lent),
        }
    }

    fn emergency_says(&self, leg: &Leg, percent: u8, lent: &mut Lent) -> Said {
        let leg = EmergencyLeg { shape: leg.whole, percent, key: leg.key, cost: leg.cost };
        let now = self.owner.now();
        match self.emergency.lock().as_mut().map(|emergency| emergency.decide(&leg, now)) {
            Some(EmergencyAnswer::Decided { decision, charge }) => {
                lent.extend(charge);
                Said::Emergency(decision)
            }
            Some(EmergencyAnswer::Closed) | None => Said::Closed,
        }
    }

    fn take_back(&self, lent: &Lent) {
        let now = self.owner.now();
        if let Some(emergency) = self.emergency.lock().as_mut().filter(|_| !lent.is_empty()) {
            for charge in lent {
                emergency.undo(charge, now);
            }
        }
    }

    /// Tells the owner of a group what became of the check, where it must know.
    fn settle_up(&self, asks: &Asks, number: u8, results: &[LegResult], told: After) {
        let group = &asks.groups[usize::from(number)];
        let Some(owner) = group.settled.as_ref().and_then(|settled| settled.owner) else { return };
        let (partition, id) = (group.partition, group.check.id);
        match told {
            After::Nothing => {}
            After::Cancel => {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
                self.tell(owner, Forwarded::Cancel(partition, id, group.check.asker));
            }
            After::Debt => {
                let unseen = |(leg, result): &(&Leg, &LegResult)| {
                    leg.group == number && !leg.shadow && result.said == Said::Open
                };
                let passed = asks.legs.iter().zip(results).filter(unseen);
                let legs = passed.map(|(leg, _)| group.check.legs[usize::from(leg.place)]).collect();
                self.tell(owner, Forwarded::Debt(partition, id, group.check.asker, legs));
            }
        }
    }
}

fn outcome_of(group: &Group) -> Option<&Outcome> {
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

/// A limit that was answered without its owner has no numbers: nobody counted, and none are invented.
fn answer_of(asks: &Asks, leg: &Leg, result: &LegResult) -> LegAnswer {
    let group = &asks.groups[usize::from(leg.group)];
    let settled: Option<&Settled> = group.settled.as_ref();
    let degraded = |allowed, source| LegAnswer {
        limit: leg.limit,
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
