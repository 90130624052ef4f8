//! The check as it is defined: every pair of ends, one after the other. Slow, and with switches that break it in the ways
//! in which a checker is easily wrong, to see that the properties would notice.

use sim::c1::Admitted;
use sim::{Clocks, Counted, Promise};

/// How a checker may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// It is right.
    None,
    /// Rows count that only touch the stretch.
    CountsOverlaps,
    /// The row that ends the stretch does not count.
    ForgetsTheLast,
    /// Only stretches from the first row on are looked at.
    OnlyFromTheFirst,
    /// The burst is granted twice.
    DoublesTheBurst,
    /// Nothing flows into a bucket.
    ForgetsTheRefill,
    /// The time between two units is rounded down to whole microseconds.
    RoundsTheInterval,
    /// A stretch of exactly one period counts as one window.
    ClosesTheWindow,
    /// Every row costs one.
    ForgetsTheCost,
    /// The edges of windows are not looked at.
    ForgetsTheEdges,
    /// A window may be filled twice, whatever the algorithm.
    TakesALogForAWindow,
}

pub const MISTAKES: &[Mistake] = &[
    Mistake::CountsOverlaps,
    Mistake::ForgetsTheLast,
    Mistake::OnlyFromTheFirst,
    Mistake::DoublesTheBurst,
    Mistake::ForgetsTheRefill,
    Mistake::RoundsTheInterval,
    Mistake::ClosesTheWindow,
    Mistake::ForgetsTheCost,
    Mistake::ForgetsTheEdges,
    Mistake::TakesALogForAWindow,
];

/// The largest excess over all stretches; zero when the limit was kept.
pub fn excess(rows: &[Admitted], promise: &Promise, clocks: &Clocks, mistake: Mistake) -> u128 {
    let first = rows.iter().map(|row| row.invoked).min();
    let mut worst = 0;
    for from in rows.iter().map(|row| row.invoked) {
        if mistake == Mistake::OnlyFromTheFirst && Some(from) != first {
            continue;
        }
        for until in rows.iter().map(|row| row.returned).filter(|until| *until >= from) {
            let counts = |row: &&Admitted| match mistake {
                Mistake::CountsOverlaps => row.returned >= from && row.invoked <= until,
                Mistake::ForgetsTheLast => row.invoked >= from && row.returned < until,
                _ => row.invoked >= from && row.returned <= until,
            };
            let cost = |row: &Admitted| if mistake == Mistake::ForgetsTheCost { 1 } else { u128::from(row.cost) };
            let admitted: u128 = rows.iter().filter(counts).map(cost).sum();
            let allowed = allowed(from.as_nanos(), until.as_nanos(), promise, clocks, mistake);
            worst = worst.max(admitted.saturating_sub(allowed));
        }
    }
    worst
}

fn allowed(from: u64, until: u64, promise: &Promise, clocks: &Clocks, mistake: Mistake) -> u128 {
    let (amount, period) = (u128::from(promise.rate.amount()), u128::from(promise.rate.period().as_nanos()));
    // Everything in parts of the clock's ratio, so that nothing is rounded.
    let (parts, of) = (u128::from(clocks.fastest.parts()), u128::from(clocks.fastest.of()));
    let length = u128::from(until - from) * parts;
    let shorter_than = |periods: u128| match mistake {
        Mistake::ClosesTheWindow => length <= periods * period * of,
        _ => length < periods * period * of,
    };
    let windows = (1..).find(|periods| shorter_than(*periods)).expect("some number of periods is enough");
    match promise.counted {
        Counted::Bucket { burst } => {
            let burst = u128::from(burst) * if mistake == Mistake::DoublesTheBurst { 2 } else { 1 };
            match mistake {
                Mistake::ForgetsTheRefill => burst,
                Mistake::RoundsTheInterval => burst + length / of / (period / amount / 1_000).max(1) / 1_000,
                _ => burst + amount * length / (period * of),
            }
        }
        Counted::Log if mistake == Mistake::TakesALogForAWindow => amount * (windows + 1),
        Counted::Log => amount * windows,
        Counted::Window { edges: Some(edges) } if mistake != Mistake::ForgetsTheEdges => {
            let window = |at: u64| (i128::from(at) - i128::from(edges.at.as_nanos())).div_euclid(period as i128);
            if window(from) == window(until) { amount } else { amount * (windows + 1) }
        }
        Counted::Window { .. } => amount * (windows + 1),
    }
}
