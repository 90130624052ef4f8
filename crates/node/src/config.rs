//! What a node must be told before it starts, checked: the sockets are bound, the secret is read, the documents parsed.

use std::net::UdpSocket;
use std::path::PathBuf;

use limits::Span;
use ownership::lease::Terms;
use ring::PartitionCount;

use crate::secret::ClusterSecret;

/// Everything one node needs. The binary fills it from flags, environment and file; `dev` fills it from nothing.
#[derive(Debug)]
pub struct Config {
    /// What people call the node; unique in the cluster.
    pub name: String,
    /// Where the log and the node's identity live.
    pub data: Place,
    /// Bound sockets of the peer port.
    pub peer: PeerSockets,
    /// Where others reach this node.
    pub advertise: Advertise,
    /// Peer addresses (`host:port`) of nodes to ask first; resolved anew at each try.
    pub seeds: Vec<String>,
    /// What authenticates peers.
    pub secret: ClusterSecret,
    /// What genesis fixes: the cluster's name and founders, equal on every node, and what the first leader writes.
    pub founding: Founding,
    /// What this node may hold and how long it may take.
    pub bounds: Bounds,
}

/// Where a node's log, vote and identity live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory: a node that stops is gone, and comes back as another.
    Memory,
    /// In this directory.
    Directory(PathBuf),
}

/// The peer port, bound before anything else starts.
#[derive(Debug)]
pub struct PeerSockets {
    /// Remote calls and raft.
    pub tcp: std::net::TcpListener,
    /// Gossip; the same port number.
    pub udp: UdpSocket,
}

/// The addresses (`host:port`) that others are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// Peers.
    pub peer: String,
    /// Callers.
    pub api: String,
    /// Operators.
    pub admin: String,
}

/// What genesis is made of.
#[derive(Clone, Debug)]
pub struct Founding {
    /// The cluster's name; nodes of another name are refused.
    pub name: String,
    /// The names that found the cluster, the same on every node.
    pub founders: Vec<String>,
    /// Lease times.
    pub terms: Terms,
    /// How many slices the key space has.
    pub partitions: PartitionCount,
    /// Policy documents applied once, right after founding.
    pub policies: Vec<String>,
}

/// Named bounds of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Keys held at once, shared evenly between the domains; above it `when_full` answers.
    pub keys_max: u64,
    /// How long a caller waits that does not say.
    pub deadline_default: Span,
    /// The longest a caller may ask to wait; more is cut to it.
    pub deadline_max: Span,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { keys_max: 10_000_000, deadline_default: Span::from_millis(250), deadline_max: Span::from_secs(1) }
    }
}
