//! How fast an owner's clock may run beside the asker's. A limit is measured on its owner's clock, so where a clock fault
//! is part of the experiment, lengths of time are read as that clock may have read them, by the ratio that was measured.

use limits::Span;

/// An exact ratio, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ratio {
    parts: u64,
    of: u64,
}

impl Ratio {
    /// One to one.
    pub const ONE: Ratio = Ratio { parts: 1, of: 1 };

    /// `parts / of`; `None` when either is zero.
    pub const fn new(parts: u64, of: u64) -> Option<Ratio> {
        if parts == 0 || of == 0 {
            return None;
        }
        let common = gcd(parts, of);
        Some(Ratio { parts: parts / common, of: of / common })
    }

    /// One and so many millionths; below one where `millionths` is negative. Never below one millionth.
    pub const fn one_and_millionths(millionths: i32) -> Ratio {
        let parts = 1_000_000 + millionths as i64;
        let parts = if parts < 1 { 1 } else { parts as u64 };
        match Ratio::new(parts, 1_000_000) {
            Some(ratio) => ratio,
            None => Ratio::ONE,
        }
    }

    /// The upper number.
    pub const fn parts(self) -> u64 {
        self.parts
    }

    /// The lower number.
    pub const fn of(self) -> u64 {
        self.of
    }

    /// As a number for people.
    pub fn as_f64(self) -> f64 {
        self.parts as f64 / self.of as f64
    }
}

const fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Between which rates the owners' clocks ran, seen from the asker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The fastest: what an owner may have refilled in a second of the asker's.
    pub fastest: Ratio,
    /// The slowest.
    pub slowest: Ratio,
}

impl Clocks {
    /// All clocks run alike.
    pub const ALIKE: Clocks = Clocks { fastest: Ratio::ONE, slowest: Ratio::ONE };

    /// All clocks within this many millionths of the asker's.
    pub const fn within_millionths(millionths: i32) -> Clocks {
        Clocks { fastest: Ratio::one_and_millionths(millionths), slowest: Ratio::one_and_millionths(-millionths) }
    }

    /// The longest time on the asker's clock that may be shorter than `span` on an owner's; such a stretch fits into one
    /// window.
    pub(crate) fn below(&self, span: u128) -> u128 {
        let (parts, of) = (u128::from(self.fastest.parts), u128::from(self.fastest.of));
        (span * of).saturating_sub(1) / parts
    }

    /// The longest time on the asker's clock that `span` on an owner's may last.
    pub(crate) fn longest(&self, span: Span) -> u128 {
        let (parts, of) = (u128::from(self.slowest.parts), u128::from(self.slowest.of));
        (u128::from(span.as_nanos()) * of).div_ceil(parts)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn ratios_are_reduced_and_never_zero() {
        assert_eq!(Ratio::new(1_005_000, 1_000_000), Ratio::new(201, 200));
        assert_eq!(Ratio::one_and_millionths(5_000), Ratio::new(201, 200).unwrap());
        assert_eq!((Ratio::new(0, 1), Ratio::new(1, 0)), (None, None));
        assert_eq!(Ratio::one_and_millionths(-2_000_000), Ratio::new(1, 1_000_000).unwrap());
    }

    #[test]
    fn a_faster_clock_makes_the_stretch_of_a_window_shorter_and_a_slower_one_longer() {
        let clocks = Clocks::within_millionths(5_000);
        // 995 ms on the asker's clock are 999.975 ms on the fast one: within a second. 996 are not.
        let below = clocks.below(1_000_000_000);
        assert!((995_000_000..996_000_000).contains(&below), "{below}");
        assert_eq!(Clocks::ALIKE.below(1_000), 999);
        assert_eq!(Clocks::ALIKE.longest(Span::from_nanos(1_000)), 1_000);
        assert!(clocks.longest(Span::from_secs(1)) > 1_005_000_000);
    }
}
