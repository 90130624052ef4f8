//! A shape, compiled once for deciding: the zero and the unlimited limit set apart, since they count nothing, and the
//! products of the others multiplied out.

use crate::bucket::BucketTerms;
use crate::log::LogTerms;
use crate::rate::{Algorithm, Shape};
use crate::time::Now;
use crate::window::WindowTerms;

/// What a limit's shape means to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// No limit: everything is admitted, nothing is written.
    Unlimited,
    /// An amount of zero: everything is refused, nothing is written.
    Zero,
    /// A limit that counts.
    Counted(Counted),
}

/// A limit that counts, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Bucket(BucketTerms),
    Window(WindowTerms),
    Log(LogTerms),
}

impl Terms {
    pub(crate) fn of(shape: &Shape) -> Terms {
        let Some(rate) = shape.rate else { return Terms::Unlimited };
        if rate.amount() == 0 {
            return Terms::Zero;
        }
        Terms::Counted(match shape.algorithm {
            Algorithm::TokenBucket { burst } => Counted::Bucket(BucketTerms::new(rate, burst)),
            Algorithm::SlidingLog { max_entries } => Counted::Log(LogTerms::new(rate, max_entries)),
            Algorithm::FixedWindow { align } => Counted::Window(WindowTerms::new(rate, align)),
        })
    }
}

impl Counted {
    /// Whether this limit can be decided at `now`: aligned windows need cluster time.
    #[inline]
    pub(crate) fn can_tell(&self, now: Now) -> bool {
        match self {
            Counted::Bucket(_) | Counted::Log(_) => true,
            Counted::Window(terms) => !terms.is_aligned() || now.wall.is_some(),
        }
    }
}
