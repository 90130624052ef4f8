//! What watches a node: whether its process lives, whether it can answer checks, and its metrics.

use axum::extract::{Request, State};
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use super::{JSON, PROBLEM};
use crate::access::Scope;
use crate::check::{json_response, rejected};
use crate::front::Front;
use crate::metrics;

/// `GET /livez`: the process answers. It needs no token.
pub async fn livez() -> &'static str {
    "live\n"
}

/// `GET /readyz`: the node can answer checks, and is not leaving. It needs no token.
pub async fn readyz(State(front): State<Front>) -> Response {
    match front.node.unready() {
        None => json_response(StatusCode::OK, JSON, &json!({ "ready": true })),
        Some(why) => json_response(
            StatusCode::SERVICE_UNAVAILABLE,
            PROBLEM,
            &json!({ "type": "about:blank", "title": "Not ready", "status": 503, "detail": why, "ready": false }),
        ),
    }
}

/// `GET /metrics`
pub async fn metrics(State(front): State<Front>, request: Request) -> Response {
    if !front.open_metrics
        && let Err(rejection) = front.admit_operator(&request, Scope::Read)
    {
        return rejected(&rejection);
    }
    let mut response = Response::new(metrics::render(&front).into());
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
