//! The question that a front door puts to its node, and the decision it gets back. Decisions are numbers and identities;
//! names are looked up in the catalogue that the answer carries, so nothing is copied per check.

use std::sync::Arc;

use limits::{LegDecision, LimitId, Span, Variant};
use ownership::{Act, CheckId, Epoch};
use policy::Attributes;
use ring::NodeId;
use smallvec::SmallVec;

use crate::brought::Brought;
use crate::views::Policies;

/// One check as a front door understood it: may this key spend this cost, before this budget is used up?
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The policy's name space.
    pub domain: &'a str,
    /// What is known of the request, validated at the door.
    pub attributes: Attributes<'a>,
    /// What is to be done.
    pub wanted: Wanted,
    /// Units to spend, 0 to `limits::AMOUNT_MAX`; 0 only looks. To be settled: units spent. Of a lease that is renewed:
    /// the slots it has, in case its owner does not know it. For a release, a refund and a reset it means nothing.
    pub cost: u64,
    /// Limits that it brings along, at most [`BROUGHT_MAX`](crate::BROUGHT_MAX), where its domain allows them.
    pub brought: &'a [Brought<'a>],
    /// Only this one of the limits that apply; all of them without it.
    pub limit: Option<&'a str>,
    /// Who names this check, and how. Where an earlier charge is spoken of: the id of that one.
    pub id: AskedId<'a>,
    /// How long the caller waits.
    pub budget: Span,
}

/// What is to be done. The first five decide; the others speak of what was charged earlier, under the question's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Spend the cost, under all limits or none.
    Spend,
    /// Tell what spending would meet; nothing is spent.
    Peek,
    /// Spend as much as there is, up to the cost.
    UpTo,
    /// Spend, and hold slots under the id.
    Acquire {
        /// How long, unless renewed; the limit's own time without it.
        ttl: Option<Span>,
    },
    /// Spend, to be settled under the id.
    Reserve {
        /// How long it may be settled.
        ttl: Span,
    },
    /// Undo the charge of a check.
    Refund,
    /// Settle a reserve at the cost.
    Settle {
        /// Whether what was spent above the reserve is booked.
        debt: bool,
    },
    /// Prolong a lease of slots.
    Renew {
        /// How long from now on; the limit's own time without it.
        ttl: Option<Span>,
    },
    /// Give slots back.
    Release,
    /// Make the keys as ones that were never used.
    Reset,
}

impl Wanted {
    /// The act for owners, of `cost` units; `of` is the charge that is spoken of.
    pub(crate) const fn act(self, cost: u64, of: CheckId) -> Act {
        match self {
            Wanted::Spend => Act::Spend,
            Wanted::Peek => Act::Peek,
            Wanted::UpTo => Act::UpTo { units: cost },
            Wanted::Acquire { ttl } => Act::Acquire { ttl },
            Wanted::Reserve { ttl } => Act::Reserve { ttl, units: cost },
            Wanted::Refund => Act::Refund { of },
            Wanted::Settle { debt } => Act::Settle { of, units: cost, debt },
            Wanted::Renew { ttl } => Act::Renew { of, ttl },
            Wanted::Release => Act::Release { of },
            Wanted::Reset => Act::Reset,
        }
    }

    /// What of it makes another question under one id.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Wanted::Spend => "spend",
            Wanted::Peek => "peek",
            Wanted::UpTo => "up_to",
            Wanted::Acquire { .. } => "acquire",
            Wanted::Reserve { .. } => "reserve",
            Wanted::Refund => "refund",
            Wanted::Settle { debt: false } => "settle",
            Wanted::Settle { debt: true } => "settle_with_debt",
            Wanted::Renew { .. } => "renew",
            Wanted::Release => "release",
            Wanted::Reset => "reset",
        }
    }
}

/// The id a caller gave its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedId<'a> {
    /// None: the node makes one.
    Made,
    /// The caller's own text, scoped by who the caller is and by the domain.
    Text {
        /// Up to 64 printable characters.
        text: &'a str,
        /// The caller's name, empty for an anonymous one.
        caller: &'a str,
    },
    /// 128 bits made by an SDK, with the number of the attempt, from 1.
    Binary {
        /// Client nonce and sequence.
        id: u128,
        /// 1 for the first attempt.
        attempt: u8,
    },
}

/// Why a check could not be put. Nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPut {
    /// No policy for that domain. The caller's mistake, or the policy was never applied.
    #[error("no policy for this domain")]
    UnknownDomain,
    /// The check's cost times its rule's is above what can be counted. The caller's mistake.
    #[error("the cost times the rule's cost is above {max}", max = limits::AMOUNT_MAX)]
    CostTooLarge,
    /// The id was given to another question a moment ago. The caller's mistake.
    #[error("the id belongs to another question")]
    IdReused,
    /// The limit that was asked for is not among those that apply. The caller's mistake.
    #[error("no such limit applies to these attributes")]
    UnknownLimit,
    /// The domain allows no limits that come with a check. The caller's mistake.
    #[error("this domain takes no limits that come with the check")]
    InlineNotAllowed,
    /// A limit that came with the check is not accepted. The caller's mistake.
    #[error(transparent)]
    InlineRefused(policy::InlineRefusal),
    /// Another check defined a limit of that name otherwise. The callers do not agree.
    #[error("`{name}` is defined as `{stands}` already, until the domain's next revision")]
    InlineConflict {
        /// The limit.
        name: String,
        /// What stands.
        stands: String,
    },
    /// The domain has as many limits that came with checks as its policy allows.
    #[error("this domain has its {most} limits that came with checks already")]
    InlineFull {
        /// How many it allows.
        most: u32,
    },
    /// A limit that came with the check is new, and nobody could define it in time. It fails closed.
    #[error("a limit that came with the check could not be defined in time")]
    InlineUndefined,
    /// More limits would apply to the check than may. The caller's mistake.
    #[error(
        "at most {} limits apply to one check, those that it brings along among them",
        policy::bounds::LIMITS_PER_CHECK_MAX
    )]
    TooManyLimits,
    /// Nothing is reserved or held under the id: it was settled or released, its time is over, or it never was.
    #[error("nothing is reserved or held under this id")]
    UnknownReservation,
    /// A settlement above what was reserved, without leave to book the rest. The reserve is still open.
    #[error("only {reserved} were reserved")]
    AboveReservation {
        /// The units reserved.
        reserved: u64,
    },
}

