//! What the control plane knows of a limit: its name, and a digest of what its identity hangs on. A limit whose digest
//! changed counts something else and takes a new `LimitId`; everything else about it may change under the same one.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::address::IpPrefixes;
use crate::document::{Document, LimitSpec};

/// One limit of a document, for the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitDigest {
    /// The limit's name.
    pub name: String,
    /// SipHash-2-4 with 128 bits and a key of zeros over key and route; identity, not security. Per list: count u32 LE,
    /// then per attribute `len u32 LE | bytes`; the route's list is preceded by a byte, 1, and is the single byte 0
    /// without a route; prefixes of addresses other than the usual ones follow as the bytes 2, IPv4's and IPv6's. The bytes are those of the low half, little-endian, then of the high half.
    pub digest: [u8; 16],
    /// The name it had before, if it was renamed.
    pub renamed_from: Option<String>,
}

impl Document {
    /// The limits as the control plane sees them, in the order of the text.
    pub fn limit_digests(&self) -> Vec<LimitDigest> {
        let digest = |limit: &LimitSpec| LimitDigest {
            name: limit.name.clone(),
            digest: of(&limit.key, limit.route.as_deref(), limit.prefixes),
            renamed_from: limit.renamed_from.clone(),
        };
        self.limits.iter().map(digest).collect()
    }
}

/// The digest of a key and its route.
pub(crate) fn of(key: &[String], route: Option<&[String]>, prefixes: IpPrefixes) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(&[0; 16]);
    write_list(&mut hasher, key);
    hasher.write(&[u8::from(route.is_some())]);
    route.inspect(|route| write_list(&mut hasher, route));
    if prefixes != IpPrefixes::default() {
        hasher.write(&[2, prefixes.v4, prefixes.v6]);
    }
    hasher.finish128().as_bytes()
}

fn write_list(hasher: &mut SipHasher24, names: &[String]) {
    hasher.write(&(names.len() as u32).to_le_bytes());
    for name in names {
        hasher.write(&(name.len() as u32).to_le_bytes());
        hasher.write(name.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn digest_of(limit: &str) -> [u8; 16] {
        let text = format!("ringfence: 1\ndomain: d\nlimits:\n  a: {{ {limit} }}\n");
        Document::parse(&text).unwrap().limit_digests()[0].digest
    }

    #[test]
    fn the_digest_is_of_key_and_route_alone() {
        let digest = digest_of("rate: 1/s, key: [org, user]");
        assert_eq!(
            digest,
            digest_of("rate: 9/h, key: [org, user], fail: closed, mode: shadow, algorithm: sliding-log")
        );
        let others = [
            "rate: 1/s, key: [user, org]",
            "rate: 1/s, key: [org]",
            "rate: 1/s, key: []",
            "rate: 1/s, key: [org, user], route: []",
            "rate: 1/s, key: [org, user], route: [org]",
            "rate: 1/s, key: [org, user], route: [user]",
            "rate: 1/s, key: [org, user], route: [user, org]",
            "rate: 1/s, key: [orguser]",
            "rate: 1/s, key: [ip]",
            "rate: 1/s, key: [ip], ipv6_prefix: 56",
            "rate: 1/s, key: [ip], ipv4_prefix: 24",
            "rate: 1/s, key: [ip], ipv4_prefix: 24, ipv6_prefix: 56",
        ];
        let mut digests: Vec<[u8; 16]> = others.iter().map(|limit| digest_of(limit)).chain([digest]).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), others.len() + 1);
    }

    #[test]
    fn the_usual_prefixes_may_be_written_or_left_out() {
        let digest = digest_of("rate: 1/s, key: [ip]");
        assert_eq!(digest, digest_of("rate: 1/s, key: [ip], ipv4_prefix: 32, ipv6_prefix: 64"));
    }

    #[test]
    fn the_order_in_which_a_route_is_written_is_no_part_of_it() {
        let digest = digest_of("rate: 1/s, key: [org, user], route: [org, user]");
        assert_eq!(digest, digest_of("rate: 1/s, key: [org, user], route: [user, org]"));
    }

    #[test]
    fn a_digest_never_changes() {
        assert_eq!(hex(digest_of("rate: 1/s, key: [client]")), "3fdae84f946e596f0f6a2e71854d948d");
        assert_eq!(hex(digest_of("rate: 1/s, key: [org, user], route: [org]")), "0c8d1728ec8a4aec29782c3e2d964579");
    }

    fn hex(bytes: [u8; 16]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
