//! A true limiter, as plain as can be: it remembers every admission and applies the definition. Its histories get random
//! delays between the decision and the two ends of a row, as a network gives them.

use limits::{Moment, Rate, Span};
use sim::c1::Admitted;
use sim::{Counted, Edges, Promise};

/// A generator of numbers from a seed (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

pub const EDGE_AT: u64 = 1_000_000_007;

/// One of a few promises with awkward numbers.
pub fn promise(dice: &mut Dice) -> Promise {
    let rate = |amount, millis| Rate::new(amount, Span::from_millis(millis)).unwrap();
    match dice.below(5) {
        0 => Promise { rate: rate(7, 1_000), counted: Counted::Bucket { burst: 1 + dice.below(5) } },
        // No whole number of nanoseconds between two units.
        1 => Promise { rate: rate(1_003, 7), counted: Counted::Bucket { burst: 3 } },
        2 => Promise { rate: rate(3 + dice.below(4), 400), counted: Counted::Log },
        3 => Promise { rate: rate(4, 300), counted: Counted::Window { edges: None } },
        _ => {
            let edges = Edges { at: Moment::from_nanos(EDGE_AT), unsure: Span::ZERO };
            Promise { rate: rate(4, 300), counted: Counted::Window { edges: Some(edges) } }
        }
    }
}

/// What was decided, and when.
#[derive(Clone, Copy, Debug)]
pub struct Decided {
    pub at: u64,
    pub cost: u64,
}

/// Whether one more would fit, by the definition.
pub fn fits(promise: &Promise, admitted: &[Decided], one: Decided) -> bool {
    let (amount, period) = (u128::from(promise.rate.amount()), u128::from(promise.rate.period().as_nanos()));
    let used = |counts: &dyn Fn(u64) -> bool| -> u128 {
        admitted.iter().filter(|earlier| counts(earlier.at)).map(|earlier| u128::from(earlier.cost)).sum()
    };
    match promise.counted {
        Counted::Bucket { burst } => {
            let begins = admitted.iter().map(|earlier| earlier.at).chain([one.at]);
            begins.into_iter().all(|from| {
                let sum = used(&|at| at >= from) + u128::from(one.cost);
                sum * period <= u128::from(burst) * period + amount * u128::from(one.at - from)
            })
        }
        Counted::Log => used(&|at| u128::from(one.at - at) < period) + u128::from(one.cost) <= amount,
        Counted::Window { .. } => {
            let window = |at: u64| (i128::from(at) - i128::from(EDGE_AT)).div_euclid(period as i128);
            used(&|at| window(at) == window(one.at)) + u128::from(one.cost) <= amount
        }
    }
}

/// Asks a limiter again and again and keeps what it admits. Half of the time somebody waits for exactly the right moment.
pub fn decisions(promise: &Promise, dice: &mut Dice, asked: usize) -> Vec<Decided> {
    let mut admitted: Vec<Decided> = Vec::new();
    let mut at = EDGE_AT + dice.below(1_000_000_000);
    let period = promise.rate.period().as_nanos();
    for _ in 0..asked {
        at += match dice.below(4) {
            0 => 0,
            1 => dice.below(period / 8),
            2 => period / promise.rate.amount(),
            _ => admitted.first().map_or(1, |first| period - (at - first.at) % period),
        };
        let one = Decided { at, cost: 1 + dice.below(2) };
        if fits(promise, &admitted, one) {
            admitted.push(one);
        }
    }
    admitted
}

/// Rows with up to `delay` on both sides of each decision.
pub fn rows(decided: &[Decided], dice: &mut Dice, delay: u64) -> Vec<Admitted> {
    let row = |one: &Decided| Admitted {
        invoked: Moment::from_nanos(one.at - dice.below(delay + 1)),
        returned: Moment::from_nanos(one.at + dice.below(delay + 1)),
        cost: one.cost,
    };
    decided.iter().map(row).collect()
}
