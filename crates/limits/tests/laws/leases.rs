//! Concurrency: leases are taken, prolonged and given back by id, each as often as anyone likes. A slow model keeps every
//! lease in a list; and whatever a predecessor had lent out, it and its successor together never lend more than there is.

use std::cell::Cell;
use std::collections::BTreeSet;

use limits::{
    Absent, Basis, Decided, HeldLease, Hold, HoldId, InsertError, LegDecision, Now, Released, Renewed, Shape, Span,
    Undecided, Usage, Used, Wait, WhyUndecided,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::cases::runner;
use crate::single::{Single, at, bucket, later, secs, slots};

impl Single {
    fn acquire(&mut self, id: u128, cost: u64, ttl: Option<u64>, now: Now) -> LegDecision {
        let hold = Hold { id: HoldId::from(id), ttl: ttl.map(Span::from_nanos) };
        let (leg, mut out) = (self.leg(cost), Decided::default());
        let acquired = self.table.acquire(&[leg], &hold, &self.shapes, &self.budgets, now, &mut out);
        if let Err(undecided) = acquired {
            assert_eq!(undecided, Undecided { leg: 0, why: WhyUndecided::IdTaken });
            return LegDecision { allowed: false, ..self.peek(0, now) };
        }
        self.charge = out.charges.first().copied();
        out.legs[0]
    }

    fn renew(&mut self, id: u128, cost: u64, ttl: Option<u64>, now: Now) -> Renewed {
        let hold = Hold { id: HoldId::from(id), ttl: ttl.map(Span::from_nanos) };
        self.table.renew(&self.leg(cost), &hold, &self.shapes, &self.budgets, now).unwrap()
    }

    fn release(&mut self, id: u128, cost: u64, now: Now) -> Released {
        self.table.release(&self.leg(cost), HoldId::from(id), &self.shapes, &self.budgets, now)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire { id: u128, cost: u64, ttl: Option<u64> },
    Renew { id: u128, cost: u64, ttl: Option<u64> },
    Release { id: u128, cost: u64 },
    Pass { nanos: u64 },
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ttl = || prop_oneof![2 => Just(None), 1 => (1..60u64).prop_map(Some)];
    let step = prop_oneof![
        5 => (0..12u128, 0..4u64, ttl()).prop_map(|(id, cost, ttl)| Step::Acquire { id, cost, ttl }),
        3 => (0..14u128, 1..4u64, ttl()).prop_map(|(id, cost, ttl)| Step::Renew { id, cost, ttl }),
        3 => (0..14u128, 1..4u64).prop_map(|(id, cost)| Step::Release { id, cost }),
        4 => (0..30u64).prop_map(|nanos| Step::Pass { nanos }),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(step, 1..80)
}

fn limits() -> impl Strategy<Value = Shape> {
    (1..8u64, 5..40u64, 1..4u64).prop_map(|(amount, ttl, holds)| slots(amount, ttl, holds))
}

#[derive(Clone, Copy)]
struct Lease {
    id: u128,
    slots: u64,
    end: u64,
    last_end: u64,
}

/// The definition: a list of leases, looked through each time.
struct Model {
    slots: u64,
    ttl: u64,
    max_hold: u64,
    leases: Vec<Lease>,
    unknown: (u64, u64),
    ended: BTreeSet<u128>,
}

impl Model {
    fn new(shape: &Shape, unknown_since: Option<u64>) -> Model {
        let limits::Algorithm::Concurrency { max_hold } = shape.algorithm else { panic!("a concurrency limit") };
        let (rate, max_hold) = (shape.rate.unwrap(), max_hold.as_nanos());
        let unknown = unknown_since.map_or((0, 0), |since| (rate.amount(), since + max_hold));
        let ttl = rate.period().as_nanos();
        Model { slots: rate.amount(), ttl, max_hold, leases: Vec::new(), unknown, ended: BTreeSet::new() }
    }

    fn used(&self, now: u64) -> u64 {
        let known: u64 = self.leases.iter().filter(|lease| lease.end > now).map(|lease| lease.slots).sum();
        known + self.unknown(now)
    }

    fn unknown(&self, now: u64) -> u64 {
        if self.unknown.1 > now { self.unknown.0 } else { 0 }
    }

    fn pass(&mut self, now: u64) {
        let (live, over): (Vec<Lease>, Vec<Lease>) = self.leases.iter().partition(|lease| lease.end > now);
        self.leases = live;
        self.ended.extend(over.iter().map(|lease| lease.id));
    }

    fn find(&mut self, id: u128) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.id == id)
    }

    fn end(&self, ttl: Option<u64>, now: u64) -> u64 {
        now + ttl.unwrap_or(self.ttl).min(self.max_hold)
    }

    fn acquire(&mut self, id: u128, cost: u64, ttl: Option<u64>, now: u64) -> bool {
        if let Some(lease) = self.find(id) {
            return cost <= lease.slots;
        }
        if cost == 0 {
            return true;
        }
        if self.used(now) + cost > self.slots {
            return false;
        }
        let (end, last_end) = (self.end(ttl, now), now + self.max_hold);
        self.ended.remove(&id);
        self.leases.push(Lease { id, slots: cost, end, last_end });
        true
    }

    fn adopts(&mut self, id: u128, cost: u64, now: u64) -> bool {
        let adopts = self.unknown(now) >= cost && !self.ended.contains(&id);
        if adopts {
            self.unknown.0 -= cost;
        }
        adopts
    }

    fn renew(&mut self, id: u128, cost: u64, ttl: Option<u64>, now: u64) -> Option<u64> {
        let end = now + ttl.unwrap_or(self.ttl);
        if self.find(id).is_none() {
            if !self.adopts(id, cost, now) {
                return None;
            }
            let last_end = self.unknown.1;
            self.leases.push(Lease { id, slots: cost, end: now, last_end });
        }
        let max_hold = self.max_hold;
        let lease = self.find(id).unwrap();
        lease.end = end.min(now + max_hold).min(lease.last_end).max(lease.end);
        Some(lease.end - now)
    }

    fn release(&mut self, id: u128) -> bool {
        let held = self.find(id).is_some();
        self.leases.retain(|lease| lease.id != id);
        if held {
            self.ended.insert(id);
        }
        held
    }
}

/// Plays `steps` on the engine and on the model; both say the same at each.
fn play(
    single: &mut Single,
    model: &mut Model,
    start: u64,
    steps: &[Step],
    tally: &Tally,
) -> Result<(), TestCaseError> {
    let mut nanos = start;
    for step in steps {
        let now = at(nanos);
        model.pass(nanos);
        match *step {
            Step::Acquire { id, cost, ttl } => {
                let wait = single.peek(cost, now).wait;
                let held = model.find(id).is_some();
                let said = single.acquire(id, cost, ttl, now);
                let fits = model.acquire(id, cost, ttl, nanos);
                prop_assert_eq!(said.allowed, fits, "{:?}", step);
                tally.count(if fits { 0 } else { 1 });
                if let (Wait::After(wait), false) = (said.wait, held) {
                    prop_assert!(model.used(nanos + wait.as_nanos()) + cost <= model.slots, "law 6");
                    prop_assert!(model.used(nanos + wait.as_nanos() - 1) + cost > model.slots, "law 6, exactly");
                }
                prop_assert!(held || wait == said.wait, "a peek says the same");
            }
            Step::Renew { id, cost, ttl } => {
                let renewed = match single.renew(id, cost, ttl, now) {
                    Renewed::For(left) => Some(left.as_nanos()),
                    Renewed::NotHeld => None,
                };
                prop_assert_eq!(renewed, model.renew(id, cost, ttl, nanos), "{:?}", step);
                tally.count(if renewed.is_some() { 2 } else { 3 });
            }
            Step::Release { id, cost } => {
                let freed = single.release(id, cost, now) == Released::Freed;
                prop_assert_eq!(freed, model.release(id), "{:?}", step);
                tally.count(if freed { 4 } else { 5 });
                prop_assert_eq!(single.release(id, cost, now), Released::NotHeld, "the second time frees nothing");
            }
            Step::Pass { nanos: pass } => nanos += pass,
            Step::Sweep => drop(single.sweep(now)),
        }
        let stands = single.peek(0, at(nanos));
        prop_assert_eq!(stands.remaining, model.slots.saturating_sub(model.used(nanos)), "{:?}", step);
        prop_assert!(model.used(nanos) <= model.slots, "never more than there is");
        prop_assert_eq!(model.used(nanos + stands.reset_after.as_nanos()), 0);
        prop_assert_eq!(single.budgets.used(limits::DomainId(0)), single.table.len() as u64);
    }
    Ok(())
}

#[derive(Default)]
struct Tally([Cell<u32>; 6]);

impl Tally {
    fn count(&self, what: usize) {
        self.0[what].set(self.0[what].get() + 1);
    }

    fn assert_rich(&self) {
        let counts = self.0.each_ref().map(Cell::get);
        assert!(counts.iter().all(|count| *count > 300), "{counts:?}: acquired, refused, renewed, not, released, not");
    }
}

#[test]
fn leases_do_what_a_list_of_leases_does() {
    let tally = Tally::default();
    runner(800)
        .run(&(limits(), 0..1_000u64, steps()), |(shape, start, steps)| {
            play(&mut Single::new(shape), &mut Model::new(&shape, None), start, &steps, &tally)
        })
        .unwrap();
    tally.assert_rich();
}

#[test]
fn a_successor_that_knows_nothing_learns_as_the_model_does() {
    let tally = Tally::default();
    runner(800)
        .run(&(limits(), 0..1_000u64, 0..20u64, steps()), |(shape, floor, gap, steps)| {
            let mut single = Single::new(shape);
            single.absent = Absent::FullAsOf(at(floor));
            play(&mut single, &mut Model::new(&shape, Some(floor)), floor + gap, &steps, &tally)
        })
        .unwrap();
    tally.assert_rich();
}

#[test]
fn a_predecessor_and_a_successor_together_never_lend_more_than_there_is() {
    let (adopted, refused) = (Cell::new(0), Cell::new(0));
    runner(800)
        .run(&(limits(), steps(), 0..10u64, steps()), |(shape, before, gap, after)| {
            // Honest holders: each remembers until when it was told that it holds.
            let mut holders: Vec<(u128, u64, u64)> = Vec::new();
            // What was released may be said again, whoever owns by then.
            let mut gone: Vec<(u128, u64)> = Vec::new();
            let (mut owner, mut nanos, capacity) = (Single::new(shape), 100, shape.capacity().unwrap());
            for (life, steps) in [before, after].into_iter().enumerate() {
                if life == 1 {
                    owner = Single::new(shape);
                    owner.absent = Absent::FullAsOf(at(nanos));
                    nanos += gap;
                }
                for step in steps {
                    let now = at(nanos);
                    holders.retain(|(_, _, end)| *end > nanos);
                    let holder = |id: u128| id % 7 + 100 * life as u128;
                    match step {
                        Step::Acquire { id, cost, ttl } if holders.iter().all(|(known, ..)| *known != holder(id)) => {
                            let said = owner.acquire(holder(id), cost, ttl, now);
                            refused.set(refused.get() + u32::from(!said.allowed));
                            let ttl = ttl.unwrap_or(shape.rate.unwrap().period().as_nanos());
                            if said.allowed && cost > 0 {
                                let limits::Algorithm::Concurrency { max_hold } = shape.algorithm else { panic!() };
                                holders.push((holder(id), cost, nanos + ttl.min(max_hold.as_nanos())));
                            }
                        }
                        Step::Renew { id, ttl, .. } if !holders.is_empty() => {
                            let count = holders.len();
                            let holder = &mut holders[id as usize % count];
                            if let Renewed::For(left) = owner.renew(holder.0, holder.1, ttl, now) {
                                holder.2 = nanos + left.as_nanos();
                                adopted.set(adopted.get() + u32::from(life == 1 && holder.0 < 100));
                            }
                        }
                        Step::Release { id, .. } if id % 3 == 0 && !gone.is_empty() => {
                            let (id, cost) = gone[id as usize % gone.len()];
                            if holders.iter().all(|(known, ..)| *known != id) {
                                owner.release(id, cost, now);
                            }
                        }
                        Step::Release { id, .. } if !holders.is_empty() => {
                            let holder = holders.swap_remove(id as usize % holders.len());
                            owner.release(holder.0, holder.1, now);
                            gone.push((holder.0, holder.1));
                        }
                        Step::Pass { nanos: pass } => nanos += pass,
                        Step::Sweep => drop(owner.sweep(now)),
                        Step::Acquire { .. } | Step::Renew { .. } | Step::Release { .. } => {}
                    }
                    let held: u64 = holders.iter().filter(|(_, _, end)| *end > nanos).map(|(_, cost, _)| cost).sum();
                    prop_assert!(held <= capacity, "{held} of {capacity} are held");
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(adopted.get() > 100 && refused.get() > 500, "{} adopted, {} refused", adopted.get(), refused.get());
}

#[test]
fn a_job_that_crashes_gives_its_slot_back_after_its_time() {
    let mut single = Single::new(slots(2, secs(30), 10));
    assert!(single.acquire(1, 1, None, at(0)).allowed && single.acquire(2, 1, None, at(secs(10))).allowed);
    let refused = single.acquire(3, 1, None, at(secs(12)));
    assert_eq!((refused.allowed, refused.wait), (false, Wait::After(Span::from_secs(18))), "the earliest end");
    assert_eq!(single.renew(1, 1, None, at(secs(20))), Renewed::For(Span::from_secs(30)));
    assert_eq!(single.acquire(3, 1, None, at(secs(20))).wait, Wait::After(Span::from_secs(20)), "now it is the other");
    assert!(single.acquire(3, 1, None, at(secs(40))).allowed);
    assert_eq!(single.renew(2, 1, None, at(secs(41))), Renewed::NotHeld, "somebody else has it");
}

#[test]
fn nobody_holds_longer_than_allowed_however_often_it_renews() {
    let mut single = Single::new(slots(1, secs(30), 2));
    single.acquire(1, 1, None, at(0));
    assert_eq!(single.renew(1, 1, None, at(secs(20))), Renewed::For(Span::from_secs(30)));
    assert_eq!(single.renew(1, 1, None, at(secs(45))), Renewed::For(Span::from_secs(15)), "a minute in all");
    assert_eq!(single.renew(1, 1, None, at(secs(59))), Renewed::For(Span::from_secs(1)));
    assert!(single.acquire(2, 1, Some(secs(500)), at(secs(60))).allowed);
    assert_eq!(single.acquire(3, 1, None, at(secs(60))).wait, Wait::After(Span::from_secs(60)), "nor asks for longer");
}

#[test]
fn asking_twice_under_one_id_takes_one_slot_and_prolongs_nothing() {
    let mut single = Single::new(slots(2, secs(30), 10));
    single.acquire(7, 1, None, at(0));
    let again = single.acquire(7, 1, None, at(secs(10)));
    assert_eq!((again.allowed, again.remaining), (true, 1));
    assert_eq!(single.acquire(8, 1, None, at(secs(10))).remaining, 0);
    assert!(single.acquire(7, 1, None, at(secs(10))).allowed, "a holder is never told that there is no room");
    assert_eq!(single.acquire(9, 1, None, at(secs(10))).wait, Wait::After(Span::from_secs(20)));
}

#[test]
fn two_legs_of_one_key_are_held_as_one_sum() {
    let mut single = Single::new(slots(5, secs(30), 4));
    let hold = Hold { id: HoldId::from(7), ttl: None };
    let (two, three, mut out) = (single.leg(2), single.leg(3), Decided::default());
    for again in [false, true] {
        let taken = single.table.acquire(&[two, three], &hold, &single.shapes, &single.budgets, at(0), &mut out);
        assert_eq!((taken, out.charges.len()), (Ok(true), if again { 0 } else { 2 }));
        assert_eq!(single.peek(0, at(0)).remaining, 0);
    }
    assert_eq!(single.release(7, 5, at(1)), Released::Freed);
    assert_eq!(single.peek(0, at(1)).remaining, 5);
}

#[test]
fn leases_that_nobody_can_have_are_not_taken_in() {
    let held = |slots| HeldLease { id: HoldId::from(1), slots, left: Span::from_secs(9), longest: Span::from_secs(9) };
    let leases = |held, ended| Used::Leases { held, unknown: (0, Span::ZERO), ended };
    let misfits = [
        leases(vec![held(u64::MAX), held(u64::MAX)], None),
        leases(vec![held(limits::AMOUNT_MAX), held(limits::AMOUNT_MAX), held(1)], None),
        leases(vec![held(1); limits::LEASES_MAX + 1], None),
        leases(vec![held(1)], Some(vec![HoldId::from(2); 1_025])),
    ];
    for used in misfits {
        let mut single = Single::new(slots(5, secs(30), 4));
        let usage = Usage { shape: single.shape, key: single.key, lo: used.clone(), hi: used };
        let refused = single.table.insert_usage(&usage, &single.shapes, &single.budgets, at(0));
        assert_eq!((refused, single.table.len()), (Err(InsertError::Misfit), 0));
    }
}

#[test]
fn c_slots_count_as_held_after_a_takeover_until_the_longest_hold() {
    let mut single = Single::new(slots(3, secs(30), 4));
    single.absent = Absent::FullAsOf(at(secs(100)));
    assert_eq!(single.acquire(1, 1, None, at(secs(100))).wait, Wait::After(Span::from_secs(120)));
    assert!(single.table.is_empty(), "a denial makes no entry");
    assert_eq!(single.release(50, 1, at(secs(101))), Released::NotHeld, "perhaps it was released before");
    assert!(single.table.is_empty());
    assert_eq!(single.renew(50, 1, None, at(secs(101))), Renewed::For(Span::from_secs(30)), "somebody holds one");
    assert_eq!(single.release(50, 1, at(secs(101))), Released::Freed);
    assert!(single.acquire(1, 1, None, at(secs(102))).allowed);
    assert_eq!(single.renew(51, 1, None, at(secs(103))), Renewed::For(Span::from_secs(30)));
    assert_eq!(single.renew(50, 1, None, at(secs(103))), Renewed::NotHeld, "its release was remembered");
    assert!(!single.acquire(2, 1, None, at(secs(104))).allowed, "one is unknown still");
    assert_eq!(single.acquire(2, 3, None, at(secs(219))).wait, Wait::After(Span::from_secs(1)));
    assert!(single.acquire(2, 3, None, at(secs(220))).allowed);
}

#[test]
fn too_many_ends_to_remember_stop_adoption_and_nothing_else() {
    let mut single = Single::new(slots(2, secs(30), 1_000));
    single.absent = Absent::FullAsOf(at(0));
    assert_eq!(single.renew(0, 1, None, at(0)), Renewed::For(Span::from_secs(30)));
    assert_eq!(single.release(0, 1, at(0)), Released::Freed);
    for id in 1..=1_023 {
        assert!(single.acquire(id, 1, None, at(1)).allowed);
        assert_eq!(single.release(id, 1, at(1)), Released::Freed);
    }
    let bytes = single.table.allocated_bytes();
    assert!(single.acquire(5_000, 1, None, at(1)).allowed);
    assert_eq!(single.release(5_000, 1, at(1)), Released::Freed, "the 1,025th");
    assert_eq!(single.renew(9_999, 1, None, at(1)), Renewed::NotHeld, "it may be one of those that ended here");
    assert!(single.table.allocated_bytes() < bytes, "{bytes}");
    assert!(single.acquire(1, 1, None, at(2)).allowed);
    assert!(!single.acquire(2, 1, None, at(2)).allowed, "the other one runs out by itself");
    assert!(single.acquire(2, 1, None, at(secs(30_000))).allowed);
}

#[test]
fn an_open_limit_lends_freely_after_a_takeover_and_still_adopts() {
    let mut single = Single::new(Shape { basis: Basis::Lo, ..slots(2, secs(30), 4) });
    single.absent = Absent::FullAsOf(at(0));
    assert_eq!(single.renew(1, 1, None, at(1)), Renewed::For(Span::from_secs(30)));
    assert_eq!(single.peek(0, at(1)).remaining, 1, "the least that may be held: the one that is known");
    assert!(single.acquire(2, 1, None, at(1)).allowed);
    assert!(!single.acquire(3, 1, None, at(1)).allowed);
    assert_eq!(single.release(1, 1, at(2)), Released::Freed);
    assert!(single.acquire(3, 1, None, at(2)).allowed);
}

#[test]
fn an_undone_lease_gives_its_slots_back_and_only_once() {
    let mut single = Single::new(slots(5, secs(30), 4));
    single.acquire(1, 2, None, at(0));
    let charge = single.charge.unwrap();
    single.acquire(2, 2, None, at(1));
    assert_eq!(single.table.undo(&charge, &single.shapes, at(2)), 2);
    assert_eq!(single.peek(0, at(2)).remaining, 3);
    assert_eq!(single.table.undo(&charge, &single.shapes, at(2)), 0);
    assert_eq!(single.release(1, 2, at(2)), Released::NotHeld);
    assert_eq!(single.peek(0, at(secs(30) + 1)).remaining, 5);
}

#[test]
fn more_leases_than_can_be_written_down_are_refused_until_one_ends() {
    let mut single = Single::new(slots(1_000_000, secs(30), 1));
    for id in 0..limits::LEASES_MAX as u128 {
        assert!(single.acquire(id, 1, None, at(id as u64)).allowed);
    }
    let refused = single.acquire(1 << 64, 1, None, at(secs(1)));
    assert_eq!((refused.allowed, refused.remaining), (false, 0));
    assert_eq!(refused.wait, Wait::After(Span::from_secs(29)));
    assert!(single.acquire(1 << 64, 1, None, at(secs(30))).allowed);
}

#[test]
fn a_limit_that_counts_otherwise_holds_nothing() {
    let mut single = Single::new(bucket(1, secs(1), 5));
    assert!(single.acquire(1, 2, None, at(0)).allowed, "an acquire charges it as a check does");
    assert_eq!(single.renew(1, 2, None, at(0)), Renewed::NotHeld);
    assert_eq!(single.release(1, 2, at(0)), Released::NotHeld);
    assert_eq!(single.peek(0, at(0)).remaining, 3);
    let mut unlimited = Single::new(Shape { rate: None, ..slots(1, secs(1), 1) });
    assert!(unlimited.acquire(1, 2, None, at(0)).allowed);
    assert_eq!(unlimited.renew(1, 2, Some(5), at(0)), Renewed::For(Span::from_nanos(5)));
}

#[test]
fn leases_are_handed_over_with_their_ids_and_what_is_known_of_the_unknown() {
    let mut old = Single::new(slots(4, secs(30), 4));
    old.absent = Absent::FullAsOf(at(secs(500)));
    old.renew(9, 1, None, at(secs(501)));
    old.release(9, 1, at(secs(501)));
    old.acquire(1, 1, None, at(secs(501)));
    old.renew(2, 1, None, at(secs(502)));
    let handed = old.table.export(&old.shapes, at(secs(510))).next().unwrap();
    let Used::Leases { held, unknown, ended } = &handed.hi else { panic!("leases") };
    assert_eq!((held.len(), *unknown, ended.as_deref()), (2, (2, Span::from_secs(110)), Some(&[HoldId::from(9)][..])));

    let mut new = Single::new(slots(4, secs(30), 4));
    new.table.insert_usage(&handed, &new.shapes, &new.budgets, at(secs(7))).unwrap();
    assert_eq!(new.release(9, 1, at(secs(7))), Released::NotHeld);
    assert_eq!(new.renew(1, 1, None, at(secs(8))), Renewed::For(Span::from_secs(30)));
    assert_eq!(new.release(2, 1, at(secs(8))), Released::Freed);
    assert_eq!(new.renew(3, 1, None, at(secs(8))), Renewed::For(Span::from_secs(30)), "one of the two unknown ones");
    assert_eq!(new.peek(0, at(secs(8))).remaining, 1);
    assert_eq!(new.peek(0, later(at(secs(8)), Span::from_secs(109))).remaining, 4);
}

#[test]
fn slots_taken_in_nobodys_name_come_back_by_themselves_and_can_be_undone() {
    let mut single = Single::new(slots(3, secs(30), 4));
    single.ask(1, at(0));
    let first = single.charge.unwrap();
    assert_eq!(single.ask(1, at(0)).remaining, 1, "two checks are two leases");
    assert_eq!(single.table.undo(&first, &single.shapes, at(1)), 1);
    assert_eq!(single.peek(0, at(1)).remaining, 2);
    assert_eq!(single.peek(0, at(secs(30))).remaining, 3);
}
