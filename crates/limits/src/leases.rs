//! Concurrency: a key's slots, each held under an id until it is released or its time is over. An id, because a bare count
//! leaks when a holder crashes and goes below nothing when one lets go twice; a time, because a holder that crashed
//! never lets go. Taking and letting go are idempotent by id.
//!
//! A new owner that does not know who holds counts all slots as held until the longest that anybody may hold on, and
//! learns: whoever renews or releases an id it does not know must have held a slot, so one of the unknown ones is
//! *adopted*. While slots are unknown the ids that have ended here are remembered, so that none of them is taken for an
//! unknown one; where there are too many, nobody is adopted any more, and the unknown slots run out by themselves.

use crate::bucket::DEBT_CAPACITIES;
use crate::decision::{LegDecision, Wait};
use crate::hold::{Hold, HoldId};
use crate::rate::Rate;
use crate::time::{Moment, Span};

/// Leases that one key may have at once, 40 bytes each. Where slots are left but no lease can be written down, the check
/// is refused until one ends.
pub const LEASES_MAX: usize = 16_384;

/// Ended ids remembered per key while slots are unknown, 16 KiB at most.
const ENDED_MAX: usize = 1_024;

/// A list shorter than this many leases is not worth giving memory back for.
const KEPT_CAPACITY: usize = 16;

/// A concurrency limit's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    slots: u64,
    ttl: Span,
    max_hold: Span,
}

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

impl LeaseTerms {
    pub(crate) fn new(rate: Rate, max_hold: Span) -> LeaseTerms {
        LeaseTerms { slots: rate.amount(), ttl: rate.period(), max_hold }
    }

    /// Whether `cost` slots are free, and how the key then stands. No leases are none held.
    pub(crate) fn weigh(&self, leases: Option<&Leases>, hold: Option<&Hold>, now: Moment, cost: u64) -> LegDecision {
        let seen = Seen::new(leases, now);
        if cost == 0 || seen.holds(hold) {
            self.standing(&seen, None, Wait::Now)
        } else if cost > self.slots {
            self.standing(&seen, None, Wait::Never)
        } else if seen.used.saturating_add(cost) > self.slots {
            let wait = seen.until_back(seen.used.saturating_add(cost) - self.slots);
            self.standing(&seen, None, wait.map_or(Wait::Never, Wait::After))
        } else if seen.is_full() {
            self.standing(&seen, None, seen.until_back(1).map_or(Wait::Never, Wait::After))
        } else {
            let (_, end) = self.ends(hold, now);
            self.standing(&seen, Some((end, cost)), Wait::Now)
        }
    }

    /// All slots held by nobody knows whom, as of one instant.
    pub(crate) fn full_as_of(&self, at: Moment) -> Leases {
        let unknown = Unknown { slots: self.slots, end: at.saturating_add(self.max_hold) };
        Leases { unknown, ..Leases::default() }
    }

    /// Slots in use for the time of one lease, in nobody's name: what a key used under an algorithm without leases.
    pub(crate) fn used_now(&self, slots: u64, now: Moment) -> Leases {
        let end = now.saturating_add(self.ttl);
        Leases::of(
            [Lease { id: HoldId::unnamed(u64::MAX), slots, end, last_end: end }],
            Unknown::default(),
            Ended::default(),
        )
    }

    /// The most slots that charging ever counts.
    pub(crate) fn most(&self) -> u64 {
        self.slots * DEBT_CAPACITIES
    }

    /// The latest end of a lease that begins now, and the end it begins with.
    fn ends(&self, hold: Option<&Hold>, now: Moment) -> (Moment, Moment) {
        let last_end = now.saturating_add(self.max_hold);
        let ttl = hold.and_then(|hold| hold.ttl).unwrap_or(self.ttl);
        (last_end, now.saturating_add(ttl).min(last_end))
    }

