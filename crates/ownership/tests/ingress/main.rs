//! How an ingress asks, and what it makes of several answers.
#![allow(clippy::unwrap_used, reason = "tests")]

mod asking;
mod asking_rules;
mod charged_once;
mod combine;
mod conclude;
mod denials;
