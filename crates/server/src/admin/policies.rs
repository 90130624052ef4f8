//! Policies over the admin API: the current document, its history, and putting a new one in force on all nodes at once.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use control::{Expected, Refusal};
use http::header::{ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use node::NotProposed;
use node::admin::{AppliedPolicy, NotApplied, Revision};
use policy::PolicyError;
use serde_json::{Value, json};

use super::{JSON, PROBLEM, query_of, unknown_domain};
use crate::access::Scope;
use crate::check::{json_response, read_body, rejected};
use crate::code::{Code, Rejection};
use crate::front::Front;
use crate::meter::PolicyOutcome;
use crate::time::rfc3339_of_millis;

/// The largest policy document that is read, in bytes; control refuses it too.
pub const DOCUMENT_BYTES_MAX: usize = control::DOCUMENT_MAX;

/// `GET /v1/policies/{domain}`
pub async fn policy(State(front): State<Front>, Path(domain): Path<String>, request: Request) -> Response {
    read_policy(&front, &domain, &request).unwrap_or_else(|rejection| rejected(&rejection))
}

fn read_policy(front: &Front, domain: &str, request: &Request) -> Result<Response, Rejection> {
    front.admit_operator(request, Scope::Read)?.may_use(domain, "domain")?;
    query_of(request, &[])?;
    let revision = front.node.policy(domain).ok_or_else(|| unknown_domain(domain))?;
    let mut response = json_response(StatusCode::OK, JSON, &policy_body(domain, &revision));
    let tag = HeaderValue::try_from(format!("\"{}\"", revision.revision)).expect("digits in quotes");
    response.headers_mut().insert(ETAG, tag);
    Ok(response)
}

/// `GET /v1/policies/{domain}/history`
pub async fn history(State(front): State<Front>, Path(domain): Path<String>, request: Request) -> Response {
    read_history(&front, &domain, &request).unwrap_or_else(|rejection| rejected(&rejection))
}

fn read_history(front: &Front, domain: &str, request: &Request) -> Result<Response, Rejection> {
    front.admit_operator(request, Scope::Read)?.may_use(domain, "domain")?;
    query_of(request, &[])?;
    let revisions = front.node.policy_history(domain);
    if revisions.is_empty() {
        return Err(unknown_domain(domain));
    }
    let revisions: Vec<_> = revisions.iter().map(|revision| policy_body(domain, revision)).collect();
    Ok(json_response(StatusCode::OK, JSON, &json!({ "domain": domain, "revisions": revisions })))
}

/// `PUT /v1/policies/{domain}`
pub async fn put_policy(State(front): State<Front>, Path(domain): Path<String>, request: Request) -> Response {
    match apply(&front, &domain, request).await {
        Ok((applied, binding)) => {
            front.meter.count_policy(PolicyOutcome::Applied);
            json_response(StatusCode::OK, JSON, &applied_body(&domain, &applied, binding))
        }
        Err(Failure::Rejected(rejection)) => {
            front.meter.count_policy(PolicyOutcome::of(rejection.code));
            rejected(&rejection)
        }
        Err(Failure::Invalid(errors)) => {
            front.meter.count_policy(PolicyOutcome::Invalid);
            invalid_policy(&errors)
        }
    }
}

enum Failure {
    Rejected(Rejection),
    Invalid(Vec<PolicyError>),
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Failure {
        Failure::Rejected(rejection)
    }
}

/// What was applied, and whether it binds everywhere, if that was waited for.
async fn apply(front: &Front, domain: &str, request: Request) -> Result<(AppliedPolicy, Option<bool>), Failure> {
    let caller = front.admit_operator(&request, Scope::Admin)?;
    caller.may_use(domain, "domain")?;
    let query = query_of(&request, &["reason", "author", "wait"])?;
    let waits = match query.get("wait").map(String::as_str) {
        None => false,
        Some("binding") => true,
        Some(_) => return Err(Rejection::of_field(Code::OutOfRange, "wait", "expected binding, or nothing").into()),
    };
    let expected = expected_of(request.headers())?;
    let body = read_body(request).await?;
    let text = std::str::from_utf8(&body)
        .map_err(|error| Rejection::new(Code::MalformedBody, format!("the document is not UTF-8: {error}")))?;
    // Whoever does not say who it is goes by the name of its token.
    let author = query.get("author").map_or(caller.name(), String::as_str);
    let reason = query.get("reason").map_or("", String::as_str);
    let applied = front.node.apply_policy(domain, text, expected, author, reason).await;
    let applied = applied.map_err(|error| failure_of(error, domain))?;
    let binding = if waits { Some(front.node.until_binding(domain, applied.revision).await) } else { None };
    Ok((applied, binding))
}

/// `If-Match` names the revision that the document is meant to follow: a number, quoted or not, or `*` for whatever it is.
/// It is required, so that nobody overwrites what he has not seen without saying so.
fn expected_of(headers: &HeaderMap) -> Result<Expected, Rejection> {
    let reject = |code: Code, detail: &str| Err(Rejection::of_field(code, "if-match", detail));
    let Some(value) = headers.get(IF_MATCH) else {
        return reject(Code::MissingField, "expected the revision that this document follows (0: none yet), or *");
    };
    match value.to_str().map(|text| text.trim().trim_matches('"')) {
        Ok("*") => Ok(Expected::Any),
        Ok(text) => match text.parse() {
            Ok(revision) => Ok(Expected::Revision(revision)),
            Err(_) => reject(Code::OutOfRange, "expected a revision number or *"),
        },
        Err(_) => reject(Code::OutOfRange, "expected a revision number or *"),
    }
}

fn failure_of(error: NotApplied, domain: &str) -> Failure {
    match error {
        NotApplied::Invalid(errors) => Failure::Invalid(errors),
        NotApplied::OtherDomain { .. } => Rejection::of_field(Code::OutOfRange, "domain", error.to_string()).into(),
        NotApplied::NotProposed(NotProposed::Refused(Refusal::RevisionConflict { current })) => {
            let detail = format!("domain {domain} is at revision {current}");
            Rejection::of_field(Code::RevisionConflict, "if-match", detail).into()
        }
        NotApplied::NotProposed(NotProposed::Refused(refusal)) => {
            Rejection::new(Code::PolicyInvalid, refusal.to_string()).into()
        }
        NotApplied::NotProposed(NotProposed::TooLarge) => {
            Rejection::new(Code::BodyTooLarge, "the document is too large for the log").into()
        }
        NotApplied::NotProposed(error @ (NotProposed::NoLeader | NotProposed::Undecided(_))) => {
            Rejection::new(Code::NoLeader, error.to_string()).into()
        }
    }
}

fn invalid_policy(errors: &[PolicyError]) -> Response {
    let code = Code::PolicyInvalid;
    let errors: Vec<_> = errors.iter().map(error_body).collect();
    let body = json!({
        "type": "urn:ringfence:problem:policy-invalid",
        "title": "The policy document is wrong",
        "status": code.status().as_u16(),
        "detail": format!("{} findings; nothing changed", errors.len()),
        "code": code.as_str(),
        "errors": errors,
    });
    json_response(code.status(), PROBLEM, &body)
}

fn error_body(error: &PolicyError) -> Value {
    json!({
        "line": error.line,
        "column": error.column,
        "code": error.code.as_str(),
        "message": error.message,
        "expected": error.expected,
        "suggestion": error.suggestion,
    })
}

fn policy_body(domain: &str, revision: &Revision) -> Value {
    json!({
        "domain": domain,
        "revision": revision.revision,
        "document": revision.document,
        "author": revision.author,
        "reason": revision.reason,
        "applied_at": rfc3339_of_millis(revision.at_unix_ms),
    })
}

fn applied_body(domain: &str, applied: &AppliedPolicy, binding: Option<bool>) -> Value {
    let changes: Vec<_> =
        applied.changes.iter().map(|(limit, change)| json!({ "limit": limit, "change": change.as_str() })).collect();
    let mut body = json!({ "domain": domain, "revision": applied.revision, "changes": changes });
    if let Some(binding) = binding {
        body["binding"] = binding.into();
    }
    body
}
