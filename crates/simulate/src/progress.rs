//! How far a campaign is, now and then, for whoever waits.

use std::time::{Duration, Instant};

use crate::cli::complain;

/// How often it is said.
const EVERY: Duration = Duration::from_secs(15);

/// Seeds by time.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    said: Instant,
    /// Played so far.
    pub played: u64,
}

impl Progress {
    /// From now on.
    pub fn begin() -> Progress {
        let now = Instant::now();
        Progress { began: now, said: now, played: 0 }
    }

    /// Counts, and says so if it is time; then it returns true, and whatever else is done now and then may be done.
    pub fn add(&mut self, played: u64) -> bool {
        self.played += played;
        let due = self.said.elapsed() >= EVERY;
        if due {
            self.said = Instant::now();
            complain(&format!("{} seeds, {:.0} a second", self.played, self.rate()));
        }
        due
    }

    /// Seeds a second since the beginning.
    pub fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "for people")]
        let played = self.played as f64;
        played / self.began.elapsed().as_secs_f64().max(0.001)
    }

    /// Since the beginning, in seconds.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}
