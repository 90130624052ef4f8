//! The ends of the number line: the largest amounts, the longest periods, the last instants, and any cost at all. No
//! panic, no overflow, never over.

use std::cell::Cell;

use limits::{
    AMOUNT_MAX, Absent, Algorithm, Align, Moment, Now, PERIOD_MAX, Rate, RateError, Shape, Span, Wait, WallTime,
};
use proptest::prelude::*;

use crate::cases::runner;
use crate::single::{Single, at, bucket, calendar, counter, log, slots, window};
use crate::twin::{Admission, Twin, assert_never_over};

fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 2, AMOUNT_MAX - 1, AMOUNT_MAX, u64::MAX - 1, u64::MAX]),
        any::<u64>(),
        0..100u64,
    ]
}

fn extreme_shapes() -> impl Strategy<Value = Shape> {
    let amount = prop_oneof![prop::sample::select(vec![1, 2, AMOUNT_MAX - 1, AMOUNT_MAX]), 1..=AMOUNT_MAX];
    let longest = PERIOD_MAX.as_nanos();
    let period = prop_oneof![prop::sample::select(vec![1, 2, longest - 1, longest]), 1..=longest];
    let burst = prop_oneof![prop::sample::select(vec![0, 1, AMOUNT_MAX]), 0..=AMOUNT_MAX];
    (amount, period, burst, 0..8u8).prop_map(|(amount, period, burst, kind)| match kind {
        0 => bucket(amount, period, burst),
        1 => Shape { algorithm: Algorithm::SlidingLog { max_entries: burst as u32 % 4 }, ..log(amount, period) },
        2 => window(amount, period, Align::First),
        3 => window(amount, period, Align::Epoch),
        4 => counter(amount, period),
        5 => calendar(amount, 1_000 + burst as u32 % 100_000),
        6 => slots(amount, period, 1 + burst % 3),
        _ => window(amount, period, Align::Hashed),
    })
}

#[test]
fn p8_the_largest_numbers_neither_wrap_nor_panic_nor_go_over() {
    let (admitted, denied) = (Cell::new(0u64), Cell::new(0u64));
    let op = (edge(), edge(), 0..10u8);
    let cases = (extreme_shapes(), extreme_shapes(), edge(), prop::collection::vec(op, 1..25));
    runner(2_000)
        .run(&cases, |(shape, other, floor, ops)| {
            let mut single = Single::new(shape);
            if floor % 2 == 0 {
                single.absent = Absent::FullAsOf(Now::at(Moment::from_nanos(floor)));
            }
            let (mut latest, mut admissions, mut clean) = (0, Vec::new(), true);
            for (instant, cost, op) in ops {
                latest = latest.max(instant);
                let now = Now::with_wall(Moment::from_nanos(latest), WallTime::from_unix_nanos(latest));
                match op {
                    0 => single.change(other),
                    1 => single.change(shape),
                    2 => drop(single.force(cost, now)),
                    3 => drop(single.sweep(now)),
                    4 => drop(single.peek(cost, now)),
                    5 => single.charge.take().iter().for_each(|charge| single.undo(charge, now)),
                    _ => {}
                }
                clean &= !matches!(op, 0 | 5);
                let decision = single.ask(cost, now);
                prop_assert!(decision.remaining <= decision.capacity, "law 7");
                match decision.wait {
                    Wait::Now => admitted.set(admitted.get() + 1),
                    Wait::After(_) | Wait::Never => denied.set(denied.get() + 1),
                }
                if decision.allowed && cost > 0 && clean {
                    admissions.push(Admission { at: now, cost });
                }
            }
            assert_never_over(&Twin::new(shape, single.key), &admissions);
            Ok(())
        })
        .unwrap();
    assert!(admitted.get() > 3_000 && denied.get() > 3_000, "{} and {}", admitted.get(), denied.get());
}

#[test]
fn b11_the_longest_idle_after_the_largest_burst_is_a_full_bucket() {
    let mut single = Single::new(bucket(AMOUNT_MAX, PERIOD_MAX.as_nanos(), AMOUNT_MAX));
    assert_eq!(single.ask(AMOUNT_MAX, Now::at(Moment::ZERO)).remaining, 0);
    assert_eq!(single.ask(0, Now::at(Moment::MAX)).remaining, AMOUNT_MAX);
    assert_eq!(single.ask(AMOUNT_MAX, Now::at(Moment::MAX)).remaining, 0);
    let refused = single.ask(1, Now::at(Moment::MAX));
    assert_eq!(refused.wait, Wait::After(Span::from_nanos(PERIOD_MAX.as_nanos().div_ceil(AMOUNT_MAX))));
}

#[test]
fn a_refill_of_longer_than_time_itself_is_counted_exactly() {
    // One unit a year, and ten billion of them: full again after ten billion years.
    let mut single = Single::new(bucket(1, PERIOD_MAX.as_nanos(), 10_000_000_000));
    let spent = single.ask(10_000_000_000, at(0));
    assert_eq!((spent.remaining, spent.reset_after), (0, Span::MAX));
    assert_eq!(single.ask(0, at(PERIOD_MAX.as_nanos() * 3)).remaining, 3);
}

#[test]
fn p25_costs_are_as_wide_as_amounts() {
    for shape in [
        bucket(AMOUNT_MAX, 1_000_000_000, AMOUNT_MAX),
        log(AMOUNT_MAX, 1_000_000_000),
        window(AMOUNT_MAX, 1_000_000_000, Align::Epoch),
    ] {
        let mut single = Single::new(shape);
        let big = (1u64 << 33) + 7;
        assert_eq!(single.ask(big, at(0)).remaining, AMOUNT_MAX - big);
        assert_eq!(single.ask(1 << 32, at(0)).remaining, AMOUNT_MAX - big - (1 << 32));
        assert_eq!(single.ask(u64::MAX, at(0)).wait, Wait::Never);
    }
}

#[test]
fn a_rate_out_of_range_cannot_be_spelled() {
    assert_eq!(Rate::new(AMOUNT_MAX + 1, Span::from_secs(1)), Err(RateError::AmountTooLarge));
    assert_eq!(Rate::new(1, Span::ZERO), Err(RateError::PeriodZero));
    assert_eq!(Rate::new(1, PERIOD_MAX.saturating_add(Span::from_nanos(1))), Err(RateError::PeriodTooLong));
    assert!(Rate::new(0, Span::from_nanos(1)).is_ok() && Rate::new(AMOUNT_MAX, PERIOD_MAX).is_ok());
}
