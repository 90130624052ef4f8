//! What is done about earlier charges, and what decides in other ways than all or nothing: each act once, with what it must
//! not do twice.

use limits::{Algorithm, Basis, Span};
use ringfence_ownership::{Act, Answer, Cancelled, CheckId, Floor, REFUND_HORIZON, REFUNDS_MAX, Unknown};

use crate::desk::*;

const WINDOW: Span = secs(3_600);
const SLOTS: Algorithm = Algorithm::Concurrency { max_hold: secs(600) };

/// Twenty an hour under limit 1.
fn hourly() -> Desk {
    Desk::with(LOG, 20, WINDOW, Basis::Hi)
}

/// Three slots of half a minute under limit 1.
fn slots() -> Desk {
    Desk::with(SLOTS, 3, secs(30), Basis::Hi)
}

fn refund(of: u128) -> Act {
    Act::Refund { of: CheckId(of) }
}

fn settle(of: u128, units: u64) -> Act {
    Act::Settle { of: CheckId(of), units, debt: false }
}

fn reserve(units: u64) -> Act {
    Act::Reserve { ttl: secs(60), units }
}

fn renew(of: u128) -> Act {
    Act::Renew { of: CheckId(of), ttl: None }
}

fn release(of: u128) -> Act {
    Act::Release { of: CheckId(of) }
}

#[test]
fn a_peek_tells_what_a_cost_would_meet_and_spends_nothing() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    let peek = |cost| first(1).spending(1, cost).to(Act::Peek);
    assert!(desk.decide(&mut partition, &peek(20), at_millis(1)).allowed);
    let above = desk.decide(&mut partition, &peek(21), at_millis(1));
    assert!(!above.allowed && above.legs[0].remaining == 20, "what stands is told, not what would be left");
    assert_eq!((desk.used(&mut partition, 1, at_millis(1)), partition.keys()), (0, 0));
}

#[test]
fn a_refund_undoes_its_check_and_no_other_and_once() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    for (id, cost) in [(1, 3), (2, 5)] {
        assert!(desk.decide(&mut partition, &first(id).spending(1, cost).named_by_its_caller(), at_millis(1)).allowed);
    }
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 0).to(refund(2)), at_millis(9)), (true, 5));
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 0).to(refund(2)), at_millis(9)), (false, 0));
    assert_eq!(desk.used(&mut partition, 1, at_millis(9)), 3);
}

#[test]
fn a_refund_that_is_asked_for_again_gets_the_recorded_answer() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    desk.decide(&mut partition, &first(1).spending(1, 3).named_by_its_caller(), at_millis(1));
    let asked = first(90).spending(1, 0).to(refund(1)).named_by_its_caller();
    let told = desk.decide(&mut partition, &asked, at_millis(2));
    let again = desk.decide(&mut partition, &asked, at_millis(900));
    assert_eq!((again.allowed, again.units, again.replayed), (told.allowed, told.units, true));
}

#[test]
fn a_check_that_its_caller_named_can_be_refunded_for_a_minute_and_others_as_long_as_their_record() {
    let late = |nanos: u64| at_nanos(1_000_000 + nanos);
    for (named, after, found) in [
        (true, REFUND_HORIZON.as_nanos() - 1, true),
        (true, REFUND_HORIZON.as_nanos(), false),
        (false, 1_999_999_999, true),
        (false, 2_000_000_000, false),
    ] {
        let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
        let check = first(1).spending(1, 3);
        let check = if named { check.named_by_its_caller() } else { check };
        desk.decide(&mut partition, &check, at_millis(1));
        let refunded = desk.act(&mut partition, first(90).spending(1, 0).to(refund(1)), late(after));
        assert_eq!(refunded, (found, if found { 3 } else { 0 }), "named: {named}, {after} ns later");
        assert_eq!(desk.used(&mut partition, 1, late(after)), if found { 0 } else { 3 });
    }
}

#[test]
fn of_more_checks_than_are_kept_the_oldest_cannot_be_refunded() {
    let desk = Desk::with(LOG, 100_000, WINDOW, Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    for id in 0..=REFUNDS_MAX as u128 {
        desk.decide(&mut partition, &first(id).spending(1, 1).named_by_its_caller(), at_millis(1));
    }
    let refunded = |partition: &mut _, of| {
        desk.act(partition, first(1 << 80 | of).spending(1, 0).to(refund(of)), at_millis(3_000))
    };
    assert_eq!(refunded(&mut partition, 0), (false, 0));
    assert_eq!(refunded(&mut partition, 1), (true, 1));
    assert_eq!(refunded(&mut partition, REFUNDS_MAX as u128), (true, 1));
}

#[test]
fn a_refund_that_overtakes_its_check_keeps_it_from_being_charged() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 0).to(refund(1)), at_millis(1)), (false, 0));
    let late = desk.ask(&mut partition, &first(1).spending(1, 3).named_by_its_caller(), at_millis(2));
    assert_eq!((late, desk.used(&mut partition, 1, at_millis(2))), (Answer::Unknown(Unknown::Record), 0));
}

