//! What happened to one key under one limit, in the order of the trace.

use ring::PartitionId;

use limits::{Moment, Shape, WallTime};

/// Everything about one key.
pub(in crate::oracles) struct Account {
    pub(in crate::oracles) partition: PartitionId,
    pub(in crate::oracles) touches: Vec<Touch>,
    /// When it was first met by other numbers than before.
    changes: Vec<Moment>,
}

impl Account {
    pub(super) const fn new(partition: PartitionId) -> Account {
        Account { partition, touches: Vec::new(), changes: Vec::new() }
    }

    /// The first decision after a change of the limit settles how the key drains from then on, a refusal too.
    pub(super) fn touch(&mut self, touch: Touch) {
        let decided = |touch: &&Touch| !matches!(touch.what, What::Undone(_));
        let before = self.touches.iter().rev().find(decided).filter(|_| decided(&&touch));
        if before.is_some_and(|before| before.shape != touch.shape) {
            self.changes.push(touch.at);
        }
        self.touches.push(touch);
    }

    /// The numbers that it was met by between two moments.
    pub(in crate::oracles) fn met_between(&self, one: Moment, other: Moment) -> impl Iterator<Item = Shape> {
        let decided = self.touches.iter().filter(|touch| !matches!(touch.what, What::Undone(_)));
        decided.filter(move |touch| (one..=other).contains(&touch.at)).map(|touch| touch.shape)
    }

    /// Whether it was met by the same numbers all the while between two moments, as far as anybody decided.
    pub(in crate::oracles) fn is_unchanged(&self, one: Moment, other: Moment) -> bool {
        let changes_by = |at: Moment| self.changes.partition_point(|change| *change <= at);
        changes_by(one) == changes_by(other)
    }
}

/// One thing that concerned a key.
#[derive(Clone, Copy)]
pub(in crate::oracles) struct Touch {
    pub(in crate::oracles) reign: usize,
    pub(in crate::oracles) at: Moment,
    /// The owner's clock.
    pub(in crate::oracles) clock: Moment,
    pub(in crate::oracles) wall: Option<WallTime>,
    pub(in crate::oracles) cost: u64,
    pub(in crate::oracles) shape: Shape,
    pub(in crate::oracles) what: What,
}

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::oracles) enum What {
    /// Charged, by the reign's charge of this number.
    Charged(usize),
    /// The charge of this number was taken back, or a debt took its place.
    Undone(usize),
    /// A debt was booked.
    Owed,
    /// Refused; whether it was said that a takeover alone is to blame.
    Refused {
        /// So it was said.
        recovering: bool,
        /// Whether no other limit of the question refused.
        alone: bool,
    },
}
