//! What this node has kept in the store, and what it finds there: the machines of `ownership` say what is written, read and
//! believed; this part carries it to the store and back. Nothing that decides waits for it: a partition that has something
//! to write is put into a queue, and the one task that talks to the store takes it from there.

mod task;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use limits::{Moment, Span};
use ownership::kept::{Claim, Incarnation, Void};
use parking_lot::Mutex;
use ring::PartitionId;
use tokio::sync::Notify;

pub(crate) use task::Task;

/// What waits for the store: partitions that are to be claimed, and partitions that have something to write. Each is in it
/// once.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    waiting: Mutex<Waiting>,
    rang: Notify,
    tally: Tally,
    view: Mutex<View>,
}

#[derive(Debug, Default)]
struct Waiting {
    claims: BTreeMap<PartitionId, Claim>,
    /// Those of the claims that checks wait for, the first first; each once.
    urgent: VecDeque<PartitionId>,
    hurried: BTreeSet<PartitionId>,
    writes: VecDeque<PartitionId>,
    queued: BTreeSet<PartitionId>,
}

/// What this node knows of its store, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Whether it answers, and in which life.
    pub up: Option<Incarnation>,
    /// Its version, while it answers.
    pub version: Option<String>,
    /// What an operator should know of it.
    pub warnings: Vec<String>,
    /// Why it cannot be used, while it cannot.
    pub down: Option<String>,
    /// In which life this node's records count, as the log says; `None`: a crash of this node is a worst case.
    pub durable: Option<Incarnation>,
    /// Whether this node spends no more than is written down.
    pub bound: bool,
}

/// What became of claims and writes, and how often a check was put off.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counted: AtomicU64,
    nobody: AtomicU64,
    voids: [AtomicU64; VOIDS.len()],
    claims_lost: AtomicU64,
    fenced: AtomicU64,
    loading: AtomicU64,
    allowance: AtomicU64,
}

/// Totals of one node's dealings with its store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Claims, by what came of them.
    pub claims: Vec<(&'static str, u64)>,
    /// Writes that the store refused, since the partition was not held in this node's name.
    pub fenced: u64,
    /// Answers that were put off, by why.
    pub put_off: Vec<(&'static str, u64)>,
}

const VOIDS: [&str; 6] = ["nothing", "of_another", "volatile", "other_life", "incomplete", "damaged"];

impl Keeping {
    /// A partition was taken over: it is claimed as soon as the store answers.
    pub(crate) fn claim(&self, claim: Claim) {
        let mut waiting = self.waiting.lock();
        // One of an earlier reign comes too late.
        let is_late = waiting.claims.get(&claim.partition).is_some_and(|known| known.keeper.epoch > claim.keeper.epoch);
        if !is_late {
            waiting.claims.insert(claim.partition, claim);
        }
        drop(waiting);
        self.rang.notify_one();
    }

    /// Checks wait for this partition's claim: it is made before others.
    pub(crate) fn hurry(&self, partition: PartitionId) {
        let mut waiting = self.waiting.lock();
        if waiting.claims.contains_key(&partition) && waiting.hurried.insert(partition) {
            waiting.urgent.push_back(partition);
        }
    }

    /// A partition has something to write.
    pub(crate) fn want_write(&self, partition: PartitionId) {
        let mut waiting = self.waiting.lock();
        if waiting.queued.insert(partition) {
            waiting.writes.push_back(partition);
            drop(waiting);
            self.rang.notify_one();
        }
    }

    /// A check was put off until it is known what was kept, or until what it needs is written.
    pub(crate) fn count_put_off(&self, loading: bool) {
        let counter = if loading { &self.tally.loading } else { &self.tally.allowance };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What is known of the store.
    pub(crate) fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// Totals since the node started.
    pub(crate) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Tally { counted, nobody, voids, claims_lost, fenced, loading, allowance } = &self.tally;
        let won = [("counted", counted), ("nobody", nobody), ("lost", claims_lost)];
        let void = VOIDS.iter().copied().zip(voids);
        Totals {
            claims: won.into_iter().chain(void).map(|(word, counter)| (word, read(counter))).collect(),
            fenced: read(fenced),
            put_off: vec![("loading", read(loading)), ("allowance", read(allowance))],
        }
    }

    async fn rung(&self) {
        self.rang.notified().await;
    }

    fn next_claim(&self) -> Option<Claim> {
        let mut waiting = self.waiting.lock();
        while let Some(partition) = waiting.urgent.pop_front() {
            waiting.hurried.remove(&partition);
            if let Some(claim) = waiting.claims.remove(&partition) {
                return Some(claim);
            }
        }
        waiting.claims.pop_first().map(|(_, claim)| claim)
    }

    fn next_write(&self) -> Option<PartitionId> {
        let mut waiting = self.waiting.lock();
        let partition = waiting.writes.pop_front()?;
        waiting.queued.remove(&partition);
        Some(partition)
    }

    /// Claims that have waited for `patience` by `now`.
    fn overdue(&self, patience: Span, now: Moment) -> Vec<Claim> {
        let waiting = self.waiting.lock();
        waiting.claims.values().filter(|claim| now.since(claim.since) >= patience).copied().collect()
    }

    /// Drops all claims but those of `session`: of reigns that are over.
    fn forget_claims_but_of(&self, session: ownership::SessionId) {
        self.waiting.lock().claims.retain(|_, claim| claim.keeper.session == session);
    }
}

impl Tally {
    fn count_void(&self, void: &Void) {
        if let Some(place) = VOIDS.iter().position(|word| *word == void.as_str()) {
            self.voids[place].fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::num::NonZeroU64;

    use ownership::kept::Keeper;
    use ownership::{Epoch, SessionId};
    use ring::NodeId;

    use super::*;

    fn claim(partition: u16) -> Claim {
        let session = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };
        let keeper = Keeper { epoch: Epoch(2), session };
        Claim { partition: PartitionId(partition), keeper, before: None, since: Moment::ZERO, again: false }
    }

    #[test]
    fn partitions_that_checks_wait_for_are_claimed_before_others() {
        let keeping = Keeping::default();
        (0..4).for_each(|partition| keeping.claim(claim(partition)));
        keeping.hurry(PartitionId(2));
        keeping.hurry(PartitionId(2));
        keeping.hurry(PartitionId(9));
        let order: Vec<u16> = std::iter::from_fn(|| keeping.next_claim()).map(|claim| claim.partition.0).collect();
        assert_eq!(order, [2, 0, 1, 3]);
    }

    #[test]
    fn a_partition_waits_for_its_write_once() {
        let keeping = Keeping::default();
        for partition in [5, 3, 5] {
            keeping.want_write(PartitionId(partition));
        }
        assert_eq!((keeping.next_write(), keeping.next_write()), (Some(PartitionId(5)), Some(PartitionId(3))));
        assert_eq!(keeping.next_write(), None);
        keeping.want_write(PartitionId(5));
        assert_eq!(keeping.next_write(), Some(PartitionId(5)));
    }
}
