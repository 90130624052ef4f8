//! The field's known pitfalls that concern arithmetic, by the number they have in our notes. Those that are a law of
//! their own stand with it: P5 and P6 in `clocks`, P8 and P25 in `extremes`, P9 in `expiry`, P10, P24 and P26 in
//! `rooms`, P11 in `change`.

use limits::{Align, Shape, Span, Wait};

use crate::single::{Single, at, bucket, log, millis, secs, window};

/// Takes all that is there, every `step` nanoseconds for `length`, and answers how much that was.
fn drain(single: &mut Single, step: u64, length: u64) -> u64 {
    let mut taken = 0;
    for nanos in (0..=length).step_by(step as usize) {
        let there = single.ask(0, at(nanos)).remaining;
        assert!(there == 0 || single.ask(there, at(nanos)).allowed);
        taken += there;
    }
    taken
}

#[test]
fn p1_a_million_tenths_are_a_hundred_thousand() {
    let mut single = Single::new(bucket(10, secs(1), 1));
    for tenth in 0..1_000_000u64 {
        assert!(single.ask(1, at(tenth * millis(100))).allowed);
    }
    assert_eq!(single.ask(1, at(secs(100_000) - 1)).wait, Wait::After(Span::from_nanos(1)));
    assert!(single.ask(1, at(secs(100_000))).allowed);
}

#[test]
fn p2_a_nanosecond_counts_centuries_after_the_epoch() {
    let start = secs(300 * 365 * 86_400) + 1;
    for shape in [bucket(1, secs(1), 1), log(1, secs(1)), window(1, secs(1), Align::First)] {
        let mut single = Single::new(shape);
        assert!(single.ask(1, at(start)).allowed);
        assert_eq!(single.ask(1, at(start + secs(1) - 1)).wait, Wait::After(Span::from_nanos(1)), "{shape:?}");
        assert!(single.ask(1, at(start + secs(1))).allowed);
    }
}

#[test]
fn p3_rates_that_do_not_divide_evenly_are_exact_over_the_long_run() {
    for (amount, step) in [(1_000_003, 9_973), (86_401, 99_991), (700_000_000, 997), (3_000_000_000, 1_000)] {
        let burst = amount / 1_000;
        let mut single = Single::new(bucket(amount, secs(1), burst));
        let length = secs(1) / step * step;
        let exact = u128::from(burst) + u128::from(amount) * u128::from(length) / u128::from(secs(1));
        assert_eq!(u128::from(drain(&mut single, step, length)), exact, "{amount}/s");
    }
}

#[test]
fn p3_a_day_of_86_401_is_not_a_day_of_86_400() {
    let mut single = Single::new(bucket(86_401, secs(86_400), 1));
    let mut now = 0;
    for _ in 0..86_401 {
        while let Wait::After(wait) = single.ask(1, at(now)).wait {
            now += wait.as_nanos();
        }
    }
    // The last unit comes one interval before the day is over, plus what whole nanoseconds cost a burst of one: less
    // than one per unit.
    let exact = (u128::from(secs(86_400)) * 86_400 / 86_401) as u64;
    assert!((exact..exact + 86_401).contains(&now), "{now}, not {exact}");
}

#[test]
fn p4_polling_often_loses_no_fraction() {
    let mut single = Single::new(bucket(5, secs(60), 5));
    let mut admitted = 0;
    for step in 0..=secs(600) / millis(7) {
        admitted += u64::from(single.ask(1, at(step * millis(7))).allowed);
    }
    assert!((54..=55).contains(&admitted), "{admitted} in ten minutes: five at once and fifty since");
}

#[test]
fn p12_refusals_are_not_counted() {
    for shape in [bucket(1, secs(1), 5), log(5, secs(5)), window(5, secs(5), Align::First)] {
        let mut single = Single::new(shape);
        assert!(single.ask(5, at(0)).allowed);
        for hammer in 0..1_000 {
            assert!(!single.ask(if hammer % 2 == 0 { 1 } else { u64::MAX }, at(hammer)).allowed);
        }
        assert!(single.ask(5, at(secs(5))).allowed, "{shape:?}: hammering starved nobody");
    }
}

#[test]
fn p12_an_oversized_refusal_makes_no_entry() {
    let mut single = Single::new(bucket(1, secs(1), 5));
    assert_eq!(single.ask(6, at(0)).wait, Wait::Never);
    assert!(single.table.is_empty());
}

#[test]
fn p13_a_cost_above_the_capacity_is_never() {
    for shape in [bucket(100, secs(1), 10), log(10, secs(1)), window(10, secs(1), Align::Epoch)] {
        let mut single = Single::new(shape);
        assert_eq!(single.ask(11, at(0)).wait, Wait::Never);
        assert!(single.ask(10, at(0)).allowed);
        assert_eq!(single.ask(11, at(0)).wait, Wait::Never, "{shape:?}");
    }
}

