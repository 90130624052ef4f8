//! Calendar windows: cut where the calendar says, counted by index, and near an edge in both windows, so that owners whose
//! clocks differ by 100 ms never admit more than the amount in any window, by anybody's clock.

use std::cell::Cell;

use limits::{Basis, InsertError, Moment, Now, Shape, Span, Usage, Used, Wait, WallTime, WhyUndecided};
use proptest::prelude::*;

use crate::cases::{calendars, go, runner, steps};
use crate::irregular::{UNKNOWN, window};
use crate::single::{BOOT, Single, at, bucket, calendar, later, millis, secs};
use crate::twin::{Admission, Twin};

const SHORTEST: u32 = 60_000;

/// Windows of a minute, two minutes and a minute and a half, the first of which begins at boot.
fn minutes(amount: u64) -> Single {
    let single = Single::new(calendar(amount, SHORTEST));
    assert_eq!(window(limits::CalendarId(SHORTEST), at(0).wall.unwrap()).start, at(0).wall.unwrap());
    single
}

fn open_minutes(amount: u64) -> Single {
    Single::new(Shape { basis: Basis::Lo, ..calendar(amount, SHORTEST) })
}

#[test]
fn windows_are_as_long_as_the_calendar_says() {
    let mut single = open_minutes(3);
    for (start, end) in [(0, 60), (60, 180), (180, 270), (270, 330)] {
        assert_eq!(single.ask(3, at(secs(start))).reset_after, Span::from_secs(end - start));
        assert_eq!(single.ask(1, at(secs(end) - 1)).wait, Wait::After(Span::from_nanos(1)));
    }
}

#[test]
fn near_an_edge_a_closed_limit_counts_in_both_windows() {
    let mut single = minutes(10);
    assert_eq!(single.ask(4, at(secs(30))).remaining, 6);
    assert_eq!(single.ask(3, at(secs(60) - millis(100))).remaining, 3, "in this window and in the next");
    assert_eq!(single.ask(2, at(secs(60) + millis(100) - 1)).remaining, 1, "still in both");
    assert_eq!(single.peek(0, at(secs(60) + millis(100))).remaining, 5, "three and two are in this one");
    let refused = single.ask(6, at(secs(61)));
    assert_eq!(refused.wait, Wait::After(Span::from_nanos(secs(119) + millis(100))), "past the edge, by any clock");
    assert!(single.ask(6, at(secs(180) + millis(100))).allowed);
}

#[test]
fn an_open_limit_has_no_edges() {
    let mut single = open_minutes(10);
    single.ask(4, at(secs(60) - 1));
    assert_eq!(single.ask(0, at(secs(60))).remaining, 10);
}

#[test]
fn the_wait_of_a_closed_limit_reaches_past_the_window_that_blocks() {
    let mut single = minutes(5);
    single.ask(5, at(secs(60) - millis(50)));
    let refused = single.ask(1, at(secs(60)));
    assert_eq!(refused.wait, Wait::After(Span::from_nanos(secs(120) + millis(100))), "both windows are full");
    assert_eq!(refused.reset_after, Span::from_nanos(secs(120) + millis(100)));
    assert!(!single.ask(1, at(secs(180) + millis(100) - 1)).allowed);
    assert!(single.ask(5, at(secs(180) + millis(100))).allowed);
}

