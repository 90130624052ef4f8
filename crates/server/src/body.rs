//! From a decision to what callers read: the JSON body, the problem document of a refusal, and the header fields. One
//! parser reads every answer, since a problem document carries all fields of the decision.

use http::{HeaderMap, StatusCode};
use limits::{Span, Wait, WallTime};
use node::{Decision, LegAnswer, Node, Policies, Reason};
use policy::Domain;
use serde::Serialize;

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

/// A decision beside everything that is needed to tell it.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The decision.
    pub decision: &'a Decision,
    /// The names it is told with.
    pub policies: &'a Policies,
    /// The policy it was made under.
    pub domain: &'a Domain,
    /// The caller's own id, if it gave one.
    pub own_id: Option<&'a str>,
    /// Knows the names of nodes.
    pub node: &'a Node,
}

impl<'a> Told<'a> {
    /// The decision with its names; `None` when the policies do not have the domain, in which case there is no decision either.
    pub fn new(
        decision: &'a Decision,
        policies: &'a Policies,
        domain: &str,
        own_id: Option<&'a str>,
        node: &'a Node,
    ) -> Option<Told<'a>> {
        Some(Told { decision, policies, domain: policies.catalogue.domain(domain)?, own_id, node })
    }

    /// The status that goes with the decision.
    pub fn status(&self) -> StatusCode {
        if self.decision.allowed {
            return StatusCode::OK;
        }
        match self.decision.reason {
            Reason::Ok | Reason::NoLimit | Reason::Limit | Reason::MissingAttribute | Reason::Never => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Reason::Unavailable | Reason::Recovering => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The JSON body of the decision.
    pub fn body(&self) -> DecisionBody<'a> {
        let decision = self.decision;
        let limits: Vec<_> = decision.legs.iter().map(|leg| self.limit_body(leg)).collect();
        let named = decision.named.and_then(|index| limits.get(index)).cloned();
        DecisionBody {
            allowed: decision.allowed,
            id: self.id(),
            domain: self.domain.name(),
            cost: decision.cost,
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

    /// The problem document of a refusal.
    pub fn problem(&self) -> Problem<'a, RefusedExtension<'a>> {
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
        let extension = RefusedExtension { violated_policies, decision: body };
        Problem { kind, title, status: self.status().as_u16(), detail, extension }
    }

    /// Writes the header fields that the policy asks for.
    pub fn write_headers(&self, wall: Option<WallTime>, headers: &mut HeaderMap) {
        let enforced: Vec<_> = self.decision.legs.iter().filter(|leg| leg.enforced).collect();
        let limits: Vec<_> = enforced.iter().map(|leg| self.limit_fields(leg)).collect();
        let named =
            self.decision.named_leg().and_then(|named| enforced.iter().position(|leg| leg.limit == named.limit));
        let retry_after = if self.decision.allowed { None } else { self.wait() };
        RateFields { limits: &limits, named, retry_after, wall }.write(self.domain.headers(), headers);
    }

    /// How long a refused caller should wait: until the last of the limits that refuse would admit it. `None` when waiting
    /// does not help, because one of them never will, or because the check lacks something.
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
        match self.own_id {
            Some(own) => own.to_owned(),
            None => format!("{:032x}", self.decision.id.0),
        }
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
        let (quota, window) = self.policies.limit(leg.limit).map_or((None, None), |known| advertised(&known.shape));
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
