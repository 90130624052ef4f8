//! The proxies that a node believes when they say for whom they ask, as networks; and the walk through what proxies wrote
//! down: from the node's own peer towards the client, past every address that is trusted, to the first that is not. That
//! one is the client. What stands beyond it was written by the client itself, who may write anything.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::asked::shown;

/// Networks that a node may be told to trust, at most; one more is a mistake in the configuration. Each is compared with
/// each address of a chain.
pub const NETWORKS_MAX: usize = 256;

/// Trusted addresses in one chain, at most; a longer one is refused. Gateways in a row are few.
pub const HOPS_MAX: usize = 32;

/// Bits of an IPv6 address.
const BITS: u8 = 128;

/// Bits before an IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`).
const MAPPED: u8 = 96;

/// A network of addresses, of one family; a single address is one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    /// Bits that all its addresses share, at least one.
    prefix: u8,
}

/// Why a text is no network that could be trusted. Whoever wrote the configuration mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotANetwork {
    /// Neither `ADDRESS` nor `ADDRESS/BITS`.
    #[error("it is neither an address nor a network")]
    Shape,
    /// More bits than an address of the family has.
    #[error("an address of this family has {bits} bits, and no prefix is longer")]
    TooLong {
        /// How many it has.
        bits: u8,
    },
    /// Bits are set behind the prefix, so that something else may have been meant.
    #[error("the address is inside the network {network}, and not its beginning")]
    HostBits {
        /// The network around the address.
        network: Network,
    },
    /// A prefix of no bits.
    #[error("it is every address, and whoever comes could claim to be anybody")]
    Everybody,
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Network, NotANetwork> {
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, digits)) => (address, Some(prefix_of(digits).ok_or(NotANetwork::Shape)?)),
        };
        let written: IpAddr = address.parse().map_err(|_| NotANetwork::Shape)?;
        let address = written.to_canonical();
        let unmapped = if written.is_ipv6() && address.is_ipv4() { MAPPED } else { 0 };
        let bits = width(address);
        let prefix = match prefix {
            None => bits,
            Some(prefix) => prefix.checked_sub(unmapped).ok_or(NotANetwork::Shape)?,
        };
        match prefix {
            0 => return Err(NotANetwork::Everybody),
            prefix if prefix > bits => return Err(NotANetwork::TooLong { bits }),
            _ => {}
        }
        let network = Network { first: first_of(address, prefix), prefix };
        if network.first == address { Ok(network) } else { Err(NotANetwork::HostBits { network }) }
    }
}

/// As it is read: a single address without its prefix.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix == width(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.prefix),
        }
    }
}

impl Network {
    /// Whether the address is one of the network's; IPv4 written as IPv6 is IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && first_of(address, self.prefix) == self.first
    }
}

/// Up to three digits, and nothing else: `+8` and `08` are no prefixes.
fn prefix_of(digits: &str) -> Option<u8> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { BITS - MAPPED } else { BITS }
}

/// The address with all bits behind the prefix cleared. The prefix is at least 1 and at most as long as the address.
fn first_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & (u32::MAX << (32 - prefix))).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << (128 - prefix))).into()),
    }
}

/// The networks that a node trusts; none unless it is told.
#[derive(Debug, Default)]
pub struct Proxies {
    networks: Vec<Network>,
    /// Whether somebody was told that a proxy is not listed; that is said once.
    told: AtomicBool,
}

/// A chain in which no client can be found. The trusted proxy that wrote it is at fault, or the list of proxies is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChain {
    /// A trusted proxy wrote down something that is no address.
    #[error("expected addresses, found `{found}` where a trusted proxy wrote down who asked it")]
    NotAnAddress {
        /// What it wrote, cut.
        found: String,
    },
    /// More than [`HOPS_MAX`] trusted addresses in a row.
    #[error("more than {HOPS_MAX} trusted proxies in a row")]
    TooLong,
}

impl Proxies {
    /// These networks and no other.
    pub fn of(networks: Vec<Network>) -> Proxies {
        Proxies { networks, told: AtomicBool::new(false) }
    }

    /// Whether the address is a trusted proxy's.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client of a chain that begins at the node's own peer and goes on with `chain`, nearest first: the first address
    /// that is not trusted, or the last one if all are. What stands behind it is not looked at.
    ///
    /// # Errors
    ///
    /// [`BadChain`], by which nothing is known of the client.
    pub fn client<'a>(&self, peer: IpAddr, chain: impl Iterator<Item = &'a str>) -> Result<IpAddr, BadChain> {
        let mut client = peer.to_canonical();
        for (hops, entry) in (1..).zip(chain.map(str::trim).filter(|entry| !entry.is_empty())) {
            if !self.trust(client) {
                break;
            }
            if hops > HOPS_MAX {
                return Err(BadChain::TooLong);
            }
            client = address_of(entry).ok_or_else(|| BadChain::NotAnAddress { found: shown(entry) })?;
        }
        Ok(client)
    }

    /// Tells the log, once, that somebody says for whom it asks and is not believed.
    pub fn tell_ignored(&self, peer: IpAddr) {
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %peer,
                "forward-auth: whom this peer asks for is not believed, since `api.trusted_proxies` does not list it; \
                 its own address is counted (said once)"
            );
        }
    }
}

