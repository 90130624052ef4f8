//! A real cluster, asked and broken as its users would: every test starts the program, talks to it over its own ports,
//! and waits for what it says, never for time to pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "tests")]

mod access;
mod api_page;
mod bad_input;
mod cancels;
mod client;
mod config;
mod conformance;
mod dev;
mod events;
mod exactness;
mod failover;
mod fixtures;
mod forward_auth;
mod gateway;
mod grpc;
mod http;
mod kept;
mod labels;
mod lifecycle;
mod limit_changes;
mod operations;
mod patience;
mod plans;
mod policies;
mod program;
mod redis;
mod refusals;
mod relay;
mod serve;
mod stopped;
mod top;
mod walkthrough;
