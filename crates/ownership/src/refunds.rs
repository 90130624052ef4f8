//! Charges that their caller may still take back: of checks that it named itself, for a minute, and not too many. The records
//! of a partition forget sooner; what is kept here is only what a refund needs.

use std::collections::{BTreeMap, VecDeque};

use limits::{Charge, Moment, Span};
use smallvec::SmallVec;

use crate::check::CheckId;

/// How long a check can be refunded, from when it was decided.
pub const REFUND_HORIZON: Span = Span::from_secs(60);

/// The most checks that one partition keeps for refunds; beyond it the oldest cannot be refunded any more.
pub const REFUNDS_MAX: usize = 4_096;

/// What one check charged.
type Charges = SmallVec<[Charge; 2]>;

/// The charges of one partition that can be refunded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refunds {
    kept: BTreeMap<CheckId, (Moment, Charges)>,
    /// In the order they were made; some may have been taken since.
    order: VecDeque<(Moment, CheckId)>,
}

impl Refunds {
    /// Keeps what a check charged. An id that returns takes the place of its former check, whose time is over.
    pub(crate) fn put(&mut self, id: CheckId, charges: Charges, now: Moment) {
        self.forget_over(now, 2);
        while self.order.len() >= REFUNDS_MAX {
            self.forget_oldest();
        }
        self.kept.insert(id, (now, charges));
        self.order.push_back((now, id));
    }

    /// The charges of a check whose time is not over, which are forgotten here.
    pub(crate) fn take(&mut self, id: CheckId, now: Moment) -> Option<Charges> {
        let (when, charges) = self.kept.remove(&id)?;
        (now.since(when) < REFUND_HORIZON).then_some(charges)
    }

    /// Forgets checks whose time is over, at most `steps`.
    pub(crate) fn forget_over(&mut self, now: Moment, steps: usize) {
        for _ in 0..steps {
            match self.order.front() {
                Some((when, _)) if now.since(*when) >= REFUND_HORIZON => self.forget_oldest(),
                Some(_) | None => return,
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some((when, id)) = self.order.pop_front() else { return };
        if self.kept.get(&id).is_some_and(|(kept, _)| *kept == when) {
            self.kept.remove(&id);
        }
    }
}
