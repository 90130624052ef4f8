//! How a table stays small. Every key takes room from its domain's budget. An entry goes, and gives its room back, once
//! it reads exactly as an absent key does (law 4), and never otherwise: a flood of new keys finds no room rather than an
//! old debt to push out.
//!
//! Sweeping is spread over decisions: each owes a little, each new key owes more, and what is owed is paid in small lots.
//! No call looks at more than a few hundred places.

use smallvec::SmallVec;

use crate::budget::Budgets;
use crate::ends::Ends;
use crate::key::Fingerprint;
use crate::leg::{Leg, Undecided, WhyUndecided};
use crate::lens::Lens;
use crate::rate::{Basis, DomainId};
use crate::segment::Entry;
use crate::shapes::{ShapeId, Shapes};
use crate::state::State;
use crate::store::Store;
use crate::table::{Charged, Rules, Table};
use crate::time::Now;

/// Sweeping is paid for in lots of this many places, so that neighbours share cache lines.
pub const SWEEP_PLACES: usize = 16;

/// What looking at one place costs; decisions and new keys owe, in the same coin.
const PLACE_PRICE: u32 = 4;

/// What a decision owes: a quarter of a place. It makes nothing to sweep; it only keeps a table clean whose keys are
/// all known.
const OWED_PER_DECISION: u32 = 1;

/// What a new key owes: eight places, so that lapsed entries never fill more than about an eighth of a table.
const OWED_PER_KEY: u32 = 8 * PLACE_PRICE;

/// Places searched for lapsed entries when a domain has no room for another key.
pub const FULL_SWEEP_PLACES: usize = 256;

impl Table {
    /// Looks at the next `steps` places, and removes the entries that read as absent ones. Answers how many went. For
    /// whoever has time between decisions: a table that nobody asks is otherwise never swept.
    pub fn sweep(&mut self, shapes: &Shapes, budgets: &Budgets, now: Now, steps: usize) -> usize {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: None };
        let gone = self.sweep_but(&[], rules, steps.min(self.store.places()));
        self.forget_reserves(rules, steps);
        self.store.tidy();
        gone
    }

    /// Forgets everything, and gives the keys' room back: the partition is no longer ours.
    pub fn clear(&mut self, shapes: &Shapes, budgets: &Budgets) {
        for entry in self.store.iter() {
            budgets.give(shapes.get(entry.state.shape()).domain);
        }
        self.store = Store::new();
        self.clear_reserves(budgets);
        self.resets = None;
    }

    #[inline]
    pub(crate) fn pay_for_sweeping(&mut self, rules: Rules<'_>) {
        self.owed += OWED_PER_DECISION;
        if self.owed >= SWEEP_PLACES as u32 * PLACE_PRICE {
            self.sweep_what_is_owed(rules);
        }
    }

    pub(crate) fn owe_for_new_key(&mut self) {
        self.owed += OWED_PER_KEY;
    }

    #[cold]
    fn sweep_what_is_owed(&mut self, rules: Rules<'_>) {
        let steps = std::mem::take(&mut self.owed) / PLACE_PRICE;
        self.sweep_but(&[], rules, steps as usize);
        self.forget_reserves(rules, SWEEP_PLACES);
        self.store.tidy();
    }

    /// Removes entries that read as absent ones from the next `steps` places, but none that `legs` ask about.
    fn sweep_but(&mut self, legs: &[Leg], rules: Rules<'_>, steps: usize) -> usize {
        self.store.visit(steps, |entry| {
            let shape = entry.state.shape();
            let counted = rules.shapes.counted(shape);
            let lens = Lens { basis: Basis::Hi, ..Lens::new(rules.shapes, shape, counted, &entry.key, rules.now) };
            let goes = lens.is_fresh(entry.state.view(Basis::Hi)) && legs.iter().all(|leg| leg.key != entry.key);
            if goes {
                rules.budgets.give(rules.domain(shape));
            }
            goes
        })
    }

    /// Takes room for all keys that are to be charged and are new, or for none.
    pub(crate) fn make_room(&mut self, legs: &[Leg], charged: &mut Charged, rules: Rules<'_>) -> Result<(), Undecided> {
        let mut taken: SmallVec<[DomainId; 4]> = SmallVec::new();
        for (index, leg) in legs.iter().enumerate() {
            let made_before = (0..index).any(|other| charged[other] && legs[other].key == leg.key);
            if !charged[index] || made_before || self.holds(&leg.key) {
                continue;
            }
            if self.take_room(legs, leg, rules) {
                taken.push(rules.domain(leg.shape));
            } else if leg.shadow {
                charged[index] = false;
            } else {
                taken.iter().for_each(|&domain| rules.budgets.give(domain));
                return Err(Undecided { leg: index, why: WhyUndecided::TableFull });
            }
        }
        Ok(())
    }

    /// Takes room for the key of `leg`, if need be after a bounded search for entries that can go. The entries that the
    /// check's own legs were found at stay.
    pub(crate) fn take_room(&mut self, legs: &[Leg], leg: &Leg, rules: Rules<'_>) -> bool {
        let domain = rules.domain(leg.shape);
        if rules.budgets.take(domain) {
            return true;
        }
        self.sweep_but(legs, rules, FULL_SWEEP_PLACES.min(self.store.places()));
        rules.budgets.take(domain)
    }

    /// Puts a key's usage in place of what was known of it; false when the key is new and its domain has no room.
    pub(crate) fn replace(
        &mut self,
        ends: Ends,
        shape: ShapeId,
        lens: &Lens<'_>,
        shapes: &Shapes,
        budgets: &Budgets,
    ) -> bool {
        let domain = shapes.get(shape).domain;
        let mark = self.mark.next();
        let state = State::between(ends, shape, mark, lens);
        if let Some(entry) = self.store.find_mut(lens.key) {
            budgets.transfer(shapes.get(entry.state.shape()).domain, domain);
            entry.state = state;
        } else if budgets.take(domain) {
            self.store.insert(Entry { key: *lens.key, state });
        } else {
            return false;
        }
        self.mark = mark;
        true
    }

    /// Removes a key's entry, and answers whether there was one.
    pub(crate) fn remove(&mut self, key: &Fingerprint, shapes: &Shapes, budgets: &Budgets) -> bool {
        let Some(entry) = self.store.remove(key) else { return false };
        budgets.give(shapes.get(entry.state.shape()).domain);
        true
    }
}
