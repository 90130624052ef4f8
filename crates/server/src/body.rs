//! From a decision to what callers read: the JSON body, the problem document of a refusal, and the header fields. One
//! parser reads every answer, since a problem document carries all fields of the decision. What a call came to that
//! decides nothing (a refund, a reset) is told in the same shape, with words of its own in front.

use http::{HeaderMap, StatusCode};
use limits::{Span, Wait, WallTime};
use node::{Decision, LegAnswer, Node, Policies, Reason, Wanted};
use policy::Domain;
use serde::Serialize;

use crate::asked::Asked;
use crate::call::Call;
use crate::code::Rejection;
use crate::headers::{LimitFields, RateFields, advertised};

/// Problem types that the IANA registry is to hold.
const IANA: &str = "https://iana.org/assignments/http-problem-types#";

/// Problem types of our own.
const OURS: &str = "urn:ringfence:problem:";

/// A decision as the API spells it.
#[derive(Clone, Debug, Serialize)]
pub struct DecisionBody<'a> {
    /// Whether the caller may go ahead.
    pub allowed: bool,
    /// The check's id.
    pub id: String,
    /// The policy's name space.
    pub domain: &'a str,
    /// The check's cost.
    pub cost: u64,
    /// Units granted, of a check that takes what there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<u64>,
    /// How long a reserve stays open or a lease is held, in milliseconds, rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<u64>,
    /// The limit that speaks for the decision.
    pub limit: Option<&'a str>,
    /// Units left under it.
    pub remaining: Option<u64>,
    /// When the same cost would be admitted, in milliseconds, rounded up.
    pub retry_after_ms: Option<u64>,
    /// When it is as new, in milliseconds, rounded up.
    pub reset_after_ms: Option<u64>,
    /// Why.
    pub reason: &'static str,
    /// Who answered.
    pub source: &'static str,
    /// Whether any limit was answered without its owner.
    pub degraded: bool,
    /// The node that decided, by name.
    pub owner: Option<String>,
    /// The epoch it decided under.
    pub epoch: Option<u64>,
    /// The policy revision.
    pub revision: u64,
    /// Whether this is the recorded answer to an id that was asked before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// What each limit said.
    pub limits: Vec<LimitBody<'a>>,
}

/// What one limit said, as the API spells it.
#[derive(Clone, Debug, Serialize)]
pub struct LimitBody<'a> {
    /// Its name.
    pub limit: &'a str,
    /// Whether it admits the check.
    pub allowed: bool,
    /// Burst, or the window's amount.
    pub capacity: Option<u64>,
    /// Units left.
    pub remaining: Option<u64>,
    /// When the same cost would be admitted, in milliseconds, rounded up.
    pub retry_after_ms: Option<u64>,
    /// When it is as new, in milliseconds, rounded up.
    pub reset_after_ms: Option<u64>,
    /// Why.
    pub reason: &'static str,
    /// Who answered.
    pub source: &'static str,
    /// The node that decided, by name.
    pub owner: Option<String>,
    /// The epoch it decided under.
    pub epoch: Option<u64>,
    /// `enforce` or `shadow`.
    pub mode: &'static str,
}

/// What came of a call that decides nothing, as the API spells it.
#[derive(Clone, Debug, Serialize)]
pub struct CameToBody<'a> {
    /// The name of the charge that it speaks of; none of a reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    /// The policy's name space.
    pub domain: &'a str,
    /// What came of it.
    #[serde(flatten)]
    pub came_to: CameTo,
    /// `ok`, or `unavailable` where an owner could not be asked in time: the call may be repeated as it is.
    pub reason: &'static str,
    /// The policy revision.
    pub revision: u64,
    /// Whether this is the recorded answer to the same call a moment ago; nothing was done twice.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// How each limit stands now.
    pub limits: Vec<LimitBody<'a>>,
}

/// The words of each call that decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CameTo {
    /// Of a refund.
    Refund {
        /// Whether there was such a charge.
        found: bool,
        /// The units of it that came back: those that still stood.
        refunded: u64,
    },
    /// Of a settlement.
    Settle {
        /// Whether the reserve is closed now.
        settled: bool,
        /// The units of it that came back.
        refunded: u64,
    },
    /// Of a renewal.
    Renew {
        /// Whether the lease is held.
        renewed: bool,
        /// How long from now, in milliseconds, rounded down.
        expires_after_ms: u64,
    },
    /// Of a release.
    Release {
        /// Whether there was a lease.
        released: bool,
    },
    /// Of a reset.
    Reset {
        /// How many limits had anything to forget.
        reset: u64,
    },
}

