//! Whether a denial was right: could the limit have been used up at that moment, by what had been admitted and by whatever
//! else may have been charged? Every doubt speaks for the denial, so that what is found here was surely refused without need.

use limits::{Moment, Span};

use crate::c1::{TooMuch, scale_and_fill};
use crate::clocks::Clocks;
use crate::promise::{Counted, Promise};
use crate::sums::Sums;

/// What may have been charged, and in which stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// Not before this.
    pub earliest: Moment,
    /// Not after this.
    pub latest: Moment,
    /// Units.
    pub cost: u64,
}

/// A refusal for which the limit itself was given as the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// When the question was sent.
    pub invoked: Moment,
    /// When the refusal was there.
    pub returned: Moment,
    /// Units asked for.
    pub cost: u64,
}

/// The refusals, by their place, that no moment between their two ends justifies.
///
/// # Errors
///
/// [`TooMuch`] when the numbers cannot be added up exactly.
pub fn unjustified(
    charges: &[Charged],
    refusals: &[Refusal],
    promise: &Promise,
    clocks: &Clocks,
) -> Result<Vec<usize>, TooMuch> {
    let mut line = Line::over(charges, promise, clocks)?;
    let mut by_end: Vec<usize> = (0..refusals.len()).collect();
    by_end.sort_by_key(|place| refusals[*place].returned);
    let mut found = Vec::new();
    for place in by_end {
        line.advance(refusals[place].returned);
        if !line.may_be_used_up(&refusals[place]) {
            found.push(place);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The charges by their beginning, taken up as time goes on, each counted until its latest moment.
struct Line<'a> {
    promise: &'a Promise,
    clocks: &'a Clocks,
    scale: i128,
    fill: i128,
    begin: u64,
    /// By earliest moment; those before `taken` are in `sums`.
    charges: Vec<Charged>,
    taken: usize,
    /// Every latest moment once.
    places: Vec<u64>,
    sums: Sums,
}

impl<'a> Line<'a> {
    fn over(charges: &[Charged], promise: &'a Promise, clocks: &'a Clocks) -> Result<Line<'a>, TooMuch> {
        let (scale, fill) = scale_and_fill(promise, clocks.slowest);
        let cost: u128 = charges.iter().map(|charge| u128::from(charge.cost)).sum();
        let times = charges.iter().map(|charge| u128::from(charge.latest.as_nanos())).max().unwrap_or(0);
        let largest = cost.checked_mul(scale).zip(times.checked_mul(fill)).map(|(cost, fill)| cost.max(fill));
        if largest.is_none_or(|largest| largest > 1 << 120) {
            return Err(TooMuch);
        }
        let mut charges = charges.to_vec();
        charges.sort_by_key(|charge| charge.earliest);
        let mut places: Vec<u64> = charges.iter().map(|charge| charge.latest.as_nanos()).collect();
        places.sort_unstable();
        places.dedup();
        let (sums, begin) = (Sums::new(places.len()), places.first().copied().unwrap_or(0));
        let (scale, fill) = (scale as i128, fill as i128);
        Ok(Line { promise, clocks, scale, fill, begin, charges, taken: 0, places, sums })
    }

    /// Takes up every charge that may have happened by then.
    fn advance(&mut self, until: Moment) {
        while let Some(charge) = self.charges.get(self.taken).filter(|charge| charge.earliest <= until) {
            let latest = charge.latest.as_nanos();
            let height = self.fill * i128::from(latest - self.begin);
            self.sums.add(self.place(latest), height, self.scale * i128::from(charge.cost));
            self.taken += 1;
        }
    }

    fn place(&self, latest: u64) -> usize {
        self.places.partition_point(|place| *place < latest)
    }

    fn may_be_used_up(&self, refusal: &Refusal) -> bool {
        let cost = self.scale * i128::from(refusal.cost);
        let asked = refusal.invoked.as_nanos();
        match self.promise.counted {
            Counted::Bucket { burst } => {
                let full = self.scale * i128::from(burst);
                let before = self.sums.best_before(self.place(asked));
                let since = before.map(|best| best - self.fill * (i128::from(asked) - i128::from(self.begin)));
                let now = self.sums.weight_from(self.place(asked));
                since.map_or(now, |since| since.max(now)) + cost > full
            }
            // Aligned windows too: whatever counts at that moment was charged less than a period before.
            Counted::Log | Counted::Window { .. } => {
                let reach = u64::try_from(self.clocks.longest(self.promise.rate.period())).unwrap_or(u64::MAX);
                let used = self.sums.weight_from(self.place(asked.saturating_sub(reach)));
                used + cost > self.scale * i128::from(self.promise.rate.amount())
            }
        }
    }
}

/// How long after an answer an ingress may still book what it let pass, or fail to take a charge back.
pub const BOOKED_WITHIN: Span = Span::from_secs(5);
