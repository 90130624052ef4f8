//! The longest time that expiry holds a decision up. It is no average, so it is measured without criterion and printed: a
//! million keys in one table lapse at one instant, and what then comes is decided while they go. The same story is played
//! several times, and of each decision the quickest time counts, since whatever else the machine did meanwhile hits
//! another.

#![allow(clippy::unwrap_used, reason = "a bench")]
#![allow(clippy::print_stdout, reason = "the figures are the point")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock as an owner does")]

use std::hint::black_box;
use std::time::Instant;

use limits::{
    Absent, Algorithm, Align, Basis, Budgets, Decided, DomainId, Fingerprint, FingerprintKey, Leg, LimitId, Moment,
    Now, Part, Rate, Shape, Shapes, Span, Table,
};

const KEYS: usize = 1_000_000;

/// How often each story is played.
const STORIES: usize = 5;

/// Decisions that each key that lapses is given to be forgotten in.
const DECISIONS_PER_KEY: usize = 5;

/// What is longer than this is counted, in nanoseconds.
const LONG: u64 = 10_000;

/// Nanoseconds of every decision of one story, in order, and the keys that were left in the end.
fn story(algorithm: Algorithm) -> (Vec<u64>, usize) {
    let mut shapes = Shapes::new();
    let rate = Some(Rate::new(1, Span::from_secs(1)).unwrap());
    let shape = Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi };
    let shape = shapes.intern(shape);
    let (budgets, mut table, mut out) = (Budgets::new(), Table::new(), Decided::default());
    budgets.set_max(DomainId(0), 3 * KEYS as u64);
    let key = |number: usize| {
        Fingerprint::of(&FingerprintKey(*b"a secret of ours"), LimitId(1), [Part::text(&number.to_string())])
    };
    let leg = |number: usize| Leg { shape, key: key(number), cost: 1, absent: Absent::Fresh, shadow: false };
    for number in 0..KEYS {
        table.decide(&[leg(number)], &shapes, &budgets, Now::at(Moment::ZERO), &mut out).unwrap();
    }
    let later = Now::at(Moment::ZERO.saturating_add(Span::from_secs(1)));
    let mut times = Vec::with_capacity(DECISIONS_PER_KEY * KEYS);
    for number in 0..DECISIONS_PER_KEY * KEYS {
        // One key in eight is new; the others are asked for again and again.
        let leg = leg(KEYS + if number.is_multiple_of(8) { number } else { 0 });
        let began = Instant::now();
        black_box(table.decide(&[leg], &shapes, &budgets, later, &mut out).unwrap());
        times.push(began.elapsed().as_nanos() as u64);
    }
    (times, table.len())
}

fn main() {
    let algorithms = [
        ("token-bucket", Algorithm::TokenBucket { burst: 1 }),
        ("sliding-log", Algorithm::SlidingLog { max_entries: 16 }),
        ("fixed-window", Algorithm::FixedWindow { align: Align::First }),
    ];
    for (name, algorithm) in algorithms {
        let (mut quickest, mut left) = story(algorithm);
        for _ in 1..STORIES {
            let (times, still) = story(algorithm);
            quickest.iter_mut().zip(times).for_each(|(quickest, time)| *quickest = time.min(*quickest));
            left = left.max(still);
        }
        let longest = *quickest.iter().max().unwrap();
        let slow = quickest.iter().filter(|time| **time > LONG).count();
        quickest.sort_unstable();
        println!(
            "expiry of {KEYS} {name} keys: the longest decision took {:.1} us, the median {} ns; {slow} of {} took more \
             than 10 us; {left} keys are left",
            longest as f64 / 1_000.0,
            quickest[quickest.len() / 2],
            quickest.len(),
        );
    }
}