/// Why a decision is what it is. The stable words of the API are in [`Reason::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Every limit admitted it.
    Ok,
    /// No limit applied.
    NoLimit,
    /// A limit is used up.
    Limit,
    /// A limit counts by an attribute that the check lacks.
    MissingAttribute,
    /// The cost can never fit.
    Never,
    /// No owner could answer in time; the limit's failure mode did.
    Unavailable,
    /// The owner took over a moment ago and does not yet know what was used.
    Recovering,
}

impl Reason {
    /// The word that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Ok => "ok",
            Reason::NoLimit => "no_limit",
            Reason::Limit => "limit",
            Reason::MissingAttribute => "missing_attribute",
            Reason::Never => "never",
            Reason::Unavailable => "unavailable",
            Reason::Recovering => "recovering",
        }
    }
}

/// Who answered for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The node that was asked owns the key.
    Owner,
    /// The owner, one hop away.
    Forwarded,
    /// The owner, a moment ago: its denial is certain, and the node that was asked repeats it.
    DenialCache,
    /// The ingress's emergency limiter.
    Emergency,
    /// Nobody: the limit fails open.
    Open,
    /// Nobody: the limit fails closed.
    Closed,
    /// The policy alone: the check lacks an attribute, or nothing limits it.
    Policy,
}

impl Source {
    /// The word that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Owner => "owner",
            Source::Forwarded => "forwarded",
            Source::DenialCache => "denial_cache",
            Source::Emergency => "emergency",
            Source::Open => "open",
            Source::Closed => "closed",
            Source::Policy => "policy",
        }
    }

    /// Whether the limit was answered without its owner.
    pub const fn is_degraded(self) -> bool {
        matches!(self, Source::Emergency | Source::Open | Source::Closed)
    }
}

/// What one limit said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegAnswer {
    /// The limit, by its identity; [`Checked::policies`] know its name.
    pub limit: LimitId,
    /// Which of its numbers it went by: those of a plan or of an override, or its own.
    pub variant: Variant,
    /// Whether it admits the check.
    pub allowed: bool,
    /// Whether its refusal refuses the check; a shadow limit's does not.
    pub enforced: bool,
    /// Why.
    pub reason: Reason,
    /// Who answered.
    pub source: Source,
    /// The numbers; `None` when nobody counted.
    pub numbers: Option<LegDecision>,
    /// The node that decided, if one did.
    pub owner: Option<NodeId>,
    /// The epoch it decided under.
    pub epoch: Option<Epoch>,
}

/// The decision of a whole check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The check's id, the caller's or a made one.
    pub id: CheckId,
    /// What was asked for.
    pub wanted: Wanted,
    /// Whether the caller may go ahead; where an earlier charge is spoken of, whether it was found.
    pub allowed: bool,
    /// What it came to. Up to: units granted. Acquire and reserve: nanoseconds that what is held lasts, 0 when nothing is.
    /// Refund and settle: units that came back under the limit where the most did.
    /// Renew: nanoseconds that the lease lasts. Release and reset: limits that had anything to give back or to forget. Else 0.
    pub units: u64,
    /// Why.
    pub reason: Reason,
    /// What was charged: the check's cost; a rule may multiply it per limit.
    pub cost: u64,
    /// The leg that refused, or the tightest: an index into `legs`.
    pub named: Option<usize>,
    /// What each limit said, in the order of the rule.
    pub legs: SmallVec<[LegAnswer; 2]>,
    /// The policy revision it was decided under.
    pub revision: u64,
    /// Whether this is the recorded answer of an earlier attempt.
    pub replayed: bool,
    /// Whether a limit that came with the check was passed, since it is new, could not be defined in time, and fails open.
    pub passed: bool,
}

impl Decision {
    /// Whether any limit was answered without its owner.
    pub fn is_degraded(&self) -> bool {
        self.passed || self.legs.iter().any(|leg| leg.source.is_degraded())
    }

    /// The leg that speaks for the decision.
    pub fn named_leg(&self) -> Option<&LegAnswer> {
        self.named.and_then(|index| self.legs.get(index))
    }
}

/// The decisions of a batch, in order.
#[derive(Debug)]
pub struct Checked {
    /// Names of limits and domains, header dialects, as the batch was matched.
    pub policies: Arc<Policies>,
    /// One result for each question.
    pub decisions: Vec<Concluded>,
}

/// A decision, and the policies it was made under where those are not the batch's: a newer revision bound meanwhile.
pub type Concluded = (Result<Decision, NotPut>, Option<Arc<Policies>>);

impl Checked {
    /// What came of the question at `index`, with the policies that know its names.
    ///
    /// # Panics
    ///
    /// If there was no such question.
    pub fn decision(&self, index: usize) -> (Result<&Decision, &NotPut>, &Policies) {
        let (decision, rematched) = &self.decisions[index];
        (decision.as_ref(), rematched.as_ref().unwrap_or(&self.policies))
    }
}
