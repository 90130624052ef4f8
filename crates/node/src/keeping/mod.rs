//! What this node has kept in the store, and what it finds there: the machines of `ownership` say what is claimed, written,
//! read and believed, and when; this part carries it to the store and back. Nothing that decides waits for it: a partition that
//! has something to write is put into a queue, and the one task that talks to the store takes it from there.

mod task;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use ownership::kept::{Claim, Dealings, Incarnation, Void};
use parking_lot::Mutex;
use ring::PartitionId;
use tokio::sync::Notify;

pub(crate) use task::Task;

/// What is wanted of the store by those who decide, until the task takes it from here.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    wanted: Mutex<Wanted>,
    rang: Notify,
    tally: Tally,
    view: Mutex<View>,
}

#[derive(Debug, Default)]
struct Wanted {
    /// Partitions that were taken over.
    claims: Vec<Claim>,
    /// Those whose claims checks wait for.
    hurries: BTreeSet<PartitionId>,
    /// Partitions that have something to write, each once.
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
        self.wanted.lock().claims.push(claim);
        self.rang.notify_one();
    }

    /// Checks wait for this partition's claim: it is made before others. Nobody is woken for it: the task has the claim, or was
    /// woken for it.
    pub(crate) fn hurry(&self, partition: PartitionId) {
        self.wanted.lock().hurries.insert(partition);
    }

    /// A partition has something to write.
    pub(crate) fn want_write(&self, partition: PartitionId) {
        let mut wanted = self.wanted.lock();
        if wanted.queued.insert(partition) {
            wanted.writes.push_back(partition);
            drop(wanted);
            self.rang.notify_one();
        }
    }

    /// The next partition that has something to write.
    pub(crate) fn next_write(&self) -> Option<PartitionId> {
        let mut wanted = self.wanted.lock();
        let partition = wanted.writes.pop_front()?;
        wanted.queued.remove(&partition);
        Some(partition)
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

    /// Hands on which claims are wanted, and which of them first.
    fn hand_on(&self, dealings: &mut Dealings) {
        let (claims, hurries) = {
            let mut wanted = self.wanted.lock();
            (std::mem::take(&mut wanted.claims), std::mem::take(&mut wanted.hurries))
        };
        claims.into_iter().for_each(|claim| dealings.handle_claim(claim));
        hurries.into_iter().for_each(|partition| dealings.handle_hurry(partition));
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
mod tests {
    use super::*;

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