#[test]
fn a_check_that_was_cancelled_or_whose_debt_was_booked_is_not_refunded_too() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    for id in [1, 2] {
        desk.decide(&mut partition, &first(id).spending(1, 3).named_by_its_caller(), at_millis(1));
    }
    assert_eq!(partition.cancel(CheckId(1), FIRST, &desk, at_millis(2)), Cancelled::Undone);
    assert!(partition.debt(CheckId(2), FIRST, &[leg(1, 3)], &desk, at_millis(2)));
    for (id, now) in [(1, at_millis(3)), (2, at_millis(3)), (1, at_millis(5_000)), (2, at_millis(5_000))] {
        let refunded = desk.act(&mut partition, first(90 + id).spending(1, 0).to(refund(id)), now);
        assert_eq!(refunded, (false, 0), "{id}");
    }
    assert_eq!(desk.used(&mut partition, 1, at_millis(5_000)), 3, "the debt");
}

#[test]
fn a_reserve_is_settled_at_what_was_spent_and_only_once() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    let minute = secs(60).as_nanos();
    assert_eq!(desk.act(&mut partition, first(1).spending(1, 12).to(reserve(12)), at_millis(1)), (true, minute));
    assert_eq!(desk.used(&mut partition, 1, at_millis(1)), 12);
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 1).to(settle(1, 5)), at_millis(2)), (true, 7));
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 1).to(settle(1, 0)), at_millis(3)), (false, 0));
    assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 5);
}

#[test]
fn settling_above_the_reserve_is_refused_or_booked_as_a_debt() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    desk.decide(&mut partition, &first(1).spending(1, 8).to(reserve(4)), at_millis(1));
    let above = |debt| Act::Settle { of: CheckId(1), units: 6, debt };
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 2).to(above(false)), at_millis(2)), (false, 4));
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 8);
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 2).to(above(true)), at_millis(3)), (true, 0));
    assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 12, "two units more, of two each");
}

#[test]
fn a_cancelled_reserve_is_gone_and_a_settled_one_is_not_cancelled() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    for id in [1, 2] {
        desk.decide(&mut partition, &first(id).spending(1, 9).to(reserve(9)), at_millis(1));
    }
    assert_eq!(partition.cancel(CheckId(1), FIRST, &desk, at_millis(2)), Cancelled::Undone);
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 1).to(settle(1, 9)), at_millis(3)), (false, 0));
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 1).to(settle(2, 4)), at_millis(4)), (true, 5));
    assert_eq!(partition.cancel(CheckId(2), FIRST, &desk, at_millis(5)), Cancelled::Undone);
    assert_eq!(desk.used(&mut partition, 1, at_millis(5)), 4, "what was settled stays spent");
}

#[test]
fn as_much_as_there_is_is_granted_and_charged() {
    let desk = hourly().and(2, LOG, 9, WINDOW, Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let up_to = |id, units| first(id).spending(1, 1).spending(2, 2).to(Act::UpTo { units });
    assert_eq!(desk.act(&mut partition, up_to(1, 10), at_millis(1)), (true, 4), "two units each of nine");
    assert_eq!((desk.used(&mut partition, 1, at_millis(1)), desk.used(&mut partition, 2, at_millis(1))), (4, 8));
    let none = desk.decide(&mut partition, &up_to(2, 1), at_millis(1));
    assert!(!none.allowed && none.units == 0 && !none.legs[1].allowed);
}

#[test]
fn a_grant_is_cut_down_once_and_not_for_an_asker_who_was_not_alone() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    let up_to = |id| first(id).spending(1, 2).to(Act::UpTo { units: 4 });
    desk.decide(&mut partition, &up_to(1), at_millis(1));
    assert!(partition.trim(CheckId(1), FIRST, 3, &desk, at_millis(2)));
    assert!(!partition.trim(CheckId(1), FIRST, 1, &desk, at_millis(3)), "once");
    assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 6);
    assert_eq!(
        desk.act(&mut partition, up_to(1).again(), at_millis(4)),
        (true, 3),
        "whoever asks again is told the rest"
    );
    assert_eq!(partition.cancel(CheckId(1), FIRST, &desk, at_millis(5)), Cancelled::Undone);
    assert_eq!(desk.used(&mut partition, 1, at_millis(5)), 6, "a charge is undone once, and this one was in part");

    desk.decide(&mut partition, &up_to(2), at_millis(6));
    desk.decide(&mut partition, &up_to(2).again().asked_by(SECOND), at_millis(7));
    assert!(!partition.trim(CheckId(2), FIRST, 1, &desk, at_millis(8)), "another was told of four");
}

