//! The secret and the tokens of one run: made by chance, written down as a node's file wants them, gone with the run.

use sha2::{Digest as _, Sha256};

/// A secret text of 64 hexadecimal digits.
pub fn fresh() -> String {
    let bytes: [u8; 32] = rand::random();
    hex(&bytes)
}

/// SHA-256 of a text, in hexadecimal digits.
pub fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_standard() {
        assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_ne!(fresh(), fresh());
        assert_eq!(fresh().len(), 64);
    }
}
