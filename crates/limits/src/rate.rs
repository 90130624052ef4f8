//! What a limit promises, in numbers: the amount per period, how it is counted, and what happens when nobody can count.
//! A [`Shape`] is everything that state depends on; state remembers the shape it was written under.

use crate::calendar::CalendarId;
use crate::key::LimitId;
use crate::time::Span;

/// The largest cost, amount or burst: 10^15 - 1, exact in JSON numbers and in structured header fields.
pub const AMOUNT_MAX: u64 = 999_999_999_999_999;

/// The longest period of a rate: 366 days.
pub const PERIOD_MAX: Span = Span::from_secs(366 * 86_400);

/// `amount` units per `period`, an exact rational. An amount of zero refuses everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    amount: u64,
    period: Span,
}

/// Why a rate cannot be spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The period is zero.
    #[error("a rate's period is longer than nothing")]
    PeriodZero,
    /// The period is longer than [`PERIOD_MAX`].
    #[error("a rate's period is at most 366 days")]
    PeriodTooLong,
    /// The amount is above [`AMOUNT_MAX`].
    #[error("an amount is at most {AMOUNT_MAX}")]
    AmountTooLarge,
}

impl Rate {
    /// `amount` units per `period`; `amount` from 0 to [`AMOUNT_MAX`], `period` above zero and at most [`PERIOD_MAX`].
    ///
    /// # Errors
    ///
    /// [`RateError`] names the number that is out of range.
    pub const fn new(amount: u64, period: Span) -> Result<Rate, RateError> {
        if amount > AMOUNT_MAX {
            return Err(RateError::AmountTooLarge);
        }
        if period.as_nanos() == 0 {
            return Err(RateError::PeriodZero);
        }
        if period.as_nanos() > PERIOD_MAX.as_nanos() {
            return Err(RateError::PeriodTooLong);
        }
        Ok(Rate { amount, period })
    }

    /// Units per period.
    pub const fn amount(self) -> u64 {
        self.amount
    }

    /// The period.
    pub const fn period(self) -> Span {
        self.period
    }
}

/// Where the windows of a fixed-window limit begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Align {
    /// At multiples of the period since the Unix epoch, in cluster time; the same edge for every key.
    Epoch,
    /// At a key's first charge, on the owner's clock.
    First,
    /// At multiples of the period in cluster time, shifted by an offset that the key's fingerprint gives: the default,
    /// since it spreads the herd at the edge.
    Hashed,
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// GCRA: `burst` units at once from full, refilled at the rate. In any window `w`: at most `burst + rate * w`.
    TokenBucket {
        /// Capacity in units, 0 to [`AMOUNT_MAX`].
        burst: u64,
    },
    /// At most the rate's amount in any half-open window of the rate's period.
    SlidingLog {
        /// Groups of admissions remembered per key; beyond it the two oldest merge at the later instant.
        max_entries: u32,
    },
    /// At most the rate's amount per window, up to twice that across an edge.
    FixedWindow {
        /// Where windows begin.
        align: Align,
    },
    /// Two cells of a period each, the earlier weighed by how much of it a window ending now still covers: the amount
    /// where arrivals come evenly, just under twice the amount in the worst window.
    SlidingCounter,
    /// At most the rate's amount per window of a calendar, in cluster time. The rate's period is the usual length of a
    /// window, for whoever describes the limit; nothing is counted by it.
    Calendar {
        /// Which windows, in which time zone.
        calendar: CalendarId,
    },
    /// At most the rate's amount held at once. The rate's period is how long a lease lasts unless it says otherwise or is
    /// renewed.
    Concurrency {
        /// The longest that one lease is held, renewals included. After a takeover that knows nothing, all slots count
        /// as held for so long.
        max_hold: Span,
    },
}

/// What the ingress answers when no owner can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailMode {
    /// Deny with reason `unavailable`. Excess: none.
    Closed,
    /// Allow. Excess: the demand while no owner answered.
    Open,
    /// Decide from a small limiter of the ingress's own, `percent / N_max` of the limit.
    Emergency {
        /// Share of the limit for the whole cluster, 1 to 100.
        percent: u8,
        /// Whether the owner runs with the rest only, so that the sum stays within the limit.
        reserved: bool,
    },
}

/// Which end of the usage interval `[lo, hi]` a limit decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// The least that may have been used: limits that fail open.
    Lo,
    /// The most that may have been used: limits that fail closed or to an emergency share.
    Hi,
}

impl FailMode {
    /// The end of the usage interval that a limit with this failure mode decides on.
    pub const fn basis(self) -> Basis {
        match self {
            FailMode::Open => Basis::Lo,
            FailMode::Closed | FailMode::Emergency { .. } => Basis::Hi,
        }
    }
}

/// Everything about a limit that its state depends on. Two shapes that are equal read each other's state as it stands;
/// any other change converts it (law 5: what was used stays used).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Whose numbers these are.
    pub limit: LimitId,
    /// Whose budget of keys its entries count against.
    pub domain: DomainId,
    /// The rate; `None` is the word `unlimited`.
    pub rate: Option<Rate>,
    /// How it counts.
    pub algorithm: Algorithm,
    /// The end of the usage interval it decides on.
    pub basis: Basis,
}

impl Shape {
    /// The most a key can spend at one instant from full: burst, or the window's amount, or all slots; zero for an amount
    /// of zero, whatever the burst. `None` when unlimited.
    pub const fn capacity(&self) -> Option<u64> {
        match (self.rate, self.algorithm) {
            (None, _) => None,
            (Some(rate), _) if rate.amount() == 0 => Some(0),
            (Some(_), Algorithm::TokenBucket { burst }) => Some(burst),
            (
                Some(rate),
                Algorithm::SlidingLog { .. }
                | Algorithm::FixedWindow { .. }
                | Algorithm::SlidingCounter
                | Algorithm::Calendar { .. }
                | Algorithm::Concurrency { .. },
            ) => Some(rate.amount()),
        }
    }

    /// The most that a key is ever admitted in any stretch of one period of the owner's clock, half open: what the
    /// algorithm promises. `None` where the promise is not about stretches of a period: unlimited, calendar windows (the
    /// amount per window) and concurrency (the amount at once).
    pub const fn most_in_any_period(&self) -> Option<u64> {
        let Some(rate) = self.rate else { return None };
        let amount = rate.amount();
        match self.algorithm {
            _ if amount == 0 => Some(0),
            Algorithm::TokenBucket { burst } => Some(burst + amount),
            Algorithm::SlidingLog { .. } => Some(amount),
            Algorithm::FixedWindow { .. } => Some(2 * amount),
            Algorithm::SlidingCounter => Some(2 * amount - amount.div_ceil(rate.period().as_nanos())),
            Algorithm::Calendar { .. } | Algorithm::Concurrency { .. } => None,
        }
    }
}

/// A domain's number in this process, for its budget of keys; allotted in the order in which domains are first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u16);
