//! One decision out of several: the rules of 'several limits on one check', as stories and against the rules spelled out
//! the slow way.

use limits::{LegDecision, Span, Wait};
use proptest::prelude::*;
use ringfence_ownership::ingress::{After, Combined, LegResult, Said, after, after_grant, combine};

fn admits(remaining: u64, reset_secs: u64) -> LegDecision {
    LegDecision {
        allowed: true,
        capacity: 100,
        remaining,
        wait: Wait::Now,
        reset_after: Span::from_secs(reset_secs),
        next_unit_after: None,
    }
}

fn refuses(wait: Wait) -> LegDecision {
    LegDecision { allowed: false, wait, ..admits(0, 60) }
}

fn secs(secs: u64) -> Wait {
    Wait::After(Span::from_secs(secs))
}

fn leg(group: u8, said: Said) -> LegResult {
    LegResult { group, shadow: false, said }
}

fn shadow(group: u8, said: Said) -> LegResult {
    LegResult { shadow: true, ..leg(group, said) }
}

fn allowed_by(named: usize) -> Combined {
    Combined { allowed: true, named: Some(named) }
}

fn refused_by(named: usize) -> Combined {
    Combined { allowed: false, named: Some(named) }
}

#[test]
fn a_check_is_allowed_only_if_every_limit_allows_it() {
    let yes = leg(0, Said::Owner(admits(5, 1)));
    assert_eq!(combine(&[yes, leg(1, Said::Open)]), allowed_by(0));
    assert_eq!(combine(&[yes, leg(1, Said::Owner(refuses(secs(1))))]), refused_by(1));
    assert_eq!(combine(&[yes, leg(1, Said::Closed)]), refused_by(1));
    assert_eq!(combine(&[yes, leg(1, Said::Emergency(refuses(secs(1))))]), refused_by(1));
}

#[test]
fn an_owners_refusal_is_the_reason_even_when_another_limit_is_unknown() {
    let owner = leg(2, Said::Owner(refuses(secs(1))));
    assert_eq!(combine(&[leg(0, Said::Closed), leg(1, Said::Emergency(refuses(Wait::Never))), owner]), refused_by(2));
}

#[test]
fn among_several_refusals_the_longest_wait_is_named_and_the_first_of_equals() {
    let waits = |waits: &[Wait]| {
        let legs: Vec<LegResult> = waits.iter().map(|wait| leg(0, Said::Owner(refuses(*wait)))).collect();
        combine(&legs)
    };
    assert_eq!(waits(&[secs(1), secs(9), secs(3)]), refused_by(1));
    assert_eq!(waits(&[secs(9), Wait::Never, secs(9)]), refused_by(1), "never is the longest");
    assert_eq!(waits(&[secs(1), secs(9), secs(9)]), refused_by(1));
}

#[test]
fn when_allowed_the_tightest_limit_is_named() {
    let owner = |remaining, reset| leg(0, Said::Owner(admits(remaining, reset)));
    assert_eq!(combine(&[owner(7, 1), owner(3, 1), owner(5, 1)]), allowed_by(1), "the least remaining");
    assert_eq!(combine(&[owner(3, 1), owner(3, 9)]), allowed_by(1), "then the latest reset");
    assert_eq!(combine(&[owner(3, 9), owner(3, 9)]), allowed_by(0), "then the first");
    assert_eq!(combine(&[leg(0, Said::Open), owner(9, 9)]), allowed_by(1), "a limit passed unseen has no numbers");
    assert_eq!(combine(&[leg(0, Said::Open)]), allowed_by(0));
}

#[test]
fn a_limit_that_only_watches_never_refuses_and_is_never_named() {
    let watching = shadow(0, Said::Owner(refuses(Wait::Never)));
    assert_eq!(combine(&[watching, leg(1, Said::Owner(admits(5, 1)))]), allowed_by(1));
    assert_eq!(combine(&[watching]), Combined { allowed: true, named: None });
    assert_eq!(combine(&[]), Combined { allowed: true, named: None });
}

#[test]
fn on_refusal_whatever_was_sent_elsewhere_is_cancelled_answered_or_not() {
    let legs = [leg(0, Said::Owner(admits(5, 1))), leg(1, Said::Open), leg(2, Said::Owner(refuses(secs(1))))];
    assert_eq!(after(false, &legs, 0, true), After::Cancel, "it answered, and was charged");
    assert_eq!(after(false, &legs, 1, true), After::Cancel, "it may have been");
    assert_eq!(after(false, &legs, 2, false), After::Nothing, "who refused charged nothing");
}

#[test]
fn on_allow_open_limits_without_an_answer_are_charged_afterwards() {
    let legs = [leg(0, Said::Owner(admits(5, 1))), leg(1, Said::Open)];
    assert_eq!(after(true, &legs, 0, true), After::Nothing);
    assert_eq!(after(true, &legs, 1, true), After::Debt);
    assert_eq!(after(true, &legs, 1, false), After::Debt, "also if it never got there");
}

