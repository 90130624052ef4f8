//! Law 5: a limit change keeps what was used, in units, within an algorithm and across; what it promises afterwards
//! holds; and from the instant of the change on the new limit is never over.

use std::cell::Cell;

use limits::{Algorithm, Align, Now, Shape, Span, Wait};
use proptest::prelude::*;

use crate::cases::{any_shape, go, runner, steps};
use crate::single::{Single, at, bucket, later, log, millis, secs, window};
use crate::twin::{Admission, Twin, assert_never_over};

/// Units that `twin` has used at `now` as far as `shape` can know of them, rounded up.
fn used(twin: &Twin, shape: &Shape, now: Now) -> u64 {
    match (twin.shape.algorithm, shape.algorithm) {
        (Algorithm::TokenBucket { burst }, _) => {
            let period = u128::from(twin.rate().period().as_nanos());
            (u128::from(burst) * period - twin.tokens(now)).div_ceil(period) as u64
        }
        (Algorithm::SlidingLog { .. }, Algorithm::SlidingLog { .. }) => {
            let (old, new) = (twin.rate().period(), shape.rate.unwrap().period());
            let counts = |admission: &&Admission| now.moment.since(admission.at.moment) < old.min(new);
            twin.admissions.iter().filter(counts).map(|admission| admission.cost).sum()
        }
        (
            Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Calendar { .. }
            | Algorithm::Concurrency { .. },
            _,
        ) => twin.rate().amount() - twin.remaining(now),
    }
}

#[test]
fn p11_what_was_used_stays_used_under_any_other_shape() {
    let (kept, promised) = (Cell::new(0), Cell::new(0));
    let cases = (any_shape(), any_shape(), 0..secs(100_000), steps(20), 0..150u64, steps(20));
    runner(1_500)
        .run(&cases, |(old, new, start, before, idle, after)| {
            let mut single = Single::new(old);
            let mut twin = Twin::new(old, single.key);
            let (mut now, mut last) = (at(start), None);
            for step in &before {
                let cost;
                (now, cost) = go(now, step, &old, last.as_ref());
                last = Some(single.ask(cost, now));
                twin.ask(cost, now);
            }
            now = later(now, old.rate.unwrap().period().scaled(idle, 100));
            let used = used(&twin, &new, now);
            let capacity = new.capacity().unwrap();
            single.change(new);
            let stands = single.ask(0, now);
            prop_assert_eq!(stands.remaining, capacity.saturating_sub(used), "{} used of {:?}", used, old);
            kept.set(kept.get() + u32::from(used > 0));

            let mut admissions = Vec::new();
            last = Some(stands);
            for step in &after {
                let cost;
                (now, cost) = go(now, step, &new, last.as_ref());
                let decision = single.ask(cost, now);
                if decision.allowed && cost > 0 {
                    admissions.push(Admission { at: now, cost });
                }
                if let Wait::After(wait) = decision.wait
                    && wait < Span::from_secs(86_400 * 1_000)
                {
                    let early = later(now, wait.saturating_sub(Span::from_nanos(1)));
                    prop_assert!(single.peek(cost, later(now, wait)).allowed, "law 6 after a change");
                    prop_assert!(!single.peek(cost, early).allowed);
                    promised.set(promised.get() + 1);
                }
                last = Some(decision);
            }
            assert_never_over(&Twin::new(new, single.key), &admissions);
            Ok(())
        })
        .unwrap();
    assert!(kept.get() > 300 && promised.get() > 1_000, "{} kept, {} promised", kept.get(), promised.get());
}

#[test]
fn a25_raising_ten_to_twenty_with_ten_used_leaves_ten() {
    for (ten, twenty) in [
        (bucket(10, secs(60), 10), bucket(20, secs(60), 20)),
        (log(10, secs(60)), log(20, secs(60))),
        (window(10, secs(60), Align::First), window(20, secs(60), Align::First)),
        (window(10, secs(60), Align::Epoch), window(20, secs(60), Align::Epoch)),
        (window(10, secs(60), Align::Hashed), window(20, secs(60), Align::Hashed)),
        (bucket(10, secs(60), 10), log(20, secs(60))),
        (log(10, secs(60)), window(20, secs(60), Align::Hashed)),
        (window(10, secs(60), Align::First), bucket(20, secs(60), 20)),
    ] {
        let mut single = Single::new(ten);
        assert_eq!(single.ask(10, at(0)).remaining, 0);
        single.change(twenty);
        assert_eq!(single.ask(0, at(0)).remaining, 10, "{ten:?} to {twenty:?}");
        assert_eq!(single.table.len(), 1);
    }
}

