//! Which node should have which slice of the key space: routing hash, partitions, and the consistent-hash placement
//! that proposes an owner for each. It proposes only; the control plane appoints.

mod hash;
mod place;

pub use hash::{NodeId, PartitionCount, PartitionId, RoutingHash, RoutingSeed, Scope};
pub use place::{Member, POINTS_PER_NODE, place};
