//! Peer connections: TCP on which both sides have proved that they know the cluster secret and belong to one cluster; after
//! that, HTTP/2 in clear text. The handshake tells friends from strangers. It does not hide or seal what follows, so the
//! peer network is taken to be private.

mod counters;
mod credentials;
mod dialler;
mod error;
mod handshake;
mod hello;
mod listener;
mod stream;

use std::time::Duration;

pub use counters::Counters;
pub use credentials::Credentials;
pub use dialler::{CONNECT_TIMEOUT, Dialler};
pub use error::{DialError, HandshakeError, Reason};
pub use hello::{SPOKEN, Versions};
pub(crate) use listener::listen_telling;
pub use listener::{Connections, HANDSHAKE_TIMEOUT, HANDSHAKES_MAX, Incoming, READY_MAX, listen};
pub use stream::{Peer, PeerStream};

/// How often both sides ask a connection whether the other is still there, idle ones too.
pub const PING_EVERY: Duration = Duration::from_secs(1);

/// How long the answer may take. Then the connection is closed, and its calls fail.
pub const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// A gRPC server that gives up silent peers. Add the services, then serve it with the [`Incoming`] of [`listen`].
pub fn server() -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
}
