//! Denials that this node repeats without asking their owners: the rules are those of `ownership::ingress::Denials`. They go
//! by the time that limits go by, which a test may move.

use ownership::ingress::{Heard, Outcome};
use smallvec::SmallVec;
use wire::forward::Forwarded;

use limits::Moment;

use crate::clock;
use crate::decision::Source;
use crate::ingress::plan::{Asks, Group, Plan};
use crate::ingress::{Ingress, Settled};

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
            let Some(known) = self.denials.lock().find(&asks.legs, asks.revision, owners, now) else { continue };
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
            self.denials.lock().learn(&asks.legs, asks.revision, groups, limit_time);
        }
    }

    /// Forgets all denials.
    pub(crate) fn forget_denials(&self) {
        self.denials.lock().clear(self.owner.now().moment);
    }

    /// Keys were reset, which no owner foresaw when it denied: before the caller is told, every node that can be reached has
    /// forgotten its denials.
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
