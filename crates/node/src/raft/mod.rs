//! Consensus: openraft on tonic with a redb log, behind plain types. The log carries bytes and drives a [`Machine`];
//! nothing here knows what a command means, and nothing of openraft shows outside.
//!
//! Order of a node's start: [`Journal::open`], the peer port with [`Door::service`], then [`RaftNode::start`]. A first
//! node calls [`RaftNode::bootstrap`]; every other is added by a leader with [`RaftNode::add_learner`].

mod codec;
mod confirm;
mod journal;
mod log;
mod machine;
mod members;
mod network;
mod node;
mod runtime;
mod service;
mod settings;
mod standing;
#[cfg(test)]
mod suite;
mod types;

pub use journal::{CELL_BYTES_MAX, JOURNAL_FILE, Journal, JournalError, OpenError, SNAPSHOT_FILE};
pub use machine::{Machine, RestoreError};
pub use members::{MembersError, VOTER_COUNTS};
pub use network::{Dial, MESSAGE_BYTES_MAX};
pub use node::{
    BootstrapError, ConfirmError, Confirmed, PAYLOAD_BYTES_MAX, PROPOSALS_MAX, ProposeError, Proposed, RaftNode, Setup,
    StartError,
};
pub use service::{Door, RaftService, SNAPSHOT_BYTES_MAX};
pub use settings::Settings;
pub use standing::{Leadership, Members, Role, Standing};
pub use types::Peer;
