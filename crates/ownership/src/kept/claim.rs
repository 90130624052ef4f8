//! Claims: a successor puts a partition into its own name in the store and is told, in the same breath, what was kept before.
//! What such an answer says of the past depends on who asks and why, and is worked out here.

use limits::Moment;
use ring::PartitionId;

use crate::kept::{Incarnation, Keeper, Predecessor, Record, Trust, Void};
use crate::partition::Found;
use crate::session::Epoch;

/// A partition that is to be in its owner's name in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub partition: PartitionId,
    /// In whose name.
    pub keeper: Keeper,
    /// Who decided last; `None`: nobody, or nobody that the log knows of.
    pub before: Option<Predecessor>,
    /// Since when the claim is wanted.
    pub since: Moment,
    /// Whether what was kept is known, and only the name in the store is lost.
    pub again: bool,
}

/// What a claim came to in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Nothing was kept of the partition. It is in the claimer's name now.
    New {
        /// The life of the store that the claim lies in.
        by: Incarnation,
        /// Whether another cluster of this name lived before.
        previous_cluster: bool,
    },
    /// The partition is in the claimer's name now, and this was kept.
    Taken {
        /// The life of the store that the claim lies in.
        by: Incarnation,
        /// What was kept.
        record: Record,
        /// Whether another cluster of this name lived before.
        previous_cluster: bool,
    },
    /// The claimer has written under this claim already, so what was before is gone. Nothing changed, not even the number.
    Held {
        /// The life of the store.
        by: Incarnation,
    },
    /// Somebody came later, or another session of the same epoch. Nothing changed.
    Fenced {
        /// In whose name the partition is.
        keeper: Keeper,
    },
    /// What lies there is of another format. Nothing changed.
    UnknownFormat,
}

/// What a claim's answer says to whoever made it.
#[derive(Clone, Copy, Debug)]
pub enum Says<'a> {
    /// The partition is in the claimer's name, and this is known of what was kept.
    Found(Found<'a>),
    /// The partition is in the claimer's name, and what was kept does not count.
    Void(Void),
    /// It is not: it is this keeper's, or nobody can read whose; nothing may be written.
    Fenced(Option<Keeper>),
}

impl Claim {
    /// Whether nobody reigned before.
    fn is_first(&self) -> bool {
        self.before.is_none() && self.keeper.epoch == Epoch(1)
    }

    /// What the answer says to this claim, and `trust`, the last word of an operator.
    pub fn read<'a>(&self, claimed: &'a Claimed, trust: Option<&Trust>) -> Says<'a> {
        match claimed {
            Claimed::Fenced { keeper } => Says::Fenced(Some(*keeper)),
            Claimed::UnknownFormat => Says::Fenced(None),
            // What was known stays known: the partition is in this reign's name again, and everything is written anew.
            Claimed::New { .. } | Claimed::Taken { .. } | Claimed::Held { .. } if self.again => {
                Says::Found(Found::Nothing)
            }
            Claimed::New { previous_cluster: false, .. } if self.is_first() => Says::Found(Found::Nobody),
            // One that is held has been written under already: there is nothing more to be found.
            Claimed::New { .. } | Claimed::Held { .. } => Says::Void(Void::Nothing),
            Claimed::Taken { by, record, .. } => match &self.before {
                None => Says::Void(Void::OfAnother),
                Some(before) => match record.counts(*by, before, trust) {
                    Ok(()) => Says::Found(Found::Record(record)),
                    Err(void) => Says::Void(void),
                },
            },
        }
    }
}

impl Void {
    /// What the claimer goes on with: only where an operator's word could mend it, what lies there is left for that.
    pub const fn found(&self) -> Found<'static> {
        match self {
            Void::OtherLife { .. } => Found::InDoubt,
            Void::Nothing | Void::OfAnother | Void::Volatile | Void::Incomplete | Void::Damaged => Found::Nothing,
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "tests")]
mod tests {
    use std::num::NonZeroU64;

    use ring::NodeId;

    use super::*;
    use crate::session::SessionId;

    const X: Incarnation = Incarnation { run: [1; 20], history: [1; 20] };
    const Y: Incarnation = Incarnation { run: [2; 20], history: [2; 20] };

    fn keeper(epoch: u64) -> Keeper {
        let session = SessionId { node: NodeId(NonZeroU64::MIN), nonce: epoch, counter: 1 };
        Keeper { epoch: Epoch(epoch), session }
    }

    fn claim(epoch: u64) -> Claim {
        let before = (epoch > 1).then(|| Predecessor { keeper: keeper(epoch - 1), store: Some(X), ended_at: 40 });
        Claim { partition: PartitionId(3), keeper: keeper(epoch), before, since: Moment::ZERO, again: false }
    }

    fn taken(by: Incarnation) -> Claimed {
        let record =
            Record { keeper: keeper(1), complete: true, count: 0, keys: Vec::new(), assumed_full: None, unreadable: 0 };
        Claimed::Taken { by, record, previous_cluster: false }
    }

    #[test]
    fn the_first_owner_of_a_new_cluster_is_told_that_there_was_nobody() {
        let new = |previous_cluster| Claimed::New { by: X, previous_cluster };
        assert!(matches!(claim(1).read(&new(false), None), Says::Found(Found::Nobody)));
        assert!(matches!(claim(1).read(&new(true), None), Says::Void(Void::Nothing)), "a cluster of its name lived");
        assert!(matches!(claim(2).read(&new(false), None), Says::Void(Void::Nothing)), "somebody reigned, and is gone");
    }

    #[test]
    fn a_record_is_found_where_it_counts_and_left_alone_where_an_operator_may_vouch_for_it() {
        assert!(matches!(claim(2).read(&taken(X), None), Says::Found(Found::Record(_))));
        let Says::Void(void) = claim(2).read(&taken(Y), None) else { panic!("another life") };
        assert!(matches!(void.found(), Found::InDoubt));
        let trust = Trust { incarnation: Y, since: 41 };
        assert!(matches!(claim(2).read(&taken(Y), Some(&trust)), Says::Found(Found::Record(_))));
        assert!(
            matches!(claim(1).read(&taken(X), None), Says::Void(Void::OfAnother)),
            "nobody is known to have reigned"
        );
    }

    #[test]
    fn a_claim_that_is_made_again_finds_nothing_more_and_one_that_came_too_late_finds_a_fence() {
        let again = Claim { again: true, ..claim(2) };
        for claimed in [taken(X), Claimed::Held { by: X }, Claimed::New { by: Y, previous_cluster: true }] {
            assert!(matches!(again.read(&claimed, None), Says::Found(Found::Nothing)), "{claimed:?}");
        }
        let fenced = Claimed::Fenced { keeper: keeper(9) };
        assert!(matches!(again.read(&fenced, None), Says::Fenced(Some(by)) if by == keeper(9)));
        assert!(matches!(claim(2).read(&Claimed::UnknownFormat, None), Says::Fenced(None)));
    }
}
