//! The fixed window: a count, and the instant at which it starts over. Windows begin at multiples of the period in
//! cluster time, with or without a shift per key, or at a key's first charge on the owner's clock. Only the *end* of
//! the window that a count belongs to is kept: while the clock is before it the count stands, so a clock that goes back
//! never opens a window twice.

use crate::bucket::DEBT_CAPACITIES;
use crate::decision::{LegDecision, Wait};
use crate::key::Fingerprint;
use crate::rate::{Align, Rate};
use crate::time::{Now, Span};

/// How far around the instant of a takeover an aligned window counts as touched, since the predecessor's cluster time
/// may have differed by this much.
pub(crate) const EDGE: Span = Span::from_millis(100);

/// A fixed window's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowTerms {
    amount: u64,
    period: u64,
    align: Align,
}

/// What was used until `end`, in nanoseconds of the clock that the alignment goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) end: u64,
    pub(crate) used: u64,
}

impl WindowTerms {
    pub(crate) fn new(rate: Rate, align: Align) -> WindowTerms {
        WindowTerms { amount: rate.amount(), period: rate.period().as_nanos(), align }
    }

    /// Whether windows go by cluster time.
    pub(crate) fn is_aligned(&self) -> bool {
        match self.align {
            Align::First => false,
            Align::Epoch | Align::Hashed => true,
        }
    }

    /// The reading that windows go by. Where nobody has heard of cluster time it is the epoch, so that every window
    /// that was ever used still counts; such a reading opens no window.
    #[inline]
    pub(crate) fn clock(&self, now: Now) -> u64 {
        match self.align {
            Align::First => now.moment.as_nanos(),
            Align::Epoch | Align::Hashed => now.wall.map_or(0, |wall| wall.as_unix_nanos()),
        }
    }

    /// The unused window that `clock` lies in.
    pub(crate) fn opened(&self, key: &Fingerprint, clock: u64) -> Window {
        let end = match self.align {
            Align::First => clock.saturating_add(self.period),
            Align::Epoch => self.aligned_end(clock, 0),
            Align::Hashed => self.aligned_end(clock, self.shift(key)),
        };
        Window { end, used: 0 }
    }

    /// `window`, or the one that `clock` lies in once that has ended. A window that nothing is used of is as good as
    /// none.
    #[inline]
    pub(crate) fn current(&self, window: Window, key: &Fingerprint, clock: u64) -> Window {
        if is_over(window, clock) { self.opened(key, clock) } else { window }
    }

    /// Whether a current window admits `cost`, and how it then stands.
    #[inline]
    pub(crate) fn weigh(&self, window: Window, clock: u64, cost: u64) -> LegDecision {
        let left = Span::from_nanos(window.end.saturating_sub(clock));
        let after = window.used.saturating_add(cost);
        if cost == 0 || after <= self.amount {
            self.standing(after, left, true, Wait::Now)
        } else if cost > self.amount {
            self.standing(window.used, left, false, Wait::Never)
        } else {
            self.standing(window.used, left, false, Wait::After(left))
        }
    }

    /// A current window once `cost` is charged. What was admitted always fits; a debt fits up to [`DEBT_CAPACITIES`].
    #[inline]
    pub(crate) fn charged(&self, window: Window, cost: u64) -> Window {
        let most = (self.amount * DEBT_CAPACITIES).max(window.used);
        Window { used: window.used.saturating_add(cost).min(most), ..window }
    }

    /// A window from elsewhere, cut to the most that it can hold here.
    pub(crate) fn bounded(&self, window: Window) -> Window {
        Window { used: window.used.min(self.amount * DEBT_CAPACITIES), ..window }
    }

    /// A window once `cost` units are taken back that were counted until `end`: only while that window is current.
    pub(crate) fn undone(&self, window: Window, end: u64, now: Now, cost: u64) -> Window {
        if window.end != end || is_over(window, self.clock(now)) {
            return window;
        }
        Window { used: window.used.saturating_sub(cost), ..window }
    }

    /// The window of a key that used so much at an instant, at most all there is: until a period later, or, when aligned,
    /// until the end of the last window that the instant touches. `at` is a reading of the alignment's own clock.
    pub(crate) fn used_as_of(&self, key: &Fingerprint, at: u64, units: u64) -> Window {
        let end = match self.align {
            Align::First => at.saturating_add(self.period),
            Align::Epoch | Align::Hashed => self.opened(key, at.saturating_add(EDGE.as_nanos())).end,
        };
        Window { end, used: units.min(self.amount) }
    }

    /// What a window under `from` becomes here: the same units used (law 5), in the same window where there is one. A
    /// window that began at its first charge keeps its beginning; a shorter period never makes anyone wait longer than
    /// either promise would have.
    pub(crate) fn carried(&self, from: &WindowTerms, window: Window, key: &Fingerprint, now: Now) -> Window {
        let (clock, used) = (self.clock(now), window.used);
        if is_over(window, from.clock(now)) {
            return self.opened(key, clock);
        }
        let end = match (from.align, self.align) {
            (Align::First, Align::First) if self.period >= from.period => {
                window.end.saturating_add(self.period - from.period)
            }
            (Align::First, Align::First) => window.end.min(self.opened(key, clock).end),
            (Align::Epoch, Align::Epoch) | (Align::Hashed, Align::Hashed) if self.period == from.period => window.end,
            (Align::Epoch | Align::First | Align::Hashed, Align::Epoch | Align::First | Align::Hashed) => {
                self.opened(key, clock).end
            }
        };
        Window { end, used }
    }

    /// Whether windows under `other` are the same stretches of time.
    pub(crate) fn same_windows(&self, other: &WindowTerms) -> bool {
        self.align == other.align && self.period == other.period
    }

    fn standing(&self, used: u64, left: Span, allowed: bool, wait: Wait) -> LegDecision {
        LegDecision {
            allowed,
            capacity: self.amount,
            remaining: self.amount.saturating_sub(used),
            wait,
            reset_after: if used == 0 { Span::ZERO } else { left },
            next_unit_after: (used > 0).then_some(left),
        }
    }

    fn aligned_end(&self, clock: u64, shift: u64) -> u64 {
        let (shifted, period) = (u128::from(clock) + u128::from(shift), u128::from(self.period));
        let end = (shifted / period + 1) * period - u128::from(shift);
        u64::try_from(end).unwrap_or(u64::MAX)
    }

    /// The key's own shift, spread evenly over the period.
    fn shift(&self, key: &Fingerprint) -> u64 {
        ((u128::from(key.0[1]) * u128::from(self.period)) >> 64) as u64
    }
}

/// Whether a window says no more than a fresh key does. One that ends beyond the last reading that can be spelled never
/// ends.
#[inline]
pub(crate) fn is_over(window: Window, clock: u64) -> bool {
    (clock >= window.end && window.end < u64::MAX) || window.used == 0
}
