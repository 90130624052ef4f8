//! The network inside the cage: a bridge, a namespace per node and per server of Redis with one link to it, and the suite
//! itself on the bridge. Cuts are rules in a host's own namespace against the others' addresses, so callers still reach it;
//! the counters of these rules prove that a cut was felt. One more address leads to whichever Redis is the primary.

use std::fmt;
use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};

use crate::shell;

/// The bridge's name.
const BRIDGE: &str = "ringfence";

/// The suite's own address. The range is set aside for tests between networks (RFC 2544).
const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Servers of Redis that there is room for: a primary and a replica.
pub const STORES: usize = 2;

/// The address that nodes are told of Redis, whichever server it leads to.
pub const STORE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 20);

/// Where a server of Redis listens.
pub const STORE_PORT: u16 = 6_379;

/// Who has a namespace, each by its place from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A node.
    Node(usize),
    /// A server of Redis.
    Store(usize),
}

impl Host {
    /// What its namespace is called.
    pub fn name(self) -> String {
        match self {
            Host::Node(place) => format!("n{}", place + 1),
            Host::Store(place) => format!("r{}", place + 1),
        }
    }

    /// Its own address.
    pub fn address(self) -> Ipv4Addr {
        let (first, place) = match self {
            Host::Node(place) => (11, place),
            Host::Store(place) => (21, place),
        };
        Ipv4Addr::new(198, 18, 0, first + u8::try_from(place).expect("a cluster of the suite is small"))
    }
}

/// What a host no longer hears or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing comes in from the other nodes, and nothing goes out to them.
    Both,
    /// Nothing comes in.
    Inbound,
    /// Nothing goes out.
    Outbound,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cut::Both => "both ways",
            Cut::Inbound => "inbound",
            Cut::Outbound => "outbound",
        })
    }
}

/// The address of the node with this place, from 0.
pub fn address(place: usize) -> Ipv4Addr {
    Host::Node(place).address()
}

/// The namespace of the node with this place.
pub fn namespace(place: usize) -> String {
    Host::Node(place).name()
}

/// One call of `ip`.
fn ip(line: String) -> Result<()> {
    shell::run("ip", &line.split(' ').collect::<Vec<_>>()).map(drop)
}

/// Makes the bridge and a namespace for each of so many nodes and for the servers of Redis.
///
/// # Errors
/// When the system refuses a step.
pub fn lay(nodes: usize) -> Result<()> {
    ip(format!("link add {BRIDGE} type bridge"))?;
    ip(format!("addr add {OWN}/24 dev {BRIDGE}"))?;
    ip(format!("link set {BRIDGE} up"))?;
    for host in (0..nodes).map(Host::Node).chain((0..STORES).map(Host::Store)) {
        let (name, address) = (host.name(), host.address());
        ip(format!("netns add {name}"))?;
        ip(format!("link add to-{name} type veth peer name eth0 netns {name}"))?;
        ip(format!("link set to-{name} master {BRIDGE} up"))?;
        ip(format!("-n {name} addr add {address}/24 dev eth0"))?;
        ip(format!("-n {name} link set eth0 up"))?;
        ip(format!("-n {name} link set lo up"))?;
    }
    Ok(())
}

/// Leads [`STORE`] to the server with this place, and no longer to any other. Nodes find out where it is anew, as they do
/// when a switch tells them.
///
/// # Errors
/// When the system refuses a step.
pub fn lead_to(place: usize, nodes: usize) -> Result<()> {
    for other in (0..STORES).map(Host::Store) {
        ip(format!("-n {} addr flush to {STORE} dev eth0", other.name()))?;
    }
    ip(format!("-n {} addr add {STORE}/32 dev eth0", Host::Store(place).name()))?;
    for node in 0..nodes {
        ip(format!("-n {} neigh flush to {STORE}", namespace(node)))?;
    }
    Ok(())
}

/// Cuts a host off from these addresses, at once.
///
/// # Errors
/// When the system refuses the rules.
pub fn cut(host: Host, others: &[Ipv4Addr], cut: Cut) -> Result<()> {
    restore(host, &rules(others, cut))
}

/// Ends every cut of a host.
///
/// # Errors
/// When the system refuses the rules.
pub fn heal(host: Host) -> Result<()> {
    restore(host, &rules(&[], Cut::Both))
}

/// How many packets a host's cut has swallowed.
///
/// # Errors
/// When the system does not say.
pub fn swallowed(host: Host) -> Result<u64> {
    let listing = shell::run("ip", &["netns", "exec", &host.name(), "iptables-save", "-c", "-t", "filter"])?;
    packets(&listing)
}

fn restore(host: Host, rules: &str) -> Result<()> {
    shell::run_with_input("ip", &["netns", "exec", &host.name(), "iptables-restore", "-w"], rules).map(drop)
}

/// The whole table, so that applying it replaces whatever was there in one step.
fn rules(others: &[Ipv4Addr], cut: Cut) -> String {
    let mut text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n".to_owned();
    for other in others {
        if cut != Cut::Outbound {
            text += &format!("-A INPUT -s {other} -j DROP\n");
        }
        if cut != Cut::Inbound {
            text += &format!("-A OUTPUT -d {other} -j DROP\n");
        }
    }
    text + "COMMIT\n"
}

/// The packets of all DROP rules in a listing with counters: `[12:720] -A INPUT -s ... -j DROP`.
fn packets(listing: &str) -> Result<u64> {
    let rules = listing.lines().filter(|line| line.starts_with('[') && line.contains("-j DROP"));
    let counts = rules.map(|rule| {
        let count = rule[1..].split(':').next().and_then(|count| count.parse::<u64>().ok());
        count.with_context(|| format!("no packet count in `{rule}`"))
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_cut_drops_its_own_direction_and_healing_drops_nothing() {
        let drops = |cut| {
            let text = rules(&[address(1), address(2)], cut);
            text.lines().filter(|line| line.contains("DROP")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(drops(Cut::Inbound), ["-A INPUT -s 198.18.0.12 -j DROP", "-A INPUT -s 198.18.0.13 -j DROP"]);
        assert_eq!(drops(Cut::Outbound), ["-A OUTPUT -d 198.18.0.12 -j DROP", "-A OUTPUT -d 198.18.0.13 -j DROP"]);
        assert_eq!(drops(Cut::Both).len(), 4);
        assert!(!rules(&[], Cut::Both).contains("DROP"));
    }

    #[test]
    fn swallowed_packets_are_summed() {
        let listing = "*filter\n:INPUT ACCEPT [99:100]\n[12:720] -A INPUT -s 198.18.0.12/32 -j DROP\n\
                       [3:9] -A OUTPUT -d 198.18.0.12/32 -j DROP\n[7:7] -A OUTPUT -j ACCEPT\nCOMMIT\n";
        assert_eq!(packets(listing).unwrap(), 15);
        assert!(packets("[x] -A INPUT -j DROP").is_err());
    }
}
