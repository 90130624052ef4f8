//! Windows of a calendar: hours, days, weeks, months of somebody's time zone, counted like fixed windows but cut where the
//! calendar says. This crate knows no calendar. Whoever does implements [`Calendars`], a pure function from an instant of
//! cluster time to the window that it lies in; state keeps the window's *index*, which means the same on every machine
//! even if two of them disagree about the instant of an edge.
//!
//! Nodes may tell cluster time differently by [`EDGE`]. A limit that decides on the most that may have been used
//! therefore counts a charge within that time of an edge in both windows, and asks both: whichever window the charge
//! belongs to by anybody's clock, that window never holds more than the amount.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::bucket::DEBT_CAPACITIES;
use crate::cells::Cells;
use crate::decision::{LegDecision, Wait};
use crate::rate::{Basis, Rate};
use crate::time::{Span, WallTime};
use crate::window::EDGE;

/// A calendar's number in this process: which windows, in which zone. Allotted by whoever implements [`Calendars`], and
/// never given to another calendar while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalendarId(pub u32);

/// One window of a calendar, half open: `start` is in it, `end` is the start of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBounds {
    /// The window's number, one more than that of the window before; the same on every node, so a count of local hours,
    /// days, weeks, months or years since a date that all agree on. From 1 on.
    pub index: u64,
    /// Its first instant.
    pub start: WallTime,
    /// The first instant after it.
    pub end: WallTime,
}

/// Where the windows of calendars lie. Each calendar cuts all of time into windows without gaps, each of at least a
/// second. Asked at every decision about such a limit, so an implementation keeps the last window at hand.
pub trait Calendars: Debug + Send + Sync {
    /// The window of `calendar` that `at` lies in; `None` when this process does not know it, and then the limit cannot
    /// be decided.
    fn window(&self, calendar: CalendarId, at: WallTime) -> Option<WindowBounds>;

    /// What a calendar is called in every process: its windows follow from that name alone.
    fn name(&self, calendar: CalendarId) -> String;
}

/// A calendar limit's numbers. [`Cells::at`] is the index of the later window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalendarTerms {
    amount: u64,
    calendar: CalendarId,
}

/// What time it is in a calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial<'a> {
    calendars: &'a dyn Calendars,
    calendar: CalendarId,
    window: WindowBounds,
    now: WallTime,
    /// How far around an edge both windows are asked.
    edge: Span,
}

impl CalendarTerms {
    pub(crate) fn new(rate: Rate, calendar: CalendarId) -> CalendarTerms {
        CalendarTerms { amount: rate.amount(), calendar }
    }

    /// The most that one window ever counts by charging.
    pub(crate) fn most(&self) -> u64 {
        self.amount * DEBT_CAPACITIES
    }

    /// What time it is in this limit's calendar, where that can be told.
    pub(crate) fn dial<'a>(
        &self,
        calendars: Option<&'a dyn Calendars>,
        now: Option<WallTime>,
        basis: Basis,
    ) -> Option<Dial<'a>> {
        let (calendars, now, calendar) = (calendars?, now?, self.calendar);
        let window = calendars.window(calendar, now)?;
        let edge = match basis {
            Basis::Lo => Span::ZERO,
            Basis::Hi => EDGE,
        };
        Some(Dial { calendars, calendar, window, now, edge })
    }

    /// Whether the windows that are asked now admit `cost`, and how they then stand.
    pub(crate) fn weigh(&self, cells: Cells, dial: &Dial<'_>, cost: u64) -> LegDecision {
        let cells = dial.current(cells);
        let used = dial.used(&cells);
        if cost == 0 || used.saturating_add(cost) <= self.amount {
            self.standing(self.charged(cells, dial, cost), dial, Wait::Now)
        } else if cost > self.amount {
            self.standing(cells, dial, Wait::Never)
        } else {
            let wait = dial.until(|then| then.used(&then.current(cells)).saturating_add(cost) <= self.amount);
            self.standing(cells, dial, Wait::After(wait))
        }
    }

    /// The same where nobody knows what time it is: only what is free by what was counted last.
    pub(crate) fn weigh_blind(&self, cells: &Cells, cost: u64) -> LegDecision {
        let remaining = self.amount.saturating_sub(cells.earlier.max(cells.later));
        let (allowed, wait) = if cost <= remaining { (true, Wait::Now) } else { (false, Wait::Never) };
        let (reset_after, next_unit_after) = (Span::ZERO, None);
        LegDecision { allowed, capacity: self.amount, remaining, wait, reset_after, next_unit_after }
    }

    /// Cells once `cost` is charged. What was admitted always fits; a debt fits up to [`DEBT_CAPACITIES`].
    pub(crate) fn charged(&self, cells: Cells, dial: &Dial<'_>, cost: u64) -> Cells {
        let mut cells = dial.current(cells);
        for index in dial.reach(cells.at) {
            if let Some(count) = count_mut(&mut cells, index) {
                *count = count.saturating_add(cost).min(self.most().max(*count));
            }
        }
        cells
    }

    /// So much used, at most all there is, in every window that an instant touches, however clocks differ, and in every one
    /// before.
    pub(crate) fn used_as_of(&self, dial: &Dial<'_>, units: u64) -> Cells {
        let units = units.min(self.amount);
        Cells { at: *dial.reach(0).end(), earlier: units, later: units }
    }

    /// Cells of a key that has used `units` at this instant.
    pub(crate) fn used_now(&self, units: u64, dial: &Dial<'_>) -> Cells {
        let mut cells = Cells::empty(*dial.reach(0).end());
        dial.reach(cells.at)
            .for_each(|index| count_mut(&mut cells, index).into_iter().for_each(|count| *count = units));
        cells
    }

    /// Cells from elsewhere, cut to the most that they can hold here.
    pub(crate) fn bounded(&self, cells: Cells) -> Cells {
        Cells { earlier: cells.earlier.min(self.most()), later: cells.later.min(self.most()), ..cells }
    }

    pub(crate) fn same_windows(&self, other: &CalendarTerms) -> bool {
        self.calendar == other.calendar
    }

    fn standing(&self, cells: Cells, dial: &Dial<'_>, wait: Wait) -> LegDecision {
        let free = |dial: &Dial<'_>| self.amount.saturating_sub(dial.used(&dial.current(cells)));
        let remaining = free(dial);
        LegDecision {
            allowed: wait == Wait::Now,
            capacity: self.amount,
            remaining,
            wait,
            reset_after: dial.until_fresh(&cells),
            next_unit_after: (!dial.is_fresh(&cells)).then(|| dial.until(|then| free(then) > remaining)),
        }
    }
}

