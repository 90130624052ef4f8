//! A check as a table sees it, one leg per limit, and the buffers and refusals that a decision answers with.

use smallvec::SmallVec;

use crate::charge::Charge;
use crate::decision::{Absent, LegDecision};
use crate::key::Fingerprint;
use crate::shapes::ShapeId;

/// One limit's part in a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The limit's numbers.
    pub shape: ShapeId,
    /// The key that is counted.
    pub key: Fingerprint,
    /// Units to spend; 0 is a peek.
    pub cost: u64,
    /// How the key reads if the table does not have it.
    pub absent: Absent,
    /// A shadow leg never refuses; it is charged only if the check is allowed and the leg admits by itself.
    pub shadow: bool,
}

/// The buffers that a decision fills; used again from decision to decision, they allocate nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// What each leg says, in the order of the legs. When the check is denied, a leg that admits tells what stands
    /// without its cost, since nothing was charged.
    pub legs: SmallVec<[LegDecision; 2]>,
    /// What was charged, in the order in which it was.
    pub charges: SmallVec<[Charge; 2]>,
}

impl Decided {
    pub(crate) fn clear(&mut self) {
        self.legs.clear();
        self.charges.clear();
    }
}

/// The check could not be decided. Nothing was charged; the limit's failure mode answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leg {leg} cannot be decided: {why}")]
pub struct Undecided {
    /// Index of the leg that could not be decided.
    pub leg: usize,
    /// Why.
    pub why: WhyUndecided,
}

/// Why a check could not be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyUndecided {
    /// The key is new and its domain may hold no more keys; everything that could go has gone. The operator's to mend.
    #[error("its domain has no room for another key")]
    TableFull,
    /// The limit's windows go by cluster time, and this node has not heard of it yet. Passes by itself.
    #[error("cluster time is not known yet")]
    NoClusterTime,
    /// What is open under the hold's id is for less than is asked for, or for another key: another question under a known
    /// id. The caller's doing.
    #[error("something else is held under this id")]
    IdTaken,
    /// The limit goes by a calendar that this node does not know. The operator's to mend.
    #[error("its calendar is not known here")]
    NoCalendar,
}