/// An address as proxies write it: by itself, or with a port, an IPv6 one then in brackets.
fn address_of(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match bare {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => entry.parse().ok().or_else(|| entry.parse::<SocketAddr>().ok().map(|socket| socket.ip())),
    };
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn proxies(networks: &[&str]) -> Proxies {
        Proxies::of(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The client of a peer that hands on this header field, with 10/8 and ::1 trusted.
    fn client(peer: &str, field: &str) -> Result<IpAddr, BadChain> {
        proxies(&["10.0.0.0/8", "::1"]).client(ip(peer), field.rsplit(','))
    }

    #[test]
    fn a_network_is_an_address_or_an_address_with_its_shared_bits() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("::1", "::1", "::2"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("128.0.0.0/1", "255.255.255.255", "127.255.255.255"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "::10.1.2.3"),
            ("172.16.0.0/12", "::ffff:172.31.0.1", "172.32.0.1"),
        ] {
            let network: Network = text.parse().unwrap();
            assert!(network.contains(ip(inside)) && !network.contains(ip(outside)), "{text}");
            assert_eq!(network.to_string().parse(), Ok(network), "{text}");
        }
        assert!(!"10.0.0.0/8".parse::<Network>().unwrap().contains(ip("a00::")), "families are told apart");
    }

    #[test]
    fn what_may_have_been_meant_otherwise_is_no_network() {
        let refusal = |text: &str| text.parse::<Network>().unwrap_err();
        for text in ["", "10.0.0", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/08", "10.0.0.0/8/8", "::1%lo", "[::1]", "any"]
        {
            assert_eq!(refusal(text), NotANetwork::Shape, "{text}");
        }
        assert_eq!(refusal("::ffff:0.0.0.0/95"), NotANetwork::Shape, "of no one family");
        assert_eq!(refusal("10.0.0.0/33"), NotANetwork::TooLong { bits: 32 });
        assert_eq!(refusal("::/129"), NotANetwork::TooLong { bits: 128 });
        assert_eq!(
            refusal("10.1.0.0/8").to_string(),
            "the address is inside the network 10.0.0.0/8, and not its beginning"
        );
        for text in ["0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96"] {
            assert_eq!(refusal(text), NotANetwork::Everybody, "{text}");
        }
    }

    #[test]
    fn nobody_is_trusted_who_is_not_listed_not_even_this_host() {
        assert_eq!(Proxies::default().client(ip("127.0.0.1"), ["203.0.113.9"].into_iter()), Ok(ip("127.0.0.1")));
        assert_eq!(client("192.0.2.7", "203.0.113.9"), Ok(ip("192.0.2.7")));
    }

    #[test]
    fn the_client_is_the_first_from_the_right_that_is_not_trusted() {
        assert_eq!(client("10.0.0.1", "203.0.113.9"), Ok(ip("203.0.113.9")));
        assert_eq!(client("10.0.0.1", "203.0.113.9, 10.0.0.2,10.0.0.3"), Ok(ip("203.0.113.9")));
        assert_eq!(client("::ffff:10.0.0.1", "2001:db8::9"), Ok(ip("2001:db8::9")));
        assert_eq!(client("::1", " , ,::ffff:203.0.113.9, ,"), Ok(ip("203.0.113.9")), "empty entries say nothing");
    }

    #[test]
    fn what_a_client_wrote_itself_is_not_looked_at() {
        for spoofed in ["198.51.100.1", "10.9.9.9", "garbage", "198.51.100.1, 10.0.0.9", "\"; drop"] {
            assert_eq!(client("10.0.0.1", &format!("{spoofed}, 203.0.113.9")), Ok(ip("203.0.113.9")), "{spoofed}");
        }
    }

    #[test]
    fn where_everybody_is_trusted_the_farthest_is_the_client() {
        assert_eq!(client("10.0.0.1", "10.0.0.3, 10.0.0.2"), Ok(ip("10.0.0.3")));
        assert_eq!(client("10.0.0.1", ""), Ok(ip("10.0.0.1")));
        assert_eq!(client("::ffff:10.0.0.1", ""), Ok(ip("10.0.0.1")));
    }

    #[test]
    fn ports_and_brackets_are_no_part_of_an_address() {
        for entry in ["203.0.113.9:1234", "203.0.113.9", "::ffff:203.0.113.9", "[::ffff:203.0.113.9]:80"] {
            assert_eq!(client("10.0.0.1", entry), Ok(ip("203.0.113.9")), "{entry}");
        }
        assert_eq!(client("10.0.0.1", "[2001:db8::9]"), Ok(ip("2001:db8::9")));
        assert_eq!(client("10.0.0.1", "[2001:db8::9]:443"), Ok(ip("2001:db8::9")));
    }

    #[test]
    fn a_trusted_proxy_that_writes_no_address_leaves_the_client_unknown() {
        for entry in ["unknown", "unix:", "203.0.113.9:", "[203.0.113.9]", "fe80::1%eth0", "1.2.3.4.5", "010.0.0.1"] {
            let found = entry.to_owned();
            assert_eq!(client("10.0.0.1", &format!("203.0.113.9, {entry}")), Err(BadChain::NotAnAddress { found }));
        }
        let Err(BadChain::NotAnAddress { found }) = client("10.0.0.1", &"x".repeat(60_000)) else { panic!("an error") };
        assert_eq!(found.len(), policy::name::NAME_MAX);
    }

    #[test]
    fn a_chain_of_trusted_proxies_has_an_end() {
        let chain = |hops: usize| vec!["10.0.0.2"; hops].join(",");
        assert_eq!(client("10.0.0.1", &chain(HOPS_MAX)), Ok(ip("10.0.0.2")));
        assert_eq!(client("10.0.0.1", &chain(HOPS_MAX + 1)), Err(BadChain::TooLong));
    }
}
