//! `GET /v1/forward-auth`: a gateway asks whether a visitor may pass, in the manner of nginx's `auth_request`, Traefik's
//! ForwardAuth and Caddy's `forward_auth`. Such gateways know statuses and header fields only, and hand an answer that is
//! not 2xx on to the visitor; so the body of a denial says what concerns a visitor and nothing of the cluster.
//!
//! nginx lets nothing through but 2xx, 401 and 403 and makes a 500 of all else. With `deny=403` every denial is a 403, and
//! 403 is nothing but a denial: a gateway whose token is not good here is then answered with 500, which nobody takes for
//! one.

mod proxies;
mod visit;

use axum::extract::{Request, State};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::asked::Asked;
use crate::body::{Problem, RefusedExtension, Told, UnmetExtension, rejection_problem};
use crate::call::Call;
use crate::check::{json_response, rejected};
use crate::code::Rejection;
use crate::door::Peer;
use crate::front::{Front, put};
use crate::meter::Api;

pub use proxies::{NETWORKS_MAX, Network, NotANetwork, Proxies};
pub use visit::Wish;

/// What a visitor is told of a denial beside its status.
#[derive(Serialize)]
struct DeniedExtension<'a> {
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<&'a str>,
    allowed: bool,
    limit: Option<&'a str>,
    reason: &'static str,
    retry_after_ms: Option<u64>,
}

impl<'a> DeniedExtension<'a> {
    fn of(RefusedExtension { violated_policies, decision }: &RefusedExtension<'a>) -> DeniedExtension<'a> {
        DeniedExtension {
            violated_policies: violated_policies.clone(),
            allowed: decision.allowed,
            limit: decision.limit,
            reason: decision.reason,
            retry_after_ms: decision.retry_after_ms,
        }
    }
}

/// Answers `GET /v1/forward-auth`.
pub async fn forward_auth(State(front): State<Front>, request: Request) -> Response {
    let timer = front.meter.start(Api::ForwardAuth);
    let (asking, _) = request.into_parts();
    let response = match Wish::of(&asking.uri) {
        Ok(wish) => {
            let deny = wish.deny;
            let answered = answer(&front, wish, &asking).await;
            answered.unwrap_or_else(|rejection| not_asked(&rejection, deny))
        }
        Err(rejection) => rejected(&rejection),
    };
    timer.stop(response.status().as_u16());
    response
}

async fn answer(front: &Front, wish: Wish, asking: &Parts) -> Result<Response, Rejection> {
    let peer: Option<Peer> = asking.extensions.get().copied();
    let caller = front.access.at_api(&asking.headers, peer, Call::Check.scope())?;
    let deny = wish.deny;
    let said = wish.said(&asking.headers, peer.map(|Peer(address)| address.ip()), &front.proxies)?;
    let asked = [Asked::of(Call::Check, said, "")];
    let answered = put(front, caller, &asked, false).await;
    Ok(told_response(&answered.told(0)?, deny))
}

fn told_response(told: &Told<'_>, deny: Option<StatusCode>) -> Response {
    let mut response = match told.status() {
        StatusCode::OK => Response::default(),
        status => denied(told, deny.unwrap_or(status)),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    told.write_headers(told.node.cluster_time(), response.headers_mut());
    response
}

fn denied(told: &Told<'_>, status: StatusCode) -> Response {
    let Problem { kind, title, detail, extension, .. } = told.problem();
    let extension = match extension {
        UnmetExtension::Refused(refused) => Some(DeniedExtension::of(&refused)),
        UnmetExtension::Unanswered(_) => None,
    };
    let problem = Problem { kind, title, status: status.as_u16(), detail, extension };
    json_response(status, "application/problem+json", &problem)
}

/// A question that could not be put. What the gateway would take for a denial is told in a way that it does not.
fn not_asked(rejection: &Rejection, deny: Option<StatusCode>) -> Response {
    let status = rejection.code.status();
    let mistaken = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
    if deny != Some(StatusCode::FORBIDDEN) || !mistaken {
        return rejected(rejection);
    }
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let problem = Problem { status: status.as_u16(), ..rejection_problem(rejection) };
    json_response(status, "application/problem+json", &problem)
}
