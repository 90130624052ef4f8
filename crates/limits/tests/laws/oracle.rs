//! A second oracle for the token bucket: governor, whose GCRA is exact when one unit takes a whole number of
//! nanoseconds. Other rates are left out because governor truncates the interval between units
//! (`Quota::per_second` divides a second by the amount in whole nanoseconds: 700 M/s becomes 1 ns, 43 % too fast; see
//! governor issue 203); our own twin covers them. Its clock is relative, so both start at zero.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};
use limits::{Span, Wait};
use proptest::prelude::*;

use crate::cases::{go, runner, steps};
use crate::single::{Single, at, bucket};

#[test]
fn a_token_bucket_agrees_with_governor() {
    let (admitted, denied, never) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let interval = prop_oneof![1..20u64, 1..2_000_000_000u64, Just(60_000_000_000)];
    runner(800)
        .run(&(interval, 1..40u32, steps(60)), |(interval, burst, steps)| {
            let shape = bucket(1, interval, u64::from(burst));
            let mut single = Single::new(shape);
            let quota = Quota::with_period(Duration::from_nanos(interval)).unwrap();
            let clock = FakeRelativeClock::default();
            let governor =
                RateLimiter::direct_with_clock(quota.allow_burst(NonZeroU32::new(burst).unwrap()), clock.clone());
            let (mut now, mut last) = (at(0), None);
            for step in &steps {
                let (next, cost) = go(now, step, &shape, last.as_ref());
                clock.advance(next.moment.since(now.moment).into());
                now = next;
                let decision = single.ask(cost, now);
                last = Some(decision);
                let Some(cost) = u32::try_from(cost).ok().and_then(NonZeroU32::new) else { continue };
                let (wait, counter) = match governor.check_n(cost) {
                    Ok(Ok(())) => (Wait::Now, &admitted),
                    Ok(Err(until)) => {
                        let wait = until.wait_time_from(governor::clock::Clock::now(&clock));
                        (Wait::After(Span::from(wait)), &denied)
                    }
                    Err(_) => (Wait::Never, &never),
                };
                prop_assert_eq!(decision.wait, wait, "{} of {:?}", cost, shape);
                counter.set(counter.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    let counts = [admitted.get(), denied.get(), never.get()];
    assert!(counts.iter().all(|count| *count > 1_000), "{counts:?} admitted, denied, never");
}
