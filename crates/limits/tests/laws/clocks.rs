//! Law 2: a clock that goes back gives neither debt nor credit, and a window that was left is never entered again.

use std::cell::Cell;

use limits::{Align, Moment, Now, Shape, Span, Wait, WallTime};
use proptest::prelude::*;

use crate::cases::{any_shape, runner};
use crate::single::{BOOT, Single, at, bucket, log, millis, secs, window};

#[test]
fn p5_readings_that_go_back_decide_as_if_the_clock_had_stood_still() {
    let (back, denied) = (Cell::new(0), Cell::new(0));
    let steps = prop::collection::vec((-40..100i64, -40..100i64, 0..4u64, any::<bool>()), 1..60);
    runner(800)
        .run(&(any_shape(), 1..secs(1_000), steps), |(shape, start, steps)| {
            let (mut wild, mut calm) = (Single::new(shape), Single::new(shape));
            let unit = shape.rate.unwrap().period().as_nanos().div_ceil(50) as i64;
            let (mut moment, mut wall) = (start, BOOT + start);
            let (mut latest, mut latest_wall) = (moment, wall);
            prop_assert_eq!(wild.ask(0, at(start)), calm.ask(0, at(start)));
            for (step, wall_step, cost, sweep) in steps {
                moment = moment.saturating_add_signed(step.saturating_mul(unit));
                wall = wall.saturating_add_signed(wall_step.saturating_mul(unit));
                back.set(back.get() + u32::from(moment < latest) + u32::from(wall < latest_wall));
                (latest, latest_wall) = (latest.max(moment), latest_wall.max(wall));
                let reading =
                    |moment, wall| Now::with_wall(Moment::from_nanos(moment), WallTime::from_unix_nanos(wall));
                let decision = wild.ask(cost, reading(moment, wall));
                prop_assert_eq!(decision, calm.ask(cost, reading(latest, latest_wall)));
                denied.set(denied.get() + u32::from(!decision.allowed));
                if sweep {
                    wild.sweep(reading(moment, wall));
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(back.get() > 5_000 && denied.get() > 1_000, "{} went back, {} denied", back.get(), denied.get());
}

#[test]
fn a32_a_stale_stamp_does_not_rewind_the_refill() {
    let mut single = Single::new(bucket(2, secs(1), 4));
    let now = secs(100);
    assert!((0..4).all(|_| single.ask(1, at(now)).allowed));
    assert!(!single.ask(1, at(now - secs(10))).allowed);
    assert!((0..4).all(|_| !single.ask(1, at(now)).allowed));
}

#[test]
fn a29_a_rewound_clock_mints_nothing_for_the_same_time_twice() {
    let mut single = Single::new(bucket(1, secs(1), 1));
    let mut admitted = 0;
    for round in 0..10 {
        // The clock climbs to 100 s again and again.
        for second in 0..=100 {
            admitted += u64::from(single.ask(1, at(secs(second))).allowed);
        }
        assert_eq!(admitted, 101, "round {round}");
    }
}

#[test]
fn b8_a_clock_set_back_an_hour_waits_no_longer_than_usual() {
    for shape in [bucket(1, secs(1), 1), log(1, secs(1)), window(1, secs(1), Align::First)] {
        let mut single = Single::new(shape);
        assert!(single.ask(1, at(secs(7_200))).allowed);
        assert_eq!(single.ask(1, at(secs(3_600))).wait, Wait::After(Span::from_secs(1)));
    }
}

#[test]
fn p6_no_level_lies_further_ahead_than_a_full_refill() {
    let highest = Cell::new(Span::ZERO);
    runner(300)
        .run(&prop::collection::vec((0..secs(40), 0..5u64), 1..80), |readings| {
            let mut single = Single::new(bucket(2, secs(1), 4));
            for (nanos, cost) in readings {
                let reset = single.ask(cost, at(nanos)).reset_after;
                prop_assert!(reset <= Span::from_secs(2), "A - t <= B * T, wherever the clock jumped");
                highest.set(highest.get().max(reset));
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(highest.get(), Span::from_secs(2));
}

#[test]
fn a_window_that_was_swept_is_not_entered_again_when_cluster_time_falls() {
    let mut single = Single::new(window(1, secs(10), Align::Epoch));
    let reading = |moment, wall| Now::with_wall(Moment::from_nanos(moment), WallTime::from_unix_nanos(BOOT + wall));
    assert!(single.ask(1, reading(1, secs(5))).allowed);
    single.sweep(reading(2, secs(10)));
    assert!(single.table.is_empty());
    assert!(single.ask(1, reading(3, secs(5))).allowed, "cluster time is taken as the ten seconds it already was");
    assert!(!single.ask(1, reading(4, secs(9))).allowed);
    assert!(!single.ask(1, reading(5, secs(19))).allowed);
    assert!(single.ask(1, reading(6, secs(20))).allowed);
}

#[test]
fn an_aligned_window_cannot_decide_without_cluster_time() {
    for align in [Align::Epoch, Align::Hashed] {
        let mut single = Single::new(window(5, secs(1), align));
        let blind = Now::at(Moment::from_nanos(7));
        for cost in [0, 1, 6] {
            let undecided = single.try_ask(cost, blind).unwrap_err();
            assert_eq!((undecided.leg, undecided.why), (0, limits::WhyUndecided::NoClusterTime));
        }
        assert!(single.table.peek(&single.leg(1), &single.shapes, blind).is_err());
        assert!(single.table.is_empty());
        let unlimited = Shape { rate: None, ..window(5, secs(1), align) };
        assert!(Single::new(unlimited).ask(1, blind).allowed, "where nothing counts, no clock is needed");
    }
    assert!(Single::new(window(5, secs(1), Align::First)).ask(1, Now::at(Moment::ZERO)).allowed);
}

#[test]
fn hashed_windows_spread_their_edges_and_keep_them() {
    let mut ends = Vec::new();
    for key in 0..64u64 {
        let mut single = Single::new(window(5, secs(64), Align::Hashed));
        single.key = limits::Fingerprint([key, key.wrapping_mul(0x9e37_79b9_7f4a_7c15)]);
        let first = single.ask(1, at(0)).reset_after;
        assert_eq!(single.ask(1, at(millis(1))).reset_after, first.saturating_sub(Span::from_millis(1)));
        ends.push(first.as_nanos() / secs(8));
    }
    for eighth in 0..8 {
        let count = ends.iter().filter(|end| **end == eighth).count();
        assert!((2..=16).contains(&count), "{count} of 64 keys end in eighth {eighth}");
    }
}
