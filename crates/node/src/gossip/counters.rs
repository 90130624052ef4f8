//! What gossip counts. Shared with whoever prints it; nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::frame::Dropped;

/// Totals since the process started.
#[derive(Debug, Default)]
pub struct Counters {
    received: AtomicU64,
    sent: AtomicU64,
    unsent: AtomicU64,
    returned: AtomicU64,
    faults: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

impl Counters {
    /// Datagrams that were authentic and of this cluster.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Datagrams that were made.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Datagrams of those that the socket would not take. Lost, like any datagram may be.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Relaxed)
    }

    /// How often the others had given this node up and it came back.
    pub fn returned(&self) -> u64 {
        self.returned.load(Relaxed)
    }

    /// Complaints of the membership library about its driver. More than none is a bug of ours; it carries on.
    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Datagrams dropped for this reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }

    pub(super) fn count_received(&self) {
        self.received.fetch_add(1, Relaxed);
    }

    pub(super) fn count_sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }

    pub(super) fn count_unsent(&self) {
        self.unsent.fetch_add(1, Relaxed);
    }

    pub(super) fn count_returned(&self) {
        self.returned.fetch_add(1, Relaxed);
    }

    pub(super) fn count_fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    pub(super) fn count_dropped(&self, reason: Dropped) {
        self.dropped[reason as usize].fetch_add(1, Relaxed);
    }
}
