//! Gossip: clusters of cores in virtual time, and one over real sockets.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod hostile;
mod membership;
mod network;
mod sockets;
