//! The names of variants: which of a limit's numbers a check goes by. A name is a hash of what the policy calls them, the
//! plan or the key, and of nothing else: so it is the same on every node and at every revision, whatever the numbers are
//! by then.

use std::hash::Hasher as _;

use limits::{PartKind, Variant};
use siphasher::sip::SipHasher24;

const PLAN: u8 = 1;
const OVERRIDE: u8 = 2;

/// The numbers that a plan gives to a limit.
pub(crate) fn of_plan(plan: &str) -> Variant {
    named(PLAN, [(PartKind::Text, plan.as_bytes())])
}

/// The numbers that an override gives to a limit's key with these parts.
pub(crate) fn of_override<'p>(key: impl IntoIterator<Item = (PartKind, &'p [u8])>) -> Variant {
    named(OVERRIDE, key)
}

/// SipHash-2-4 with a key of zeros, since this is identity and no security, over the kind of name and its parts, each
/// `type u8 | len u32 LE | bytes`. The one hash in 2^64 that means a limit's own numbers is moved on to the next.
fn named<'p>(kind: u8, parts: impl IntoIterator<Item = (PartKind, &'p [u8])>) -> Variant {
    let mut hasher = SipHasher24::new_with_key(&[0; 16]);
    hasher.write(&[kind]);
    for (kind, bytes) in parts {
        hasher.write(&[kind as u8]);
        hasher.write(&(bytes.len() as u32).to_le_bytes());
        hasher.write(bytes);
    }
    Variant(hasher.finish().max(Variant::OWN.0 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_changes() {
        assert_eq!(of_plan("pro"), Variant(0x562a_8cd3_6e98_9cb8));
        assert_eq!(of_override([(PartKind::Text, &b"acme"[..])]), Variant(0x16ec_c5c9_619f_483e));
        assert_eq!(of_override([]), Variant(0x39ac_0ea2_89bc_b316));
    }

    #[test]
    fn what_is_called_differently_is_named_differently() {
        let text = |text: &'static str| (PartKind::Text, text.as_bytes());
        let names = [
            of_plan("pro"),
            of_plan("free"),
            of_override([text("pro")]),
            of_override([text("p"), text("ro")]),
            of_override([text("ro"), text("p")]),
            of_override([(PartKind::Ip, &b"pro"[..])]),
            of_override([]),
            Variant::OWN,
        ];
        let different: std::collections::BTreeSet<Variant> = names.into_iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
