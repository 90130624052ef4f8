//! Integer time, and no clock. A [`Moment`] is a reading of one node's boot-time clock, a [`Span`] a length of time, a
//! [`WallTime`] a reading of cluster time. Nothing here can ask what time it is: every reading comes in as an argument.

use std::fmt;

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span that can be spelled, about 584 years.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A span of `micros` microseconds; saturates at [`Span::MAX`].
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds; saturates at [`Span::MAX`].
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds; saturates at [`Span::MAX`].
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000_000))
    }

    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The length in milliseconds, rounded up: a caller who waits this long has waited long enough.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// The length in seconds, rounded up.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000_000)
    }

    /// The sum, or [`Span::MAX`].
    pub const fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The difference, or zero when `other` is longer.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// `self * parts / of`, rounded down, computed in 128 bits; saturates at [`Span::MAX`].
    ///
    /// # Panics
    ///
    /// If `of` is zero.
    pub const fn scaled(self, parts: u64, of: u64) -> Span {
        let wide = self.0 as u128 * parts as u128 / of as u128;
        if wide > u64::MAX as u128 { Span::MAX } else { Span(wide as u64) }
    }
}

impl From<std::time::Duration> for Span {
    fn from(duration: std::time::Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> std::time::Duration {
        std::time::Duration::from_nanos(span.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", std::time::Duration::from(*self))
    }
}

/// A reading of one node's boot-time clock, in nanoseconds since that node's boot. Readings of two nodes have nothing
/// in common: only spans and ages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The boot itself, the earliest reading there is.
    pub const ZERO: Moment = Moment(0);
    /// The last reading that can be spelled.
    pub const MAX: Moment = Moment(u64::MAX);

    /// The reading `nanos` nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this reading, or zero when `earlier` is in fact later: a clock that goes back gives
    /// neither debt nor credit.
    pub const fn since(self, earlier: Moment) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The reading one span later, or the last one that can be spelled.
    pub const fn saturating_add(self, span: Span) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }

    /// The reading one span earlier, or the boot.
    pub const fn saturating_sub(self, span: Span) -> Moment {
        Moment(self.0.saturating_sub(span.0))
    }
}

/// A reading of *cluster time*: nanoseconds since the Unix epoch, as the cluster's leader tells it. Never a node's own
/// wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// The reading `nanos` nanoseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_nanos(nanos: u64) -> WallTime {
        WallTime(nanos)
    }

    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub const fn as_unix_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this reading, or zero.
    pub const fn since(self, earlier: WallTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The reading one span later, or the last one that can be spelled.
    pub const fn saturating_add(self, span: Span) -> WallTime {
        WallTime(self.0.saturating_add(span.0))
    }

    /// The reading one span earlier, or the epoch.
    pub const fn saturating_sub(self, span: Span) -> WallTime {
        WallTime(self.0.saturating_sub(span.0))
    }
}

/// What a decision knows of time: the owner's clock, read once per batch, and the cluster time that belongs to that
/// reading. `wall` is absent until the node has heard of cluster time; aligned windows cannot decide without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The owner's boot-time clock.
    pub moment: Moment,
    /// Cluster time at that same reading.
    pub wall: Option<WallTime>,
}

impl Now {
    /// A reading without cluster time.
    pub const fn at(moment: Moment) -> Now {
        Now { moment, wall: None }
    }

    /// A reading with cluster time.
    pub const fn with_wall(moment: Moment, wall: WallTime) -> Now {
        Now { moment, wall: Some(wall) }
    }
}
