//! One node: the shell around the pure machines.

pub mod gossip;
pub mod raft;
pub mod transport;