    /// How the key stands, with one more lease if there is one.
    fn standing(&self, seen: &Seen<'_>, more: Option<(Moment, u64)>, wait: Wait) -> LegDecision {
        let used = seen.used.saturating_add(more.map_or(0, |(_, slots)| slots));
        let full = seen.is_full() && more.is_none();
        LegDecision {
            allowed: wait == Wait::Now,
            capacity: self.slots,
            remaining: if full { 0 } else { self.slots.saturating_sub(used) },
            wait,
            reset_after: seen.until_empty(more),
            next_unit_after: match more {
                Some((end, _)) => {
                    Some(seen.until_back(1).map_or(end.since(seen.now), |back| back.min(end.since(seen.now))))
                }
                None => seen.until_back(used.saturating_sub(self.slots) + 1),
            },
        }
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

    /// Takes `cost` slots, unless the hold's lease is live already. What was admitted always fits; a debt fits up to
    /// [`DEBT_CAPACITIES`].
    pub(crate) fn charge(&mut self, terms: &LeaseTerms, hold: &Hold, now: Moment, cost: u64) {
        self.forget_lapsed(now);
        let counted = self.used.saturating_add(self.unknown.slots);
        let slots = cost.min(terms.most().saturating_sub(counted));
        if slots == 0 || self.held.len() >= LEASES_MAX || (hold.id.is_named() && self.position(hold.id).is_some()) {
            return;
        }
        if let Ended::These(ids) = &mut self.ended {
            ids.retain(|id| *id != hold.id);
        }
        let (last_end, end) = terms.ends(Some(hold), now);
        self.write(Lease { id: hold.id, slots, end, last_end });
    }

    /// Prolongs the lease of `hold`, or adopts one of `slots` that are held and not known.
    pub(crate) fn renew(&mut self, terms: &LeaseTerms, hold: &Hold, now: Moment, slots: u64) -> Renewed {
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

    /// Ends the lease of this id, or frees `slots` that are held and not known.
    pub(crate) fn release(&mut self, id: HoldId, now: Moment, slots: u64) -> Released {
        self.forget_lapsed(now);
        if let Some(position) = self.position(id) {
            self.strike(position);
        } else if !self.takes_unknown(id, slots) {
            return Released::NotHeld;
        }
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
        Seen::new(Some(self), now).used
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

/// Leases as they read at one instant: those that have ended skipped.
struct Seen<'a> {
    live: &'a [Lease],
    unknown: Unknown,
    used: u64,
    now: Moment,
}

impl<'a> Seen<'a> {
    fn new(leases: Option<&'a Leases>, now: Moment) -> Seen<'a> {
        let (live, unknown) =
            leases.map_or((&[][..], Unknown::default()), |leases| (leases.live(now), leases.unknown_at(now)));
        let lapsed = |leases: &Leases| {
            leases.held[..leases.held.len() - live.len()].iter().map(|lease| lease.slots).sum::<u64>()
        };
        let used = leases.map_or(0, |leases| (leases.used - lapsed(leases)).saturating_add(unknown.slots));
        Seen { live, unknown, used, now }
    }

    /// Whether this hold's lease is live: asking for it again then costs nothing.
    fn holds(&self, hold: Option<&Hold>) -> bool {
        hold.is_some_and(|hold| hold.id.is_named() && self.live.iter().any(|lease| lease.id == hold.id))
    }

    fn is_full(&self) -> bool {
        self.live.len() >= LEASES_MAX
    }

    /// How long until `slots` have come back by themselves; `None` when so many are not out.
    fn until_back(&self, slots: u64) -> Option<Span> {
        let (before, after) = self.live.split_at(self.live.partition_point(|lease| lease.end <= self.unknown.end));
        let unknown = std::iter::once((self.unknown.end, self.unknown.slots));
        let known = |lease: &Lease| (lease.end, lease.slots);
        let mut back = 0u64;
        let mut ends = before.iter().map(known).chain(unknown).chain(after.iter().map(known));
        let enough = ends.find(|(_, slots_back)| {
            back = back.saturating_add(*slots_back);
            back >= slots
        });
        enough.map(|(end, _)| end.since(self.now))
    }

    fn until_empty(&self, more: Option<(Moment, u64)>) -> Span {
        let unknown = (self.unknown.slots > 0).then_some(self.unknown.end);
        let ends = [self.live.last().map(|lease| lease.end), more.map(|(end, _)| end), unknown];
        ends.into_iter().flatten().max().map_or(Span::ZERO, |end| end.since(self.now))
    }
}

/// Whether something that lasts until `end` is over. What ends beyond the last reading that can be spelled never ends.
fn has_ended(end: Moment, now: Moment) -> bool {
    end <= now && end < Moment::MAX
}
