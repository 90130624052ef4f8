//! What an absent key means after a takeover. Whatever the predecessor admitted up to the instant of the takeover, glued
//! to whatever the successor admits since, is never over; and a floor that has lapsed cannot be told from none.

use std::cell::Cell;

use limits::{Absent, Algorithm, Align, Basis, Moment, Now, Shape, Span, Wait, WallTime};
use proptest::prelude::*;

use crate::cases::{Step, any_shape, go, runner, steps};
use crate::single::{BOOT, Single, at, bucket, calendar, counter, later, log, millis, secs, slots, window};
use crate::twin::{Admission, Twin, assert_never_over};

/// Plays `steps` from `now` and answers what was admitted, and when it was.
fn play(single: &mut Single, mut now: Now, steps: &[Step]) -> (Vec<Admission>, Now) {
    let shape = *single.shapes.get(single.shape);
    let (mut admissions, mut last) = (Vec::new(), None);
    for step in steps {
        let cost;
        (now, cost) = go(now, step, &shape, last.as_ref());
        let decision = single.ask(cost, now);
        if decision.allowed && cost > 0 {
            admissions.push(Admission { at: now, cost });
        }
        if step.sweep {
            single.sweep(now);
        }
        last = Some(decision);
    }
    (admissions, now)
}

#[test]
fn a_successor_glued_to_its_predecessor_is_never_over() {
    let (predecessor, successor) = (Cell::new(0), Cell::new(0));
    let cases = (any_shape(), 0..secs(100_000), steps(25), 0..3_000_000_000u64, any::<bool>(), steps(40));
    runner(1_500)
        .run(&cases, |(shape, start, before, gap, knows_wall, after)| {
            let mut old = Single::new(shape);
            let (mut admissions, end) = play(&mut old, at(start), &before);
            predecessor.set(predecessor.get() + admissions.len());

            let floor = later(end, Span::from_nanos(gap % 3));
            let mut new = Single::new(shape);
            new.absent = Absent::FullAsOf(if knows_wall { floor } else { Now::at(floor.moment) });
            let (more, _) = play(&mut new, later(floor, Span::from_nanos(gap)), &after);
            successor.set(successor.get() + more.len());

            admissions.extend(more);
            assert_never_over(&Twin::new(shape, new.key), &admissions);
            Ok(())
        })
        .unwrap();
    let counts = (predecessor.get(), successor.get());
    assert!(counts.0 > 3_000 && counts.1 > 3_000, "{counts:?} admissions before and after");
}

#[test]
fn starting_full_would_be_over() {
    // The same glue with a fresh successor: the test above would see it.
    let twin = Twin::new(bucket(10, secs(1), 20), limits::Fingerprint([0, 0]));
    let mut admissions = Vec::new();
    for _ in 0..2 {
        let mut node = Single::new(twin.shape);
        assert!(node.ask(20, at(5)).allowed);
        admissions.push(Admission { at: at(5), cost: 20 });
    }
    assert!(std::panic::catch_unwind(|| assert_never_over(&twin, &admissions)).is_err());
}

#[test]
fn an_emptied_bucket_admits_at_its_rate_at_once() {
    let mut single = Single::new(bucket(10, secs(1), 20));
    single.absent = Absent::FullAsOf(at(secs(100)));
    let refused = single.ask(1, at(secs(100)));
    assert_eq!((refused.allowed, refused.wait), (false, Wait::After(Span::from_millis(100))));
    assert!(single.table.is_empty(), "a denial makes no entry");
    assert!(single.ask(1, at(secs(100) + millis(100))).allowed);
    assert_eq!(single.ask(0, at(secs(101))).remaining, 9);
    assert_eq!(single.ask(0, at(secs(102) + millis(100))).remaining, 20);
}

#[test]
fn a_full_log_and_a_full_first_window_wait_for_one_window() {
    for shape in [log(5, secs(60)), window(5, secs(60), Align::First)] {
        let mut single = Single::new(shape);
        single.absent = Absent::FullAsOf(at(secs(100)));
        let refused = single.ask(1, at(secs(130)));
        assert_eq!((refused.allowed, refused.wait), (false, Wait::After(Span::from_secs(30))), "{shape:?}");
        assert!(!single.ask(1, at(secs(160) - 1)).allowed);
        assert_eq!(single.ask(5, at(secs(160))).remaining, 0, "{shape:?}: all of it at once");
    }
}

