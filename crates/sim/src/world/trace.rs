//! What happened, in our words: every event of a run with its real time. The judges read it, transcripts are made of it,
//! and two runs of one seed write the same one, byte for byte.

use limits::{Fingerprint, LimitId, Moment, Span};
use ownership::{Asker, CheckId, Epoch, SessionId};
use ring::PartitionId;

use crate::history::{Reason, Source};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, in real time.
    pub at: Moment,
    /// What.
    pub event: Event,
}

/// What happened. Nodes go by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The scenario's fault of this number began, befalling these nodes (a bit each).
    Broke {
        /// Its place among the scenario's faults.
        fault: usize,
        /// Whom it befell.
        nodes: u8,
    },
    /// It is over.
    Mended {
        /// Its place.
        fault: usize,
    },
    /// Everything was mended for good.
    Healed,
    /// A process started, with this boot nonce.
    Started {
        /// Where.
        node: u8,
        /// Random per start.
        nonce: u64,
    },
    /// A process died.
    Died {
        /// Where.
        node: u8,
    },
    /// A node became leader and applied the first entry of its term.
    Leads {
        /// Who.
        node: u8,
        /// Since which term.
        term: u64,
    },
    /// The log has a new entry.
    Committed {
        /// Its place.
        index: u64,
        /// What it says, in words.
        words: String,
    },
    /// A holder's lease lasts longer now.
    Extended {
        /// Whose.
        session: SessionId,
        /// The end, in real time, at the rate its clock runs now.
        until: Moment,
    },
    /// A lease ran out at its holder.
    Lapsed {
        /// Whose.
        session: SessionId,
    },
    /// The log ended a session.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// A reign began.
    Reigns {
        /// Where.
        node: u8,
        /// Over what.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// In whose name.
        session: SessionId,
        /// The owner's clock as of which absent keys are read as full; `None` where they are fresh.
        full_as_of: Option<Moment>,
    },
    /// A reign ended.
    Reigned {
        /// Where.
        node: u8,
        /// Over what.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
    },
    /// An owner decided.
    Decided(Decided),
    /// An owner took back what a question charged.
    Undone {
        /// Where.
        node: u8,
        /// In which partition.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// Whose charge.
        id: CheckId,
        /// For which asking.
        asker: Asker,
    },
    /// An owner booked what was let pass unseen.
    Booked {
        /// Where.
        node: u8,
        /// In which partition.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// Under whose id.
        id: CheckId,
        /// For which asking.
        asker: Asker,
        /// The owner's clock.
        clock: Moment,
        /// What.
        legs: Vec<LegSeen>,
    },
    /// An ingress acts on an answer.
    Acted {
        /// Where.
        node: u8,
        /// The asking.
        asker: Asker,
        /// The question.
        id: CheckId,
        /// The partition that answered.
        partition: PartitionId,
        /// The epoch it answered under.
        epoch: Epoch,
        /// The newest epoch that the ingress knew.
        known: Epoch,
        /// How old the answer was, on the ingress's clock, since its attempt was sent.
        age: Span,
    },
    /// An ingress's own emergency limiter lent something.
    Lent {
        /// Where.
        node: u8,
        /// In which session.
        session: SessionId,
        /// The limit's key and cost.
        leg: LegSeen,
    },
    /// A caller has its answer, or gave up.
    Told(Told),
    /// Words for whoever reads: what is worth seeing in a transcript and no judge needs.
    Note(String),
}

/// A decision of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Where.
    pub node: u8,
    /// In which partition.
    pub partition: PartitionId,
    /// Under which epoch.
    pub epoch: Epoch,
    /// In whose name.
    pub session: SessionId,
    /// The owner's clock: the witness.
    pub clock: Moment,
    /// The question.
    pub id: CheckId,
    /// Who asked.
    pub asker: Asker,
    /// For the how-manieth time.
    pub attempt: u8,
    /// Whether it is a recorded answer.
    pub replayed: bool,
    /// Whether all legs admitted.
    pub allowed: bool,
    /// Whether it was refused only for what a takeover left unknown.
    pub recovering: bool,
    /// Each leg.
    pub legs: Vec<LegSeen>,
}

/// One leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegSeen {
    /// The limit.
    pub limit: LimitId,
    /// The key.
    pub key: Fingerprint,
    /// Units.
    pub cost: u64,
    /// Whether it admitted.
    pub allowed: bool,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The scenario's ask.
    pub ask: usize,
    /// The question.
    pub id: CheckId,
    /// The node that answered, or was asked last.
    pub node: u8,
    /// When the question was first put.
    pub invoked: Moment,
    /// When the answer was there, or the caller gave up.
    pub returned: Moment,
    /// What it was; `None` where nothing came.
    pub decision: Option<Decision>,
}

/// A decision over all limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the caller may go ahead.
    pub allowed: bool,
    /// What each limit said, in the order of the rule.
    pub legs: Vec<LegTold>,
}

/// What one limit said to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegTold {
    /// The limit and its key.
    pub leg: LegSeen,
    /// Who spoke.
    pub source: Source,
    /// Why.
    pub reason: Reason,
    /// The epoch it was decided under, by an owner.
    pub epoch: Option<Epoch>,
    /// The session that decided.
    pub session: Option<SessionId>,
}
