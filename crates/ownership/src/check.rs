//! What an owner is asked, and everything it can say. A check carries the legs of one question that fall into one
//! partition; an answer is a verdict, or the reason why there is none. Whatever is not a verdict has charged nothing.

use limits::{Fingerprint, LegDecision, LimitId};
use smallvec::SmallVec;

use crate::session::{Epoch, SessionId};

/// The most legs one check may have: limits of one question in one partition. The door refuses more (policies that
/// could need more are refused when they are applied); an owner that is handed more answers
/// [`Unknown::Policy`] and charges nothing.
pub const MAX_LEGS: usize = 16;

/// The name of one question, 128 bits: a client's nonce and sequence number, or the hash of a caller's own text id
/// together with caller and domain. It stays the same however often, and through whichever node, the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckId(pub u128);

/// One place where a question is being asked: an ingress, and one of the questions that are under way there. A caller that
/// hears nothing may put its question again, through another node or through the same one, while the first asking still
/// goes on; then two ask under one [`CheckId`], and what one of them was told is not the other's to take back. Unique
/// among all that ask at any time within the horizon of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker(pub u64);

/// One question to one partition: may these keys spend this, all of them or none?
///
/// All legs of a caller's question that fall into one partition travel in one `Check`. Two checks under one id to one
/// partition are two *attempts* at the same question, never two halves of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The question's name.
    pub id: CheckId,
    /// Who asks; the same at every attempt of one asking.
    pub asker: Asker,
    /// 1 for the first time this question is put to anyone, one more each time it is asked again.
    pub attempt: u8,
    /// Whether the id is a caller's own, so that it may come again at any time and is always looked up.
    pub indexed: bool,
    /// A hash of what the caller asked (domain, attributes, cost), not of the legs: a policy that changes between two
    /// attempts does not make them two questions.
    pub question: u64,
    /// What is asked, in the order of the rule; at most [`MAX_LEGS`].
    pub legs: SmallVec<[CheckLeg; 2]>,
}

/// One limit's part of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLeg {
    /// The limit; its numbers are the owner's to know.
    pub limit: LimitId,
    /// The key under that limit.
    pub key: Fingerprint,
    /// Units to spend, 0 to [`limits::AMOUNT_MAX`]. A check whose costs are all 0 is a peek.
    pub cost: u64,
    /// Whether this leg only watches: it never refuses, and is charged if the check is allowed and it admits by itself.
    pub shadow: bool,
}

impl Check {
    /// Whether this check asks without spending: nothing is charged, and no record is kept.
    pub fn is_peek(&self) -> bool {
        self.legs.iter().all(|leg| leg.cost == 0)
    }
}

/// What an owner, or a node that was taken for one, says to a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The partition's owner decided.
    Decided(Verdict),
    /// This node does not own the partition. Nothing was spent: refresh the map and ask once more, with the same id.
    NotOwner {
        /// The newest epoch of the partition that this node knows.
        epoch: Epoch,
        /// Whom it believes to be the owner.
        hint: Option<SessionId>,
    },
    /// The owner cannot say. It charged nothing for this attempt; the limit's failure mode answers unless another
    /// attempt does.
    Unknown(Unknown),
    /// The id is known under another question. The caller's doing; nothing was spent.
    IdReused,
}

/// A decision of the owner, over all legs of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every leg that enforces admitted. If not, nothing was charged.
    pub allowed: bool,
    /// Whether this is the recorded answer to an earlier attempt.
    pub replayed: bool,
    /// On a denial: every limit that refused did so only because a takeover left its use unknown.
    pub recovering: bool,
    /// What each limit said, in the order of [`Check::legs`]; a replay repeats what was said then.
    pub legs: SmallVec<[LegDecision; 2]>,
}

/// Why an owner cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// Its lease ends too soon for the answer to be of use. Ask again: it, or its successor, will know.
    Lease,
    /// The id's record was lost for space, or the id was cancelled: deciding anew could charge twice.
    Record,
    /// It does not know one of the limits (its log is behind the policy that the ingress matched with), or the check
    /// has more than [`MAX_LEGS`] legs.
    Policy,
    /// A limit's windows follow cluster time, and the owner has not heard of cluster time yet.
    Clock,
    /// A leg's key has no entry, and the table or the domain's budget has no room for another.
    TableFull {
        /// Index into [`Check::legs`].
        leg: u8,
    },
}
