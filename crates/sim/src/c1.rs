//! C1, the black-box check that a limit was never exceeded. A row was decided at some moment between its two ends, so
//! everything that lies wholly inside a stretch of time was admitted within that stretch; for every stretch that begins
//! with a row and ends with a row the sum must be one that the limit allows. A true limiter cannot fail it, however late
//! its answers. It is a sweep over the ends: `n log n`, in whole numbers, so 10^6 rows take seconds and nothing is rounded.

use limits::Moment;

use crate::clocks::Clocks;
use crate::promise::{Counted, Edges, Promise};
use crate::sums::Sums;

/// Stretches of up to this many periods are looked at for windows; longer ones add nothing that shorter ones in a row
/// have not said.
const PERIODS_MAX: u128 = 8;

/// Numbers above this could overflow in the sweep.
const NUMBER_MAX: u128 = 1 << 120;

/// An admitted row, as the sweep sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// When its question was sent.
    pub invoked: Moment,
    /// When its answer was there; not before `invoked`.
    pub returned: Moment,
    /// Its cost.
    pub cost: u64,
}

/// The stretch in which the limit was exceeded most, or came nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Its first moment.
    pub from: Moment,
    /// Its last.
    pub until: Moment,
    /// The cost of the rows that lie wholly inside.
    pub admitted: u128,
    /// What the limit allows in such a stretch.
    pub allowed: u128,
    /// Which rows lie inside, by their place in what was judged.
    pub rows: Vec<usize>,
}

impl Worst {
    /// By how much the limit was exceeded; zero when it was not.
    pub fn excess(&self) -> u128 {
        self.admitted.saturating_sub(self.allowed)
    }
}

/// The numbers are too large to be added up exactly. Whoever made the history chose them; nothing was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("costs, amounts and times of this history are too large to be added up exactly")]
pub struct TooMuch;

/// Looks for the worst stretch of one key under one limit; `None` when nothing was admitted.
///
/// # Errors
///
/// [`TooMuch`] when the numbers cannot be added up; a history of real costs stays far below.
pub fn worst(rows: &[Admitted], promise: &Promise, clocks: &Clocks) -> Result<Option<Worst>, TooMuch> {
    let Some(sweep) = Sweep::over(rows) else { return Ok(None) };
    sweep.check_size(promise, clocks)?;
    let stretch = match promise.counted {
        Counted::Bucket { burst } => sweep.bucket(promise, burst, clocks),
        Counted::Log => sweep.windows(promise, 0, clocks),
        Counted::Window { edges } => {
            let free = sweep.windows(promise, 1, clocks);
            let aligned = edges.and_then(|edges| aligned(rows, promise, edges));
            aligned.filter(|aligned| aligned.over() > free.over()).unwrap_or(free)
        }
    };
    Ok(Some(stretch.with_rows(rows)))
}

/// A stretch before its rows are named.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    until: u64,
    admitted: u128,
    allowed: u128,
}

impl Stretch {
    fn over(&self) -> i128 {
        self.admitted as i128 - self.allowed as i128
    }

    /// Names the rows inside, and begins the stretch with the first of them: others may have begun in it and not ended.
    fn with_rows(self, rows: &[Admitted]) -> Worst {
        let (from, until) = (Moment::from_nanos(self.from), Moment::from_nanos(self.until));
        let inside = |row: &Admitted| row.invoked >= from && row.returned <= until;
        let named: Vec<usize> = (0..rows.len()).filter(|place| inside(&rows[*place])).collect();
        let from = named.iter().map(|place| rows[*place].invoked).min().unwrap_or(from);
        Worst { from, until, admitted: self.admitted, allowed: self.allowed, rows: named }
    }
}

/// The rows by their end, and every beginning once.
struct Sweep {
    by_end: Vec<(u64, u64, u64)>,
    beginnings: Vec<u64>,
}

impl Sweep {
    fn over(rows: &[Admitted]) -> Option<Sweep> {
        let ends = |row: &Admitted| (row.returned.as_nanos(), row.invoked.as_nanos(), row.cost);
        let mut by_end: Vec<_> = rows.iter().map(ends).collect();
        by_end.sort_unstable();
        let mut beginnings: Vec<_> = by_end.iter().map(|(_, invoked, _)| *invoked).collect();
        beginnings.sort_unstable();
        beginnings.dedup();
        if by_end.is_empty() { None } else { Some(Sweep { by_end, beginnings }) }
    }

    fn begin(&self) -> u64 {
        self.beginnings[0]
    }

    fn end(&self) -> u64 {
        self.by_end[self.by_end.len() - 1].0
    }

    fn place(&self, invoked: u64) -> usize {
        self.beginnings.partition_point(|beginning| *beginning < invoked)
    }

    fn check_size(&self, promise: &Promise, clocks: &Clocks) -> Result<(), TooMuch> {
        let cost: u128 = self.by_end.iter().map(|(_, _, cost)| u128::from(*cost)).sum();
        let (scale, fill) = scale_and_fill(promise, clocks.fastest);
        let units = cost.checked_mul(scale).ok_or(TooMuch)?;
        let refill = fill.checked_mul(u128::from(self.end() - self.begin())).ok_or(TooMuch)?;
        let full = u128::from(promise.rate.amount()).checked_mul(scale).ok_or(TooMuch)?;
        match units.max(refill).max(full) {
            largest if largest > NUMBER_MAX => Err(TooMuch),
            _ => Ok(()),
        }
    }

