//! What became of checks sent to one node: counted without a lock, and kept under the node's name, so that a node that comes
//! back goes on where it was.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limits::Span;

use crate::peer::Unreachable;

/// Upper bounds of the buckets of durations, in microseconds; one more is open.
pub const BOUNDS_MICROS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// The counters of one peer.
#[derive(Debug, Default)]
pub struct PeerTally {
    errors: [AtomicU64; Unreachable::ALL.len()],
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
    untold: AtomicU64,
    opened: AtomicU64,
}

/// How long answers of one peer took.
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

impl PeerTally {
    /// A check could not be delivered.
    pub fn count_error(&self, why: Unreachable) {
        self.errors[why as usize].fetch_add(1, Relaxed);
    }

    /// An answer came so long after the check was sent.
    pub fn count_answer(&self, took: Span) {
        let micros = took.as_nanos() / 1_000;
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_micros.fetch_add(micros, Relaxed);
    }

    /// A cancel or a debt did not fit into the queue, and is lost.
    pub fn count_untold(&self) {
        self.untold.fetch_add(1, Relaxed);
    }

    /// The peer began to be left alone, so many times.
    pub fn count_opened(&self, times: u64) {
        self.opened.fetch_add(times, Relaxed);
    }

    /// Checks that could not be delivered, by reason.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Unreachable::ALL.into_iter().map(|why| (why.as_str(), self.errors[why as usize].load(Relaxed)))
    }

    /// How long answers took.
    pub fn durations(&self) -> Durations {
        let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|count| count.load(Relaxed));
        Durations { buckets: bounds.zip(counts).collect(), sum: self.sum_micros.load(Relaxed) as f64 / 1e6 }
    }

    /// Cancels and debts that were lost.
    pub fn untold(&self) -> u64 {
        self.untold.load(Relaxed)
    }

    /// How often the peer began to be left alone.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_in_the_bucket_that_it_fits_into() {
        let tally = PeerTally::default();
        for micros in [100, 101, 1_000_000, 2_000_000] {
            tally.count_answer(Span::from_micros(micros));
        }
        let durations = tally.durations();
        let filled: Vec<_> = durations.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(0.0001, 1), (0.00025, 1), (1.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((durations.count(), durations.sum), (4, 3.000_201));
    }
}
