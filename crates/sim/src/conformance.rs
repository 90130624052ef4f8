//! The conformance table: public bug reports and known pitfalls as cases, data that say what must be answered, and one
//! runner that puts them to a way of answering. Two ways are here, the slow exact twin and the engine; the third, three
//! nodes under a clock that a test moves, is with the tests of the whole program.

mod act;
pub mod answer;
pub mod case;
pub mod engine;
pub mod exact;
pub mod policies;
pub mod read;
pub mod run;

use limits::WallTime;

// For the ways that are elsewhere.
pub use limits::Span;

pub use answer::{Answer, Door, LimitSaid, Said};
pub use case::{Act, Attributes, Call, Case, Finding, Starts};
pub use engine::Engine;
pub use exact::Exact;
pub use read::{Mistake, cases};
pub use run::{Cannot, Ending, Report, Way, run};

/// The midnight from which times of day are counted where any day does: 2026-01-01T00:00:00Z.
pub const SOME_MIDNIGHT: WallTime = WallTime::from_unix_nanos(1_767_225_600_000_000_000);

/// Cluster time at a case's zero, where no case ran before it.
pub fn zero_of(case: &Case) -> WallTime {
    match case.starts {
        Starts::Anytime => SOME_MIDNIGHT.saturating_add(Span::from_secs(1)),
        Starts::OfDay(time) => SOME_MIDNIGHT.saturating_add(time),
        Starts::At(wall) => wall,
    }
}
