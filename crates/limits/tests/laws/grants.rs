//! Partial grants, resets and what each algorithm calls never: what is granted is what was there, all of it and no more.

use std::cell::Cell;

use limits::{Absent, Align, Budgets, Decided, Fingerprint, Leg, LimitId, Now, Shape, Shapes, Table, Wait};
use proptest::prelude::*;

use crate::cases::{any_shape, go, runner, steps};
use crate::single::{Single, at, bucket, calendar, counter, log, secs, shapes, slots, window};

impl Single {
    fn up_to(&mut self, most: u64, now: Now) -> (u64, Decided) {
        let (leg, mut out) = (self.leg(1), Decided::default());
        let granted = self.table.decide_up_to(&[leg], most, &self.shapes, &self.budgets, now, &mut out).unwrap();
        (granted, out)
    }
}

fn one_of_each() -> [Shape; 8] {
    [
        bucket(5, secs(60), 5),
        log(5, secs(60)),
        window(5, secs(60), Align::First),
        window(5, secs(60), Align::Epoch),
        window(5, secs(60), Align::Hashed),
        counter(5, secs(60)),
        calendar(5, 60_000),
        slots(5, secs(60), 2),
    ]
}

#[test]
fn granted_is_what_is_asked_or_all_that_is_left() {
    let (some, none) = (Cell::new(0), Cell::new(0));
    runner(600)
        .run(&(any_shape(), 0..secs(1_000), steps(40)), |(shape, start, steps)| {
            let mut single = Single::new(shape);
            let (mut now, mut last) = (at(start), None);
            for step in &steps {
                let most;
                (now, most) = go(now, step, &shape, last.as_ref());
                let there = single.peek(0, now).remaining;
                let (granted, out) = single.up_to(most, now);
                prop_assert_eq!(granted, most.min(there));
                prop_assert_eq!(out.charges.iter().map(limits::Charge::cost).sum::<u64>(), granted);
                prop_assert_eq!(single.peek(0, now).remaining, there - granted);
                prop_assert_eq!(out.legs[0].allowed, granted > 0 || most == 0);
                let counter = if granted > 0 { &some } else { &none };
                counter.set(counter.get() + 1);
                last = Some(out.legs[0]);
            }
            Ok(())
        })
        .unwrap();
    assert!(some.get() > 2_000 && none.get() > 2_000, "{} and {}", some.get(), none.get());
}

#[test]
fn the_tightest_leg_decides_how_much_is_granted_and_a_shadow_does_not() {
    let (mut shapes, budgets, mut table, mut out) = (shapes(), Budgets::new(), Table::new(), Decided::default());
    let mut leg = |limit: u32, burst: u64, cost: u64, shadow: bool| Leg {
        shape: shapes.intern(Shape { limit: LimitId(limit), ..bucket(1, secs(3_600), burst) }),
        key: Fingerprint([u64::from(limit), 0]),
        cost,
        absent: Absent::Fresh,
        shadow,
    };
    let legs = [leg(1, 100, 5, false), leg(2, 30, 1, false), leg(3, 7, 1, true)];
    let granted = table.decide_up_to(&legs, 1_000, &shapes, &budgets, at(0), &mut out).unwrap();
    assert_eq!((granted, out.legs[0].remaining, out.legs[1].remaining), (20, 0, 10));
    assert_eq!((out.charges.len(), out.legs[2].allowed), (2, false), "the shadow admits twenty by itself, or nothing");
    let none = table.decide_up_to(&legs, 1_000, &shapes, &budgets, at(0), &mut out).unwrap();
    assert_eq!((none, out.charges.len()), (0, 0));
    assert_eq!(out.legs[0].wait, Wait::After(limits::Span::from_secs(5 * 3_600)), "the wait for one unit");
}

#[test]
fn two_legs_of_one_key_share_what_is_granted() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    let (two, three, mut out) = (single.leg(2), single.leg(3), Decided::default());
    let granted = single.table.decide_up_to(&[two, three], 9, &single.shapes, &single.budgets, at(0), &mut out);
    assert_eq!((granted, single.peek(0, at(0)).remaining), (Ok(2), 0));
}

