//! The cluster secret: what lets a peer in, and nothing else. Up to two are held at once so that it can be rotated while
//! the cluster runs: the primary signs, both verify. Comparisons take the same time whether or not they succeed.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use thiserror::Error;

/// The shortest secret, in bytes.
pub const SECRET_MIN: usize = 16;

/// The length of a tag, in bytes: HMAC-SHA256 (RFC 2104), never truncated.
pub const TAG_LEN: usize = 32;

/// A secret too short to guard anything. The configuration's doing; nothing changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the cluster secret has {length} bytes; at least {SECRET_MIN} are needed")]
pub struct SecretError {
    /// What was given, in bytes.
    pub length: usize,
}

/// One secret of [`SECRET_MIN`] bytes or more, held as a keyed MAC. Its `Debug` says nothing.
#[derive(Clone)]
pub struct ClusterSecret(Hmac<Sha256>);

impl ClusterSecret {
    /// The secret with these bytes, exactly as given: whoever reads it from a file strips the line's end.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if there are fewer than [`SECRET_MIN`].
    pub fn new(bytes: &[u8]) -> Result<ClusterSecret, SecretError> {
        if bytes.len() < SECRET_MIN {
            return Err(SecretError { length: bytes.len() });
        }
        Ok(ClusterSecret(Hmac::new_from_slice(bytes).expect("HMAC takes a key of any length")))
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        parts.iter().fold(self.0.clone(), |mac, part| mac.chain_update(part))
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(..)")
    }
}

/// The secrets in force: one, or two while it is being rotated.
///
/// To rotate from A to B without a gap, give every node `A` with `B` also accepted, then `B` with `A` also accepted, then
/// `B` alone, each step everywhere before the next: any two nodes one step apart verify each other.
#[derive(Clone, Debug)]
pub struct Secrets {
    primary: ClusterSecret,
    also: Option<ClusterSecret>,
}

impl Secrets {
    /// `primary` signs and verifies.
    pub fn new(primary: ClusterSecret) -> Secrets {
        Secrets { primary, also: None }
    }

    /// `also` verifies, but signs nothing. A second call replaces the first's.
    pub fn and_accept(self, also: ClusterSecret) -> Secrets {
        Secrets { also: Some(also), ..self }
    }

    /// The primary's tag over the parts, one after the other. Callers make the parts' borders unambiguous.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        self.primary.over(parts).finalize().into_bytes().into()
    }

    /// Whether `tag` over the parts was made with any secret in force.
    pub(crate) fn verify(&self, parts: &[&[u8]], tag: &[u8; TAG_LEN]) -> bool {
        let verifies = |secret: &ClusterSecret| secret.over(parts).verify_slice(tag).is_ok();
        // `|`, not `||`: which of the two it was is nobody's business either.
        verifies(&self.primary) | self.also.as_ref().is_some_and(verifies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> ClusterSecret {
        ClusterSecret::new(&[byte; SECRET_MIN]).unwrap()
    }

    #[test]
    fn a_short_secret_is_refused_and_a_good_one_never_printed() {
        assert_eq!(ClusterSecret::new(&[7; 15]).unwrap_err(), SecretError { length: 15 });
        let secret = ClusterSecret::new(b"correct horse battery staple").unwrap();
        let printed = format!("{:?}", Secrets::new(secret));
        assert!(!printed.contains("horse") && printed.contains("ClusterSecret(..)"), "{printed}");
    }

    #[test]
    fn a_tag_is_the_published_hmac() {
        // RFC 4231, test case 1: twenty bytes of 0x0b over "Hi There".
        let tag = Secrets::new(ClusterSecret::new(&[0x0b; 20]).unwrap()).sign(&[b"Hi ", b"There"]);
        let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[test]
    fn every_step_of_a_rotation_verifies_the_step_before_and_after() {
        let steps = [
            Secrets::new(secret(1)),
            Secrets::new(secret(1)).and_accept(secret(2)),
            Secrets::new(secret(2)).and_accept(secret(1)),
            Secrets::new(secret(2)),
        ];
        for (at, from) in steps.iter().enumerate() {
            for (to, other) in steps.iter().enumerate() {
                let verified = other.verify(&[b"body"], &from.sign(&[b"body"]));
                if at.abs_diff(to) <= 1 {
                    assert!(verified, "step {at} signs, step {to} verifies");
                }
            }
        }
        assert!(!steps[3].verify(&[b"body"], &steps[0].sign(&[b"body"])), "the old secret ends with its last step");
    }

    #[test]
    fn one_changed_bit_fails() {
        let secrets = Secrets::new(secret(1)).and_accept(secret(2));
        let mut tag = secrets.sign(&[b"body"]);
        tag[31] ^= 1;
        assert!(!secrets.verify(&[b"body"], &tag));
        assert!(!secrets.verify(&[b"bodi"], &secrets.sign(&[b"body"])));
    }
}
