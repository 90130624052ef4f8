//! Forgetting on purpose: an operator gives a key a fresh start. The key's entry goes, and with it the right of earlier
//! charges to be undone. Where an absent key reads as used to the full, after a takeover, the key is also remembered as
//! one that does not.

use std::collections::VecDeque;

use crate::budget::Budgets;
use crate::decision::Absent;
use crate::key::Fingerprint;
use crate::leg::Leg;
use crate::shapes::Shapes;
use crate::table::{Rules, Table};
use crate::terms::Terms;
use crate::time::Now;

/// Keys that are remembered as reset during one reign; beyond it the oldest reads through the floor again.
pub const RESETS_MAX: usize = 1_024;

/// The keys that read as fresh whatever their legs say of absent ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resets {
    keys: VecDeque<Fingerprint>,
}

impl Table {
    /// Makes the leg's key as one that was never used, whatever was spent and whoever holds its slots. Answers whether
    /// that changed anything. It stands outside the limit's promise: what was admitted before is not counted any more.
    pub fn reset(&mut self, leg: &Leg, shapes: &Shapes, budgets: &Budgets, now: Now) -> bool {
        let rules = Rules { shapes, budgets, now: self.advance(now), hold: None };
        let read_full = match shapes.terms(leg.shape) {
            Terms::Counted(counted) => rules.lens(leg, counted).most_used_by(self.as_it_reads(leg).absent).is_some(),
            Terms::Unlimited | Terms::Zero => false,
        };
        if read_full {
            self.resets.get_or_insert_default().remember(leg.key);
        }
        self.remove(&leg.key, shapes, budgets) || read_full
    }

    /// The leg, with what its key reads as when absent.
    #[inline]
    pub(crate) fn as_it_reads(&self, leg: &Leg) -> Leg {
        match &self.resets {
            Some(resets) if resets.keys.contains(&leg.key) => Leg { absent: Absent::Fresh, ..*leg },
            Some(_) | None => *leg,
        }
    }
}

impl Resets {
    fn remember(&mut self, key: Fingerprint) {
        if self.keys.len() == RESETS_MAX {
            self.keys.pop_front();
        }
        self.keys.push_back(key);
    }
}
