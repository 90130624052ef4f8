//! Which node should have which slice of the key space: routing hash, partitions, and the consistent-hash placement that
//! proposes an owner for each. It proposes only; the control plane appoints.

mod hash;

pub use hash::{NodeId, PartitionId};
