//! What an owner looks up to decide: the numbers of each limit at one revision, and the room for keys. Policies
//! implement it; deciding needs to know nothing else about them.

use crate::budget::Budgets;
use crate::key::LimitId;
use crate::shapes::{ShapeId, Shapes};

/// The limits that an owner decides with, all at the revision it has applied.
pub trait Book {
    /// The limit's entry; `None` when this revision does not know the limit.
    fn limit(&self, limit: LimitId) -> Option<BookEntry>;
    /// The shapes that this book's ids mean.
    fn shapes(&self) -> &Shapes;
    /// The room for keys, per domain.
    fn budgets(&self) -> &Budgets;
}

/// One limit in a [`Book`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookEntry {
    /// The limit's numbers.
    pub shape: ShapeId,
    /// The index of the log entry at which the control plane allotted the limit's id. A limit allotted after a takeover
    /// reads fresh there: no predecessor can have decided it.
    pub allotted_at: u64,
}
