//! Chance from a seed (splitmix64: Steele, Lea, Flood 2014). Each use takes a stream of its own, so that one part of a
//! story can be changed without changing the others.

use limits::{Moment, Span};

/// A row of numbers that follows from a seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The row of this number alone.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The seed's row for this use.
    pub fn of(seed: u64, stream: u64) -> Chance {
        let mut mixed = Chance(seed);
        let first = mixed.next();
        let mut row = Chance(first ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        row.next();
        row
    }

    /// The next number, any of 64 bits.
    #[allow(clippy::should_implement_trait, reason = "a row that never ends is no iterator that anybody collects")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high, "from {low} to {high}");
        low + self.below(high - low + 1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True so many times in a thousand.
    pub fn per_mille(&mut self, per_mille: u16) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let place = usize::try_from(self.below(from.len() as u64)).expect("a length fits");
        &from[place]
    }

    /// One of these, by their weights.
    ///
    /// # Panics
    ///
    /// If all weights are 0.
    pub fn weighed<'a, T>(&mut self, from: &'a [(u64, T)]) -> &'a T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        let chosen = from.iter().find(|(weight, _)| match left.checked_sub(*weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        &chosen.expect("some weight is above what is left").1
    }

    /// A length of time from `low` to `high` milliseconds, in nanoseconds: edges of windows are met by chance only.
    pub fn millis(&mut self, low: u64, high: u64) -> Span {
        Span::from_nanos(self.between(low * 1_000_000, high * 1_000_000))
    }

    /// A length of time from `low` to `high` milliseconds, short ones as often as long ones.
    pub fn millis_of_any_size(&mut self, low: u64, high: u64) -> Span {
        let mut ends = vec![low.max(1)];
        while ends.last().is_some_and(|last| *last < high) {
            ends.push((ends[ends.len() - 1] * 2).min(high));
        }
        let place = usize::try_from(self.below(ends.len().saturating_sub(1).max(1) as u64)).expect("a length fits");
        self.millis(ends[place], ends[(place + 1).min(ends.len() - 1)])
    }

    /// A moment from `low` to `high`.
    pub fn moment(&mut self, low: Moment, high: Moment) -> Moment {
        Moment::from_nanos(self.between(low.as_nanos(), high.as_nanos().max(low.as_nanos())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_row_per_stream() {
        let row = |seed, stream| -> Vec<u64> {
            let mut chance = Chance::of(seed, stream);
            (0..4).map(|_| chance.next()).collect()
        };
        assert_eq!(row(7, 1), row(7, 1));
        assert_ne!(row(7, 1), row(7, 2));
        assert_ne!(row(7, 1), row(8, 1));
    }

    #[test]
    fn weights_are_how_often() {
        let mut chance = Chance::of(1, 1);
        let mut counts = [0_u32; 3];
        (0..10_000).for_each(|_| counts[*chance.weighed(&[(1, 0_usize), (0, 1), (9, 2)])] += 1);
        assert_eq!(counts[1], 0);
        assert!((800..1_200).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn lengths_of_any_size_stay_within_their_bounds_and_are_short_as_often_as_long() {
        let mut chance = Chance::of(3, 1);
        let lengths: Vec<u64> = (0..2_000).map(|_| chance.millis_of_any_size(30, 5_000).as_nanos()).collect();
        assert!(lengths.iter().all(|nanos| (30_000_000..=5_000_000_000).contains(nanos)));
        let short = lengths.iter().filter(|nanos| **nanos < 500_000_000).count();
        assert!((800..1_400).contains(&short), "{short}");
    }
}
