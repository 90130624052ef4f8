//! Making a story smaller that shows a mistake: faults are taken away, then asks, then the weather, as long as the same
//! check still fails. What is left is seldom the smallest that there is, and small enough to be read.

use limits::Moment;

use super::{Part, Places};
use crate::world::Scenario;

/// Stories that are played at most to make one smaller; at the end what is left by then is told.
pub const TRIES_MAX: u32 = 700;

/// The smaller story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// What is left of the story.
    pub part: Part,
    /// How many stories were played for it.
    pub tries: u32,
}

/// Makes the scenario smaller. `fails` plays one and says when the check in question failed, if it did; the whole
/// scenario failed at `at`.
pub fn shrink(whole: &Scenario, at: Moment, fails: &mut dyn FnMut(&Scenario) -> Option<Moment>) -> Shrunk {
    let mut search = Search { whole, fails, tries: 0, at, part: Part::default() };
    search.faults();
    search.later_asks();
    search.asks();
    search.weather();
    search.faults();
    Shrunk { part: search.part, tries: search.tries }
}

struct Search<'a> {
    whole: &'a Scenario,
    fails: &'a mut dyn FnMut(&Scenario) -> Option<Moment>,
    tries: u32,
    at: Moment,
    part: Part,
}

impl Search<'_> {
    /// Keeps the smaller part if it still fails.
    fn keep_if_it_fails(&mut self, part: Part) -> bool {
        if self.tries >= TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let failed = (self.fails)(&part.of(self.whole));
        if let Some(at) = failed {
            (self.part, self.at) = (part, at);
        }
        failed.is_some()
    }

    fn kept_faults(&self) -> Places {
        self.part.faults.clone().unwrap_or_else(|| Places::all(self.whole.faults.len()))
    }

    fn kept_asks(&self) -> Places {
        self.part.asks.clone().unwrap_or_else(|| Places::all(self.whole.asks.len()))
    }

    /// One after the other, from the last, until none can go.
    fn faults(&mut self) {
        let mut went = true;
        while went {
            went = false;
            for place in (0..self.kept_faults().as_slice().len()).rev() {
                let faults = Some(self.kept_faults().without(place, place + 1));
                went |= self.keep_if_it_fails(Part { faults, ..self.part.clone() });
            }
        }
    }

    /// What is asked after the failure cannot have caused it, though it may have named the owner that a fault befell.
    fn later_asks(&mut self) {
        let asks = self.kept_asks();
        let until = self.at;
        let earlier = asks.as_slice().iter().filter(|place| self.whole.asks[**place].at <= until).count();
        if earlier < asks.as_slice().len() {
            let asks = Some(asks.without(earlier, asks.as_slice().len()));
            self.keep_if_it_fails(Part { asks, ..self.part.clone() });
        }
    }

    /// Halves, quarters, and so on down to single ones (Zeller and Hildebrandt's delta debugging, without complements).
    fn asks(&mut self) {
        let mut size = self.kept_asks().as_slice().len().div_ceil(2);
        while size > 0 && self.tries < TRIES_MAX {
            self.asks_by(size);
            size /= 2;
        }
    }

    fn asks_by(&mut self, size: usize) {
        let mut end = self.kept_asks().as_slice().len();
        while end > 0 {
            let from = end.saturating_sub(size);
            let asks = Some(self.kept_asks().without(from, end));
            self.keep_if_it_fails(Part { asks, ..self.part.clone() });
            end = from;
        }
    }

    fn weather(&mut self) {
        self.keep_if_it_fails(Part { calm: true, ..self.part.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails where these asks and this fault are all there.
    fn shrunk(asks: &[usize], fault: usize) -> (Shrunk, Scenario) {
        let whole = Scenario::of(5);
        let needed: Vec<_> = asks.iter().map(|place| whole.asks[*place].clone()).collect();
        let broken = whole.faults[fault].clone();
        let mut fails = |part: &Scenario| {
            let there = needed.iter().all(|ask| part.asks.contains(ask)) && part.faults.contains(&broken);
            there.then_some(needed[needed.len() - 1].at)
        };
        let at = whole.end_at;
        (shrink(&whole, at, &mut fails), whole)
    }

    #[test]
    fn what_is_needed_stays_and_nothing_else() {
        let (shrunk, _) = shrunk(&[3, 140, 141, 400], 1);
        assert_eq!(shrunk.part.to_string(), " --faults 1 --asks 3,140-141,400 --calm");
        assert!(shrunk.tries < TRIES_MAX, "{}", shrunk.tries);
    }

    #[test]
    fn a_story_that_fails_whatever_is_asked_is_left_with_nothing() {
        let whole = Scenario::of(5);
        let shrunk = shrink(&whole, whole.end_at, &mut |part: &Scenario| Some(part.end_at));
        assert_eq!(shrunk.part.to_string(), " --faults none --asks none --calm");
    }

    #[test]
    fn the_search_ends_at_its_bound() {
        let whole = Scenario::of(5);
        let mut tries = 0;
        // Only the whole fails: each single thing is tried in vain.
        let shrunk = shrink(&whole, whole.end_at, &mut |_: &Scenario| {
            tries += 1;
            None
        });
        assert!(shrunk.part.is_whole());
        assert!(tries <= TRIES_MAX && tries == shrunk.tries);
    }
}
