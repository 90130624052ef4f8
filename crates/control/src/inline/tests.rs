//! Whoever comes first defines; whoever disagrees is told; the next revision begins anew and forgets no number.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::command::{Command, Expected, LimitDigest, PolicyProposal};
use crate::refusal::Applied;
use crate::state::fixtures::*;

fn revision(history: &mut History) {
    let limits = vec![LimitDigest { name: "a".into(), digest: [9; 16], renamed_from: None }];
    let (document, author, reason) = (Arc::from("ringfence: 1"), "ann".into(), String::new());
    let proposal = PolicyProposal {
        domain: "api".into(),
        expected: Expected::Any,
        document,
        limits,
        author,
        reason,
        at_unix_ms: 0,
    };
    history.apply(Command::ApplyPolicy(Box::new(proposal))).unwrap();
}

/// A cluster with revision 1 of domain `api`.
fn history() -> History {
    let mut history = History::founded(1);
    revision(&mut history);
    history
}

fn proposal(revision: u64, name: &str, definition: &str) -> InlineProposal {
    InlineProposal {
        domain: "api".into(),
        revision,
        name: name.into(),
        digest: [7; 16],
        definition: Arc::from(definition),
        most: 2,
    }
}

fn define(history: &mut History, proposal: InlineProposal) -> Result<Applied, Refusal> {
    history.apply(Command::DefineInline(Box::new(proposal)))
}

fn id(history: &History, name: &str) -> LimitEntry {
    history.cluster().policies.domain("api").unwrap().inline.limits[name].entry
}

#[test]
fn the_first_check_defines_a_limit_and_who_agrees_changes_nothing() {
    let mut history = history();
    assert_eq!(define(&mut history, proposal(1, "x", "5/min")), Ok(Applied::InlineDefined));
    let first = id(&history, "x");
    assert_eq!(first.id.0, 2, "after the limit of the document");
    assert_eq!(define(&mut history, proposal(1, "x", "5/min")), Ok(Applied::InlineDefined));
    assert_eq!(id(&history, "x"), first);
}

#[test]
fn who_disagrees_about_a_rate_or_a_key_is_told_what_stands() {
    let mut history = history();
    define(&mut history, proposal(1, "x", "5/min")).unwrap();
    let conflict = Err(Refusal::InlineConflict { definition: "5/min".into() });
    assert_eq!(define(&mut history, proposal(1, "x", "6/min")), conflict);
    assert_eq!(define(&mut history, InlineProposal { digest: [8; 16], ..proposal(1, "x", "5/min") }), conflict);
}

#[test]
fn no_more_are_defined_than_the_revision_allows() {
    let mut history = history();
    define(&mut history, proposal(1, "x", "5/min")).unwrap();
    define(&mut history, proposal(1, "y", "5/min")).unwrap();
    assert_eq!(define(&mut history, proposal(1, "z", "5/min")), Err(Refusal::InlineFull { most: 2 }));
    assert_eq!(define(&mut history, proposal(1, "x", "5/min")), Ok(Applied::InlineDefined), "what stands, stands");
}

#[test]
fn the_next_revision_pins_anew_and_a_limit_keeps_its_number_while_its_key_stays() {
    let mut history = history();
    define(&mut history, proposal(1, "x", "5/min")).unwrap();
    define(&mut history, proposal(1, "y", "5/min")).unwrap();
    let (x, y) = (id(&history, "x"), id(&history, "y"));
    revision(&mut history);
    assert_eq!(define(&mut history, proposal(1, "x", "5/min")), Err(Refusal::RevisionConflict { current: 2 }));
    assert_eq!(define(&mut history, proposal(2, "x", "9/min")), Ok(Applied::InlineDefined));
    assert_eq!(
        define(&mut history, InlineProposal { digest: [8; 16], ..proposal(2, "y", "5/min") }),
        Ok(Applied::InlineDefined)
    );
    assert_eq!(id(&history, "x"), x);
    assert!(id(&history, "y").id > y.id, "another key is another limit");
    let inline = &history.cluster().policies.domain("api").unwrap().inline;
    assert_eq!(
        inline.in_force(2).map(|(name, limit)| (name, &*limit.definition)).collect::<Vec<_>>(),
        [("x", "9/min"), ("y", "5/min")]
    );
}

#[test]
fn a_domain_without_policy_an_empty_name_and_an_endless_definition_are_refused() {
    let mut history = history();
    let elsewhere = InlineProposal { domain: "web".into(), ..proposal(1, "x", "5/min") };
    assert_eq!(define(&mut history, elsewhere), Err(Refusal::RevisionConflict { current: 0 }));
    assert_eq!(define(&mut history, proposal(1, "", "5/min")), Err(Refusal::BadText));
    assert_eq!(define(&mut history, proposal(1, "x", &"9".repeat(TEXT_MAX + 1))), Err(Refusal::BadText));
}

#[test]
fn of_more_limits_than_are_kept_the_first_of_an_earlier_revision_goes() {
    let mut history = history();
    for number in 0..INLINE_KEPT {
        let many = InlineProposal { most: u32::MAX, ..proposal(1, &format!("n{number}"), "5/min") };
        define(&mut history, many).unwrap();
    }
    let one_more = InlineProposal { most: u32::MAX, ..proposal(1, "more", "5/min") };
    assert_eq!(define(&mut history, one_more), Err(Refusal::InlineFull { most: INLINE_KEPT as u32 }));
    revision(&mut history);
    define(&mut history, proposal(2, "more", "5/min")).unwrap();
    let inline = &history.cluster().policies.domain("api").unwrap().inline;
    assert_eq!(
        (inline.limits.len(), inline.limits.contains_key("n0"), inline.limits.contains_key("n1")),
        (INLINE_KEPT, false, true)
    );
}
