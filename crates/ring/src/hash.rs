//! From a routing key to its partition. The hash is keyed, so that nobody outside can pile keys onto one owner; its
//! bytes are part of the cluster's contract with smart clients and never change.

use std::fmt;
use std::hash::Hasher as _;
use std::num::NonZeroU64;

use siphasher::sip::SipHasher24;

/// A node's identity: random, made once in its data directory, never used again. The raft id and the gossip identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub NonZeroU64);

/// One of the fixed number of slices of the key space, 0 to the cluster's partition count less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

/// How many partitions a cluster has: a power of two from 1 to [`PartitionCount::MAX`], fixed at genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionCount(u16);

impl PartitionCount {
    /// The most partitions a cluster can have, and the default.
    pub const MAX: PartitionCount = PartitionCount(4096);

    /// `count` partitions; `None` unless it is a power of two from 1 to 4096.
    pub const fn new(count: u16) -> Option<PartitionCount> {
        if count.is_power_of_two() && count <= Self::MAX.0 { Some(PartitionCount(count)) } else { None }
    }

    /// The number itself.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Every partition, in order.
    pub fn partitions(self) -> impl DoubleEndedIterator<Item = PartitionId> + ExactSizeIterator {
        (0..self.0).map(PartitionId)
    }

    /// Whether `partition` is one of them.
    pub const fn contains(self, partition: PartitionId) -> bool {
        partition.0 < self.0
    }
}

impl Default for PartitionCount {
    fn default() -> PartitionCount {
        PartitionCount::MAX
    }
}

/// What routing is keyed with: made at genesis, given to servers and to authenticated smart clients, never changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RoutingSeed(pub [u8; 16]);

impl fmt::Debug for RoutingSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoutingSeed(..)")
    }
}

/// Within what a check is routed. Limits that share a route lie together, so that one owner decides them at once; a
/// limit with a route of its own lies by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All limits of this domain that share the domain's route.
    Domain(&'a str),
    /// One limit alone, by its number.
    Limit(u32),
}

/// Where a check belongs, before it is known how many partitions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingHash(pub u64);

impl RoutingHash {
    /// SipHash-2-4 (64 bit) keyed with the seed over the scope (`0 | len u32 LE | name` or `1 | limit u32 LE`), then
    /// per part `kind u8 | len u32 LE | bytes`: prefix-free, so no two different routes read the same bytes. A part is
    /// at most 256 bytes long.
    pub fn of<'a>(
        seed: &RoutingSeed,
        scope: Scope<'_>,
        parts: impl IntoIterator<Item = (u8, &'a [u8])>,
    ) -> RoutingHash {
        let mut hasher = SipHasher24::new_with_key(&seed.0);
        match scope {
            Scope::Domain(name) => write_bytes(&mut hasher, 0, name.as_bytes()),
            Scope::Limit(limit) => {
                hasher.write(&[1]);
                hasher.write(&limit.to_le_bytes());
            }
        }
        for (kind, bytes) in parts {
            write_bytes(&mut hasher, kind, bytes);
        }
        RoutingHash(hasher.finish())
    }

    /// The partition that the top bits name.
    pub const fn partition(self, count: PartitionCount) -> PartitionId {
        PartitionId(((self.0 as u128 * count.0 as u128) >> 64) as u16)
    }
}

/// `tag u8 | len u32 LE | bytes`
fn write_bytes(hasher: &mut SipHasher24, tag: u8, bytes: &[u8]) {
    hasher.write(&[tag]);
    hasher.write(&(bytes.len() as u32).to_le_bytes());
    hasher.write(bytes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    const SEED: RoutingSeed = RoutingSeed([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    #[test]
    fn the_hash_is_the_published_siphash_2_4() {
        // The first two of the reference vectors in the SipHash paper's code.
        let mut hasher = SipHasher24::new_with_key(&SEED.0);
        assert_eq!(hasher.finish(), 0x726f_db47_dd0e_0e31);
        hasher.write(&[0]);
        assert_eq!(hasher.finish(), 0x74f8_39c5_93dc_67fd);
    }

    #[test]
    fn the_bytes_that_are_hashed_never_change() {
        let alice: &[(u8, &[u8])] = &[(1, b"alice")];
        let pair: &[(u8, &[u8])] = &[(1, b"acme"), (2, &[10, 0, 0, 1])];
        let golden = [
            (Scope::Domain("default"), alice, GOLDEN[0]),
            (Scope::Domain("default"), pair, GOLDEN[1]),
            (Scope::Limit(7), alice, GOLDEN[2]),
            (Scope::Limit(7), &[], GOLDEN[3]),
        ];
        for (scope, parts, hash) in golden {
            assert_eq!(RoutingHash::of(&SEED, scope, parts.iter().copied()), RoutingHash(hash), "{scope:?} {parts:?}");
        }
    }

    /// Computed by an independent implementation of SipHash over the documented bytes.
    const GOLDEN: [u64; 4] =
        [0xaf19_cf56_1fd5_773b, 0x4bf0_78ac_9c52_45d3, 0x5b96_d4a4_59b1_51d0, 0x6840_b887_208a_ee74];

    #[test]
    fn a_partition_is_the_hash_s_top_bits() {
        let hash = RoutingHash(0xabc0_0000_0000_0001);
        assert_eq!(hash.partition(PartitionCount::MAX), PartitionId(0xabc));
        assert_eq!(hash.partition(PartitionCount::new(16).unwrap()), PartitionId(0xa));
        assert_eq!(RoutingHash(u64::MAX).partition(PartitionCount::MAX), PartitionId(4095));
        assert_eq!(RoutingHash(u64::MAX).partition(PartitionCount::new(1).unwrap()), PartitionId(0));
    }

    #[test]
    fn a_count_is_a_power_of_two_up_to_4096() {
        let counts: Vec<u16> = (0..=u16::MAX).filter(|&n| PartitionCount::new(n).is_some()).collect();
        assert_eq!(counts, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
    }

    #[test]
    fn a_seed_does_not_show_in_debug_output() {
        assert_eq!(format!("{SEED:?}"), "RoutingSeed(..)");
    }

    proptest! {
        #[test]
        fn parts_that_read_alike_when_joined_lie_apart(text in "[a-z]{2,12}", cut in 1usize..11) {
            prop_assume!(cut < text.len());
            let (head, tail) = text.as_bytes().split_at(cut);
            let one = RoutingHash::of(&SEED, Scope::Limit(1), [(1, text.as_bytes())]);
            let two = RoutingHash::of(&SEED, Scope::Limit(1), [(1, head), (1, tail)]);
            let as_domain = RoutingHash::of(&SEED, Scope::Domain(&text), []);
            prop_assert_ne!(one, two);
            prop_assert_ne!(one, as_domain);
        }

        #[test]
        fn a_partition_is_always_one_of_the_count(hash: u64, bits in 0u32..=12) {
            let count = PartitionCount::new(1 << bits).unwrap();
            prop_assert!(count.contains(RoutingHash(hash).partition(count)));
        }
    }
}
