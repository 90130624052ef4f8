//! Where a node stands in its group, as a value that can be watched. It is what this node believes: a leader that is cut
//! off goes on believing that it leads, so whoever acts on leadership looks at the age of the last quorum's answer, or
//! confirms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ServerState;
use ring::NodeId;
use tokio::sync::watch;
use tokio::time::Instant;

use super::network::Links;
use super::types::{LogId, Metrics, Peer, StoredMembership, node_id};

/// A node's part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Gets the log and has no vote, or is in no group yet.
    Learner,
    /// Votes and follows.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Believes to lead.
    Leader,
    /// Takes no part any more: stopped, or failed.
    Stopped,
}

/// Who belongs to the group, as of the newest membership entry that this node holds, committed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Index of that entry; `None` before there is one.
    pub index: Option<u64>,
    /// Who votes; the union of both sets while a change is under way.
    pub voters: BTreeSet<NodeId>,
    /// Whether a change of voters is under way.
    pub changing: bool,
    /// Everyone who gets the log, voters and learners.
    pub peers: BTreeMap<NodeId, Peer>,
}

/// What a node knows of itself and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// This node.
    pub id: NodeId,
    /// Its part.
    pub role: Role,
    /// The term it is in.
    pub term: u64,
    /// The leader it follows, this node included.
    pub leader: Option<NodeId>,
    /// The last entry in its log.
    pub last_log: Option<u64>,
    /// The last entry that its machine applied.
    pub last_applied: Option<u64>,
    /// The last entry that its newest snapshot holds.
    pub snapshot: Option<u64>,
    /// The last entry that was cut from the log.
    pub purged: Option<u64>,
    /// On a leader: a moment of this node's monotonic clock, at or before the one at which the newest message that a
    /// quorum has answered was *sent*. Never later than the truth, and at most a few heartbeats earlier.
    pub quorum_acked: Option<Instant>,
    /// On a leader: the last entry known to be in each member's log.
    pub matched: BTreeMap<NodeId, Option<u64>>,
    /// The members.
    pub members: Arc<Members>,
    /// A peer's committed membership, newer than the one here, leaves this node out: it was removed while it was cut
    /// off. Its id will never be a member again.
    pub left_out: bool,
    /// Why it stopped, if it did.
    pub failure: Option<String>,
}

impl Standing {
    /// Whether this node believes to lead.
    pub fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    /// How long ago a quorum still followed this leader; `None` on anyone else, and on a leader that no quorum has
    /// answered yet.
    pub fn quorum_ack_age(&self, now: Instant) -> Option<Duration> {
        self.quorum_acked.map(|at| now.saturating_duration_since(at))
    }

    /// The leader, with its address if the members tell it.
    pub fn leader_peer(&self) -> Option<&Peer> {
        self.members.peers.get(&self.leader?)
    }
}

/// Who leads, in which term. Changes seldom, unlike a [`Standing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The term.
    pub term: u64,
    /// Its leader, as far as this node knows.
    pub leader: Option<NodeId>,
    /// Whether that is this node.
    pub is_me: bool,
}

/// The two watches that are fed from openraft's own.
pub(crate) struct Board {
    id: NodeId,
    seen: Seen,
    standing: watch::Sender<Standing>,
    leadership: watch::Sender<Leadership>,
}

/// One report of openraft's.
struct Seen {
    metrics: Metrics,
    members: Arc<Members>,
    /// A moment before its ages were measured.
    after: Instant,
}

