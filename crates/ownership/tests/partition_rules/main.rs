//! A partition seen from outside: who may decide and until when, what a question asked twice finds, and what a takeover
//! costs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod acts;
mod certain;
mod desk;
mod reign;
mod repeats;
mod takeover;
