//! Who is counted: the identity of a limit, and the fingerprint of one key under it. Key parts are typed and
//! length-prefixed before they are hashed, so no two different keys read the same bytes, and the hash is keyed, so
//! nobody outside can craft a collision. No key text is kept.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The identity of a limit: allotted by the control plane, from 1, never used again.
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
        let mut hasher = SipHasher24::new_with_key(&key.0);
        hasher.write(&limit.0.to_le_bytes());
        for part in parts {
            hasher.write(&[part.kind as u8]);
            hasher.write(&(part.bytes.len() as u32).to_le_bytes());
            hasher.write(part.bytes);
        }
        let hash = hasher.finish128();
        Fingerprint([hash.h1, hash.h2])
    }
}
