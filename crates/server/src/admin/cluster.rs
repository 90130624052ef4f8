//! The cluster over the admin API: its nodes and sessions, its map, and what happened to it.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use limits::Span;
use node::admin::{LeaseStatus, MapRun};
use node::{EVENTS_KEPT, Node, NotProposed, SeenEvent};
use ownership::kept::{Incarnation, NotAnIncarnation};
use serde_json::{Map, Value, json};

use super::{JSON, query_of};
use crate::access::Scope;
use crate::check::{json_response, read_body, rejected};
use crate::code::{Code, Rejection};
use crate::front::Front;
use crate::time::rfc3339_of_millis;

/// Events in one answer, unless the caller says how many.
pub const EVENTS_DEFAULT: usize = 100;

/// `GET /v1/cluster`
pub async fn cluster(State(front): State<Front>, request: Request) -> Response {
    let body = |front: &Front| Ok(cluster_body(&front.node));
    answer(&front, &request, &[], body)
}

/// `GET /v1/cluster/map`
pub async fn map(State(front): State<Front>, request: Request) -> Response {
    let body = |front: &Front| {
        let (version, runs) = front.node.map_runs();
        let runs: Vec<_> = runs.iter().map(run_body).collect();
        Ok(json!({ "version": version, "runs": runs }))
    };
    answer(&front, &request, &[], body)
}

/// `GET /v1/cluster/events?after=SEQ&limit=COUNT`: what this node saw after event number `after`, the oldest first.
pub async fn events(State(front): State<Front>, request: Request) -> Response {
    let body = |front: &Front| {
        let query = query_of(&request, &["after", "limit"])?;
        let number = |name: &str| query.get(name).map(|text| number_of(name, text)).transpose();
        let after = number("after")?.unwrap_or(0);
        let limit = number("limit")?.map_or(EVENTS_DEFAULT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(events_body(&seen_after(&front.node, after), limit.clamp(1, EVENTS_KEPT), after))
    };
    answer(&front, &request, &["after", "limit"], body)
}

/// `PUT /v1/cluster/lease`, `{"ttl_ms": 5000}`: how long leases last from now on.
pub async fn put_lease(State(front): State<Front>, request: Request) -> Response {
    match set_ttl(&front, request).await {
        Ok(body) => json_response(StatusCode::OK, JSON, &body),
        Err(rejection) => rejected(&rejection),
    }
}

/// What is asked for.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLease {
    ttl_ms: u64,
}

async fn set_ttl(front: &Front, request: Request) -> Result<Value, Rejection> {
    front.admit_operator(&request, Scope::Admin)?;
    query_of(&request, &[])?;
    let body = read_body(request).await?;
    let NewLease { ttl_ms } = serde_json::from_slice(&body).map_err(|error| {
        Rejection::new(Code::MalformedBody, format!("{error}; expected, for example, {{\"ttl_ms\": 5000}}"))
    })?;
    front.node.set_ttl(Span::from_millis(ttl_ms)).await.map_err(|error| match error {
        NotProposed::Refused(refusal) => {
            let most = control::TTL_MAX;
            Rejection::of_field(Code::OutOfRange, "ttl_ms", format!("{refusal}; at most {most}"))
        }
        NotProposed::TooLarge | NotProposed::NoLeader | NotProposed::Undecided(_) => {
            Rejection::new(Code::NoLeader, error.to_string())
        }
    })?;
    // As this node knows it: it may not have applied the entry yet.
    Ok(json!({ "lease": front.node.cluster_status().lease.map(lease_body), "ttl_ms": ttl_ms }))
}

/// `PUT /v1/cluster/trust-store`, `{"incarnation": "…"}`: the store has lost nothing on its way into this life.
pub async fn put_trust(State(front): State<Front>, request: Request) -> Response {
    match trust_store(&front, request).await {
        Ok(body) => json_response(StatusCode::OK, JSON, &body),
        Err(rejection) => rejected(&rejection),
    }
}

/// What is vouched for.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Trusted {
    incarnation: String,
}

async fn trust_store(front: &Front, request: Request) -> Result<Value, Rejection> {
    front.admit_operator(&request, Scope::Admin)?;
    query_of(&request, &[])?;
    let body = read_body(request).await?;
    let Trusted { incarnation } = serde_json::from_slice(&body).map_err(|error| {
        let expected = "expected {\"incarnation\": \"…\"}, as `ringfence cluster status` shows it";
        Rejection::new(Code::MalformedBody, format!("{error}; {expected}"))
    })?;
    let incarnation: Incarnation = incarnation
        .parse()
        .map_err(|error: NotAnIncarnation| Rejection::of_field(Code::OutOfRange, "incarnation", error.to_string()))?;
    front.node.trust_store(incarnation).await.map_err(|error| Rejection::new(Code::NoLeader, error.to_string()))?;
    Ok(json!({ "trusted": incarnation.to_string() }))
}

