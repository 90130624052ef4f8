//! Denials that this node repeats without asking their owners: the rules are those of `ownership::ingress::Denials`. They go
//! by the time that limits go by, which a test may move.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limits::Moment;
use ownership::ingress::{AskedLeg, Denials, Heard, Outcome};
use parking_lot::Mutex;
use smallvec::SmallVec;
use wire::forward::Forwarded;

use crate::clock;
use crate::decision::Source;
use crate::ingress::plan::{Asks, Group, Plan};
use crate::ingress::{Appointed, Ingress, Settled};

/// The denials of one ingress. Where nothing is denied, or was a while ago, looking for one takes no lock.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    denials: Mutex<Denials>,
    /// No later than this is anything certain that was learned, in nanoseconds of limit time.
    certain_until: AtomicU64,
}

impl Remembered {
    pub(super) fn len(&self) -> usize {
        self.denials.lock().len()
    }

    fn clear(&self, now: Moment) {
        self.denials.lock().clear(now);
    }

    fn learn(&self, legs: &[AskedLeg], revision: u64, groups: SmallVec<[Heard; 1]>, now: Moment) {
        let until = self.denials.lock().learn(legs, revision, groups, now);
        // Whoever looks before it reads this asks an owner once more, which does no harm.
        self.certain_until.fetch_max(until.map_or(0, Moment::as_nanos), Relaxed);
    }

    fn find(
        &self,
        legs: &[AskedLeg],
        revision: u64,
        owner_of: impl Fn(usize) -> Option<Appointed>,
        now: Moment,
    ) -> Option<SmallVec<[Heard; 1]>> {
        if now.as_nanos() >= self.certain_until.load(Relaxed) {
            return None;
        }
        self.denials.lock().find(legs, revision, owner_of, now)
    }
}

impl Ingress {
    /// Settles every question of which all that its owners would say is known. One that is decided here alone is not looked
    /// for: its owner is as near as what is known of it.
    pub(super) fn repeat_denials(&self, plans: &mut [Plan]) {
        let routes = self.views.routes.load();
        let owner_of = |group: &Group| routes.owner_of(group.partition);
        for plan in plans {
            let Plan::Asks(asks) = plan else { continue };
            let elsewhere = |group: &Group| owner_of(group).is_some_and(|owner| owner.session.node != self.me);
            if !asks.is_repeatable() || !asks.groups.iter().any(elsewhere) {
                continue;
            }
            let (now, sent) = (self.owner.now().moment, clock::now());
            let owners = |group: usize| asks.groups.get(group).and_then(owner_of);
            let Some(known) = self.denials.find(&asks.legs, asks.revision, owners, now) else { continue };
            for (group, Heard { owner, verdict, .. }) in asks.groups.iter_mut().zip(known) {
                group.settled = Some(Settled {
                    outcome: Outcome::Decided(verdict),
                    owner: Some(owner),
                    epoch: Some(owner.epoch),
                    source: Source::DenialCache,
                    revision: asks.revision,
                    may_have_spent: false,
                    sent,
                });
            }
        }
    }

    /// Remembers a denial that is certain for a while, if anybody else was asked for it.
    pub(super) fn learn_denial(&self, asks: &Asks) {
        let forwarded = |group: &Group| group.settled.as_ref().is_some_and(|it| it.source == Source::Forwarded);
        if !asks.is_repeatable() || !asks.groups.iter().any(forwarded) {
            return;
        }
        let (limit_time, now) = (self.owner.now().moment, clock::now());
        let heard = |group: &Group| heard_of(group, |sent| limit_time.saturating_sub(now.since(sent)));
        let Some(groups) = asks.groups.iter().map(heard).collect::<Option<SmallVec<[Heard; 1]>>>() else { return };
        if groups.iter().any(|heard| !heard.verdict.allowed) {
            self.denials.learn(&asks.legs, asks.revision, groups, limit_time);
        }
    }

    /// Forgets all denials.
    pub(crate) fn forget_denials(&self) {
        self.denials.clear(self.owner.now().moment);
    }

    /// Keys were reset, which no owner foresaw when it denied: before the caller is told, every node that is not left alone
    /// has forgotten its denials.
    pub(super) async fn forget_denials_everywhere(&self, deadline: Moment) {
        self.forget_denials();
        let told = self.links.ask_all(&Forwarded::Forget);
        let left = deadline.since(clock::now());
        // Whoever does not answer in time forgets by itself: no denial is certain for more than a second.
        let _ = tokio::time::timeout(left.into(), told).await;
    }
}

fn heard_of(group: &Group, on_limit_time: impl Fn(Moment) -> Moment) -> Option<Heard> {
    let settled = group.settled.as_ref()?;
    let owner = settled.owner.filter(|owner| settled.epoch == Some(owner.epoch))?;
    match &settled.outcome {
        Outcome::Decided(verdict) => Some(Heard { owner, verdict: verdict.clone(), sent: on_limit_time(settled.sent) }),
        Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Stale { .. } | Outcome::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use limits::Span;

    use super::*;

    #[test]
    fn looking_takes_no_lock_where_nothing_is_certain() {
        let remembered = Remembered::default();
        let over = Moment::from_nanos(1).saturating_add(Span::from_secs(1));
        remembered.certain_until.store(over.as_nanos(), Relaxed);
        let _held = remembered.denials.lock();
        assert!(remembered.find(&[], 1, |_| None, over).is_none(), "while somebody else holds it");
    }
}