/// An answer as the API spells it.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum AnswerBody<'a> {
    /// Of a call that decides.
    Decision(Box<DecisionBody<'a>>),
    /// Of one that does not.
    CameTo(CameToBody<'a>),
}

/// A refusal or a rejection as `application/problem+json` (RFC 9457); extension members follow.
#[derive(Clone, Debug, Serialize)]
pub struct Problem<'a, Extension> {
    /// What kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind, for people.
    pub title: &'a str,
    /// The HTTP status again.
    pub status: u16,
    /// This case, for people.
    pub detail: String,
    /// Everything else.
    #[serde(flatten)]
    pub extension: Extension,
}

/// The extension members of a refused check.
#[derive(Clone, Debug, Serialize)]
pub struct RefusedExtension<'a> {
    /// The limits that refused.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<&'a str>,
    /// The decision itself.
    #[serde(flatten)]
    pub decision: DecisionBody<'a>,
}

/// The extension members of a request that could not be served.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedExtension<'a> {
    /// The stable word.
    pub code: &'static str,
    /// The field at fault.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field: &'a str,
}

/// The members of a problem document beside its own.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum UnmetExtension<'a> {
    /// Of a check that was refused.
    Refused(Box<RefusedExtension<'a>>),
    /// Of a call whose owner could not be asked.
    Unanswered(CameToBody<'a>),
}

/// A decision beside everything that is needed to tell it.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The decision.
    pub decision: &'a Decision,
    /// The names it is told with.
    pub policies: &'a Policies,
    /// The policy it was made under.
    pub domain: &'a Domain,
    /// What was asked.
    pub asked: &'a Asked,
    /// Knows the names of nodes.
    pub node: &'a Node,
}

/// Whether nobody could say in time.
pub const fn is_unanswered(reason: Reason) -> bool {
    match reason {
        Reason::Ok | Reason::NoLimit | Reason::Limit | Reason::MissingAttribute | Reason::Never => false,
        Reason::Unavailable | Reason::Recovering => true,
    }
}

