//! Law 3: all legs or none. A denial changes nothing, several limits are one decision, a shadow never refuses.

use limits::{
    Absent, Budgets, Decided, Fingerprint, Hold, HoldId, Leg, LegDecision, LimitId, Moment, Now, Shape, Shapes, Span,
    Table, Usage, Wait, WhyUndecided,
};
use proptest::prelude::*;
use std::cell::Cell;

use crate::cases::{any_shape, runner};
use crate::single::{Single, at, bucket, secs, shapes};

/// Stories of checks with several legs, told twice.
const KNOWN_CASES: u32 = 600;

struct Several {
    shapes: Shapes,
    budgets: Budgets,
    table: Table,
    out: Decided,
}

impl Several {
    fn new() -> Several {
        Several { shapes: shapes(), budgets: Budgets::new(), table: Table::new(), out: Decided::default() }
    }

    fn leg(&mut self, limit: u32, shape: Shape, cost: u64) -> Leg {
        let shape = self.shapes.intern(Shape { limit: LimitId(limit), ..shape });
        let key = Fingerprint([u64::from(limit), u64::from(limit)]);
        Leg { shape, key, cost, absent: Absent::Fresh, shadow: false }
    }

    fn ask(&mut self, legs: &[Leg], now: Now) -> bool {
        self.table.decide(legs, &self.shapes, &self.budgets, now, &mut self.out).unwrap()
    }

    /// Asks in nobody's name, or in the name of a hold.
    fn ask_as(&mut self, legs: &[Leg], hold: Option<u64>, now: Now) -> bool {
        let Some(hold) = hold else { return self.ask(legs, now) };
        let hold = Hold { id: HoldId([7, hold]), ttl: None };
        match self.table.acquire(legs, &hold, &self.shapes, &self.budgets, now, &mut self.out) {
            Ok(allowed) => allowed,
            Err(undecided) => {
                assert_eq!(undecided.why, WhyUndecided::IdTaken);
                false
            }
        }
    }

    fn usage(&self, now: Now) -> Vec<Usage> {
        let mut usage: Vec<Usage> = self.table.export(&self.shapes, now).collect();
        usage.sort_by_key(|usage| usage.key);
        usage
    }
}

