//! That no two plans or overrides of one limit are known by one name: owners look their numbers up by a hash.

use std::collections::BTreeMap;

use limits::{PartKind, Variant};

use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::variant;

use super::conflict;

/// What a variant of a limit is called.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Called {
    Plan(String),
    Override(Vec<(PartKind, Vec<u8>)>),
}

/// The variants that were read so far, by limit.
#[derive(Debug, Default)]
pub(super) struct Variants {
    known: BTreeMap<(u32, Variant), Called>,
}

impl Variants {
    pub(super) fn note_plan(&mut self, limit: u32, name: &str, plan: &str, at: Position, findings: &mut Findings) {
        let called = Called::Plan(plan.to_owned());
        self.note(limit, name, variant::of_plan(plan), called, at, findings);
    }

    /// Also notes a key that has an override already.
    pub(super) fn note_override(
        &mut self,
        limit: u32,
        name: &str,
        key: &[(PartKind, Vec<u8>)],
        at: Position,
        findings: &mut Findings,
    ) {
        let variant = variant::of_override(key.iter().map(|(kind, bytes)| (*kind, &bytes[..])));
        self.note(limit, name, variant, Called::Override(key.to_vec()), at, findings);
    }

    fn note(
        &mut self,
        limit: u32,
        name: &str,
        variant: Variant,
        called: Called,
        at: Position,
        findings: &mut Findings,
    ) {
        match self.known.get(&(limit, variant)) {
            None => drop(self.known.insert((limit, variant), called)),
            Some(other) if *other == called => {
                let message = format!("this key of `{name}` has an override already");
                findings.push(PolicyError::new(at, PolicyCode::Duplicate, message).expected("one override for a key"));
            }
            Some(Called::Plan(_) | Called::Override(_)) => {
                let message = format!("owners could not tell this from another plan or override of `{name}`");
                findings.push(conflict(at, &message).expected("another plan's name, or another key"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(first: (u32, Called), second: (u32, Called)) -> Vec<PolicyCode> {
        let (mut variants, mut findings) = (Variants::default(), Findings::default());
        for (limit, called) in [first, second] {
            variants.note(limit, "a", Variant(7), called, Position::START, &mut findings);
        }
        findings.into_errors().iter().map(|error| error.code).collect()
    }

    #[test]
    fn two_variants_of_one_limit_that_owners_could_not_tell_apart_are_refused() {
        let plan = |name: &str| Called::Plan(name.to_owned());
        let key = |text: &str| Called::Override(vec![(PartKind::Text, text.as_bytes().to_vec())]);
        assert_eq!(noted((0, plan("a")), (0, plan("b"))), [PolicyCode::Conflict]);
        assert_eq!(noted((0, plan("a")), (0, key("a"))), [PolicyCode::Conflict]);
        assert_eq!(noted((0, key("a")), (0, key("a"))), [PolicyCode::Duplicate]);
        assert_eq!(noted((0, plan("a")), (1, plan("b"))), [], "another limit's are looked up apart");
    }
}
