//! Worked examples and public bug reports, as answers to a few checks. A name that begins with a letter and a number is
//! the row of the report in our notes; the doc says whose it was and what went wrong there.

use limits::{Align, LegDecision, Span, Wait};

use crate::single::{Single, at, bucket, log, millis, secs, window};

fn ask_all(single: &mut Single, costs: &[u64], nanos: u64) -> Vec<LegDecision> {
    costs.iter().map(|cost| single.ask(*cost, at(nanos))).collect()
}

fn admitted(single: &mut Single, asks: usize, nanos: u64) -> usize {
    (0..asks).filter(|_| single.ask(1, at(nanos)).allowed).count()
}

#[test]
fn a_hundred_a_minute_aligned_first_asked_at_twelve_seconds() {
    let mut single = Single::new(window(100, secs(60), Align::Epoch));
    let first = single.ask(1, at(secs(12)));
    assert_eq!((first.allowed, first.capacity, first.remaining), (true, 100, 99));
    assert_eq!((first.next_unit_after, first.reset_after), (Some(Span::from_secs(48)), Span::from_secs(48)));
    single.ask(99, at(secs(30)));
    let refused = single.ask(1, at(millis(30_400)));
    assert_eq!((refused.allowed, refused.remaining), (false, 0));
    assert_eq!(refused.wait, Wait::After(Span::from_millis(29_600)));
}

#[test]
fn ten_a_second_burst_twenty_the_twenty_first_in_one_instant() {
    let mut single = Single::new(bucket(10, secs(1), 20));
    assert_eq!(admitted(&mut single, 20, secs(1)), 20);
    let refused = single.ask(1, at(secs(1)));
    assert_eq!((refused.wait, refused.remaining), (Wait::After(Span::from_millis(100)), 0));
}

#[test]
fn five_a_minute_three_used_at_one_instant() {
    let mut single = Single::new(bucket(5, secs(60), 5));
    let third = ask_all(&mut single, &[1, 1, 1], 0)[2];
    assert_eq!((third.remaining, third.next_unit_after), (2, Some(Span::from_secs(12))));
    assert_eq!(third.reset_after, Span::from_secs(36));
}

#[test]
fn a_hundred_and_fifty_of_a_hundred_can_never_succeed() {
    for shape in [bucket(100, secs(1), 100), log(100, secs(1)), window(100, secs(1), Align::Hashed)] {
        let refused = Single::new(shape).ask(150, at(0));
        assert_eq!((refused.allowed, refused.wait, refused.remaining), (false, Wait::Never, 100));
    }
}

/// throttlecrab 0.4.40: a burst of one was no limit at all.
#[test]
fn a1_a_burst_of_one_admits_one() {
    for period in [secs(1), secs(60), secs(12)] {
        let mut single = Single::new(bucket(1, period, 1));
        let hits = (0..100).filter(|step| single.ask(1, at(secs(7) + step * millis(10) - step)).allowed).count();
        assert_eq!(hits, 1);
    }
}

/// throttlecrab 0.4.40 (17 admitted), governor 107 and 249 (6 of 5): idling longer than a refill doubled the burst.
#[test]
fn a2_idle_does_not_double_the_burst() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    assert_eq!(admitted(&mut single, 10, 0), 10);
    assert_eq!(admitted(&mut single, 30, secs(17)), 10);
    assert_eq!(single.peek(0, at(secs(1_000))).remaining, 10);
}

/// redis-cell 12: 100 a second measured as 130.7.
#[test]
fn a5_a_tight_loop_gets_the_rate_and_the_burst() {
    let mut single = Single::new(bucket(100, secs(1), 1));
    let hits = (0..10_000_000).step_by(9).filter(|micros| single.ask(1, at(micros * 1_000)).allowed).count();
    assert!((990..=1_001).contains(&hits), "{hits} in ten seconds");
}

/// Spring Cloud Gateway 2453: a burst below the rate never limited.
#[test]
fn a8_a_burst_below_the_rate_limits_at_the_burst() {
    let mut single = Single::new(bucket(100, secs(1), 3));
    assert_eq!(admitted(&mut single, 50, 0), 3);
}

