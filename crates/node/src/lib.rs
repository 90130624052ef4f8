//! One node: the shell around the pure machines.

mod clock;
pub mod cluster;
pub mod gossip;
pub mod quiet;
pub mod raft;
pub mod secret;
pub mod transport;
