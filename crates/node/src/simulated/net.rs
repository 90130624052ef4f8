//! The simulated network's sockets, in the shapes that [`crate::net`] has for the system's.

use std::fmt;
use std::io;
use std::net::SocketAddr;

pub use turmoil::net::{TcpListener, TcpStream, UdpSocket};

/// A listener that is bound.
pub struct BoundTcp(pub TcpListener);

/// A socket for datagrams that is bound.
#[derive(Debug)]
pub struct BoundUdp(pub UdpSocket);

impl fmt::Debug for BoundTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundTcp").field(&self.0.local_addr().ok()).finish()
    }
}

pub(crate) fn tcp(bound: BoundTcp) -> io::Result<TcpListener> {
    Ok(bound.0)
}

pub(crate) fn udp(bound: BoundUdp) -> io::Result<UdpSocket> {
    Ok(bound.0)
}

/// Looks up `host:port` in the simulation's names.
#[allow(clippy::unused_async, reason = "the system's look-up waits")]
pub(crate) async fn lookup_host(address: &str) -> io::Result<impl Iterator<Item = SocketAddr>> {
    let parsed = address.parse().ok();
    let named = || {
        let (host, port) = address.rsplit_once(':')?;
        Some(SocketAddr::new(turmoil::lookup(host), port.parse().ok()?))
    };
    let found: Option<SocketAddr> = parsed.or_else(named);
    Ok(std::iter::once(found.ok_or(io::ErrorKind::InvalidInput)?))
}
