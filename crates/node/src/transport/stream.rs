//! A connection to a peer that has proved who it is: a TCP stream that carries the peer's identity to the services behind it.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ring::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::cluster::ClusterUuid;
use crate::net::TcpStream;

/// Who is at the other end. In a gRPC service it is found in the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node.
    pub node: NodeId,
    /// The address of its end of this connection; not where it listens.
    pub address: SocketAddr,
    /// The cluster it belonged to when the connection was made; `None` if it was blank then.
    pub uuid: Option<ClusterUuid>,
    /// The version of the peer protocol that was agreed on.
    pub version: u16,
}

/// An authenticated connection, its handshake done.
#[derive(Debug)]
pub struct PeerStream {
    pub(super) stream: TcpStream,
    pub(super) peer: Peer,
    pub(super) until: Until,
}

impl PeerStream {
    /// Who is at the other end.
    pub fn peer(&self) -> Peer {
        self.peer
    }
}

/// What ends a connection from within: whoever serves it polls it somewhere out of reach. By default nothing does.
#[derive(Default)]
pub(super) struct Until(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Until {
    /// Until `end` comes to pass.
    pub(super) fn comes(end: impl Future<Output = ()> + Send + 'static) -> Until {
        Until(Some(Box::pin(end)))
    }

    fn has_come(&mut self, cx: &mut Context<'_>) -> bool {
        self.0.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready())
    }
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Until(..)")
    }
}

impl Connected for PeerStream {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.until.has_come(cx) {
            // Once is enough: whoever reads an error reads no more.
            self.until = Until::default();
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
