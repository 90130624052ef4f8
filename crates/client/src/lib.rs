//! The Rust SDK of ringfence: ask any node of a cluster for decisions.
mod asking;
mod backoff;
mod batch;
mod builder;
mod check;
mod client;
mod decision;
mod error;
mod link;
mod standing;

pub use builder::{
    BATCH_DEFAULT, BATCH_MAX, Builder, CONNECT_TIMEOUT_DEFAULT, DEADLINE_DEFAULT, DEADLINE_MAX, NODES_MAX,
    QUEUE_DEFAULT, QUEUE_MAX,
};
pub use check::Check;
pub use client::{CHECK_BYTES_MAX, Client};
pub use decision::{Decision, LimitDecision, Mode, Reason, Source};
pub use error::{CheckError, ConfigError, Trouble, TroubleKind};
pub use standing::{NodeStanding, NodeState};
