//! What an owner looks up to decide: the numbers of each limit at one revision, and the room for keys. Policies
//! implement it; deciding needs to know nothing else about them.

use crate::budget::Budgets;
use crate::key::LimitId;
use crate::shapes::{ShapeId, Shapes};

/// The limits that an owner decides with, all at the revision it has applied.
pub trait Book {
    /// The limit's entry with these numbers of it; `None` when this revision does not know the limit, or it does not have
    /// such numbers.
    fn limit(&self, limit: LimitId, variant: Variant) -> Option<BookEntry>;
    /// The shapes that this book's ids mean.
    fn shapes(&self) -> &Shapes;
    /// The room for keys, per domain.
    fn budgets(&self) -> &Budgets;
}

/// Which of a limit's numbers a check goes by: its own, or those of a plan or of an override. A name, not a place in a
/// list: it means the same at every revision that knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant(pub u64);

impl Variant {
    /// The limit's own numbers.
    pub const OWN: Variant = Variant(0);
}

/// One limit in a [`Book`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookEntry {
    /// The limit's numbers.
    pub shape: ShapeId,
    /// The index of the log entry at which the control plane allotted the limit's id. A limit allotted after a takeover
    /// reads fresh there: no predecessor can have decided it.
    pub allotted_at: u64,
    /// The revision of the limit's domain in this book; 0 where nobody counts revisions.
    pub revision: u64,
}
