//! A bucket that charges were taken back from while later ones stood. A charge may be undone by as much of it as has
//! not refilled yet, and that is judged by where it stands in the line: the arrival time right after it, minus what was
//! taken back *before it in the line since*, minus now. So what was taken back is remembered until nothing depends on it.
//!
//! Why this is never too much: think of the level as work that drains first come, first served. A charge's own work is
//! what drains last before its arrival time. Taking undrained work away leaves everything that drained as it was, so the
//! level stays at or above what it would be had the charge never come.

use crate::bucket::{BucketTerms, Tat};
use crate::charge::{Charge, Trace};
use crate::time::Moment;

/// Refunds remembered per key, 3 KiB at most. Beyond it the oldest is forgotten, and with it the right of all charges
/// made before it to be undone: they drain as if kept. Only refunds that come while a charge is still in flight count
/// against it, so this is room for 64 cancelled checks of one key within one round trip.
const UNDONE_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mended {
    pub(crate) tat: Tat,
    /// Charges with a lower number give nothing back any more.
    dead_before: u64,
    undone: Vec<Undone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Undone {
    /// The number of the charge.
    charge: u64,
    /// The number of the refund.
    refund: u64,
    /// What was given back, scaled.
    back: u128,
    /// The arrival time right after: once it has passed, everything charged before the refund has drained.
    tat: Tat,
}

/// The arrival time that undoing the last charge of a bucket leads to: nothing stands behind it, so nothing need be
/// remembered.
pub(crate) fn undo_last(terms: &BucketTerms, tat: Tat, now: Moment, cost: u64) -> Tat {
    let back = terms.level(tat, now).min(terms.price(cost));
    Tat::new(tat.scaled() - back)
}

impl Mended {
    pub(crate) fn new(tat: Tat) -> Mended {
        Mended { tat, dead_before: 0, undone: Vec::new() }
    }

    /// Takes a charge back (law 8); `refund` is the table's number for it.
    pub(crate) fn undo(&mut self, terms: &BucketTerms, now: Moment, charge: &Charge, refund: u64) {
        self.forget_drained(terms, now);
        let Trace::Bucket(after) = charge.trace else { return };
        if charge.seq < self.dead_before {
            return;
        }
        let (before, own) = self.taken_back(charge.seq);
        let stands = Tat::new(after.scaled().saturating_sub(before + own));
        let back = terms.level(stands, now).min(terms.price(charge.cost).saturating_sub(own));
        if back > 0 {
            self.tat = Tat::new(self.tat.scaled() - back.min(terms.level(self.tat, now)));
            self.remember(Undone { charge: charge.seq, refund, back, tat: self.tat });
        }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.undone.capacity() * size_of::<Undone>()
    }

    /// What was taken back since charge `seq` was made: of charges before it, and of itself.
    fn taken_back(&self, seq: u64) -> (u128, u128) {
        let since = self.undone.iter().filter(|undone| undone.refund > seq);
        since.fold((0, 0), |(before, own), undone| match undone.charge.cmp(&seq) {
            std::cmp::Ordering::Less => (before + undone.back, own),
            std::cmp::Ordering::Equal => (before, own + undone.back),
            std::cmp::Ordering::Greater => (before, own),
        })
    }

    fn remember(&mut self, undone: Undone) {
        if self.undone.len() == UNDONE_MAX {
            self.dead_before = self.dead_before.max(self.undone.remove(0).refund);
        }
        self.undone.push(undone);
    }

    fn forget_drained(&mut self, terms: &BucketTerms, now: Moment) {
        let drained = |undone: &&Undone| terms.level(undone.tat, now) == 0;
        let dead = self.undone.iter().filter(drained).map(|undone| undone.refund).max();
        self.dead_before = self.dead_before.max(dead.unwrap_or(0));
        self.undone.retain(|undone| terms.level(undone.tat, now) > 0);
    }
}
