//! How the store stands, as the task that keeps the connection sees it.

use ownership::kept::Incarnation;
use tokio::time::Instant;

use crate::error::NotUp;

/// Whether the store can be asked, and which one it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Not connected yet, for the first time.
    Connecting,
    /// It can be asked.
    Up {
        /// Which life of which history it is. May change on one connection.
        incarnation: Incarnation,
        /// Its version, as it calls it.
        version: String,
        /// What an operator should know and need not change.
        warnings: Vec<String>,
    },
    /// It cannot be asked. Tried again all the time.
    Down {
        /// Why, in words for an operator.
        why: String,
        /// Since when.
        since: Instant,
    },
    /// It answers and cannot be used as it is; an operator must act. Tried again all the time, all the same.
    Refused {
        /// Why, and what to do, in words for an operator.
        why: String,
    },
}

impl Standing {
    /// What follows on `self` when the connection does not serve: time runs on where it was down before.
    pub(crate) fn fallen(&self, not_up: NotUp, now: Instant) -> Standing {
        match (not_up, self) {
            (NotUp::Refused(why), _) => Standing::Refused { why },
            (NotUp::Down(why), Standing::Down { since, .. }) => Standing::Down { why, since: *since },
            (NotUp::Down(why), _) => Standing::Down { why, since: now },
        }
    }
}
