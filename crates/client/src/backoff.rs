//! How long a node that failed is left alone. Chance comes in as an argument, so that a test can hold it.

use std::time::Duration;

/// Pauses that double, each shortened by up to half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Backoff {
    /// Short enough that a node which restarted is found within a second or two, long enough that a dead one costs
    /// nothing.
    pub(crate) const DEFAULT: Backoff = Backoff { first: Duration::from_millis(50), most: Duration::from_secs(2) };

    /// The pause after this many failures in a row. `chance` is uniform in [0, 1).
    ///
    /// With none, the node worked until a moment ago: streams end for harmless reasons too, so it is tried again at once,
    /// but not by all its clients in the same instant.
    pub(crate) fn pause(&self, failures: u32, chance: f64) -> Duration {
        match failures.checked_sub(1) {
            None => self.first.mul_f64(chance / 2.0),
            Some(doublings) => {
                let whole = self.first.saturating_mul(1 << doublings.min(16)).min(self.most);
                whole.mul_f64(1.0 - chance / 2.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most() {
        let pauses: Vec<_> = (0..9).map(|failures| Backoff::DEFAULT.pause(failures, 0.0).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(Backoff::DEFAULT.pause(u32::MAX, 0.0), Duration::from_secs(2));
    }

    #[test]
    fn chance_shortens_a_pause_by_up_to_half() {
        assert_eq!(Backoff::DEFAULT.pause(3, 0.999_999).as_millis(), 100);
        assert_eq!(Backoff::DEFAULT.pause(0, 0.999_999).as_millis(), 24);
    }
}
