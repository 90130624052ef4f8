//! What a node must be told before it starts, checked: the sockets are bound, the secret is read, the documents parsed.

use std::path::PathBuf;

use control::Genesis;
use limits::Span;
use ownership::lease::Terms;
use ring::PartitionCount;
use store::StoreConfig;

use crate::net::{BoundTcp, BoundUdp};
use crate::refusals::Difference;
use crate::secret::Secrets;

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
    /// What authenticates peers: one secret, or two while it is being rotated.
    pub secrets: Secrets,
    /// What genesis fixes: the cluster's name and founders, equal on every node, and what the first leader writes.
    pub founding: Founding,
    /// What this node may hold and how long it may take.
    pub bounds: Bounds,
    /// Where it keeps what was used, so that a takeover need not assume the worst; `None`: nowhere.
    pub store: Option<StoreConfig>,
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
    pub tcp: BoundTcp,
    /// Gossip; the same port number.
    pub udp: BoundUdp,
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
    /// Which of these somebody gave this node, so that genesis may not say otherwise. Name and founders always are.
    pub given: Given,
    /// Policy documents applied once, right after founding.
    pub policies: Vec<String>,
}

impl Founding {
    /// The differences that no later command can have brought about.
    pub fn lasting_differences(&self, genesis: &Genesis) -> Vec<Difference> {
        self.differences(genesis, self.terms.ttl())
    }

    /// Whether this node was given another ttl than the cluster was founded with: only whoever has caught up with the log
    /// knows whether that is a mistake.
    pub fn names_another_ttl(&self, genesis: &Genesis) -> bool {
        self.given.ttl && self.terms.ttl() != genesis.lease.ttl
    }

    /// Everything in which this node was given something else than its cluster goes by; `ttl` is the one in force. A ttl
    /// that the cluster was founded with is no mistake in a file that was written then, although another was set since.
    pub fn differences(&self, genesis: &Genesis, ttl: Span) -> Vec<Difference> {
        let lease = &genesis.lease;
        let here = &self.terms;
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort();
            format!("[{}]", names.join(", "))
        };
        let settings: [(bool, &'static str, String, String); 7] = [
            (true, "cluster.name", self.name.clone(), genesis.name.clone()),
            (true, "cluster.founders", sorted(&self.founders), sorted(&genesis.founders)),
            (self.names_another_ttl(genesis), "lease.ttl", here.ttl().to_string(), ttl.to_string()),
            (self.given.renew, "lease.renew", here.renew().to_string(), lease.renew.to_string()),
            (self.given.rho, "lease.rho", per_mille(here.rho_per_mille()), per_mille(lease.rho_per_mille)),
            (self.given.d_max, "lease.d_max", here.d_max().to_string(), lease.d_max.to_string()),
            (
                self.given.partitions,
                "cluster.partitions",
                self.partitions.get().to_string(),
                genesis.partitions.get().to_string(),
            ),
        ];
        let differs = settings.into_iter().filter(|(given, _, here, genesis)| *given && here != genesis);
        differs.map(|(_, setting, here, genesis)| Difference { setting, here, genesis }).collect()
    }
}

fn per_mille(rho: u16) -> String {
    format!("{rho} per mille")
}

/// Which settings that genesis fixes a node was given, rather than took from the defaults. A default gives way to what the
/// cluster goes by; what was given and differs is a mistake, and the node must not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// `lease.ttl`
    pub ttl: bool,
    /// `lease.renew`
    pub renew: bool,
    /// `lease.rho`
    pub rho: bool,
    /// `lease.d_max`
    pub d_max: bool,
    /// `cluster.partitions`
    pub partitions: bool,
}

impl Given {
    /// Everything was given.
    pub const ALL: Given = Given { ttl: true, renew: true, rho: true, d_max: true, partitions: true };

    /// Everything is a default.
    pub const NOTHING: Given = Given { ttl: false, renew: false, rho: false, d_max: false, partitions: false };
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
