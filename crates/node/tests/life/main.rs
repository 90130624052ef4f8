//! Whole nodes over their lives, several in one process: founded, stopped, started again from their directories, leaving as
//! planned, and refused for what they were told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod asking;
mod events;
mod exit;
mod nodes;
mod refusals;
mod restarts;
mod terms;