#[test]
fn slots_are_held_in_a_name_renewed_and_given_back() {
    let (desk, mut partition) = (slots(), owned(Floor::Fresh));
    let acquire = |id, cost| first(id).spending(1, cost).to(Act::Acquire { ttl: None });
    assert_eq!(desk.act(&mut partition, acquire(1, 2), at_millis(0)), (true, secs(30).as_nanos()));
    assert_eq!(
        desk.act(&mut partition, acquire(1, 2).named_by_its_caller(), at_millis(1_000)),
        (true, secs(29).as_nanos()),
        "a recorded answer tells how long it lasts from now on"
    );
    assert_eq!(
        desk.act(&mut partition, acquire(1, 2).named_by_its_caller(), at_millis(3_000)),
        (true, secs(27).as_nanos()),
        "asking again takes nothing and prolongs nothing"
    );
    assert_eq!(desk.act(&mut partition, acquire(2, 2), at_millis(0)), (false, 0));
    let renewed = desk.act(&mut partition, first(90).spending(1, 2).to(renew(1)), at_millis(20_000));
    assert_eq!(renewed, (true, secs(30).as_nanos()));
    assert_eq!(desk.used(&mut partition, 1, at_millis(49_999)), 2, "half a minute after the renewal");
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 2).to(release(1)), at_millis(49_999)), (true, 1));
    assert_eq!(desk.act(&mut partition, first(92).spending(1, 2).to(release(1)), at_millis(49_999)), (false, 0));
    assert_eq!(desk.act(&mut partition, first(93).spending(1, 2).to(renew(1)), at_millis(49_999)), (false, 0));
    assert_eq!(desk.used(&mut partition, 1, at_millis(49_999)), 0);
}

#[test]
fn renewing_where_nothing_counts_slots_finds_no_end() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    let renewed = desk.act(&mut partition, first(90).spending(1, 1).to(renew(1)), at_millis(1));
    assert_eq!(renewed, (true, u64::MAX));
}

#[test]
fn after_a_takeover_whoever_holds_slots_goes_on_holding_them_in_every_failure_mode() {
    for basis in [Basis::Hi, Basis::Lo] {
        let desk = Desk::with(SLOTS, 3, secs(30), basis);
        let mut partition = owned(taken_over(at_millis(1_000)));
        let renewed = desk.act(&mut partition, first(90).spending(1, 2).to(renew(7)), at_millis(1_500));
        assert_eq!(renewed, (true, secs(30).as_nanos()), "{basis:?}");
        let (taken, _) =
            desk.act(&mut partition, first(91).spending(1, 1).to(Act::Acquire { ttl: None }), at_millis(1_600));
        assert_eq!(taken, basis == Basis::Lo, "one slot is still held by nobody knows whom");
        let (released, _) = desk.act(&mut partition, first(92).spending(1, 2).to(release(7)), at_millis(1_700));
        assert!(released, "{basis:?}");
        let (unknown, _) = desk.act(&mut partition, first(93).spending(1, 1).to(release(8)), at_millis(1_800));
        assert!(!unknown, "it may have been released before the takeover, and its slot lent to another: {basis:?}");
    }
}

#[test]
fn an_acquire_that_is_cancelled_frees_its_slots() {
    let (desk, mut partition) = (slots(), owned(Floor::Fresh));
    desk.decide(&mut partition, &first(1).spending(1, 3).to(Act::Acquire { ttl: None }), at_millis(1));
    assert_eq!(partition.cancel(CheckId(1), FIRST, &desk, at_millis(2)), Cancelled::Undone);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 0);
}

#[test]
fn a_reset_gives_a_key_a_fresh_start_even_where_a_takeover_left_its_use_unknown() {
    let desk = hourly();
    let mut partition = owned(taken_over(at_millis(1_000)));
    assert_eq!(desk.used(&mut partition, 1, at_millis(1_001)), 20);
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 0).to(Act::Reset), at_millis(1_002)), (true, 1));
    assert!(desk.decide(&mut partition, &first(1).spending(1, 20), at_millis(1_003)).allowed);
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 0).to(Act::Reset), at_millis(1_004)), (true, 1));
    assert_eq!(desk.act(&mut partition, first(92).spending(1, 0).to(Act::Reset), at_millis(1_005)), (false, 0));
}

