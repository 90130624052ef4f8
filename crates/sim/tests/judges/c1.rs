//! C1 against histories of a true limiter, which must never alarm; the same with one admission too many in a tight place,
//! which must; and against the plain definition. Then the properties themselves are tried: each way in which a checker is
//! easily wrong is noticed by one of them.

use limits::Moment;
use sim::c1::{Admitted, worst};
use sim::{Clocks, Counted, Promise, Ratio};

use crate::limiter::{self, Decided, Dice, decisions, fits, promise, rows};
use crate::slow::{MISTAKES, Mistake, excess};

const MILLI: u64 = 1_000_000;

type Check<'c> = &'c dyn Fn(&[Admitted], &Promise, &Clocks) -> u128;

fn sweep(rows: &[Admitted], promise: &Promise, clocks: &Clocks) -> u128 {
    worst(rows, promise, clocks).unwrap().map_or(0, |worst| worst.excess())
}

/// Whatever the delays, a true limiter is never accused.
fn acquits_the_innocent(check: Check<'_>, seed: u64) -> bool {
    let mut dice = Dice(seed);
    let promise = promise(&mut dice);
    let decided = decisions(&promise, &mut dice, 40);
    let delay = [0, MILLI, 100 * MILLI][dice.below(3) as usize];
    let rows = rows(&decided, &mut dice, delay);
    check(&rows, &promise, &Clocks::ALIKE) == 0
}

/// One admission that did not fit is found, where rows leave no doubt about when they were decided.
fn convicts_the_guilty(check: Check<'_>, seed: u64) -> bool {
    let mut dice = Dice(seed);
    let promise = promise(&mut dice);
    let mut decided = decisions(&promise, &mut dice, 40);
    let tight = decided.iter().map(|one| Decided { at: one.at, cost: 1 });
    let Some(extra) = tight.into_iter().find(|extra| {
        let before: Vec<_> = decided.iter().copied().filter(|one| one.at <= extra.at).collect();
        !fits(&promise, &before, *extra)
    }) else {
        return true;
    };
    decided.push(extra);
    // With unknown edges twice the amount may pass, so one too many in a window is no proof.
    let is_proof = !matches!(promise.counted, Counted::Window { edges: None });
    let rows = rows(&decided, &mut dice, 0);
    !is_proof || check(&rows, &promise, &Clocks::ALIKE) > 0
}

/// On any rows at all, it says what the definition says.
fn agrees_with_the_definition(check: Check<'_>, seed: u64) -> bool {
    let mut dice = Dice(seed);
    let promise = promise(&mut dice);
    let period = promise.rate.period().as_nanos();
    let begin = limiter::EDGE_AT;
    let any: Vec<_> = (0..24)
        .map(|_| {
            let invoked = begin + dice.below(4) * period + dice.below(5) * (period / 5);
            let length = [0, 1, period / 3, period, 2 * period][dice.below(5) as usize];
            let [invoked, returned] = [invoked, invoked + length].map(Moment::from_nanos);
            Admitted { invoked, returned, cost: dice.below(4) }
        })
        .collect();
    let clocks = [Clocks::ALIKE, Clocks::within_millionths(5_000)][dice.below(2) as usize];
    check(&any, &promise, &clocks) == excess(&any, &promise, &clocks, Mistake::None)
}

type Property = (&'static str, fn(Check<'_>, u64) -> bool);

const PROPERTIES: &[Property] = &[
    ("acquits the innocent", acquits_the_innocent),
    ("convicts the guilty", convicts_the_guilty),
    ("agrees with the definition", agrees_with_the_definition),
];

#[test]
fn a_true_limiter_is_never_accused() {
    assert!((0..2_000).all(|seed| acquits_the_innocent(&sweep, seed)));
}

#[test]
fn one_admission_too_many_is_found() {
    assert!((0..2_000).all(|seed| convicts_the_guilty(&sweep, seed)));
}

#[test]
fn the_sweep_finds_what_the_definition_finds() {
    let odd = (0..2_000).find(|seed| !agrees_with_the_definition(&sweep, *seed));
    assert_eq!(odd, None, "the seed where they differ");
}

