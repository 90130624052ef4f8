//! Claims that wait to be made: each partition's once, and those that checks wait for before others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ring::PartitionId;

use crate::kept::Claim;

#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    all: BTreeMap<PartitionId, Claim>,
    /// Those that checks wait for, the first first; each once.
    urgent: VecDeque<PartitionId>,
    hurried: BTreeSet<PartitionId>,
}

impl Claims {
    pub(super) fn add(&mut self, claim: Claim) {
        // One of an earlier reign comes too late.
        let is_late = self.all.get(&claim.partition).is_some_and(|known| known.keeper.epoch > claim.keeper.epoch);
        if !is_late {
            self.all.insert(claim.partition, claim);
        }
    }

    /// Checks wait for this partition's claim.
    pub(super) fn hurry(&mut self, partition: PartitionId) {
        if self.all.contains_key(&partition) && self.hurried.insert(partition) {
            self.urgent.push_back(partition);
        }
    }

    pub(super) fn next(&mut self) -> Option<Claim> {
        while let Some(partition) = self.urgent.pop_front() {
            self.hurried.remove(&partition);
            if let Some(claim) = self.all.remove(&partition) {
                return Some(claim);
            }
        }
        self.all.pop_first().map(|(_, claim)| claim)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.all.values()
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Claim) -> bool) {
        self.all.retain(|_, claim| stays(claim));
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use limits::Moment;
    use ring::NodeId;

    use super::*;
    use crate::kept::Keeper;
    use crate::session::{Epoch, SessionId};

    fn claim(partition: u16, epoch: u64) -> Claim {
        let session = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };
        let keeper = Keeper { epoch: Epoch(epoch), session };
        Claim { partition: PartitionId(partition), keeper, before: None, since: Moment::ZERO, again: false }
    }

    #[test]
    fn partitions_that_checks_wait_for_are_claimed_before_others() {
        let mut claims = Claims::default();
        (0..4).for_each(|partition| claims.add(claim(partition, 2)));
        claims.hurry(PartitionId(2));
        claims.hurry(PartitionId(2));
        claims.hurry(PartitionId(9));
        let order: Vec<u16> = std::iter::from_fn(|| claims.next()).map(|claim| claim.partition.0).collect();
        assert_eq!(order, [2, 0, 1, 3]);
    }

    #[test]
    fn a_partition_is_claimed_for_its_latest_reign() {
        let mut claims = Claims::default();
        [2, 3, 1].into_iter().for_each(|epoch| claims.add(claim(5, epoch)));
        assert_eq!((claims.next(), claims.next()), (Some(claim(5, 3)), None));
    }
}
