//! The sliding counter: what it estimates, how far it can be wrong, and that it never is by more.

use std::cell::Cell;

use limits::{AMOUNT_MAX, Basis, InsertError, Shape, Span, Usage, Used, Wait};
use proptest::prelude::*;

use crate::cases::{counters, go, runner, steps};
use crate::single::{Single, at, counter, millis, secs};
use crate::twin::{Admission, Twin};

#[test]
fn the_earlier_cell_counts_by_the_part_that_a_window_still_covers() {
    let mut single = Single::new(counter(100, secs(60)));
    assert_eq!(single.ask(80, at(0)).remaining, 20);
    assert_eq!(single.peek(0, at(secs(60))).remaining, 20, "all of it, at the edge");
    assert_eq!(single.peek(0, at(secs(75))).remaining, 40, "three quarters of eighty");
    assert_eq!(single.ask(10, at(secs(90))).remaining, 50);
    let refused = single.ask(60, at(secs(90)));
    assert_eq!(refused.wait, Wait::After(Span::from_nanos(7_500_000_000)), "ten units of eighty fade in 7.5 s");
    assert_eq!(single.peek(0, at(secs(120))).remaining, 90, "the later cell is the earlier one now");
    assert_eq!(single.peek(0, at(secs(90))).reset_after, Span::from_secs(90));
}

#[test]
fn the_worst_window_sees_just_under_twice_the_amount_and_never_more() {
    for (amount, period) in [(100, secs(60)), (1, secs(1)), (7, 3), (1_000, 10), (AMOUNT_MAX, secs(3_600))] {
        let mut single = Single::new(counter(amount, period));
        // A cell filled at its very end, and the next one at its own.
        let first = at(secs(5));
        assert!(single.ask(1, first).allowed);
        let filled = at(secs(5) + period - 1);
        let early = single.peek(0, filled).remaining;
        assert!(early == 0 || single.ask(early, filled).allowed);
        let last = at(secs(5) + 2 * period - 1);
        let late = single.peek(0, last).remaining;
        assert!(late == 0 || single.ask(late, last).allowed);
        let promised = counter(amount, period).most_in_any_period().unwrap();
        let in_one_window = if filled == first { 1 + early + late } else { early + late };
        assert!(in_one_window <= promised, "{in_one_window} of {promised}");
        assert!(in_one_window + 1 >= promised, "the bound is met, but for the unit that opened the cell");
    }
}

#[test]
fn a_cell_that_was_filled_at_its_start_refuses_what_a_log_would_not() {
    let mut single = Single::new(counter(100, secs(60)));
    assert!(single.ask(100, at(0)).allowed);
    let refused = single.ask(11, at(secs(66)));
    assert_eq!((refused.allowed, refused.remaining), (false, 10), "ninety still count, though all are 66 s old");
}

/// Upstash: a refused call of 100 drove the counter to 109.
#[test]
fn b2_a_refused_call_is_not_counted() {
    let mut single = Single::new(counter(10, secs(10)));
    single.ask(9, at(0));
    assert_eq!(single.ask(100, at(secs(9))).wait, Wait::Never);
    assert_eq!(single.peek(0, at(secs(15))).remaining, 5, "half of nine is 4.5");
    assert!(single.ask(5, at(secs(15))).allowed);
}

#[test]
fn steady_overload_gets_the_amount() {
    let mut single = Single::new(counter(500, secs(1)));
    let hits = (0..20_000u64).filter(|step| single.ask(1, at(step * millis(1))).allowed).count();
    assert!((9_500..=10_500).contains(&hits), "{hits} in twenty seconds");
}

#[test]
fn counts_beyond_32_bits_are_kept_whole() {
    let mut single = Single::new(counter(AMOUNT_MAX, secs(60)));
    assert_eq!(single.ask(AMOUNT_MAX - 5, at(0)).remaining, 5);
    assert_eq!(single.ask(5, at(secs(30))).remaining, 0);
    assert_eq!(single.peek(0, at(secs(90))).remaining, AMOUNT_MAX / 2);
    let wide = single.table.allocated_bytes();
    let mut small = Single::new(counter(1 << 31, secs(60)));
    small.ask(5, at(0));
    assert!(small.table.allocated_bytes() == wide, "twice 2^31 does not fit into 32 bits");
    small = Single::new(counter((1 << 31) - 1, secs(60)));
    small.ask(5, at(0));
    assert!(small.table.allocated_bytes() < wide, "what fits needs no box");
    assert!(small.force(u64::MAX, at(0)), "nor does the largest debt");
    assert_eq!(small.peek(0, at(secs(90))).remaining, 0);
}

