//! The store against a real Redis: what the scripts do, how connections break and heal, which servers will do, and what must be
//! permitted. Every test has servers of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod connection;
mod permissions;
mod records;
mod servers;
mod support;
mod tls;
