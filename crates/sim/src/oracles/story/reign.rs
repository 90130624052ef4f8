//! One owner over one partition under one epoch, with every charge it made and what became of it.

use std::collections::{BTreeMap, BTreeSet};

use limits::{Moment, Now, Span};
use ownership::{Asker, CheckId, Epoch, RECORD_HORIZON, Recovered, SessionId};
use ring::PartitionId;

use crate::world::trace::Decided;

/// How long a decision is remembered at the least in real time, by a clock that runs fast.
pub(in crate::oracles) const REMEMBERED_AT_LEAST: Span = RECORD_HORIZON.scaled(9, 10);

/// A reign, or a copy's part of one.
pub(in crate::oracles) struct Reign<'a> {
    pub(in crate::oracles) node: u8,
    pub(in crate::oracles) partition: PartitionId,
    pub(in crate::oracles) epoch: Epoch,
    pub(in crate::oracles) session: SessionId,
    pub(in crate::oracles) began: Moment,
    /// When it was ended, or its process died; `None` while nobody ended it.
    pub(in crate::oracles) ended: Option<Moment>,
    pub(in crate::oracles) full_as_of: Option<Now>,
    /// What the store had of it, once that was known.
    pub(in crate::oracles) recovered: Option<(Moment, Recovered)>,
    /// The reign that it goes on from, at a machine that was copied.
    pub(in crate::oracles) copy_of: Option<usize>,
    /// The reign under the same epoch that a copy of this machine, or its original, began before.
    pub(in crate::oracles) beside: Option<usize>,
    /// Whether it was told that it began; decisions without are S1's business.
    pub(in crate::oracles) announced: bool,
    /// Every decision that was not a recorded one, by its place in the trace.
    pub(in crate::oracles) decisions: Vec<(usize, Moment, &'a Decided)>,
    pub(in crate::oracles) charges: Vec<Charge<'a>>,
    /// The last charge under an id.
    pub(in crate::oracles) by_id: BTreeMap<CheckId, usize>,
    /// Ids that were taken back here and not charged here: a copy gives back what its original charged.
    pub(in crate::oracles) given_back: BTreeSet<CheckId>,
    /// Ids that were cancelled before they were decided, with the owner's reading.
    pub(in crate::oracles) buried: BTreeMap<CheckId, Moment>,
    /// Ids whose debt was booked, with the moment.
    pub(in crate::oracles) booked: BTreeMap<CheckId, Moment>,
}

/// A decision that allowed, and so charged.
pub(in crate::oracles) struct Charge<'a> {
    pub(in crate::oracles) at: Moment,
    pub(in crate::oracles) decided: &'a Decided,
    /// When it was taken back, and for whom.
    pub(in crate::oracles) undone: Option<(Moment, Asker)>,
    /// When a debt was booked in its place.
    pub(in crate::oracles) settled: Option<Moment>,
}

impl Charge<'_> {
    /// Whether it is on the account in the end.
    pub(in crate::oracles) fn stands(&self) -> bool {
        self.undone.is_none() && self.settled.is_none()
    }
}

impl<'a> Reign<'a> {
    pub(super) fn begun(
        node: u8,
        (partition, epoch, session): (PartitionId, Epoch, SessionId),
        began: Moment,
        full_as_of: Option<Now>,
    ) -> Reign<'a> {
        Reign {
            node,
            partition,
            epoch,
            session,
            began,
            ended: None,
            full_as_of,
            recovered: None,
            copy_of: None,
            beside: None,
            announced: true,
            decisions: Vec::new(),
            charges: Vec::new(),
            by_id: BTreeMap::new(),
            given_back: BTreeSet::new(),
            buried: BTreeMap::new(),
            booked: BTreeMap::new(),
        }
    }

    /// Whether another one goes on under the same epoch, at the machine of which this one is a copy.
    pub(in crate::oracles) fn is_beside(&self) -> bool {
        self.copy_of.is_some() || self.beside.is_some()
    }

    pub(super) fn decide(&mut self, place: usize, at: Moment, decided: &'a Decided) -> Option<usize> {
        if decided.replayed {
            return None;
        }
        self.decisions.push((place, at, decided));
        if !decided.allowed {
            // What comes about this id from now on speaks of the refusal, which charged nothing.
            self.by_id.remove(&decided.id);
            return None;
        }
        self.charges.push(Charge { at, decided, undone: None, settled: None });
        let charge = self.charges.len() - 1;
        self.by_id.insert(decided.id, charge);
        Some(charge)
    }

    /// The charge of this id that stands, taken off the account.
    pub(super) fn undo(&mut self, at: Moment, id: CheckId, asker: Asker) -> Option<usize> {
        let Some(charge) = self.standing(id) else {
            self.given_back.insert(id);
            return None;
        };
        self.charges[charge].undone = Some((at, asker));
        Some(charge)
    }

    /// A debt was booked; the charge that stood in its place.
    pub(super) fn book(&mut self, at: Moment, clock: Moment, id: CheckId) -> Option<usize> {
        self.booked.insert(id, at);
        // A charge whose record is forgotten stands beside the debt.
        let is_known = |charge: &usize| clock.since(self.charges[*charge].decided.clock) < RECORD_HORIZON;
        let Some(charge) = self.standing(id).filter(is_known) else {
            self.given_back.insert(id);
            return None;
        };
        self.charges[charge].settled = Some(at);
        Some(charge)
    }

    fn standing(&self, id: CheckId) -> Option<usize> {
        self.by_id.get(&id).copied().filter(|charge| self.charges[*charge].stands())
    }
}
