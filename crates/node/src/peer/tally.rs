//! What became of checks sent to one node: counted without a lock, and kept under the node's name, so that a node that comes
//! back goes on where it was.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use histogram::{Durations, Histogram, ONE_TRIP_MICROS};
use limits::Span;

use crate::peer::Unreachable;

/// The counters of one peer.
#[derive(Debug)]
pub struct PeerTally {
    errors: [AtomicU64; Unreachable::ALL.len()],
    times: Histogram,
    untold: AtomicU64,
    opened: AtomicU64,
}

impl Default for PeerTally {
    fn default() -> PeerTally {
        PeerTally {
            errors: Default::default(),
            times: Histogram::new(&ONE_TRIP_MICROS),
            untold: AtomicU64::new(0),
            opened: AtomicU64::new(0),
        }
    }
}

impl PeerTally {
    /// A check could not be delivered.
    pub fn count_error(&self, why: Unreachable) {
        self.errors[why as usize].fetch_add(1, Relaxed);
    }

    /// An answer came so long after the check was sent.
    pub fn count_answer(&self, took: Span) {
        self.times.count(took.into());
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
        self.times.read()
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
