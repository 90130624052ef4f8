//! Whether a record that a claim found counts. The log says who decided before, and in which life of which store that
//! session's records are; nothing that the store itself says can replace that.

use std::fmt;

use crate::bug::Bug;
use crate::kept::{Incarnation, Keeper, Record};

/// Who decided for a partition last, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its session, and the epoch of its reign.
    pub keeper: Keeper,
    /// In which life of the store its records counted when it ended; `None`: they did not.
    pub store: Option<Incarnation>,
    /// The log index of the entry that ended it.
    pub ended_at: u64,
}

/// An operator's word that a store has lost nothing on its way into this life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Which life.
    pub incarnation: Incarnation,
    /// The log index of the entry that said so. It speaks of sessions that had ended by then.
    pub since: u64,
}

/// Why a record does not count, and the worst case stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// Nothing is kept.
    Nothing,
    /// It is not the last owner's: that one did not write, or could not.
    OfAnother,
    /// The last owner's records did not count when it ended: the store was away.
    Volatile,
    /// The store restarted, failed over, or was put back since; only an operator can say whether anything is missing.
    OtherLife {
        /// The life that the log holds.
        held: Incarnation,
        /// The life that answered.
        by: Incarnation,
    },
    /// Its owner had claimed it and not written yet.
    Incomplete,
    /// Keys are missing, or cannot be read.
    Damaged,
}

impl Record {
    /// Whether this record, as the store in the life `by` gave it out, says the most that `predecessor` may have admitted.
    ///
    /// # Errors
    ///
    /// [`Void`]: it does not.
    pub fn counts(&self, by: Incarnation, predecessor: &Predecessor, trust: Option<&Trust>) -> Result<(), Void> {
        let held = predecessor.store.ok_or(Void::Volatile)?;
        if self.keeper != predecessor.keeper {
            return Err(Void::OfAnother);
        }
        if !self.complete {
            return Err(Void::Incomplete);
        }
        if self.unreadable > 0 || self.keys.len() as u64 != self.count {
            return Err(Void::Damaged);
        }
        // Last, since an operator's word can mend this and nothing else.
        let is_trusted = |trust: &Trust| trust.incarnation == by && predecessor.ended_at <= trust.since;
        let is_same = held == by || Bug::AnyLifeOfTheStore.is_here() || (Bug::RunAlone.is_here() && held.run == by.run);
        if !is_same && !trust.is_some_and(is_trusted) {
            return Err(Void::OtherLife { held, by });
        }
        Ok(())
    }
}

impl Void {
    /// The word that metrics and logs use.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Void::Nothing => "nothing",
            Void::OfAnother => "of_another",
            Void::Volatile => "volatile",
            Void::OtherLife { .. } => "other_life",
            Void::Incomplete => "incomplete",
            Void::Damaged => "damaged",
        }
    }
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use ring::NodeId;

    use super::*;
    use crate::session::{Epoch, SessionId};

    const X: Incarnation = Incarnation { run: [1; 20], history: [1; 20] };
    /// The same process after it was a replica for a while.
    const PROMOTED: Incarnation = Incarnation { run: [1; 20], history: [2; 20] };
    const KEEPER: Keeper =
        Keeper { epoch: Epoch(3), session: SessionId { node: NodeId(NonZeroU64::MIN), nonce: 7, counter: 1 } };

    fn record() -> Record {
        Record { keeper: KEEPER, complete: true, count: 0, keys: Vec::new(), assumed_full: None, unreadable: 0 }
    }

    const fn ended(store: Option<Incarnation>) -> Predecessor {
        Predecessor { keeper: KEEPER, store, ended_at: 40 }
    }

    #[test]
    fn a_record_counts_from_the_life_of_the_store_that_the_log_holds_and_from_no_other() {
        assert_eq!(record().counts(X, &ended(Some(X)), None), Ok(()));
        assert_eq!(record().counts(X, &ended(None), None), Err(Void::Volatile));
        let other = Void::OtherLife { held: X, by: PROMOTED };
        assert_eq!(record().counts(PROMOTED, &ended(Some(X)), None), Err(other));
    }

    #[test]
    fn a_record_counts_for_the_last_owner_alone() {
        let earlier = Record { keeper: Keeper { epoch: Epoch(2), ..KEEPER }, ..record() };
        assert_eq!(earlier.counts(X, &ended(Some(X)), None), Err(Void::OfAnother));
        let next_life = SessionId { counter: 2, ..KEEPER.session };
        let other = Record { keeper: Keeper { session: next_life, ..KEEPER }, ..record() };
        assert_eq!(other.counts(X, &ended(Some(X)), None), Err(Void::OfAnother));
    }

    #[test]
    fn a_record_counts_whole_or_not_at_all() {
        let counts = |record: Record| record.counts(X, &ended(Some(X)), None);
        assert_eq!(counts(Record { complete: false, ..record() }), Err(Void::Incomplete));
        assert_eq!(counts(Record { unreadable: 1, count: 1, ..record() }), Err(Void::Damaged));
        assert_eq!(counts(Record { count: 1, ..record() }), Err(Void::Damaged));
    }

    #[test]
    fn an_operator_vouches_for_one_life_and_for_sessions_that_had_ended() {
        let trust = Trust { incarnation: PROMOTED, since: 40 };
        assert_eq!(record().counts(PROMOTED, &ended(Some(X)), Some(&trust)), Ok(()));
        let later = Predecessor { ended_at: 41, ..ended(Some(X)) };
        let other = Void::OtherLife { held: X, by: PROMOTED };
        assert_eq!(record().counts(PROMOTED, &later, Some(&trust)), Err(other));
        assert_eq!(record().counts(PROMOTED, &ended(None), Some(&trust)), Err(Void::Volatile), "nothing was kept");
    }
}
