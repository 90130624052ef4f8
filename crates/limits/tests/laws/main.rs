//! The laws of a limit, each as a property against a slow exact twin: it keeps every admission, forgets nothing, and
//! knows nothing of tables, sweeping or arrival times. Cases come from a fixed seed; `PROPTEST_CASES` asks for more.

#![allow(clippy::unwrap_used, reason = "tests")]

mod agreement;
mod calendars;
mod cases;
mod change;
mod charges;
mod checks;
mod clocks;
mod counters;
mod expiry;
mod extremes;
mod fixtures;
mod floor;
mod grants;
mod interval;
mod irregular;
mod leases;
mod oracle;
mod pairs;
mod pitfalls;
mod reserves;
mod rooms;
mod single;
mod twin;
