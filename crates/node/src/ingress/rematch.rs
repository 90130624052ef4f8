//! A question's way to its owners, through changes of the policy: it is decided by one revision, the one that it was matched
//! with, so it is matched anew when an owner turns out to go by a later one, once this node knows that one too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use limits::{Moment, Span};
use ownership::Act;
use ownership::ingress::Outcome;
use wire::forward::Forwarded;

use crate::clock;
use crate::decision::{Decision, NotPut, Question};
use crate::ingress::Ingress;
use crate::ingress::plan::{Asks, Group, Plan};
use crate::views::Policies;

/// How often a question is matched anew: so many changes of its policy may come while it is asked. Its budget bounds it too.
pub const REMATCHES_MAX: usize = 8;

impl Ingress {
    /// Asks for what is open until everything is settled; matches anew when an owner knows a newer policy. Returns the
    /// decision with the policies it was made under.
    pub(super) async fn ask_until_settled(
        &self,
        plan: &mut Plan,
        question: &Question<'_>,
        policies: &Arc<Policies>,
    ) -> (Result<Decision, NotPut>, Arc<Policies>) {
        let mut matched = Arc::clone(policies);
        let deadline = clock::now().saturating_add(question.budget);
        for _ in 0..REMATCHES_MAX {
            let Some(differs) = self.drive_all(plan, &matched).await else { break };
            let Plan::Asks(asks) = plan else { break };
            let Some(newest) = self.newer(asks, question.domain, differs, &matched, deadline).await else { break };
            // Owners that admitted already repeat their answer, since the id stays the same; what they denied they decide anew.
            let again = Question { budget: deadline.since(clock::now()), ..question.clone() };
            let mut next = self.plan_again(&newest, &again, asks);
            self.cancel_what_is_not_asked_again(asks, &mut next);
            *plan = next;
            matched = newest;
        }
        self.drive_all(plan, &matched).await;
        let decision = match plan {
            Plan::Settled(decision) => decision.clone(),
            Plan::Asks(asks) => {
                self.learn_denial(asks);
                if asks.act() == Act::Reset {
                    self.forget_denials_everywhere(deadline).await;
                }
                self.conclude(asks, question, &matched)
            }
        };
        (decision, matched)
    }

    /// Drives every group of a plan; whether an owner did not know a limit, and this node has other policies by now. `None`
    /// where nobody is to be asked.
    async fn drive_all(&self, plan: &mut Plan, matched: &Arc<Policies>) -> Option<bool> {
        let Plan::Asks(asks) = plan else { return None };
        let driven = asks.groups.iter_mut().map(|group| self.drive(group, matched));
        Some(join_all(driven).await.into_iter().any(|differs| differs))
    }

    /// The policies to match anew with, if that is to be done: those that an owner goes by already, for which this node's log
    /// is waited for, or whatever this node has by now where an owner did not know what it had before.
    async fn newer(
        &self,
        asks: &Asks,
        domain: &str,
        differs: bool,
        matched: &Arc<Policies>,
        deadline: Moment,
    ) -> Option<Arc<Policies>> {
        // Subscribed before the policies are read: what is published in between is not missed.
        let mut changes = self.views.changes();
        loop {
            let newest = self.views.policies.load_full();
            let is_there = match asks.stale_for() {
                Some(revision) => newest.catalogue.domain(domain).is_none_or(|domain| domain.revision() >= revision),
                None => differs && !Arc::ptr_eq(&newest, matched),
            };
            if is_there {
                return (clock::now() < deadline).then_some(newest);
            }
            asks.stale_for()?;
            let left: Span = deadline.since(clock::now());
            if left == Span::ZERO {
                return None;
            }
            tokio::select! {
                biased;
                changed = changes.changed() => changed.ok()?,
                () = tokio::time::sleep(left.into()) => return None,
            }
        }
    }

    /// Takes back what owners charged under the old match, but for questions that the new one repeats word for word.
    fn cancel_what_is_not_asked_again(&self, asks: &Asks, next: &mut Plan) {
        // What speaks of an earlier charge is wanted, whichever match asked for it.
        for group in asks.groups.iter().filter(|group| group.check.act.decides()) {
            let spent =
                group.settled.as_ref().filter(|settled| settled.may_have_spent).and_then(|settled| settled.owner);
            let Some(owner) = spent.or(group.spent_at) else { continue };
            let is_it = |again: &&mut Group| again.partition == group.partition && again.check.legs == group.check.legs;
            match next.groups().find(is_it) {
                Some(again) => again.spent_at = Some(owner),
                None => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    self.tell(owner, Forwarded::Cancel(group.partition, group.check.id, group.check.asker));
                }
            }
        }
    }
}

impl Asks {
    /// The latest revision that an owner turned out to go by instead of the one that this was matched with.
    fn stale_for(&self) -> Option<u64> {
        let revision = |group: &Group| match group.settled.as_ref()?.outcome {
            Outcome::Stale { revision } => Some(revision),
            Outcome::Decided(_) | Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_) => None,
        };
        self.groups.iter().filter_map(revision).max()
    }

    /// Whether every group is settled, and for good: nothing is to be matched anew, and nobody else to be told first.
    pub(super) fn is_decided(&self) -> bool {
        self.is_settled() && self.stale_for().is_none() && self.act() != Act::Reset
    }
}
