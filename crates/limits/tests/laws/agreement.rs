//! The table and its twin say the same, in every field, at every step (laws 1, 4, 6, 7), and what was admitted is never
//! over in any window. Sweeps come at random, so this is also the law that expiry cannot be seen.

use std::cell::Cell;

use limits::{Basis, LegDecision, Now, Shape, Span, Wait};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::cases::{Step, buckets, calendars, concurrency, counters, go, logs, runner, steps, windows};
use crate::single::{Single, at, later};
use crate::twin::{Twin, assert_never_over};

#[derive(Default)]
struct Tally {
    admitted: Cell<u64>,
    denied: Cell<u64>,
    never: Cell<u64>,
    swept: Cell<u64>,
}

impl Tally {
    fn count(&self, decision: &LegDecision) {
        let counter = match decision.wait {
            Wait::Now => &self.admitted,
            Wait::After(_) => &self.denied,
            Wait::Never => &self.never,
        };
        counter.set(counter.get() + 1);
    }

    /// The cases were worth something: every kind of answer came up often.
    fn assert_rich(&self) {
        let Tally { admitted, denied, never, swept } = self;
        for (what, count) in [("admitted", admitted), ("denied", denied), ("never", never), ("swept", swept)] {
            assert!(count.get() >= 500, "only {} checks were {what}", count.get());
        }
    }
}

fn agree_on(shapes: impl Strategy<Value = Shape>) {
    let tally = Tally::default();
    let cases = (shapes, 0..1_000_000_000_000u64, steps(60));
    runner(600).run(&cases, |(shape, start, steps)| story(shape, at(start), &steps, &tally)).unwrap();
    tally.assert_rich();
}

fn story(shape: Shape, start: Now, steps: &[Step], tally: &Tally) -> Result<(), TestCaseError> {
    let mut single = Single::new(shape);
    let mut twin = Twin::new(shape, single.key);
    let (mut now, mut last) = (start, None);
    for step in steps {
        let cost;
        (now, cost) = go(now, step, &shape, last.as_ref());
        if step.sweep {
            tally.swept.set(tally.swept.get() + single.sweep(now) as u64);
        }
        let decision = single.ask(cost, now);
        check_against(&twin, &decision, cost, now)?;
        twin.ask(cost, now);
        prop_assert_eq!(decision.remaining, twin.remaining(now), "law 7: remaining is what stands after the check");
        check_times(&twin, &decision, now)?;
        tally.count(&decision);
        last = Some(decision);
    }
    assert_never_over(&twin, &twin.admissions);
    Ok(())
}

/// Allowed, capacity and the wait, against the twin as it stood before the check.
fn check_against(twin: &Twin, decision: &LegDecision, cost: u64, now: Now) -> Result<(), TestCaseError> {
    let capacity = twin.shape.capacity().unwrap();
    prop_assert_eq!(decision.allowed, twin.admits(cost, now));
    prop_assert_eq!(decision.capacity, capacity);
    prop_assert!(decision.remaining <= capacity, "law 7");
    match decision.wait {
        Wait::Now => prop_assert!(decision.allowed),
        Wait::Never => prop_assert!(cost > capacity, "P13: never is for what cannot fit"),
        Wait::After(wait) => {
            prop_assert!(cost <= capacity && wait > Span::ZERO);
            if beyond_time(now, wait) {
                return Ok(());
            }
            prop_assert!(twin.admits(cost, later(now, wait)), "law 6: waiting exactly that long is enough");
            let early = later(now, wait.saturating_sub(Span::from_nanos(1)));
            prop_assert!(!twin.admits(cost, early), "law 6: a nanosecond less is not");
        }
    }
    Ok(())
}

/// When the key is fresh and when it has one more unit, against the twin as it stands after the check.
fn check_times(twin: &Twin, decision: &LegDecision, now: Now) -> Result<(), TestCaseError> {
    if beyond_time(now, decision.reset_after) {
        return Ok(());
    }
    prop_assert!(twin.is_fresh(later(now, decision.reset_after)));
    if decision.reset_after > Span::ZERO {
        prop_assert!(!twin.is_fresh(later(now, decision.reset_after.saturating_sub(Span::from_nanos(1)))));
    }
    match decision.next_unit_after {
        None => prop_assert!(twin.is_fresh(now)),
        Some(wait) => {
            prop_assert!(twin.remaining(later(now, wait)) > decision.remaining);
            let early = later(now, wait.saturating_sub(Span::from_nanos(1)));
            prop_assert_eq!(twin.remaining(early), decision.remaining);
        }
    }
    Ok(())
}

/// Whether the answer lies beyond the last instant that can be spelled: 584 years from boot, less from the epoch.
fn beyond_time(now: Now, span: Span) -> bool {
    now.wall.unwrap().as_unix_nanos().checked_add(span.as_nanos()).is_none()
}

#[test]
fn a_token_bucket_agrees_with_its_twin() {
    agree_on(buckets());
}

#[test]
fn a_sliding_log_agrees_with_its_twin() {
    agree_on(logs());
}

#[test]
fn a_fixed_window_agrees_with_its_twin() {
    agree_on(windows());
}

#[test]
fn a_sliding_counter_agrees_with_its_twin() {
    agree_on(counters());
}

#[test]
fn a_calendar_agrees_with_its_twin() {
    agree_on(calendars());
}

#[test]
fn a_calendar_that_decides_on_the_least_agrees_with_its_twin() {
    agree_on(calendars().prop_map(|shape| Shape { basis: Basis::Lo, ..shape }));
}

#[test]
fn slots_that_nobody_renews_or_releases_agree_with_their_twin() {
    agree_on(concurrency());
}
