//! Revisions count, limits keep their numbers for as long as they are the same limits, and everything is bounded.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::state::fixtures::policy;

/// One domain, and the index of the next entry.
struct Story {
    policies: Policies,
    index: u64,
}

impl Story {
    fn new() -> Story {
        Story { policies: Policies::default(), index: 100 }
    }

    fn apply(&mut self, limits: &[(&str, u8)]) -> Result<u64, Refusal> {
        self.propose(policy("api", Expected::Any, "text", limits))
    }

    /// Applies a document in which the limit `to` says that it was called `from`.
    fn rename(&mut self, limits: &[(&str, u8)], from: &str, to: &str) -> Result<u64, Refusal> {
        let mut proposal = policy("api", Expected::Any, "text", limits);
        proposal.limits.iter_mut().find(|limit| limit.name == to).unwrap().renamed_from = Some(from.into());
        self.propose(proposal)
    }

    fn propose(&mut self, proposal: PolicyProposal) -> Result<u64, Refusal> {
        self.index += 1;
        let before = self.policies.clone();
        let answer = self.policies.apply(self.index, &proposal);
        assert!(answer.is_ok() || before == self.policies, "a refusal changes nothing");
        assert!(self.policies.are_consistent());
        answer
    }

    fn id(&self, name: &str) -> u32 {
        self.policies.limit("api", name).unwrap().0.0
    }
}

#[test]
fn revisions_count_from_one_and_must_follow_what_they_expect() {
    let mut story = Story::new();
    let expecting = |expected| policy("api", Expected::Revision(expected), "text", &[]);
    assert_eq!(story.propose(expecting(1)), Err(Refusal::RevisionConflict { current: 0 }));
    assert_eq!(story.propose(expecting(0)), Ok(1));
    assert_eq!(story.propose(expecting(0)), Err(Refusal::RevisionConflict { current: 1 }));
    assert_eq!(story.propose(expecting(1)), Ok(2));
    assert_eq!(story.apply(&[]), Ok(3));
    assert_eq!(story.propose(policy("other", Expected::Revision(0), "text", &[])), Ok(1), "each domain by itself");
    assert_eq!(story.policies.domain("api").unwrap().current().index, 105);
}

#[test]
fn the_same_document_again_keeps_every_number() {
    let mut story = Story::new();
    story.apply(&[("a", 1), ("b", 2)]).unwrap();
    assert_eq!((story.id("a"), story.id("b")), (1, 2));
    story.apply(&[("b", 2), ("a", 1)]).unwrap();
    assert_eq!((story.id("a"), story.id("b")), (1, 2));
    assert_eq!(story.policies.limit("api", "a"), Some((LimitId(1), 101)), "allotted by the first entry");
}

#[test]
fn another_key_or_route_is_another_limit() {
    let mut story = Story::new();
    story.apply(&[("a", 1)]).unwrap();
    story.apply(&[("a", 9)]).unwrap();
    assert_eq!(story.policies.limit("api", "a"), Some((LimitId(2), 102)));
}

#[test]
fn a_rename_keeps_the_number_and_a_new_limit_may_take_the_old_name() {
    let mut story = Story::new();
    story.apply(&[("a", 1)]).unwrap();
    story.rename(&[("b", 1)], "a", "b").unwrap();
    assert_eq!(story.id("b"), 1);
    story.rename(&[("b", 1), ("a", 1)], "a", "b").unwrap();
    assert_eq!((story.id("b"), story.id("a")), (1, 2), "the note may stay in the document");
    story.rename(&[("b", 1), ("c", 7), ("a", 1)], "a", "c").unwrap();
    assert_eq!(story.id("c"), 3, "a rename with another key or route is another limit");
}

#[test]
fn two_limits_cannot_both_be_the_old_one() {
    for order in [[("a", 1), ("b", 1)], [("b", 1), ("a", 1)]] {
        let mut story = Story::new();
        story.apply(&[("a", 1)]).unwrap();
        assert_eq!(story.rename(&order, "a", "b"), Err(Refusal::RenameTaken { name: "a".into() }));
    }
}

#[test]
fn a_limit_that_returns_finds_its_number_and_so_does_a_rollback() {
    let mut story = Story::new();
    story.apply(&[("a", 1), ("b", 1)]).unwrap();
    story.apply(&[("b", 2)]).unwrap();
    story.apply(&[("a", 1), ("b", 1)]).unwrap();
    assert_eq!((story.id("a"), story.id("b")), (1, 2));
    story.apply(&[("b", 2)]).unwrap();
    assert_eq!(story.id("b"), 3);
}

