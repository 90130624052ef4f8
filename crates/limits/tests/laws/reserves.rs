//! Reserve, settle, expire. A settlement undoes exactly the part of a charge that was not needed, by the formula of
//! law 8; settling up is refused; what nobody settles stays charged; and the kept parts are never over.

use std::cell::Cell;

use limits::{Decided, DomainId, HoldId, Leg, Now, Reserve, Settled, Shape, Span, Undecided, Wait, WhyUndecided};
use proptest::prelude::*;

use crate::cases::{buckets, calendars, concurrency, counters, logs, runner, windows};
use crate::single::{Single, at, bucket, later, log, secs, slots, window};
use crate::twin::{Admission, Twin, assert_never_over};

impl Single {
    fn try_reserve(&mut self, id: u128, units: u64, ttl: u64, now: Now) -> Result<bool, Undecided> {
        let reserve = Reserve { id: HoldId::from(id), ttl: Span::from_nanos(ttl), units };
        let (leg, mut out) = (self.leg(units), Decided::default());
        self.table.reserve(&[leg], &reserve, &self.shapes, &self.budgets, now, &mut out)
    }

    fn reserve(&mut self, id: u128, units: u64, ttl: u64, now: Now) -> bool {
        self.try_reserve(id, units, ttl, now).unwrap()
    }

