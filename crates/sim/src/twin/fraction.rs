//! Exact fractions of a unit. A twin that rounds would agree with whoever rounds likewise.

use std::cmp::Ordering;

/// A fraction that is not negative, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    above: u128,
    below: u128,
}

impl Fraction {
    /// Nothing.
    pub const ZERO: Fraction = Fraction { above: 0, below: 1 };

    /// `above / below`.
    ///
    /// # Panics
    ///
    /// If `below` is zero.
    pub fn new(above: u128, below: u128) -> Fraction {
        assert!(below > 0, "nothing is divided by zero here");
        let common = common_divisor(above, below);
        Fraction { above: above / common, below: below / common }
    }

    /// So many whole units.
    pub fn whole(units: u64) -> Fraction {
        Fraction { above: u128::from(units), below: 1 }
    }

    /// The sum.
    pub fn plus(self, other: Fraction) -> Fraction {
        let [mine, others, below] = self.over_one(other);
        Fraction::new(exact(mine.checked_add(others)), below)
    }

    /// The difference, or nothing where `other` is more.
    pub fn less(self, other: Fraction) -> Fraction {
        let [mine, others, below] = self.over_one(other);
        Fraction::new(mine.saturating_sub(others), below)
    }

    /// The smaller of two.
    pub fn or_less(self, other: Fraction) -> Fraction {
        if self <= other { self } else { other }
    }

    /// The whole units in it.
    pub fn floor(self) -> u64 {
        u64::try_from(self.above / self.below).unwrap_or(u64::MAX)
    }

    /// The fewest whole units that are not less.
    pub fn ceil(self) -> u64 {
        u64::try_from(self.above.div_ceil(self.below)).unwrap_or(u64::MAX)
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.above == 0
    }

    /// Both numerators over one denominator.
    fn over_one(self, other: Fraction) -> [u128; 3] {
        let common = common_divisor(self.below, other.below);
        let (times, others_times) = (other.below / common, self.below / common);
        let mine = exact(self.above.checked_mul(times));
        let others = exact(other.above.checked_mul(others_times));
        [mine, others, exact(self.below.checked_mul(times))]
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Fraction) -> Ordering {
        let [mine, others, _] = self.over_one(*other);
        mine.cmp(&others)
    }
}

fn exact(number: Option<u128>) -> u128 {
    number.expect("the numbers of a case fit into 128 bits, or the case asks for more than a twin can say")
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_add_up_to_one() {
        let third = Fraction::new(2, 6);
        assert_eq!(third.plus(third).plus(third), Fraction::whole(1));
        assert_eq!((third.floor(), third.ceil()), (0, 1));
        assert!(Fraction::new(999_999, 1_000_000) < Fraction::whole(1));
    }

    #[test]
    fn nothing_is_the_least_there_is() {
        assert!(Fraction::new(1, 3).less(Fraction::new(1, 2)).is_zero());
        assert_eq!(Fraction::new(1, 2).less(Fraction::new(1, 3)), Fraction::new(1, 6));
    }
}
