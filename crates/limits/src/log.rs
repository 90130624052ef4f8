//! The sliding log: every admission is remembered with its instant for one window, and counts in the half-open window
//! `(t - W, t]`. Admissions of one instant share a group. A log never holds more than `max_entries` groups: beyond it
//! the two oldest merge at the *later* of their instants, so units come back later than they could, never earlier.

use std::collections::VecDeque;

use crate::bucket::DEBT_CAPACITIES;
use crate::decision::{LegDecision, Wait};
use crate::rate::Rate;
use crate::time::{Moment, Span};

/// A log shorter than this many groups is not worth giving memory back for.
const KEPT_CAPACITY: usize = 32;

/// A sliding log's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogTerms {
    amount: u64,
    window: Span,
    max_entries: usize,
}

/// The admissions of one key, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    groups: VecDeque<Group>,
    /// The sum of all groups, so that nobody adds them up to decide.
    used: u64,
}

/// Units admitted at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) at: Moment,
    pub(crate) count: u64,
}

impl LogTerms {
    /// Terms of a rate above zero; no fewer than one group is remembered.
    pub(crate) fn new(rate: Rate, max_entries: u32) -> LogTerms {
        LogTerms { amount: rate.amount(), window: rate.period(), max_entries: max_entries.max(1) as usize }
    }

    pub(crate) fn window(&self) -> Span {
        self.window
    }

    /// Whether `log` admits `cost`, and how it then stands. No log is an empty one.
    pub(crate) fn weigh(&self, log: Option<&Log>, now: Moment, cost: u64) -> LegDecision {
        let seen = Seen::new(self, log, now);
        if cost == 0 {
            self.standing(&seen, true, Wait::Now)
        } else if cost > self.amount {
            self.standing(&seen, false, Wait::Never)
        } else if seen.used.saturating_add(cost) <= self.amount {
            self.standing_after(&seen, cost)
        } else {
            let wait = seen.until_back(seen.used.saturating_add(cost) - self.amount);
            self.standing(&seen, false, wait.map_or(Wait::Never, Wait::After))
        }
    }

    fn standing(&self, seen: &Seen<'_>, allowed: bool, wait: Wait) -> LegDecision {
        LegDecision {
            allowed,
            capacity: self.amount,
            remaining: self.amount.saturating_sub(seen.used),
            wait,
            reset_after: seen.until_empty(),
            next_unit_after: seen.until_back(seen.used.saturating_sub(self.amount) + 1),
        }
    }

    /// How a log stands once `cost` is written at this instant.
    fn standing_after(&self, seen: &Seen<'_>, cost: u64) -> LegDecision {
        LegDecision {
            allowed: true,
            capacity: self.amount,
            remaining: self.amount - seen.used - cost,
            wait: Wait::Now,
            reset_after: self.window,
            next_unit_after: Some(seen.until_oldest_after_charge()),
        }
    }
}

impl Log {
    /// A log of so many units, at most all there are, spent at one instant.
    pub(crate) fn used_as_of(terms: &LogTerms, at: Moment, units: u64) -> Log {
        Log::of_groups([Group { at, count: units.min(terms.amount) }])
    }

    /// A log of groups that come oldest first.
    pub(crate) fn of_groups(groups: impl IntoIterator<Item = Group>) -> Log {
        let groups: VecDeque<Group> = groups.into_iter().filter(|group| group.count > 0).collect();
        let used = groups.iter().fold(0u64, |used, group| used.saturating_add(group.count));
        debug_assert!(groups.iter().is_sorted_by_key(|group| group.at), "law 2: admissions are written in order");
        Log { groups, used }
    }

    /// Writes `cost` down at `now`. What was admitted always fits; a debt fits up to [`DEBT_CAPACITIES`].
    pub(crate) fn charge(&mut self, terms: &LogTerms, now: Moment, cost: u64) {
        self.forget_lapsed(terms, now);
        let cost = cost.min((terms.amount * DEBT_CAPACITIES).saturating_sub(self.used));
        if cost == 0 {
            return;
        }
        self.used += cost;
        match self.groups.back_mut() {
            Some(last) if last.at >= now => last.count += cost,
            Some(_) | None => {
                self.groups.push_back(Group { at: now, count: cost });
                self.merge_down_to(terms.max_entries);
            }
        }
    }