    fn settle(&mut self, id: u128, units: u64, now: Now) -> Settled {
        self.table.settle(HoldId::from(id), units, &self.shapes, &self.budgets, now)
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Reserve {
        units: u64,
    },
    Ask {
        units: u64,
    },
    /// Settles one of the open reserves, counted from the newest, at a share of what it is for.
    Settle {
        back: usize,
        percent: u64,
    },
    /// A part of the period, in percent.
    Pass {
        percent: u64,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (1..9u64).prop_map(|units| Event::Reserve { units }),
        2 => (1..4u64).prop_map(|units| Event::Ask { units }),
        3 => (0..5usize, 0..=100u64).prop_map(|(back, percent)| Event::Settle { back, percent }),
        2 => (0..60u64).prop_map(|percent| Event::Pass { percent }),
    ];
    prop::collection::vec(event, 1..60)
}

/// After every event at least what was kept is used, and what was kept is never over.
fn replay(shape: Shape, start: u64, events: &[Event], tally: &Cell<u32>) {
    let mut single = Single::new(shape);
    let mut kept: Vec<Admission> = Vec::new();
    let mut open: Vec<(u128, usize)> = Vec::new();
    let mut now = at(start);
    for (number, event) in events.iter().enumerate() {
        match *event {
            Event::Pass { percent } => now = later(now, shape.rate.unwrap().period().scaled(percent, 100)),
            Event::Ask { units } => {
                if single.ask(units, now).allowed {
                    kept.push(Admission { at: now, cost: units });
                }
            }
            Event::Reserve { units } => {
                if single.reserve(number as u128, units, u64::MAX, now) {
                    open.push((number as u128, kept.len()));
                    kept.push(Admission { at: now, cost: units });
                }
            }
            Event::Settle { back, percent } if back < open.len() => {
                let (id, index) = open.remove(open.len() - 1 - back);
                let spent = kept[index].cost * percent / 100;
                let settled = single.settle(id, spent, now);
                assert!(matches!(settled, Settled::Closed { .. }) || beyond_a_day(kept[index].at, now), "{settled:?}");
                if matches!(settled, Settled::Closed { .. }) {
                    kept[index].cost = spent;
                    tally.set(tally.get() + 1);
                }
            }
            Event::Settle { .. } => {}
        }
    }
    assert_never_over(&Twin::new(shape, single.key), &kept);
}

fn beyond_a_day(from: Now, now: Now) -> bool {
    now.moment.since(from.moment) >= Span::from_secs(86_400)
}

#[test]
fn what_was_kept_of_reserves_is_never_over_for_any_algorithm() {
    let tally = Cell::new(0);
    let shapes = prop_oneof![buckets(), logs(), windows(), counters(), calendars()];
    runner(1_500)
        .run(&(shapes, 0..secs(1_000), events()), |(shape, start, events)| {
            replay(shape, start, &events, &tally);
            Ok(())
        })
        .unwrap();
    assert!(tally.get() > 2_000, "{} settled", tally.get());
}

#[test]
fn a_settled_reserve_of_a_bucket_gives_back_the_formula_of_law_8() {
    // A reserve of `a + b` that is settled at `a` is a charge of `a` followed by one of `b` that is undone.
    let compared = Cell::new(0);
    let cases = ((1..6u64, 1..40u64, 1..14u64), prop::collection::vec((0..4u64, 0..4u64, 0..30u64, 0..3u64), 1..25));
    runner(800)
        .run(&cases, |((amount, period, burst), steps)| {
            let shape = bucket(amount, period, burst);
            let (mut whole, mut parts) = (Single::new(shape), Single::new(shape));
            let (mut nanos, mut open) = (0, Vec::new());
            for (number, (spent, rest, pass, settle)) in steps.into_iter().enumerate() {
                let (id, now) = (number as u128, at(nanos));
                if whole.peek(spent + rest, now).allowed {
                    prop_assert!(whole.reserve(id, spent + rest, u64::MAX, now));
                    parts.ask(spent, now);
                    parts.ask(rest, now);
                    open.push((id, spent, parts.charge));
                }
                nanos += pass;
                for _ in 0..settle.min(open.len() as u64) {
                    let (id, spent, rest) = open.remove(open.len() / 2);
                    // A reserve of nothing charges nothing, so there is nothing to settle.
                    let settled = whole.settle(id, spent, at(nanos));
                    rest.iter().for_each(|rest| parts.undo(rest, at(nanos)));
                    compared
                        .set(compared.get() + u32::from(matches!(settled, Settled::Closed { .. }) && rest.is_some()));
                }
                prop_assert_eq!(whole.peek(0, at(nanos)), parts.peek(0, at(nanos)));
            }
            Ok(())
        })
        .unwrap();
    assert!(compared.get() > 1_500, "{} compared", compared.get());
}

#[test]
fn a_model_call_reserves_its_most_and_settles_at_what_it_took() {
    let mut single = Single::new(bucket(1_000, secs(60), 1_000));
    assert!(single.reserve(1, 800, secs(60), at(0)));
    assert!(!single.reserve(2, 800, secs(60), at(0)), "no room for two");
    assert!(single.table.is_reserved(&single.key));
    assert_eq!(single.settle(1, 350, at(0)), Settled::Closed { back: 450 });
    assert!(!single.table.is_reserved(&single.key));
    assert_eq!(single.peek(0, at(0)).remaining, 650);
    assert_eq!(single.settle(1, 350, at(0)), Settled::NotOpen, "once");
    assert_eq!(single.peek(0, at(0)).remaining, 650);
}

#[test]
fn settling_above_the_reserve_is_refused_and_leaves_it_open() {
    let mut single = Single::new(log(10, secs(60)));
    assert!(single.reserve(1, 4, secs(60), at(0)));
    assert_eq!(single.settle(1, 5, at(1)), Settled::Above(4));
    assert_eq!(single.peek(0, at(1)).remaining, 6);
    assert_eq!(single.settle(1, 4, at(1)), Settled::Closed { back: 0 });
    assert_eq!((single.peek(0, at(1)).remaining, single.table.open_reserves()), (6, 0));
}

#[test]
fn a_reserve_that_nobody_settles_stays_charged_and_gives_its_room_back() {
    let mut single = Single::new(window(10, secs(600), limits::Align::First));
    assert!(single.reserve(1, 4, secs(60), at(0)));
    assert_eq!(single.budgets.used(DomainId(0)), 2, "the key, and the reserve");
    assert_eq!(single.settle(1, 0, at(secs(60))), Settled::NotOpen, "its time is over");
    assert_eq!((single.peek(0, at(secs(60))).remaining, single.budgets.used(DomainId(0))), (6, 1));
    assert!(single.reserve(2, 1, secs(60), at(secs(61))));
    single.sweep(at(secs(121)));
    assert_eq!((single.table.open_reserves(), single.budgets.used(DomainId(0))), (0, 1), "sweeping finds it too");
}

#[test]
fn reserving_twice_under_one_id_charges_once() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    assert!(single.reserve(1, 4, secs(60), at(0)) && single.reserve(1, 4, secs(60), at(0)));
    assert_eq!(single.peek(0, at(0)).remaining, 6);
    assert_eq!(single.table.open_reserves(), 1);
}

