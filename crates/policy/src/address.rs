//! Addresses as a limiter counts them: an IPv4 address by itself, an IPv6 address by its /64, since one household or
//! host has a whole /64 to choose from. An IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`) is the IPv4 address.

use std::net::IpAddr;

/// Bytes of an IPv6 address that are its group: a /64.
const GROUP_BYTES: usize = 8;

/// A parsed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    whole: [u8; 16],
    group: [u8; 16],
    len: u8,
}

impl Address {
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
        let mut group = whole;
        group[GROUP_BYTES..].fill(0);
        Some(Address { whole, group, len })
    }

    /// The address itself, 4 or 16 bytes: what rules match.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.whole[..usize::from(self.len)]
    }

    /// What keys count by: the 4 bytes of an IPv4 address, or the 16 bytes of an IPv6 /64 with the host bits cleared.
    pub(crate) fn group(&self) -> &[u8] {
        &self.group[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn group(text: &str) -> Vec<u8> {
        Address::parse(text).unwrap().group().to_vec()
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
    fn what_is_not_just_an_address_is_none() {
        for text in ["", "1.2.3", "1.2.3.4:80", "[::1]", "fe80::1%eth0", "10.0.0.0/8", "010.0.0.1", "localhost", " ::1"]
        {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
