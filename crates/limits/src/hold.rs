//! Charges that are held open under a name: leases of slots, and reserves that are settled later. A hold says who holds
//! and for how long; whoever made it speaks of it by its id alone.

use crate::budget::Budgets;
use crate::ends::View;
use crate::key::Fingerprint;
use crate::leases::{Lease, Released, Renewed};
use crate::leg::{Decided, Leg, Undecided, WhyUndecided};
use crate::lens::Lens;
use crate::rate::Basis;
use crate::segment::Entry;
use crate::shapes::Shapes;
use crate::table::{Rules, Table, absent};
use crate::terms::{Counted, Terms};
use crate::time::{Now, Span};

/// The name of a hold: 128 bits that the caller made up, or that were made for it. Ids that begin with 64 set bits are for
/// holds without a name and are never made by callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub [u64; 2]);

impl From<u128> for HoldId {
    fn from(id: u128) -> HoldId {
        HoldId([(id >> 64) as u64, id as u64])
    }
}

impl HoldId {
    /// The name of the charge with this number, where the caller gave none.
    pub(crate) const fn unnamed(charge: u64) -> HoldId {
        HoldId([u64::MAX, charge])
    }

    /// What an id from elsewhere is called here. A number without a name means nothing in another table.
    pub(crate) const fn taken_in(self) -> HoldId {
        if self.is_named() { self } else { HoldId([u64::MAX, u64::MAX]) }
    }

    pub(crate) const fn is_named(self) -> bool {
        self.0[0] != u64::MAX
    }
}

/// Who holds, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The name, by which it is renewed, released or settled.
    pub id: HoldId,
    /// How long it lasts unless it is renewed; `None` for the limit's own time. A lease never lasts longer than its
    /// limit's `max_hold`.
    pub ttl: Option<Span>,
}

impl Table {
    /// Decides one check, as [`Table::decide`] does, and takes the slots of its concurrency limits in the name of `hold`.
    /// Slots that the hold has already cost nothing: asking twice takes them once, and prolongs nothing.
    ///
    /// # Errors
    ///
    /// [`Undecided`], as in [`Table::decide`]; [`WhyUndecided::IdTaken`] if the hold has fewer slots than are asked for.
    pub fn acquire(
        &mut self,
        legs: &[Leg],
        hold: &Hold,
        shapes: &Shapes,
        budgets: &Budgets,
        now: Now,
        out: &mut Decided,
    ) -> Result<bool, Undecided> {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: Some(hold) };
        out.clear();
        self.check_leases(legs, rules)?;
        self.decide_by(legs, rules, out)
    }

    /// That a lease of this hold covers what is asked for again: taking slots once is not taking more of them later.
    pub(crate) fn check_leases(&self, legs: &[Leg], rules: Rules<'_>) -> Result<(), Undecided> {
        let Some(hold) = rules.hold else { return Ok(()) };
        let falls_short =
            |leg: &Leg| self.lease(&leg.key, hold.id, rules.now).is_some_and(|lease| lease.slots < leg.cost);
        match legs.iter().position(falls_short) {
            Some(leg) => Err(Undecided { leg, why: WhyUndecided::IdTaken }),
            None => Ok(()),
        }
    }

    /// Prolongs the hold's lease under one limit, until `ttl` from now and never beyond what the limit allows. An id that
    /// is not known adopts as many slots as the leg costs, where the key has so many that nobody knows the holder of.
    /// The caller vouches that the id held them.
    ///
    /// # Errors
    ///
    /// [`WhyUndecided::TableFull`] if an adopted lease finds no room. Nothing has changed.
    pub fn renew(
        &mut self,
        leg: &Leg,
        hold: &Hold,
        shapes: &Shapes,
        budgets: &Budgets,
        now: Now,
    ) -> Result<Renewed, Undecided> {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: Some(hold) };
        if matches!(shapes.terms(leg.shape), Terms::Unlimited) {
            return Ok(Renewed::For(hold.ttl.unwrap_or(Span::MAX)));
        }
        let leg = &self.as_it_reads(leg);
        let Terms::Counted(counted @ Counted::Slots(_)) = shapes.terms(leg.shape) else { return Ok(Renewed::NotHeld) };
        let lens = rules.lens(leg, counted);
        if let Some(state) = self.find(&lens, leg.shape, rules) {
            return Ok(state.renew(&lens, leg.cost));
        }
        self.adopt(leg, &lens, rules)
    }

    /// Renews a lease on a key without an entry, which may have unknown slots all the same. It gets an entry only if one
    /// was adopted.
    fn adopt(&mut self, leg: &Leg, lens: &Lens<'_>, rules: Rules<'_>) -> Result<Renewed, Undecided> {
        let mark = self.mark.next();
        let mut state = absent(lens, leg, mark);
        let renewed = state.renew(lens, leg.cost);
        if renewed == Renewed::NotHeld {
            return Ok(renewed);
        }
        if !self.take_room(&[*leg], leg, rules) {
            return Err(Undecided { leg: 0, why: WhyUndecided::TableFull });
        }
        self.mark = mark;
        self.owe_for_new_key();
        self.store.insert(Entry { key: leg.key, state });
        Ok(renewed)
    }

    /// Gives the slots back that `id` holds under one limit. Once or often, it is the same: only the first time frees
    /// anything. An id that is not known frees nothing, for it may have been released before at another owner; its slots
    /// come back by themselves, or by being renewed first.
    pub fn release(&mut self, leg: &Leg, id: HoldId, shapes: &Shapes, budgets: &Budgets, now: Now) -> Released {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: None };
        let Terms::Counted(counted @ Counted::Slots(_)) = shapes.terms(leg.shape) else { return Released::NotHeld };
        let lens = rules.lens(leg, counted);
        self.find(&lens, leg.shape, rules).map_or(Released::NotHeld, |state| state.release(&lens, id))
    }

    /// How long the lease of `id` on one key still lasts unless it is renewed; `None` when it has none.
    pub fn held_for(&self, key: &Fingerprint, id: HoldId, now: Now) -> Option<Span> {
        let now = self.clamp(now);
        self.lease(key, id, now).map(|lease| lease.end.since(now.moment))
    }

    /// The live lease of `id` on one key.
    fn lease(&self, key: &Fingerprint, id: HoldId, now: Now) -> Option<&Lease> {
        let View::Leases(leases) = self.store.find(key)?.state.view(Basis::Hi) else { return None };
        leases.live(now.moment).iter().find(|lease| lease.id == id)
    }
}
