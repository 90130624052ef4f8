//! Who may decide, until when, by which clock, and what an owner answers when it cannot.

use limits::{Align, Basis, Moment, Now, Span, Wait};
use ringfence_ownership::{
    Act, Answer, Check, CheckId, Epoch, Floor, LeaseBound, MAX_LEGS, Partition, SessionId, Unknown,
};

use crate::desk::*;

fn ten_per_second() -> Desk {
    Desk::with(bucket(10), 10, secs(1), Basis::Hi)
}

#[test]
fn a_partition_that_nobody_owns_says_so_and_spends_nothing() {
    let desk = ten_per_second();
    let mut partition = Partition::vacant();
    let answer = desk.ask(&mut partition, &first(1).spending(1, 4), at_millis(5));
    assert_eq!(answer, Answer::NotOwner { epoch: Epoch(0), hint: None });
    assert_eq!(desk.budgets.used(DOMAIN), 0);

    partition.activate(Epoch(1), SESSION, Floor::Fresh);
    assert_eq!(desk.used(&mut partition, 1, at_millis(5)), 0);
}

#[test]
fn an_owner_that_lost_the_partition_points_to_the_new_one_and_gives_the_room_of_its_keys_back() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 4);
    assert!(desk.decide(&mut partition, &check, at_millis(5)).allowed);
    assert_eq!(desk.budgets.used(DOMAIN), 1);

    let other = SessionId { nonce: 9, ..SESSION };
    partition.deactivate(Epoch(2), Some(other), &desk);
    assert_eq!(desk.budgets.used(DOMAIN), 0);
    let moved = Answer::NotOwner { epoch: Epoch(2), hint: Some(other) };
    assert_eq!(desk.ask(&mut partition, &check.again(), at_millis(6)), moved);
}

#[test]
fn a_notice_that_is_older_than_the_reign_is_ignored() {
    let desk = ten_per_second();
    let mut partition = Partition::vacant();
    partition.activate(Epoch(5), SESSION, Floor::Fresh);
    partition.deactivate(Epoch(4), None, &desk);
    assert_eq!((partition.epoch(), partition.session()), (Epoch(5), Some(SESSION)));
}

#[test]
fn a_notice_that_names_the_next_epoch_does_not_stand_in_the_way_of_its_appointment() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    partition.deactivate(Epoch(2), Some(SESSION), &desk);
    partition.activate(Epoch(2), SESSION, Floor::Fresh);
    assert!(partition.is_active());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "S2")]
fn a_reign_at_an_epoch_that_was_reigned_before_is_our_own_mistake() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    partition.deactivate(Epoch(1), None, &desk);
    partition.activate(Epoch(1), SESSION, Floor::Fresh);
}

#[test]
fn a_lease_is_respected_to_the_nanosecond() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let lease = LeaseBound { end: Moment::from_nanos(3_000_000_000), ..forever() };
    let last = 3_000_000_000 - lease.margin.as_nanos();

    let in_time = desk.ask_under(&mut partition, &first(1).spending(1, 1), at_nanos(last), &lease);
    assert!(matches!(in_time, Answer::Decided(verdict) if verdict.allowed));
    let late = desk.ask_under(&mut partition, &first(2).spending(1, 1), at_nanos(last + 1), &lease);
    assert_eq!(late, Answer::Unknown(Unknown::Lease));
    assert_eq!(desk.used(&mut partition, 1, at_nanos(last + 1)), 1, "the late check spent nothing");
}

#[test]
fn a_lease_that_another_session_of_the_process_holds_covers_nothing() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let next = LeaseBound { session: SessionId { counter: 2, ..SESSION }, ..forever() };
    let answer = desk.ask_under(&mut partition, &first(1).spending(1, 1), at_millis(1), &next);
    assert_eq!(answer, Answer::Unknown(Unknown::Lease));
}

#[test]
fn a_lease_is_judged_by_the_partitions_own_time_when_the_clock_goes_back() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let lease = LeaseBound { end: Moment::from_nanos(2_000_000_000), ..forever() };
    let _ = desk.ask(&mut partition, &first(1).spending(1, 1), at_millis(1_900));
    let answer = desk.ask_under(&mut partition, &first(2).spending(1, 1), at_millis(100), &lease);
    assert_eq!(answer, Answer::Unknown(Unknown::Lease));
}

