//! Rates, algorithms and decisions: the arithmetic of a rate limiter, and the table that holds one partition's keys.
//! It knows no clock, no socket and no other node; time comes in as [`Now`], and every answer is a value.

pub mod decision;
pub mod key;
pub mod rate;
pub mod time;

pub use decision::{Absent, LegDecision, Wait};
pub use key::{Fingerprint, FingerprintKey, LimitId, Part, PartKind};
pub use rate::{AMOUNT_MAX, Algorithm, Align, Basis, DomainId, FailMode, PERIOD_MAX, Rate, RateError, Shape};
pub use time::{Moment, Now, Span, WallTime};
