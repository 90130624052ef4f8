//! Why two nodes did not come to talk. The same words on both sides, in logs, metrics and errors.

use std::io;

use ring::NodeId;
use thiserror::Error;

use super::hello::Versions;
use crate::cluster::ClusterId;

/// Why a handshake failed. Nothing changed on either side, whichever found it; the connection is closed. All but
/// [`Timeout`](HandshakeError::Timeout) and [`Closed`](HandshakeError::Closed) are an operator's doing and stay until one
/// acts: trying again helps only against those two.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HandshakeError {
    /// One side has no secret of the other's in force. Give both the same.
    #[error("wrong-secret: the cluster secrets of the two nodes differ")]
    WrongSecret,
    /// The other belongs to another cluster. An address leads astray.
    #[error("wrong-cluster: the other node belongs to {}", describe(theirs))]
    WrongCluster {
        /// The other's cluster.
        theirs: ClusterId,
    },
    /// The address answers, but not for the node that was meant: an address was reused, or a node lost its data.
    #[error("wrong-node: meant {}, met {}", meant.0, met.0)]
    WrongNode {
        /// Whom the caller wanted.
        meant: NodeId,
        /// Who answered.
        met: NodeId,
    },
    /// No version of the peer protocol is spoken by both. Upgrade in steps of one minor version.
    #[error("version: this node speaks {ours}, the other {theirs}")]
    Version {
        /// What this node speaks.
        ours: Versions,
        /// What the other speaks.
        theirs: Versions,
    },
    /// What the other sends is not this protocol.
    #[error("not-a-peer: the other does not speak the peer protocol")]
    NotAPeer,
    /// The other took longer than a handshake may.
    #[error("timeout: the other did not finish the handshake in time")]
    Timeout,
    /// The connection ended within the handshake.
    #[error("closed: the connection ended within the handshake")]
    Closed,
}

impl HandshakeError {
    /// The reason alone.
    pub fn reason(&self) -> Reason {
        match self {
            HandshakeError::WrongSecret => Reason::WrongSecret,
            HandshakeError::WrongCluster { .. } => Reason::WrongCluster,
            HandshakeError::WrongNode { .. } => Reason::WrongNode,
            HandshakeError::Version { .. } => Reason::Version,
            HandshakeError::NotAPeer => Reason::NotAPeer,
            HandshakeError::Timeout => Reason::Timeout,
            HandshakeError::Closed => Reason::Closed,
        }
    }
}

impl From<io::Error> for HandshakeError {
    /// Whatever the socket calls it, the other is gone.
    fn from(_: io::Error) -> HandshakeError {
        HandshakeError::Closed
    }
}

fn describe(cluster: &ClusterId) -> String {
    match cluster.uuid {
        Some(uuid) => format!("cluster {} ({uuid})", cluster.name),
        None => format!("cluster {}, not founded yet", cluster.name),
    }
}

/// Why this node could not reach another. Nothing was sent but the handshake; trying again later is right, and the channel
/// does so by itself with the next call.
#[derive(Debug, Error)]
pub enum DialError {
    /// Nobody answers there, or the name does not resolve.
    #[error("unreachable: {0}")]
    Unreachable(#[from] io::Error),
    /// Somebody answers, and one of the two refused.
    #[error(transparent)]
    Refused(#[from] HandshakeError),
}

impl DialError {
    /// The reason alone.
    pub fn reason(&self) -> Reason {
        match self {
            DialError::Unreachable(_) => Reason::Unreachable,
            DialError::Refused(error) => error.reason(),
        }
    }

    /// The reason behind a failed call on a channel, if it is that the connection could not be made.
    pub fn behind(status: &tonic::Status) -> Option<&DialError> {
        let mut source = std::error::Error::source(status);
        while let Some(error) = source {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            source = error.source();
        }
        None
    }
}

/// A [`HandshakeError`] or [`DialError`] without its particulars, for counters and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// See [`HandshakeError::WrongSecret`].
    WrongSecret,
    /// See [`HandshakeError::WrongCluster`].
    WrongCluster,
    /// See [`HandshakeError::WrongNode`].
    WrongNode,
    /// See [`HandshakeError::Version`].
    Version,
    /// See [`HandshakeError::NotAPeer`].
    NotAPeer,
    /// See [`HandshakeError::Timeout`].
    Timeout,
    /// See [`HandshakeError::Closed`].
    Closed,
    /// Too many handshakes, or too many connections that nobody takes: this one made room.
    Crowded,
    /// See [`DialError::Unreachable`].
    Unreachable,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 9] = [
        Reason::WrongSecret,
        Reason::WrongCluster,
        Reason::WrongNode,
        Reason::Version,
        Reason::NotAPeer,
        Reason::Timeout,
        Reason::Closed,
        Reason::Crowded,
        Reason::Unreachable,
    ];

    /// The reason as a word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::WrongSecret => "wrong-secret",
            Reason::WrongCluster => "wrong-cluster",
            Reason::WrongNode => "wrong-node",
            Reason::Version => "version",
            Reason::NotAPeer => "not-a-peer",
            Reason::Timeout => "timeout",
            Reason::Closed => "closed",
            Reason::Crowded => "crowded",
            Reason::Unreachable => "unreachable",
        }
    }
}
