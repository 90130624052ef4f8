//! Who ran where, and what was broken when.

use limits::Moment;

/// A process on a node.
#[derive(Clone, Copy)]
pub(in crate::oracles) struct Process {
    pub(in crate::oracles) nonce: u64,
    pub(in crate::oracles) started: Moment,
    pub(in crate::oracles) died: Option<Moment>,
}

/// A fault that began.
#[derive(Clone, Copy)]
pub(in crate::oracles) struct Spell {
    /// Its place among the scenario's faults.
    pub(in crate::oracles) fault: usize,
    /// Whom it befell, a bit each.
    pub(in crate::oracles) nodes: u8,
    pub(in crate::oracles) began: Moment,
    /// When it was over; `None` for what has no end of its own.
    pub(in crate::oracles) ended: Option<Moment>,
}

impl Spell {
    pub(in crate::oracles) fn befell(&self, node: u8) -> bool {
        1u8.checked_shl(u32::from(node)).is_some_and(|bit| self.nodes & bit != 0)
    }

    /// Whether it was there at any time between two moments.
    pub(in crate::oracles) fn overlaps(&self, from: Moment, until: Moment) -> bool {
        self.began <= until && self.ended.is_none_or(|ended| ended >= from)
    }
}