#[test]
fn owners_whose_clocks_differ_admit_no_more_than_the_amount_by_anybodys() {
    let (admitted, near) = (Cell::new(0u32), Cell::new(0u32));
    let apart = || -100_000_000i64..=100_000_000;
    let cases = (1..9u64, 1_000..3_000u32, prop::array::uniform3((apart(), steps(15))), 0..secs(20));
    runner(1_000)
        .run(&cases, |(amount, shortest, owners, start)| {
            let shape = calendar(amount, shortest);
            let (mut now, mut last) = (at(start), None);
            let mut admissions: Vec<Admission> = Vec::new();
            let mut handed: Option<Usage> = None;
            for (apart, steps) in owners {
                // Half of the difference either way, so that no two owners are further apart than 100 ms.
                let by = |now: Now| {
                    let wall = now.wall.unwrap().as_unix_nanos().saturating_add_signed(apart / 2);
                    Now { wall: Some(WallTime::from_unix_nanos(wall)), ..now }
                };
                let mut owner = Single::new(shape);
                if let Some(usage) = &handed {
                    owner.table.insert_usage(usage, &owner.shapes, &owner.budgets, by(now)).unwrap();
                }
                for step in &steps {
                    let cost;
                    (now, cost) = go(now, step, &shape, last.as_ref());
                    let decision = owner.ask(cost, by(now));
                    if decision.allowed && cost > 0 {
                        admissions.push(Admission { at: now, cost });
                        admitted.set(admitted.get() + 1);
                    }
                    last = Some(decision);
                }
                handed = owner.table.export(&owner.shapes, by(now)).next();
            }
            let index = |admission: &Admission, shift: i64| {
                let wall = admission.at.wall.unwrap().as_unix_nanos().saturating_add_signed(shift);
                window(limits::CalendarId(shortest), WallTime::from_unix_nanos(wall)).index
            };
            for shift in [-50_000_000, -49_999_999, 0, 49_999_999, 50_000_000] {
                for one in &admissions {
                    let same = |other: &&Admission| index(other, shift) == index(one, shift);
                    let sum: u64 = admissions.iter().filter(same).map(|admission| admission.cost).sum();
                    prop_assert!(sum <= amount, "{sum} of {amount} in window {}", index(one, shift));
                    near.set(near.get() + u32::from(index(one, shift) != index(one, 0)));
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(admitted.get() > 3_000 && near.get() > 150, "{} admitted, {} near", admitted.get(), near.get());
}

#[test]
fn an_undone_charge_comes_back_in_every_window_it_was_counted_in() {
    let undone = Cell::new(0);
    for basis in [Basis::Hi, Basis::Lo] {
        runner(400)
            .run(&(calendars(), 0..secs(100), steps(40)), |(shape, start, steps)| {
                let shape = Shape { basis, ..shape };
                let mut single = Single::new(shape);
                let mut twin = Twin::new(shape, single.key);
                let mut charges = Vec::new();
                let (mut now, mut last) = (at(start), None);
                for step in &steps {
                    let cost;
                    (now, cost) = go(now, step, &shape, last.as_ref());
                    if step.sweep && !charges.is_empty() {
                        let index = cost as usize % charges.len();
                        let charge: limits::Charge = charges.remove(index);
                        twin.admissions.remove(index);
                        single.undo(&charge, now);
                        undone.set(undone.get() + 1);
                    }
                    let decision = single.ask(cost, now);
                    prop_assert_eq!(decision.allowed, twin.ask(cost, now));
                    charges.extend(single.charge);
                    prop_assert_eq!(decision.remaining, twin.remaining(now));
                    last = Some(decision);
                }
                Ok(())
            })
            .unwrap();
    }
    assert!(undone.get() > 1_000, "{} undone", undone.get());
}

#[test]
fn without_cluster_time_or_its_calendar_a_limit_cannot_be_decided() {
    let mut single = minutes(5);
    let blind = Now::at(Moment::from_nanos(7));
    assert_eq!(single.try_ask(1, blind).unwrap_err().why, WhyUndecided::NoClusterTime);
    let mut strange =
        Single::new(Shape { algorithm: limits::Algorithm::Calendar { calendar: UNKNOWN }, ..bucket(5, 1, 1) });
    for cost in [0, 1, 9] {
        assert_eq!(strange.try_ask(cost, at(0)).unwrap_err().why, WhyUndecided::NoCalendar);
    }
    assert!(strange.table.peek(&strange.leg(1), &strange.shapes, at(0)).is_err() && !strange.force(1, at(0)));
    let mut nobody = Single::new(calendar(5, SHORTEST));
    nobody.shapes = limits::Shapes::new();
    nobody.change(calendar(5, SHORTEST));
    assert_eq!(nobody.try_ask(1, at(0)).unwrap_err().why, WhyUndecided::NoCalendar, "nobody told it of any");
    assert!(strange.table.is_empty() && nobody.table.is_empty());
    single.ask(1, at(0));
    single.sweep(Now::at(Moment::from_nanos(secs(5_000))));
    assert_eq!(single.table.len(), 1, "nobody can tell that the window is over");
}

#[test]
fn an_index_that_was_reached_is_never_left_again() {
    let mut single = minutes(5);
    let index = window(limits::CalendarId(SHORTEST), at(secs(61)).wall.unwrap()).index;
    // The old owner's calendar put the edge a little earlier than ours does.
    let used = Used::Calendar { index, earlier: 5, later: 4 };
    let usage = Usage { shape: single.shape, key: single.key, lo: used.clone(), hi: used.clone() };
    single.table.insert_usage(&usage, &single.shapes, &single.budgets, at(secs(50))).unwrap();
    assert_eq!(single.peek(0, at(secs(50))).remaining, 0, "the window before is full");
    assert_eq!(single.peek(0, at(secs(62))).remaining, 1, "and the one that was reached keeps what it had");
    let far = Used::Calendar { index: index + 2, earlier: 0, later: 4 };
    let usage = Usage { lo: far.clone(), hi: far, ..usage };
    let refused = single.table.insert_usage(&usage, &single.shapes, &single.budgets, at(secs(51)));
    assert_eq!(refused, Err(InsertError::Misfit), "further ahead than clocks may differ");
}

#[test]
fn cluster_time_that_falls_opens_no_window_twice() {
    let mut single = open_minutes(2);
    assert!(single.ask(2, at(secs(61))).allowed);
    let back = Now::with_wall(Moment::from_nanos(secs(62)), WallTime::from_unix_nanos(BOOT + secs(59)));
    assert!(!single.ask(1, back).allowed);
}

#[test]
fn another_calendar_counts_what_was_used_as_used_in_its_current_window() {
    let mut single = open_minutes(10);
    single.ask(7, at(secs(30)));
    let charge = single.charge.unwrap();
    single.change(Shape { basis: Basis::Lo, ..calendar(10, 2 * SHORTEST) });
    let stands = single.ask(0, at(secs(40)));
    assert_eq!((stands.remaining, stands.reset_after), (3, Span::from_secs(80)));
    assert_eq!(single.table.undo(&charge, &single.shapes, at(secs(40))), 0, "its window is another now");
    single.change(Shape { basis: Basis::Lo, ..calendar(20, 2 * SHORTEST) });
    assert_eq!(single.ask(0, later(at(secs(40)), Span::from_secs(1))).remaining, 13);
}

#[test]
fn windows_of_two_calendars_are_not_one_window_though_they_have_one_index() {
    // The first windows of both calendars.
    let early = |nanos: u64| Now::with_wall(Moment::from_nanos(nanos), WallTime::from_unix_nanos(nanos));
    let mut single = open_minutes(10);
    single.ask(7, early(secs(30)));
    let charge = single.charge.unwrap();
    single.change(Shape { basis: Basis::Lo, ..calendar(10, 2 * SHORTEST) });
    assert_eq!(single.ask(0, early(secs(31))).remaining, 3);
    assert_eq!(single.table.undo(&charge, &single.shapes, early(secs(32))), 0);
    assert_eq!(single.peek(0, early(secs(32))).remaining, 3);
}

#[test]
fn more_than_twice_the_amount_is_cut_to_that() {
    let mut single = minutes(5);
    let index = window(limits::CalendarId(SHORTEST), at(secs(30)).wall.unwrap()).index;
    let used = |later| Used::Calendar { index, earlier: 0, later };
    let usage = Usage { shape: single.shape, key: single.key, lo: used(1), hi: used(u64::MAX) };
    single.table.insert_usage(&usage, &single.shapes, &single.budgets, at(secs(30))).unwrap();
    let exported = single.table.export(&single.shapes, at(secs(30))).next().unwrap();
    assert_eq!((exported.lo, exported.hi), (used(1), used(10)));
}
