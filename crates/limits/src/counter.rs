//! The sliding counter: two cells of one period each, of which the later is counted whole and the earlier by the part of
//! it that a window ending now still covers, as if its units had come evenly. Admitted is what keeps that estimate within
//! the amount. (Cloudflare described it in 2017; what it gets wrong depends on how arrivals are spread.)
//!
//! The promise: no window of a period ever sees more than `2 * amount - ceil(amount / period)`, just under twice the
//! amount, and arrivals that are spread evenly see the amount. The worst case is an earlier cell that was filled at its
//! very end, and a later one that is filled at its own: the estimate believes the first to be nearly gone.
//!
//! Cells begin at a key's first charge, on the owner's clock, so that they need no cluster time and no two keys share an
//! edge; a key of which neither cell counts begins anew. All sums are exact: units are compared times the period.

use crate::bucket::DEBT_CAPACITIES;
use crate::cells::Cells;
use crate::decision::{LegDecision, Wait};
use crate::rate::{AMOUNT_MAX, Rate};
use crate::time::{Moment, Span};

/// A sliding counter's numbers. [`Cells::at`] is the instant at which the later cell began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterTerms {
    amount: u64,
    period: u64,
}

impl CounterTerms {
    pub(crate) fn new(rate: Rate) -> CounterTerms {
        CounterTerms { amount: rate.amount(), period: rate.period().as_nanos() }
    }

    /// The most that one cell ever counts by charging.
    pub(crate) fn most(&self) -> u64 {
        self.amount * DEBT_CAPACITIES
    }

    /// Empty cells, the later of which begins now.
    #[inline]
    pub(crate) fn opened(&self, now: Moment) -> Cells {
        Cells::empty(now.as_nanos())
    }

    /// `cells` moved on to `now`: the later cell becomes the earlier one when its time is over. Where nothing counts any
    /// more, cells that begin now.
    #[inline]
    pub(crate) fn current(&self, cells: Cells, now: Moment) -> Cells {
        let moved = match self.elapsed(&cells, now) / self.period {
            0 => cells,
            1 => Cells { at: cells.at + self.period, earlier: cells.later, later: 0 },
            _ => return self.opened(now),
        };
        if moved.is_empty() { self.opened(now) } else { moved }
    }

    /// Whether current cells admit `cost`, and how they then stand.
    #[inline]
    pub(crate) fn weigh(&self, cells: Cells, now: Moment, cost: u64) -> LegDecision {
        if cost == 0 || (cost <= self.amount && self.weight(&cells, now) + self.whole(cost) <= self.whole(self.amount))
        {
            let after = Cells { later: cells.later + cost.min(self.amount), ..cells };
            self.standing(after, now, Wait::Now)
        } else if cost > self.amount {
            self.standing(cells, now, Wait::Never)
        } else {
            self.standing(cells, now, Wait::After(self.until_fits(&cells, now, cost)))
        }
    }

    /// Current cells once `cost` is charged. What was admitted always fits; a debt fits up to [`DEBT_CAPACITIES`].
    #[inline]
    pub(crate) fn charged(&self, cells: Cells, cost: u64) -> Cells {
        let most = self.most().max(cells.later);
        Cells { later: cells.later.saturating_add(cost).min(most), ..cells }
    }

    /// Cells once `cost` units are taken back that were counted in the cell that began at `start`, while that one still
    /// counts.
    pub(crate) fn undone(&self, cells: Cells, start: u64, now: Moment, cost: u64) -> Cells {
        let cells = self.current(cells, now);
        if cells.at == start {
            Cells { later: cells.later.saturating_sub(cost), ..cells }
        } else if start.checked_add(self.period) == Some(cells.at) {
            Cells { earlier: cells.earlier.saturating_sub(cost), ..cells }
        } else {
            cells
        }
    }

