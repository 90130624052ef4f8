//! Addresses as a limiter counts them: an IPv4 address by itself and an IPv6 address by its /64, since one household or
//! host has a whole /64 to choose from, unless a limit says otherwise. An IPv4 address that is written as IPv6
//! (`::ffff:192.0.2.1`) is the IPv4 address.

use std::net::IpAddr;

/// How many leading bits of an address are its group: what a limit counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefixes {
    /// Of an IPv4 address, 1 to 32.
    pub v4: u8,
    /// Of an IPv6 address, 1 to 128.
    pub v6: u8,
}

impl Default for IpPrefixes {
    fn default() -> IpPrefixes {
        IpPrefixes { v4: 32, v6: 64 }
    }
}

/// A parsed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    whole: [u8; 16],
    len: u8,
}

impl Address {
    /// No address.
    pub(crate) const NONE: Address = Address { whole: [0; 16], len: 0 };

    /// Reads an IPv4 or IPv6 address in the usual notation; no port, no zone, no prefix length.
    pub(crate) fn parse(text: &str) -> Option<Address> {
        let (whole, len) = match text.parse::<IpAddr>().ok()?.to_canonical() {
            IpAddr::V4(v4) => {
                let mut whole = [0; 16];
                whole[..4].copy_from_slice(&v4.octets());
                (whole, 4)
            }
            IpAddr::V6(v6) => (v6.octets(), 16),
        };
        Some(Address { whole, len })
    }

    /// The address itself, 4 or 16 bytes: what rules match.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.whole[..usize::from(self.len)]
    }

    /// The address as others spell it.
    pub(crate) fn to_ip(self) -> IpAddr {
        let [a, b, c, d, ..] = self.whole;
        if self.len == 4 { IpAddr::from([a, b, c, d]) } else { IpAddr::from(self.whole) }
    }

    /// What keys count by: the address with the bits behind its prefix cleared, still 4 or 16 bytes.
    #[inline]
    pub(crate) fn group(&self, prefixes: IpPrefixes) -> Address {
        // The four bytes of an IPv4 address lie at the front, so that one mask does for both.
        let bits = u32::from(if self.len == 4 { prefixes.v4 } else { prefixes.v6 });
        let mask = u128::MAX.checked_shl(u128::BITS.saturating_sub(bits)).unwrap_or(0);
        Address { whole: (u128::from_be_bytes(self.whole) & mask).to_be_bytes(), len: self.len }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn group(text: &str) -> Vec<u8> {
        Address::parse(text).unwrap().group(IpPrefixes::default()).bytes().to_vec()
    }

    fn by(v4: u8, v6: u8, text: &str) -> Address {
        Address::parse(text).unwrap().group(IpPrefixes { v4, v6 })
    }

    #[test]
    fn an_ipv4_address_is_the_same_however_it_is_written() {
        assert_eq!(group("192.0.2.1"), [192, 0, 2, 1]);
        assert_eq!(group("::ffff:192.0.2.1"), [192, 0, 2, 1]);
        assert_eq!(group("::FFFF:c000:201"), [192, 0, 2, 1]);
        assert_eq!(Address::parse("::ffff:192.0.2.1"), Address::parse("192.0.2.1"));
    }

    #[test]
    fn ipv6_addresses_of_one_64_are_one_group() {
        assert_eq!(group("2001:db8::1"), group("2001:db8:0:0:ffff:ffff:ffff:ffff"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:0:1::1"));
        assert_ne!(Address::parse("2001:db8::1").unwrap().bytes(), Address::parse("2001:db8::2").unwrap().bytes());
    }

    #[test]
    fn a_group_is_as_large_as_its_prefix_says() {
        let same = |v4, v6, one, other| by(v4, v6, one) == by(v4, v6, other);
        assert!(same(24, 64, "192.0.2.1", "192.0.2.254") && !same(24, 64, "192.0.2.1", "192.0.3.1"));
        assert!(same(1, 64, "128.0.0.1", "255.255.255.255") && !same(1, 64, "128.0.0.1", "127.0.0.1"));
        assert!(
            same(32, 56, "2001:db8:0:ff::1", "2001:db8:0:1::1") && !same(32, 56, "2001:db8:0:100::1", "2001:db8::1")
        );
        assert!(same(32, 1, "8000::", "ffff::1") && !same(32, 1, "8000::", "7fff::"));
        assert!(!same(32, 128, "2001:db8::1", "2001:db8::2"));
        assert!(same(24, 128, "::ffff:192.0.2.1", "192.0.2.9"), "an IPv4 address goes by the prefix of IPv4");
        assert_ne!(by(32, 32, "1.2.3.4"), by(32, 32, "102:304::"), "the kinds are never mixed up");
        assert_eq!(by(24, 64, "192.0.2.1").bytes(), [192, 0, 2, 0]);
    }

    #[test]
    fn what_is_not_just_an_address_is_none() {
        for text in ["", "1.2.3", "1.2.3.4:80", "[::1]", "fe80::1%eth0", "10.0.0.0/8", "010.0.0.1", "localhost", " ::1"]
        {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
