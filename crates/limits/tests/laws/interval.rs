//! Usage as an interval: a key that is handed over whole decides on as before, one that is known in part decides on the
//! end that its limit's basis names, and both ends become one as what is unknown lapses.

use std::cell::Cell;

use limits::{Align, Basis, DomainId, InsertError, Moment, Now, Shape, Span, Usage, Used, WallTime};
use proptest::prelude::*;

use crate::cases::{any_shape, go, runner, steps};
use crate::single::{BOOT, Single, at, bucket, log, secs, window};

fn insert(single: &mut Single, lo: Used, hi: Used, now: Now) -> Result<(), InsertError> {
    let usage = Usage { shape: single.shape, key: single.key, lo, hi };
    single.table.insert_usage(&usage, &single.shapes, &single.budgets, now)
}

/// A bucket of 1/s, burst 10, with this many seconds missing from full.
fn level(units: u64) -> Used {
    Used::Bucket { level: u128::from(secs(units)) }
}

fn unknown_bucket(basis: Basis) -> Single {
    let mut single = Single::new(Shape { basis, ..bucket(1, secs(1), 10) });
    insert(&mut single, level(2), level(7), at(0)).unwrap();
    single
}

#[test]
fn a_key_that_is_handed_over_whole_decides_on_as_before() {
    let handed = Cell::new(0);
    // The new owner's machine was booted at another time: only ages travel, and windows in cluster time.
    let cases = (any_shape(), secs(100_000)..secs(200_000), steps(20), secs(90_000)..secs(400_000), steps(20));
    runner(800)
        .run(&cases, |(shape, start, before, boot, after)| {
            let mut old = Single::new(shape);
            let (mut now, mut last) = (at(start), None);
            for step in &before {
                let cost;
                (now, cost) = go(now, step, &shape, last.as_ref());
                last = Some(old.ask(cost, now));
            }
            let Some(there) = boot.checked_add(now.moment.as_nanos() - start) else { return Ok(()) };
            let elsewhere = |now: Now, moment: u64| Now { moment: Moment::from_nanos(moment), ..now };
            let mut new = Single::new(shape);
            for usage in old.table.export(&old.shapes, now) {
                prop_assert_eq!(&usage.lo, &usage.hi, "exact");
                let taken = new.table.insert_usage(&usage, &new.shapes, &new.budgets, elsewhere(now, there));
                prop_assert_eq!(taken, Ok(()));
                handed.set(handed.get() + 1);
            }
            let handover = now.moment;
            for step in &after {
                let cost;
                (now, cost) = go(now, step, &shape, last.as_ref());
                let passed = now.moment.since(handover).as_nanos();
                let decision = old.ask(cost, now);
                prop_assert_eq!(decision, new.ask(cost, elsewhere(now, there + passed)));
                last = Some(decision);
            }
            Ok(())
        })
        .unwrap();
    assert!(handed.get() > 300, "only {} cases handed a key over", handed.get());
}

#[test]
fn an_open_limit_decides_on_the_least_and_a_closed_one_on_the_most() {
    assert_eq!(unknown_bucket(Basis::Lo).ask(0, at(0)).remaining, 8);
    assert_eq!(unknown_bucket(Basis::Hi).ask(0, at(0)).remaining, 3);
}

#[test]
fn both_ends_are_charged() {
    let mut single = unknown_bucket(Basis::Lo);
    assert_eq!(single.ask(4, at(0)).remaining, 4);
    single.change(bucket(1, secs(1), 10));
    assert_eq!(single.ask(0, at(0)).remaining, 0, "open to closed decides on the most: eleven of ten");
    single.change(Shape { basis: Basis::Lo, ..bucket(1, secs(1), 10) });
    assert_eq!(single.ask(0, at(0)).remaining, 4);
}

#[test]
fn what_is_unknown_lapses_and_the_ends_become_one() {
    let mut single = unknown_bucket(Basis::Lo);
    single.ask(1, at(secs(7)));
    let usage = single.table.export(&single.shapes, at(secs(7))).next().unwrap();
    assert_eq!((usage.lo, usage.hi), (level(1), level(1)));
    let mut exact = Single::new(bucket(1, secs(1), 10));
    exact.ask(1, at(0));
    assert_eq!(single.table.allocated_bytes(), exact.table.allocated_bytes(), "an exact bucket needs no box");
}

