//! What nodes say to each other before there is a cluster, and what they write down.

use ring::NodeId;

use crate::genesis::{ClusterId, FoundersDigest};

/// The birth of a cluster: everything a voter needs to begin the log. It travels with every word about the cluster, so
/// that a cluster which one voter has heard of can begin even when the founder's disk is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Its uuid.
    pub cluster: ClusterId,
    /// The node that founded it.
    pub founder: NodeId,
    /// The first voters: 1, 3 or 5 of the founders, in the order of names. The log begins with exactly these.
    pub voters: Vec<Voter>,
}

impl Birth {
    /// Whether the log begins with this node.
    pub fn has_voter(&self, node: NodeId) -> bool {
        self.voters.iter().any(|voter| voter.id == node)
    }
}

/// A node as founding knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: NodeId,
    /// Where it answers peers.
    pub peer: String,
}

/// What a node says of itself, again and again, to whomever it can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who.
    pub from: Voter,
    /// The founders it was given.
    pub founders: FoundersDigest,
    /// The cluster it belongs to, if any. A node that merely hopes to join says nothing, but for the founder by name:
    /// others may have promised to wait for it, and its word that it follows a cluster frees them.
    pub cluster: Option<Birth>,
    /// A number that the answer repeats.
    pub challenge: u64,
    /// In an answer: the number of the hello that is answered, which proves that the answer is no older.
    pub echo: Option<u64>,
}

/// The founder asks for a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromiseRequest {
    /// The founder.
    pub from: Voter,
    /// The founders it was given.
    pub founders: FoundersDigest,
    /// Random per process: an answer to an earlier life is no answer.
    pub nonce: u64,
    /// The number that the asked node wanted to see again, if it did.
    pub proof: Option<u64>,
}

/// The answer to a [`PromiseRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromiseReply {
    /// Who answers.
    pub from: Voter,
    /// The nonce of the request.
    pub nonce: u64,
    /// Yes or no.
    pub answer: PromiseAnswer,
}

/// Yes, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromiseAnswer {
    /// It is written down: this node belongs to no cluster, and until the founder says otherwise it will enter only the
    /// one that this founder founds.
    Promised,
    /// This node belongs to a cluster. Join it.
    Member(Birth),
    /// This node has promised another life of the founder, and a question can be older than the life that is now. Ask
    /// again with this number.
    Prove {
        /// The number.
        challenge: u64,
    },
    /// The two were given different founders. An operator's mistake.
    WrongFounders,
    /// This node is not among the founders, the asker is not the first of them, or both have one name. An operator's
    /// mistake.
    NotYours,
    /// This node has promised the founder of another list, who may still be at it. An operator who knows better empties
    /// this node's data directory.
    PromisedTo {
        /// The other founder's name.
        founder: String,
    },
}

/// What a node knows after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    #[default]
    Free,
    /// It has promised a founder.
    Promised {
        /// The founder's name.
        name: String,
        /// The founder's identity.
        founder: NodeId,
        /// The founders both were given.
        founders: FoundersDigest,
    },
    /// It belongs to a cluster.
    Member(Birth),
}

/// A message to a node, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Whom.
    pub to: String,
    /// What.
    pub message: FoundingMessage,
}

/// What can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundingMessage {
    /// A question.
    Request(PromiseRequest),
    /// An answer to a question, for exactly that asker.
    Reply(PromiseReply),
}
