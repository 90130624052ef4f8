//! openraft's type parameters, chosen once. Nothing with a generic of openraft in it leaves this module's folder: the rest
//! of the node sees [`Peer`], numbers and bytes.

use std::fmt;
use std::num::NonZeroU64;

use bytes::Bytes;
use ring::NodeId;

use super::runtime::Runtime;

openraft::declare_raft_types!(
    /// What our log carries and what its machine answers: bytes both, and no serde anywhere.
    pub(crate) Types:
        D = Command,
        R = Reply,
        NodeId = u64,
        Node = Address,
        SnapshotData = Bytes,
        AsyncRuntime = Runtime,
);

pub(crate) type Entry = openraft::Entry<Types>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type Membership = openraft::Membership<u64, Address>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, Address>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, Address>;
pub(crate) type Raft = openraft::Raft<Types>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, Address>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type Fatal = openraft::error::Fatal<u64>;

/// One entry's payload: a command that only the machine can read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Command(pub(crate) Bytes);

/// What the machine answered to one command. Empty for entries that are no command.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Reply(pub(crate) Bytes);

/// Where a member is reached and what people call it; its id is the key it is stored under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) address: String,
    pub(crate) name: String,
}

/// A member of the group: who, where, and under which name people know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The identity, which is also the raft id. Never used again once removed.
    pub id: NodeId,
    /// `host:port` of its peer service.
    pub address: String,
    /// The node's name, for people.
    pub name: String,
}

impl Peer {
    pub(crate) fn of(id: u64, address: &Address) -> Option<Peer> {
        Some(Peer { id: node_id(id)?, address: address.address.clone(), name: address.name.clone() })
    }

    pub(crate) fn address(&self) -> Address {
        Address { address: self.address.clone(), name: self.name.clone() }
    }
}

/// The node behind a raft id; zero is openraft's "nobody" and no node.
pub(crate) fn node_id(raw: u64) -> Option<NodeId> {
    NonZeroU64::new(raw).map(NodeId)
}

/// The raft id of a node.
pub(crate) fn raft_id(id: NodeId) -> u64 {
    id.0.get()
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({} bytes)", self.0.len())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({} bytes)", self.0.len())
    }
}