#[test]
fn an_emergency_share_is_spent_here_so_the_owners_charge_is_cancelled() {
    let legs = [leg(0, Said::Emergency(admits(5, 1))), leg(1, Said::Open), leg(1, Said::Emergency(admits(5, 1)))];
    assert_eq!(after(true, &legs, 0, true), After::Cancel);
    assert_eq!(after(true, &legs, 0, false), After::Nothing);
    assert_eq!(after(true, &legs, 1, true), After::Debt, "a debt charges what it names and nothing else");
}

#[test]
fn a_limit_that_only_watched_owes_nothing() {
    assert_eq!(after(true, &[shadow(0, Said::Open)], 0, true), After::Nothing);
}

fn decision() -> impl Strategy<Value = LegDecision> {
    let wait = prop_oneof![Just(Wait::Never), (1u64..5).prop_map(secs)];
    prop_oneof![(0u64..4, 0u64..4).prop_map(|(remaining, reset)| admits(remaining, reset)), wait.prop_map(refuses)]
}

fn result() -> impl Strategy<Value = LegResult> {
    let said = prop_oneof![
        4 => decision().prop_map(Said::Owner),
        2 => decision().prop_map(Said::Emergency),
        1 => Just(Said::Open),
        1 => Just(Said::Closed),
    ];
    (0u8..3, prop::bool::weighted(0.2), said).prop_map(|(group, shadow, said)| LegResult { group, shadow, said })
}

fn passes(result: &LegResult) -> bool {
    match result.said {
        Said::Owner(decision) | Said::Emergency(decision) => decision.allowed,
        Said::Open => true,
        Said::Closed => false,
    }
}

fn numbers(result: &LegResult) -> Option<LegDecision> {
    match result.said {
        Said::Owner(decision) | Said::Emergency(decision) => Some(decision),
        Said::Open | Said::Closed => None,
    }
}

/// Whether naming `a` is better than naming `b`, by the words of the rule, for limits that refuse.
fn refuses_better(a: &LegResult, b: &LegResult) -> bool {
    match (a.said, b.said) {
        (Said::Owner(a), Said::Owner(b)) | (Said::Emergency(a), Said::Emergency(b)) => a.wait > b.wait,
        (Said::Owner(_), _) => true,
        (Said::Emergency(_), Said::Closed) => true,
        (Said::Emergency(_) | Said::Closed | Said::Open, _) => false,
    }
}

fn is_tighter(a: &LegResult, b: &LegResult) -> bool {
    match (numbers(a), numbers(b)) {
        (Some(a), Some(b)) if a.remaining != b.remaining => a.remaining < b.remaining,
        (Some(a), Some(b)) => a.reset_after > b.reset_after,
        (a, b) => a.is_some() && b.is_none(),
    }
}

/// The first of `indexes` that no other is better than.
fn best(indexes: &[usize], better: impl Fn(usize, usize) -> bool) -> Option<usize> {
    indexes.iter().copied().find(|&a| !indexes.iter().any(|&b| better(b, a)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn combining_keeps_the_rules_for_several_limits(results in proptest::collection::vec(result(), 0..7)) {
        let enforced: Vec<usize> = (0..results.len()).filter(|&index| !results[index].shadow).collect();
        let refusing: Vec<usize> = enforced.iter().copied().filter(|&index| !passes(&results[index])).collect();
        let combined = combine(&results);
        prop_assert_eq!(combined.allowed, refusing.is_empty());
        let named = if refusing.is_empty() {
            best(&enforced, |a, b| is_tighter(&results[a], &results[b]))
        } else {
            best(&refusing, |a, b| refuses_better(&results[a], &results[b]))
        };
        prop_assert_eq!(combined.named, named);
    }

    /// Whatever is charged somewhere for a check that was refused is cancelled; nothing else is, unless an emergency share
    /// took its place; and a debt is owed where something passed unseen.
    #[test]
    fn what_is_owed_afterwards_leaves_every_charge_with_its_reason(
        results in proptest::collection::vec(result(), 0..7),
        may_have_spent in any::<bool>(),
    ) {
        let Combined { allowed, .. } = combine(&results);
        for group in 0..3 {
            let owed = after(allowed, &results, group, may_have_spent);
            let said = |wanted: fn(&Said) -> bool| {
                results.iter().any(|leg| leg.group == group && !leg.shadow && wanted(&leg.said))
            };
            let replaced = said(|said| matches!(said, Said::Emergency(decision) if decision.allowed));
            let unseen = said(|said| *said == Said::Open);
            prop_assert_eq!(owed == After::Debt, allowed && unseen);
            prop_assert_eq!(owed == After::Cancel, may_have_spent && (!allowed || replaced && !unseen));
        }
    }
}

#[test]
fn who_granted_more_than_all_together_is_told_the_least_unless_it_is_told_something_else() {
    assert_eq!(after_grant(After::Nothing, 5, 3), After::Trim(3));
    assert_eq!(after_grant(After::Nothing, 3, 3), After::Nothing);
    assert_eq!(after_grant(After::Cancel, 5, 3), After::Cancel);
    assert_eq!(after_grant(After::Debt, 5, 3), After::Debt, "a debt undoes the grant and books what counts");
}
