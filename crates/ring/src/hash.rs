//! From a routing key to its partition.

use std::num::NonZeroU64;

/// A node's identity: random, made once in its data directory, never used again. The raft id and the gossip identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub NonZeroU64);

/// One of the fixed number of slices of the key space, 0 to the cluster's partition count less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);
