//! What a limit promises to whoever only watches: how much may be admitted in any stretch of time. Derived from the
//! limit's shape, so that the checker and the limiter are told the same thing and compute it apart.

use limits::{Algorithm, Moment, Rate, Shape, Span};

/// How much a limit lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Units per period.
    pub rate: Rate,
    /// How they are counted.
    pub counted: Counted,
}

/// How units are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// At most `burst + rate * length` in any stretch.
    Bucket {
        /// Units at once.
        burst: u64,
    },
    /// At most the amount in any stretch shorter than the period.
    Log,
    /// At most twice the amount in any stretch shorter than the period, and at most the amount from edge to edge, where the
    /// edges are known.
    Window {
        /// Where windows begin.
        edges: Option<Edges>,
    },
}

/// Where windows begin, on the asker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edges {
    /// One edge; the others lie whole periods away.
    pub at: Moment,
    /// How far off it may be. Rows that come nearer than this to an edge count for no window.
    pub unsure: Span,
}

impl Promise {
    /// What a limit of this shape promises; `None` when it promises nothing about stretches of time: unlimited, windows
    /// of a calendar, slots. `edges` matter for aligned windows only.
    pub fn of(shape: &Shape, edges: Option<Edges>) -> Option<Promise> {
        let rate = shape.rate?;
        let counted = match shape.algorithm {
            // An amount of zero refuses everything, whatever the burst.
            Algorithm::TokenBucket { .. } => Counted::Bucket { burst: shape.capacity()? },
            Algorithm::SlidingLog { .. } => Counted::Log,
            Algorithm::FixedWindow { .. } => Counted::Window { edges },
            // Just under twice the amount, wherever the stretch begins.
            Algorithm::SlidingCounter => Counted::Window { edges: None },
            Algorithm::Calendar { .. } | Algorithm::Concurrency { .. } => return None,
        };
        Some(Promise { rate, counted })
    }

    /// The promise in words, for reports.
    pub fn in_words(&self) -> String {
        let (amount, period) = (self.rate.amount(), self.rate.period());
        match self.counted {
            Counted::Bucket { burst } => format!("{burst} and {amount} per {period}, in any stretch"),
            Counted::Log => format!("{amount} in any {period}"),
            Counted::Window { edges: Some(_) } => format!("{amount} per aligned {period}, twice that across an edge"),
            Counted::Window { edges: None } => format!("twice {amount} in any {period}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use limits::{Basis, DomainId, LimitId};

    use super::*;

    fn shape(amount: u64, algorithm: Algorithm) -> Shape {
        let rate = Some(Rate::new(amount, Span::from_secs(1)).unwrap());
        Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
    }

    #[test]
    fn a_bucket_of_nothing_promises_nothing_whatever_its_burst() {
        let promise = Promise::of(&shape(0, Algorithm::TokenBucket { burst: 9 }), None).unwrap();
        assert_eq!(promise.counted, Counted::Bucket { burst: 0 });
    }

    #[test]
    fn an_unlimited_shape_promises_nothing_at_all() {
        let unlimited = Shape { rate: None, ..shape(1, Algorithm::SlidingLog { max_entries: 8 }) };
        assert_eq!(Promise::of(&unlimited, None), None);
    }

    #[test]
    fn a_promise_can_be_read() {
        let log = Promise::of(&shape(5, Algorithm::SlidingLog { max_entries: 8 }), None).unwrap();
        assert_eq!(log.in_words(), "5 in any 1s");
        let bucket = Promise::of(&shape(5, Algorithm::TokenBucket { burst: 9 }), None).unwrap();
        assert_eq!(bucket.in_words(), "9 and 5 per 1s, in any stretch");
    }
}
