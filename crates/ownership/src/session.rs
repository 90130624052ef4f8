//! The unit of ownership: one life of one node, and the number that rises each time a partition changes hands.

use ring::NodeId;

/// One life of one node. A restart, or a lease that ran out, is another session; a session dies once and never returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The node.
    pub node: NodeId,
    /// Random per process start.
    pub nonce: u64,
    /// Rises with each session that one process opens, from 1.
    pub counter: u32,
}

/// Rises by at least one each time a partition changes owner; the first owner's is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);