#[test]
fn a_clock_that_goes_back_gives_neither_debt_nor_credit() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    assert!(desk.decide(&mut partition, &first(1).spending(1, 10), at_millis(1_000)).allowed);

    let back = desk.decide(&mut partition, &first(2).spending(1, 1), at_millis(400));
    assert_eq!((back.allowed, back.legs[0].wait), (false, Wait::After(Span::from_millis(100))));
    let on_time = desk.decide(&mut partition, &first(3).spending(1, 1), at_millis(1_100));
    assert!(on_time.allowed);
    assert!(!desk.decide(&mut partition, &first(4).spending(1, 1), at_millis(1_199)).allowed);
}

#[test]
fn a_limit_that_the_owner_does_not_know_yet_is_not_guessed_and_its_sibling_is_not_charged() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let answer = desk.ask(&mut partition, &first(1).spending(1, 3).spending(99, 3), at_millis(1));
    assert_eq!(answer, Answer::Unknown(Unknown::Policy));
    assert_eq!(desk.used(&mut partition, 1, at_millis(1)), 0);
}

#[test]
fn a_check_with_more_legs_than_the_bound_is_not_decided() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let check = (0..=MAX_LEGS).fold(first(1), |check, _| check.spending(1, 0));
    let check = check.spending(1, 1);
    assert_eq!(desk.ask(&mut partition, &check, at_millis(1)), Answer::Unknown(Unknown::Policy));
}