#[test]
fn a_renamed_limit_is_not_also_remembered_under_its_old_name() {
    let mut story = Story::new();
    story.apply(&[("a", 1)]).unwrap();
    story.apply(&[]).unwrap();
    story.apply(&[("a", 1)]).unwrap();
    story.rename(&[("b", 1)], "a", "b").unwrap();
    story.apply(&[("a", 1), ("b", 1)]).unwrap();
    assert_eq!((story.id("a"), story.id("b")), (2, 1));
}

#[test]
fn what_is_too_much_is_refused() {
    let mut story = Story::new();
    let mut refused = |change: &dyn Fn(&mut PolicyProposal)| {
        let mut proposal = policy("api", Expected::Any, "text", &[("a", 1)]);
        change(&mut proposal);
        story.propose(proposal).unwrap_err()
    };
    assert_eq!(refused(&|p| p.document = "x".repeat(DOCUMENT_MAX + 1).into()), Refusal::DocumentTooLarge);
    assert_eq!(refused(&|p| p.limits = vec![p.limits[0].clone(); LIMITS_MAX + 1]), Refusal::TooManyLimits);
    assert_eq!(refused(&|p| p.limits.push(p.limits[0].clone())), Refusal::LimitTwice { name: "a".into() });
    assert_eq!(refused(&|p| p.domain.clear()), Refusal::BadText);
    assert_eq!(refused(&|p| p.limits[0].name = "x".repeat(NAME_MAX + 1)), Refusal::BadText);
    assert_eq!(refused(&|p| p.limits[0].renamed_from = Some(String::new())), Refusal::BadText);
    assert_eq!(refused(&|p| p.reason = "x".repeat(TEXT_MAX + 1)), Refusal::BadText);
}

#[test]
fn domains_and_their_current_documents_are_bounded() {
    let mut story = Story::new();
    let document: Arc<str> = "x".repeat(DOCUMENT_MAX).into();
    let large =
        |n: usize| PolicyProposal { document: document.clone(), ..policy(&n.to_string(), Expected::Any, "", &[]) };
    let fitting = DOCUMENTS_MAX / DOCUMENT_MAX;
    for n in 0..fitting {
        assert_eq!(story.propose(large(n)), Ok(1));
    }
    assert_eq!(story.propose(large(fitting)), Err(Refusal::DocumentsFull));
    assert_eq!(story.propose(large(0)), Ok(2), "what it replaces does not count");
    for n in fitting..DOMAINS_MAX {
        story.policies.apply(10_000 + n as u64, &policy(&n.to_string(), Expected::Any, "", &[])).unwrap();
    }
    assert_eq!(story.policies.apply(20_000, &policy("more", Expected::Any, "", &[])), Err(Refusal::TooManyDomains));
}

#[test]
fn fifty_revisions_are_kept_and_fewer_when_they_are_large() {
    let mut story = Story::new();
    for _ in 0..60 {
        story.apply(&[]).unwrap();
    }
    let kept = |story: &Story, domain| story.policies.domain(domain).unwrap().revisions.len();
    assert_eq!(kept(&story, "api"), REVISIONS_KEPT);
    assert_eq!(story.policies.domain("api").unwrap().revision(10), None);
    assert!(story.policies.domain("api").unwrap().revision(11).is_some());

    let document: Arc<str> = "x".repeat(DOCUMENT_MAX).into();
    for n in 0..5 * 50 {
        let domain = format!("large-{}", n % 5);
        story
            .propose(PolicyProposal { document: document.clone(), ..policy(&domain, Expected::Any, "", &[]) })
            .unwrap();
    }
    let earlier: usize = story.policies.domains.values().map(DomainPolicies::earlier_bytes).sum();
    assert!(earlier <= HISTORY_MAX && earlier > HISTORY_MAX - DOCUMENT_MAX);
    assert_eq!(kept(&story, "api"), 1, "the oldest went first, but never the current one");
}

#[test]
fn limits_that_are_gone_are_remembered_up_to_a_bound() {
    let mut story = Story::new();
    let names: Vec<String> = (0..RETIRED_MAX + 10).map(|n| format!("limit-{n:05}")).collect();
    let limits: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    story.apply(&limits).unwrap();
    story.apply(&[]).unwrap();
    assert_eq!(story.policies.domain("api").unwrap().retired.len(), RETIRED_MAX);
    story.apply(&[]).unwrap();
    assert_eq!(story.policies.last_limit, (RETIRED_MAX + 10) as u32);
}