#[test]
fn an_id_whose_reserve_is_over_can_be_used_again() {
    let mut single = Single::new(bucket(1, secs(60), 1_000));
    for id in 0..100 {
        assert!(single.reserve(id, 1, secs(60) + id as u64, at(0)));
    }
    // A few are forgotten with each call, and this one is not among them.
    assert!(single.reserve(99, 3, secs(60), at(secs(200))));
    assert!(matches!(single.settle(99, 1, at(secs(201))), Settled::Closed { .. }));
    for step in 0..10 {
        single.settle(500, 0, at(secs(202) + step));
    }
    assert_eq!((single.table.open_reserves(), single.budgets.used(DomainId(0))), (0, 1));
}

#[test]
fn reserves_take_room_like_keys() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    single.budgets.set_max(DomainId(0), 2);
    assert!(single.reserve(1, 1, secs(60), at(0)));
    let full = single.try_reserve(2, 1, secs(60), at(0));
    assert_eq!(full, Err(Undecided { leg: 0, why: WhyUndecided::TableFull }));
    assert_eq!(single.peek(0, at(0)).remaining, 9, "nothing was charged");
    assert_eq!(single.budgets.used(DomainId(0)), 2);
    assert!(!single.ask(10, at(0)).allowed, "a check needs none");
    assert!(matches!(single.settle(1, 0, at(0)), Settled::Closed { .. }));
    assert!(single.reserve(2, 1, secs(60), at(0)));
    single.table.clear(&single.shapes, &single.budgets);
    assert_eq!((single.budgets.used(DomainId(0)), single.table.open_reserves()), (0, 0));
}

#[test]
fn a_shadow_without_room_for_its_reserve_refuses_nobody_and_is_settled_all_the_same() {
    let mut single = Single::new(bucket(1, secs(60), 10));
    let domain = DomainId(7);
    let watching = single.shapes.intern(Shape { domain, ..log(10, secs(60)) });
    let shadow = Leg { shape: watching, key: limits::Fingerprint([1, 2]), shadow: true, ..single.leg(4) };
    single.budgets.set_max(domain, 2);
    let reserve = |id| Reserve { id: HoldId::from(id), ttl: Span::from_secs(60), units: 4 };
    let (legs, mut out) = ([shadow, single.leg(4)], Decided::default());
    for id in [1, 2] {
        let allowed = single.table.reserve(&legs, &reserve(id), &single.shapes, &single.budgets, at(0), &mut out);
        assert_eq!(allowed, Ok(true));
    }
    let watched = |single: &Single| single.table.peek(&Leg { cost: 0, ..shadow }, &single.shapes, at(0)).unwrap();
    assert_eq!(watched(&single).remaining, 2);
    let both = (single.settle(1, 0, at(0)), single.settle(2, 0, at(0)));
    assert!(matches!(both, (Settled::Closed { .. }, Settled::Closed { .. })), "{both:?}");
    assert_eq!((single.peek(0, at(0)).remaining, watched(&single).remaining), (10, 10));
    assert_eq!((single.budgets.used(domain), single.budgets.used(DomainId(0))), (1, 1));
}

#[test]
fn what_is_unlimited_is_reserved_and_settled_like_anything_else() {
    let mut single = Single::new(Shape { rate: None, ..bucket(1, 1, 1) });
    assert!(single.reserve(1, 500, secs(60), at(0)));
    assert_eq!((single.table.len(), single.budgets.used(DomainId(0))), (0, 1));
    assert_eq!(single.settle(1, 501, at(0)), Settled::Above(500));
    assert!(matches!(single.settle(1, 20, at(0)), Settled::Closed { .. }));
    assert_eq!(single.budgets.used(DomainId(0)), 0);
    assert!(single.reserve(2, 0, secs(60), at(0)));
    assert_eq!(single.settle(2, 0, at(0)), Settled::NotOpen, "nothing was reserved");
}

