//! The two answers of the log: what an entry did, or why it did nothing.

use ownership::SessionId;
use ring::PartitionId;

use crate::genesis::{ClusterId, GenesisError, NAME_MAX};
use crate::policies::{DOCUMENT_MAX, DOCUMENTS_MAX, DOMAINS_MAX, LIMITS_MAX, TEXT_MAX};
use crate::sessions::SESSIONS_MAX;

/// What an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "a policy is applied: the word of the event")]
pub enum Applied {
    /// The cluster exists.
    Founded,
    /// The session lives; also when the same entry is applied again while it does.
    SessionOpened {
        /// How many nodes share emergency budgets, from now on.
        n_max: u32,
    },
    /// Sessions ended, or vacant partitions were filled.
    MapChanged {
        /// The version of the map: this entry's index, or that of the last entry which changed it.
        version: u64,
        /// How many partitions got an owner.
        appointed: u16,
    },
    /// The document is its domain's current one.
    PolicyApplied {
        /// Its number.
        revision: u64,
    },
    /// Fewer nodes share emergency budgets.
    NMaxLowered,
    /// The inline limit is in force.
    InlineDefined,
    /// The ttl is the one that was asked for, or is waited for from now on.
    LeaseChanged,
    /// The session's records count where it said, or an operator's word is taken.
    StoreNoted,
}

/// Why an entry did nothing. Nothing changed on any node; each variant says whose doing it is and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no genesis yet. The proposer was early; ask again later.
    #[error("the cluster is not founded yet")]
    NotFounded,
    /// There is a genesis already. A founder that sees this joins.
    #[error("the cluster {cluster} is founded already")]
    AlreadyFounded {
        /// The cluster that is there.
        cluster: ClusterId,
    },
    /// The founder's file is wrong, or the ttl that an operator wants is none.
    #[error(transparent)]
    BadGenesis(#[from] GenesisError),

    /// Another node lives under this name. It is a wrong name in a file, or a wiped node whose old session has not
    /// ended yet: ask again until it has.
    #[error("the name {name} is in use by {held_by}")]
    NameInUse {
        /// The name.
        name: String,
        /// The peer address of the node that holds it.
        held_by: String,
    },
    /// An earlier session of this node still lives. Ask again when it has expired: that nobody else lives it is known
    /// only then (a cloned machine looks the same).
    #[error("session {}/{} of this node still lives", session.nonce, session.counter)]
    AlreadyLive {
        /// The one that lives.
        session: SessionId,
    },
    /// This session, or a later one of its process, has ended: sessions do not come back. Open the next.
    #[error("this session has ended")]
    SessionEnded,
    /// [`SESSIONS_MAX`] sessions live.
    #[error("at most {SESSIONS_MAX} nodes can live at once")]
    TooManySessions,
    /// The node describes itself wrongly: another id than its session's, an empty or overlong name or address.
    #[error("a node has its session's id, a name and addresses of 1 to {NAME_MAX} bytes")]
    BadNode,
    /// The node is too old or too new for the cluster.
    #[error("the cluster follows version {cluster_version}, which this node does not speak")]
    VersionUnsupported {
        /// What the cluster follows.
        cluster_version: u32,
    },

    /// A session that the entry names does not live. The proposer's picture is old; plan anew.
    #[error("session {}/{} of node {} does not live", session.nonce, session.counter, session.node.0)]
    NotLive {
        /// The session.
        session: SessionId,
    },
    /// The entry names nothing to do. The proposer's mistake.
    #[error("the entry names no session and no partition")]
    Empty,
    /// A run reaches beyond the last partition, or is empty. The proposer's mistake.
    #[error("a run lies outside the cluster's partitions")]
    RunOutside,
    /// Two runs name this partition. The proposer's mistake.
    #[error("partition {} is named twice", partition.0)]
    PartitionTwice {
        /// The partition.
        partition: PartitionId,
    },
    /// The partition has a live owner, and an owner is never replaced while it may decide. Plan anew.
    #[error("partition {} has a live owner", partition.0)]
    OwnerLives {
        /// The partition.
        partition: PartitionId,
    },
    /// Nothing was ever placed, and this founder has no session yet. Wait for it, or have an operator say so.
    #[error("founder {missing} has no session yet, and nothing was ever placed")]
    FounderMissing {
        /// The first of them in the list.
        missing: String,
    },
    /// The first placement is one entry for all partitions, made by `Appoint`; this entry leaves or names some alone.
    #[error("the first placement covers all partitions in one entry")]
    FirstPlacementPartial,
    /// Below the number of sessions that may lend, or not lower than it is. Plan anew.
    #[error("n_max may fall from {n_max} to {lending} at most")]
    NMax {
        /// What it is.
        n_max: u32,
        /// How many sessions may lend: those that live, and those that ended and may not know it.
        lending: u32,
    },
    /// The ttl in force is waited for already, or it was changed again. Nothing is to be done.
    #[error("no longer ttl is waited for, or the ttl was changed again")]
    NothingToSettle,
    /// The session has said something later about where its records count: nothing to do.
    #[error("the session has said something later about its store (number {taken})")]
    StoreOutdated {
        /// The number of its last word.
        taken: u64,
    },

    /// The proposal follows another revision. The author reads the current one and decides again.
    #[error("the current revision is {current}")]
    RevisionConflict {
        /// The current one; 0 when there is none.
        current: u64,
    },
    /// A domain, a limit, an author or a reason is empty where it may not be, or longer than it may be.
    #[error("names have 1 to {NAME_MAX} bytes, author and reason at most {TEXT_MAX}")]
    BadText,
    /// The document is larger than [`DOCUMENT_MAX`].
    #[error("a policy document has at most {DOCUMENT_MAX} bytes")]
    DocumentTooLarge,
    /// All current documents together would be larger than [`DOCUMENTS_MAX`].
    #[error("all current documents together have at most {DOCUMENTS_MAX} bytes")]
    DocumentsFull,
    /// [`DOMAINS_MAX`] domains exist.
    #[error("there are at most {DOMAINS_MAX} domains")]
    TooManyDomains,
    /// More limits than [`LIMITS_MAX`].
    #[error("a domain has at most {LIMITS_MAX} limits")]
    TooManyLimits,
    /// The proposal names this limit twice.
    #[error("limit {name} is named twice")]
    LimitTwice {
        /// The limit.
        name: String,
    },
    /// Two limits of the proposal claim to be the one that had this name.
    #[error("two limits claim to be what {name} was")]
    RenameTaken {
        /// The old name.
        name: String,
    },
    /// Another check defined the limit otherwise under this revision. The callers do not agree.
    #[error("this limit is defined as `{definition}` already")]
    InlineConflict {
        /// What stands, as text.
        definition: String,
    },
    /// The domain has as many inline limits as its revision allows.
    #[error("this domain has its {most} inline limits already")]
    InlineFull {
        /// How many it allows.
        most: u32,
    },
    /// All numbers for limits are used up.
    #[error("there are no more numbers for limits")]
    LimitIdsExhausted,
}