#[test]
fn what_was_charged_before_a_reset_cannot_be_refunded_after_it() {
    let (desk, mut partition) = (hourly(), owned(Floor::Fresh));
    desk.decide(&mut partition, &first(1).spending(1, 5).named_by_its_caller(), at_millis(1));
    desk.decide(&mut partition, &first(90).spending(1, 0).to(Act::Reset), at_millis(2));
    desk.decide(&mut partition, &first(2).spending(1, 4), at_millis(3));
    assert_eq!(desk.act(&mut partition, first(91).spending(1, 0).to(refund(1)), at_millis(4)), (true, 0));
    assert_eq!(desk.used(&mut partition, 1, at_millis(4)), 4);
}

#[test]
fn a_yes_that_does_not_hold_any_more_is_not_told_again() {
    let desk = slots().and(2, LOG, 20, WINDOW, Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let acquire = |id| first(id).spending(1, 2).to(Act::Acquire { ttl: None }).named_by_its_caller();
    let half_a_minute = (true, secs(30).as_nanos());
    assert_eq!(desk.act(&mut partition, acquire(1), at_millis(0)), half_a_minute);
    desk.decide(&mut partition, &first(90).spending(1, 2).to(release(1)), at_millis(10));
    let late = desk.ask(&mut partition, &acquire(1).again(), at_millis(20));
    assert_eq!(late, Answer::Unknown(Unknown::Record), "an attempt that comes late");
    assert_eq!(desk.act(&mut partition, acquire(1), at_millis(30)), half_a_minute, "a new question under the old id");
    assert_eq!(desk.act(&mut partition, acquire(2), at_millis(40)), (false, 0), "and the slots are really taken");
    assert_eq!(partition.cancel(CheckId(1), FIRST, &desk, at_millis(50)), Cancelled::Undone);
    assert_eq!(desk.used(&mut partition, 1, at_millis(50)), 0, "the newer of the two was taken back");

    let reserve = || first(3).spending(2, 12).to(reserve(12)).named_by_its_caller();
    assert!(desk.act(&mut partition, reserve(), at_millis(60)).0);
    desk.decide(&mut partition, &first(91).spending(2, 1).to(settle(3, 12)), at_millis(70));
    assert_eq!(desk.act(&mut partition, reserve(), at_millis(80)), (false, 0), "8 are left, and 12 are not");
}

#[test]
fn slots_that_an_open_limit_lent_unseen_are_given_back_by_their_id() {
    let desk = Desk::with(SLOTS, 3, secs(30), Basis::Lo);
    let mut partition = owned(Floor::Fresh);
    assert!(partition.debt(CheckId(1), FIRST, &[leg(1, 2)], &desk, at_millis(1)));
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 2);
    assert_eq!(desk.act(&mut partition, first(90).spending(1, 2).to(release(1)), at_millis(3)), (true, 1));
    assert_eq!(desk.used(&mut partition, 1, at_millis(4)), 0);
}

#[test]
fn what_was_spent_above_a_reserve_holds_no_slots() {
    let desk = slots().and(2, LOG, 20, WINDOW, Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let both = |id: u128, cost| first(id).spending(1, cost).spending(2, cost);
    assert!(desk.act(&mut partition, both(1, 2).to(reserve(2)), at_millis(1)).0);
    let above = Act::Settle { of: CheckId(1), units: 3, debt: true };
    assert_eq!(desk.act(&mut partition, both(90, 1).to(above), at_millis(2)), (true, 0));
    assert_eq!((desk.used(&mut partition, 1, at_millis(3)), desk.used(&mut partition, 2, at_millis(3))), (0, 3));
}

#[test]
fn more_is_not_had_under_an_id_that_holds_less_however_late_it_is_asked_for() {
    let desk = slots().and(2, LOG, 20, WINDOW, Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let later = at_millis(10_000);
    let acquire = |cost| first(1).spending(1, cost).to(Act::Acquire { ttl: None }).named_by_its_caller();
    assert!(desk.act(&mut partition, acquire(1), at_millis(1)).0);
    assert_eq!(desk.ask(&mut partition, &acquire(2), later), Answer::IdReused);
    assert!(desk.act(&mut partition, acquire(1), later).0, "the same again is the same lease");
    assert_eq!(desk.used(&mut partition, 1, later), 1);

    let reserved = |limit, units| first(2).spending(limit, units).to(reserve(units)).named_by_its_caller();
    assert!(desk.act(&mut partition, reserved(2, 3), at_millis(11_000)).0);
    let later = at_millis(14_000);
    assert_eq!(desk.ask(&mut partition, &reserved(2, 9), later), Answer::IdReused);
    assert_eq!(desk.ask(&mut partition, &reserved(1, 3), later), Answer::IdReused, "another key is not charged");
    assert!(desk.act(&mut partition, reserved(2, 3), later).0);
    assert_eq!(desk.used(&mut partition, 2, later), 3);
}
