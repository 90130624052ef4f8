//! Questions to owners that came to no decision, counted by the last that was heard before their failure modes answered.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ownership::ingress::{Outcome, WhyFailed};

/// The counters, in the order of [`WhyFailed::ALL`].
#[derive(Debug, Default)]
pub(super) struct Unanswered([AtomicU64; WhyFailed::ALL.len()]);

impl Unanswered {
    /// Counts what a question to an owner came to, if that is no decision.
    pub(super) fn count(&self, outcome: &Outcome) {
        // By its word, which is one for all legs.
        if let Some(why) = outcome.why_unanswered()
            && let Some(place) = WhyFailed::ALL.iter().position(|known| known.as_str() == why.as_str())
        {
            self.0[place].fetch_add(1, Relaxed);
        }
    }

    /// How many there were, by the word of the reason.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        WhyFailed::ALL.iter().zip(&self.0).map(|(why, count)| (why.as_str(), count.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_counted_under_its_word_whichever_leg_it_was_for() {
        let unanswered = Unanswered::default();
        WhyFailed::ALL.iter().for_each(|why| unanswered.count(&Outcome::Failed(*why)));
        unanswered.count(&Outcome::TableFull { leg: 3 });
        let counts: Vec<_> = unanswered.counts().collect();
        assert!(counts.iter().all(|(word, count)| *count == 1 + u64::from(*word == "table_full")), "{counts:?}");
    }
}
