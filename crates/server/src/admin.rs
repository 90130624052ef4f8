//! The admin API: policies, the cluster, its map, health and metrics. Any node answers for the cluster. Without tokens it
//! answers on loopback only; the binary refuses any other bind.

use std::collections::HashMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use control::{Expected, Refusal};
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use node::NotProposed;
use node::admin::{AppliedPolicy, ClusterStatus, MapRun, NotApplied, Revision};
use policy::PolicyError;
use serde_json::{Value, json};

use crate::check::{Front, ReadBody, json_response, read_body, rejected};
use crate::code::{Code, Rejection};
use crate::metrics;
use crate::time::rfc3339_of_millis;

/// The largest policy document that is read, in bytes; control refuses it too.
pub const DOCUMENT_BYTES_MAX: usize = control::DOCUMENT_MAX;

const JSON: &str = "application/json";

/// `GET /v1/policies/{domain}`
pub async fn policy(State(front): State<Front>, Path(domain): Path<String>) -> Response {
    match front.node.policy(&domain) {
        Some(revision) => {
            let mut response = json_response(StatusCode::OK, JSON, &policy_body(&domain, &revision));
            let tag = HeaderValue::try_from(format!("\"{}\"", revision.revision)).expect("digits in quotes");
            response.headers_mut().insert(ETAG, tag);
            response
        }
        None => rejected(&unknown_domain(&domain)),
    }
}

/// `PUT /v1/policies/{domain}`
pub async fn put_policy(
    State(front): State<Front>,
    Path(domain): Path<String>,
    query: Result<Query<HashMap<String, String>>, QueryRejection>,
    headers: HeaderMap,
    body: ReadBody,
) -> Response {
    match apply(&front, &domain, query, &headers, body).await {
        Ok(applied) => json_response(StatusCode::OK, JSON, &applied_body(&domain, &applied)),
        Err(Failure::Rejected(rejection)) => rejected(&rejection),
        Err(Failure::Invalid(errors)) => invalid_policy(&errors),
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

async fn apply(
    front: &Front,
    domain: &str,
    query: Result<Query<HashMap<String, String>>, QueryRejection>,
    headers: &HeaderMap,
    body: ReadBody,
) -> Result<AppliedPolicy, Failure> {
    let Query(query) = query.map_err(|error| Rejection::of_field(Code::OutOfRange, "query", error.body_text()))?;
    for name in query.keys() {
        if name != "reason" && name != "author" {
            return Err(Rejection::of_field(Code::UnknownField, name.as_str(), "expected reason or author").into());
        }
    }
    let expected = expected_of(headers)?;
    let body = read_body(body)?;
    let text = std::str::from_utf8(&body)
        .map_err(|error| Rejection::new(Code::MalformedBody, format!("the document is not UTF-8: {error}")))?;
    let word = |name: &str| query.get(name).map_or("", String::as_str);
    let applied = front.node.apply_policy(domain, text, expected, word("author"), word("reason")).await;
    applied.map_err(|error| failure_of(error, domain))
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
    json_response(code.status(), "application/problem+json", &body)
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

/// `GET /v1/policies/{domain}/history`
pub async fn history(State(front): State<Front>, Path(domain): Path<String>) -> Response {
    let revisions = front.node.policy_history(&domain);
    if revisions.is_empty() {
        return rejected(&unknown_domain(&domain));
    }
    let revisions: Vec<_> = revisions.iter().map(|revision| policy_body(&domain, revision)).collect();
    json_response(StatusCode::OK, JSON, &json!({ "domain": domain, "revisions": revisions }))
}

/// `GET /v1/cluster`
pub async fn cluster(State(front): State<Front>) -> Response {
    json_response(StatusCode::OK, JSON, &cluster_body(&front.node.cluster_status()))
}

/// `GET /v1/cluster/map`
pub async fn map(State(front): State<Front>) -> Response {
    let (version, runs) = front.node.map_runs();
    let runs: Vec<_> = runs.iter().map(run_body).collect();
    json_response(StatusCode::OK, JSON, &json!({ "version": version, "runs": runs }))
}

/// `GET /livez`: the process answers.
pub async fn livez() -> &'static str {
    "live\n"
}

/// `GET /readyz`: the node can answer checks.
pub async fn readyz(State(front): State<Front>) -> Response {
    match front.node.unready() {
        None => json_response(StatusCode::OK, JSON, &json!({ "ready": true })),
        Some(why) => json_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "application/problem+json",
            &json!({ "type": "about:blank", "title": "Not ready", "status": 503, "detail": why, "ready": false }),
        ),
    }
}

/// `GET /metrics`
pub async fn metrics(State(front): State<Front>) -> Response {
    let mut response = Response::new(metrics::render(&front).into());
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn unknown_domain(domain: &str) -> Rejection {
    let shown: String = domain.chars().take(policy::name::NAME_MAX).collect();
    Rejection::of_field(Code::UnknownDomain, "domain", format!("no policy for domain `{shown}`"))
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

fn applied_body(domain: &str, applied: &AppliedPolicy) -> Value {
    let changes: Vec<_> =
        applied.changes.iter().map(|(limit, change)| json!({ "limit": limit, "change": change.as_str() })).collect();
    json!({ "domain": domain, "revision": applied.revision, "changes": changes })
}

fn cluster_body(status: &ClusterStatus) -> Value {
    let nodes: Vec<_> = status
        .nodes
        .iter()
        .map(|node| {
            json!({
                "name": node.name, "id": format!("{:016x}", node.id), "state": node.state, "role": node.role,
                "session": node.session, "partitions": node.partitions,
                "api": node.api, "peer": node.peer, "admin": node.admin,
            })
        })
        .collect();
    json!({
        "name": status.name, "uuid": status.uuid, "this_node": status.this_node,
        "leader": status.leader, "term": status.term, "applied": status.applied,
        "map_version": status.map_version, "n_max": status.n_max,
        "partitions": { "owned": status.owned, "vacant": status.vacant },
        "durability": "volatile", "redis": Value::Null,
        "nodes": nodes,
    })
}

fn run_body(run: &MapRun) -> Value {
    json!({ "first": run.first, "last": run.last, "epoch": run.epoch.0, "owner": run.owner })
}
