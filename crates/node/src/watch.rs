//! What a node keeps an eye on beside its duties, for whoever reads its events: the other nodes, the leader, its clocks.
//! Nothing here decides about a check.

use std::sync::Arc;
use std::time::Duration;

use control::Event;
use limits::{Moment, Span, WallTime};
use tokio::sync::broadcast;

use crate::clock;
use crate::events::Events;
use crate::gossip::{self, Dropped, GossipHandle};
use crate::owner::Owner;
use crate::raft::RaftNode;
use crate::refusals::Refusals;
use crate::views::Views;

/// How often the clocks are looked at.
const CLOCKS_EVERY: Duration = Duration::from_secs(1);

/// How far the machine's wall clock may be from cluster time. Further, and one of the two is wrong.
pub const CLOCK_SUSPECT: Span = Span::from_secs(5);

/// What gossip notices.
pub async fn gossip(mut noticed: broadcast::Receiver<gossip::Event>, events: Arc<Events>, refusals: Arc<Refusals>) {
    loop {
        match noticed.recv().await {
            Ok(event) => tell_gossip(event, &events, &refusals),
            Err(broadcast::error::RecvError::Lagged(missed)) => tracing::debug!(missed, "gossip events"),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn tell_gossip(event: gossip::Event, events: &Events, refusals: &Refusals) {
    match event {
        gossip::Event::Seen(who) => {
            events.tell(Event::NodeSeen { node: who.id, name: who.name.to_string(), peer: who.peer.to_string() });
        }
        gossip::Event::Suspected(who) => {
            events.tell(Event::NodeSuspected { node: who.id, name: who.name.to_string() });
        }
        gossip::Event::Gone(who) => events.tell(Event::NodeGone { node: who.id, name: who.name.to_string() }),
        gossip::Event::Refused { from, reason } => match reason {
            Dropped::WrongSecret | Dropped::WrongCluster | Dropped::Version => {
                refusals.tell(
                    &from.to_string(),
                    reason.as_str(),
                    &format!("{}: its gossip is refused", reason.as_str()),
                );
            }
            Dropped::Length | Dropped::OwnId | Dropped::Malformed => {
                tracing::debug!(%from, reason = reason.as_str(), "a datagram was dropped");
            }
        },
        gossip::Event::Returned(incarnation) => tracing::info!(%incarnation, "this node was given up, and came back"),
    }
}

/// Who leads.
pub async fn leader(raft: RaftNode, events: Arc<Events>) {
    let mut leadership = raft.leader_watch();
    let mut told = None;
    loop {
        let now = *leadership.borrow_and_update();
        // A term without a leader so far is no news: the next that somebody leads is.
        if told != Some(now.leader) && (now.leader.is_some() || told.is_some()) {
            told = Some(now.leader);
            let name = raft.watch().borrow().leader_peer().map(|peer| peer.name.clone());
            events.tell(Event::LeaderChanged { leader: now.leader, name, term: now.term });
        }
        if leadership.changed().await.is_err() {
            return;
        }
    }
}

/// Tells the others which map this node has applied.
pub async fn map(views: Arc<Views>, gossip: Arc<GossipHandle>) {
    let mut changes = views.changes();
    loop {
        changes.borrow_and_update();
        gossip.set_map_version(views.routes.load().map_version());
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Whether this node's clocks do what clocks do.
pub async fn clocks(owner: Arc<Owner>, events: Arc<Events>) {
    let mut watched = Watched { last: clock::now(), apart: false };
    loop {
        tokio::time::sleep(CLOCKS_EVERY).await;
        for what in watched.look(clock::now(), clock::wall(), owner.cluster_time()) {
            events.tell(Event::ClockSuspect { what });
        }
    }
}

/// What was seen of the clocks so far.
struct Watched {
    last: Moment,
    /// Whether the wall clock was too far from cluster time when it was last looked at.
    apart: bool,
}

impl Watched {
    /// What is wrong now and was not before.
    fn look(&mut self, now: Moment, wall: WallTime, cluster: Option<WallTime>) -> Vec<String> {
        let mut found = Vec::new();
        let back = self.last.since(now);
        if back > Span::ZERO {
            found.push(format!("the boot-time clock went back by {back}"));
        }
        self.last = now;
        let Some(cluster) = cluster else { return found };
        let (ahead, behind) = (wall.since(cluster), cluster.since(wall));
        let apart = ahead.max(behind) > CLOCK_SUSPECT;
        if apart && !self.apart {
            let (by, direction) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
            found.push(format!("the wall clock is {by} {direction} cluster time"));
        }
        self.apart = apart;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> (Moment, WallTime) {
        let nanos = seconds * 1_000_000_000;
        (Moment::from_nanos(nanos), WallTime::from_unix_nanos(nanos))
    }

    #[test]
    fn a_wall_clock_that_strays_is_told_once_and_again_when_it_strays_again() {
        let mut watched = Watched { last: Moment::ZERO, apart: false };
        let mut look = |second, wall| watched.look(at(second).0, at(wall).1, Some(at(1_000).1));
        assert!(look(1, 1_005).is_empty() && look(2, 995).is_empty(), "within what is allowed");
        assert_eq!(look(3, 1_006), ["the wall clock is 6s ahead of cluster time"]);
        assert!(look(4, 4_600).is_empty(), "known");
        assert!(look(5, 1_000).is_empty());
        assert_eq!(look(6, 994), ["the wall clock is 6s behind cluster time"]);
    }

    #[test]
    fn a_boot_time_clock_that_goes_back_is_told_each_time() {
        let mut watched = Watched { last: at(10).0, apart: false };
        assert_eq!(watched.look(at(7).0, at(7).1, None), ["the boot-time clock went back by 3s"]);
        assert!(watched.look(at(8).0, at(8).1, None).is_empty());
        assert_eq!(watched.look(at(7).0, at(7).1, None), ["the boot-time clock went back by 1s"]);
    }
}
