//! The sockets of this shell, named here and nowhere else: the system's, or, in builds with the feature `simulated`, those of
//! a simulated network, which answer to the same calls.

#[cfg(feature = "simulated")]
pub use crate::simulated::net::{BoundTcp, BoundUdp, TcpListener, TcpStream, UdpSocket};
#[cfg(feature = "simulated")]
pub(crate) use crate::simulated::net::{lookup_host, tcp, udp};

#[cfg(not(feature = "simulated"))]
pub use self::system::{BoundTcp, BoundUdp};
#[cfg(not(feature = "simulated"))]
pub(crate) use self::system::{tcp, udp};
#[cfg(not(feature = "simulated"))]
pub(crate) use tokio::net::lookup_host;
#[cfg(not(feature = "simulated"))]
pub use tokio::net::{TcpListener, TcpStream, UdpSocket};

#[cfg(not(feature = "simulated"))]
mod system {
    use std::io;

    use super::{TcpListener, UdpSocket};

    /// A listener that is bound, and that no runtime serves yet.
    pub type BoundTcp = std::net::TcpListener;

    /// A socket for datagrams that is bound, and that no runtime serves yet.
    pub type BoundUdp = std::net::UdpSocket;

    /// The listener, served by the current runtime.
    pub(crate) fn tcp(socket: BoundTcp) -> io::Result<TcpListener> {
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket)
    }

    /// The socket for datagrams, served by the current runtime.
    pub(crate) fn udp(socket: BoundUdp) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket)
    }
}