#[test]
fn an_entry_stays_for_as_long_as_its_most_does() {
    let mut single = unknown_bucket(Basis::Lo);
    assert_eq!(single.sweep(at(secs(7) - 1)), 0, "the least is fresh since five seconds");
    assert_eq!(single.sweep(at(secs(7))), 1);
}

#[test]
fn undoing_a_charge_of_an_uncertain_bucket_errs_outwards() {
    for (basis, remaining) in [(Basis::Hi, 0), (Basis::Lo, 8)] {
        let mut single = unknown_bucket(basis);
        single.ask(3, at(0));
        let charge = single.charge.unwrap();
        single.undo(&charge, at(0));
        assert_eq!(single.peek(0, at(0)).remaining, remaining, "{basis:?}");
    }
}

#[test]
fn undoing_a_charge_of_an_uncertain_log_or_window_is_exact() {
    let aged = |age, units| Used::Log { groups: vec![(Span::from_secs(age), units)] };
    let used = |units| Used::Window { left: Span::from_secs(5), units };
    for (shape, lo, hi) in
        [(log(10, secs(9)), aged(3, 1), aged(3, 4)), (window(10, secs(9), Align::First), used(1), used(4))]
    {
        let mut single = Single::new(shape);
        insert(&mut single, lo, hi, at(secs(100))).unwrap();
        assert_eq!(single.ask(5, at(secs(101))).remaining, 1);
        let charge = single.charge.unwrap();
        single.undo(&charge, at(secs(102)));
        assert_eq!(single.peek(0, at(secs(102))).remaining, 6, "{shape:?}");
    }
}

#[test]
fn usage_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut single = unknown_bucket(Basis::Hi);
    let misfits = [
        (level(7), level(2)),
        (level(0), Used::Window { left: Span::from_secs(1), units: 1 }),
        (Used::Log { groups: vec![] }, level(1)),
    ];
    for (lo, hi) in misfits {
        assert_eq!(insert(&mut single, lo, hi, at(0)), Err(InsertError::Misfit));
    }
    let mut aligned = Single::new(window(5, secs(1), Align::Epoch));
    let first = Used::Window { left: Span::from_secs(1), units: 1 };
    assert_eq!(insert(&mut aligned, first.clone(), first, at(0)), Err(InsertError::Misfit));
    let mut sliding = Single::new(log(5, secs(9)));
    let disordered = Used::Log { groups: vec![(Span::from_secs(1), 1), (Span::from_secs(2), 1)] };
    assert_eq!(insert(&mut sliding, disordered.clone(), disordered, at(secs(9))), Err(InsertError::Misfit));
    assert_eq!(single.peek(0, at(0)).remaining, 3, "as it was");
    assert!(aligned.table.is_empty() && sliding.table.is_empty());
}

#[test]
fn usage_takes_room_like_any_key_and_fresh_usage_takes_none() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    single.budgets.set_max(DomainId(0), 0);
    assert_eq!(insert(&mut single, level(1), level(1), at(0)), Err(InsertError::TableFull));
    assert_eq!(insert(&mut single, level(0), level(0), at(0)), Ok(()));
    assert_eq!((single.table.len(), single.budgets.used(DomainId(0))), (0, 0));
    single.budgets.set_max(DomainId(0), 1);
    for units in [1, 2, 3] {
        assert_eq!(insert(&mut single, level(units), level(units), at(0)), Ok(()), "in place of what was known");
    }
    assert_eq!(insert(&mut single, level(0), level(0), at(0)), Ok(()));
    assert_eq!((single.table.len(), single.budgets.used(DomainId(0))), (0, 0));
}

#[test]
fn more_than_twice_the_capacity_is_cut_to_that() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    insert(&mut single, level(0), Used::Bucket { level: u128::MAX }, at(0)).unwrap();
    assert_eq!(single.peek(0, at(0)).reset_after, Span::from_secs(20));
    let mut aligned = Single::new(window(10, secs(60), Align::Epoch));
    let end = WallTime::from_unix_nanos(BOOT + secs(60));
    let used = |units| Used::AlignedWindow { end, units };
    insert(&mut aligned, used(3), used(u64::MAX), at(0)).unwrap();
    assert_eq!(aligned.peek(0, at(0)).remaining, 0);
    assert_eq!(aligned.peek(0, at(secs(60))).remaining, 10);
}
