//! The first entry of a cluster's log: its identity, and everything that may never differ between two nodes.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hasher as _;

use limits::{FingerprintKey, Span};
use ownership::lease::{FAILOVER, Terms, TermsError};
use ring::{PartitionCount, RoutingSeed};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The longest name of a node, a cluster or an address, in bytes: that of a DNS name. Longer ones are refused.
pub const NAME_MAX: usize = 253;

/// The most founders that a list may name. Longer lists are refused.
pub const FOUNDERS_MAX: usize = 32;

/// A cluster's uuid: random, made once when it is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            let dash = if matches!(position, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// Everything replicated once and changed only by command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// The cluster's uuid.
    pub cluster: ClusterId,
    /// The format of everything stored under that uuid.
    pub format: u16,
    /// Which rules [`crate::State::apply`] follows; every session must speak it.
    pub cluster_version: u32,
    /// What people call the cluster; 1 to [`NAME_MAX`] bytes.
    pub name: String,
    /// The names that founded it, 1 to [`FOUNDERS_MAX`] of them, all different.
    pub founders: Vec<String>,
    /// Slices of the key space.
    pub partitions: PartitionCount,
    /// Which hash functions are meant.
    pub hashes: HashIds,
    /// How key parts are laid out before they are hashed; 1 is `kind u8 | len u32 LE | bytes`.
    pub key_encoding: u8,
    /// What routing is keyed with; smart clients may know it.
    pub routing_seed: RoutingSeed,
    /// What fingerprints are keyed with; servers only.
    pub fingerprint_key: FingerprintKey,
    /// The terms of every lease.
    pub lease: LeaseTerms,
}

/// Names of hash functions. Numbers are never given a second meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashIds {
    /// From key to partition; 1 is SipHash-2-4, 64 bits, top bits.
    pub routing: u8,
    /// From key to table entry; 1 is SipHash-2-4, 128 bits.
    pub fingerprint: u8,
    /// From partition to node; 1 is the circle of `ring::place`.
    pub placement: u8,
}

impl HashIds {
    /// Those this build knows.
    pub const KNOWN: HashIds = HashIds { routing: 1, fingerprint: 1, placement: 1 };
}

/// The times that ownership rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long a session may decide after it last asked.
    pub ttl: Span,
    /// How often it asks.
    pub renew: Span,
    /// By how much two nodes' clocks may differ in rate, in parts per thousand; at least 1, since no two run alike.
    pub rho_per_mille: u16,
    /// After how long an attempt's answer is no longer taken.
    pub d_max: Span,
}

impl Default for LeaseTerms {
    fn default() -> LeaseTerms {
        LeaseTerms::from(Terms::DEFAULT)
    }
}

impl From<Terms> for LeaseTerms {
    fn from(terms: Terms) -> LeaseTerms {
        let (ttl, renew, d_max) = (terms.ttl(), terms.renew(), terms.d_max());
        LeaseTerms { ttl, renew, rho_per_mille: terms.rho_per_mille(), d_max }
    }
}

impl LeaseTerms {
    /// The terms that leases follow.
    ///
    /// # Errors
    ///
    /// [`TermsError`]: a lease would not outlive the loss of a leader, or a number is outside its range.
    pub fn terms(&self) -> Result<Terms, TermsError> {
        Terms::new(self.ttl, self.renew, self.d_max, self.rho_per_mille)
    }
}

/// Why a genesis is none. The founder's doing; nothing was founded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// A name is empty or longer than [`NAME_MAX`].
    #[error("a name has 1 to {NAME_MAX} bytes: {name:?}")]
    Name {
        /// The name, cut to what can be shown.
        name: String,
    },
    /// No founder, more than [`FOUNDERS_MAX`], or one named twice.
    #[error("there are 1 to {FOUNDERS_MAX} founders, each named once")]
    Founders,
    /// A format, hash or key encoding that this build does not know.
    #[error("this build does not know format {format}, or its hashes or key encoding")]
    Unknown {
        /// The format.
        format: u16,
    },
    /// A time or a tolerance of zero, or a lease that would not outlive the loss of a leader.
    #[error(
        "lease.ttl must be longer than failover ({FAILOVER}) + renew + d_max + 2 rho ttl, and neither a time nor rho may be zero"
    )]
    Lease,
}

impl Genesis {
    /// The only format there is.
    pub const FORMAT: u16 = 1;
    /// The only layout of key parts there is.
    pub const KEY_ENCODING: u8 = 1;

