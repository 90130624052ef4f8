//! The partitions of a process as its dealings with the store need them: each behind its gate, where a shell locks it, and with
//! the policies and the time that belong to it.

use ring::PartitionId;

use crate::kept::{Keeper, Written};
use crate::partition::{Found, Recovered, Write};
use crate::session::Epoch;

/// The partitions of this process, as far as the store is concerned.
pub trait Gates {
    /// Whether cluster time is known. Nothing is claimed before: windows that go by it could not be taken in, and nothing is
    /// decided before it comes, with the first acknowledgement of the lease.
    fn knows_time(&self) -> bool;

    /// Everything that is owned here is written anew, and obeyed.
    fn bind_all(&mut self);

    /// Memory alone decides from now on.
    fn free_all(&mut self);

    /// Whether all that the store has of what is owned here is obeyed. A process that has given up what it owned says no: it
    /// knows nothing of what is written.
    fn is_kept_whole(&mut self) -> bool;

    /// The number to claim a partition under; `None` where that reign is over.
    fn claim_number(&mut self, partition: PartitionId, keeper: Keeper) -> Option<u64>;

    /// What the store had of a partition; `bound` says whether what is written now counts, or may come to. `None` where that
    /// is no news, or the reign is over.
    fn found(&mut self, partition: PartitionId, epoch: Epoch, found: Found<'_>, bound: bool) -> Option<Recovered>;

    /// Nothing is heard of what the store has: checks wait no longer. Returns whether they did.
    fn not_found(&mut self, partition: PartitionId, epoch: Epoch) -> bool;

    /// The store holds a partition in another reign's name.
    fn fenced(&mut self, partition: PartitionId, epoch: Epoch);

    /// The next partition that has something to write, and what.
    fn poll_write(&mut self) -> Option<(PartitionId, Write)>;

    /// What came of a write. Returns whether the partition has to be claimed before it is written again.
    fn written(&mut self, partition: PartitionId, write: &Write, written: Written) -> bool;
}
