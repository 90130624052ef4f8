//! What listening and dialling count. Shared with whoever prints it; nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::error::Reason;

/// Totals of one listener or dialler since it was made.
#[derive(Debug, Default)]
pub struct Counters {
    made: AtomicU64,
    failed: [AtomicU64; Reason::ALL.len()],
}

impl Counters {
    /// Connections whose handshake succeeded.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// Connections that failed for this reason.
    pub fn failed(&self, reason: Reason) -> u64 {
        self.failed[reason as usize].load(Relaxed)
    }

    pub(super) fn count_made(&self) {
        self.made.fetch_add(1, Relaxed);
    }

    pub(super) fn count_failed(&self, reason: Reason) {
        self.failed[reason as usize].fetch_add(1, Relaxed);
    }
}
