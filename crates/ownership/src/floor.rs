//! What an owner may say of a key that it has no entry for. A new cluster knows that nobody spent anything; a successor
//! whose predecessor died knows nothing, and reads each limit on the safe side of its own failure mode: one that fails
//! closed as used to the full at the moment of the takeover, one that fails open as fresh.

use limits::{Absent, Algorithm, Basis, Keeping, Moment, Now, Shape, Span, WallTime};

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
    /// What the predecessor had kept was found and counts: of a limit that is kept, a key that nothing was found of was used
    /// at most by its implicit part. Limits that are not kept read as [`Floor::FullAsOf`] has them.
    KeptAsOf {
        /// As in [`Floor::FullAsOf`].
        at: Now,
        /// As in [`Floor::FullAsOf`].
        takeover_index: u64,
        /// What the predecessor, or one before it, had assumed the worst of, and how long that is over: of keys that nothing
        /// was found of, a limit that remembers longer still has to. `None`: nothing.
        assumed_full: Option<Span>,
    },
}

impl Floor {
    /// How an absent key of a limit of this shape is read, of which `implicit` may be spent unwritten, and which control allotted
    /// at log index `allotted_at`. One that
    /// counts slots reads full even if it fails open: it then admits all the same, but whoever holds a slot that this
    /// owner does not know of can renew it.
    pub fn absent(&self, shape: &Shape, implicit: u64, allotted_at: u64) -> Absent {
        let (at, takeover_index) = match self {
            Floor::Fresh => return Absent::Fresh,
            Floor::FullAsOf { at, takeover_index } | Floor::KeptAsOf { at, takeover_index, .. } => {
                (*at, *takeover_index)
            }
        };
        if allotted_at > takeover_index || Bug::SuccessorFresh.is_here() {
            return Absent::Fresh;
        }
        match (shape.basis, shape.algorithm) {
            (Basis::Hi, _) if self.is_known(shape) => match implicit {
                0 => Absent::Fresh,
                units => Absent::UsedAsOf { at, units },
            },
            (Basis::Hi, _) | (Basis::Lo, Algorithm::Concurrency { .. }) => Absent::FullAsOf(at),
            (Basis::Lo, _) if Bug::OpenReadsFull.is_here() => Absent::FullAsOf(at),
            (Basis::Lo, _) => Absent::Fresh,
        }
    }

    /// Whether what a predecessor had kept was found, and counts.
    pub const fn is_kept(&self) -> bool {
        matches!(self, Floor::KeptAsOf { .. })
    }

    /// Whether what was kept says all there is to know of this limit's keys.
    fn is_known(&self, shape: &Shape) -> bool {
        match self {
            Floor::KeptAsOf { assumed_full, .. } => {
                shape.keeping() == Keeping::Most && assumed_full.is_none_or(|age| age >= shape.remembers_for())
            }
            Floor::Fresh | Floor::FullAsOf { .. } => false,
        }
    }

    /// The same floor now that what the predecessor had kept was found, and what it had assumed.
    pub(crate) const fn with_record(self, assumed_full: Option<Span>) -> Floor {
        match self {
            Floor::FullAsOf { at, takeover_index } => Floor::KeptAsOf { at, takeover_index, assumed_full },
            Floor::Fresh | Floor::KeptAsOf { .. } => self,
        }
    }

    /// How long it is since this owner, or one before it, assumed the worst of keys that nothing was known of; `None` where
    /// none did. A successor has to go on with that.
    pub(crate) fn assumed_full(&self, now: Moment) -> Option<Span> {
        match self {
            Floor::Fresh | Floor::KeptAsOf { assumed_full: None, .. } => None,
            Floor::FullAsOf { at, .. } => Some(now.since(at.moment)),
            Floor::KeptAsOf { at, assumed_full: Some(age), .. } => Some(age.saturating_add(now.since(at.moment))),
        }
    }

    /// The reading that is later than every decision of a predecessor, where there may have been one.
    pub const fn as_of(&self) -> Option<Now> {
        match self {
            Floor::Fresh => None,
            Floor::FullAsOf { at, .. } | Floor::KeptAsOf { at, .. } => Some(*at),
        }
    }

    /// The earliest reading at which an owner with this floor may decide.
    pub const fn since(&self) -> Moment {
        match self.as_of() {
            None => Moment::ZERO,
            Some(at) => at.moment,
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
                Floor::FullAsOf { at: reckoned(moment, wall, now), takeover_index }
            }
            (Floor::KeptAsOf { at: Now { moment, wall: None }, takeover_index, assumed_full }, Some(wall)) => {
                Floor::KeptAsOf { at: reckoned(moment, wall, now), takeover_index, assumed_full }
            }
            (Floor::Fresh | Floor::FullAsOf { .. } | Floor::KeptAsOf { .. }, _) => self,
        }
    }
}

/// An earlier reading with the cluster time that belongs to it, by what it is now.
fn reckoned(moment: Moment, wall: WallTime, now: Now) -> Now {
    Now::with_wall(moment, wall.saturating_sub(now.moment.since(moment)))
}

#[cfg(test)]
mod tests {
    use limits::{DomainId, LimitId, Rate};

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
        assert_eq!(FULL.absent(&counting(Basis::Lo, slots), 1, 7), Absent::FullAsOf(AT));
    }

    #[test]
    fn after_a_takeover_a_closed_limit_reads_full_and_an_open_one_fresh() {
        assert_eq!(FULL.absent(&counting(Basis::Hi, LOG), 1, 7), Absent::FullAsOf(AT));
        assert_eq!(FULL.absent(&counting(Basis::Lo, LOG), 1, 7), Absent::Fresh);
    }

    #[test]
    fn a_limit_allotted_after_the_takeover_reads_fresh_and_one_allotted_by_it_does_not() {
        assert_eq!(FULL.absent(&counting(Basis::Hi, LOG), 1, 40), Absent::FullAsOf(AT));
        assert_eq!(FULL.absent(&counting(Basis::Hi, LOG), 1, 41), Absent::Fresh);
    }

    #[test]
    fn a_new_cluster_reads_every_limit_fresh() {
        assert_eq!(Floor::Fresh.absent(&counting(Basis::Hi, LOG), 1, 0), Absent::Fresh);
        assert_eq!(Floor::Fresh.absent(&counting(Basis::Lo, LOG), 1, 0), Absent::Fresh);
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
