//! Channels to peers: lazy, authenticated, and made anew by themselves when they break.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use ring::NodeId;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint, Uri};

use super::counters::Counters;
use super::credentials::Credentials;
use super::error::{DialError, HandshakeError};
use super::handshake;
use super::stream::PeerStream;
use super::{PING_EVERY, PING_TIMEOUT};
use crate::net::TcpStream;
use crate::refusals::Refusals;

/// How long a connection may take to be made: name and TCP together, and the handshake, each at most this long.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An attempt that took longer was not gone on with in between: TCP and handshake, and some slack.
const ATTEMPT_MAX: Duration = CONNECT_TIMEOUT.saturating_mul(2).saturating_add(Duration::from_millis(100));

/// So often an attempt is made anew at most.
const ANEW_MAX: usize = 3;

/// Makes connections to peers with this node's credentials. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialler {
    credentials: Arc<Credentials>,
    counters: Arc<Counters>,
    refusals: Option<Arc<Refusals>>,
}

impl Dialler {
    /// A dialler that shows `credentials`.
    pub fn new(credentials: Arc<Credentials>) -> Dialler {
        Dialler { credentials, counters: Arc::default(), refusals: None }
    }

    /// The same dialler, which tells whom it does not come to talk to.
    pub(crate) fn telling(self, refusals: Arc<Refusals>) -> Dialler {
        Dialler { refusals: Some(refusals), ..self }
    }

    /// The totals of this dialler and its clones.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// A channel to `host:port`. Nothing is dialled, and no name resolved, before the first call; and again before the next
    /// call whenever the connection broke. With `meant`, only that node is talked to: an address may have been given to
    /// another since. A call that fails because no connection could be made says why through [`DialError::behind`].
    ///
    /// A silent peer is given up after [`PING_EVERY`] and [`PING_TIMEOUT`]. Calls want deadlines of their own.
    pub fn channel(&self, address: &str, meant: Option<NodeId>) -> Channel {
        let dialler = self.clone();
        let address: Arc<str> = address.into();
        let connector = tower::service_fn(move |_: Uri| {
            let (dialler, address) = (dialler.clone(), address.clone());
            async move { dialler.dial_anew(&address, meant).await.map(TokioIo::new) }
        });
        // The name in it is never resolved: the connector knows where to go.
        Endpoint::from_static("http://ringfence-peer")
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .connect_with_connector_lazy(connector)
    }

    /// A channel goes on with an attempt only while a call waits for it. When the call gives up, the attempt lies there, and
    /// it is what the next call finds, however much later. What it then came to says nothing about the peer any more.
    async fn dial_anew(&self, address: &str, meant: Option<NodeId>) -> Result<PeerStream, DialError> {
        for _ in 0..ANEW_MAX {
            let begun = Instant::now();
            let outcome = self.dial(address, meant).await;
            if outcome.is_ok() || begun.elapsed() <= ATTEMPT_MAX {
                return outcome;
            }
        }
        self.dial(address, meant).await
    }

    /// One authenticated connection to `host:port`.
    ///
    /// # Errors
    ///
    /// [`DialError`]: nobody there, or one of the two refused.
    pub async fn dial(&self, address: &str, meant: Option<NodeId>) -> Result<PeerStream, DialError> {
        let outcome = self.try_dial(address, meant).await;
        match &outcome {
            Ok(_) => self.counters.count_made(),
            Err(error) => self.counters.count_failed(error.reason()),
        }
        if let Some(refusals) = &self.refusals {
            refusals.handle_dialled(address, outcome.as_ref().map(|_| ()));
        }
        outcome
    }

    async fn try_dial(&self, address: &str, meant: Option<NodeId>) -> Result<PeerStream, DialError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
        let stream = connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        stream.set_nodelay(true)?;
        let handshake = handshake::call(stream, self.credentials.held(), meant);
        let outcome = tokio::time::timeout(CONNECT_TIMEOUT, handshake).await;
        Ok(outcome.unwrap_or(Err(HandshakeError::Timeout))?)
    }
}