impl<'a> Told<'a> {
    /// The decision with its names; `None` when the policies do not have the domain, in which case there is no decision
    /// either.
    pub fn new(decision: &'a Decision, policies: &'a Policies, asked: &'a Asked, node: &'a Node) -> Option<Told<'a>> {
        Some(Told { decision, policies, domain: policies.catalogue.domain(&asked.domain)?, asked, node })
    }

    /// The status that goes with the answer.
    pub fn status(&self) -> StatusCode {
        let unanswered = is_unanswered(self.decision.reason);
        match self.asked.call {
            // Whoever looks was told, whatever there is to see.
            Call::Peek => StatusCode::OK,
            Call::Check | Call::Reserve | Call::Acquire if self.decision.allowed => StatusCode::OK,
            Call::Check | Call::Reserve | Call::Acquire if unanswered => StatusCode::SERVICE_UNAVAILABLE,
            Call::Check | Call::Reserve | Call::Acquire => StatusCode::TOO_MANY_REQUESTS,
            Call::Settle | Call::Renew | Call::Release | Call::Refund | Call::Reset if unanswered => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Call::Settle | Call::Renew | Call::Release | Call::Refund | Call::Reset => StatusCode::OK,
        }
    }

    /// The JSON body of the answer.
    pub fn answer(&self) -> AnswerBody<'a> {
        match self.came_to() {
            Some(body) => AnswerBody::CameTo(body),
            None => AnswerBody::Decision(Box::new(self.body())),
        }
    }

    /// What came of a call that decides nothing; `None` of one that does.
    pub fn came_to(&self) -> Option<CameToBody<'a>> {
        let Decision { allowed, units, .. } = *self.decision;
        let came_to = match self.asked.wanted {
            Wanted::Spend | Wanted::Peek | Wanted::UpTo | Wanted::Acquire { .. } | Wanted::Reserve { .. } => {
                return None;
            }
            Wanted::Refund => CameTo::Refund { found: allowed, refunded: units },
            Wanted::Settle { .. } => CameTo::Settle { settled: allowed, refunded: units },
            Wanted::Renew { .. } => CameTo::Renew { renewed: allowed, expires_after_ms: millis_floor(units) },
            Wanted::Release => CameTo::Release { released: allowed },
            Wanted::Reset => CameTo::Reset { reset: units },
        };
        Some(CameToBody {
            id: self.asked.id.as_deref(),
            domain: self.domain.name(),
            came_to,
            reason: self.decision.reason.as_str(),
            revision: self.decision.revision,
            replayed: self.decision.replayed,
            limits: self.limits(),
        })
    }

    /// The JSON body of the decision.
    pub fn body(&self) -> DecisionBody<'a> {
        let decision = self.decision;
        let granted = (self.asked.wanted == Wanted::UpTo).then_some(decision.units);
        let limits = self.limits();
        let named = decision.named.and_then(|index| limits.get(index)).cloned();
        DecisionBody {
            allowed: decision.allowed,
            id: self.id(),
            domain: self.domain.name(),
            cost: if granted.is_some() { self.asked.cost } else { decision.cost },
            granted,
            expires_after_ms: self.expires_after_ms(),
            limit: named.as_ref().map(|leg| leg.limit),
            remaining: named.as_ref().and_then(|leg| leg.remaining),
            retry_after_ms: if decision.allowed { None } else { self.wait().map(Span::as_millis_ceil) },
            reset_after_ms: named.as_ref().and_then(|leg| leg.reset_after_ms),
            reason: decision.reason.as_str(),
            source: named.as_ref().map_or("policy", |leg| leg.source),
            degraded: decision.is_degraded(),
            owner: named.as_ref().and_then(|leg| leg.owner.clone()),
            epoch: named.as_ref().and_then(|leg| leg.epoch),
            revision: decision.revision,
            replayed: decision.replayed,
            limits,
        }
    }

    /// The problem document of an answer whose status is not 200.
    pub fn problem(&self) -> Problem<'a, UnmetExtension<'a>> {
        match self.came_to() {
            Some(body) => self.unanswered(body),
            None => self.refused(),
        }
    }

    fn unanswered(&self, body: CameToBody<'a>) -> Problem<'a, UnmetExtension<'a>> {
        Problem {
            kind: format!("{IANA}temporary-reduced-capacity"),
            title: "The key's owner cannot be asked now",
            status: self.status().as_u16(),
            detail: format!(
                "no owner could answer in time; repeat the same {} later, which does nothing twice",
                self.asked.call.word()
            ),
            extension: UnmetExtension::Unanswered(body),
        }
    }

    fn refused(&self) -> Problem<'a, UnmetExtension<'a>> {
        let body = self.body();
        let violated_policies =
            body.limits.iter().filter(|leg| !leg.allowed && leg.mode == "enforce").map(|leg| leg.limit).collect();
        let limit = body.limit.unwrap_or("none");
        let (kind, title, detail) = match self.decision.reason {
            Reason::MissingAttribute => (
                format!("{OURS}missing-attribute"),
                "The check lacks an attribute that a limit counts by",
                format!("limit {limit} counts by an attribute that the check does not have"),
            ),
            Reason::Never => (
                format!("{OURS}cost-exceeds-limit"),
                "The cost can never fit under the limit",
                format!("cost {} is more than limit {limit} ever admits at once", body.cost),
            ),
            Reason::Unavailable => (
                format!("{IANA}temporary-reduced-capacity"),
                "The limit cannot be checked now, and fails closed",
                format!("no owner of limit {limit} could answer in time"),
            ),
            Reason::Recovering => (
                format!("{IANA}temporary-reduced-capacity"),
                "The limit's use is being recovered",
                format!("limit {limit} changed hands and waits until what may have been used has passed"),
            ),
            Reason::Ok | Reason::NoLimit | Reason::Limit => (
                format!("{IANA}quota-exceeded"),
                "The limit is used up",
                format!("limit {limit} refuses cost {}", body.cost),
            ),
        };
        let extension = UnmetExtension::Refused(Box::new(RefusedExtension { violated_policies, decision: body }));
        Problem { kind, title, status: self.status().as_u16(), detail, extension }
    }

    /// Writes the header fields that the policy asks for; of a call that decides nothing only when to repeat it.
    pub fn write_headers(&self, wall: Option<WallTime>, headers: &mut HeaderMap) {
        let refused = self.status() != StatusCode::OK;
        if !self.asked.call.decides() {
            let retry_after = refused.then(|| self.node.recovery_hint());
            return RateFields { limits: &[], named: None, retry_after, wall }.write(&[], headers);
        }
        let retry_after = if refused { self.wait() } else { None };
        let enforced: Vec<_> = self.decision.legs.iter().filter(|leg| leg.enforced).collect();
        let limits: Vec<_> = enforced.iter().map(|leg| self.limit_fields(leg)).collect();
        let named =
            self.decision.named_leg().and_then(|named| enforced.iter().position(|leg| leg.limit == named.limit));
        RateFields { limits: &limits, named, retry_after, wall }.write(self.domain.headers(), headers);
    }

    /// How long a refused caller should wait: until the last of the limits that refuse would admit it. `None` when
    /// waiting does not help, because one of them never will, or because the check lacks something.
    fn wait(&self) -> Option<Span> {
        let refusing = self.decision.legs.iter().filter(|leg| leg.enforced && !leg.allowed);
        longest(refusing.map(|leg| self.leg_wait(leg)))
    }

    fn leg_wait(&self, leg: &LegAnswer) -> Option<Span> {
        match leg.numbers.map(|numbers| numbers.wait) {
            Some(Wait::After(span)) => Some(span),
            Some(Wait::Now) => Some(Span::ZERO),
            Some(Wait::Never) => None,
            None if leg.reason == Reason::MissingAttribute => None,
            None => Some(self.node.recovery_hint()),
        }
    }

    fn id(&self) -> String {
        match &self.asked.id {
            Some(own) => own.clone(),
            None => format!("{:032x}", self.decision.id.0),
        }
    }

    fn expires_after_ms(&self) -> Option<u64> {
        let holds = matches!(self.asked.wanted, Wanted::Acquire { .. } | Wanted::Reserve { .. });
        (holds && self.decision.allowed && self.decision.units > 0).then(|| millis_floor(self.decision.units))
    }

    fn limits(&self) -> Vec<LimitBody<'a>> {
        self.decision.legs.iter().map(|leg| self.limit_body(leg)).collect()
    }

    fn limit_name(&self, leg: &LegAnswer) -> &'a str {
        self.policies.limit(leg.limit).map_or("unknown", |known| &known.name)
    }

    fn limit_body(&self, leg: &LegAnswer) -> LimitBody<'a> {
        let numbers = leg.numbers;
        LimitBody {
            limit: self.limit_name(leg),
            allowed: leg.allowed,
            capacity: numbers.map(|numbers| numbers.capacity).filter(|capacity| *capacity != u64::MAX),
            remaining: numbers.map(|numbers| numbers.remaining).filter(|remaining| *remaining != u64::MAX),
            retry_after_ms: numbers.and_then(|numbers| match numbers.wait {
                Wait::After(span) => Some(span.as_millis_ceil()),
                Wait::Now | Wait::Never => None,
            }),
            reset_after_ms: numbers.map(|numbers| numbers.reset_after.as_millis_ceil()),
            reason: leg.reason.as_str(),
            source: leg.source.as_str(),
            owner: leg.owner.and_then(|owner| self.node.name_of(owner)),
            epoch: leg.epoch.map(|epoch| epoch.0),
            mode: if leg.enforced { "enforce" } else { "shadow" },
        }
    }

    fn limit_fields(&self, leg: &LegAnswer) -> LimitFields<'a> {
        let (quota, window) = self.policies.shape(leg.limit, leg.variant).map_or((None, None), advertised);
        LimitFields {
            name: self.limit_name(leg),
            quota,
            window,
            remaining: leg.numbers.map(|numbers| numbers.remaining),
            next_unit_after: leg.numbers.and_then(|numbers| numbers.next_unit_after),
            reset_after: leg.numbers.map(|numbers| numbers.reset_after),
        }
    }
}

