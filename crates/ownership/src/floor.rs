//! What an owner may say of a key that it has no entry for. A new cluster knows that nobody spent anything; a successor
//! whose predecessor died knows nothing, and reads each limit on the safe side of its own failure mode: one that fails
//! closed as used to the full at the moment of the takeover, one that fails open as fresh.

use limits::{Absent, Algorithm, Basis, Moment, Now, Shape};

use crate::bug::Bug;

/// Through what an absent key of one partition is read, limit by limit. It holds as long as the owner's reign; that it
/// wears off (after one window, or once a bucket has had time to fill) is the arithmetic of [`Absent::FullAsOf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// Nobody can have spent before: every absent key is fresh.
    Fresh,
    /// A predecessor may have admitted anything up to the full limit until it stopped.
    FullAsOf {
        /// A reading of the owner's clock that is later than every decision of the predecessor.
        at: Now,
        /// The log index of the entry that took the partition over. A limit allotted after it reads fresh: the
        /// predecessor cannot have decided it.
        takeover_index: u64,
    },
}

impl Floor {
    /// How an absent key of a limit of this shape is read, which control allotted at log index `allotted_at`. One that
    /// counts slots reads full even if it fails open: it then admits all the same, but whoever holds a slot that this
    /// owner does not know of can renew it.
    pub fn absent(&self, shape: &Shape, allotted_at: u64) -> Absent {
        match self {
            Floor::Fresh => Absent::Fresh,
            Floor::FullAsOf { .. } if Bug::SuccessorFresh.is_here() => Absent::Fresh,
            Floor::FullAsOf { takeover_index, .. } if allotted_at > *takeover_index => Absent::Fresh,
            Floor::FullAsOf { at, .. } => match (shape.basis, shape.algorithm) {
                (Basis::Hi, _) | (Basis::Lo, Algorithm::Concurrency { .. }) => Absent::FullAsOf(*at),
                (Basis::Lo, _) if Bug::OpenReadsFull.is_here() => Absent::FullAsOf(*at),
                (Basis::Lo, _) => Absent::Fresh,
            },
        }
    }

    /// The earliest reading at which an owner with this floor may decide.
    pub const fn since(&self) -> Moment {
        match self {
            Floor::Fresh => Moment::ZERO,
            Floor::FullAsOf { at, .. } => at.moment,
        }
    }

    /// The same floor, once cluster time is known: an owner that took over before it had heard of cluster time works out
    /// what cluster time was at the takeover. The error is what two clocks drift apart meanwhile, 1 % at most: the 100 ms
    /// either way with which windows read a floor cover ten seconds of it, and cluster time comes with every renewal.
    pub(crate) fn with_cluster_time(self, now: Now) -> Floor {
        match (self, now.wall) {
            (Floor::FullAsOf { takeover_index, .. }, _) if Bug::FloorStays.is_here() => {
                Floor::FullAsOf { at: now, takeover_index }
            }
            (Floor::FullAsOf { at: Now { moment, wall: None }, takeover_index }, Some(wall)) => {
                let then = wall.saturating_sub(now.moment.since(moment));
                Floor::FullAsOf { at: Now::with_wall(moment, then), takeover_index }
            }
            (Floor::Fresh | Floor::FullAsOf { .. }, _) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use limits::{DomainId, LimitId, Rate, Span, WallTime};

    use super::*;

    const AT: Now = Now::at(Moment::from_nanos(5_000));
    const FULL: Floor = Floor::FullAsOf { at: AT, takeover_index: 40 };

    const LOG: Algorithm = Algorithm::SlidingLog { max_entries: 4 };

    fn counting(basis: Basis, algorithm: Algorithm) -> Shape {
        let rate = Rate::new(10, Span::from_secs(1)).ok();
        Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis }
    }

    #[test]
    fn slots_that_may_be_held_can_be_renewed_whatever_the_failure_mode() {
        let slots = Algorithm::Concurrency { max_hold: Span::from_secs(60) };
        assert_eq!(FULL.absent(&counting(Basis::Lo, slots), 7), Absent::FullAsOf(AT));
    }

    #[test]
    fn after_a_takeover_a_closed_limit_reads_full_and_an_open_one_fresh() {
        assert_eq!(FULL.absent(&counting(Basis::Hi, LOG), 7), Absent::FullAsOf(AT));
        assert_eq!(FULL.absent(&counting(Basis::Lo, LOG), 7), Absent::Fresh);
    }

    #[test]
    fn a_limit_allotted_after_the_takeover_reads_fresh_and_one_allotted_by_it_does_not() {
        assert_eq!(FULL.absent(&counting(Basis::Hi, LOG), 40), Absent::FullAsOf(AT));
        assert_eq!(FULL.absent(&counting(Basis::Hi, LOG), 41), Absent::Fresh);
    }

    #[test]
    fn a_new_cluster_reads_every_limit_fresh() {
        assert_eq!(Floor::Fresh.absent(&counting(Basis::Hi, LOG), 0), Absent::Fresh);
        assert_eq!(Floor::Fresh.absent(&counting(Basis::Lo, LOG), 0), Absent::Fresh);
    }

    #[test]
    fn a_takeover_before_cluster_time_was_heard_of_learns_what_it_was_then() {
        let later =
            Now::with_wall(AT.moment.saturating_add(Span::from_secs(2)), WallTime::from_unix_nanos(9_000_000_000));
        let Floor::FullAsOf { at, takeover_index: 40 } = FULL.with_cluster_time(later) else { panic!("still full") };
        assert_eq!(at, Now::with_wall(AT.moment, WallTime::from_unix_nanos(7_000_000_000)));

        let even_later = Now::with_wall(later.moment, WallTime::from_unix_nanos(1));
        let known = Floor::FullAsOf { at, takeover_index: 40 };
        assert_eq!(known.with_cluster_time(even_later), known, "what is known once is not worked out again");
    }
}
