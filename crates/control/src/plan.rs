//! What a leader proposes: plans made from the state alone, so that any node could check them. The ring proposes a
//! place for every partition; a plan takes only those places that may be appointed now, since an owner that lives keeps
//! what it has until moves exist. Sessions that a leader does not trust are passed over: they keep what they have and get
//! nothing new.

use std::collections::BTreeSet;

use ownership::SessionId;
use ring::{Member, NodeId, PartitionId};

use crate::command::Run;
use crate::state::Cluster;

impl Cluster {
    /// Owners for all partitions, for `Appoint`. `None` unless nothing was ever placed and all founders have sessions.
    pub fn plan_first_placement(&self, passed_over: &BTreeSet<SessionId>) -> Option<Vec<Run>> {
        let due = !self.map.is_placed() && self.missing_founder().is_none();
        due.then(|| self.plan(&BTreeSet::new(), passed_over))
    }

    /// Who takes what these sessions own, for `Expire` or `Release`, together with whatever is vacant. Empty when
    /// nobody else lives or nothing was ever placed.
    pub fn plan_takeovers(&self, ending: &[SessionId], passed_over: &BTreeSet<SessionId>) -> Vec<Run> {
        if !self.map.is_placed() {
            return Vec::new();
        }
        self.plan(&ending.iter().copied().collect(), passed_over)
    }

    /// Who takes what is vacant, for `Appoint`. Empty when nothing is, when nobody lives, and before the first
    /// placement.
    pub fn plan_vacant(&self, passed_over: &BTreeSet<SessionId>) -> Vec<Run> {
        self.plan_takeovers(&[], passed_over)
    }

    /// A lower number among which emergency shares may be divided, for `LowerNMax`; `None` if it is as low as it may be.
    pub fn plan_lower_n_max(&self) -> Option<u32> {
        let least = self.sessions.lending().max(1);
        (least < self.sessions.n_max).then_some(least)
    }

    /// A place for every partition that has no owner once `ending` have ended.
    fn plan(&self, ending: &BTreeSet<SessionId>, passed_over: &BTreeSet<SessionId>) -> Vec<Run> {
        let stays = |session: SessionId| !ending.contains(&session);
        let takes = |session: &SessionId| stays(*session) && !passed_over.contains(session);
        let living: Vec<SessionId> = self.sessions.live.keys().copied().filter(takes).collect();
        let members: Vec<Member> = living.iter().map(|session| self.member(*session)).collect();
        let owners: Vec<Option<NodeId>> = self
            .map
            .assignments
            .iter()
            .map(|assignment| assignment.owner.filter(|&owner| stays(owner)).map(|owner| owner.node))
            .collect();
        if owners.iter().all(Option::is_some) {
            return Vec::new();
        }
        let placement = ring::place(&members, &owners, self.genesis.partitions);
        let wanted = placement.iter().zip(&owners).map(|(place, owner)| if owner.is_none() { *place } else { None });
        runs(wanted.map(|node| node.and_then(|node| living.iter().copied().find(|session| session.node == node))))
    }

    fn member(&self, session: SessionId) -> Member {
        Member { name: self.sessions.live[&session].node.name.clone(), id: session.node }
    }
}

/// Neighbouring partitions with one owner, as runs; partitions without one are left out.
fn runs(owners: impl Iterator<Item = Option<SessionId>>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, to) in owners.enumerate() {
        let Some(to) = to else { continue };
        match runs.last_mut() {
            Some(run) if run.to == to && run.numbers().end as usize == number => run.len += 1,
            Some(_) | None => runs.push(Run { first: PartitionId(number as u16), len: 1, to }),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
