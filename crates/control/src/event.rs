//! What changed. One vocabulary for logs, the events endpoint, golden traces and checkers: nobody invents a second word
//! for the same thing. A decision is no event, it is its own record.

use limits::LimitId;
use ownership::{Epoch, SessionId};
use ring::{NodeId, PartitionId};

use crate::genesis::ClusterId;
use crate::refusal::Refusal;

/// A change of state. The first group comes from [`crate::State::apply`], alike on every node; the second is what one
/// node saw itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The cluster exists.
    ClusterFounded {
        /// Its uuid.
        cluster: ClusterId,
        /// Its name.
        name: String,
    },
    /// A node lives.
    SessionOpened {
        /// Its session.
        session: SessionId,
        /// Its name.
        name: String,
    },
    /// A node's lease ran out.
    SessionExpired {
        /// Its session.
        session: SessionId,
        /// Its name.
        name: String,
    },
    /// A node left as planned.
    SessionReleased {
        /// Its session.
        session: SessionId,
        /// Its name.
        name: String,
    },
    /// A session was appointed where another decided before.
    Takeover {
        /// The new owner.
        to: SessionId,
        /// How many partitions.
        partitions: u16,
    },
    /// The map changed.
    MapPublished {
        /// Its version.
        version: u64,
        /// How many partitions got an owner.
        appointed: u16,
        /// How many have none now.
        vacant: u16,
    },
    /// A domain has a new policy.
    PolicyApplied {
        /// The domain.
        domain: String,
        /// The number of the document.
        revision: u64,
        /// Who proposed it.
        author: String,
    },
    /// A proposal for a policy was refused, and nothing changed.
    PolicyRefused {
        /// The domain.
        domain: String,
        /// Who proposed it.
        author: String,
        /// Why.
        why: Refusal,
    },

    /// Gossip met a node.
    NodeSeen {
        /// Which.
        node: NodeId,
        /// Where it answers peers.
        peer: String,
    },
    /// Gossip had no answer from a node. A hint, no more.
    NodeSuspected {
        /// Which.
        node: NodeId,
    },
    /// Gossip gave a node up. A hint, no more.
    NodeGone {
        /// Which.
        node: NodeId,
    },
    /// The log has another leader, or none.
    LeaderChanged {
        /// Who leads now.
        leader: Option<NodeId>,
    },
    /// This node's lease ran out before it was renewed; it decides nothing until the next session.
    LeaseLapsed {
        /// The session that cannot decide.
        session: SessionId,
    },
    /// This node decides for a partition from now on.
    PartitionActivated {
        /// Which.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// How it reads what nobody wrote down.
        state: ActivatedState,
    },
    /// A partition has no room for another key of this limit.
    TableFull {
        /// The limit.
        limit: LimitId,
    },
    /// This node's clock did what clocks do not do.
    ClockSuspect {
        /// What was seen, in words.
        what: String,
    },
    /// This node is leaving.
    Draining,
}

/// What a new owner knows of what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivatedState {
    /// Nothing was: nobody decided before.
    Fresh,
    /// Nothing is known: limits that fail closed count as used up as of the takeover.
    WorstCase,
}

impl Event {
    /// The event's word, as logs and the events endpoint show it.
    pub const fn word(&self) -> &'static str {
        match self {
            Event::ClusterFounded { .. } => "cluster_founded",
            Event::SessionOpened { .. } => "session_opened",
            Event::SessionExpired { .. } => "session_expired",
            Event::SessionReleased { .. } => "session_released",
            Event::Takeover { .. } => "takeover",
            Event::MapPublished { .. } => "map_published",
            Event::PolicyApplied { .. } => "policy_applied",
            Event::PolicyRefused { .. } => "policy_refused",
            Event::NodeSeen { .. } => "node_seen",
            Event::NodeSuspected { .. } => "node_suspected",
            Event::NodeGone { .. } => "node_gone",
            Event::LeaderChanged { .. } => "leader_changed",
            Event::LeaseLapsed { .. } => "lease_lapsed",
            Event::PartitionActivated { .. } => "partition_activated",
            Event::TableFull { .. } => "table_full",
            Event::ClockSuspect { .. } => "clock_suspect",
            Event::Draining => "draining",
        }
    }
}
