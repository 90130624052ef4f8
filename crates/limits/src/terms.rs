//! A shape, compiled once for deciding: the zero and the unlimited limit set apart, since they count nothing, and the
//! products of the others multiplied out.

use crate::bucket::BucketTerms;
use crate::calendar::CalendarTerms;
use crate::counter::CounterTerms;
use crate::log::LogTerms;
use crate::rate::{Algorithm, Shape};
use crate::slots::SlotTerms;
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
    Counter(CounterTerms),
    Calendar(CalendarTerms),
    Slots(SlotTerms),
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
            Algorithm::SlidingCounter => Counted::Counter(CounterTerms::new(rate)),
            Algorithm::Calendar { calendar } => Counted::Calendar(CalendarTerms::new(rate, calendar)),
            Algorithm::Concurrency { max_hold } => Counted::Slots(SlotTerms::new(rate, max_hold)),
        })
    }
}

impl Counted {
    /// The most that one of two cells ever counts by charging; nothing where there are none.
    pub(crate) fn most_in_a_cell(&self) -> u64 {
        match self {
            Counted::Counter(terms) => terms.most(),
            Counted::Calendar(terms) => terms.most(),
            Counted::Bucket(_) | Counted::Window(_) | Counted::Log(_) | Counted::Slots(_) => 0,
        }
    }
}
