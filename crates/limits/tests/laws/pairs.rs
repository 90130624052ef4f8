//! Law 5, pair by pair: every algorithm to every other, under every kind of change. What was used stays used, in units; a
//! promise made afterwards holds; and a charge from before is undone only where it can still be found.

use std::collections::BTreeSet;

use limits::{Absent, Algorithm, Align, Basis, Rate, Shape, Span, Wait};

use crate::single::{Single, at, bucket, calendar, counter, later, log, secs, slots, window};

const PERIOD: u64 = secs(60);

/// One of each algorithm, of this amount per minute or so.
fn one_of_each(amount: u64) -> [(&'static str, Shape); 8] {
    [
        ("token bucket", bucket(amount, PERIOD, amount)),
        ("sliding log", log(amount, PERIOD)),
        ("window at first charge", window(amount, PERIOD, Align::First)),
        ("window at epoch", window(amount, PERIOD, Align::Epoch)),
        ("window at hash", window(amount, PERIOD, Align::Hashed)),
        ("sliding counter", counter(amount, PERIOD)),
        ("calendar", calendar(amount, 60_000)),
        ("concurrency", slots(amount, PERIOD, 3)),
    ]
}

/// What can be changed about a limit beside its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Nothing,
    Raised,
    Cut,
    Longer,
    Shorter,
    OpenToClosed,
    ClosedToOpen,
    ThroughUnlimited,
    ThroughZero,
}

const KINDS: [Kind; 9] = [
    Kind::Nothing,
    Kind::Raised,
    Kind::Cut,
    Kind::Longer,
    Kind::Shorter,
    Kind::OpenToClosed,
    Kind::ClosedToOpen,
    Kind::ThroughUnlimited,
    Kind::ThroughZero,
];

fn scaled(shape: Shape, of_ten: u64, period: u64) -> Shape {
    let rate = shape.rate.unwrap();
    let part = |amount: u64| amount * of_ten / 10;
    let algorithm = match shape.algorithm {
        Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: part(burst) },
        Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { .. }
        | Algorithm::SlidingCounter
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. } => shape.algorithm,
    };
    Shape { rate: Some(Rate::new(part(rate.amount()), Span::from_nanos(period)).unwrap()), algorithm, ..shape }
}

/// The limit before a change, what it becomes on the way, and what it is afterwards.
fn changed(old: Shape, new: Shape, kind: Kind) -> (Shape, Option<Shape>, Shape) {
    let lo = |shape| Shape { basis: Basis::Lo, ..shape };
    match kind {
        Kind::Nothing => (old, None, new),
        Kind::Raised => (old, None, scaled(new, 20, PERIOD)),
        Kind::Cut => (old, None, scaled(new, 5, PERIOD)),
        Kind::Longer => (old, None, scaled(new, 10, 3 * PERIOD)),
        Kind::Shorter => (old, None, scaled(new, 10, PERIOD / 3)),
        Kind::OpenToClosed => (lo(old), None, new),
        Kind::ClosedToOpen => (old, None, lo(new)),
        Kind::ThroughUnlimited => (old, Some(Shape { rate: None, ..new }), new),
        Kind::ThroughZero => (old, Some(scaled(new, 0, PERIOD)), new),
    }
}

#[test]
fn every_pair_of_algorithms_keeps_what_was_used_under_every_kind_of_change() {
    let mut seen = BTreeSet::new();
    for (from, old) in one_of_each(10) {
        for (to, new) in one_of_each(10) {
            for kind in KINDS {
                for used in [0, 1, 4, 7, 10] {
                    let (before, on_the_way, after) = changed(old, new, kind);
                    let story = format!("{from} to {to}, {kind:?}, {used} used");
                    let mut single = Single::new(before);
                    assert!(used == 0 || single.ask(used, at(secs(1))).allowed, "{story}");
                    let charge = single.charge;
                    if let Some(shape) = on_the_way {
                        single.change(shape);
                        single.ask(1, at(secs(1)));
                    }
                    single.change(after);
                    keeps(&mut single, used, &story);
                    if let Some(charge) = charge {
                        undoes_at_most(&mut single, &charge, used, &story);
                    }
                    seen.insert((from, to, kind));
                }
            }
        }
    }
    assert_eq!(seen.len(), 8 * 8 * KINDS.len());
}

fn keeps(single: &mut Single, used: u64, story: &str) {
    let now = at(secs(1));
    let capacity = single.shapes.get(single.shape).capacity().unwrap();
    let stands = single.ask(0, now);
    assert_eq!((stands.capacity, stands.remaining), (capacity, capacity.saturating_sub(used)), "{story}");
    assert_eq!(single.table.len(), usize::from(used > 0), "{story}");
    assert_eq!(stands.next_unit_after.is_some(), used > 0, "{story}");
    for cost in 1..=capacity {
        match single.peek(cost, now).wait {
            Wait::Now => assert!(cost <= stands.remaining, "{story}: {cost}"),
            Wait::Never => panic!("{story}: {cost} fits some day"),
            Wait::After(wait) => {
                assert!(cost > stands.remaining, "{story}: {cost}");
                assert!(single.peek(cost, later(now, wait)).allowed, "{story}: law 6 for {cost}");
                let early = later(now, wait.saturating_sub(Span::from_nanos(1)));
                assert!(!single.peek(cost, early).allowed, "{story}: law 6 for {cost}, exactly");
            }
        }
    }
    assert_eq!(single.peek(0, later(now, stands.reset_after)).remaining, capacity, "{story}");
}

fn undoes_at_most(single: &mut Single, charge: &limits::Charge, used: u64, story: &str) {
    let now = at(secs(1));
    let before = single.peek(0, now).remaining;
    let back = single.table.undo(charge, &single.shapes, now);
    assert!(back == 0 || back == used, "{story}: all of that charge, or nothing that is not it");
    let capacity = single.shapes.get(single.shape).capacity().unwrap();
    let left = if back == used { capacity } else { before };
    assert_eq!(single.peek(0, now).remaining, left, "{story}");
}

#[test]
fn what_a_floor_left_unknown_is_decided_on_by_the_basis_of_whatever_comes_after() {
    for (from, old) in one_of_each(10) {
        for (to, new) in one_of_each(10) {
            let mut single = Single::new(Shape { basis: Basis::Lo, ..old });
            single.absent = Absent::FullAsOf(at(secs(1)));
            assert!(single.ask(4, at(secs(1))).allowed);
            single.change(Shape { basis: Basis::Lo, ..new });
            assert_eq!(single.ask(0, at(secs(1))).remaining, 6, "{from} to {to}: the least that may be used");
            single.change(new);
            assert_eq!(single.ask(0, at(secs(1))).remaining, 0, "{from} to {to}: open to closed decides on the most");
        }
    }
}
