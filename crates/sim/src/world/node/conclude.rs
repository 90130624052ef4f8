//! From what the owners of a question's limits said, or did not say, to its decision, as `node::ingress::conclude` does it:
//! failure modes answer for the silent, the caller is told, and owners are told what became of what they charged.

use limits::{Book, FailMode, Wait};
use ownership::ingress::{After, AskedLeg, Came, Conclusion, LegResult, Outcome, Said, conclude};
use ownership::{Act, CheckLeg, EmergencyAnswer, Owner as Appointed};

use super::plan::{Group, Question};
use super::{Effect, Node};
use crate::history::{Reason, Source};
use crate::world::packet::{Packet, Telling};
use crate::world::script::number_of;
use crate::world::trace::{Correction, Decision, Event, LegSeen, LegTold};

impl Node {
    /// Every group is settled: what the caller is told, and what the owners are.
    pub(super) fn conclude(&mut self, question: Question) {
        let came: Vec<Came<'_>> = question.groups.iter().map(came).collect();
        let calendars = question.matched.shapes().shared_calendars().cloned();
        let now = self.now();
        let mut emergency = self.ingress.emergency.take();
        let conclusion = conclude(Act::Spend, &question.legs, &came, |leg| match &mut emergency {
            Some(emergency) => emergency.decide(leg, calendars.as_ref(), now),
            None => EmergencyAnswer::Closed,
        });
        if conclusion.has_lent()
            && let Some(emergency) = &mut emergency
        {
            conclusion.give_back(emergency, now);
        }
        self.ingress.emergency = emergency;
        self.tell_lent(&question, &conclusion);
        for (number, group) in (0u8..).zip(&question.groups) {
            self.settle_up(group, conclusion.after(number), || conclusion.owed(number).to_vec());
        }
        if conclusion.id_reused {
            return self.effect(Effect::Tell(question.put, None));
        }
        let told = |(leg, result): (&AskedLeg, &LegResult)| leg_told(&question, leg, result);
        let legs = question.legs.iter().zip(&conclusion.results).map(told).collect();
        let decision = Decision { allowed: conclusion.allowed, legs };
        self.effect(Effect::Tell(question.put, Some(decision)));
    }

    /// Tells the trace what the emergency limiter lent for good.
    fn tell_lent(&mut self, question: &Question, conclusion: &Conclusion<'_>) {
        if !conclusion.allowed {
            return;
        }
        let now = self.now();
        let session = self.owner.lease().session;
        for (leg, result) in question.legs.iter().zip(&conclusion.results) {
            if let (Said::Emergency(said), FailMode::Emergency { percent, .. }) = (result.said, leg.fail)
                && said.allowed
            {
                let leg = seen_whole(leg, true);
                let (node, clock, wall, id) = (self.machine, now.moment, now.wall, question.put.id);
                self.trace(Event::Lent { node, session, clock, wall, id, percent, leg });
            }
        }
    }

    /// Tells the owner of a group what became of the check, where it must know.
    fn settle_up(&mut self, group: &Group, after: After, owed: impl FnOnce() -> Vec<CheckLeg>) {
        let asked = group.settled.as_ref().and_then(|settled| settled.owner);
        let Some(owner) = asked.or(group.spent_at) else { return };
        let (id, asker) = (group.check.id, group.check.asker);
        match after {
            After::Nothing => {}
            After::Cancel => self.tell(group, owner, Correction::Cancel, Telling::Cancel(id, asker)),
            After::Trim(units) => self.tell(group, owner, Correction::Trim(units), Telling::Trim(id, asker, units)),
            After::Debt => self.tell(group, owner, Correction::Debt, Telling::Debt(id, asker, owed())),
        }
    }

    /// Sends what a settled question still owes an owner; no answer is awaited.
    pub(super) fn tell(&mut self, group: &Group, owner: Appointed, what: Correction, told: Telling) {
        let (node, partition, id, asker) = (self.machine, group.partition, group.check.id, group.check.asker);
        self.trace(Event::Corrected { node, partition, id, asker, what });
        match number_of(owner.session.node) {
            to if to == self.me => self.be_told(partition, told),
            to => self.effect(Effect::Forward(to, Packet::Tell(partition, told))),
        }
    }
}

fn came(group: &Group) -> Came<'_> {
    let settled = group.settled.as_ref();
    Came {
        outcome: settled.map(|settled| &settled.outcome),
        may_have_spent: settled.is_some_and(|settled| settled.may_have_spent) || group.spent_at.is_some(),
    }
}

fn seen_whole(leg: &AskedLeg, allowed: bool) -> LegSeen {
    LegSeen { limit: leg.limit, key: leg.key, cost: leg.cost, allowed, shadow: leg.shadow, shape: leg.whole }
}

/// What one limit says to the caller.
fn leg_told(question: &Question, leg: &AskedLeg, result: &LegResult) -> LegTold {
    let group = &question.groups[usize::from(leg.group)];
    let settled = group.settled.as_ref();
    let degraded = |allowed, source| LegTold {
        leg: seen_whole(leg, allowed),
        source,
        reason: Reason::Unavailable,
        fail: leg.fail,
        epoch: None,
        session: None,
    };
    match result.said {
        Said::Open => degraded(true, Source::Open),
        Said::Closed => degraded(false, Source::Closed),
        Said::Emergency(decision) => degraded(decision.allowed, Source::Emergency),
        Said::Owner(decision) => {
            let recovering = settled
                .is_some_and(|settled| matches!(&settled.outcome, Outcome::Decided(verdict) if verdict.recovering));
            let witness = group.witness.as_ref();
            let seen = witness.and_then(|(_, legs)| legs.get(usize::from(leg.place))).copied();
            LegTold {
                leg: LegSeen { allowed: decision.allowed, ..seen.unwrap_or(seen_whole(leg, decision.allowed)) },
                source: settled.map_or(Source::Forwarded, |settled| settled.source),
                reason: match decision.wait {
                    _ if decision.allowed => Reason::Ok,
                    Wait::Never => Reason::Never,
                    Wait::Now | Wait::After(_) if recovering => Reason::Recovering,
                    Wait::Now | Wait::After(_) => Reason::Limit,
                },
                fail: leg.fail,
                epoch: settled.and_then(|settled| settled.epoch),
                session: witness.map(|(session, _)| *session),
            }
        }
    }
}
