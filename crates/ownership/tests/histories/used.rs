//! What is used of a limit, by its definition and from all that was ever spent: slow, exact, and without a table. Where the
//! rules leave room (an undone charge may leave a trace in some algorithms, and never more than the charge itself), the
//! answer is a least and a most.

use std::ops::RangeInclusive;

use limits::{Algorithm, Align, Basis, Fingerprint};

use crate::scene::{LONG_MS, Limit};

/// Cluster time when the histories begin, in milliseconds since the Unix epoch: a thousand seconds into an hour.
pub const WALL_MS: u64 = 1_800_001_000_000;

/// How far apart two nodes may tell cluster time.
const APART_MS: u64 = 100;

/// One entry of an account, in milliseconds of the history.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub at: u64,
    pub cost: u64,
    /// Whether it was taken back; of slots, whether they are free again for whatever reason.
    pub undone: bool,
}

/// The least and the most units that may be in use; `floor` says since when all of it counts as used, if so.
pub fn used(limit: &Limit, key: &Fingerprint, floor: Option<u64>, account: &[Spent], now: u64) -> (u64, u64) {
    let sum =
        |counts: &dyn Fn(&Spent) -> bool| account.iter().filter(|spent| counts(spent)).map(|spent| spent.cost).sum();
    let period = limit.period_ms();
    let exactly = |units: u64| (units, units);
    match limit.shape.algorithm {
        Algorithm::TokenBucket { burst } => {
            let level =
                |undone: bool| level(limit, burst, floor, account.iter().filter(|spent| undone || !spent.undone), now);
            (level(false), level(true))
        }
        Algorithm::SlidingLog { .. } => exactly(sum(&|spent| !spent.undone && now - spent.at < period)),
        Algorithm::FixedWindow { align: Align::First } | Algorithm::SlidingCounter if limit.is_long() => {
            exactly(sum(&|spent| !spent.undone))
        }
        // An undone charge may have been the one that a window began with.
        Algorithm::FixedWindow { align: Align::First } => (0, sum(&|spent| now - spent.at < period)),
        Algorithm::SlidingCounter => (0, sum(&|spent| now - spent.at < 2 * period)),
        Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } | Algorithm::Calendar { .. } => {
            let in_window = |index| sum(&|spent| !spent.undone && windows(limit, key, spent.at).contains(&index));
            exactly(windows(limit, key, now).map(in_window).max().unwrap_or(0))
        }
        Algorithm::Concurrency { .. } => exactly(sum(&|spent| !spent.undone)),
    }
}

/// How long after a takeover a limit may still refuse because of it.
pub fn wears_off_ms(limit: &Limit) -> u64 {
    let period = limit.period_ms();
    match limit.shape.algorithm {
        Algorithm::TokenBucket { burst } => (period * burst).div_ceil(limit.rate().amount()),
        Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { align: Align::First } => period,
        Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } | Algorithm::Calendar { .. } => {
            period + 2 * APART_MS
        }
        Algorithm::SlidingCounter => 2 * period,
        Algorithm::Concurrency { max_hold } => max_hold.as_nanos() / 1_000_000,
    }
}

/// The windows that an instant may lie in. Only calendars that decide on the most look around an edge.
pub fn windows(limit: &Limit, key: &Fingerprint, at: u64) -> RangeInclusive<u64> {
    let period = limit.period_ms();
    let wall = WALL_MS + at;
    match (limit.shape.algorithm, limit.shape.basis) {
        (Algorithm::Calendar { .. }, Basis::Hi) => (wall - APART_MS) / period..=(wall + APART_MS) / period,
        (Algorithm::FixedWindow { align: Align::Hashed }, _) => {
            let nanos = u128::from(period) * 1_000_000;
            let shift = (u128::from(key.0[1]) * nanos) >> 64;
            let index = ((u128::from(wall) * 1_000_000 + shift) / nanos) as u64;
            index..=index
        }
        (
            Algorithm::Calendar { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Concurrency { .. },
            _,
        ) => wall / period..=wall / period,
    }
}

/// Units missing from a bucket, begun ones counted as whole.
fn level<'a>(limit: &Limit, burst: u64, floor: Option<u64>, account: impl Iterator<Item = &'a Spent>, now: u64) -> u64 {
    let (amount, period) = (u128::from(limit.rate().amount()), u128::from(limit.period_ms()));
    let (mut level, mut since) = floor.map_or((0, 0), |floor| (u128::from(burst) * period, floor));
    let drain = |level: u128, from: u64, to: u64| level.saturating_sub(amount * u128::from(to - from));
    for spent in account {
        level = drain(level, since, spent.at) + u128::from(spent.cost) * period;
        since = spent.at;
    }
    drain(level, since, now).div_ceil(period) as u64
}

/// Whether these charges, in order of time, are more than the limit promises in some window; `percent` of the limit is what
/// is promised.
pub fn excess(limit: &Limit, key: &Fingerprint, percent: u64, charges: &[(u64, u64)]) -> Option<String> {
    let part = |amount: u64| amount * percent / 100;
    let (amount, period) = (part(limit.rate().amount()), limit.period_ms());
    for (first, (from, _)) in charges.iter().enumerate() {
        let mut sum = 0;
        for (to, cost) in &charges[first..] {
            sum += cost;
            let length = to - from;
            let in_one_window = || windows(limit, key, *from).any(|index| windows(limit, key, *to).contains(&index));
            let most = match limit.shape.algorithm {
                Algorithm::TokenBucket { burst } => part(burst) + amount * length / period,
                Algorithm::SlidingLog { .. } if length < period => amount,
                Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } | Algorithm::Calendar { .. }
                    if in_one_window() =>
                {
                    amount
                }
                Algorithm::FixedWindow { .. } if length < period => 2 * amount,
                Algorithm::SlidingCounter if length < period => (2 * amount).saturating_sub(1),
                Algorithm::SlidingLog { .. }
                | Algorithm::FixedWindow { .. }
                | Algorithm::SlidingCounter
                | Algorithm::Calendar { .. }
                | Algorithm::Concurrency { .. } => continue,
            };
            if sum > most {
                return Some(format!("{sum} units within {length} ms, at most {most}: {charges:?}"));
            }
        }
    }
    None
}

const _: () =
    assert!(LONG_MS.is_multiple_of(1_000) && WALL_MS % LONG_MS == 1_000_000, "no long window ends in a history");