    /// What a key may have used by `at`, at most all there is: in a cell that began right then, which every other history
    /// decays earlier than.
    pub(crate) fn used_as_of(&self, at: Moment, units: u64) -> Cells {
        Cells { later: units.min(self.amount), ..self.opened(at) }
    }

    /// Cells of a key that has used `units` at this instant.
    pub(crate) fn used_now(&self, units: u64, now: Moment) -> Cells {
        Cells { later: units, ..self.opened(now) }
    }

    /// Units that current cells count, rounded up.
    pub(crate) fn units(&self, cells: &Cells, now: Moment) -> u64 {
        u64::try_from(self.weight(cells, now).div_ceil(u128::from(self.period))).unwrap_or(u64::MAX)
    }

    /// How far the later cell has come.
    pub(crate) fn elapsed(&self, cells: &Cells, now: Moment) -> u64 {
        now.as_nanos().saturating_sub(cells.at)
    }

    /// Cells from elsewhere, whose later one began `elapsed` before `now`; `None` if that is a period ago. On a machine
    /// that was booted since, the cell counts from its boot: longer than it might, never shorter.
    pub(crate) fn taken_in(&self, elapsed: Span, earlier: u64, later: u64, now: Moment) -> Option<Cells> {
        let at = now.saturating_sub(elapsed).as_nanos();
        let bounded = |units: u64| units.min(AMOUNT_MAX * DEBT_CAPACITIES);
        (elapsed.as_nanos() < self.period).then_some(Cells { at, earlier: bounded(earlier), later: bounded(later) })
    }

    /// Whether cells under `other` are the same stretches of time.
    pub(crate) fn same_cells(&self, other: &CounterTerms) -> bool {
        self.period == other.period
    }

    fn standing(&self, cells: Cells, now: Moment, wait: Wait) -> LegDecision {
        let free = self.whole(self.amount).saturating_sub(self.weight(&cells, now));
        let remaining = (free / u128::from(self.period)) as u64;
        LegDecision {
            allowed: wait == Wait::Now,
            capacity: self.amount,
            remaining,
            wait,
            reset_after: self.until_empty(&cells, now),
            next_unit_after: (!cells.is_empty()).then(|| self.until_fits(&cells, now, remaining + 1)),
        }
    }

    /// What current cells count, times the period: the later cell whole, the earlier by what is left of the later one.
    fn weight(&self, cells: &Cells, now: Moment) -> u128 {
        let left = self.period.saturating_sub(self.elapsed(cells, now));
        u128::from(cells.earlier) * u128::from(left) + self.whole(cells.later)
    }

    fn whole(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.period)
    }

    /// How long until a cost fits that does not fit now, but could: within the later cell's time, while the earlier one
    /// fades, or within the time after, when the later one does.
    fn until_fits(&self, cells: &Cells, now: Moment, cost: u64) -> Span {
        let faded = |room: u64, cell: u64| self.whole(room) / u128::from(cell.max(1));
        let (start, period) = (u128::from(cells.at), u128::from(self.period));
        let instant = match self.amount.checked_sub(cells.later.saturating_add(cost)) {
            Some(room) => start + period - faded(room, cells.earlier).min(period),
            None => start + 2 * period - faded(self.amount.saturating_sub(cost), cells.later).min(period),
        };
        span_from(now, instant)
    }

    fn until_empty(&self, cells: &Cells, now: Moment) -> Span {
        let periods = match (cells.earlier, cells.later) {
            (0, 0) => return Span::ZERO,
            (_, 0) => 1,
            (_, _) => 2,
        };
        span_from(now, u128::from(cells.at) + u128::from(self.period) * periods)
    }
}

/// The time from `now` to an instant, which may lie beyond the last that can be spelled.
fn span_from(now: Moment, instant: u128) -> Span {
    let nanos = instant.saturating_sub(u128::from(now.as_nanos()));
    u64::try_from(nanos).map_or(Span::MAX, Span::from_nanos)
}
