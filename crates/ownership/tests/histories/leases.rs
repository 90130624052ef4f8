//! Slots that are held, in the ledger's eyes: by whom, until when, and what renewing and releasing make of it. A new owner
//! does not know who held slots before it; what it is told then, by whoever renews, is noted beside the accounts.

use limits::Span;
use ringfence_ownership::{Act, Check, CheckId, Verdict};

use crate::acts::is_under_floor;
use crate::ledger::{Adopted, Charge, Lease, Ledger, Reign};
use crate::scene::Scene;

/// Whether slots are held in the name of the check.
pub fn is_hold(act: Act) -> bool {
    matches!(act, Act::Acquire { .. } | Act::Reserve { .. })
}

/// How long a check says that it holds slots.
pub fn ttl_ms(act: Act) -> Option<u64> {
    match act {
        Act::Acquire { ttl } => ttl.map(millis),
        Act::Reserve { ttl, .. } => Some(millis(ttl)),
        Act::Spend
        | Act::Peek
        | Act::UpTo { .. }
        | Act::Refund { .. }
        | Act::Settle { .. }
        | Act::Renew { .. }
        | Act::Release { .. }
        | Act::Reset => None,
    }
}

fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}

impl Ledger {
    /// How slots of a key are held that are taken now, if it counts slots.
    pub fn lease(&self, scene: &Scene, key: usize, hold: Option<(CheckId, Option<u64>)>, now: u64) -> Option<Lease> {
        let limit = scene.limit_of(key);
        let ttl = hold.and_then(|(_, ttl)| ttl).unwrap_or(limit.period_ms());
        let last = now + limit.max_hold_ms();
        let lease = Lease { hold: hold.map(|(id, _)| id), until: (now + ttl).min(last), last };
        limit.counts_slots().then_some(lease)
    }

    /// Until when slots of a key are held in this name, if they are.
    pub fn held_until(&self, reign: Reign, key: usize, id: CheckId, now: u64) -> Option<u64> {
        self.held(reign, key, id, now).and_then(|charge| self.charges[charge].lease).map(|lease| lease.until)
    }

    /// Whether whoever asked under this name was given slots that have not come back by themselves, wherever; and, if it
    /// is to hold them `still`, that were not given back either.
    pub fn believes_to_hold(&self, id: CheckId, still: bool, now: u64) -> bool {
        let holds = |charge: &Charge, lease: Lease| {
            lease.hold == Some(id) && now < lease.until && (!still || (!charge.undone && now < charge.ended))
        };
        self.charges.iter().any(|charge| charge.lease.is_some_and(|lease| holds(charge, lease)))
            || self.adopted.iter().any(|adopted| adopted.id == id && now < adopted.until)
    }

    /// Whether slots of a key are held in this name, for all that is known.
    pub fn holds(&self, reign: Reign, key: usize, id: CheckId, now: u64) -> bool {
        self.held(reign, key, id, now).is_some() || self.perhaps_holds(reign, key, id)
    }

    /// Whether somebody may hold slots of a key whom only the owner knows of.
    pub fn perhaps_holds(&self, reign: Reign, key: usize, id: CheckId) -> bool {
        self.perhaps.contains(&(id, key, reign))
    }

    fn held(&self, reign: Reign, key: usize, id: CheckId, now: u64) -> Option<usize> {
        self.charges.iter().position(|charge| {
            let held = charge.lease.is_some_and(|lease| lease.hold == Some(id) && now < lease.until);
            charge.key == key && self.entries[charge.entry].reign == reign && !charge.undone && held
        })
    }

    /// A holder prolongs its leases; whether what the owner says of it is right.
    pub fn renew(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        (of, ttl): (CheckId, Option<Span>),
        verdict: &Verdict,
        now: u64,
    ) -> bool {
        let (mut all, mut shortest, mut unsure) = (true, u64::MAX, false);
        let mut adopted = Vec::new();
        for leg in check.legs.iter().filter(|leg| scene.limit_of(scene.key_of(leg.key)).counts_slots()) {
            let key = scene.key_of(leg.key);
            let asked = now + ttl.map_or(scene.limit_of(key).period_ms(), millis);
            let held = self.held(reign, key, of, now).and_then(|charge| self.charges[charge].lease.as_mut());
            if let Some(lease) = held {
                lease.until = asked.min(lease.last).max(lease.until);
                shortest = shortest.min((lease.until - now) * 1_000_000);
            } else if is_under_floor(scene, reign, key, now) {
                unsure = true;
                self.perhaps.push((of, key, reign));
                adopted.push((key, leg.cost));
            } else {
                all &= leg.shadow;
            }
        }
        self.renewed += u64::from(verdict.allowed);
        if unsure && verdict.allowed {
            let until = now + verdict.units / 1_000_000;
            self.adopted.extend(adopted.iter().map(|&(key, slots)| Adopted { id: of, key, slots, from: now, until }));
        }
        unsure && (all || !verdict.allowed) || verdict.allowed == all && verdict.units == if all { shortest } else { 0 }
    }

    /// A holder gives its slots back; whether what the owner says of it is right.
    pub fn release(
        &mut self,
        scene: &Scene,
        reign: Reign,
        check: &Check,
        of: CheckId,
        verdict: &Verdict,
        now: u64,
    ) -> bool {
        let (mut freed, mut unsure) = (0, 0);
        for leg in &check.legs {
            let key = scene.key_of(leg.key);
            if let Some(charge) = self.held(reign, key, of, now) {
                self.charges[charge].undone = true;
                freed += 1;
            } else {
                unsure += u64::from(self.perhaps_holds(reign, key, of));
            }
            self.let_go(key, of, now);
        }
        self.released += u64::from(verdict.allowed);
        (freed..=freed + unsure).contains(&verdict.units) && verdict.allowed == (verdict.units > 0)
    }

    /// Whoever held slots of a key under this name, as an owner before or this one was told, holds them no more.
    fn let_go(&mut self, key: usize, id: CheckId, now: u64) {
        let named = |charge: &&mut Charge| charge.lease.is_some_and(|lease| lease.hold == Some(id));
        for charge in self.charges.iter_mut().filter(|charge| charge.key == key).filter(named) {
            charge.ended = charge.ended.min(now);
        }
        for adopted in self.adopted.iter_mut().filter(|adopted| adopted.key == key && adopted.id == id) {
            adopted.until = adopted.until.min(now);
        }
    }

    /// Frees the slots that an entry holds: what they were for is over.
    pub fn end_leases(&mut self, entry: usize, now: u64) {
        let leases = self.charges.iter_mut().filter(|charge| charge.entry == entry && charge.lease.is_some());
        for charge in leases.filter(|charge| !charge.undone) {
            (charge.undone, charge.ended) = (true, now);
        }
    }
}