impl Board {
    /// A board that shows this report already, whose ages were measured after `after`.
    pub(crate) fn new(id: NodeId, metrics: Metrics, after: Instant) -> Board {
        let members = Arc::new(members(&metrics.membership_config));
        let seen = Seen { metrics, members, after };
        let standing = seen.standing(id, None);
        let leadership = leadership(&standing);
        Board { id, seen, standing: watch::channel(standing).0, leadership: watch::channel(leadership).0 }
    }

    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Follows openraft's reports until its core is gone, and then says so.
    pub(crate) async fn follow(mut self, mut metrics: watch::Receiver<Metrics>, links: Links) {
        let mut left_out_by = links.left_out_by();
        // Whatever is reported from here on was measured after this.
        let mut looked = self.seen.after;
        loop {
            tokio::select! {
                biased;
                changed = metrics.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let after = std::mem::replace(&mut looked, Instant::now());
                    let report = metrics.borrow_and_update().clone();
                    self.see(report, after, &links);
                }
                // The sender lives in `links`, so this is never an error.
                _ = left_out_by.changed() => {}
            }
            self.show(*left_out_by.borrow_and_update());
        }
        self.stop();
    }

    fn see(&mut self, metrics: Metrics, after: Instant, links: &Links) {
        let members = if Arc::ptr_eq(&self.seen.metrics.membership_config, &metrics.membership_config) {
            Arc::clone(&self.seen.members)
        } else {
            links.keep(|id| metrics.membership_config.membership().get_node(&id).is_some());
            Arc::new(members(&metrics.membership_config))
        };
        self.seen = Seen { metrics, members, after };
    }

    fn show(&self, left_out_by: Option<LogId>) {
        let mut now = self.seen.standing(self.id, left_out_by);
        let leadership = leadership(&now);
        self.standing.send_modify(|known| {
            if known.is_leader() && now.is_leader() && known.term == now.term {
                // Two lower bounds of a value that only grows.
                now.quorum_acked = now.quorum_acked.max(known.quorum_acked);
            }
            *known = now;
        });
        self.leadership.send_if_modified(|known| std::mem::replace(known, leadership) != leadership);
    }

    fn stop(&self) {
        self.standing.send_modify(|standing| {
            standing.role = Role::Stopped;
            standing.leader = None;
            standing.quorum_acked = None;
        });
        self.leadership.send_modify(|leadership| {
            leadership.leader = None;
            leadership.is_me = false;
        });
    }
}

impl Seen {
    fn standing(&self, id: NodeId, left_out_by: Option<LogId>) -> Standing {
        let metrics = &self.metrics;
        let matched = metrics.replication.iter().flatten();
        Standing {
            id,
            role: role(metrics.state),
            term: metrics.current_term,
            leader: metrics.current_leader.and_then(node_id),
            last_log: metrics.last_log_index,
            last_applied: index(metrics.last_applied.as_ref()),
            snapshot: index(metrics.snapshot.as_ref()),
            purged: index(metrics.purged.as_ref()),
            quorum_acked: metrics.millis_since_quorum_ack.and_then(|age| self.before(age)),
            matched: matched.filter_map(|(id, last)| Some((node_id(*id)?, index(last.as_ref())))).collect(),
            members: Arc::clone(&self.members),
            left_out: left_out_by > *metrics.membership_config.log_id(),
            failure: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }

    /// A moment at or before the one that was `age` milliseconds, rounded down, before the report.
    fn before(&self, age: u64) -> Option<Instant> {
        self.after.checked_sub(Duration::from_millis(age.saturating_add(1)))
    }
}

fn index(log_id: Option<&LogId>) -> Option<u64> {
    log_id.map(|log_id| log_id.index)
}

fn leadership(standing: &Standing) -> Leadership {
    Leadership { term: standing.term, leader: standing.leader, is_me: standing.is_leader() }
}

fn members(stored: &StoredMembership) -> Members {
    let membership = stored.membership();
    Members {
        index: stored.log_id().map(|log_id| log_id.index),
        voters: membership.voter_ids().filter_map(node_id).collect(),
        changing: membership.get_joint_config().len() > 1,
        peers: membership.nodes().filter_map(|(id, at)| Peer::of(*id, at).map(|peer| (peer.id, peer))).collect(),
    }
}

fn role(state: ServerState) -> Role {
    match state {
        ServerState::Learner => Role::Learner,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Leader => Role::Leader,
        ServerState::Shutdown => Role::Stopped,
    }
}
