//! Leases of a key's slots, each held under an id until it is released or its time is over. An id, because a bare count
//! leaks when a holder crashes and goes below nothing when one lets go twice; a time, because a holder that crashed
//! never lets go. Taking and letting go are idempotent by id.
//!
//! A new owner that does not know who holds counts all slots as held until the longest that anybody may hold on, and
//! learns: whoever renews an id it does not know holds a slot, so one of the unknown ones is *adopted*. A release of such
//! an id frees none: it may be said for the second time, after the owner before had freed the slot and lent it to another.
//! While slots are unknown the ids that have ended here are remembered, so that none of them is taken for an unknown one;
//! where there are too many, nobody is adopted any more, and the unknown slots run out by themselves.

use crate::hold::{Hold, HoldId};
use crate::slots::SlotTerms;
use crate::time::{Moment, Span};

/// Leases that one key may have at once, 40 bytes each. Where slots are left but no lease can be written down, the check
/// is refused until one ends.
pub const LEASES_MAX: usize = 16_384;

/// Ended ids remembered per key while slots are unknown, 16 KiB at most.
pub(crate) const ENDED_MAX: usize = 1_024;

/// A list shorter than this many leases is not worth giving memory back for.
const KEPT_CAPACITY: usize = 16;

/// One lease: live while the clock is before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: HoldId,
    pub(crate) slots: u64,
    pub(crate) end: Moment,
    /// The latest end that renewing leads to.
    pub(crate) last_end: Moment,
}

/// Slots that somebody holds whom this owner does not know; how many are left of them, and until when they are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) slots: u64,
    pub(crate) end: Moment,
}

/// All leases of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leases {
    /// Sorted by end.
    held: Vec<Lease>,
    /// Slots of all leases in `held`, so that nobody adds them up to decide.
    used: u64,
    unknown: Unknown,
    ended: Ended,
}

/// The ids that ended while slots were unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    These(Vec<HoldId>),
    /// More than are remembered.
    TooMany,
}

/// What a renewal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is held for this long from now.
    For(Span),
    /// The lease is not held: it ended, or never was. Its holder has to acquire anew.
    NotHeld,
}

/// What a release found. Either way the id holds nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// A lease, whose slots are free now.
    Freed,
    /// Nothing: it had ended, was released before, or never was.
    NotHeld,
}

impl Default for Ended {
    fn default() -> Ended {
        Ended::These(Vec::new())
    }
}

impl Leases {
    /// Leases in any order.
    pub(crate) fn of(leases: impl IntoIterator<Item = Lease>, unknown: Unknown, ended: Ended) -> Leases {
        let mut held: Vec<Lease> = leases.into_iter().filter(|lease| lease.slots > 0).collect();
        held.sort_by_key(|lease| lease.end);
        let used = held.iter().fold(0u64, |used, lease| used.saturating_add(lease.slots));
        Leases { held, used, unknown, ended }
    }

    /// Takes `cost` slots in the name of `hold`, on top of what it holds. What was admitted always fits; a debt fits as
    /// far as [`SlotTerms::most`].
    pub(crate) fn charge(&mut self, terms: &SlotTerms, hold: &Hold, now: Moment, cost: u64) {
        self.forget_lapsed(now);
        let counted = self.used.saturating_add(self.unknown.slots);
        let slots = cost.min(terms.most().saturating_sub(counted));
        if let Some(position) = self.position(hold.id) {
            self.held[position].slots += slots;
            self.used += slots;
        } else if slots > 0 && self.held.len() < LEASES_MAX {
            if let Ended::These(ids) = &mut self.ended {
                ids.retain(|id| *id != hold.id);
            }
            let (last_end, end) = terms.ends(Some(hold), now);
            self.write(Lease { id: hold.id, slots, end, last_end });
        }
    }

    /// Prolongs the lease of `hold`, or adopts one of `slots` that are held and not known.
    pub(crate) fn renew(&mut self, terms: &SlotTerms, hold: &Hold, now: Moment, slots: u64) -> Renewed {
        self.forget_lapsed(now);
        let (_, asked) = terms.ends(Some(hold), now);
        let lease = match self.position(hold.id) {
            Some(position) => self.strike(position),
            None if self.takes_unknown(hold.id, slots) => {
                Lease { id: hold.id, slots, end: now, last_end: self.unknown.end }
            }
            None => return Renewed::NotHeld,
        };
        let end = asked.min(lease.last_end).max(lease.end);
        self.write(Lease { end, ..lease });
        Renewed::For(end.since(now))
    }

    /// Ends the lease of this id.
    pub(crate) fn release(&mut self, id: HoldId, now: Moment) -> Released {
        self.forget_lapsed(now);
        let Some(position) = self.position(id) else { return Released::NotHeld };
        self.strike(position);
        self.remember_ended(id);
        Released::Freed
    }

