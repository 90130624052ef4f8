//! The calls about keys over HTTP, and `POST /v1/check/batch`: JSON in, an answer out, with the status, body and header
//! fields that belong to it.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

use crate::access::{Caller, Scope};
use crate::asked::shown;
use crate::body::{AnswerBody, Told, rejection_problem};
use crate::call::Call;
use crate::code::{Code, Rejection};
use crate::front::{Front, put};
use crate::json::{asked_from_body, batch_from_body};
use crate::meter::Api;

/// How long a body may take to arrive after its head. A full batch is a few megabytes.
pub const BODY_WITHIN: Duration = Duration::from_secs(10);

/// After how long a caller that found no leader may find one: an election takes about so long.
pub const LEADER_WITHIN: Duration = Duration::from_secs(1);

/// Reads the body, up to what the route allows.
///
/// # Errors
///
/// One that is too large, too slow, or broke off.
pub async fn read_body(request: Request) -> Result<Bytes, Rejection> {
    let Ok(read) = tokio::time::timeout(BODY_WITHIN, Bytes::from_request(request, &())).await else {
        let detail = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
        return Err(Rejection::new(Code::BodyTooSlow, detail));
    };
    read.map_err(|rejection| {
        let code =
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE { Code::BodyTooLarge } else { Code::MalformedBody };
        Rejection::new(code, rejection.body_text())
    })
}

/// Answers a call about keys: one handler for all of them, since they differ in what the table of calls says of them.
pub fn route(call: Call) -> MethodRouter<Front> {
    post(async move |State(front): State<Front>, request: Request| {
        let timer = front.meter.start(Api::Http(call));
        let response = answer(call, &front, request).await.unwrap_or_else(|rejection| rejected(&rejection));
        timer.stop(response.status().as_u16());
        response
    })
}

/// Answers `POST /v1/check/batch`.
pub async fn batch(State(front): State<Front>, request: Request) -> Response {
    let timer = front.meter.start(Api::HttpBatch);
    let response = answer_batch(&front, request).await.unwrap_or_else(|rejection| rejected(&rejection));
    timer.stop(response.status().as_u16());
    response
}

/// Lets a caller of the API in; what domains it may use is asked per call.
fn admit<'a>(front: &'a Front, request: &Request, scope: Scope) -> Result<Caller<'a>, Rejection> {
    front.access.at_api(request.headers(), request.extensions().get().copied(), scope)
}

async fn answer(call: Call, front: &Front, request: Request) -> Result<Response, Rejection> {
    // Who may not ask is told so before its body is read.
    let caller = admit(front, &request, call.scope())?;
    require_json(request.headers())?;
    let asked = asked_from_body(call, &read_body(request).await?)?.named(rand::random);
    let asked = [Ok(asked)];
    let answered = put(front, caller, &asked, false).await;
    Ok(told_response(&answered.told(0)?))
}

fn told_response(told: &Told<'_>) -> Response {
    let status = told.status();
    let mut response = match status {
        StatusCode::OK => json_response(status, "application/json", &told.answer()),
        _ => json_response(status, "application/problem+json", &told.problem()),
    };
    // A stored answer would be a stale one (RFC 9111): rate fields speak of this moment only.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    told.write_headers(told.node.cluster_time(), response.headers_mut());
    response
}

#[derive(Serialize)]
struct BatchBody<'a> {
    decisions: Vec<ItemBody<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemBody<'a> {
    Answer(AnswerBody<'a>),
    Error { error: ErrorBody },
}

#[derive(Serialize)]
struct ErrorBody {
    code: &'static str,
    field: String,
    detail: String,
}

async fn answer_batch(front: &Front, request: Request) -> Result<Response, Rejection> {
    let caller = admit(front, &request, Call::Check.scope())?;
    require_json(request.headers())?;
    let asked = batch_from_body(&read_body(request).await?)?;
    let answered = put(front, caller, &asked, true).await;
    let decisions = answered.all().map(|told| told.map_or_else(error_body, |told| ItemBody::Answer(told.answer())));
    Ok(json_response(StatusCode::OK, "application/json", &BatchBody { decisions: decisions.collect() }))
}

fn error_body<'a>(rejection: Rejection) -> ItemBody<'a> {
    let Rejection { code, field, detail } = rejection;
    ItemBody::Error { error: ErrorBody { code: code.as_str(), field, detail } }
}

fn require_json(headers: &HeaderMap) -> Result<(), Rejection> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = format!("expected content-type application/json, found `{}`", shown(kind));
    Err(Rejection::of_field(Code::UnsupportedMediaType, "content-type", detail))
}

/// A request that could not be served, as a response.
pub fn rejected(rejection: &Rejection) -> Response {
    let mut response =
        json_response(rejection.code.status(), "application/problem+json", &rejection_problem(rejection));
    if rejection.code == Code::NoLeader {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(LEADER_WITHIN.as_secs()));
    }
    if rejection.code == Code::Unauthorised {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// A JSON response.
pub fn json_response(status: StatusCode, content_type: &'static str, body: &impl Serialize) -> Response {
    let mut bytes = serde_json::to_vec(body).expect("bodies have text keys and no maps that could fail");
    // A line's end costs nothing and keeps a terminal's prompt where it belongs.
    bytes.push(b'\n');
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
