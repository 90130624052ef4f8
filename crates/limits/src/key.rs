//! Who is counted: the identity of a limit, and the fingerprint of one key under it. Key parts are typed and
//! length-prefixed before they are hashed, so no two different keys read the same bytes, and the hash is keyed, so
//! nobody outside can craft a collision. No key text is kept.

use std::hash::Hasher as _;

use siphasher::sip128::SipHasher24;

/// The largest identity that is allotted, so that a table by identity stays small: 4 million.
pub const LIMIT_ID_MAX: u32 = 1 << 22;

/// The identity of a limit: allotted by the control plane, from 1 to [`LIMIT_ID_MAX`], never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(pub u32);

/// What a key part is. The numbers are part of every stored fingerprint and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartKind {
    /// UTF-8 text, as it came.
    Text = 1,
    /// An address: 4 bytes of IPv4, or the 16 bytes of an IPv6 prefix with the host bits cleared.
    Ip = 2,
}

/// One typed part of a key, or of the values it is routed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// What the bytes are.
    pub kind: PartKind,
    /// The value, at most 256 bytes.
    pub bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// A part of text.
    pub const fn text(text: &'a str) -> Part<'a> {
        Part { kind: PartKind::Text, bytes: text.as_bytes() }
    }
}

/// The secret that fingerprints are keyed with; made at genesis, known to servers only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FingerprintKey(pub [u8; 16]);

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey(..)")
    }
}

/// SipHash-2-4 with 128 bits over a limit's id and the parts of a key: the identity of an entry in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u64; 2]);

impl Fingerprint {
    /// The fingerprint of a key under a limit: `limit u32 LE`, then per part `kind u8 | len u32 LE | bytes`.
    pub fn of<'a>(key: &FingerprintKey, limit: LimitId, parts: impl IntoIterator<Item = Part<'a>>) -> Fingerprint {
        let mut hasher = Keyed { hasher: SipHasher24::new_with_key(&key.0), waiting: [0; WAITING], len: 0 };
        hasher.write(&limit.0.to_le_bytes());
        for part in parts {
            let [a, b, c, d] = (part.bytes.len() as u32).to_le_bytes();
            hasher.write(&[part.kind as u8, a, b, c, d]);
            hasher.write(part.bytes);
        }
        hasher.finish()
    }
}

/// Bytes collected before they are hashed. Most keys fit, and hashing them in one go takes half the time of hashing them
/// piece by piece.
const WAITING: usize = 128;

/// A hasher that collects small pieces.
struct Keyed {
    hasher: SipHasher24,
    waiting: [u8; WAITING],
    len: usize,
}

impl Keyed {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if let Some(room) = self.waiting.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        } else {
            self.hasher.write(&self.waiting[..self.len]);
            self.hasher.write(bytes);
            self.len = 0;
        }
    }

    #[inline]
    fn finish(self) -> Fingerprint {
        let hash = self.hasher.hash(&self.waiting[..self.len]);
        Fingerprint([hash.h1, hash.h2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FingerprintKey = FingerprintKey(*b"0123456789abcdef");

    /// The definition, piece by piece.
    fn defined(limit: LimitId, parts: &[Part<'_>]) -> Fingerprint {
        let mut bytes = limit.0.to_le_bytes().to_vec();
        for part in parts {
            bytes.push(part.kind as u8);
            bytes.extend((part.bytes.len() as u32).to_le_bytes());
            bytes.extend(part.bytes);
        }
        let hash = SipHasher24::new_with_key(&KEY.0).hash(&bytes);
        Fingerprint([hash.h1, hash.h2])
    }

    #[test]
    fn a_fingerprint_is_the_hash_of_the_keys_bytes_however_long_they_are() {
        let text = "x".repeat(700);
        for first in [0, 1, 5, 113, 114, 118, 119, 120, 256, 300] {
            for second in [0, 3, 122, 123, 124, 256] {
                let parts = [
                    Part::text(&text[..first]),
                    Part { kind: PartKind::Ip, bytes: &[9; 16] },
                    Part::text(&text[..second]),
                ];
                assert_eq!(Fingerprint::of(&KEY, LimitId(7), parts), defined(LimitId(7), &parts), "{first}, {second}");
            }
        }
    }

    #[test]
    fn a_fingerprint_is_siphash_as_its_authors_publish_it() {
        // The reference vector for the message 00 01 02 03 under the key 00 .. 0f: here, a limit and no parts.
        let key = FingerprintKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let Fingerprint([first, second]) = Fingerprint::of(&key, LimitId(0x0302_0100), []);
        assert_eq!(first.to_be_bytes(), *b"\xaf\x8f\x9c\x2d\xc1\x64\x81\xf8");
        assert_eq!(second.to_be_bytes(), *b"\x79\x55\xcd\x7b\x7c\x6e\x0f\x7d");
    }

    #[test]
    fn fingerprints_never_change() {
        let parts = [Part::text("acme"), Part { kind: PartKind::Ip, bytes: &[192, 0, 2, 1] }];
        let print = Fingerprint([16_013_728_658_419_371_045, 2_769_495_314_991_271_271]);
        assert_eq!(Fingerprint::of(&KEY, LimitId(1), parts), print, "stored state would be lost");
    }

    #[test]
    fn p20_different_keys_read_different_bytes() {
        let (ab, c) = (Part::text("ab"), Part::text("c"));
        let (a, bc) = (Part::text("a"), Part::text("bc"));
        let nul = Part::text("a\0bc");
        let ip = Part { kind: PartKind::Ip, bytes: b"abcd" };
        let keys: [&[Part<'_>]; 7] =
            [&[ab, c], &[a, bc], &[nul], &[a, Part::text(""), bc], &[ip], &[Part::text("abcd")], &[]];
        let mut prints: Vec<_> =
            keys.iter().map(|parts| Fingerprint::of(&KEY, LimitId(1), parts.iter().copied())).collect();
        prints.push(Fingerprint::of(&KEY, LimitId(2), [ab, c]));
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), 8);
    }
}
