//! What an owner is asked, and everything it can say. A check carries the legs of one question that fall into one
//! partition; an answer is a verdict, or the reason why there is none. Whatever is not a verdict has charged nothing.

use limits::{Fingerprint, LegDecision, LimitId, Span, Variant};
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
    /// The revision of the policy that the legs come from, of their domain; 0 where nothing depends on it.
    pub revision: u64,
    /// What is to be done with the legs.
    pub act: Act,
    /// What is asked, in the order of the rule; at most [`MAX_LEGS`].
    pub legs: SmallVec<[CheckLeg; 2]>,
}

/// What is to be done with the legs of a check. The first five decide; the others speak of a charge that was made before
/// under another id, in the same partition and for the same keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// Spend the costs, all or none.
    #[default]
    Spend,
    /// Tell what spending the costs would meet. Nothing is charged, and no record kept.
    Peek,
    /// Spend as much as there is: each leg's cost is that of one unit, of which at most so many are wanted.
    UpTo {
        /// The most units wanted.
        units: u64,
    },
    /// Spend, and hold the slots of concurrency limits under the check's id.
    Acquire {
        /// How long, unless it is renewed; the limit's own time without it.
        ttl: Option<Span>,
    },
    /// Spend, and leave the charge open under the check's id until it is settled.
    Reserve {
        /// How long it may be settled.
        ttl: Span,
        /// The units that the legs' costs are for, in the caller's measure.
        units: u64,
    },
    /// Undo the charge of a check (law 8).
    Refund {
        /// The id it was charged under.
        of: CheckId,
    },
    /// Settle a reserve at what was spent. Each leg's cost is that of one unit.
    Settle {
        /// The id it was reserved under.
        of: CheckId,
        /// Units spent.
        units: u64,
        /// Whether what was spent above the reserve is booked; otherwise a settlement above it does nothing.
        debt: bool,
    },
    /// Prolong leases of slots.
    Renew {
        /// The id they were acquired under.
        of: CheckId,
        /// How long from now on; the limit's own time without it.
        ttl: Option<Span>,
    },
    /// Give slots back.
    Release {
        /// The id they were acquired under.
        of: CheckId,
    },
    /// Make the keys as ones that were never used.
    Reset,
}

/// One limit's part of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLeg {
    /// The limit; its numbers are the owner's to know.
    pub limit: LimitId,
    /// Which of its numbers apply.
    pub variant: Variant,
    /// The key under that limit.
    pub key: Fingerprint,
    /// Units to spend, 0 to [`limits::AMOUNT_MAX`]. A check whose costs are all 0 is a peek.
    pub cost: u64,
    /// Whether this leg only watches: it never refuses, and is charged if the check is allowed and it admits by itself.
    pub shadow: bool,
}

impl Act {
    /// Whether it decides anew, so that a failure mode can answer in an owner's place, and a charge can be taken back.
    pub const fn decides(&self) -> bool {
        match self {
            Act::Spend | Act::Peek | Act::UpTo { .. } | Act::Acquire { .. } | Act::Reserve { .. } => true,
            Act::Refund { .. } | Act::Settle { .. } | Act::Renew { .. } | Act::Release { .. } | Act::Reset => false,
        }
    }

    /// How many times the cost of each leg may come to be charged, where the legs have the cost of one unit; `None` where
    /// they have all of it.
    pub const fn times(&self) -> Option<u64> {
        match self {
            Act::UpTo { units } | Act::Settle { units, .. } => Some(*units),
            Act::Spend
            | Act::Peek
            | Act::Acquire { .. }
            | Act::Reserve { .. }
            | Act::Refund { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Reset => None,
        }
    }

    /// Whether it holds something open under the check's id: slots, or a reserve.
    pub const fn holds(&self) -> bool {
        match self {
            Act::Acquire { .. } | Act::Reserve { .. } => true,
            Act::Spend
            | Act::Peek
            | Act::UpTo { .. }
            | Act::Refund { .. }
            | Act::Settle { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Reset => false,
        }
    }
}

impl Check {
    /// Whether this check asks without spending: nothing is charged, and no record is kept.
    pub fn is_peek(&self) -> bool {
        match self.act {
            Act::Peek => true,
            Act::Spend => self.legs.iter().all(|leg| leg.cost == 0),
            Act::UpTo { .. }
            | Act::Acquire { .. }
            | Act::Reserve { .. }
            | Act::Refund { .. }
            | Act::Settle { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Reset => false,
        }
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
    /// The owner goes by a newer revision of the policy than the legs come from. Nothing was spent: match the question once
    /// more, when that revision is known, and ask under the same id.
    StaleRevision {
        /// The owner's revision of the domain.
        revision: u64,
    },
    /// The owner cannot say. It charged nothing for this attempt; the limit's failure mode answers unless another
    /// attempt does.
    Unknown(Unknown),
    /// The id is known under another question. The caller's doing; nothing was spent.
    IdReused,
}

/// A decision of the owner, over all legs of a check; or what came of an act that speaks of an earlier charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every leg that enforces admitted. If not, nothing was charged. Of an act that speaks of an earlier charge:
    /// whether it found it, and did what it was to do.
    pub allowed: bool,
    /// What it came to, by act. Spend and peek: 0. Up to: units granted. Acquire and reserve: nanoseconds that the shortest
    /// lease, or the reserve, lasts unless something is done; 0 when nothing is held. Refund and settle: units that the
    /// leg with the most got back; of a settlement that was refused because it lies above its reserve, the units reserved,
    /// and 0 when there is no reserve. Renew: nanoseconds that the shortest lease lasts. Release and reset: legs that had
    /// anything to give back or to forget.
    pub units: u64,
    /// Whether this is the recorded answer to an earlier attempt.
    pub replayed: bool,
    /// On a denial: every limit that refused did so only because a takeover left its use unknown.
    pub recovering: bool,
    /// On a denial: for how long from the moment of the decision the same legs are certain to be denied again, and with the
    /// same numbers but for the time that has passed; zero where that is not known. A reset alone can end it early.
    pub cacheable: Span,
    /// What each limit said, in the order of [`Check::legs`]; a replay repeats what was said then. After an act that speaks
    /// of an earlier charge: how it stands.
    pub legs: SmallVec<[LegDecision; 2]>,
}

/// Why an owner cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// Its lease ends too soon for the answer to be of use. Ask again: it, or its successor, will know.
    Lease,
    /// The id's record was lost for space, or the id was cancelled: deciding anew could charge twice.
    Record,
    /// It does not know one of the limits, or its log is behind the policy that the ingress matched with, or the check
    /// has more than [`MAX_LEGS`] legs.
    Policy,
    /// A limit's windows follow cluster time, and the owner has not heard of cluster time yet.
    Clock,
    /// It has just taken over, and is finding out what its predecessor had kept. Ask again soon.
    Loading,
    /// What is kept of a key does not allow for this yet, and is being raised. Ask again soon.
    Allowance,
    /// A leg's key has no entry, and the table or the domain's budget has no room for another.
    TableFull {
        /// Index into [`Check::legs`].
        leg: u8,
    },
}
