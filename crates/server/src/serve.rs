//! Listening: the API port opens only when the node can answer, the admin port at once.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{get, post, put};
use http::{Method, Uri};
use node::Node;
use wire::v1::rate_limiter_server::RateLimiterServer;

use crate::admin;
use crate::check::{self, Front, rejected};
use crate::code::{Code, Rejection};
use crate::grpc::Grpc;
use crate::meter::Meter;

/// The largest request body of the API, in bytes: a full batch of checks with full attributes is smaller than this.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bound sockets of one node's front doors.
#[derive(Debug)]
pub struct Sockets {
    /// For callers.
    pub api: TcpListener,
    /// For operators.
    pub admin: TcpListener,
}

/// Serves both ports until the process ends. Callers are not answered before the node has applied a state with genesis and
/// policies: until then their connections wait in the socket's backlog.
///
/// # Errors
///
/// What the operating system says of a socket.
pub async fn serve(node: Arc<Node>, sockets: Sockets) -> std::io::Result<()> {
    let front = Front { node: Arc::clone(&node), meter: Arc::new(Meter::default()) };
    let admin = listener_of(sockets.admin)?;
    let api = listener_of(sockets.api)?;
    let admin = axum::serve(admin, admin_router(front.clone()));
    let api = async {
        node.ready().await;
        axum::serve(api, api_router(front).await).await
    };
    tokio::try_join!(async { admin.await }, api).map(|_| ())
}

fn listener_of(socket: TcpListener) -> std::io::Result<NoDelay> {
    socket.set_nonblocking(true)?;
    Ok(NoDelay(tokio::net::TcpListener::from_std(socket)?))
}

/// Answers leave at once: a decision is smaller than a segment, and must not wait for a delayed acknowledgement.
struct NoDelay(tokio::net::TcpListener);

impl axum::serve::Listener for NoDelay {
    type Io = tokio::net::TcpStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
        // A connection that is gone already is noticed when it is read.
        let _ = stream.set_nodelay(true);
        (stream, address)
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

async fn api_router(front: Front) -> Router {
    let json = Router::new()
        .route("/v1/check", post(check::check))
        .route("/v1/check/batch", post(check::batch))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .method_not_allowed_fallback(not_found)
        .fallback(not_found)
        .with_state(front.clone());
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<RateLimiterServer<Grpc>>().await;
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
    json.merge(grpc.reset_fallback())
}

fn admin_router(front: Front) -> Router {
    Router::new()
        .route("/v1/policies/{domain}", get(admin::policy))
        .route("/v1/policies/{domain}", put(admin::put_policy).layer(DefaultBodyLimit::max(admin::DOCUMENT_BYTES_MAX)))
        .route("/v1/policies/{domain}/history", get(admin::history))
        .route("/v1/cluster", get(admin::cluster))
        .route("/v1/cluster/map", get(admin::map))
        .route("/livez", get(admin::livez))
        .route("/readyz", get(admin::readyz))
        .route("/metrics", get(admin::metrics))
        .method_not_allowed_fallback(not_found)
        .fallback(not_found)
        .with_state(front)
}

async fn not_found(method: Method, uri: Uri) -> Response {
    let path: String = uri.path().chars().take(128).collect();
    rejected(&Rejection::new(Code::NotFound, format!("there is no {method} {path}")))
}
