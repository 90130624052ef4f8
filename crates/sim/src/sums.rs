//! A row of places on a line, each with a weight and, once somebody stands there, a height. Asked is the highest of
//! `height + all weight from here on`, or the weight alone from a place on. One step of a sweep costs the logarithm of
//! the number of places.

/// Stands for a place where nobody stands. Far enough from the smallest number that weights can be added to it.
const NOBODY: i128 = i128::MIN / 2;

#[derive(Clone, Copy, Debug)]
struct Knot {
    weight: i128,
    best: i128,
}

const EMPTY: Knot = Knot { weight: 0, best: NOBODY };

impl Knot {
    /// This stretch of places followed by the next.
    fn then(self, next: Knot) -> Knot {
        Knot { weight: self.weight + next.weight, best: next.best.max(self.best + next.weight) }
    }
}

/// The places.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    /// A heap of knots: the root is 1, the leaves begin at `leaves`.
    knots: Vec<Knot>,
    leaves: usize,
}

impl Sums {
    /// `places` places, all empty.
    pub(crate) fn new(places: usize) -> Sums {
        let leaves = places.next_power_of_two();
        Sums { knots: vec![EMPTY; 2 * leaves], leaves }
    }

    /// Puts somebody of this height at a place and adds weight there.
    pub(crate) fn add(&mut self, place: usize, height: i128, weight: i128) {
        let mut at = self.leaves + place;
        let total = self.knots[at].weight + weight;
        self.knots[at] = Knot { weight: total, best: height + total };
        while at > 1 {
            at /= 2;
            self.knots[at] = self.knots[2 * at].then(self.knots[2 * at + 1]);
        }
    }

    /// The highest of all; `None` while nobody stands anywhere.
    pub(crate) fn best(&self) -> Option<i128> {
        Some(self.knots[1].best).filter(|best| *best > NOBODY / 2)
    }

    /// The highest of those at places below `end`, with all weight that lies after them, also from `end` on.
    pub(crate) fn best_before(&self, end: usize) -> Option<i128> {
        let before = self.stretch(0, end);
        Some(before.best + self.weight_from(end)).filter(|best| *best > NOBODY / 2)
    }

    /// All weight at this place and after it.
    pub(crate) fn weight_from(&self, place: usize) -> i128 {
        self.stretch(place, self.leaves).weight
    }

    fn stretch(&self, from: usize, end: usize) -> Knot {
        let (mut left, mut right) = (EMPTY, EMPTY);
        let (mut from, mut end) = (self.leaves + from.min(self.leaves), self.leaves + end.min(self.leaves));
        while from < end {
            if from % 2 == 1 {
                left = left.then(self.knots[from]);
                from += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                right = self.knots[end].then(right);
            }
            (from, end) = (from / 2, end / 2);
        }
        left.then(right)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_tree_answers_as_the_plain_list_does(
            steps in prop::collection::vec((0usize..13, 0i128..50, 0i128..20), 0..40), end in 0usize..14
        ) {
            let mut sums = Sums::new(13);
            let mut plain: Vec<(Option<i128>, i128)> = vec![(None, 0); 13];
            for (place, height, weight) in steps {
                sums.add(place, height, weight);
                plain[place] = (Some(height), plain[place].1 + weight);
            }
            let from = |place: usize| plain[place.min(13)..].iter().map(|(_, weight)| weight).sum::<i128>();
            let best = |end: usize| {
                (0..end.min(13)).filter_map(|place| plain[place].0.map(|height| height + from(place))).max()
            };
            prop_assert_eq!(sums.best(), best(13));
            prop_assert_eq!(sums.best_before(end), best(end));
            prop_assert_eq!(sums.weight_from(end), from(end));
        }
    }

    #[test]
    fn no_places_are_no_trouble() {
        assert_eq!((Sums::new(0).best(), Sums::new(0).weight_from(0)), (None, 0));
    }
}
