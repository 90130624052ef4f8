//! What changed. One vocabulary for logs, the events endpoint, golden traces and checkers: nobody invents a second word
//! for the same thing. A decision is no event, it is its own record.

use std::fmt;

use limits::Span;
use ownership::kept::{Incarnation, Keeper};
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
        /// Its node's name.
        name: String,
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
    /// Leases last another time from now on.
    LeaseChanged {
        /// How long.
        ttl: Span,
        /// How long they lasted before.
        before: Span,
    },
    /// Leaders wait no longer than leases last now: every lease of a longer ttl is over.
    LeaseSettled {
        /// How long they last.
        ttl: Span,
    },
    /// What a node keeps counts elsewhere from now on, or nowhere.
    StoreChanged {
        /// Its session.
        session: SessionId,
        /// Its name.
        name: String,
        /// In which life of the store; `None`: a takeover of this session reads the worst case.
        store: Option<Incarnation>,
    },
    /// An operator vouches for a store.
    StoreTrusted {
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// Emergency shares are divided among fewer.
    NMaxLowered {
        /// Among how many.
        n_max: u32,
        /// Among how many before.
        before: u32,
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
    /// Every live session goes by a domain's policy. Told where somebody waited for it.
    PolicyBinding {
        /// The domain.
        domain: String,
        /// The number of the document.
        revision: u64,
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
        /// Its name.
        name: String,
        /// Where it answers peers.
        peer: String,
    },
    /// Gossip had no answer from a node. A hint, no more.
    NodeSuspected {
        /// Which.
        node: NodeId,
        /// Its name.
        name: String,
    },
    /// Gossip gave a node up, or heard it leave. A hint, no more.
    NodeGone {
        /// Which.
        node: NodeId,
        /// Its name.
        name: String,
    },
    /// The log has another leader, or none.
    LeaderChanged {
        /// Who leads now.
        leader: Option<NodeId>,
        /// The leader's name, if there is a leader and its name is known.
        name: Option<String>,
        /// In which term.
        term: u64,
    },
    /// This node's lease ran out before it was renewed; it decides nothing until it is.
    LeaseLapsed {
        /// The session that cannot decide.
        session: SessionId,
    },
    /// This node decides for partitions from now on: all that one entry of the log gave it, as one event.
    PartitionActivated {
        /// How many.
        partitions: u16,
        /// How it reads what nobody wrote down.
        state: ActivatedState,
    },
    /// The store answers this node.
    StoreUp {
        /// In which life of it.
        incarnation: Incarnation,
    },
    /// The store cannot be used.
    StoreDown {
        /// Why, in words.
        why: String,
    },
    /// What predecessors had kept of partitions that this node took over does not count: the worst case stands.
    RecordsVoid {
        /// How many partitions.
        partitions: u16,
        /// The stable word: see [`ownership::kept::Void`].
        why: &'static str,
    },
    /// The store holds a partition for a later reign than this node's: its claim came second.
    ClaimLost {
        /// The partition.
        partition: PartitionId,
        /// This node's epoch.
        epoch: Epoch,
        /// In whose name it is held.
        by: Keeper,
    },
    /// The store refused a write of this node: the partition is held in another reign's name.
    WriteFenced {
        /// The partition.
        partition: PartitionId,
        /// This node's epoch.
        epoch: Epoch,
        /// In whose name it is held.
        by: Keeper,
    },
    /// What this node kept of partitions is gone from the store, and is written again: somebody emptied it.
    RecordsLost {
        /// How many partitions.
        partitions: u16,
    },
    /// A domain has no room for another key of this limit: the limit's `when_full` answers. Told once in a while.
    TableFull {
        /// The domain.
        domain: String,
        /// The limit.
        limit: String,
    },
    /// This node's clock did what clocks do not do.
    ClockSuspect {
        /// What was seen, in words.
        what: String,
    },
    /// This node is leaving: it has begun to give up what it owns.
    Draining,
    /// A peer and this node do not come to talk, and that will stay so until somebody acts. Told once per peer and reason.
    PeerRefused {
        /// Where it answers, or where it called from.
        peer: String,
        /// The stable word: `wrong-secret`, `wrong-cluster`, `wrong-founders`, `version`.
        reason: String,
    },
}

/// What a new owner knows of what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActivatedState {
    /// Nothing was: nobody decided before.
    Fresh,
    /// What the last owner had kept is known: limits that fail closed count what it may have admitted at most.
    Allowance,
    /// Nothing is known: limits that fail closed count as used up as of the takeover.
    WorstCase,
}

