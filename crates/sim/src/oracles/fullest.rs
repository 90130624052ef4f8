//! By how much the fullest stretch of what was spent is above what a limit's numbers allow, over one line of time and by
//! the definitions alone. One pass over what was spent, in whole numbers.

use std::collections::BTreeMap;

use limits::{Algorithm, Align, Fingerprint, Shape, Span, WallTime};

/// By how much cluster time may be put forward at an owner, beside running faster than its clock: at once, and again where
/// another one takes over.
pub(super) const PUT_FORWARD: Span = Span::from_millis(300);

/// How much faster than an owner's clock cluster time may run there for long, in millionths.
pub(super) const CLUSTER_TIME_PPM: i32 = 20_000;

/// Something that was spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// When, in nanoseconds of whatever line of time.
    pub(super) at: i128,
    /// Cluster time then, for limits that go by it.
    pub(super) wall: Option<WallTime>,
    /// Units.
    pub(super) cost: u64,
}

/// Units above what the limit allows in its fullest stretch; 0 when it was kept. `spent` is in the order of time.
pub(super) fn excess(shape: &Shape, key: &Fingerprint, spent: &[Spent]) -> u64 {
    let Some(rate) = shape.rate else { return 0 };
    let (amount, period) = (rate.amount(), rate.period().as_nanos());
    match shape.algorithm {
        Algorithm::TokenBucket { .. } => above_the_brim(amount, period, shape.capacity().unwrap_or(0), spent),
        Algorithm::SlidingLog { .. } => fullest_window(period, spent).saturating_sub(amount),
        Algorithm::FixedWindow { align: Align::First } => fullest_window(period, spent).saturating_sub(2 * amount),
        Algorithm::FixedWindow { align } => {
            let shift = if align == Align::Hashed { shift(key, period) } else { 0 };
            fullest_aligned(period, shift, spent).saturating_sub(amount)
        }
        // Twice the amount, less what an earlier cell gives up at the very least.
        Algorithm::SlidingCounter => {
            fullest_window(period, spent).saturating_sub((2 * amount).saturating_sub(u64::from(amount > 0)))
        }
        Algorithm::Calendar { .. } | Algorithm::Concurrency { .. } => 0,
    }
}

/// A meter that drains at the rate: what it shows above the burst is the excess of the fullest stretch that ends there.
fn above_the_brim(amount: u64, period: u64, burst: u64, spent: &[Spent]) -> u64 {
    let (mut level, mut most, mut before) = (0i128, 0i128, None);
    for one in spent {
        let passed = before.map_or(0, |before: i128| (one.at - before).max(0));
        level = (level - passed.saturating_mul(i128::from(amount))).max(0) + i128::from(one.cost) * i128::from(period);
        before = Some(before.map_or(one.at, |before| before.max(one.at)));
        most = most.max(level);
    }
    let over = (most - i128::from(burst) * i128::from(period)).max(0);
    u64::try_from((over + i128::from(period) - 1) / i128::from(period)).unwrap_or(u64::MAX)
}

/// The most in any half-open window of one period.
fn fullest_window(period: u64, spent: &[Spent]) -> u64 {
    let (mut sum, mut most, mut oldest) = (0u64, 0, 0);
    for one in spent {
        sum += one.cost;
        while spent[oldest].at + i128::from(period) <= one.at {
            sum -= spent[oldest].cost;
            oldest += 1;
        }
        most = most.max(sum);
    }
    most
}

/// The most between two edges of cluster time.
fn fullest_aligned(period: u64, shift: u64, spent: &[Spent]) -> u64 {
    let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
    for one in spent {
        if let Some(wall) = one.wall {
            *windows.entry(index(wall, shift, period)).or_default() += one.cost;
        }
    }
    windows.into_values().max().unwrap_or(0)
}

/// The number of the window that a moment of cluster time lies in.
pub(super) fn index(wall: WallTime, shift: u64, period: u64) -> u64 {
    let shifted = u128::from(wall.as_unix_nanos()) + u128::from(shift);
    u64::try_from(shifted / u128::from(period)).unwrap_or(u64::MAX)
}

/// How far a key's own windows are shifted, where they are spread.
pub(super) fn shift(key: &Fingerprint, period: u64) -> u64 {
    ((u128::from(key.0[1]) * u128::from(period)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracles::telling::{KEY, shape};

    fn spent(times: &[(u64, u64)]) -> Vec<Spent> {
        let at = |millis: u64| i128::from(millis) * 1_000_000;
        let wall = |millis: u64| Some(WallTime::from_unix_nanos(1_000_000_000 + millis * 1_000_000));
        times.iter().map(|(millis, cost)| Spent { at: at(*millis), wall: wall(*millis), cost: *cost }).collect()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let bucket = shape(10, Algorithm::TokenBucket { burst: 5 });
        assert_eq!(excess(&bucket, &KEY, &spent(&[(0, 5), (100, 1), (200, 1)])), 0);
        assert_eq!(excess(&bucket, &KEY, &spent(&[(0, 5), (99, 1)])), 1, "a begun unit is a whole one");
        assert_eq!(excess(&bucket, &KEY, &spent(&[(0, 5), (0, 5)])), 5);
    }

    #[test]
    fn a_log_counts_half_open_windows() {
        let log = shape(3, Algorithm::SlidingLog { max_entries: 8 });
        assert_eq!(excess(&log, &KEY, &spent(&[(0, 3), (1_000, 3)])), 0);
        assert_eq!(excess(&log, &KEY, &spent(&[(0, 3), (999, 1)])), 1);
    }

    #[test]
    fn aligned_windows_are_counted_edge_to_edge() {
        let window = shape(3, Algorithm::FixedWindow { align: Align::Epoch });
        assert_eq!(excess(&window, &KEY, &spent(&[(990, 3), (1_000, 3)])), 0);
        assert_eq!(excess(&window, &KEY, &spent(&[(0, 3), (999, 2)])), 2);
        let first = shape(3, Algorithm::FixedWindow { align: Align::First });
        assert_eq!(excess(&first, &KEY, &spent(&[(990, 3), (1_000, 3)])), 0);
        assert_eq!(excess(&first, &KEY, &spent(&[(990, 3), (1_000, 3), (1_001, 1)])), 1);
    }

    #[test]
    fn a_sliding_counter_stays_just_below_twice_the_amount() {
        let counter = shape(3, Algorithm::SlidingCounter);
        assert_eq!(excess(&counter, &KEY, &spent(&[(990, 3), (1_500, 2)])), 0);
        assert_eq!(excess(&counter, &KEY, &spent(&[(990, 3), (1_500, 3)])), 1);
    }
}
