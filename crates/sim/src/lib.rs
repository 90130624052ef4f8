//! What was seen from outside, and the judges of it: histories of checks, and the checkers that the chaos suite holds
//! against them. Pure: a history comes in, a verdict goes out. Nothing here believes what a node says about time; only
//! the asker's own clock counts.

pub mod c1;
pub mod campaign;
pub mod clocks;
pub mod conformance;
pub mod history;
pub mod judge;
pub mod justified;
pub mod ledger;
pub mod oracles;
pub mod promise;
mod sums;
pub mod twin;
pub mod world;

pub use c1::{TooMuch, Worst};
pub use clocks::{Clocks, Ratio};
pub use history::{Answer, Outcome, Reason, Row, Source};
pub use judge::{LimitVerdict, Terms, Violation, judge};
pub use promise::{Counted, Edges, Promise};