#[test]
fn an_aligned_window_is_full_until_the_end_of_the_last_window_that_the_takeover_touches() {
    let cases = [
        // In the middle of a window: until its end.
        (secs(30), secs(60)),
        // 99 ms before an edge, the predecessor may have been in the next window already.
        (secs(60) - millis(99), secs(120)),
        // Right after an edge only the window itself is ahead.
        (secs(60) + millis(1), secs(120)),
        (secs(60) - millis(101), secs(60)),
    ];
    for (takeover, open) in cases {
        let mut single = Single::new(window(5, secs(60), Align::Epoch));
        single.absent = Absent::FullAsOf(at(takeover));
        let refused = single.ask(1, at(takeover));
        assert_eq!(refused.wait, Wait::After(Span::from_nanos(open - takeover)), "taken over at {takeover}");
        assert!(!single.ask(1, at(open - 1)).allowed);
        assert!(single.ask(5, at(open)).allowed);
    }
}

#[test]
fn cluster_time_learned_after_the_takeover_is_reckoned_back_to_it() {
    let mut single = Single::new(window(5, secs(60), Align::Epoch));
    single.absent = Absent::FullAsOf(Now::at(Moment::from_nanos(secs(70))));
    assert!(single.try_ask(1, Now::at(Moment::from_nanos(secs(71)))).is_err(), "cluster time is not known yet");
    assert_eq!(single.ask(1, at(secs(75))).wait, Wait::After(Span::from_secs(45)));
    assert!(single.ask(5, at(secs(120))).allowed);
}

#[test]
fn a_floor_that_has_lapsed_reads_fresh() {
    runner(400)
        .run(&(any_shape(), 0..secs(100_000), steps(30)), |(shape, start, steps)| {
            let rate = shape.rate.unwrap();
            let (amount, period) = (u128::from(rate.amount()), u128::from(rate.period().as_nanos()));
            let lapse = match shape.algorithm {
                Algorithm::TokenBucket { burst } => (u128::from(burst) * period).div_ceil(amount),
                Algorithm::SlidingLog { .. }
                | Algorithm::FixedWindow { .. }
                | Algorithm::SlidingCounter
                | Algorithm::Calendar { .. } => 2 * period + 200_000_000,
                Algorithm::Concurrency { max_hold } => u128::from(max_hold.as_nanos()),
            };
            let Ok(lapse) = u64::try_from(lapse) else { return Ok(()) };
            let Some(begin) =
                start.checked_add(lapse).filter(|end| BOOT.checked_add(*end).is_some_and(|end| end < u64::MAX / 2))
            else {
                return Ok(());
            };
            let mut fresh = Single::new(shape);
            let mut floored = Single::new(shape);
            floored.absent = Absent::FullAsOf(at(start));
            prop_assert_eq!(play(&mut fresh, at(begin), &steps).0.len(), play(&mut floored, at(begin), &steps).0.len());
            prop_assert_eq!(fresh.peek(0, at(begin)), floored.peek(0, at(begin)));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_limit_that_decides_on_the_least_reads_a_floor_as_fresh_and_remembers_it() {
    for shape in [
        bucket(10, secs(10), 10),
        log(10, secs(10)),
        window(10, secs(10), Align::First),
        counter(10, secs(10)),
        calendar(10, 10_000),
        slots(10, secs(10), 2),
    ] {
        let mut single = Single::new(Shape { basis: Basis::Lo, ..shape });
        single.absent = Absent::FullAsOf(at(0));
        assert_eq!(single.ask(4, at(0)).remaining, 6, "open: the least that may have been used");
        single.change(shape);
        assert_eq!(single.ask(0, at(0)).remaining, 0, "closed: the most");
        assert!(!single.ask(1, at(0)).allowed);
    }
}

#[test]
fn a_floor_of_the_future_is_waited_for() {
    // The clock of the batch may have been read a moment before the partition was activated.
    let mut single = Single::new(bucket(10, secs(1), 10));
    single.absent = Absent::FullAsOf(at(secs(2)));
    let Wait::After(wait) = single.ask(1, at(secs(1))).wait else { panic!("refused") };
    assert_eq!(wait, Span::from_millis(1_100));
    assert!(single.ask(1, later(at(secs(1)), wait)).allowed);
    let wall = WallTime::from_unix_nanos(BOOT + secs(9));
    assert_eq!(at(secs(9)).wall, Some(wall));
}
