//! What happened, in our words: every event of a run with its real time. The judges read it, transcripts are made of it,
//! and two runs of one seed write the same one, byte for byte.

use control::Ending;
use limits::{FailMode, Fingerprint, LimitId, Moment, Now, Shape, Span, WallTime};
use ownership::kept::{Incarnation, Keeper, KeptKey, Predecessor};
use ownership::{Asker, CheckId, Epoch, Recovered, SessionId};
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
    /// A machine was copied as it ran. The copy is a node of its own number from then on, above those of the scenario,
    /// and lives the same sessions.
    Cloned {
        /// Of which.
        node: u8,
        /// The copy's number.
        copy: u8,
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
    /// The log appointed an owner: told once, when the entry was committed.
    Appointed {
        /// Over what.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// Whom.
        session: SessionId,
        /// The entry's place in the log.
        index: u64,
        /// Who decided there last, and where that was kept when it ended.
        before: Option<Predecessor>,
    },
    /// A leader's deadline of a session was set, or moved.
    Granted {
        /// Who leads.
        node: u8,
        /// In which term.
        term: u64,
        /// Whose deadline.
        session: SessionId,
        /// The reading of the leader's own clock after which the session may be ended.
        deadline: Moment,
        /// How many renewals the holder has sent, this one included, since the last whose acknowledgement it heard; 0 where no
        /// renewal led to it, or the first one that this leader saw.
        unheard: u64,
    },
    /// A holder's lease lasts longer now.
    Extended {
        /// Where.
        node: u8,
        /// Whose.
        session: SessionId,
        /// The reading of its own clock at which the renewal was sent that was granted.
        sent: Moment,
        /// The reading of its own clock at which the lease ends.
        end: Moment,
        /// The end, in real time, at the rate its clock runs now.
        until: Moment,
    },
    /// A lease ran out at its holder.
    Lapsed {
        /// Whose.
        session: SessionId,
    },
    /// The log ended a session: told once, when the entry was committed.
    Ended {
        /// Which.
        session: SessionId,
        /// How.
        ending: Ending,
        /// The entry's place in the log.
        index: u64,
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
        full_as_of: Option<Now>,
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
    /// An owner took back what a question charged: what its last decision under that epoch did, which may be nothing.
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
    /// An owner was told to take back what it had not decided: it remembers not to, should the question still arrive.
    Buried {
        /// Where.
        node: u8,
        /// In which partition.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// The question.
        id: CheckId,
        /// The owner's clock.
        clock: Moment,
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
        /// Cluster time there, if it is known.
        wall: Option<WallTime>,
        /// What.
        legs: Vec<LegSeen>,
    },
    /// An ingress told an owner what became of a question. When it arrives and there is anything to do, [`Event::Undone`],
    /// [`Event::Buried`] or [`Event::Booked`] says so.
    Corrected {
        /// Where.
        node: u8,
        /// In which partition.
        partition: PartitionId,
        /// The question.
        id: CheckId,
        /// The asking.
        asker: Asker,
        /// What is to be done.
        what: Correction,
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
    /// An ingress's own emergency limiter lent something, and nothing of it was given back.
    Lent {
        /// Where.
        node: u8,
        /// In which session.
        session: SessionId,
        /// The reading of its own clock.
        clock: Moment,
        /// Cluster time there, if it is known.
        wall: Option<WallTime>,
        /// The question.
        id: CheckId,
        /// What all shares of the limit come to, in per cent of it.
        percent: u8,
        /// The limit's key and cost; the shape is that of the whole limit.
        leg: LegSeen,
    },
    /// A caller has its answer, or gave up.
    Told(Told),
    /// The log says another thing of where a session's records count: told once, when the entry was committed.
    Counts {
        /// Whose.
        session: SessionId,
        /// In which life of the store; `None`: nowhere.
        store: Option<Incarnation>,
    },
    /// The store has put a partition into somebody's name.
    Claimed {
        /// In which of its lives.
        life: Incarnation,
        /// What.
        partition: PartitionId,
        /// In whose name.
        keeper: Keeper,
    },
    /// The store has taken a write in.
    Kept {
        /// In which of its lives.
        life: Incarnation,
        /// Of which partition.
        partition: PartitionId,
        /// In whose name.
        keeper: Keeper,
        /// Whether it replaces all that was there.
        anew: bool,
        /// When it was sent: what was used later it does not know of.
        made: Moment,
        /// The keys.
        keys: Vec<KeyKept>,
    },
    /// Somebody has deleted all that the store had.
    Flushed {
        /// In which of its lives.
        life: Incarnation,
    },
    /// The log has it that an operator vouches for the store.
    Vouched {
        /// In which of its lives.
        life: Incarnation,
        /// The index of that entry.
        index: u64,
    },
    /// A successor has taken in what was kept before.
    TookIn {
        /// Of which partition.
        partition: PartitionId,
        /// The successor.
        keeper: Keeper,
        /// In which life of the store its claim lies.
        by: Incarnation,
        /// Whose record it was.
        of: Keeper,
        /// Whether the record said that it is whole, and was.
        whole: bool,
    },
    /// It is known what was used before a reign began, or that nobody can say.
    Recovered {
        /// Where.
        node: u8,
        /// Of which partition.
        partition: PartitionId,
        /// Under which epoch.
        epoch: Epoch,
        /// How absent keys are read from now on.
        recovered: Recovered,
    },
    /// Words for whoever reads: what is worth seeing in a transcript and no judge needs.
    Note(String),
}

/// A key as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyKept {
    /// The limit.
    pub limit: LimitId,
    /// The key.
    pub key: Fingerprint,
    /// Units that its owner may admit beyond what was used when it was written.
    pub allowance: u64,
}

impl KeyKept {
    /// What of a key that is written matters to whoever judges.
    pub(crate) fn of(kept: &KeptKey) -> KeyKept {
        KeyKept { limit: kept.limit, key: kept.key, allowance: kept.allowance }
    }
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
    /// Cluster time there, if it is known.
    pub wall: Option<WallTime>,
    /// The question.
    pub id: CheckId,
    /// Who asked.
    pub asker: Asker,
    /// For the how-manieth time.
    pub attempt: u8,
    /// By which revision of the policy it was matched.
    pub revision: u64,
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
    /// Whether it only watches.
    pub shadow: bool,
    /// The numbers it was decided by: the owner's part of the limit where an owner decided, the whole limit where none did.
    pub shape: Shape,
}

/// What an owner is told of a question after it was answered, or was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Nobody was let pass by what it may have charged.
    Cancel,
    /// So many units were taken of those it granted.
    Trim(u64),
    /// A caller was let pass unseen.
    Debt,
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
    /// When it was put to the node whose answer this is; to the last one, where nothing came.
    pub put: Moment,
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
    /// The limit's failure mode, as the ingress knew it.
    pub fail: FailMode,
    /// The epoch it was decided under, by an owner.
    pub epoch: Option<Epoch>,
    /// The session that decided.
    pub session: Option<SessionId>,
}