#[test]
fn a_table_without_room_names_the_leg_and_charges_no_sibling() {
    let desk = ten_per_second().and(2, bucket(10), 10, secs(1), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    assert!(desk.decide(&mut partition, &first(1).spending(1, 1), at_millis(1)).allowed);
    desk.budgets.set_max(DOMAIN, 1);

    let answer = desk.ask(&mut partition, &first(2).spending(1, 1).spending(2, 1), at_millis(1));
    assert_eq!(answer, Answer::Unknown(Unknown::TableFull { leg: 1 }));
    assert_eq!(desk.used(&mut partition, 1, at_millis(1)), 1);
}

#[test]
fn windows_that_follow_cluster_time_wait_until_it_is_known() {
    let desk = Desk::with(window(Align::Epoch), 10, secs(60), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let deaf = Now::at(at_millis(1).moment);
    assert_eq!(desk.ask(&mut partition, &first(1).spending(1, 1), deaf), Answer::Unknown(Unknown::Clock));
    assert!(desk.decide(&mut partition, &first(1).spending(1, 1).again(), at_millis(2)).allowed);
    let deaf_again = Now::at(at_millis(3).moment);
    assert!(desk.decide(&mut partition, &first(2).spending(1, 1), deaf_again).allowed, "once heard, carried on");
}

#[test]
fn a_batch_is_answered_in_order_and_each_check_sees_the_one_before() {
    let desk = ten_per_second();
    let mut partition = owned(Floor::Fresh);
    let checks = [first(1).spending(1, 6), first(2).spending(1, 6), first(3).spending(1, 4)];
    let mut answers = Vec::new();
    partition.decide_batch(&checks, &desk, at_millis(1), &forever(), &mut answers);
    let allowed = answers.iter().map(|answer| matches!(answer, Answer::Decided(verdict) if verdict.allowed));
    assert_eq!(allowed.collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn a_leg_that_only_watches_never_refuses_and_is_charged_with_the_others() {
    let desk = ten_per_second().and(2, bucket(2), 2, secs(1), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let one = desk.decide(&mut partition, &first(1).spending(1, 2).watching(2, 2), at_millis(1));
    assert!(one.allowed && one.legs[1].allowed);
    let two = desk.decide(&mut partition, &first(2).spending(1, 2).watching(2, 2), at_millis(1));
    assert!(two.allowed && !two.legs[1].allowed);
    assert_eq!(desk.used(&mut partition, 1, at_millis(1)), 4);
    assert_eq!(desk.used(&mut partition, 2, at_millis(1)), 2);
}

#[test]
fn a_question_is_decided_by_the_policy_that_it_was_matched_with_or_not_at_all() {
    let desk = ten_per_second().at_revision(7);
    let mut partition = owned(Floor::Fresh);
    let at = |revision, id| Check { revision, ..first(id).spending(1, 1) };
    assert_eq!(desk.ask(&mut partition, &at(6, 1), at_millis(1)), Answer::StaleRevision { revision: 7 });
    assert_eq!(
        desk.ask(&mut partition, &at(8, 2), at_millis(1)),
        Answer::Unknown(Unknown::Policy),
        "its log is behind"
    );
    assert_eq!(desk.used(&mut partition, 1, at_millis(1)), 0);
    assert!(desk.decide(&mut partition, &at(7, 3), at_millis(1)).allowed);
    assert!(desk.decide(&mut partition, &at(0, 4), at_millis(1)).allowed, "who does not say is not asked");
}

#[test]
fn a_limit_that_a_newer_policy_dropped_makes_the_question_stale_if_any_other_is_known() {
    let desk = ten_per_second().at_revision(7);
    let mut partition = owned(Floor::Fresh);
    let dropped = Check { revision: 6, ..first(1).spending(99, 1).spending(1, 1) };
    assert_eq!(desk.ask(&mut partition, &dropped, at_millis(1)), Answer::StaleRevision { revision: 7 });
}

/// Found by the simulator in seed 124047: an ingress that was behind heard a newer revision's denial of a limit that failed
/// open as far as it knew.
#[test]
fn what_a_later_revision_denied_makes_an_earlier_one_stale() {
    let desk = ten_per_second().at_revision(8);
    let mut partition = owned(Floor::FullAsOf { at: at_millis(0), takeover_index: 20 });
    let asked = Check { revision: 8, ..first(1).spending(1, 1).named_by_its_caller() };
    assert!(!desk.decide(&mut partition, &asked, at_millis(1)).allowed);
    let behind = Check { revision: 7, ..asked.clone() };
    assert_eq!(desk.ask(&mut partition, &behind, at_millis(2)), Answer::StaleRevision { revision: 8 });
    assert!(desk.decide(&mut partition, &asked, at_millis(3)).replayed);
}

/// Found by the simulator in seed 11307: a denial by a limit that failed closed was told again once it failed open.
#[test]
fn what_an_earlier_revision_denied_is_decided_anew_and_told_again_under_the_same() {
    let desk = ten_per_second().at_revision(7);
    let mut partition = owned(Floor::FullAsOf { at: at_millis(0), takeover_index: 20 });
    let asked = Check { revision: 7, ..first(1).spending(1, 1).named_by_its_caller() };
    assert!(!desk.decide(&mut partition, &asked, at_millis(1)).allowed);
    assert!(desk.decide(&mut partition, &asked, at_millis(2)).replayed);
    let ahead = Check { revision: 8, attempt: 2, ..asked.clone() };
    assert_eq!(desk.ask(&mut partition, &ahead, at_millis(2)), Answer::Unknown(Unknown::Policy));
    assert!(desk.decide(&mut partition, &asked, at_millis(2)).replayed, "what is not decided anew stays known");
    let opened = Desk::with(bucket(10), 10, secs(1), Basis::Lo).at_revision(8);
    let matched_anew = Check { revision: 8, attempt: 2, ..asked.clone() };
    let verdict = opened.decide(&mut partition, &matched_anew, at_millis(3));
    assert!(verdict.allowed && !verdict.replayed, "{verdict:?}");
    assert!(opened.decide(&mut partition, &matched_anew, at_millis(4)).replayed, "and charged once");
    assert_eq!(opened.used(&mut partition, 1, at_millis(4)), 1);
    let late = opened.decide(&mut partition, &asked, at_millis(5));
    assert!(late.allowed && late.replayed, "an attempt under the earlier revision that comes late hears the same");
}

#[test]
fn what_was_decided_is_told_again_and_what_was_charged_is_refunded_under_any_revision() {
    let desk = ten_per_second().at_revision(7);
    let mut partition = owned(Floor::Fresh);
    let charged = Check { revision: 7, ..first(1).spending(1, 4).named_by_its_caller() };
    assert!(desk.decide(&mut partition, &charged, at_millis(1)).allowed);
    let desk = desk.at_revision(8);
    assert!(desk.decide(&mut partition, &charged, at_millis(2)).replayed);
    let refund = Check { revision: 7, ..first(2).spending(1, 0).to(Act::Refund { of: CheckId(1) }) };
    assert!(desk.decide(&mut partition, &refund, at_millis(3)).allowed);
    // What found nothing is not done again either, by whatever revision it is repeated.
    let refund = Act::Refund { of: CheckId(99) };
    let vain = Check { revision: 7, ..first(3).spending(1, 0).to(refund).named_by_its_caller() };
    assert!(!desk.decide(&mut partition, &vain, at_millis(4)).allowed);
    let again = Check { revision: 8, ..vain.clone() };
    assert!(desk.decide(&mut partition, &again, at_millis(5)).replayed);
}