#[test]
fn all_legs_are_charged_or_none() {
    let tally = (Cell::new(0u32), Cell::new(0u32));
    let check = (prop::collection::vec((0..3usize, 0..5u64, any::<bool>()), 1..5), 0..500_000_000u64);
    let cases = (prop::array::uniform3(any_shape()), prop::collection::vec(check, 1..30));
    runner(400)
        .run(&cases, |(shapes, checks)| {
            let mut several = Several::new();
            let mut nanos = 0;
            for (picks, step) in &checks {
                nanos += step;
                let now = at(nanos);
                let mut pick = |&(index, cost, shadow): &(usize, u64, bool)| Leg {
                    shadow,
                    ..several.leg(index as u32, shapes[index], cost)
                };
                let legs: Vec<Leg> = picks.iter().map(&mut pick).collect();
                let before = several.usage(now);
                let allowed = several.ask(&legs, now);
                let Decided { legs: answers, charges } = several.out.clone();
                let refused = legs.iter().zip(&answers).any(|(leg, answer)| !leg.shadow && !answer.allowed);
                prop_assert_eq!(allowed, !refused);
                let (counter, expected) = if allowed {
                    let charged = |(leg, answer): (&Leg, &LegDecision)| leg.cost > 0 && answer.allowed;
                    (&tally.0, legs.iter().zip(&answers).filter(|&pair| charged(pair)).count())
                } else {
                    prop_assert_eq!(&several.usage(now), &before, "a denial changes nothing");
                    (&tally.1, 0)
                };
                prop_assert_eq!(charges.len(), expected);
                prop_assert_eq!(several.table.len() as u64, several.budgets.used(limits::DomainId(0)));
                counter.set(counter.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    let (allowed, denied) = (tally.0.get(), tally.1.get());
    assert!(allowed > 500 && denied > 500, "{allowed} checks were allowed, {denied} denied");
}

/// Keys that all have entries are decided straight through. One more leg, which asks nothing of a key that nobody has
/// charged, keeps a check from that, and must change nothing else.
#[test]
fn a_check_about_known_keys_is_decided_as_it_is_leg_by_leg() {
    let (straight, denied) = (Cell::new(0u32), Cell::new(0u32));
    let leg = (0..3usize, 0..5u64, prop::bool::weighted(0.2));
    // Now and then the limits are others than before.
    let (changes, hold) = (prop::bool::weighted(0.1), prop::option::of(0..4u64));
    let check = (prop::collection::vec(leg, 2..5), 0..500_000_000u64, hold, changes);
    let cases = (prop::array::uniform6(any_shape()), prop::collection::vec(check, 1..30));
    runner(KNOWN_CASES)
        .run(&cases, |(shapes, checks)| {
            let (mut one, mut other) = (Several::new(), Several::new());
            let (mut nanos, mut revision) = (0, 0);
            for (picks, step, hold, changes) in &checks {
                nanos += step;
                revision = (revision + usize::from(*changes)) % 2;
                let now = at(nanos);
                let mut pick = |&(index, cost, shadow): &(usize, u64, bool)| {
                    let shape = shapes[2 * index + revision];
                    other.leg(index as u32, shape, cost);
                    Leg { shadow, ..one.leg(index as u32, shape, cost) }
                };
                let mut legs: Vec<Leg> = picks.iter().map(&mut pick).collect();
                let known = legs.iter().all(|leg| one.table.holds(&leg.key));
                let allowed = one.ask_as(&legs, *hold, now);
                legs.push(Leg { key: Fingerprint([99, 99]), cost: 0, ..legs[0] });
                prop_assert_eq!(other.ask_as(&legs, *hold, now), allowed);
                other.out.legs.pop();
                prop_assert_eq!(&one.out.legs, &other.out.legs);
                prop_assert_eq!(&one.out.charges, &other.out.charges);
                prop_assert_eq!(one.usage(now), other.usage(now));
                straight.set(straight.get() + u32::from(known && allowed));
                denied.set(denied.get() + u32::from(known && !allowed));
            }
            Ok(())
        })
        .unwrap();
    let (straight, denied) = (straight.get(), denied.get());
    assert!(straight > 500 && denied > 500, "{straight} were allowed straight through, {denied} denied");
}

#[test]
fn the_answer_of_a_denied_check_tells_what_stands() {
    let mut several = Several::new();
    let (wide, narrow) = (several.leg(1, bucket(1, secs(1), 10), 4), several.leg(2, bucket(1, secs(1), 3), 4));
    assert!(!several.ask(&[wide, narrow], at(0)));
    let [first, second] = [several.out.legs[0], several.out.legs[1]];
    assert_eq!((first.allowed, first.remaining, first.reset_after), (true, 10, Span::ZERO), "it would have admitted");
    assert_eq!((second.allowed, second.remaining, second.wait), (false, 3, Wait::Never));
    assert!(several.table.is_empty());
}

#[test]
fn two_legs_of_one_key_are_one_sum() {
    let mut several = Several::new();
    let leg = several.leg(1, bucket(1, secs(1), 10), 6);
    assert!(!several.ask(&[leg, leg], at(0)), "twice six is more than ten");
    assert!(several.table.is_empty());
    let five = Leg { cost: 5, ..leg };
    assert!(several.ask(&[five, five], at(0)));
    assert_eq!((several.out.legs[1].remaining, several.out.charges.len(), several.table.len()), (0, 2, 1));
}

#[test]
fn a_shadow_never_refuses_and_counts_only_what_it_admits() {
    let mut several = Several::new();
    let enforced = several.leg(1, bucket(1, secs(1), 100), 1);
    let shadow = Leg { shadow: true, ..several.leg(2, bucket(1, secs(1), 3), 1) };
    for check in 1..=5 {
        assert!(several.ask(&[enforced, shadow], at(0)));
        assert_eq!(several.out.legs[1].allowed, check <= 3);
        assert_eq!(several.out.charges.len(), if check <= 3 { 2 } else { 1 });
    }
}

#[test]
fn a_shadow_is_not_charged_for_a_check_that_was_denied() {
    let mut several = Several::new();
    let enforced = several.leg(1, bucket(1, secs(1), 1), 2);
    let shadow = Leg { shadow: true, ..several.leg(2, bucket(1, secs(1), 3), 1) };
    assert!(!several.ask(&[shadow, enforced], at(0)));
    assert!(several.table.is_empty());
}

#[test]
fn a_shadow_window_without_cluster_time_refuses_nobody() {
    let mut several = Several::new();
    let enforced = several.leg(1, bucket(1, secs(1), 1), 1);
    let window = crate::single::window(1, secs(1), limits::Align::Hashed);
    let shadow = Leg { shadow: true, ..several.leg(2, window, 1) };
    assert!(several.ask(&[shadow, enforced], Now::at(Moment::ZERO)));
    assert_eq!(several.table.len(), 1);
}

#[test]
fn a_check_without_legs_is_allowed() {
    assert!(Several::new().ask(&[], at(0)));
}

#[test]
fn a_leg_alone_is_decided_as_it_is_among_others() {
    let decided = Cell::new(0);
    runner(400)
        .run(&(any_shape(), prop::collection::vec((0..4u64, 0..300_000_000u64), 1..20)), |(shape, steps)| {
            let (mut alone, mut among) = (Several::new(), Several::new());
            let (leg, other) = (alone.leg(1, shape, 1), among.leg(1, shape, 1));
            let unlimited = among.leg(2, Shape { rate: None, ..shape }, 1);
            let mut nanos = 0;
            for (cost, step) in steps {
                nanos += step;
                let allowed = alone.ask(&[Leg { cost, ..leg }], at(nanos));
                prop_assert_eq!(among.ask(&[Leg { cost, ..other }, unlimited], at(nanos)), allowed);
                prop_assert_eq!(alone.out.legs[0], among.out.legs[0]);
                prop_assert_eq!(&alone.out.charges, &among.out.charges);
                decided.set(decided.get() + 1);
            }
            prop_assert_eq!(alone.usage(at(nanos)), among.usage(at(nanos)));
            Ok(())
        })
        .unwrap();
    assert!(decided.get() > 2_000);
}

#[test]
fn a_peek_says_what_a_decision_would_and_writes_nothing() {
    let peeked = Cell::new(0);
    runner(300)
        .run(&(any_shape(), prop::collection::vec((0..4u64, 0..300_000_000u64), 1..20)), |(shape, steps)| {
            let mut single = Single::new(shape);
            let mut nanos = 0;
            for (cost, step) in steps {
                nanos += step;
                let before = single.table.len();
                let (peek, stands) = (single.peek(cost, at(nanos)), single.peek(0, at(nanos)));
                prop_assert_eq!(single.table.len(), before);
                let decision = single.ask(cost, at(nanos));
                prop_assert_eq!((peek.allowed, peek.wait), (decision.allowed, decision.wait));
                prop_assert_eq!((peek.remaining, peek.reset_after), (stands.remaining, stands.reset_after));
                if !decision.allowed {
                    prop_assert_eq!(peek, decision);
                }
                peeked.set(peeked.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(peeked.get() > 1_000);
}