    /// Whether a cluster may be founded on this.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), GenesisError> {
        for name in self.founders.iter().chain([&self.name]) {
            check_name(name)?;
        }
        let distinct: BTreeSet<&String> = self.founders.iter().collect();
        if self.founders.is_empty() || self.founders.len() > FOUNDERS_MAX || distinct.len() < self.founders.len() {
            return Err(GenesisError::Founders);
        }
        let known = self.format == Self::FORMAT
            && self.hashes == HashIds::KNOWN
            && self.key_encoding == Self::KEY_ENCODING
            && self.cluster_version > 0;
        if !known {
            return Err(GenesisError::Unknown { format: self.format });
        }
        let LeaseTerms { ttl, renew, d_max, rho_per_mille } = self.lease;
        let zero = [ttl, renew, d_max].contains(&Span::ZERO) || rho_per_mille == 0;
        if zero || self.lease.terms().is_err() { Err(GenesisError::Lease) } else { Ok(()) }
    }
}

fn check_name(name: &str) -> Result<(), GenesisError> {
    if (1..=NAME_MAX).contains(&name.len()) {
        Ok(())
    } else {
        Err(GenesisError::Name { name: name.chars().take(32).collect() })
    }
}

/// What two nodes compare to know that they were given the same founders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundersDigest(pub [u8; 16]);

impl FoundersDigest {
    /// SipHash-2-4 (128 bit, key of zeros) over the cluster's name, then the founders' in order of name, each as
    /// `len u32 LE | bytes`. The order in which a file lists them means nothing.
    pub fn of(cluster: &str, founders: &[String]) -> FoundersDigest {
        let mut sorted: Vec<&str> = founders.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let mut hasher = SipHasher24::new();
        for name in [cluster].into_iter().chain(sorted) {
            hasher.write(&(name.len() as u32).to_le_bytes());
            hasher.write(name.as_bytes());
        }
        FoundersDigest(hasher.finish128().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixtures;

    #[test]
    fn the_default_lease_outlives_a_failover_and_a_short_one_does_not() {
        assert!(LeaseTerms::default().terms().is_ok());
        // 0.65 + 0.5 + 0.25 = 1.4 s, and 2 % of the ttl: the least ttl is just above 1.4 / 0.98 s.
        let with_ttl = |nanos| LeaseTerms { ttl: Span::from_nanos(nanos), ..LeaseTerms::default() };
        assert!(with_ttl(1_428_571_428).terms().is_err());
        assert!(with_ttl(1_428_571_430).terms().is_ok(), "rounded up: what is waited is never cut");
    }

    #[test]
    fn a_genesis_with_one_thing_wrong_is_refused_for_that_thing() {
        let good = fixtures::genesis(3);
        assert_eq!(good.validate(), Ok(()));
        let wrong = |change: fn(&mut Genesis)| {
            let mut genesis = good.clone();
            change(&mut genesis);
            genesis.validate()
        };
        assert_eq!(wrong(|g| g.founders.clear()), Err(GenesisError::Founders));
        assert_eq!(wrong(|g| g.founders.push("n1".into())), Err(GenesisError::Founders));
        assert_eq!(wrong(|g| g.founders = (0..33).map(|n| n.to_string()).collect()), Err(GenesisError::Founders));
        assert_eq!(wrong(|g| g.founders[0].clear()), Err(GenesisError::Name { name: String::new() }));
        assert_eq!(wrong(|g| g.name = "x".repeat(254)), Err(GenesisError::Name { name: "x".repeat(32) }));
        assert_eq!(wrong(|g| g.format = 2), Err(GenesisError::Unknown { format: 2 }));
        assert_eq!(wrong(|g| g.hashes.routing = 2), Err(GenesisError::Unknown { format: 1 }));
        assert_eq!(wrong(|g| g.lease.d_max = Span::ZERO), Err(GenesisError::Lease));
        assert_eq!(wrong(|g| g.lease.rho_per_mille = 500), Err(GenesisError::Lease));
        assert_eq!(wrong(|g| g.lease.rho_per_mille = 0), Err(GenesisError::Lease));
    }

    #[test]
    fn a_digest_knows_the_names_and_not_their_order() {
        let digest = |cluster: &str, names: &[&str]| {
            FoundersDigest::of(cluster, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(digest("main", &["n1", "n2"]), digest("main", &["n2", "n1"]));
        assert_ne!(digest("main", &["n1", "n2"]), digest("main", &["n1n", "2"]));
        assert_ne!(digest("main", &["n1", "n2"]), digest("other", &["n1", "n2"]));
    }

    #[test]
    fn a_uuid_reads_as_one() {
        let id = ClusterId([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(id.to_string(), "12345678-9abc-def0-0102-030405060708");
    }
}