impl ActivatedState {
    /// The state's word, as events and metrics show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ActivatedState::Fresh => "fresh",
            ActivatedState::Allowance => "allowance",
            ActivatedState::WorstCase => "worst_case",
        }
    }
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
            Event::LeaseChanged { .. } => "lease_changed",
            Event::LeaseSettled { .. } => "lease_settled",
            Event::StoreChanged { .. } => "store_changed",
            Event::StoreTrusted { .. } => "store_trusted",
            Event::NMaxLowered { .. } => "n_max_lowered",
            Event::PolicyApplied { .. } => "policy_applied",
            Event::PolicyBinding { .. } => "policy_binding",
            Event::PolicyRefused { .. } => "policy_refused",
            Event::NodeSeen { .. } => "node_seen",
            Event::NodeSuspected { .. } => "node_suspected",
            Event::NodeGone { .. } => "node_gone",
            Event::LeaderChanged { .. } => "leader_changed",
            Event::LeaseLapsed { .. } => "lease_lapsed",
            Event::PartitionActivated { .. } => "partition_activated",
            Event::StoreUp { .. } => "store_up",
            Event::StoreDown { .. } => "store_down",
            Event::RecordsVoid { .. } => "records_void",
            Event::ClaimLost { .. } => "claim_lost",
            Event::WriteFenced { .. } => "write_fenced",
            Event::RecordsLost { .. } => "records_lost",
            Event::TableFull { .. } => "table_full",
            Event::ClockSuspect { .. } => "clock_suspect",
            Event::Draining => "draining",
            Event::PeerRefused { .. } => "peer_refused",
        }
    }

    /// What the event tells, as names and values in a fixed order; what is not known is left out. One name means one
    /// thing in all events: `node` is a name, `id` a node's number, `session` is `nonce/counter`.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |name, value: &dyn fmt::Display| (name, value.to_string());
        match self {
            Event::ClusterFounded { cluster, name } => vec![text("cluster", cluster), text("name", name)],
            Event::SessionOpened { session, name }
            | Event::SessionExpired { session, name }
            | Event::SessionReleased { session, name } => lived_by(name, *session),
            Event::Takeover { to, name, partitions } => {
                let mut fields = lived_by(name, *to);
                fields.push(text("partitions", partitions));
                fields
            }
            Event::MapPublished { version, appointed, vacant } => {
                vec![text("version", version), text("appointed", appointed), text("vacant", vacant)]
            }
            Event::LeaseChanged { ttl, before } => vec![text("ttl", ttl), text("before", before)],
            Event::LeaseSettled { ttl } => vec![text("ttl", ttl)],
            Event::StoreChanged { session, name, store } => {
                let mut fields = lived_by(name, *session);
                fields.extend(store.map(|store| text("store", &store)));
                fields
            }
            Event::StoreTrusted { incarnation } | Event::StoreUp { incarnation } => vec![text("store", incarnation)],
            Event::StoreDown { why } => vec![text("why", why)],
            Event::RecordsVoid { partitions, why } => vec![text("partitions", partitions), text("why", why)],
            Event::ClaimLost { partition, epoch, by } | Event::WriteFenced { partition, epoch, by } => {
                held_by(*partition, *epoch, by)
            }
            Event::RecordsLost { partitions } => vec![text("partitions", partitions)],
            Event::NMaxLowered { n_max, before } => vec![text("n_max", n_max), text("before", before)],
            Event::PolicyApplied { domain, revision, author } => {
                vec![text("domain", domain), text("revision", revision), text("author", author)]
            }
            Event::PolicyBinding { domain, revision } => vec![text("domain", domain), text("revision", revision)],
            Event::PolicyRefused { domain, author, why } => {
                vec![text("domain", domain), text("author", author), text("why", why)]
            }
            Event::NodeSeen { node, name, peer } => {
                vec![text("node", name), ("id", id_text(*node)), text("peer", peer)]
            }
            Event::NodeSuspected { node, name } | Event::NodeGone { node, name } => {
                vec![text("node", name), ("id", id_text(*node))]
            }
            Event::LeaderChanged { leader, name, term } => {
                let name = name.as_ref().map(|name| text("node", name));
                let id = leader.map(|leader| ("id", id_text(leader)));
                name.into_iter().chain(id).chain([text("term", term)]).collect()
            }
            Event::LeaseLapsed { session } => vec![("session", session_text(*session))],
            Event::PartitionActivated { partitions, state } => {
                vec![text("partitions", partitions), text("state", &state.as_str())]
            }
            Event::TableFull { domain, limit } => vec![text("domain", domain), text("limit", limit)],
            Event::ClockSuspect { what } => vec![text("what", what)],
            Event::Draining => Vec::new(),
            Event::PeerRefused { peer, reason } => vec![text("peer", peer), text("reason", reason)],
        }
    }
}

fn lived_by(name: &str, session: SessionId) -> Vec<(&'static str, String)> {
    vec![("node", name.to_owned()), ("id", id_text(session.node)), ("session", session_text(session))]
}

fn held_by(partition: PartitionId, epoch: Epoch, by: &Keeper) -> Vec<(&'static str, String)> {
    vec![
        ("partition", partition.0.to_string()),
        ("epoch", epoch.0.to_string()),
        ("held_epoch", by.epoch.0.to_string()),
        ("id", id_text(by.session.node)),
        ("session", session_text(by.session)),
    ]
}

/// A node's number as `cluster status` shows it.
fn id_text(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

/// A session as operators see it: its node is told beside it.
fn session_text(SessionId { nonce, counter, .. }: SessionId) -> String {
    format!("{nonce:016x}/{counter}")
}
