//! The only clock reads of this shell. Everything below it takes time as an argument; everything in it asks here, so that
//! what decides a lease, a probe or a deadline is one clock, and clock faults reach it in tests.

#[cfg(not(feature = "simulated"))]
mod system;

use limits::{Moment, Now, WallTime};
use ownership::LeaseBound;
use ownership::cluster_time::ClusterTime;

#[cfg(not(feature = "simulated"))]
use self::system as source;
#[cfg(feature = "simulated")]
use crate::simulated as source;

/// This node's boot-time clock: it runs on while the machine sleeps, and nobody can set it.
pub(crate) fn now() -> Moment {
    Moment::from_nanos(source::boot())
}

/// The machine's idea of the time of day. It decides nothing: a leader sets cluster time by it after a full restart,
/// renewals tell it so that the odd one out is found, and history shows when something was applied.
pub(crate) fn wall() -> WallTime {
    WallTime::from_unix_nanos(source::wall())
}

/// What limits go by: this node's clock, and the cluster time that belongs to the reading.
pub(crate) fn limit_time(time: &ClusterTime) -> Now {
    #[cfg(feature = "test-clock")]
    if let Some(still) = crate::test_clock::reading() {
        return still;
    }
    let moment = now();
    Now { moment, wall: time.now(moment) }
}

/// A lease on the clock that `now`, a reading of limit time, is of: this node's, and then it is the lease as it stands.
pub(crate) fn on_limit_time(lease: LeaseBound, now: Now) -> LeaseBound {
    #[cfg(feature = "test-clock")]
    if crate::test_clock::reading().is_some() {
        return carried_over(lease, self::now(), now.moment);
    }
    let _ = now;
    lease
}

/// A lease that ends as long after `to` as it ends after `from`, readings of two clocks at one instant.
#[cfg(any(test, feature = "test-clock"))]
fn carried_over(lease: LeaseBound, from: Moment, to: Moment) -> LeaseBound {
    LeaseBound { end: to.saturating_add(lease.end.since(from)), ..lease }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use limits::Span;
    use ownership::SessionId;
    use ring::NodeId;

    use super::*;

    #[test]
    fn the_boot_clock_never_goes_back() {
        let readings: Vec<Moment> = (0..1_000).map(|_| now()).collect();
        assert!(readings.is_sorted());
        assert!(readings[999] > readings[0], "a thousand reads take time");
    }

    #[test]
    fn a_lease_lasts_as_long_on_whichever_clock_it_is_told() {
        let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        let session = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };
        let lease = LeaseBound { session, end: at(5_000), margin: Span::from_millis(250) };
        let ends = |from, to| carried_over(lease, at(from), at(to)).end;
        assert_eq!(ends(4_000, 90_000), at(91_000), "a second is left of it");
        assert_eq!(ends(4_000, 7), at(1_007), "wherever the other clock stands");
        assert_eq!(ends(5_001, 90_000), at(90_000), "and what is over here is over there");
    }

    #[test]
    fn the_wall_clock_is_in_this_century() {
        let year_2020 = WallTime::from_unix_nanos(1_577_836_800_000_000_000);
        let year_2100 = WallTime::from_unix_nanos(4_102_444_800_000_000_000);
        assert!(year_2020 < wall() && wall() < year_2100);
    }
}
