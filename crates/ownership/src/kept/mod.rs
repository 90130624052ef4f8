//! What is kept of a partition outside its owner's memory, so that a successor need not assume the worst. The store that
//! keeps it may forget or roll back what it acknowledged; so nothing here is believed because it is there. A record counts
//! only for whom it names, only from the very life of the store that the log holds for that session, and only whole.

mod claim;
mod claims;
mod dealings;
mod durability;
mod errand;
mod gates;
pub(crate) mod ledger;
mod rules;
mod verdict;

use std::fmt;
use std::str::FromStr;

use limits::{Fingerprint, LimitId, Span, Used, WallTime};

use crate::session::{Epoch, SessionId};
pub use claim::{Claim, Claimed, Says};
pub use dealings::{AWAY_FOR, CLAIMS_AT_ONCE, Dealings, FOUND_WITHIN, LOOK_EVERY, REWRITTEN_WITHIN, WRITES_AT_ONCE};
pub use durability::{Durability, PROPOSE_AGAIN, SHUNNED_FOR, SILENT_AFTER, Step, Store};
pub use errand::{ClaimedAs, Errand, News, Unanswered, WriteAnswer};
pub use gates::Gates;
pub use ledger::{IDLE_AFTER, KEYS_PER_WRITE, Written};
pub use rules::{RAISED_BEFORE, RAISED_FOR, chunk};
pub use verdict::{Predecessor, Trust, Void};

/// One life of one history of a store: two random numbers of 160 bits. A store that restarts has another run; one that takes
/// over from its primary, or gets its place back, has another history. As long as both are the same, nothing that it
/// acknowledged can be missing unless somebody deleted it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// Which run of the process (`run_id`).
    pub run: [u8; 20],
    /// Which history of the data (`master_replid`).
    pub history: [u8; 20],
}

/// Not an [`Incarnation`]: that is written as twice 40 hexadecimal digits with a dot between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an incarnation is 40 hexadecimal digits, a dot, and 40 more")]
pub struct NotAnIncarnation;

/// In whose name a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keeper {
    /// The epoch of the reign.
    pub epoch: Epoch,
    /// The session that decides.
    pub session: SessionId,
}

/// What is kept of one key: its use when it was written, by the end of the interval that its limit decides on, and how much
/// may have been admitted since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptKey {
    /// The limit.
    pub limit: LimitId,
    /// The key under it.
    pub key: Fingerprint,
    /// The numbers that it was written under.
    pub form: limits::Form,
    /// Cluster time when it was written, where it was known.
    pub at: Option<WallTime>,
    /// What was used then.
    pub used: Used,
    /// The same in units, rounded up: for whoever reads it by other numbers.
    pub units: u64,
    /// Units that its owner may have admitted since then; at most [`limits::AMOUNT_MAX`].
    pub allowance: u64,
}

/// What a claim found kept of a partition, before anybody says whether it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// In whose name it was kept before the claim.
    pub keeper: Keeper,
    /// Whether its keeper had made it whole: one that was only claimed says nothing.
    pub complete: bool,
    /// How many keys its header counts.
    pub count: u64,
    /// The keys that could be read, in any order.
    pub keys: Vec<KeptKey>,
    /// How long before it was written its keeper had assumed the worst of keys that nothing was known of; `None`: it had not.
    /// Of a key that is not here, that still holds.
    pub assumed_full: Option<Span>,
    /// How many could not: another format, or a checksum that does not match.
    pub unreadable: u64,
}

impl Incarnation {
    /// Reads the two names as the store tells them, 40 hexadecimal digits each.
    ///
    /// # Errors
    ///
    /// [`NotAnIncarnation`].
    pub fn from_names(run: &str, history: &str) -> Result<Incarnation, NotAnIncarnation> {
        Ok(Incarnation { run: from_hex(run)?, history: from_hex(history)? })
    }
}

impl FromStr for Incarnation {
    type Err = NotAnIncarnation;

    fn from_str(text: &str) -> Result<Incarnation, NotAnIncarnation> {
        let (run, history) = text.split_once('.').ok_or(NotAnIncarnation)?;
        Incarnation::from_names(run, history)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        hex(f, &self.run)?;
        f.write_str(".")?;
        hex(f, &self.history)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({self})")
    }
}

fn from_hex(text: &str) -> Result<[u8; 20], NotAnIncarnation> {
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(NotAnIncarnation);
    let digits = text.as_bytes();
    if digits.len() != 40 {
        return Err(NotAnIncarnation);
    }
    let mut bytes = [0; 20];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_incarnation_reads_as_it_is_written_and_nothing_else_is_one() {
        let text = format!("{}.{}", "0123456789abcdef0123456789abcdef01234567", "f".repeat(40));
        assert_eq!(text.parse::<Incarnation>().unwrap().to_string(), text);
        for not in ["", "ab.cd", &text[1..], &text.replace('f', "g"), &text.replace('.', "")] {
            assert_eq!(not.parse::<Incarnation>(), Err(NotAnIncarnation), "{not}");
        }
    }
}