#[test]
fn a_denied_reserve_leaves_nothing() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    assert!(!single.reserve(1, 11, secs(60), at(0)));
    assert_eq!((single.table.len(), single.table.open_reserves(), single.budgets.used(DomainId(0))), (0, 0, 0));
    assert_eq!(single.settle(1, 0, at(0)), Settled::NotOpen);
}

#[test]
fn settling_scales_every_leg_by_what_the_rule_charges_for_a_unit() {
    let mut single = Single::new(bucket(1, secs(60), 1_000));
    let other = single.shapes.intern(Shape { limit: limits::LimitId(2), ..log(1_000, secs(60)) });
    let (dear, cheap) = (single.leg(50), Leg { shape: other, key: limits::Fingerprint([1, 2]), ..single.leg(10) });
    let reserve = Reserve { id: HoldId::from(1), ttl: Span::from_secs(60), units: 10 };
    let mut out = Decided::default();
    let legs = [dear, cheap];
    assert_eq!(single.table.reserve(&legs, &reserve, &single.shapes, &single.budgets, at(0), &mut out), Ok(true));
    assert!(matches!(single.settle(1, 3, at(0)), Settled::Closed { .. }));
    assert_eq!(single.peek(0, at(0)).remaining, 1_000 - 15);
    assert_eq!(single.table.peek(&Leg { cost: 0, ..cheap }, &single.shapes, at(0)).unwrap().remaining, 1_000 - 3);
}

#[test]
fn a_settled_reserve_lets_go_of_the_slots_it_held() {
    let mut single = Single::new(slots(2, secs(30), 10));
    assert!(single.reserve(1, 2, secs(90), at(0)));
    assert_eq!(single.ask(1, at(secs(1))).wait, Wait::After(Span::from_secs(89)), "held for as long as it is open");
    assert!(matches!(single.settle(1, 2, at(secs(2))), Settled::Closed { .. }));
    assert_eq!(single.peek(0, at(secs(2))).remaining, 2);
}

#[test]
fn leases_that_reserves_held_are_never_over() {
    let (full, refused) = (Cell::new(0), Cell::new(0));
    runner(300)
        .run(&(concurrency(), events()), |(shape, events)| {
            let (mut single, mut now, mut open) = (Single::new(shape), at(0), Vec::new());
            for (number, event) in events.into_iter().enumerate() {
                match event {
                    Event::Pass { percent } => now = later(now, shape.rate.unwrap().period().scaled(percent, 100)),
                    Event::Ask { units } | Event::Reserve { units } => {
                        if single.reserve(number as u128, units, 1_000, now) {
                            open.push((number as u128, units, later(now, Span::from_nanos(1_000))));
                        } else {
                            refused.set(refused.get() + 1);
                        }
                    }
                    Event::Settle { back, .. } if back < open.len() => drop(single.settle(open.remove(back).0, 0, now)),
                    Event::Settle { .. } => {}
                }
                open.retain(|(_, _, end)| end.moment > now.moment);
                let limits::Algorithm::Concurrency { max_hold } = shape.algorithm else { panic!("slots") };
                let held: u64 = open.iter().map(|(_, units, _)| units).sum();
                let capacity = shape.capacity().unwrap();
                // Where nobody may hold that long, leases end before their reserves do.
                let holds_out = max_hold >= Span::from_nanos(1_000);
                prop_assert!(held <= capacity || !holds_out);
                full.set(full.get() + u32::from(held == capacity && holds_out));
            }
            Ok(())
        })
        .unwrap();
    assert!(full.get() > 300 && refused.get() > 300, "{} full, {} refused", full.get(), refused.get());
}

#[test]
fn a_reserve_on_a_key_that_was_reset_gives_nothing_back() {
    let mut single = Single::new(bucket(1, secs(60), 10));
    assert!(single.reserve(1, 8, secs(60), at(0)));
    let leg = single.leg(0);
    assert!(single.table.reset(&leg, &single.shapes, &single.budgets, at(0)));
    assert_eq!(single.ask(5, at(0)).remaining, 5);
    assert!(matches!(single.settle(1, 0, at(0)), Settled::Closed { .. }));
    assert_eq!(single.peek(0, at(0)).remaining, 5);
    assert_eq!(single.budgets.used(DomainId(0)), 1);
}
