//! `POST /v1/check` and `POST /v1/check/batch`: JSON in, a decision out, with the status, body and header fields that
//! belong to it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Request, State};
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use node::{AskedId, Checked, Node, NotPut, Question};
use serde::Serialize;

use crate::access::{Access, Caller, Scope};
use crate::body::{DecisionBody, Told, rejection_problem};
use crate::code::{Code, Rejection};
use crate::json::{AskedCheck, batch_from_body, check_from_body};
use crate::meter::{Api, Meter};

/// How long a body may take to arrive after its head. A full batch is a few megabytes.
pub const BODY_WITHIN: Duration = Duration::from_secs(10);

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

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct Front {
    /// The node that decides.
    pub node: Arc<Node>,
    /// Counts calls and measures them.
    pub meter: Arc<Meter>,
    /// Who may ask what.
    pub access: Arc<Access>,
    /// Whether `/metrics` answers without a token.
    pub open_metrics: bool,
}

impl Front {
    /// Lets a caller of the API in who may ask for checks; what domains it may use is asked per check.
    fn admit(&self, request: &Request) -> Result<Caller<'_>, Rejection> {
        self.access.at_api(request.headers(), request.extensions().get().copied(), Scope::Check)
    }
}

/// Answers `POST /v1/check`.
pub async fn check(State(front): State<Front>, request: Request) -> Response {
    let timer = front.meter.start(Api::HttpCheck);
    let response = answer_check(&front, request).await.unwrap_or_else(|rejection| rejected(&rejection));
    timer.stop(response.status().as_u16());
    response
}

/// Answers `POST /v1/check/batch`.
pub async fn batch(State(front): State<Front>, request: Request) -> Response {
    let timer = front.meter.start(Api::HttpBatch);
    let response = answer_batch(&front, request).await.unwrap_or_else(|rejection| rejected(&rejection));
    timer.stop(response.status().as_u16());
    response
}

async fn answer_check(front: &Front, request: Request) -> Result<Response, Rejection> {
    // Who may not ask is told so before its body is read.
    let caller = front.admit(&request)?;
    require_json(request.headers())?;
    let asked = check_from_body(&read_body(request).await?)?;
    let node = &*front.node;
    let question = question_of(&asked, caller, "", node)?;
    let checked = node.check(&[question]).await;
    let (decision, policies) = checked.decision(0);
    let decision = decision.map_err(|not_put| not_put_rejection(not_put, &asked, ""))?;
    let told = Told::new(decision, policies, &asked.domain, asked.id.as_deref(), node)
        .ok_or_else(|| not_put_rejection(&NotPut::UnknownDomain, &asked, ""))?;
    Ok(told_response(&told, node))
}

fn told_response(told: &Told<'_>, node: &Node) -> Response {
    let status = told.status();
    let mut response = match status {
        StatusCode::OK => json_response(status, "application/json", &told.body()),
        _ => json_response(status, "application/problem+json", &told.problem()),
    };
    // A stored answer would be a stale one (RFC 9111): rate fields speak of this moment only.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    told.write_headers(node.cluster_time(), response.headers_mut());
    response
}

#[derive(Serialize)]
struct BatchBody<'a> {
    decisions: Vec<ItemBody<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemBody<'a> {
    Decision(Box<DecisionBody<'a>>),
    Error { error: ErrorBody },
}

#[derive(Serialize)]
struct ErrorBody {
    code: &'static str,
    field: String,
    detail: String,
}

async fn answer_batch(front: &Front, request: Request) -> Result<Response, Rejection> {
    let caller = front.admit(&request)?;
    require_json(request.headers())?;
    let items = batch_from_body(&read_body(request).await?)?;
    let node = &*front.node;
    let mut questions = Vec::with_capacity(items.len());
    // For each item: its place among the questions, or why it is none.
    let mut places = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let question =
            item.as_ref().map_err(Clone::clone).and_then(|asked| question_of(asked, caller, &place(index), node));
        places.push(question.map(|question| {
            questions.push(question);
            questions.len() - 1
        }));
    }
    let checked = node.check(&questions).await;
    let decisions = places.into_iter().enumerate().zip(&items).map(|((index, place), item)| match (place, item) {
        (Ok(at), Ok(asked)) => item_body(&checked, at, asked, index, node),
        (Err(rejection), _) => error_body(&rejection),
        (Ok(_), Err(rejection)) => error_body(rejection),
    });
    Ok(json_response(StatusCode::OK, "application/json", &BatchBody { decisions: decisions.collect() }))
}

fn item_body<'a>(checked: &'a Checked, at: usize, asked: &'a AskedCheck, index: usize, node: &'a Node) -> ItemBody<'a> {
    let (decision, policies) = checked.decision(at);
    match decision {
        Ok(decision) => match Told::new(decision, policies, &asked.domain, asked.id.as_deref(), node) {
            Some(told) => ItemBody::Decision(Box::new(told.body())),
            None => error_body(&not_put_rejection(&NotPut::UnknownDomain, asked, &place(index))),
        },
        Err(not_put) => error_body(&not_put_rejection(not_put, asked, &place(index))),
    }
}

fn error_body<'a>(rejection: &Rejection) -> ItemBody<'a> {
    let Rejection { code, field, detail } = rejection.clone();
    ItemBody::Error { error: ErrorBody { code: code.as_str(), field, detail } }
}

fn place(index: usize) -> String {
    format!("checks[{index}].")
}

fn question_of<'a>(
    asked: &'a AskedCheck,
    caller: Caller<'a>,
    place: &str,
    node: &Node,
) -> Result<Question<'a>, Rejection> {
    caller.may_use(&asked.domain, &format!("{place}domain"))?;
    Ok(Question {
        domain: &asked.domain,
        attributes: asked.attributes(place)?,
        cost: asked.cost,
        id: match &asked.id {
            Some(text) => AskedId::Text { text, caller: caller.name() },
            None => AskedId::Made,
        },
        budget: node.budget(asked.deadline),
    })
}

/// How a question that could not be put is told.
pub fn not_put_rejection(not_put: &NotPut, asked: &AskedCheck, place: &str) -> Rejection {
    let (code, field) = match not_put {
        NotPut::UnknownDomain => (Code::UnknownDomain, "domain"),
        NotPut::CostTooLarge => (Code::OutOfRange, "cost"),
        NotPut::IdReused => (Code::IdReused, "id"),
    };
    let detail = match not_put {
        NotPut::UnknownDomain => format!("no policy for domain `{}`", cut(&asked.domain)),
        NotPut::CostTooLarge | NotPut::IdReused => not_put.to_string(),
    };
    Rejection::of_field(code, format!("{place}{field}"), detail)
}

fn cut(text: &str) -> String {
    text.chars().take(policy::name::NAME_MAX).collect()
}

fn require_json(headers: &HeaderMap) -> Result<(), Rejection> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = format!("expected content-type application/json, found `{}`", cut(kind));
    Err(Rejection::of_field(Code::UnsupportedMediaType, "content-type", detail))
}

/// A request that could not be served, as a response.
pub fn rejected(rejection: &Rejection) -> Response {
    let mut response =
        json_response(rejection.code.status(), "application/problem+json", &rejection_problem(rejection));
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
