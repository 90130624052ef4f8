//! Concurrency: so many slots, each held for a time. A check is admitted when its slots are free; how long until they are is
//! the earliest end of leases that frees enough, if nobody renews or releases before.

use crate::bucket::DEBT_CAPACITIES;
use crate::decision::{LegDecision, Wait};
use crate::hold::{Hold, HoldId};
use crate::leases::{Ended, LEASES_MAX, Lease, Leases, Unknown};
use crate::rate::Rate;
use crate::time::{Moment, Span};

/// A concurrency limit's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotTerms {
    slots: u64,
    ttl: Span,
    max_hold: Span,
}

impl SlotTerms {
    pub(crate) fn new(rate: Rate, max_hold: Span) -> SlotTerms {
        SlotTerms { slots: rate.amount(), ttl: rate.period(), max_hold }
    }

    /// Whether `cost` slots are free, and how the key then stands. No leases are none held.
    pub(crate) fn weigh(&self, leases: Option<&Leases>, hold: Option<&Hold>, now: Moment, cost: u64) -> LegDecision {
        let seen = Seen::new(leases, now);
        if cost == 0 || holds(leases, hold, now) {
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

    /// So many slots, at most all, held by nobody knows whom, as of one instant.
    pub(crate) fn used_as_of(&self, at: Moment, slots: u64) -> Leases {
        let unknown = Unknown { slots: slots.min(self.slots), end: at.saturating_add(self.max_hold) };
        Leases::of([], unknown, Ended::default())
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

    /// The longest that one lease is held.
    pub(crate) fn max_hold(&self) -> Span {
        self.max_hold
    }

    /// The most slots that charging ever counts.
    pub(crate) fn most(&self) -> u64 {
        self.slots * DEBT_CAPACITIES
    }

    /// The latest end of a lease that begins now, and the end it begins with.
    pub(crate) fn ends(&self, hold: Option<&Hold>, now: Moment) -> (Moment, Moment) {
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

/// Leases as they read at one instant: those that have ended skipped.
struct Seen<'a> {
    live: &'a [Lease],
    unknown: Unknown,
    used: u64,
    now: Moment,
}

impl<'a> Seen<'a> {
    fn new(leases: Option<&'a Leases>, now: Moment) -> Seen<'a> {
        let Some(leases) = leases else { return Seen { live: &[], unknown: Unknown::default(), used: 0, now } };
        Seen { live: leases.live(now), unknown: leases.unknown_at(now), used: leases.used(now), now }
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

/// Whether this hold's lease is live: asking for it again costs nothing.
pub(crate) fn holds(leases: Option<&Leases>, hold: Option<&Hold>, now: Moment) -> bool {
    let (Some(leases), Some(hold)) = (leases, hold) else { return false };
    hold.id.is_named() && leases.live(now).iter().any(|lease| lease.id == hold.id)
}
