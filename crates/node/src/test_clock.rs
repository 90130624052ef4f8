//! Limit time that a test moves. Only in builds with the feature `test-clock`, and there only once [`stop`] was called,
//! before any node of the process starts: from then on what limits, records and calendars go by stands still at the
//! beginning of 2026 and moves when it is told to, on all nodes of the process in one step. Leases, deadlines and gossip go
//! on by the real clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limits::{Moment, Now, Span, WallTime};

/// The reading at which limit time begins: late enough that nothing lies before the earliest one.
const BEGINS: Moment = Moment::from_nanos(3_600 * 1_000_000_000);

/// Cluster time at that reading: 2026-01-01T00:00:00Z.
const BEGINS_WALL: WallTime = WallTime::from_unix_nanos(1_767_225_600_000_000_000);

/// What says that limit time runs by itself.
const RUNS: u64 = u64::MAX;

/// Nanoseconds since limit time began.
static PASSED: AtomicU64 = AtomicU64::new(RUNS);

/// Stops limit time at its beginning. To be called before any node starts: time that had gone on would be ahead.
pub fn stop() {
    PASSED.store(0, Ordering::SeqCst);
}

/// Moves limit time on, and returns where it then stands, as cluster time; `None` where it was never stopped.
pub fn advance(by: Duration) -> Option<WallTime> {
    let by = Span::from(by);
    let moved = |passed: u64| (passed != RUNS).then(|| passed.saturating_add(by.as_nanos()).min(RUNS - 1));
    PASSED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved).ok()?;
    reading().and_then(|now| now.wall)
}

/// Limit time, if it was stopped.
pub(crate) fn reading() -> Option<Now> {
    let passed = Some(PASSED.load(Ordering::SeqCst)).filter(|passed| *passed != RUNS).map(Span::from_nanos)?;
    Some(Now::with_wall(BEGINS.saturating_add(passed), BEGINS_WALL.saturating_add(passed)))
}
