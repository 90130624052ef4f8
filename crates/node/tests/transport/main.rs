//! Peer connections over real loopback sockets. Events are awaited, never slept for.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod calls;
mod hostile;
mod parties;
