//! What happened to one key under one limit, in the order of the trace.

use ring::PartitionId;

use limits::{Moment, Shape, WallTime};

/// Everything about one key.
pub(in crate::oracles) struct Account {
    pub(in crate::oracles) partition: PartitionId,
    pub(in crate::oracles) touches: Vec<Touch>,
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
