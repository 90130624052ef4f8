//! A front door: a port that is taken when the program starts and opens when there is somebody to answer. Between the two
//! a caller is refused at once, so that it tries another node and does not wait in a queue that nobody reads. What comes
//! in is bounded by names: connections, streams, and the time in which a caller must have said what it wants.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tower::Layer as _;

use crate::closing::{CLOSING_WITHIN, Closing};
use crate::opening::Opening;

/// Connections that wait to be accepted, at most; the system refuses more.
pub const BACKLOG: u32 = 1_024;

/// How long a connection over HTTP/1 may take to send the head of its next request, idle time between two included. Long
/// enough for the pools of gateways, which usually give up after 60 seconds; a caller that says nothing is let go.
pub const HEAD_WITHIN: Duration = Duration::from_secs(75);

/// The largest head of a request over HTTP/1, in bytes; a larger one is answered with 431.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Calls in progress on one connection over HTTP/2, at most; more wait at the caller.
pub const STREAMS_MAX: u32 = 1_000;

/// Calls on one connection over HTTP/2 that were given up before anybody here took them up, at most; beyond it the
/// connection is closed, since a caller that only opens and resets is an attack. Behind a gateway a connection is shared
/// by callers with short patience, so this is as many as may be in progress, and not the twenty of the library.
pub const GIVEN_UP_MAX: usize = STREAMS_MAX as usize;

/// How often a silent connection over HTTP/2 is asked whether anybody is there.
pub const PING_EVERY: Duration = Duration::from_secs(30);

/// How long the answer to that may take; then the connection is closed.
pub const PONG_WITHIN: Duration = Duration::from_secs(20);

/// How long the door rests when the system cannot give it another connection (no file descriptors left).
const REST: Duration = Duration::from_secs(1);

/// A port that is taken, and not yet open.
#[derive(Debug)]
pub struct Door {
    socket: TcpSocket,
}

/// Where a caller sits: the other end of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Door {
    /// Takes a port without listening on it; with port 0 the system chooses one.
    ///
    /// # Errors
    ///
    /// What the system says, above all that the port is taken. Nothing is held then.
    pub fn bind(address: SocketAddr) -> io::Result<Door> {
        // Two sockets that both ask for reuse may both bind a port on which nobody listens yet. So the port is first
        // asked for without it, and with it only if that fails, which it does where connections of an earlier process
        // linger.
        let door = Door { socket: Door::socket(address)? };
        if door.socket.bind(address).is_ok() {
            return Ok(door);
        }
        let door = Door { socket: Door::socket(address)? };
        door.socket.set_reuseaddr(true)?;
        door.socket.bind(address)?;
        Ok(door)
    }

    fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
        if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
    }

    /// The address that was taken.
    ///
    /// # Errors
    ///
    /// What the system says; none is known for a bound socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Listens from now on.
    pub(crate) fn open(self) -> io::Result<TcpListener> {
        // Reuse is what lets the next process have the port while old connections linger.
        self.socket.set_reuseaddr(true)?;
        self.socket.listen(BACKLOG)
    }
}

/// Answers whoever comes, `connections_max` connections at a time; more wait in the system's queue. Returns when the doors
/// have closed. Every connection ends when this future is dropped.
pub(crate) async fn receive(
    listener: TcpListener,
    router: Router,
    what: &'static str,
    connections_max: usize,
    mut closing: Closing,
) {
    let builder = builder();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.begun() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < connections_max => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(attend(builder.clone(), stream, peer, router.clone(), closing.clone()));
                    if connections.len() == connections_max {
                        tracing::warn!(door = what, connections_max, "no further connection is accepted until one ends");
                    }
                }
                Err(error) if concerns_one_caller(&error) => {}
                Err(error) => {
                    tracing::warn!(door = what, %error, "no connection can be accepted now");
                    tokio::time::sleep(REST).await;
                }
            },
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(CLOSING_WITHIN, ended).await.is_err() {
        tracing::info!(door = what, connections = connections.len(), "these callers did not let go and are cut off");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(GIVEN_UP_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

async fn attend(
    builder: Builder<TokioExecutor>,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut closing: Closing,
) {
    // Answers leave at once: a decision is smaller than a segment, and must not wait for a delayed acknowledgement. A
    // connection that is gone already is noticed when it is read.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(Extension(Peer(peer)).layer(router));
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(Opening::of(stream)), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.begun() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, error, "a connection ended early");
    }
}

/// Whether the error is of the connection that was to be accepted, and says nothing of the next one.
fn concerns_one_caller(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    [ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted].contains(&error.kind())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as Caller;

    use axum::routing::get;

    use super::*;

    const ANY: &str = "127.0.0.1:0";

    #[tokio::test]
    async fn a_door_that_is_not_open_refuses_at_once() {
        let door = Door::bind(ANY.parse().unwrap()).unwrap();
        let address = door.local_addr().unwrap();
        assert_eq!(Caller::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let _listener = door.open().unwrap();
        Caller::connect(address).unwrap();
    }

    #[test]
    fn a_port_that_is_taken_is_known_before_it_opens() {
        let door = Door::bind(ANY.parse().unwrap()).unwrap();
        let address = door.local_addr().unwrap();
        assert_eq!(Door::bind(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(door);
        Door::bind(address).unwrap();
    }

    #[tokio::test]
    async fn a_port_can_be_taken_again_while_its_old_connections_linger() {
        let door = Door::bind(ANY.parse().unwrap()).unwrap();
        let address = door.local_addr().unwrap();
        let listener = door.open().unwrap();
        let _caller = Caller::connect(address).unwrap();
        // The side that closes first is the one whose port lingers.
        drop(listener.accept().await.unwrap());
        drop(listener);
        let again = Door::bind(address).unwrap();
        again.open().unwrap();
    }

    const QUESTION: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

    fn doorkeeper(connections_max: usize) -> SocketAddr {
        let door = Door::bind(ANY.parse().unwrap()).unwrap();
        let address = door.local_addr().unwrap();
        let listener = door.open().unwrap();
        let router = Router::new().route("/", get(|| async { "here\n" }));
        tokio::spawn(receive(listener, router, "test", connections_max, Closing::later().1));
        address
    }

    fn answered(caller: &mut Caller) -> bool {
        let mut answer = [0; 256];
        caller.write_all(QUESTION).is_ok()
            && caller.read(&mut answer).is_ok_and(|length| answer[..length].starts_with(b"HTTP/1.1 200"))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn callers_beyond_the_bound_wait_until_one_hangs_up() {
        let address = doorkeeper(2);
        let mut first: Vec<_> = (0..2).map(|_| Caller::connect(address).unwrap()).collect();
        assert!(first.iter_mut().all(answered));
        let mut third = Caller::connect(address).unwrap();
        third.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(!answered(&mut third), "there is no room");
        drop(first.pop());
        third.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = [0; 256];
        assert!(third.read(&mut answer).is_ok_and(|length| answer[..length].starts_with(b"HTTP/1.1 200")));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_thousand_callers_that_hang_up_leave_no_connection_behind() {
        let address = doorkeeper(4);
        for said in [b"".as_slice(), b"P", b"GET / HT", QUESTION] {
            for _ in 0..250 {
                let mut caller = Caller::connect(address).unwrap();
                let _ = caller.write_all(said);
            }
        }
        // Were any of them still attended to, there would be no room.
        for _ in 0..4 {
            let mut caller = Caller::connect(address).unwrap();
            caller.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert!(answered(&mut caller));
        }
    }
}
