//! The token bucket, as GCRA: all that a key needs is the instant at which it will be full again, its *theoretical
//! arrival time*. With a rate of `amount / period` one unit takes `period / amount` nanoseconds, seldom a whole number,
//! so instants are kept in units of `1 / amount` ns: a unit is then exactly `period` of them, every sum is an integer,
//! and no rate drifts. (ITU-T I.371, Annex A; the same decisions as a bucket of `burst` tokens refilled continuously.)
//!
//! The ratio is reduced first: 10/s has `amount` 1 and `period` 10^8, so for rates that divide evenly an instant is a
//! plain count of nanoseconds.

use crate::decision::{LegDecision, Wait};
use crate::rate::Rate;
use crate::time::{Moment, Span};

/// How far above its capacity debt may push a key: twice the capacity in all. What is booked beyond is dropped, so that
/// one late bill never locks a key for longer than two full refills.
pub(crate) const DEBT_CAPACITIES: u64 = 2;

/// A bucket's numbers. Everything called *scaled* is in `1 / amount` ns and stays below 2^116: an instant is below
/// 2^64 * 10^15, a level at most twice `full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketTerms {
    amount: u64,
    period: u64,
    burst: u64,
    full: u128,
    /// `full`, where it and twice as much fit into 64 bits.
    small_full: Option<u64>,
}

/// A scaled instant, in two halves so that an entry keeps an alignment of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tat {
    high: u64,
    low: u64,
}

impl Tat {
    #[inline]
    pub(crate) const fn new(scaled: u128) -> Tat {
        Tat { high: (scaled >> 64) as u64, low: scaled as u64 }
    }

    #[inline]
    pub(crate) const fn scaled(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

impl BucketTerms {
    /// Terms of a rate above zero; `burst` may be zero, and then nothing ever fits.
    pub(crate) fn new(rate: Rate, burst: u64) -> BucketTerms {
        let common = greatest_common_divisor(rate.amount(), rate.period().as_nanos());
        let (amount, period) = (rate.amount() / common, rate.period().as_nanos() / common);
        let full = u128::from(burst) * u128::from(period);
        let small_full = u64::try_from(full).ok().filter(|full| *full <= u64::MAX / 2 && *full > 0);
        BucketTerms { amount, period, burst, full, small_full }
    }

    /// The scaled level: how far the arrival time lies ahead. Zero is a full bucket, [`Self::full`] an empty one.
    #[inline]
    pub(crate) fn level(&self, tat: Tat, now: Moment) -> u128 {
        tat.scaled().saturating_sub(self.scale(now))
    }

    /// The arrival time of a bucket with this level.
    #[inline]
    pub(crate) fn tat(&self, level: u128, now: Moment) -> Tat {
        Tat::new(self.scale(now) + level)
    }

    /// The level of an empty bucket.
    pub(crate) fn full(&self) -> u128 {
        self.full
    }

    /// What `cost` units weigh.
    #[inline]
    pub(crate) fn price(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.period)
    }

    /// Whether a bucket at `level` admits `cost`, and how it then stands.
    #[inline]
    pub(crate) fn weigh(&self, level: u128, cost: u64) -> LegDecision {
        match (u64::try_from(level), self.small_full) {
            (Ok(level), Some(full)) if level <= full => self.weigh_small(level, full, cost),
            (Ok(_) | Err(_), Some(_) | None) => self.weigh_wide(level, cost),
        }
    }

    /// The same in 64 bits, for numbers that fit: nearly all that ever come up.
    #[inline]
    fn weigh_small(&self, level: u64, full: u64, cost: u64) -> LegDecision {
        let fits = cost <= self.burst;
        let after = if fits { level + cost * self.period } else { u64::MAX };
        let (allowed, stands) = if after <= full { (true, after) } else { (cost == 0, level) };
        let wait = match (allowed, fits) {
            (true, _) => Wait::Now,
            (false, true) => Wait::After(self.small_span(after - full)),
            (false, false) => Wait::Never,
        };
        let free = full - stands;
        let (remaining, part) = (free / self.period, free % self.period);
        LegDecision {
            allowed,
            capacity: self.burst,
            remaining,
            wait,
            reset_after: self.small_span(stands),
            next_unit_after: (stands > 0).then(|| self.small_span(self.period - part)),
        }
    }

    fn weigh_wide(&self, level: u128, cost: u64) -> LegDecision {
        let after = level + self.price(cost);
        if after <= self.full || cost == 0 {
            self.standing(after, true, Wait::Now)
        } else if cost > self.burst {
            self.standing(level, false, Wait::Never)
        } else {
            self.standing(level, false, Wait::After(self.span(after - self.full)))
        }
    }

    /// The arrival time once `cost` is charged. What was admitted always fits; a debt fits up to [`DEBT_CAPACITIES`].
    #[inline]
    pub(crate) fn charged(&self, tat: Tat, now: Moment, cost: u64) -> Tat {
        let level = self.level(tat, now);
        let most = (self.full * u128::from(DEBT_CAPACITIES)).max(level);
        self.tat((level + self.price(cost)).min(most), now)
    }

    /// The level here of a key whose level under `other` was `level`: the same units used, rounded up by less than one
    /// scaled unit, and at most everything (law 5).
    pub(crate) fn level_from(&self, other: &BucketTerms, level: u128) -> u128 {
        let (units, part) = divide(level, other.period);
        let part = (u128::from(part) * u128::from(self.period)).div_ceil(u128::from(other.period));
        units.saturating_mul(u128::from(self.period)).saturating_add(part).min(self.full)
    }

    /// The level of a key that has used `units`; at most everything.
    pub(crate) fn level_of_units(&self, units: u64) -> u128 {
        self.price(units).min(self.full)
    }

    /// Units used at `level`, rounded up.
    pub(crate) fn units(&self, level: u128) -> u64 {
        let (units, part) = divide(level, self.period);
        u64::try_from(units).unwrap_or(u64::MAX).saturating_add(u64::from(part > 0))
    }

    fn standing(&self, level: u128, allowed: bool, wait: Wait) -> LegDecision {
        let (remaining, part) = divide(self.full.saturating_sub(level), self.period);
        let short = level.saturating_sub(self.full) + u128::from(self.period - part);
        LegDecision {
            allowed,
            capacity: self.burst,
            remaining: remaining as u64,
            wait,
            reset_after: self.span(level),
            next_unit_after: (level > 0 && self.burst > 0).then(|| self.span(short)),
        }
    }

    #[inline]
    fn scale(&self, moment: Moment) -> u128 {
        u128::from(moment.as_nanos()) * u128::from(self.amount)
    }

    /// A scaled length as a span, rounded up to the nanosecond; [`Span::MAX`] stands for anything longer.
    fn span(&self, scaled: u128) -> Span {
        match u64::try_from(scaled) {
            Ok(small) => self.small_span(small),
            Err(_) => Span::from_nanos(u64::try_from(scaled.div_ceil(u128::from(self.amount))).unwrap_or(u64::MAX)),
        }
    }

    /// The same for small lengths. Rates that divide evenly need no division.
    #[inline]
    fn small_span(&self, scaled: u64) -> Span {
        Span::from_nanos(if self.amount == 1 { scaled } else { scaled.div_ceil(self.amount) })
    }
}

/// Quotient and remainder; one machine division where the number is small, which it nearly always is.
#[inline]
fn divide(number: u128, by: u64) -> (u128, u64) {
    match u64::try_from(number) {
        Ok(small) => (u128::from(small / by), small % by),
        Err(_) => (number / u128::from(by), (number % u128::from(by)) as u64),
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
