//! The judges before the judge: true histories must be acquitted, broken ones convicted, and a checker that is wrong in one
//! of the usual ways must be noticed by the properties that the right one passes.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a mistake touches one place, and all others take the same way")]

mod c1;
mod judging;
mod justified;
mod limiter;
mod slow;