/// Rounded down, so that whoever relies on it is never late.
const fn millis_floor(nanos: u64) -> u64 {
    nanos / 1_000_000
}

/// The longest of these waits, if each of them ends; none is no wait.
fn longest(waits: impl Iterator<Item = Option<Span>>) -> Option<Span> {
    let waits: Option<Vec<_>> = waits.collect();
    waits?.into_iter().max().filter(|longest| *longest > Span::ZERO)
}

/// The problem document of a request that could not be served.
pub fn rejection_problem(rejection: &Rejection) -> Problem<'_, RejectedExtension<'_>> {
    let code = rejection.code.as_str();
    Problem {
        kind: format!("{OURS}{code}"),
        title: rejection.code.status().canonical_reason().unwrap_or("error"),
        status: rejection.code.status().as_u16(),
        detail: rejection.detail.clone(),
        extension: RejectedExtension { code, field: &rejection.field },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_caller_waits_for_the_last_of_the_limits_that_refuse() {
        let (short, long) = (Span::from_secs(22), Span::from_millis(7_200_300));
        assert_eq!(longest([Some(short), Some(long)].into_iter()), Some(long));
        assert_eq!(longest([Some(long), Some(short)].into_iter()), Some(long));
        assert_eq!(longest([Some(short), None].into_iter()), None, "one that never admits makes waiting useless");
        assert_eq!(longest([Some(Span::ZERO)].into_iter()), None);
        assert_eq!(longest([].into_iter()), None);
    }
}