    /// The lease of this id.
    pub(crate) fn find(&self, id: HoldId) -> Option<&Lease> {
        self.position(id).map(|position| &self.held[position])
    }

    /// Holds `lease`, in place of what its id held.
    pub(crate) fn put(&mut self, lease: Lease) {
        if let Some(position) = self.position(lease.id) {
            self.strike(position);
        }
        self.write(lease);
    }

    /// Takes back `slots` of the lease of this id, if it is live.
    pub(crate) fn undo(&mut self, id: HoldId, now: Moment, slots: u64) {
        self.forget_lapsed(now);
        let Some(position) = self.position(id) else { return };
        let lease = &mut self.held[position];
        let back = slots.min(lease.slots);
        lease.slots -= back;
        self.used -= back;
        if lease.slots == 0 {
            self.held.remove(position);
            self.remember_ended(id);
        }
    }

    /// Drops what has ended. Each lease is dropped once, so this is constant work per lease.
    pub(crate) fn forget_lapsed(&mut self, now: Moment) {
        if self.unknown != Unknown::default() && has_ended(self.unknown.end, now) {
            (self.unknown, self.ended) = (Unknown::default(), Ended::default());
        }
        let lapsed = self.held.partition_point(|lease| has_ended(lease.end, now));
        for index in 0..lapsed {
            let Lease { id, slots, .. } = self.held[index];
            self.used -= slots;
            self.remember_ended(id);
        }
        self.held.drain(..lapsed);
        if self.held.capacity() > KEPT_CAPACITY && self.held.len() < self.held.capacity() / 4 {
            self.held.shrink_to(self.held.len() * 2);
        }
    }

    /// Slots held at `now`.
    pub(crate) fn used(&self, now: Moment) -> u64 {
        let lapsed = &self.held[..self.held.len() - self.live(now).len()];
        let known = self.used - lapsed.iter().map(|lease| lease.slots).sum::<u64>();
        known.saturating_add(self.unknown_at(now).slots)
    }

    /// Whether this says no more than a key without an entry: nothing is held, and where slots were unknown, the time is
    /// over for which an absent key reads as held. Until then the key has to remember that they are not.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.live(now).is_empty() && self.unknown_at(now) == Unknown::default()
    }

    /// The leases that are live at `now`, by end.
    pub(crate) fn live(&self, now: Moment) -> &[Lease] {
        &self.held[self.held.partition_point(|lease| has_ended(lease.end, now))..]
    }

    /// What is held at `now` by nobody knows whom.
    pub(crate) fn unknown_at(&self, now: Moment) -> Unknown {
        if has_ended(self.unknown.end, now) { Unknown::default() } else { self.unknown }
    }

    pub(crate) fn ended(&self) -> &Ended {
        &self.ended
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        let ended = match &self.ended {
            Ended::These(ids) => ids.capacity() * size_of::<HoldId>(),
            Ended::TooMany => 0,
        };
        self.held.capacity() * size_of::<Lease>() + ended
    }

    /// Whether so many slots are held unknown that this id may be one of those who hold them; then they are no longer.
    fn takes_unknown(&mut self, id: HoldId, slots: u64) -> bool {
        let may_be = match &self.ended {
            Ended::These(ids) => !ids.contains(&id),
            Ended::TooMany => false,
        };
        let takes = may_be && slots > 0 && slots <= self.unknown.slots && self.held.len() < LEASES_MAX;
        if takes {
            self.unknown.slots -= slots;
        }
        takes
    }

    /// Remembers an id that has ended, while slots are unknown: it is none of those who hold them.
    fn remember_ended(&mut self, id: HoldId) {
        if self.unknown.slots == 0 || !id.is_named() {
            return;
        }
        if let Ended::These(ids) = &mut self.ended {
            if ids.len() < ENDED_MAX {
                ids.push(id);
            } else {
                self.ended = Ended::TooMany;
            }
        }
    }

    fn position(&self, id: HoldId) -> Option<usize> {
        self.held.iter().position(|lease| lease.id == id)
    }

    fn write(&mut self, lease: Lease) {
        if self.held.capacity() == 0 {
            // Most keys have one lease; a list that grows by itself begins with room for four.
            self.held.reserve_exact(1);
        }
        let position = self.held.partition_point(|held| held.end <= lease.end);
        self.used += lease.slots;
        self.held.insert(position, lease);
    }

    fn strike(&mut self, position: usize) -> Lease {
        let lease = self.held.remove(position);
        self.used -= lease.slots;
        lease
    }
}

/// Whether something that lasts until `end` is over. What ends beyond the last reading that can be spelled never ends.
fn has_ended(end: Moment, now: Moment) -> bool {
    end <= now && end < Moment::MAX
}