    /// At every end: of all beginnings, the one from which most was admitted beyond what flowed in since.
    fn bucket(&self, promise: &Promise, burst: u64, clocks: &Clocks) -> Stretch {
        let (scale, fill) = scale_and_fill(promise, clocks.fastest);
        let (scale, fill) = (scale as i128, fill as i128);
        let mut sums = Sums::new(self.beginnings.len());
        let mut worst = (i128::MIN, 0);
        for &(returned, invoked, cost) in &self.by_end {
            let height = fill * i128::from(invoked - self.begin());
            sums.add(self.place(invoked), height, scale * i128::from(cost));
            let best = sums.best().expect("a row was just added");
            worst = worst.max((best - fill * i128::from(returned - self.begin()), returned));
        }
        let (beyond, until) = worst;
        let (from, admitted) = self.beginning_of(until, |from, admitted| {
            scale * (admitted as i128) - fill * i128::from(until - from) == beyond
        });
        let allowed = u128::from(burst) + (fill * i128::from(until - from) / scale) as u128;
        Stretch { from, until, admitted, allowed }
    }

    /// Where a stretch begins that ends here and is the one that is looked for, and what was admitted in it.
    fn beginning_of(&self, until: u64, is_it: impl Fn(u64, u128) -> bool) -> (u64, u128) {
        let ended = self.by_end.iter().filter(|(returned, _, _)| *returned <= until);
        let mut ended: Vec<_> = ended.map(|(_, invoked, cost)| (*invoked, u128::from(*cost))).collect();
        ended.sort_unstable_by(|one, other| other.cmp(one));
        let mut admitted = 0;
        for group in ended.chunk_by(|one, other| one.0 == other.0) {
            admitted += group.iter().map(|(_, cost)| cost).sum::<u128>();
            if is_it(group[0].0, admitted) {
                return (group[0].0, admitted);
            }
        }
        unreachable!("the sweep found this value at one of these beginnings")
    }

    /// At every end: what was admitted since less than one, two, three periods, against as many amounts and `extra`.
    fn windows(&self, promise: &Promise, extra: u128, clocks: &Clocks) -> Stretch {
        let period = u128::from(promise.rate.period().as_nanos());
        let amount = u128::from(promise.rate.amount());
        let periods = (u128::from(self.end() - self.begin()) / period + 1).min(PERIODS_MAX);
        let mut sums = Sums::new(self.beginnings.len());
        let mut worst: Option<Stretch> = None;
        for &(returned, invoked, cost) in &self.by_end {
            sums.add(self.place(invoked), 0, i128::from(cost));
            for count in 1..=periods {
                let reach = u64::try_from(clocks.below(count * period)).unwrap_or(u64::MAX);
                let from = returned.saturating_sub(reach);
                let admitted = sums.weight_from(self.place(from)) as u128;
                let from = self.beginnings.get(self.place(from)).copied().unwrap_or(returned);
                let found = Stretch { from, until: returned, admitted, allowed: amount * (count + extra) };
                if worst.is_none_or(|worst| found.over() > worst.over()) {
                    worst = Some(found);
                }
            }
        }
        worst.expect("there is a row")
    }
}

/// Units are counted in parts of `1 / (period * of)`: `scale` of them make a unit, `fill` of them flow in per nanosecond.
pub(crate) fn scale_and_fill(promise: &Promise, pace: crate::Ratio) -> (u128, u128) {
    let scale = u128::from(promise.rate.period().as_nanos()) * u128::from(pace.of());
    (scale, u128::from(promise.rate.amount()) * u128::from(pace.parts()))
}

/// The fullest window between two known edges; `None` when no row lies surely inside one.
fn aligned(rows: &[Admitted], promise: &Promise, edges: Edges) -> Option<Stretch> {
    let period = i128::from(promise.rate.period().as_nanos());
    let (at, unsure) = (i128::from(edges.at.as_nanos()), i128::from(edges.unsure.as_nanos()));
    let mut sums: std::collections::BTreeMap<i128, (u64, u64, u128)> = std::collections::BTreeMap::new();
    for row in rows {
        let (invoked, returned) = (i128::from(row.invoked.as_nanos()), i128::from(row.returned.as_nanos()));
        let index = (invoked - at).div_euclid(period);
        let opens = at + index * period;
        if invoked < opens + unsure || returned >= opens + period - unsure {
            continue;
        }
        let sum = sums.entry(index).or_insert((row.invoked.as_nanos(), row.returned.as_nanos(), 0));
        sum.0 = sum.0.min(row.invoked.as_nanos());
        sum.1 = sum.1.max(row.returned.as_nanos());
        sum.2 += u128::from(row.cost);
    }
    let fullest = sums.into_values().max_by_key(|(_, _, cost)| *cost)?;
    let (from, until, admitted) = fullest;
    Some(Stretch { from, until, admitted, allowed: u128::from(promise.rate.amount()) })
}
