//! The map: which session owns each partition, under which epoch. It alone appoints. An owner is replaced only after
//! its session ended, and each owner has an epoch of its own, above all before it.

use std::collections::{BTreeMap, BTreeSet};

use ownership::kept::{Incarnation, Keeper, Predecessor};
use ownership::{Epoch, SessionId};
use ring::{PartitionCount, PartitionId};

use crate::command::Run;
use crate::refusal::Refusal;
use crate::sessions::Sessions;

/// Who owns what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// By partition number.
    pub assignments: Vec<Assignment>,
    /// The log index of the last entry that changed it; 0 before the first.
    pub version: u64,
}

/// What is decided about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch of the owner, or of the last one when vacant; 0 when there never was one.
    pub epoch: Epoch,
    /// Who decides; `None` while vacant. Always a live session.
    pub owner: Option<SessionId>,
    /// The log index of the entry that made it so.
    pub since: u64,
    /// Who decided last, before the owner; `None` where nobody did.
    pub before: Option<Predecessor>,
}

/// A session has become the owner of a partition. What a node needs to activate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appointment {
    /// Which partition.
    pub partition: PartitionId,
    /// Under which epoch.
    pub epoch: Epoch,
    /// Its owner.
    pub session: SessionId,
    /// The log index of the entry: a limit allotted later cannot have been decided by anybody before.
    pub index: u64,
    /// Who decided last before it; `None` where nobody did.
    pub before: Option<Predecessor>,
}

impl Appointment {
    /// Whether anybody decided for the partition before: if not, what nobody wrote down was never used.
    pub const fn has_predecessor(&self) -> bool {
        self.epoch.0 > 1
    }
}

impl Map {
    /// All partitions vacant, and no epoch given.
    pub(crate) fn vacant(count: PartitionCount) -> Map {
        let never = Assignment { epoch: Epoch(0), owner: None, since: 0, before: None };
        Map { assignments: vec![never; usize::from(count.get())], version: 0 }
    }

    /// What is decided about a partition; `None` beyond the last.
    pub fn get(&self, partition: PartitionId) -> Option<&Assignment> {
        self.assignments.get(usize::from(partition.0))
    }

    /// Every partition with what is decided about it.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, &Assignment)> {
        self.assignments.iter().enumerate().map(|(number, assignment)| (PartitionId(number as u16), assignment))
    }

    /// What a session owns.
    pub fn owned_by(&self, session: SessionId) -> impl Iterator<Item = PartitionId> {
        self.iter().filter(move |(_, assignment)| assignment.owner == Some(session)).map(|(partition, _)| partition)
    }

    /// Whether the first placement has happened: it covers everything at once.
    pub fn is_placed(&self) -> bool {
        self.assignments.iter().all(|assignment| assignment.epoch > Epoch(0))
    }

    /// The appointment that stands for a partition, if it has an owner: what a node activates by after a snapshot.
    pub fn appointment(&self, partition: PartitionId) -> Option<Appointment> {
        let Assignment { epoch, owner, since, before } = *self.get(partition)?;
        Some(Appointment { partition, epoch, session: owner?, index: since, before })
    }

    /// Whether `runs` may be appointed once the sessions in `ending` have ended: every partition exists, is named once
    /// and then has no owner (S7), and every new owner lives.
    pub(crate) fn check(&self, runs: &[Run], sessions: &Sessions, ending: &BTreeSet<SessionId>) -> Result<(), Refusal> {
        let mut named = vec![false; self.assignments.len()];
        for run in runs {
            if !sessions.lives(run.to) || ending.contains(&run.to) {
                return Err(Refusal::NotLive { session: run.to });
            }
            if run.len == 0 || run.numbers().end as usize > self.assignments.len() {
                return Err(Refusal::RunOutside);
            }
            for number in run.numbers() {
                let partition = PartitionId(number as u16);
                if std::mem::replace(&mut named[number as usize], true) {
                    return Err(Refusal::PartitionTwice { partition });
                }
                if self.assignments[number as usize].owner.is_some_and(|owner| !ending.contains(&owner)) {
                    return Err(Refusal::OwnerLives { partition });
                }
            }
        }
        Ok(())
    }

    /// Takes everything from sessions that ended, whose records counted where `ended` says. Says how many partitions became
    /// vacant.
    pub(crate) fn vacate(&mut self, index: u64, ended: &BTreeMap<SessionId, Option<Incarnation>>) -> u16 {
        let mut vacated = 0;
        for assignment in &mut self.assignments {
            let Some((session, store)) = assignment.owner.and_then(|owner| ended.get_key_value(&owner)) else {
                continue;
            };
            let keeper = Keeper { epoch: assignment.epoch, session: *session };
            let before = Some(Predecessor { keeper, store: *store, ended_at: index });
            *assignment = Assignment { owner: None, since: index, before, ..*assignment };
            vacated += 1;
        }
        if vacated > 0 {
            self.version = index;
        }
        vacated
    }

    /// Appoints runs that were checked; says what for every partition.
    pub(crate) fn appoint(&mut self, index: u64, runs: &[Run]) -> Vec<Appointment> {
        let mut appointments = Vec::new();
        for run in runs {
            for number in run.numbers() {
                let assignment = &mut self.assignments[number as usize];
                debug_assert!(assignment.owner.is_none(), "S7: an owner is replaced only after its session ended");
                let epoch = Epoch(assignment.epoch.0 + 1);
                let before = assignment.before;
                *assignment = Assignment { epoch, owner: Some(run.to), since: index, before };
                let partition = PartitionId(number as u16);
                appointments.push(Appointment { partition, epoch, session: run.to, index, before });
            }
        }
        if !appointments.is_empty() {
            self.version = index;
        }
        appointments
    }
}
