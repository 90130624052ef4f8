//! Who a node is to the others: a stable id, and an incarnation that rises with every start. Small on purpose, since it
//! travels in every datagram.

use std::fmt;
use std::net::SocketAddr;

use ring::NodeId;
use thiserror::Error;

use crate::cluster::NodeName;

/// Which life of a node this is. Of two identities with one id the greater incarnation is the living one.
///
/// The upper half is the boot number, which the node raises (and keeps) with every start; the lower half counts how often
/// this process had to come back because the others had given it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation that the `boot`-th start of a node begins with.
    pub const fn of_boot(boot: u32) -> Incarnation {
        Incarnation((boot as u64) << 32)
    }

    /// The next incarnation of the same process. After 2^32 of them it would read as the next boot, which is later still.
    pub(super) const fn renewed(self) -> Incarnation {
        Incarnation(self.0.saturating_add(1))
    }

    /// As one number, for the wire.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn from_wire(number: u64) -> Incarnation {
        Incarnation(number)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }
}

/// An address that nobody could answer to. The configuration's doing; nothing changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{0} is no address to advertise: it names no host or no port")]
pub struct AddressError(pub SocketAddr);

/// One node in one of its lives, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node: the same over restarts with the same data directory.
    pub id: NodeId,
    /// Which of its lives.
    pub incarnation: Incarnation,
    /// What people call it.
    pub name: NodeName,
    /// Where its peers reach it: gossip on UDP, RPC on TCP.
    pub peer: SocketAddr,
    /// Where clients reach it, if it says.
    pub api: Option<SocketAddr>,
}

impl Identity {
    /// Checks that the advertised addresses can be answered to.
    ///
    /// # Errors
    ///
    /// [`AddressError`] naming the first address with port 0 or an unspecified host (`0.0.0.0`, `::`).
    pub fn check(&self) -> Result<(), AddressError> {
        let unusable = |address: &SocketAddr| address.port() == 0 || address.ip().is_unspecified();
        match std::iter::once(self.peer).chain(self.api).find(unusable) {
            Some(address) => Err(AddressError(address)),
            None => Ok(()),
        }
    }
}

/// What foca takes for an identity: a node, or "whoever answers at this address". A node knows its seeds by address only,
/// while foca wants to be told whom to greet; so an announce to a seed is addressed to whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Known(Identity),
    /// Only ever the destination of an announce: the codec lets it appear nowhere else, so it never becomes a member.
    Whoever(SocketAddr),
}

impl Party {
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Party::Known(identity) => identity.peer,
            Party::Whoever(address) => *address,
        }
    }

    pub(super) fn known(&self) -> Option<&Identity> {
        match self {
            Party::Known(identity) => Some(identity),
            Party::Whoever(_) => None,
        }
    }
}

/// The key by which foca holds one entry per node. "Whoever" equals every node: a datagram to whoever is for its reader.
/// That is no equivalence, which foca does not ask for (`PartialEq` only), and no key of a member is ever "whoever".
pub(super) struct Key(Option<NodeId>);

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        match (self.0, other.0) {
            (Some(a), Some(b)) => a == b,
            (None, _) | (_, None) => true,
        }
    }
}

impl foca::Identity for Party {
    type Addr = Key;

    fn renew(&self) -> Option<Party> {
        self.known().map(|me| Party::Known(Identity { incarnation: me.incarnation.renewed(), ..me.clone() }))
    }

    fn addr(&self) -> Key {
        Key(self.known().map(|identity| identity.id))
    }

    /// The later life wins. Two that claim to be the same life (a copied data directory) do not take turns: the one known
    /// first stays.
    fn win_addr_conflict(&self, adversary: &Party) -> bool {
        self.known().map(|identity| identity.incarnation) >= adversary.known().map(|identity| identity.incarnation)
    }
}
