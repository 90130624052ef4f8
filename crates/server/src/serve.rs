//! Listening: the API port opens only when the node can answer, the admin port at once.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{get, post, put};
use http::{Method, Uri};
use node::Node;
use tokio::net::TcpListener;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use wire::v1::rate_limiter_server::RateLimiterServer;

use crate::access::Access;
use crate::admin::{cluster, health, policies, top};
use crate::call::Call;
use crate::check::{self, rejected};
use crate::closing::Closing;
use crate::code::{Code, Rejection};
use crate::door::{Door, receive};
use crate::forward_auth::{Proxies, forward_auth};
use crate::front::Front;
use crate::grpc::Grpc;
use crate::meter::Meter;

/// The largest request body of the API, in bytes: a full batch of checks with full attributes is smaller than this.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Connections of callers at a time, at most.
pub const API_CONNECTIONS_MAX: usize = 16_384;

/// Connections of operators at a time, at most.
pub const ADMIN_CONNECTIONS_MAX: usize = 256;

/// The doors of one node.
#[derive(Debug)]
pub struct Sockets {
    /// For callers.
    pub api: Door,
    /// For operators.
    pub admin: Door,
}

/// What the doors are told.
#[derive(Debug)]
pub struct Settings {
    /// Who may ask what.
    pub access: Access,
    /// Whether `/metrics` answers without a token.
    pub open_metrics: bool,
    /// Who is believed when it says for whom it asks.
    pub proxies: Proxies,
}

/// Serves both ports until the process ends. The API listens once the node has applied a state with genesis and policies;
/// until then its callers are refused, and try another node. When this future is dropped, every connection ends.
///
/// # Errors
///
/// What the operating system says of a door that was to open, with the door's address: the configuration's doing, or that
/// of another process which took the port meanwhile. The node goes on; whoever called decides what becomes of it.
pub async fn serve(node: Arc<Node>, sockets: Sockets, settings: Settings) -> io::Result<()> {
    serve_until(node, sockets, settings, std::future::pending()).await
}

/// Serves as [`serve`] does, until `close` resolves: then nobody new is let in, what is in flight is answered, and this
/// returns when every connection has ended, after [`CLOSING_WITHIN`](crate::CLOSING_WITHIN) at the latest.
///
/// # Errors
///
/// Those of [`serve`].
pub async fn serve_until(
    node: Arc<Node>,
    sockets: Sockets,
    settings: Settings,
    close: impl Future<Output = ()>,
) -> io::Result<()> {
    let (closer, closing) = Closing::later();
    let close = async {
        close.await;
        closer.send_replace(true);
        Ok(())
    };
    let Settings { access, open_metrics, proxies } = settings;
    let front = Front {
        node: Arc::clone(&node),
        meter: Arc::new(Meter::default()),
        access: Arc::new(access),
        open_metrics,
        proxies: Arc::new(proxies),
    };
    let admin = async {
        let listener = opened(sockets.admin, "admin")?;
        receive(listener, admin_router(front.clone()), "admin", ADMIN_CONNECTIONS_MAX, closing.clone()).await;
        Ok::<_, io::Error>(())
    };
    let api = async {
        let mut begun = closing.clone();
        tokio::select! {
            () = node.ready() => {}
            () = begun.begun() => return Ok(()),
        }
        let listener = opened(sockets.api, "api")?;
        let (router, health) = api_router(front.clone());
        let received = receive(listener, router, "api", API_CONNECTIONS_MAX, closing.clone());
        tokio::select! { () = received => Ok(()), never = report_health(&node, &health) => match never {} }
    };
    tokio::try_join!(admin, api, close).map(|_| ())
}

fn opened(door: Door, what: &str) -> io::Result<TcpListener> {
    let address = door.local_addr()?;
    door.open().map_err(|error| io::Error::new(error.kind(), format!("the {what} port {address}: {error}")))
}

/// Tells gRPC's health service whether the node answers checks: it does not while it leaves.
async fn report_health(node: &Node, health: &HealthReporter) -> Infallible {
    let mut changes = node.changes();
    let mut told = None;
    loop {
        changes.mark_unchanged();
        let status = match node.unready() {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        };
        if told != Some(status) {
            told = Some(status);
            health.set_service_status("", status).await;
            health.set_service_status(<RateLimiterServer<Grpc> as NamedService>::NAME, status).await;
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn api_router(front: Front) -> (Router, HealthReporter) {
    let calls =
        Call::ALL.into_iter().fold(Router::new(), |router, call| router.route(&call.path(), check::route(call)));
    let json = calls
        .route("/v1/check/batch", post(check::batch))
        .route("/v1/forward-auth", get(forward_auth))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .method_not_allowed_fallback(not_found)
        .fallback(not_found)
        .with_state(front.clone());
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(wire::PUBLIC_DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("our own descriptors are whole");
    let grpc =
        tonic::service::Routes::new(RateLimiterServer::new(Grpc { front }).max_decoding_message_size(BODY_BYTES_MAX))
            .add_service(health)
            .add_service(reflection)
            .prepare()
            .into_axum_router();
    // tonic's router answers unknown paths as an unimplemented call; ours must answer callers of JSON.
    (json.merge(grpc.reset_fallback()), reporter)
}

fn admin_router(front: Front) -> Router {
    Router::new()
        .route("/v1/policies/{domain}", get(policies::policy))
        .route(
            "/v1/policies/{domain}",
            put(policies::put_policy).layer(DefaultBodyLimit::max(policies::DOCUMENT_BYTES_MAX)),
        )
        .route("/v1/policies/{domain}/history", get(policies::history))
        .route("/v1/cluster", get(cluster::cluster))
        .route("/v1/cluster/lease", put(cluster::put_lease))
        .route("/v1/cluster/trust-store", put(cluster::put_trust))
        .route("/v1/cluster/map", get(cluster::map))
        .route("/v1/cluster/events", get(cluster::events))
        .route("/v1/keys/top", get(top::top))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .method_not_allowed_fallback(not_found)
        .fallback(not_found)
        .with_state(front)
}

async fn not_found(method: Method, uri: Uri) -> Response {
    let path: String = uri.path().chars().take(128).collect();
    rejected(&Rejection::new(Code::NotFound, format!("there is no {method} {path}")))
}

#[cfg(test)]
mod tests;
