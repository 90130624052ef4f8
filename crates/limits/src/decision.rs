//! The answer of one limit to one check, and how a key that nobody has written down is to be read.

use crate::time::{Now, Span};

/// How long until the same cost would be admitted, if nobody else spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    /// It is admitted now.
    Now,
    /// After exactly this long (law 6: a promise).
    After(Span),
    /// It can never fit: the cost is above the capacity.
    Never,
}

/// What one limit says to one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegDecision {
    /// Whether this limit admits the cost.
    pub allowed: bool,
    /// Burst, the window's amount, or all slots; 0 for a limit of zero, `u64::MAX` when unlimited.
    pub capacity: u64,
    /// Whole units available after this check, between 0 and `capacity`.
    pub remaining: u64,
    /// When the same cost would be admitted; [`Wait::Now`] when it was.
    pub wait: Wait,
    /// Until the key is as a fresh one, if nobody spends.
    pub reset_after: Span,
    /// Until one more unit than now is available; `None` when nothing is used.
    pub next_unit_after: Option<Span>,
}

impl LegDecision {
    /// What a limit that is `unlimited` says to everything.
    pub(crate) const UNLIMITED: LegDecision = LegDecision {
        allowed: true,
        capacity: u64::MAX,
        remaining: u64::MAX,
        wait: Wait::Now,
        reset_after: Span::ZERO,
        next_unit_after: None,
    };

    /// What a limit of zero says to everything, a peek included.
    pub(crate) const ZERO: LegDecision =
        LegDecision { allowed: false, capacity: 0, remaining: 0, wait: Wait::Never, ..LegDecision::UNLIMITED };
}

/// How a key without an entry is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// As never used.
    Fresh,
    /// As used to the full at that instant: a bucket empty, a window full, a counter's cell begun and filled right then,
    /// all slots held until the longest hold is over. For aligned and calendar windows: every window that touches the
    /// instant, 100 ms either way, is full until its end.
    FullAsOf(Now),
    /// As having used so many units right then, and nothing else: what may have been spent of it without being written down
    /// anywhere. More than the capacity is all of it.
    UsedAsOf {
        /// The instant.
        at: Now,
        /// Units, at least one.
        units: u64,
    },
}

impl Absent {
    /// The instant as of which the key may have been used, if it may have been, and how much; `u64::MAX` is all there is.
    pub const fn used(&self) -> Option<(Now, u64)> {
        match self {
            Absent::Fresh => None,
            Absent::FullAsOf(at) => Some((*at, u64::MAX)),
            Absent::UsedAsOf { at, units } => Some((*at, *units)),
        }
    }
}
