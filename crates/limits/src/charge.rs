//! What a charge did, so that it can be undone, exactly it and never an amount (law 8).

use crate::bucket::Tat;
use crate::hold::HoldId;
use crate::key::Fingerprint;
use crate::shapes::ShapeId;
use crate::time::Moment;

/// One charge of one key, as its record keeps it: 64 bytes. Good for one [`Table::undo`](crate::Table::undo) in the
/// table that made it; whoever keeps it forgets it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    pub(crate) key: Fingerprint,
    pub(crate) trace: Trace,
    pub(crate) cost: u64,
    /// The table's count of charges and refunds when this one was made.
    pub(crate) seq: u64,
    pub(crate) shape: ShapeId,
    pub(crate) mark: Mark,
}

impl Charge {
    /// The key that was charged.
    pub fn key(&self) -> Fingerprint {
        self.key
    }

    /// The shape it was charged under.
    pub fn shape(&self) -> ShapeId {
        self.shape
    }

    /// Units charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// So many units of it, for undoing a part. What is left of the charge cannot be undone after that.
    pub fn part(&self, units: u64) -> Charge {
        Charge { cost: units.min(self.cost), ..*self }
    }
}

/// Where in a key's state the charge lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// The arrival time right after it.
    Bucket(Tat),
    /// The instant it was written at.
    Log(Moment),
    /// The end of the window it was counted in.
    Window(u64),
    /// The instant at which the cell it was counted in began.
    Cell(u64),
    /// The first and the last index of the calendar's windows it was counted in.
    Calendar { first: u64, last: u64 },
    /// The lease that it is.
    Lease(HoldId),
}

/// Tells one life of an entry from the next: given when an entry is made and again when a limit change converts it in a
/// way that older charges cannot be found in. 24 bits, so that an entry stays within 40 bytes; a mark comes round again
/// after 16.7 million entries of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark([u8; 3]);

impl Mark {
    pub(crate) fn next(self) -> Mark {
        let [low, middle, high] = self.0;
        let [low, middle, high, _] = (u32::from_le_bytes([low, middle, high, 0]) + 1).to_le_bytes();
        Mark([low, middle, high])
    }
}