impl Dial<'_> {
    /// The windows that a charge counts in now: one, or two near an edge. Indexes never fall: where state has seen
    /// windows that this clock has not reached, the earliest of which a count is kept stands for all before.
    pub(crate) fn reach(&self, at: u64) -> RangeInclusive<u64> {
        let WindowBounds { index, start, end } = self.window;
        let asks_both = self.edge > Span::ZERO;
        let first = if asks_both && self.now.since(start) < self.edge { index.saturating_sub(1) } else { index };
        let last = if asks_both && end.since(self.now) <= self.edge { index.saturating_add(1) } else { index };
        let first = first.max(at.saturating_sub(1));
        first..=last.max(first)
    }

    /// Whether another node may have counted in the window of this index by now.
    pub(crate) fn may_have_reached(&self, index: u64) -> bool {
        index <= self.window.index.saturating_add(1)
    }

    /// `cells` moved on to the windows that are asked now.
    pub(crate) fn current(&self, cells: Cells) -> Cells {
        let last = *self.reach(cells.at).end();
        match last.saturating_sub(cells.at) {
            0 => cells,
            1 => Cells { at: last, earlier: cells.later, later: 0 },
            _ => Cells::empty(last),
        }
    }

    /// The most that current cells count in one of the windows that are asked now.
    pub(crate) fn used(&self, cells: &Cells) -> u64 {
        self.reach(cells.at).map(|index| count(cells, index)).max().unwrap_or(0)
    }

    /// Whether current cells count nothing that will be asked, now or later.
    pub(crate) fn is_fresh(&self, cells: &Cells) -> bool {
        cells.later == 0 && (cells.earlier == 0 || cells.at <= *self.reach(cells.at).start())
    }

    /// How long until current cells are fresh.
    fn until_fresh(&self, cells: &Cells) -> Span {
        let last = if cells.later > 0 { cells.at } else { cells.at.saturating_sub(1) };
        let end = match last.saturating_add(1).saturating_sub(self.window.index) {
            _ if self.is_fresh(cells) => return Span::ZERO,
            0 => self.window.start,
            1 => self.window.end,
            _ => self.end_of_next(),
        };
        end.saturating_add(self.edge).since(self.now)
    }

    /// How long until `fits`, which only passing edges can bring about: the last one's, this window's, or the next one's,
    /// behind which lies a window that nobody can have counted in yet.
    fn until(&self, fits: impl Fn(&Dial<'_>) -> bool) -> Span {
        let (index, start) = (self.window.index.saturating_add(1), self.window.end);
        let following = WindowBounds { index, start, end: WallTime::from_unix_nanos(u64::MAX) };
        for window in [self.window, following] {
            let now = window.start.saturating_add(self.edge);
            if now > self.now && fits(&Dial { window, now, ..*self }) {
                return now.since(self.now);
            }
        }
        self.end_of_next().saturating_add(self.edge).since(self.now)
    }

    fn end_of_next(&self) -> WallTime {
        self.calendars.window(self.calendar, self.window.end).map_or(self.window.end, |next| next.end)
    }
}

/// Takes back `cost` units that were counted in these windows, as far as they are remembered.
pub(crate) fn undone(mut cells: Cells, counted: RangeInclusive<u64>, cost: u64) -> Cells {
    for index in counted {
        if let Some(count) = count_mut(&mut cells, index) {
            *count = count.saturating_sub(cost);
        }
    }
    cells
}

/// What is counted in the window of this index; nothing in windows that are not remembered.
pub(crate) fn count(cells: &Cells, index: u64) -> u64 {
    match cells.at.checked_sub(index) {
        Some(0) => cells.later,
        Some(1) => cells.earlier,
        Some(_) | None => 0,
    }
}

fn count_mut(cells: &mut Cells, index: u64) -> Option<&mut u64> {
    match cells.at.checked_sub(index) {
        Some(0) => Some(&mut cells.later),
        Some(1) => Some(&mut cells.earlier),
        Some(_) | None => None,
    }
}
