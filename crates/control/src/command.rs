//! What may be proposed to the log. A command says what its proposer wants; [`crate::State::apply`] says whether it is
//! legal by then.

use std::sync::Arc;

use limits::Span;
use ownership::SessionId;
use ownership::kept::Incarnation;
use ring::{NodeId, PartitionId};

use crate::genesis::Genesis;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The cluster begins; once, before anything else.
    Found(Box<Genesis>),
    /// A node wants to live.
    OpenSession {
        /// The session, new.
        session: SessionId,
        /// The node that lives it.
        node: Box<NodeSpec>,
    },
    /// A planned exit: the session's node has sealed what it owned, so nobody waits.
    Release {
        /// The session that ends.
        session: SessionId,
        /// Who takes what it owned.
        takeovers: Vec<Run>,
    },
    /// Leases that ran out, in one entry with what follows from it.
    Expire {
        /// The sessions that end; at least one, all live.
        sessions: Vec<SessionId>,
        /// Who takes what they owned. What no run names becomes vacant.
        takeovers: Vec<Run>,
    },
    /// Owners for vacant partitions: the first placement of all, or what was left without an owner since.
    Appoint {
        /// Who gets what.
        runs: Vec<Run>,
        /// On whose word, which matters for the first placement only.
        by: AppointedBy,
    },
    /// A policy for a domain.
    ApplyPolicy(Box<PolicyProposal>),
    /// A limit that a check brought along.
    DefineInline(Box<InlineProposal>),
    /// Fewer nodes share the emergency budget. Proposed once everybody goes by the number before.
    LowerNMax {
        /// The new count; at least the number of sessions that may lend.
        to: u32,
    },
    /// Another length of leases, said by an operator.
    SetTtl {
        /// The new length, at most [`crate::TTL_MAX`].
        ttl: Span,
    },
    /// No lease is held any more that was granted by a longer ttl than the one in force. Said by a leader that has granted
    /// by no other for as long as a longer one could last.
    SettleTtl {
        /// The log index of the entry that set the ttl in force: of another, it would say nothing.
        since: u64,
    },
    /// Where the records of a session count from now on.
    Keep {
        /// The session, live.
        session: SessionId,
        /// The number of this word among those of the session; only a higher one than the last is taken.
        number: u64,
        /// In which life of the store; `None`: nowhere, so that a successor reads the worst case.
        store: Option<Incarnation>,
    },
    /// An operator vouches for a store: on its way into this life it has lost nothing that sessions had kept which have
    /// ended by now.
    Trust {
        /// Which life.
        incarnation: Incarnation,
    },
}

/// Neighbouring partitions that get the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: PartitionId,
    /// How many, from 1.
    pub len: u16,
    /// Their owner.
    pub to: SessionId,
}

impl Run {
    /// The numbers of its partitions; they may lie beyond the cluster's count until checked.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        let first = u32::from(self.first.0);
        first..first + u32::from(self.len)
    }
}

/// On whose word a first placement is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppointedBy {
    /// The leader's, which waits until every founder has a session, so that the first placement moves nothing.
    Leader,
    /// An operator's, who knows that a founder will not come.
    Operator,
}

/// Who a node is and where it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its identity; that of the session it opens.
    pub id: NodeId,
    /// What people see and what places it on the ring; 1 to [`crate::NAME_MAX`] bytes, one live session per name.
    pub name: String,
    /// Where it answers.
    pub addresses: Addresses,
    /// What it speaks.
    pub versions: VersionRange,
}

/// Where a node answers, `host:port`, each at most [`crate::NAME_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For peers.
    pub peer: String,
    /// For callers.
    pub api: String,
    /// For operators.
    pub admin: String,
}

/// The cluster versions that a node can follow, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl VersionRange {
    /// Whether `version` is among them.
    pub const fn contains(self, version: u32) -> bool {
        self.oldest <= version && version <= self.newest
    }
}

/// A document that wants to become the next revision of its domain. It is text to `control`, which knows no policy
/// language: whoever proposes has checked it and names its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProposal {
    /// The domain.
    pub domain: String,
    /// Which revision it is meant to follow.
    pub expected: Expected,
    /// The text, at most [`crate::DOCUMENT_MAX`] bytes.
    pub document: Arc<str>,
    /// Every limit in it, each named once.
    pub limits: Vec<LimitDigest>,
    /// Who, at most [`crate::TEXT_MAX`] bytes.
    pub author: String,
    /// Why, at most [`crate::TEXT_MAX`] bytes.
    pub reason: String,
    /// When, by the proposer's clock; shown, never used.
    pub at_unix_ms: u64,
}

/// A limit that a check brought along and that its domain does not have yet. Whoever proposes has checked that the domain's
/// policy allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineProposal {
    /// The domain.
    pub domain: String,
    /// The domain's revision that allows it; it must be the current one.
    pub revision: u64,
    /// What it is called, 1 to [`crate::NAME_MAX`] bytes.
    pub name: String,
    /// Over its key: what its state is filed under.
    pub digest: [u8; 16],
    /// Its key and its rate, as text that means nothing here, at most [`crate::TEXT_MAX`] bytes. Equal texts, equal limits.
    pub definition: Arc<str>,
    /// How many the revision allows.
    pub most: u32,
}

/// What a proposal says about the revision before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is.
    Any,
    /// This one; 0 when there is none yet.
    Revision(u64),
}

/// What `control` needs to know of a limit: whether it is the one it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitDigest {
    /// Its name in the domain.
    pub name: String,
    /// Over its key and route: what its state is filed under. A limit whose digest changed is another limit.
    pub digest: [u8; 16],
    /// The name it had in the revision before.
    pub renamed_from: Option<String>,
}
