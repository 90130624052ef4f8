//! What a leader keeps up beside granting: a shorter ttl is settled once no longer lease is left, emergency shares are divided
//! among fewer once those who are gone have said so, and clocks that do not run as the others do are told.

use std::collections::BTreeSet;
use std::time::Duration;

use control::{Cluster, Command, Event};
use ownership::SessionId;
use ownership::lease::{OddClock, PACE_WINDOW};

use super::{Came, Leader};

/// How often it is looked for something to keep up.
const EVERY: Duration = Duration::from_millis(500);

impl Leader {
    /// Looks again and again for as long as this node leads.
    pub(super) async fn keep_up(&self) {
        loop {
            tokio::time::sleep(EVERY).await;
            for odd in self.desk.odd_paces() {
                self.events.tell(Event::ClockSuspect { what: self.words_of(odd) });
            }
            let due = self.replica.read_cluster(|cluster| self.upkeep(cluster)).flatten();
            if let Some(command) = due
                && self.propose(&command).await == Came::Unknown
            {
                tokio::time::sleep(super::AGAIN_AFTER).await;
            }
        }
    }

    fn upkeep(&self, cluster: &Cluster) -> Option<Command> {
        let terms = cluster.terms();
        if terms.waited() > terms.ttl() && self.desk.is_settled() {
            return Some(Command::SettleTtl { since: cluster.lease.changed_at });
        }
        let to = cluster.plan_lower_n_max()?;
        // Those who ended are counted among those who may lend; those who live have all heard of the number before.
        let heard = self.desk.all_go_by(cluster.sessions.n_max, &BTreeSet::new());
        heard.then_some(Command::LowerNMax { to })
    }

    /// Among how many emergency shares are divided, and whether everybody who may lend is known to go by that.
    pub(super) fn shares(&self) -> Option<(u32, bool)> {
        self.replica.read_cluster(|Cluster { sessions, .. }| {
            let lenders = sessions.lenders_known();
            (sessions.n_max, lenders.is_some_and(|lenders| self.desk.all_go_by(sessions.n_max, &lenders)))
        })
    }

    fn words_of(&self, odd: OddClock) -> String {
        let per_mille = odd.fast_ppb.unsigned_abs() as f64 / 1e6;
        let how = if odd.fast_ppb < 0 { "slower" } else { "faster" };
        let name = self.name_of(odd.session);
        let ran = format!("over {PACE_WINDOW} the boot-time clock of {name} ran {per_mille:.1} per mille {how} than");
        if odd.ended {
            format!(
                "{ran} those of most nodes: its session is extended no more, and it gets nothing new until its clock runs well"
            )
        } else {
            format!("{ran} the leader's, and nobody can say which of them is right")
        }
    }

    fn name_of(&self, session: SessionId) -> String {
        let name = |cluster: &Cluster| cluster.sessions.live.get(&session).map(|live| live.node.name.clone());
        self.replica.read_cluster(name).flatten().unwrap_or_else(|| format!("{:016x}", session.node.0))
    }
}
