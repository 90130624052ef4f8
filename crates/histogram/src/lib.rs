//! How long things took, counted in buckets without a lock: whoever times something adds to it, whoever prints it takes a
//! reading. Nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds for one question over a network, in microseconds.
pub const ONE_TRIP_MICROS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// The counts, a bucket for each bound and an open one.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum_micros: AtomicU64,
}

/// A reading of a [`Histogram`].
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    /// How many took up to each bound, in seconds, and longer than the bound before; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// All of them together, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Nothing counted yet. The bounds are in microseconds and rise.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        debug_assert!(bounds.is_sorted(), "a bucket is found by bisection");
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_micros: AtomicU64::new(0) }
    }

    /// Something took so long.
    pub fn count(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counts[self.bounds.partition_point(|bound| *bound < micros)].fetch_add(1, Relaxed);
        self.sum_micros.fetch_add(micros, Relaxed);
    }

    /// What was counted so far. What is counted meanwhile may be in the sum and in no bucket yet.
    pub fn read(&self) -> Durations {
        let bounds = self.bounds.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        Durations { buckets: bounds.zip(counts).collect(), sum: self.sum_micros.load(Relaxed) as f64 / 1e6 }
    }
}

impl Durations {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_bucket_that_it_fits_into() {
        let histogram = Histogram::new(&ONE_TRIP_MICROS);
        for micros in [100, 101, 1_000_000, 2_000_000] {
            histogram.count(Duration::from_micros(micros));
        }
        let durations = histogram.read();
        let filled: Vec<_> = durations.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(0.0001, 1), (0.00025, 1), (1.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((durations.count(), durations.sum), (4, 3.000_201));
    }
}
