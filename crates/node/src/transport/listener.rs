//! The door for peers. Handshakes run beside each other and beside the accept loop, so nobody who dawdles keeps another out;
//! when there are too many, the oldest makes room, since an honest one is over in milliseconds.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet};

use super::counters::Counters;
use super::credentials::Credentials;
use super::error::{HandshakeError, Reason};
use super::handshake;
use super::stream::{PeerStream, Until};
use crate::clock;
use crate::net::{TcpListener, TcpStream};
use crate::quiet::Quiet;
use crate::refusals::Refusals;

/// How long a caller may take over its handshake. Then it is hung up on.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many handshakes run at once. One more, and the oldest is hung up on.
pub const HANDSHAKES_MAX: usize = 64;

/// How many connections may wait for the server to take them. One more is hung up on.
pub const READY_MAX: usize = 64;

/// How long the loop rests when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The stream of authenticated connections, for `tonic`'s `serve_with_incoming`. It yields no errors and ends only with its
/// task. Dropping it closes the door; connections that were made stay, until [`Connections::hang_up`].
#[derive(Debug)]
pub struct Incoming {
    ready: mpsc::Receiver<PeerStream>,
    connections: Connections,
    task: JoinHandle<()>,
}

impl Incoming {
    /// The connections that come in here, to end them all.
    pub fn connections(&self) -> Connections {
        self.connections.clone()
    }
}

impl Stream for Incoming {
    type Item = io::Result<PeerStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(cx).map(|stream| stream.map(Ok))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Everyone who came in by one door. A server that is aborted leaves its connections behind, each served by a task of its
/// own; whoever wants the node gone hangs up on them.
#[derive(Clone, Debug)]
pub struct Connections(watch::Sender<bool>);

impl Connections {
    /// Ends every connection that came in, and every one that still will, without a word.
    pub fn hang_up(&self) {
        self.0.send_replace(true);
    }

    fn until_hung_up(&self) -> Until {
        let mut hung_up = self.0.subscribe();
        Until::comes(async move {
            if hung_up.wait_for(|hung_up| *hung_up).await.is_err() {
                // Nobody is left who could.
                std::future::pending().await
            }
        })
    }
}

/// Starts to accept peers on `listener`, inside the current tokio runtime. Who fails is counted and, once in a while, logged
/// with address and reason.
pub fn listen(listener: TcpListener, credentials: Arc<Credentials>) -> (Incoming, Arc<Counters>) {
    listen_telling(listener, credentials, None)
}

/// The same, telling who is refused for a reason that stays.
pub(crate) fn listen_telling(
    listener: TcpListener,
    credentials: Arc<Credentials>,
    told: Option<Arc<Refusals>>,
) -> (Incoming, Arc<Counters>) {
    let counters = Arc::<Counters>::default();
    let (made, ready) = mpsc::channel(READY_MAX);
    let connections = Connections(watch::Sender::new(false));
    let door = Door {
        listener,
        credentials,
        counters: counters.clone(),
        made,
        connections: connections.clone(),
        handshakes: JoinSet::new(),
        order: VecDeque::new(),
        refusals: Quiet::new(),
        told,
    };
    let task = tokio::spawn(door.run());
    (Incoming { ready, connections, task }, counters)
}

type Outcome = (SocketAddr, Result<PeerStream, HandshakeError>);

struct Door {
    listener: TcpListener,
    credentials: Arc<Credentials>,
    counters: Arc<Counters>,
    made: mpsc::Sender<PeerStream>,
    connections: Connections,
    handshakes: JoinSet<Outcome>,
    /// Those that run, oldest first.
    order: VecDeque<(AbortHandle, SocketAddr)>,
    refusals: Quiet<Reason>,
    told: Option<Arc<Refusals>>,
}

impl Door {
    async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                Some(outcome) = self.handshakes.join_next() => self.conclude(outcome),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => self.begin(stream, address),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept peers at the moment");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, address: SocketAddr) {
        self.order.retain(|(handshake, _)| !handshake.is_finished());
        if self.order.len() >= HANDSHAKES_MAX
            && let Some((oldest, address)) = self.order.pop_front()
        {
            oldest.abort();
            self.refuse(address, Reason::Crowded, &"crowded: too many handshakes at once");
        }
        let handshake = shake(stream, address, self.credentials.clone());
        self.order.push_back((self.handshakes.spawn(handshake), address));
    }

    fn conclude(&mut self, outcome: Result<Outcome, JoinError>) {
        match outcome {
            Ok((address, Ok(stream))) => self.hand_over(stream, address),
            Ok((address, Err(error))) => {
                if let Some(told) = &self.told {
                    // The port that a caller calls from is new each time.
                    told.handle_refused(&address.ip().to_string(), &error);
                }
                self.refuse(address, error.reason(), &error);
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn hand_over(&mut self, stream: PeerStream, address: SocketAddr) {
        let stream = PeerStream { until: self.connections.until_hung_up(), ..stream };
        match self.made.try_send(stream) {
            Ok(()) => self.counters.count_made(),
            Err(_) => self.refuse(address, Reason::Crowded, &"crowded: nobody takes the connections that are made"),
        }
    }

    fn refuse(&mut self, address: SocketAddr, reason: Reason, error: &dyn std::fmt::Display) {
        self.counters.count_failed(reason);
        if self.refusals.lets(reason, clock::now()) {
            // What stays until somebody acts is told as an event, once for each peer.
            tracing::debug!(%address, reason = reason.as_str(), %error, "a peer connection was refused");
        }
    }
}

async fn shake(stream: TcpStream, address: SocketAddr, credentials: Arc<Credentials>) -> Outcome {
    let handshake = async {
        stream.set_nodelay(true)?;
        handshake::answer(stream, credentials.held()).await
    };
    let outcome = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
    (address, outcome.unwrap_or(Err(HandshakeError::Timeout)))
}
