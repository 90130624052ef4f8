//! What became of questions to the store, counted without a lock. Shared with whoever prints it; nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use histogram::{Durations, Histogram, ONE_TRIP_MICROS};

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
#[derive(Debug)]
pub struct Tally {
    asked: [[AtomicU64; Outcome::ALL.len()]; Op::ALL.len()],
    times: [Histogram; Op::ALL.len()],
    keys_written: AtomicU64,
    connected: AtomicU64,
    failed: AtomicU64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            asked: Default::default(),
            times: Op::ALL.map(|_| Histogram::new(&ONE_TRIP_MICROS)),
            keys_written: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
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
        self.times[op as usize].read()
    }

    /// How many keys the writes carried that were done.
    pub fn keys_written(&self) -> u64 {
        self.keys_written.load(Relaxed)
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
        self.times[op as usize].count(took);
    }

    pub(crate) fn count_keys_written(&self, keys: usize) {
        self.keys_written.fetch_add(keys as u64, Relaxed);
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
    fn an_answer_is_timed_under_what_was_asked() {
        let tally = Tally::default();
        tally.count_answer(Op::Write, Duration::from_millis(1));
        assert_eq!(Op::ALL.map(|op| tally.durations(op).count()), [0, 1, 0]);
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