/// Only the first two properties: the third compares with the definition and would notice anything.
#[test]
fn every_mistake_that_a_checker_may_make_is_noticed() {
    for mistake in MISTAKES {
        let mutant = |rows: &[Admitted], promise: &Promise, clocks: &Clocks| excess(rows, promise, clocks, *mistake);
        let noticed = PROPERTIES[..2].iter().find(|(_, holds)| !(0..500).all(|seed| holds(&mutant, seed)));
        assert!(noticed.is_some(), "{mistake:?} goes unnoticed");
    }
    let right = |rows: &[Admitted], promise: &Promise, clocks: &Clocks| excess(rows, promise, clocks, Mistake::None);
    for (name, holds) in PROPERTIES {
        assert!((0..500).all(|seed| holds(&right, seed)), "the definition itself {name}");
    }
}

#[test]
fn the_worst_stretch_is_named_with_its_rows() {
    let promise = Promise { rate: limits::Rate::new(2, limits::Span::from_secs(1)).unwrap(), counted: Counted::Log };
    let row = |from: u64, until: u64| Admitted {
        invoked: Moment::from_nanos(from * MILLI),
        returned: Moment::from_nanos(until * MILLI),
        cost: 1,
    };
    let rows = [row(0, 10), row(3_000, 3_050), row(3_100, 3_200), row(2_990, 9_000), row(3_300, 3_400)];
    let found = worst(&rows, &promise, &Clocks::ALIKE).unwrap().unwrap();
    assert_eq!((found.from, found.until), (rows[1].invoked, rows[4].returned));
    assert_eq!((found.admitted, found.allowed, found.excess()), (3, 2, 1));
    assert_eq!(found.rows, [1, 2, 4]);
    assert_eq!(found.rows.iter().map(|place| u128::from(rows[*place].cost)).sum::<u128>(), found.admitted);
    assert_eq!(worst(&[], &promise, &Clocks::ALIKE), Ok(None));
}

#[test]
fn a_fast_clock_is_allowed_for_by_its_ratio_and_no_more() {
    let rate = limits::Rate::new(1_000, limits::Span::from_secs(1)).unwrap();
    let promise = Promise { rate, counted: Counted::Bucket { burst: 1 } };
    // The owner's clock runs half a percent fast: it admits every 995 025 ns what its limit spreads over a millisecond.
    let admitted_every = |nanos: u64| -> Vec<Admitted> {
        (0..5_000)
            .map(|count| Moment::from_nanos(count * nanos))
            .map(|at| Admitted { invoked: at, returned: at, cost: 1 })
            .collect()
    };
    let fast = Clocks { fastest: Ratio::new(201, 200).unwrap(), slowest: Ratio::ONE };
    assert_eq!(sweep(&admitted_every(995_025), &promise, &fast), 0);
    assert!(sweep(&admitted_every(995_025), &promise, &Clocks::ALIKE) > 0);
    assert!(sweep(&admitted_every(994_000), &promise, &fast) > 0);
}

#[test]
fn numbers_that_cannot_be_added_up_are_refused() {
    let rate = limits::Rate::new(limits::AMOUNT_MAX, limits::PERIOD_MAX).unwrap();
    let promise = Promise { rate, counted: Counted::Bucket { burst: 1 } };
    let row = Admitted { invoked: Moment::ZERO, returned: Moment::MAX, cost: limits::AMOUNT_MAX };
    let odd = Clocks { fastest: Ratio::new(u64::MAX, u64::MAX - 1).unwrap(), slowest: Ratio::ONE };
    assert_eq!(worst(&[row], &promise, &odd), Err(sim::TooMuch));
}

/// The size of a long run. Seconds, not minutes, also in a debug build: the sweep is `n log n`.
#[test]
fn a_million_rows_are_judged() {
    let rate = limits::Rate::new(100_000, limits::Span::from_secs(1)).unwrap();
    let mut dice = Dice(7);
    let rows: Vec<_> = (0..1_000_000u64)
        .map(|count| {
            let at = 10_000_000 + count * 10_000;
            let [invoked, returned] = [at - dice.below(MILLI), at + dice.below(MILLI)].map(Moment::from_nanos);
            Admitted { invoked, returned, cost: 1 }
        })
        .collect();
    let bucket = Promise { rate, counted: Counted::Bucket { burst: 1 } };
    assert_eq!(sweep(&rows, &bucket, &Clocks::ALIKE), 0);
    let log = Promise { rate, counted: Counted::Log };
    assert_eq!(sweep(&rows, &log, &Clocks::ALIKE), 0);
}