/// Resilience4j 822: later cycles granted more.
#[test]
fn a16_every_window_grants_the_same() {
    let mut single = Single::new(window(3, secs(10), Align::First));
    for cycle in 0..50 {
        assert_eq!(admitted(&mut single, 30, secs(10) * cycle), 3, "cycle {cycle}");
    }
}

/// APISIX 13704: a sliding window of 500 a second gave 590 under steady overload.
#[test]
fn a22_a_log_under_steady_overload_gives_its_amount() {
    let mut single = Single::new(log(500, secs(1)));
    let hits = (0..10_000u64).filter(|step| single.ask(1, at(step * millis(1))).allowed).count();
    assert_eq!(hits, 5_000);
}

/// Upstash: refused calls drove the bucket below zero.
#[test]
fn b1_refused_costs_drain_nothing() {
    let mut single = Single::new(bucket(10, secs(10), 10));
    assert!(single.ask(7, at(0)).allowed);
    assert!(ask_all(&mut single, &[5, 5, 5], 0).iter().all(|refused| !refused.allowed && refused.remaining == 3));
    assert_eq!(ask_all(&mut single, &[1, 1], 0)[1].remaining, 1);
    assert_eq!(single.ask(1, at(secs(10))).remaining, 9);
}

/// golang/time PR 19: 0.9999999999997222 tokens refused a cost of one.
#[test]
fn b10_exact_spacing_is_admitted() {
    let mut single = Single::new(bucket(1, 333_333_333, 1));
    assert!((0..10_000).all(|step| single.ask(1, at(step * 333_333_333)).allowed));
}

/// Redisson 3804: 115 a second sank over hours.
#[test]
fn b14_hours_of_contention_do_not_sink_the_rate() {
    let mut single = Single::new(bucket(115, secs(1), 115));
    let mut units = 0;
    for step in 0..4 * 3_600 * 10 {
        let now = at(step * millis(100) + step % 7);
        units += u64::from(single.ask(12, now).allowed) * 12 + u64::from(single.ask(1, now).allowed);
    }
    let exact = 115 + 4 * 3_600 * 115;
    assert!((exact - 24..=exact).contains(&units), "{units} of {exact}");
}

/// redis-cell 48: the wait of a refused call was the time to full.
#[test]
fn c2_the_wait_is_for_this_cost() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    single.ask(10, at(0));
    assert_eq!(single.ask(3, at(0)).wait, Wait::After(Span::from_secs(3)));
    assert_eq!(single.ask(3, at(0)).reset_after, Span::from_secs(10));
}

/// Symfony 40289: 48 seconds named with one to go.
#[test]
fn c8_a_window_with_a_second_to_go_says_a_second() {
    let mut single = Single::new(window(1, secs(60), Align::Epoch));
    single.ask(1, at(secs(5)));
    assert_eq!(single.ask(1, at(secs(59))).wait, Wait::After(Span::from_secs(1)));
}

/// Python limits 200: the wait was counted from the newest entry.
#[test]
fn c11_a_log_waits_for_its_oldest_entry() {
    let mut single = Single::new(log(2, secs(60)));
    single.ask(1, at(0));
    single.ask(1, at(secs(10)));
    assert_eq!(single.ask(1, at(secs(20))).wait, Wait::After(Span::from_secs(40)));
    assert_eq!(single.ask(2, at(secs(20))).wait, Wait::After(Span::from_secs(50)));
}

/// GitHub: the reset of one window wobbled between two calls.
#[test]
fn c14_the_reset_of_a_window_stands_still() {
    for align in [Align::First, Align::Epoch, Align::Hashed] {
        let mut single = Single::new(window(10, secs(60), align));
        let end = |single: &mut Single, nanos: u64| single.ask(1, at(nanos)).reset_after.as_nanos() + nanos;
        let first = end(&mut single, secs(3));
        assert_eq!(end(&mut single, secs(3) + 1), first);
        assert_eq!(end(&mut single, secs(4)), first);
    }
}
