//! Which limits are kept outside their owner's memory, and how much of a key may be spent before anything is.

use crate::rate::{Algorithm, Basis, Rate, Shape};
use crate::time::Span;

/// A limit whose use wears off within this time is not kept: after a takeover the worst case is over as soon.
pub const KEPT_ABOVE: Span = Span::from_secs(10);

/// One part in so many of a limit may be spent without a write, and is raised at a time.
pub const KEPT_PARTS: u64 = 50;

/// No more than one part in so many is ever allowed ahead of what one check needs.
pub const KEPT_PARTS_MIN: u64 = 4;

/// What is kept of the keys of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing: a takeover reads the worst case.
    Nothing,
    /// What was used for certain, now and then; no decision waits for it.
    Least,
    /// The most that may have been used, before it is.
    Most,
}

impl Shape {
    /// What is kept of the keys of this limit: of one that counts and takes longer than [`KEPT_ABOVE`] to forget, the end of
    /// the interval that it decides on.
    pub fn keeping(&self) -> Keeping {
        match (self.capacity(), self.basis) {
            (None | Some(0), _) => Keeping::Nothing,
            (Some(_), _) if self.remembers_for() <= KEPT_ABOVE => Keeping::Nothing,
            // A slot that was given back since would still count, and refuse somebody.
            (Some(_), Basis::Lo) if matches!(self.algorithm, Algorithm::Concurrency { .. }) => Keeping::Nothing,
            (Some(_), Basis::Lo) => Keeping::Least,
            (Some(_), Basis::Hi) => Keeping::Most,
        }
    }

    /// For how long what was spent counts; for ever where nothing ever comes back.
    pub fn remembers_for(&self) -> Span {
        let Some(rate) = self.rate else { return Span::ZERO };
        match self.algorithm {
            Algorithm::TokenBucket { burst } => rate.time_to_fill(burst),
            Algorithm::SlidingLog { .. } | Algorithm::FixedWindow { .. } | Algorithm::Calendar { .. } => rate.period(),
            Algorithm::SlidingCounter => rate.period().saturating_add(rate.period()),
            Algorithm::Concurrency { max_hold } => max_hold,
        }
    }

    /// How much of every key may be spent before anything is written down of it: a successor reads so much as used of a key
    /// whatever it finds. One part in [`KEPT_PARTS`] of the capacity, at least one unit, at most a quarter. Of slots none: a
    /// slot that nobody knows the holder of is lost for as long as it may be held.
    pub fn implicit(&self) -> u64 {
        match (self.algorithm, self.capacity()) {
            (Algorithm::Concurrency { .. }, _) | (_, None) => 0,
            (_, Some(capacity)) => (capacity / KEPT_PARTS).max(1).min(capacity / KEPT_PARTS_MIN),
        }
    }
}

impl Rate {
    /// How long an empty bucket of this rate takes to fill, rounded up; for ever at a rate of zero.
    pub fn time_to_fill(self, burst: u64) -> Span {
        if self.amount() == 0 {
            return Span::MAX;
        }
        let nanos = (u128::from(self.period().as_nanos()) * u128::from(burst)).div_ceil(u128::from(self.amount()));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::key::LimitId;
    use crate::rate::DomainId;

    fn shape(amount: u64, period: Span, algorithm: Algorithm, basis: Basis) -> Shape {
        Shape { limit: LimitId(1), domain: DomainId(0), rate: Rate::new(amount, period).ok(), algorithm, basis }
    }

    const LOG: Algorithm = Algorithm::SlidingLog { max_entries: 4_096 };
    const HOUR: Span = Span::from_secs(3_600);

    #[test]
    fn only_what_takes_long_to_forget_is_kept() {
        let kept = |period, algorithm, basis| shape(100, period, algorithm, basis).keeping();
        assert_eq!(kept(HOUR, LOG, Basis::Hi), Keeping::Most);
        assert_eq!(kept(HOUR, LOG, Basis::Lo), Keeping::Least);
        assert_eq!(kept(Span::from_secs(10), LOG, Basis::Hi), Keeping::Nothing);
        assert_eq!(kept(Span::from_secs(10), Algorithm::SlidingCounter, Basis::Hi), Keeping::Most);
        let (quick, slow) = (Algorithm::TokenBucket { burst: 10 }, Algorithm::TokenBucket { burst: 1_000 });
        assert_eq!(kept(Span::from_secs(60), quick, Basis::Hi), Keeping::Nothing, "full again in six seconds");
        assert_eq!(kept(Span::from_secs(60), slow, Basis::Hi), Keeping::Most);
        let slots = Algorithm::Concurrency { max_hold: Span::from_secs(60) };
        assert_eq!(kept(Span::from_secs(5), slots, Basis::Hi), Keeping::Most);
        assert_eq!(shape(0, HOUR, LOG, Basis::Hi).keeping(), Keeping::Nothing);
    }

    #[test]
    fn quiet_keys_of_small_limits_never_count_as_used_up() {
        let free = |amount| shape(amount, HOUR, LOG, Basis::Hi).implicit();
        assert_eq!([0, 1, 3, 4, 49, 100, 1_000, 100_000].map(free), [0, 0, 0, 1, 1, 2, 20, 2_000]);
        let slots = Algorithm::Concurrency { max_hold: HOUR };
        assert_eq!(shape(100, HOUR, slots, Basis::Hi).implicit(), 0);
    }
}