#[test]
fn p14_a_cost_of_zero_is_a_peek_and_creates_nothing() {
    for shape in [bucket(1, secs(1), 5), log(5, secs(5)), window(5, secs(5), Align::Hashed)] {
        let mut single = Single::new(shape);
        let fresh = single.ask(0, at(0));
        assert_eq!((fresh.allowed, fresh.remaining, fresh.reset_after), (true, 5, Span::ZERO));
        assert_eq!((fresh.next_unit_after, single.charge), (None, None));
        assert!(single.table.is_empty());
        single.ask(5, at(0));
        let spent = single.ask(0, at(0));
        assert_eq!((spent.allowed, spent.wait, spent.remaining), (true, Wait::Now, 0), "{shape:?}: zero always fits");
        assert_eq!(spent, single.peek(0, at(0)));
    }
}

#[test]
fn p15_nothing_a_caller_sends_raises_a_quota() {
    // A cost has no sign, so what is left is the refund: it cannot lift a key above its capacity.
    let mut single = Single::new(bucket(1, secs(1), 5));
    single.ask(3, at(0));
    let charge = single.charge.unwrap();
    single.undo(&charge, at(secs(2)));
    let refilled = single.peek(0, at(secs(2)));
    assert_eq!((refilled.remaining, refilled.reset_after), (5, Span::ZERO));
    single.undo(&charge, at(secs(60)));
    assert_eq!(single.ask(5, at(secs(60))).remaining, 0);
    assert!(!single.ask(1, at(secs(60))).allowed);
}

#[test]
fn p16_waits_are_rounded_up() {
    let mut single = Single::new(bucket(3, 10, 1));
    single.ask(1, at(0));
    assert_eq!(single.ask(1, at(0)).wait, Wait::After(Span::from_nanos(4)), "a unit takes 3 1/3 ns");
    assert!(!single.ask(1, at(3)).allowed && single.ask(1, at(4)).allowed);
    let nearly = Span::from_nanos(900_000_001);
    assert_eq!((nearly.as_millis_ceil(), nearly.as_secs_ceil()), (901, 1));
    assert_eq!((Span::from_nanos(1).as_secs_ceil(), Span::MAX.as_millis_ceil()), (1, u64::MAX.div_ceil(1_000_000)));
}

#[test]
fn p17_remaining_is_floored() {
    let mut single = Single::new(bucket(1, secs(1), 5));
    assert_eq!(single.ask(2, at(0)).remaining, 3);
    assert_eq!(single.ask(0, at(secs(1) - 1)).remaining, 3);
    assert_eq!(single.ask(0, at(secs(1))).remaining, 4);
    assert_eq!(single.ask(0, at(secs(2) - 1)).remaining, 4, "a nanosecond short of full is not full");
    assert_eq!(single.ask(0, at(secs(2))).remaining, 5);
}

#[test]
fn p18_exactly_the_capacity_fits() {
    for shape in [bucket(7, secs(1), 9), log(9, secs(1)), window(9, secs(1), Align::First)] {
        let mut single = Single::new(shape);
        assert!(single.ask(9, at(0)).allowed && !single.ask(1, at(0)).allowed, "{shape:?}");
    }
}

#[test]
fn p19_zero_refuses_all_and_unlimited_is_its_own_word() {
    for shape in [bucket(0, secs(1), 5), log(0, secs(1)), window(0, secs(1), Align::Epoch)] {
        let mut single = Single::new(shape);
        for cost in [0, 1, u64::MAX] {
            let refused = single.ask(cost, at(0));
            assert_eq!((refused.allowed, refused.wait, refused.capacity), (false, Wait::Never, 0), "{shape:?}");
        }
        assert_eq!((shape.capacity(), single.table.len()), (Some(0), 0));
    }
    let no_burst = Single::new(bucket(5, secs(1), 0)).ask(1, at(0));
    assert_eq!((no_burst.allowed, no_burst.wait, no_burst.capacity), (false, Wait::Never, 0));
    let unlimited = Shape { rate: None, ..bucket(1, 1, 1) };
    let mut single = Single::new(unlimited);
    let admitted = single.ask(u64::MAX, at(0));
    assert_eq!((admitted.allowed, admitted.capacity, admitted.remaining), (true, u64::MAX, u64::MAX));
    assert_eq!((unlimited.capacity(), single.table.len()), (None, 0));
}

#[test]
fn a_log_that_is_full_of_groups_merges_the_two_oldest_at_the_later_instant() {
    let mut shape = log(10, secs(10));
    shape.algorithm = limits::Algorithm::SlidingLog { max_entries: 3 };
    let mut single = Single::new(shape);
    for second in 0..4 {
        single.ask(1, at(secs(second)));
    }
    // The groups are now {1 s: 2, 2 s: 1, 3 s: 1}: the first unit comes back a second late, none comes back early.
    assert_eq!(single.peek(0, at(secs(11) - 1)).remaining, 6);
    assert_eq!(single.peek(0, at(secs(11))).remaining, 8);
    assert_eq!(single.peek(0, at(secs(12))).remaining, 9);
    let next = single.ask(1, at(secs(4)));
    assert_eq!(next.next_unit_after, Some(Span::from_secs(8)), "and the answer knows that it merged once more");
}
