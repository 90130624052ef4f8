//! What the rest of a process asks of its consensus, and what comes of it. Every ask has an end: an outcome, or time.

use std::collections::BTreeMap;

use limits::Moment;

use super::{PROPOSALS_MAX, PROPOSE_WITHIN};

/// The number of an ask, unique within one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ask(u64);

/// What came of an ask, where the log itself does not answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The proposal may be committed now, later, or never.
    Undecided {
        /// Which.
        ask: Ask,
    },
    /// A majority followed this node's leadership in answer to messages that were sent after the ask.
    Confirmed {
        /// Which.
        ask: Ask,
        /// The term that this node leads.
        term: u64,
        /// Everything that was committed when the round began lies at or before this index, and has been handed out.
        index: u64,
    },
    /// No majority did in time.
    Unconfirmed {
        /// Which.
        ask: Ask,
    },
}

/// Why nothing was asked. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    /// This node does not lead. Ask the leader.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<u8>,
    },
    /// Too many others wait. Later.
    #[error("too many wait")]
    Busy,
}

/// The asks of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    numbered: u64,
    /// Proposals that wait, and until when. Asks are numbered in the order of time, so the first ends first.
    proposals: BTreeMap<Ask, Moment>,
    /// The proposals that are in the log, by their index.
    placed: BTreeMap<u64, Ask>,
}

impl Asks {
    pub(super) fn next(&mut self) -> Ask {
        self.numbered += 1;
        Ask(self.numbered)
    }

    pub(super) fn propose(&mut self, now: Moment) -> Result<Ask, NotAsked> {
        if self.proposals.len() >= PROPOSALS_MAX {
            return Err(NotAsked::Busy);
        }
        let ask = self.next();
        self.proposals.insert(ask, now.saturating_add(PROPOSE_WITHIN));
        Ok(ask)
    }

    pub(super) fn place(&mut self, ask: Ask, index: u64) {
        self.placed.insert(index, ask);
    }

    /// The proposal that the entry at that index is, if it still waits: it waits no longer.
    pub(super) fn answer(&mut self, index: u64) -> Option<Ask> {
        let ask = self.placed.remove(&index)?;
        self.proposals.remove(&ask).map(|_| ask)
    }

    /// The proposals that lay at or after that index in a log that is cut there: nobody here will hear of them again.
    pub(super) fn cut(&mut self, index: u64) -> Vec<Ask> {
        let cut = self.placed.split_off(&index);
        cut.into_values().filter(|ask| self.proposals.remove(ask).is_some()).collect()
    }

    /// A proposal that waits no longer, whatever becomes of it.
    pub(super) fn forget(&mut self, ask: Ask) -> bool {
        self.proposals.remove(&ask).is_some()
    }

    /// When the next proposal has waited long enough.
    pub(super) fn timeout(&self) -> Option<Moment> {
        self.proposals.first_key_value().map(|(_, until)| *until)
    }

    /// A proposal that has waited long enough.
    pub(super) fn over(&mut self, now: Moment) -> Option<Ask> {
        let first = self.proposals.first_entry().filter(|first| *first.get() <= now)?;
        Some(first.remove_entry().0)
    }
}
