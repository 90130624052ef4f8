//! Questions to owners that came to no decision, counted by the last that was heard before their failure modes answered.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ownership::ingress::{Outcome, WhyFailed};

/// The counters, in the order of [`WhyFailed::ALL`].
#[derive(Debug, Default)]
pub(super) struct Unanswered([AtomicU64; WhyFailed::ALL.len()]);

impl Unanswered {
    /// Counts what a question to an owner came to, if that is no decision.
    pub(super) fn count(&self, outcome: &Outcome) {
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