#[test]
fn a_cut_limit_keeps_counts_that_its_own_charges_could_not_reach() {
    let mut single = Single::new(counter(AMOUNT_MAX, secs(60)));
    single.ask(1_000_000_000_000, at(0));
    single.change(counter(10, secs(60)));
    assert_eq!(single.ask(0, at(secs(119))).remaining, 0);
    let refused = single.ask(10, at(secs(120) - 1));
    assert_eq!(refused.wait, Wait::After(Span::from_nanos(1)), "a nanosecond of 10^12 a minute is 17 still");
}

#[test]
fn a_change_within_one_period_keeps_the_cells_and_their_charges() {
    let mut single = Single::new(counter(10, secs(60)));
    single.ask(6, at(0));
    let charge = single.charge.unwrap();
    single.change(counter(20, secs(60)));
    assert_eq!(single.ask(0, at(secs(90))).remaining, 17, "three of six, and not six from now on");
    assert_eq!(single.table.undo(&charge, &single.shapes, at(secs(90))), 3);
    assert_eq!(single.peek(0, at(secs(90))).remaining, 20);
}

#[test]
fn an_undone_charge_of_a_counter_is_as_if_it_had_never_been_in_its_cell() {
    let undone = Cell::new(0);
    runner(600)
        .run(&(counters(), 0..secs(1_000), steps(40)), |(shape, start, steps)| {
            let mut single = Single::new(shape);
            // Cells begin where they began, whatever is undone: the twin is told of charges and forgets undone ones.
            let mut twin = Twin::new(shape, single.key);
            let mut charges = Vec::new();
            let (mut now, mut last) = (at(start), None);
            for step in &steps {
                let cost;
                (now, cost) = go(now, step, &shape, last.as_ref());
                if step.sweep && !charges.is_empty() {
                    let index = cost as usize % charges.len();
                    let (charge, _): (limits::Charge, Admission) = charges.remove(index);
                    twin.admissions.remove(index);
                    single.undo(&charge, now);
                    undone.set(undone.get() + 1);
                }
                let decision = single.ask(cost, now);
                prop_assert_eq!(decision.allowed, twin.admits(cost, now));
                if let Some(charge) = single.charge {
                    twin.admit(cost, now);
                    charges.push((charge, Admission { at: now, cost }));
                }
                prop_assert_eq!(decision.remaining, twin.remaining(now));
                last = Some(decision);
            }
            crate::twin::assert_never_over(&twin, &twin.admissions);
            Ok(())
        })
        .unwrap();
    assert!(undone.get() > 1_000, "{} undone", undone.get());
}

#[test]
fn a_counter_of_which_two_things_are_said_decides_on_its_basis() {
    let used = |later| Used::Counter { elapsed: Span::from_secs(30), earlier: 4, later };
    for (basis, remaining) in [(Basis::Hi, 1), (Basis::Lo, 5)] {
        let mut single = Single::new(Shape { basis, ..counter(10, secs(60)) });
        let usage = Usage { shape: single.shape, key: single.key, lo: used(3), hi: used(7) };
        single.table.insert_usage(&usage, &single.shapes, &single.budgets, at(secs(100))).unwrap();
        assert_eq!(single.peek(0, at(secs(100))).remaining, remaining);
        single.ask(1, at(secs(100)));
        let Used::Counter { later, .. } = single.table.export(&single.shapes, at(secs(100))).next().unwrap().lo else {
            panic!("a counter")
        };
        assert_eq!(later, 4, "both ends are charged");
    }
    let mut single = Single::new(counter(10, secs(60)));
    let late = Used::Counter { elapsed: Span::from_secs(60), earlier: 0, later: 1 };
    let usage = Usage { shape: single.shape, key: single.key, lo: late.clone(), hi: late };
    let refused = single.table.insert_usage(&usage, &single.shapes, &single.budgets, at(secs(100)));
    assert_eq!(refused, Err(InsertError::Misfit), "a later cell is never older than a period");
}
