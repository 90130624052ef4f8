//! The suite's own clock. Every time in a history is a reading of it: nanoseconds since shortly before the run began. Where
//! a limit's windows are aligned to the time of day, it knows where their edges lie on it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limits::{Moment, Span};
use sim::Edges;

/// A clock with its zero.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    zero: Instant,
    /// The time of day at zero, in nanoseconds since 1970.
    wall_at_zero: u64,
}

impl Watch {
    /// Zero is now.
    pub fn start() -> Watch {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(Span::ZERO, Span::from);
        Watch { zero: Instant::now(), wall_at_zero: wall.as_nanos() }
    }

    /// A reading.
    pub fn now(&self) -> Moment {
        Moment::ZERO.saturating_add(Span::from(self.zero.elapsed()))
    }

    /// The time of day that the machine had at this reading, if nobody has set it since.
    pub fn wall_millis(&self, at: Moment) -> u64 {
        (self.wall_at_zero + at.as_nanos()) / 1_000_000
    }

    /// Where windows of this length begin that are aligned to 1970.
    pub fn edges(&self, period: Span, unsure: Span) -> Edges {
        let into = self.wall_at_zero % period.as_nanos();
        Edges { at: Moment::from_nanos(period.as_nanos() - into), unsure }
    }
}

/// How long it is from one reading to another, for people.
pub fn seconds(span: Span) -> f64 {
    Duration::from(span).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lie_where_the_time_of_day_is_a_whole_number_of_periods() {
        let watch = Watch { zero: Instant::now(), wall_at_zero: 1_000_000_000_123_456_789 };
        let period = Span::from_secs(10);
        let edges = watch.edges(period, Span::ZERO);
        assert_eq!((watch.wall_at_zero + edges.at.as_nanos()) % period.as_nanos(), 0);
        assert!(edges.at.as_nanos() <= period.as_nanos());
    }

    #[test]
    fn readings_go_forward() {
        let watch = Watch::start();
        let (one, other) = (watch.now(), watch.now());
        assert!(one <= other);
    }
}
