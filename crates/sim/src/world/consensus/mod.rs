//! A stand-in for the log that real nodes replicate by raft (Ongaro and Ousterhout, "In search of an understandable
//! consensus algorithm", 2014; confirmations are the read index of Ongaro's thesis, section 6.4): small, without a
//! socket or a clock, and as good or as bad as the real one in all that its users can notice. Leaders are elected and
//! deposed, a deposed one goes on believing until it hears, what a lost leader proposed may be committed later or never,
//! and a disk can be stuck.
//!
//! Left out, since nothing here depends on it: changes of members (all voters are known from the start), snapshots (a
//! story is short), and a wait for each write. A write is done before any message that tells of it leaves; a crash in
//! between looks like a crash before the message arrived.

mod asks;
mod core;
mod disk;
mod follow;
mod lead;
mod message;
#[cfg(test)]
mod tests;

use limits::Span;

pub use self::asks::{Ask, NotAsked, Outcome};
pub use self::core::{Committed, Consensus, Leadership};
pub use self::disk::{Disk, Entry, Position};
pub use self::message::{Body, Message};

/// How often a leader shows that it lives.
pub const HEARTBEAT: Span = Span::from_millis(50);

/// Who stands for election and hears nothing stands again after this long at least.
pub const ELECTION_MIN: Span = Span::from_millis(150);

/// And after this long at most; as long as that after it heard a leader, a node helps nobody to depose it.
pub const ELECTION_MAX: Span = Span::from_millis(300);

/// How much longer a candidate waits that heard of a longer log: twice the longest election, as openraft has it.
pub const BEHIND_WAITS: Span = Span::from_millis(600);

/// Entries of one message at most.
pub const ENTRIES_MAX: usize = 64;

/// A proposal without an outcome is undecided after this long.
pub const PROPOSE_WITHIN: Span = Span::from_secs(5);

/// A round of confirmation has failed after this long.
pub const CONFIRM_WITHIN: Span = Span::from_secs(2);

/// Proposals of one process that wait for their outcome; one more is refused.
pub const PROPOSALS_MAX: usize = 1_024;

/// Callers that wait for a confirmation; one more is refused.
pub const CONFIRMATIONS_MAX: usize = 4_096;

/// Messages and proposals that wait for a stuck disk; further messages are lost, further proposals undecided in the end.
pub const HELD_MAX: usize = 4_096;

/// Nodes of a group at most: votes are counted in the bits of a byte.
pub const NODES_MAX: u8 = 8;
