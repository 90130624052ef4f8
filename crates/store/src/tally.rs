//! What became of questions to the store, counted without a lock. Shared with whoever prints it; nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets of durations, in microseconds; one more is open.
pub const BOUNDS_MICROS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// To put a partition into another name.
    Claim,
    /// To write some keys.
    Write,
    /// To write all keys.
    Rewrite,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Not done: the record is another's, gone, or of another format.
    Lost,
    /// Not done: it came late.
    Stale,
    /// See [`StoreError::Away`](crate::StoreError::Away).
    Away,
    /// See [`StoreError::Full`](crate::StoreError::Full).
    Full,
    /// See [`StoreError::TooLarge`](crate::StoreError::TooLarge).
    TooLarge,
    /// See [`StoreError::Unknown`](crate::StoreError::Unknown).
    Unknown,
    /// See [`StoreError::Refused`](crate::StoreError::Refused).
    Refused,
}

/// Totals of one store since it was opened.
#[derive(Debug, Default)]
pub struct Tally {
    asked: [[AtomicU64; Outcome::ALL.len()]; Op::ALL.len()],
    times: [Times; Op::ALL.len()],
    connected: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
}

/// How long answers took.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    /// How many answers took up to each bound, in seconds, and longer than the bound before; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// All of them together, in seconds.
    pub sum: f64,
}

impl Durations {
    /// How many answers there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

impl Tally {
    /// How many questions of each kind came to each end.
    pub fn asked(&self) -> impl Iterator<Item = (Op, Outcome, u64)> {
        Op::ALL
            .into_iter()
            .flat_map(|op| Outcome::ALL.into_iter().map(move |outcome| (op, outcome)))
            .map(|(op, outcome)| (op, outcome, self.asked[op as usize][outcome as usize].load(Relaxed)))
    }

    /// How long Redis took to answer questions of this kind; those without an answer are left out.
    pub fn durations(&self, op: Op) -> Durations {
        let times = &self.times[op as usize];
        let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let counts = times.buckets.iter().map(|count| count.load(Relaxed));
        Durations { buckets: bounds.zip(counts).collect(), sum: times.sum_micros.load(Relaxed) as f64 / 1e6 }
    }

    /// How often a connection came up: once, and once more for each time it had to be made anew.
    pub fn connected(&self) -> u64 {
        self.connected.load(Relaxed)
    }

    /// How many attempts to connect came to nothing.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    pub(crate) fn count(&self, op: Op, outcome: Outcome) {
        self.asked[op as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_answer(&self, op: Op, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let times = &self.times[op as usize];
        times.buckets[BOUNDS_MICROS.partition_point(|bound| *bound < micros)].fetch_add(1, Relaxed);
        times.sum_micros.fetch_add(micros, Relaxed);
    }

    pub(crate) fn count_connected(&self) {
        self.connected.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }
}

impl Op {
    /// Every kind.
    pub const ALL: [Op; 3] = [Op::Claim, Op::Write, Op::Rewrite];

    /// The kind as a word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Op::Claim => "claim",
            Op::Write => "write",
            Op::Rewrite => "rewrite",
        }
    }
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 8] = [
        Outcome::Done,
        Outcome::Lost,
        Outcome::Stale,
        Outcome::Away,
        Outcome::Full,
        Outcome::TooLarge,
        Outcome::Unknown,
        Outcome::Refused,
    ];

    /// The outcome as a word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Lost => "lost",
            Outcome::Stale => "stale",
            Outcome::Away => "away",
            Outcome::Full => "full",
            Outcome::TooLarge => "too-large",
            Outcome::Unknown => "unknown",
            Outcome::Refused => "refused",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_in_the_bucket_that_it_fits_into() {
        let tally = Tally::default();
        for micros in [100, 101, 1_000_000, 2_000_000] {
            tally.count_answer(Op::Write, Duration::from_micros(micros));
        }
        let durations = tally.durations(Op::Write);
        let filled: Vec<_> = durations.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(0.0001, 1), (0.00025, 1), (1.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((durations.count(), durations.sum), (4, 3.000_201));
        assert_eq!(tally.durations(Op::Claim).count(), 0);
    }

    #[test]
    fn every_end_of_every_question_has_a_count_of_its_own() {
        let tally = Tally::default();
        for (at, (op, outcome, _)) in tally.asked().enumerate() {
            (0..at).for_each(|_| tally.count(op, outcome));
        }
        assert!(tally.asked().enumerate().all(|(at, (_, _, count))| count == at as u64));
        assert_eq!(tally.asked().count(), 24);
    }
}
