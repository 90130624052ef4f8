//! The partitions of this node as the store sees them: what is found of them, and what they have written.

use std::sync::atomic::Ordering;

use control::event::ActivatedState;
use ownership::kept::{Gates, Keeper, Written};
use ownership::{Epoch, Found, Recovered, SessionId, Write};
use ring::PartitionId;

use super::Owner;

impl Gates for &Owner {
    fn knows_time(&self) -> bool {
        self.wall().is_some()
    }

    fn bind_all(&mut self) {
        for (number, gate) in self.gates.iter().enumerate() {
            let mut gate = gate.lock();
            gate.bind();
            if gate.wants_write() {
                drop(gate);
                self.want_write(PartitionId(number as u16));
            }
        }
    }

    fn free_all(&mut self) {
        self.gates.iter().for_each(|gate| gate.lock().free());
    }

    /// Asked again and again until it is, so it begins where it ended the last time: that gate is mostly the only one that is
    /// locked. A node that has sealed what it owned says nothing of records from before that it did not obey to the end: its
    /// session lives until the log has ended it.
    fn is_kept_whole(&mut self) -> bool {
        let (before, from) = self.gates.split_at(self.not_whole.load(Ordering::Relaxed));
        let mut gates = from.iter().chain(before);
        let Some(passed) = gates.position(|gate| !gate.lock().is_kept_whole()) else {
            // Read last: it was announced before any gate was shut.
            return !self.sealed.load(Ordering::SeqCst);
        };
        self.not_whole.store((before.len() + passed) % self.gates.len(), Ordering::Relaxed);
        false
    }

    fn claim_number(&mut self, partition: PartitionId, keeper: Keeper) -> Option<u64> {
        let (gate, _) = self.enter(partition)?;
        is_of(gate.epoch(), gate.session(), keeper).then(|| gate.claim_number())
    }

    fn found(&mut self, partition: PartitionId, epoch: Epoch, found: Found<'_>, bound: bool) -> Option<Recovered> {
        let (mut gate, _) = self.enter(partition)?;
        let policies = self.views.policies.load();
        let recovered = gate.handle_found(epoch, found, bound, &policies.catalogue, self.now());
        let wants_write = gate.wants_write();
        drop(gate);
        // Of a partition that was claimed again nothing is news, and all of it is to be written.
        if wants_write {
            self.want_write(partition);
        }
        let recovered = recovered?;
        self.count_reign(partition, epoch, state_of(recovered));
        Some(recovered)
    }

    fn not_found(&mut self, partition: PartitionId, epoch: Epoch) -> bool {
        let Some((mut gate, _)) = self.enter(partition) else { return false };
        let reigns = gate.is_active() && gate.epoch() == epoch;
        let ended = gate.handle_not_found(epoch);
        drop(gate);
        // A partition that has decided since its time was up waits no longer, and has begun all the same.
        if reigns {
            self.count_reign(partition, epoch, ActivatedState::WorstCase);
        }
        ended
    }

    fn fenced(&mut self, partition: PartitionId, epoch: Epoch) {
        if let Some((mut gate, _)) = self.enter(partition) {
            gate.handle_fenced(epoch);
        }
    }

    fn poll_write(&mut self) -> Option<(PartitionId, Write)> {
        let keeping = self.keeping.as_ref()?;
        while let Some(partition) = keeping.next_write() {
            let Some(gate) = self.gates.get(usize::from(partition.0)) else { continue };
            let write = gate.lock().poll_write(&self.views.policies.load().catalogue, self.now());
            if let Some(write) = write {
                return Some((partition, write));
            }
        }
        None
    }

    fn written(&mut self, partition: PartitionId, write: &Write, written: Written) -> bool {
        let Some((mut gate, _)) = self.enter(partition) else { return false };
        gate.handle_written(write.keeper.epoch, write.seq, written);
        let reigns = is_of(gate.epoch(), gate.session(), write.keeper);
        let (wants_write, wants_claim) = (gate.wants_write(), reigns && gate.wants_claim());
        drop(gate);
        if wants_write {
            self.want_write(partition);
        }
        wants_claim
    }
}

fn is_of(epoch: Epoch, session: Option<SessionId>, keeper: Keeper) -> bool {
    epoch == keeper.epoch && session == Some(keeper.session)
}

/// How events and metrics name what is known of a reign's beginning.
pub(crate) const fn state_of(recovered: Recovered) -> ActivatedState {
    match recovered {
        Recovered::Fresh => ActivatedState::Fresh,
        Recovered::Allowance { .. } => ActivatedState::Allowance,
        Recovered::WorstCase => ActivatedState::WorstCase,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;

    use control::Appointment;
    use limits::Moment;
    use ownership::LeaseBound;
    use ring::NodeId;

    use super::*;
    use crate::views::Views;

    const SESSION: SessionId = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };

    /// With a store.
    fn owner() -> Owner {
        let forever = LeaseBound { session: SESSION, end: Moment::MAX, margin: limits::Span::ZERO };
        Owner::new(Arc::new(Views::unknown()), forever, Arc::default(), Some(Arc::default()))
    }

    fn appointed(partition: PartitionId, epoch: u64) -> Appointment {
        Appointment { partition, epoch: Epoch(epoch), session: SESSION, index: 1, before: None }
    }

    #[test]
    fn a_reign_counts_once_by_what_was_known_when_it_began() {
        let owner = owner();
        let mut gates = &owner;
        for partition in [PartitionId(0), PartitionId(1)] {
            assert_eq!(owner.reign(&appointed(partition, 2)), None, "it is found out first");
        }
        assert!(gates.not_found(PartitionId(0), Epoch(2)));
        let found = [PartitionId(0), PartitionId(1)].map(|at| gates.found(at, Epoch(2), Found::Nobody, false));
        assert_eq!(found, [Some(Recovered::Fresh); 2], "one later, one in time");
        assert!(!gates.not_found(PartitionId(1), Epoch(2)));
        assert_eq!(owner.reigns(), [("fresh", 1), ("allowance", 0), ("worst_case", 1)]);
    }

    #[test]
    fn whether_all_is_kept_is_asked_of_every_partition_from_wherever_it_was_asked_last() {
        let owner = owner();
        let mut gates = &owner;
        assert!(gates.is_kept_whole(), "nothing is owned");
        for partition in [3, 4_095].map(PartitionId) {
            owner.reign(&appointed(partition, 2));
            gates.found(partition, Epoch(2), Found::Nobody, true);
        }
        assert!(!gates.is_kept_whole());
        for (partition, is_whole) in [(PartitionId(3), false), (PartitionId(4_095), true)] {
            let (first, write) = gates.poll_write().unwrap();
            assert_eq!(first, partition);
            gates.written(partition, &write, Written::Done);
            assert_eq!([gates.is_kept_whole(), gates.is_kept_whole()], [is_whole; 2]);
        }
        owner.reign(&appointed(PartitionId(0), 2));
        gates.found(PartitionId(0), Epoch(2), Found::Nobody, true);
        assert!(!gates.is_kept_whole(), "the first comes after the last");
    }

    /// Found by seed 20129 of the simulator: a node that left after its store had been away said that its records count, and
    /// they lacked what it had used meanwhile.
    #[test]
    fn a_node_that_has_given_up_what_it_owned_says_nothing_of_what_is_kept_of_it() {
        let owner = owner();
        owner.reign(&appointed(PartitionId(3), 2));
        owner.seal();
        let mut gates = &owner;
        assert!(!gates.is_kept_whole());
    }
}
