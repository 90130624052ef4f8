//! How cases are made: shapes with awkward numbers, and steps that aim at the instants where an answer changes. A step
//! says *where* to go in terms of the last answer, so that every second case lands on an edge or a nanosecond beside it.

use limits::{Align, LegDecision, Now, Shape, Span, Wait};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::single::{bucket, calendar, counter, later, log, millis, secs, slots, window};

/// Where the clock goes before a check.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// It stands still.
    Still,
    Nanos(u64),
    /// To the instant that the last denial named, give or take.
    Retry(i64),
    /// To the instant at which the key is fresh, give or take.
    Reset(i64),
    /// To the instant at which one more unit comes back, give or take.
    NextUnit(i64),
    /// A part of the period, in percent.
    Period(u64),
}

/// What a check asks for.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    Units(u64),
    /// All that is there, give or take.
    Remaining(i64),
    /// The capacity, give or take.
    Capacity(i64),
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub pace: Pace,
    pub ask: Ask,
    pub sweep: bool,
}

/// A runner with a fixed seed: the same cases on every machine.
pub fn runner(cases: u32) -> TestRunner {
    let cases = Config::default().cases.max(cases);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..most)
}

pub fn step() -> impl Strategy<Value = Step> {
    (pace(), ask(), prop::bool::weighted(0.3)).prop_map(|(pace, ask, sweep)| Step { pace, ask, sweep })
}

fn pace() -> impl Strategy<Value = Pace> {
    let near = -1..=1i64;
    prop_oneof![
        4 => Just(Pace::Still),
        1 => (1..1_000u64).prop_map(Pace::Nanos),
        1 => (0..secs(3)).prop_map(Pace::Nanos),
        3 => near.clone().prop_map(Pace::Retry),
        1 => near.clone().prop_map(Pace::Reset),
        2 => near.prop_map(Pace::NextUnit),
        2 => (0..250u64).prop_map(Pace::Period),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        5 => (0..6u64).prop_map(Ask::Units),
        3 => (-1..=1i64).prop_map(Ask::Remaining),
        1 => (-1..=1i64).prop_map(Ask::Capacity),
    ]
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..20u64,
        1 => prop::sample::select(vec![100, 997, 86_401, 1_000_003, 700_000_000, 999_999_999_999_999]),
    ]
}

fn period() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => prop::sample::select(vec![1, 7, 250_000_000, secs(1), secs(60), secs(3_600), secs(86_400)]),
        1 => 1..100u64,
        1 => 1..secs(10),
        1 => (1..50u64).prop_map(millis),
    ]
}

pub fn buckets() -> impl Strategy<Value = Shape> {
    (amount(), period(), prop_oneof![4 => 1..30u64, 1 => amount()])
        .prop_map(|(amount, period, burst)| bucket(amount, period, burst))
}

pub fn logs() -> impl Strategy<Value = Shape> {
    (amount(), period()).prop_map(|(amount, period)| log(amount, period))
}

pub fn windows() -> impl Strategy<Value = Shape> {
    (amount(), period(), prop::sample::select(vec![Align::Epoch, Align::First, Align::Hashed]))
        .prop_map(|(amount, period, align)| window(amount, period, align))
}

pub fn counters() -> impl Strategy<Value = Shape> {
    (amount(), period()).prop_map(|(amount, period)| counter(amount, period))
}

pub fn calendars() -> impl Strategy<Value = Shape> {
    let shortest = prop_oneof![1_000..2_000u32, prop::sample::select(vec![3_600_000, 86_400_000])];
    (amount(), shortest).prop_map(|(amount, shortest)| calendar(amount, shortest))
}

pub fn concurrency() -> impl Strategy<Value = Shape> {
    (amount(), period(), 1..4u64).prop_map(|(amount, ttl, holds)| slots(amount, ttl, holds))
}

pub fn any_shape() -> impl Strategy<Value = Shape> {
    prop_oneof![buckets(), logs(), windows(), counters(), calendars(), concurrency()]
}

/// Where a step leads, given what was last answered.
pub fn go(now: Now, step: &Step, shape: &Shape, last: Option<&LegDecision>) -> (Now, u64) {
    let wait = last.map_or(Span::ZERO, |last| match last.wait {
        Wait::After(wait) => wait,
        Wait::Now | Wait::Never => Span::ZERO,
    });
    let nudge = |span: Span, by: i64| Span::from_nanos(span.as_nanos().saturating_add_signed(by));
    let span = match step.pace {
        Pace::Still => Span::ZERO,
        Pace::Nanos(nanos) => Span::from_nanos(nanos),
        Pace::Retry(by) => nudge(wait, by),
        Pace::Reset(by) => nudge(last.map_or(Span::ZERO, |last| last.reset_after), by),
        Pace::NextUnit(by) => nudge(last.and_then(|last| last.next_unit_after).unwrap_or_default(), by),
        Pace::Period(percent) => shape.rate.unwrap().period().scaled(percent, 100),
    };
    // No case outlives 30 years: beyond that lies `extremes`.
    let span = Span::from_nanos(span.as_nanos().min(secs(86_400 * 365 * 30 / 200)));
    let capacity = shape.capacity().unwrap();
    let cost = match step.ask {
        Ask::Units(units) => units,
        Ask::Remaining(by) => last.map_or(1, |last| last.remaining).saturating_add_signed(by),
        Ask::Capacity(by) => capacity.saturating_add_signed(by),
    };
    (later(now, span), cost)
}
