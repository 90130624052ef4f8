//! Rates, algorithms and decisions: the arithmetic of a rate limiter, and the table that holds one partition's keys.
//! It knows no clock, no socket and no other node; time comes in as [`Now`], and every answer is a value.

pub mod book;
mod bucket;
pub mod budget;
pub mod charge;
mod convert;
pub mod decision;
mod ends;
pub mod key;
pub mod leg;
mod lens;
mod log;
mod mended;
pub mod rate;
mod segment;
pub mod shapes;
mod state;
mod store;
pub mod table;
mod terms;
pub mod time;
pub mod upkeep;
pub mod usage;
mod window;

pub use book::{Book, BookEntry};
pub use budget::{Budgets, DOMAINS_MAX, KEYS_MAX_DEFAULT};
pub use charge::Charge;
pub use decision::{Absent, LegDecision, Wait};
pub use key::{Fingerprint, FingerprintKey, LIMIT_ID_MAX, LimitId, Part, PartKind};
pub use leg::{Decided, Leg, Undecided, WhyUndecided};
pub use rate::{AMOUNT_MAX, Algorithm, Align, Basis, DomainId, FailMode, PERIOD_MAX, Rate, RateError, Shape};
pub use shapes::{ShapeId, Shapes};
pub use table::Table;
pub use time::{Moment, Now, Span, WallTime};
pub use usage::{InsertError, Usage, Used};
