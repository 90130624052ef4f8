//! A planned exit, so that nobody waits: the node first gives up for good all that it owns, then says so in the log, with
//! who takes it over. Where the log cannot be reached nothing is lost but time: the lease runs out instead.

use std::collections::BTreeSet;
use std::time::Duration;

use control::{Cluster, Command, Ending, Event, Refusal};
use ownership::SessionId;
use tokio::time::Instant;

use crate::gossip;
use crate::node::Node;
use crate::propose::NotProposed;
use crate::session::{Exit, Phase};

/// How long a refused or failed attempt to release the session rests.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long the others may take to say that they have applied who took over; the node then leaves all the same.
const SUCCESSORS_WITHIN: Duration = Duration::from_secs(1);

/// How long saying goodbye to gossip may take.
const FAREWELL_WITHIN: Duration = Duration::from_millis(200);

/// What came of leaving. Either way this node decides nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The log has ended this node's session, and has given away what it owned: nobody waits.
    Released {
        /// How many partitions the node owned.
        partitions: usize,
    },
    /// The log could not be told in time, in words why. The lease runs out, and then the others take over.
    NotReleased(String),
}

/// Where the end of a session stands.
enum Ended {
    NotYet,
    Released,
    Expired,
}

impl Node {
    /// Leaves the cluster as planned, within about `within`: from now on this node is not ready, decides nothing, and
    /// takes nothing over. Checks that still come in are forwarded. The node is to be stopped afterwards; it does not
    /// come back. Calling it again returns what came of it the first time.
    pub async fn leave(&self, within: Duration) -> Left {
        let until = Instant::now() + within;
        self.begin_to_leave();
        let mut left = self.left.lock().await;
        if let Some(left) = &*left {
            return left.clone();
        }
        let mut why = "no answer from the cluster".to_owned();
        let released = tokio::time::timeout_at(until, self.release(&mut why)).await;
        let outcome = released.unwrap_or(Left::NotReleased(why));
        match &outcome {
            Left::Released { partitions } => {
                tracing::info!(partitions, "this node has left");
                self.see_successors(until.min(Instant::now() + SUCCESSORS_WITHIN)).await;
            }
            Left::NotReleased(why) => tracing::warn!(why, "this node leaves without a word: its lease runs out"),
        }
        self.exit.send_replace(Exit::Left);
        let _ = tokio::time::timeout(FAREWELL_WITHIN, self.gossip.leave()).await;
        *left = Some(outcome.clone());
        outcome
    }

    /// Whether this node is on its way out.
    pub fn is_leaving(&self) -> bool {
        *self.exit.borrow() != Exit::None
    }

    fn begin_to_leave(&self) {
        let first = self.exit.send_if_modified(|exit| {
            let first = *exit == Exit::None;
            if first {
                *exit = Exit::Leaving;
            }
            first
        });
        if first {
            self.events.tell(Event::Draining);
            self.views.announce();
        }
        // Before anything is said that lets another decide (S8).
        self.owner.seal();
        self.ingress.give_up_lending();
    }

    /// Proposes the end of the session until this node's own replica has it. `why` says what stands in the way.
    async fn release(&self, why: &mut String) -> Left {
        let mut phase = self.phase.clone();
        // What was proposed before the exit was asked for is seen to its end: a session may yet open.
        let settled = phase.wait_for(|phase| *phase != Phase::Opening).await.map(|phase| *phase);
        let Ok(Phase::Living(session)) = settled else { return Left::Released { partitions: 0 } };
        let mut partitions = 0;
        loop {
            match self.replica().read_cluster(|cluster| ended(cluster, session)).unwrap_or(Ended::NotYet) {
                Ended::Released => return Left::Released { partitions },
                Ended::Expired => return Left::NotReleased("the session had expired before".to_owned()),
                Ended::NotYet => {}
            }
            let plan = |cluster: &Cluster| {
                let takeovers = cluster.plan_takeovers(&[session], &BTreeSet::new());
                (cluster.map.owned_by(session).count(), Command::Release { session, takeovers })
            };
            let Some((owned, command)) = self.replica().read_cluster(plan) else { continue };
            // An appointment that this replica has not applied yet is ended with the session all the same.
            partitions = owned;
            match self.proposer().propose(&command).await {
                // Applied at the leader, or ended by then: this node's own replica will have it in a moment.
                Ok(_) => self.see_end_of(session).await,
                Err(NotProposed::Refused(Refusal::NotLive { session: gone })) if gone == session => {
                    self.see_end_of(session).await;
                }
                Err(error) => {
                    *why = error.to_string();
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Waits until this node's own replica knows that the session has ended.
    async fn see_end_of(&self, session: SessionId) {
        let mut changes = self.views.changes();
        let lives = |cluster: &Cluster| cluster.sessions.lives(session);
        while self.replica().read_cluster(lives).unwrap_or(false) && changes.changed().await.is_ok() {}
    }

    /// Waits until everybody else has applied who took over, so that whoever asks this node's owner next asks the new one.
    /// It matters most on a leader: when it stops, nobody hears of its last entries before another leads.
    async fn see_successors(&self, until: Instant) {
        let version = self.views.routes.load().map_version();
        let applied = |view: &gossip::View| view.active().all(|(_, member)| member.map_version >= version);
        let _ = tokio::time::timeout_at(until, self.gossip.members().wait_for(applied)).await;
    }
}

fn ended(cluster: &Cluster, session: SessionId) -> Ended {
    if cluster.sessions.lives(session) {
        return Ended::NotYet;
    }
    match cluster.sessions.ended.iter().find(|ended| ended.session == session).map(|ended| ended.ending) {
        Some(Ending::Released) => Ended::Released,
        Some(Ending::Expired) | None => Ended::Expired,
    }
}