    /// Takes back `cost` units that were written at `at`, while they count. Merging only ever moves units to a later
    /// group, so they are in the first group that is not earlier.
    pub(crate) fn undo(&mut self, terms: &LogTerms, at: Moment, now: Moment, cost: u64) {
        if lapsed(terms, at, now) {
            return;
        }
        let index = self.groups.partition_point(|group| group.at < at);
        let Some(group) = self.groups.get_mut(index) else { return };
        let back = cost.min(group.count);
        group.count -= back;
        self.used -= back;
        if group.count == 0 {
            self.groups.remove(index);
        }
    }

    /// Drops what no longer counts. Each group is dropped once, so this is constant work per admission.
    pub(crate) fn forget_lapsed(&mut self, terms: &LogTerms, now: Moment) {
        while let Some(oldest) = self.groups.front().filter(|group| lapsed(terms, group.at, now)) {
            self.used -= oldest.count;
            self.groups.pop_front();
        }
        if self.groups.capacity() > KEPT_CAPACITY && self.groups.len() < self.groups.capacity() / 4 {
            self.groups.shrink_to(self.groups.len() * 2);
        }
    }

    /// Adapts to terms with fewer groups.
    pub(crate) fn refit(&mut self, terms: &LogTerms, now: Moment) {
        self.forget_lapsed(terms, now);
        self.merge_down_to(terms.max_entries);
    }

    /// Units that count at `now`.
    pub(crate) fn used(&self, terms: &LogTerms, now: Moment) -> u64 {
        Seen::new(terms, Some(self), now).used
    }

    /// Whether nothing counts any more.
    pub(crate) fn is_over(&self, terms: &LogTerms, now: Moment) -> bool {
        self.groups.back().is_none_or(|last| lapsed(terms, last.at, now))
    }

    /// The groups that count at `now`, oldest first.
    pub(crate) fn live(&self, terms: &LogTerms, now: Moment) -> impl Iterator<Item = Group> {
        self.groups.iter().copied().filter(move |group| !lapsed(terms, group.at, now))
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }

    fn merge_down_to(&mut self, max_entries: usize) {
        while self.groups.len() > max_entries.max(1)
            && let Some(oldest) = self.groups.pop_front()
            && let Some(next) = self.groups.front_mut()
        {
            next.count += oldest.count;
        }
    }
}

/// A log as it reads at one instant: the lapsed groups skipped.
struct Seen<'a> {
    terms: &'a LogTerms,
    log: Option<&'a Log>,
    now: Moment,
    skipped: usize,
    used: u64,
}

impl<'a> Seen<'a> {
    fn new(terms: &'a LogTerms, log: Option<&'a Log>, now: Moment) -> Seen<'a> {
        let gone = log.into_iter().flat_map(|log| log.groups.iter().take_while(|group| lapsed(terms, group.at, now)));
        let (skipped, units) = gone.fold((0, 0), |(skipped, units), group| (skipped + 1, units + group.count));
        Seen { terms, log, now, skipped, used: log.map_or(0, |log| log.used - units) }
    }

    fn groups(&self) -> impl Iterator<Item = &'a Group> {
        self.log.into_iter().flat_map(|log| log.groups.iter()).skip(self.skipped)
    }

    /// How long until `units` have come back; `None` when so many are not out.
    fn until_back(&self, units: u64) -> Option<Span> {
        let mut back = 0;
        let enough = self.groups().find(|group| {
            back += group.count;
            back >= units
        });
        enough.map(|group| self.until_lapsed(group.at))
    }

    fn until_empty(&self) -> Span {
        let newest = self.log.and_then(|log| log.groups.back()).filter(|_| self.used > 0);
        newest.map_or(Span::ZERO, |group| self.until_lapsed(group.at))
    }

    /// How long the oldest group counts once one more is written at this instant, which may merge the two oldest.
    fn until_oldest_after_charge(&self) -> Span {
        let Some(log) = self.log else { return self.terms.window };
        let grows = log.groups.back().is_none_or(|last| last.at < self.now);
        let merged = usize::from(grows && log.groups.len() - self.skipped >= self.terms.max_entries);
        self.groups().nth(merged).map_or(self.terms.window, |group| self.until_lapsed(group.at))
    }

    fn until_lapsed(&self, at: Moment) -> Span {
        self.terms.window.saturating_add(at.since(self.now)).saturating_sub(self.now.since(at))
    }
}

fn lapsed(terms: &LogTerms, at: Moment, now: Moment) -> bool {
    now.since(at) >= terms.window
}