#[test]
fn lowering_ten_to_five_with_ten_used_leaves_none() {
    for (ten, five) in [
        (bucket(10, secs(60), 10), bucket(5, secs(60), 5)),
        (log(10, secs(60)), log(5, secs(60))),
        (window(10, secs(60), Align::First), window(5, secs(60), Align::First)),
    ] {
        let mut single = Single::new(ten);
        single.ask(10, at(0));
        single.change(five);
        let refused = single.ask(1, at(0));
        assert_eq!((refused.allowed, refused.remaining, refused.capacity), (false, 0, 5));
        let Wait::After(wait) = refused.wait else { panic!("it can fit later") };
        assert!(wait <= Span::from_secs(60), "and nobody waits longer than a window: {wait}");
    }
}

#[test]
fn b5_a_raised_rate_drains_old_use_at_the_new_rate() {
    let mut single = Single::new(bucket(10, secs(20), 10));
    single.ask(10, at(0));
    single.change(bucket(1_000, secs(20), 1_000));
    assert_eq!(single.ask(0, at(0)).remaining, 990);
    assert_eq!(single.ask(0, at(millis(200))).remaining, 1_000, "ten units at fifty a second");
}

#[test]
fn a_denial_after_a_change_settles_how_the_key_drains() {
    let mut single = Single::new(bucket(10, secs(36_000), 10));
    single.ask(10, at(0));
    single.change(bucket(1_000, secs(1), 1_000));
    let refused = single.ask(1_000, at(0));
    assert_eq!(refused.wait, Wait::After(Span::from_millis(10)));
    assert!(single.ask(1_000, at(millis(10))).allowed, "the promise holds though a denial changes nothing else");
}

#[test]
fn an_unlimited_limit_forgets_nothing_of_before() {
    let limited = bucket(1, secs(3_600), 10);
    let mut single = Single::new(limited);
    single.ask(10, at(0));
    single.change(Shape { rate: None, ..limited });
    assert!(single.ask(1_000_000, at(1)).allowed);
    single.change(limited);
    assert!(!single.ask(1, at(2)).allowed);
}

#[test]
fn a_limit_of_zero_forgets_nothing_of_before() {
    let limited = bucket(1, secs(3_600), 10);
    let mut single = Single::new(limited);
    single.ask(4, at(0));
    single.change(bucket(0, secs(3_600), 10));
    assert_eq!(single.ask(1, at(1)).wait, Wait::Never);
    single.change(limited);
    assert_eq!(single.ask(0, at(2)).remaining, 6);
}

#[test]
fn a_window_that_began_at_its_first_charge_keeps_its_beginning() {
    let mut single = Single::new(window(10, secs(60), Align::First));
    single.ask(7, at(secs(5)));
    single.change(window(10, secs(600), Align::First));
    assert_eq!(single.ask(0, at(secs(30))).reset_after, Span::from_secs(575), "five seconds plus ten minutes");
    single.change(window(10, secs(10), Align::First));
    assert_eq!(single.ask(0, at(secs(31))).reset_after, Span::from_secs(10), "no longer than a window from now");
}

#[test]
fn what_lapsed_under_the_old_window_stays_lapsed_under_a_longer_one() {
    let mut single = Single::new(log(10, secs(1)));
    single.ask(3, at(0));
    single.ask(2, at(millis(900)));
    single.change(log(10, secs(3_600)));
    assert_eq!(single.ask(0, at(millis(1_500))).remaining, 8, "three lapsed at a second, whether or not anyone looked");
}

#[test]
fn a_change_of_basis_alone_changes_no_exact_state() {
    let mut single = Single::new(bucket(3, secs(7), 10));
    let before = single.ask(4, at(0));
    let charge = single.charge.unwrap();
    single.change(Shape { basis: limits::Basis::Lo, ..bucket(3, secs(7), 10) });
    assert_eq!(single.ask(0, at(0)), LegAt::from(before));
    single.undo(&charge, at(0));
    assert_eq!(single.peek(0, at(0)).remaining, 10, "and charges are still found");
}

#[test]
fn an_aligned_window_keeps_what_was_used_even_where_cluster_time_is_unknown() {
    let mut single = Single::new(window(10, secs(60), Align::Epoch));
    single.ask(7, at(secs(5)));
    single.change(bucket(10, secs(60), 10));
    let blind = Now::at(limits::Moment::from_nanos(secs(200)));
    assert_eq!(single.ask(0, blind).remaining, 3, "nobody can tell that the window is over");
}

/// A decision as a peek at the same instant would give it.
struct LegAt;

impl LegAt {
    fn from(decision: limits::LegDecision) -> limits::LegDecision {
        limits::LegDecision { allowed: true, wait: Wait::Now, ..decision }
    }
}
