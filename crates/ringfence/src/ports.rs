//! The three ports of a node, all taken before anything of it runs: a port that is in use costs nothing but a message.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use node::config::{Advertise, PeerSockets};
use server::{Door, Sockets};

/// How often a port that is free for both TCP and UDP is looked for, where the system chooses.
const PEER_PORT_TRIES: u32 = 16;

/// Where a node listens; with port 0 the system chooses.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// For callers.
    pub api: SocketAddr,
    /// For other nodes.
    pub peer: SocketAddr,
    /// For operators.
    pub admin: SocketAddr,
}

/// The ports of one node, taken.
#[derive(Debug)]
pub struct Bound {
    /// For callers and operators.
    pub doors: Sockets,
    /// For other nodes.
    pub peer: PeerSockets,
    /// The addresses they have now.
    pub addresses: Listen,
}

/// A port that could not be taken.
#[derive(Debug)]
pub struct NotBound {
    /// The setting: `api.listen`, `peer.listen` or `admin.listen`.
    pub key: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    pub error: io::Error,
}

impl std::fmt::Display for NotBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NotBound { key, address, error } = self;
        if error.kind() == io::ErrorKind::AddrInUse {
            return write!(f, "port-in-use: {address} ({key}) is taken by another process");
        }
        write!(f, "bad-config: {address} ({key}) cannot be listened on: {error}")
    }
}

impl std::error::Error for NotBound {}

impl Bound {
    /// Takes all of them or none.
    ///
    /// # Errors
    ///
    /// The first that cannot be taken.
    pub fn take(listen: Listen) -> Result<Bound, NotBound> {
        let (api, peer, admin) = ("api.listen", "peer.listen", "admin.listen");
        let at = |key, address| move |error| NotBound { key, address, error };
        let doors = Sockets {
            api: Door::bind(listen.api).map_err(at(api, listen.api))?,
            admin: Door::bind(listen.admin).map_err(at(admin, listen.admin))?,
        };
        let sockets = peer_sockets(listen.peer).map_err(at(peer, listen.peer))?;
        let addresses = Listen {
            api: doors.api.local_addr().map_err(at(api, listen.api))?,
            peer: sockets.tcp.local_addr().map_err(at(peer, listen.peer))?,
            admin: doors.admin.local_addr().map_err(at(admin, listen.admin))?,
        };
        Ok(Bound { doors, peer: sockets, addresses })
    }
}

impl Listen {
    /// These addresses as others are told them.
    pub fn advertised(&self) -> Advertise {
        Advertise { peer: self.peer.to_string(), api: self.api.to_string(), admin: self.admin.to_string() }
    }
}

/// One port number for TCP and UDP. Where the system chooses, what it gives to the one may be taken for the other: then
/// it chooses again.
fn peer_sockets(address: SocketAddr) -> io::Result<PeerSockets> {
    let mut tries = if address.port() == 0 { PEER_PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::bind(address)?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok(PeerSockets { tcp, udp }),
            Err(_) if tries > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_port_that_is_taken_is_named_and_nothing_else_stays_taken() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bound = Bound::take(Listen { api: any, peer: any, admin: any }).unwrap();
        let taken = bound.addresses;
        let refused = Bound::take(Listen { api: any, peer: taken.peer, admin: any }).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("port-in-use: {} (peer.listen) is taken by another process", taken.peer)
        );
        drop(bound);
        Bound::take(taken).unwrap();
    }
}