#[test]
fn nothing_is_granted_of_zero_and_everything_of_unlimited() {
    assert_eq!(Single::new(bucket(0, secs(1), 5)).up_to(3, at(0)).0, 0);
    let unlimited = Shape { rate: None, ..bucket(1, 1, 1) };
    assert_eq!(Single::new(unlimited).up_to(u64::MAX, at(0)).0, u64::MAX);
    assert_eq!(Single::new(bucket(1, secs(1), 5)).up_to(0, at(0)).0, 0, "asking for nothing is a look");
}

#[test]
fn a_reset_makes_a_key_as_one_that_was_never_used() {
    for shape in one_of_each() {
        let mut single = Single::new(shape);
        single.ask(4, at(0));
        let charge = single.charge.unwrap();
        let leg = single.leg(0);
        assert!(single.table.reset(&leg, &single.shapes, &single.budgets, at(0)), "{shape:?}");
        assert!(!single.table.reset(&leg, &single.shapes, &single.budgets, at(0)), "there is nothing left to forget");
        assert_eq!((single.table.len(), single.budgets.used(limits::DomainId(0))), (0, 0));
        assert_eq!(single.ask(3, at(0)).remaining, 2, "{shape:?}");
        assert_eq!(single.table.undo(&charge, &single.shapes, at(0)), 0, "what was charged before is gone");
        assert_eq!(single.peek(0, at(0)).remaining, 2, "{shape:?}");
    }
}

#[test]
fn a_reset_after_a_takeover_lifts_the_floor_from_that_key_alone() {
    for shape in one_of_each() {
        let mut single = Single::new(shape);
        single.absent = Absent::FullAsOf(at(secs(100)));
        let now = at(secs(100) + 1);
        assert_eq!(single.peek(0, now).remaining, 0, "{shape:?}");
        let leg = single.leg(0);
        assert!(single.table.reset(&leg, &single.shapes, &single.budgets, now));
        assert_eq!(single.peek(0, now).remaining, 5, "{shape:?}");
        assert_eq!(single.ask(3, now).remaining, 2, "{shape:?}");
        let other = Leg { key: Fingerprint([8, 8]), ..leg };
        assert_eq!(single.table.peek(&other, &single.shapes, now).unwrap().remaining, 0);
    }
}

#[test]
fn what_can_never_fit_says_never_whatever_is_used() {
    for shape in one_of_each() {
        let mut single = Single::new(shape);
        for used in [0, 2, 3] {
            single.ask(used, at(0));
            assert_eq!(single.ask(6, at(0)).wait, Wait::Never, "{shape:?}");
            assert_eq!(single.peek(u64::MAX, at(0)).wait, Wait::Never, "{shape:?}");
        }
        assert!(matches!(single.ask(5, at(0)).wait, Wait::After(_)), "{shape:?}");
    }
}

#[test]
fn a_cost_of_zero_is_a_peek_for_every_algorithm() {
    for shape in one_of_each() {
        let mut single = Single::new(shape);
        let fresh = single.ask(0, at(0));
        assert_eq!((fresh.allowed, fresh.remaining, fresh.next_unit_after), (true, 5, None), "{shape:?}");
        assert!(single.charge.is_none() && single.table.is_empty());
        single.ask(5, at(0));
        assert_eq!(single.ask(0, at(0)), single.peek(0, at(0)), "{shape:?}");
        assert!(single.ask(0, at(0)).allowed);
    }
}

#[test]
fn what_an_algorithm_promises_for_any_period_can_be_asked_for() {
    let promises = one_of_each().map(|shape| shape.most_in_any_period());
    let ten = Some(10);
    assert_eq!(promises, [ten, Some(5), ten, ten, ten, Some(9), None, None]);
    assert_eq!(Shape { rate: None, ..counter(1, 1) }.most_in_any_period(), None);
    assert_eq!((counter(0, 1).most_in_any_period(), counter(100, 7).most_in_any_period()), (Some(0), Some(185)));
    assert_eq!(Shapes::new().len(), 0);
}