fn answer(
    front: &Front,
    request: &Request,
    parameters: &[&str],
    body: impl FnOnce(&Front) -> Result<Value, Rejection>,
) -> Response {
    let admitted = front.admit_operator(request, Scope::Read).and_then(|_| query_of(request, parameters));
    match admitted.and_then(|_| body(front)) {
        Ok(body) => json_response(StatusCode::OK, JSON, &body),
        Err(rejection) => rejected(&rejection),
    }
}

fn number_of(name: &str, text: &str) -> Result<u64, Rejection> {
    text.parse()
        .map_err(|_| Rejection::of_field(Code::OutOfRange, name, "expected a whole number, for example 0 for all"))
}

/// A reader who knows of more events than there were follows a process that is gone: it is given those of this one, from
/// the first.
fn seen_after(node: &Node, after: u64) -> Vec<SeenEvent> {
    let seen = node.events(after);
    if seen.is_empty() && node.events(after.saturating_sub(1)).is_empty() {
        return node.events(0);
    }
    seen
}

fn events_body(seen: &[SeenEvent], limit: usize, after: u64) -> Value {
    let told = &seen[..limit.min(seen.len())];
    let next = told.last().map_or(after, |last| last.seq);
    json!({ "events": told.iter().map(event_body).collect::<Vec<_>>(), "next": next })
}

fn event_body(seen: &SeenEvent) -> Value {
    let mut body = Map::new();
    body.insert("seq".to_owned(), seen.seq.into());
    body.insert("at".to_owned(), rfc3339_of_millis(seen.at.as_unix_nanos() / 1_000_000).into());
    body.insert("event".to_owned(), seen.event.word().into());
    body.extend(seen.event.fields().into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))));
    Value::Object(body)
}

fn cluster_body(node: &Node) -> Value {
    let status = node.cluster_status();
    let (clocks, source) = (node.clocks(), node.clock_source());
    let nodes: Vec<_> = status
        .nodes
        .iter()
        .map(|node| {
            json!({
                "name": node.name, "id": format!("{:016x}", node.id), "state": node.state, "role": node.role,
                "session": node.session, "partitions": node.partitions,
                "durable": node.durable.map(|store| store.to_string()),
                "api": node.api, "peer": node.peer, "admin": node.admin,
            })
        })
        .collect();
    json!({
        "name": status.name, "uuid": status.uuid, "this_node": status.this_node,
        "leader": status.leader, "term": status.term, "applied": status.applied,
        "map_version": status.map_version, "n_max": status.n_max, "lenders": status.lenders,
        "lease": status.lease.map(lease_body),
        "voters": { "count": status.voters, "changing": status.voters_changing },
        "partitions": { "owned": status.owned, "vacant": status.vacant },
        "durability": if is_durable(node) { "durable" } else { "volatile" },
        "redis": store_body(node), "trusted": status.trusted.map(|store| store.to_string()),
        "unready": node.unready(), "draining": node.is_leaving(),
        "clock": {
            "boot_ns": clocks.boot.as_nanos(), "wall_unix_ms": clocks.wall.as_unix_nanos() / 1_000_000,
            "source": source.name, "trust": source.trust.as_str(),
        },
        "nodes": nodes,
    })
}

/// Whether what this node keeps counts, so that its crash is no worst case.
fn is_durable(node: &Node) -> bool {
    node.store().is_some_and(|store| store.durable.is_some())
}

/// What this node knows of its store; null where it was given none.
fn store_body(node: &Node) -> Value {
    let (Some(store), Some(totals)) = (node.store(), node.store_totals()) else { return Value::Null };
    let counted = |counts: &[(&'static str, u64)]| -> Map<String, Value> {
        counts.iter().map(|(word, count)| ((*word).to_owned(), Value::from(*count))).collect()
    };
    let ages = node.store_ages();
    let millis = |age: Option<Span>| age.map(|age| age.as_nanos() / 1_000_000);
    // Nothing else is ever up: a replica is refused.
    let role = store.up.map(|_| "primary");
    json!({
        "up": store.up.is_some(), "role": role, "incarnation": store.up.map(|store| store.to_string()), "version": store.version,
        "warnings": store.warnings, "down": store.down, "durable_in": store.durable.map(|store| store.to_string()),
        "obeyed": store.bound, "claims": counted(&totals.claims), "put_off": counted(&totals.put_off),
        "fenced_writes": totals.fenced,
        "snapshot_age_ms": millis(ages.snapshot), "unwritten_ms": millis(ages.unwritten),
    })
}

fn lease_body(lease: LeaseStatus) -> Value {
    let millis = |span: Span| span.as_nanos() / 1_000_000;
    json!({
        "ttl_ms": millis(lease.ttl), "waited_ms": millis(lease.waited), "renew_ms": millis(lease.renew),
        "d_max_ms": millis(lease.d_max), "rho_per_mille": lease.rho_per_mille,
    })
}

fn run_body(run: &MapRun) -> Value {
    json!({ "first": run.first, "last": run.last, "epoch": run.epoch.0, "owner": run.owner })
}
