//! The replicated state: what every node that applied the same entries holds alike. [`State::apply`] is the only way
//! in, decides by the state and the entry alone, and changes all of an entry or nothing.

use std::collections::{BTreeMap, BTreeSet};

use limits::Span;
use ownership::kept::Trust;
use ownership::lease::Terms;
use ownership::{Epoch, SessionId};

use crate::command::{AppointedBy, Command, PolicyProposal, Run};
use crate::event::Event;
use crate::genesis::Genesis;
use crate::lease::Lease;
use crate::map::{Appointment, Map};
use crate::policies::Policies;
use crate::refusal::{Applied, Refusal};
use crate::sessions::{EndedSession, Ending, KeptIn, Sessions};

/// The state machine. A clone is cheap enough for a snapshot: documents are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    applied: u64,
    cluster: Option<Cluster>,
}

/// Everything agreed on since genesis: plain values to read. They are changed by [`State::apply`] only, which is why a
/// [`State`] lends them and never hands them out to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The first entry.
    pub genesis: Genesis,
    /// How long leases last now.
    pub lease: Lease,
    /// Who lives.
    pub sessions: Sessions,
    /// Who owns what.
    pub map: Map,
    /// The documents, and the numbers of limits.
    pub policies: Policies,
    /// The last word of an operator who vouches for a store.
    pub trust: Option<Trust>,
}

/// What follows from an entry, beside its answer. The caller hands in an empty one or drains it between entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// What changed, in order.
    pub events: Vec<Event>,
    /// Every partition that got an owner.
    pub appointments: Vec<Appointment>,
}

impl State {
    /// The state before the first entry.
    pub fn new() -> State {
        State::default()
    }

    /// The log index of the last entry that was applied, refused ones included; 0 before the first.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// What was agreed on; `None` before genesis.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// Applies the entry at `index`. Indexes rise, with gaps where the log holds entries of its own.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] says why the entry is not legal; then nothing changed, but that a refused policy is an event.
    ///
    /// # Panics
    ///
    /// If `index` is not above the last one: the caller's log is out of order.
    pub fn apply(&mut self, index: u64, command: &Command, effects: &mut Effects) -> Result<Applied, Refusal> {
        assert!(index > self.applied, "entries are applied in the order of the log, each once");
        self.applied = index;
        match (&mut self.cluster, command) {
            (Some(cluster), Command::Found(_)) => Err(Refusal::AlreadyFounded { cluster: cluster.genesis.cluster }),
            (None, Command::Found(genesis)) => {
                self.cluster = Some(Cluster::found(genesis, effects)?);
                Ok(Applied::Founded)
            }
            (None, _) => Err(Refusal::NotFounded),
            (Some(cluster), command) => cluster.apply(index, command, effects),
        }
    }

    /// The state that a snapshot holds.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] names the first thing that cannot be: the snapshot is damaged or from a broken node. Do not use it.
    pub fn restore(applied: u64, cluster: Option<Cluster>) -> Result<State, Corrupt> {
        if let Some(cluster) = &cluster {
            cluster.check(applied)?;
        }
        Ok(State { applied, cluster })
    }
}

impl Cluster {
    fn found(genesis: &Genesis, effects: &mut Effects) -> Result<Cluster, Refusal> {
        genesis.validate()?;
        effects.events.push(Event::ClusterFounded { cluster: genesis.cluster, name: genesis.name.clone() });
        Ok(Cluster {
            genesis: genesis.clone(),
            lease: Lease::founded(&genesis.lease),
            sessions: Sessions::default(),
            map: Map::vacant(genesis.partitions),
            policies: Policies::default(),
            trust: None,
        })
    }

    fn apply(&mut self, index: u64, command: &Command, effects: &mut Effects) -> Result<Applied, Refusal> {
        match command {
            Command::Found(_) => Err(Refusal::AlreadyFounded { cluster: self.genesis.cluster }),
            Command::OpenSession { session, node } => {
                if self.sessions.open(index, *session, node, &self.genesis)? {
                    effects.events.push(Event::SessionOpened { session: *session, name: node.name.clone() });
                }
                Ok(Applied::SessionOpened { n_max: self.sessions.n_max })
            }
            Command::Release { session, takeovers } => {
                self.end_sessions(index, &[*session], Ending::Released, takeovers, effects)
            }
            Command::Expire { sessions, takeovers } => {
                self.end_sessions(index, sessions, Ending::Expired, takeovers, effects)
            }
            Command::Appoint { runs, by } => self.appoint(index, runs, *by, effects),
            Command::ApplyPolicy(proposal) => self.apply_policy(index, proposal, effects),
            Command::DefineInline(proposal) => self.policies.define(index, proposal).map(|_| Applied::InlineDefined),
            Command::LowerNMax { to } => self.lower_n_max(*to, effects),
            Command::SetTtl { ttl } => self.set_ttl(index, *ttl, effects),
            Command::SettleTtl { since } => self.settle_ttl(*since, effects),
            Command::Keep { session, number, store } => {
                self.keep(*session, KeptIn { number: *number, store: *store }, effects)
            }
            Command::Trust { incarnation } => {
                self.trust = Some(Trust { incarnation: *incarnation, since: index });
                effects.events.push(Event::StoreTrusted { incarnation: *incarnation });
                Ok(Applied::StoreNoted)
            }
        }
    }

    /// The terms that leases follow now.
    pub fn terms(&self) -> Terms {
        self.lease.terms(&self.genesis.lease)
    }

    fn lower_n_max(&mut self, to: u32, effects: &mut Effects) -> Result<Applied, Refusal> {
        let before = self.sessions.n_max;
        self.sessions.lower_n_max(to)?;
        effects.events.push(Event::NMaxLowered { n_max: to, before });
        Ok(Applied::NMaxLowered)
    }

    fn set_ttl(&mut self, index: u64, ttl: Span, effects: &mut Effects) -> Result<Applied, Refusal> {
        let before = self.lease.set(index, ttl, &self.genesis.lease)?;
        effects.events.extend(before.map(|before| Event::LeaseChanged { ttl, before }));
        Ok(Applied::LeaseChanged)
    }

    fn settle_ttl(&mut self, since: u64, effects: &mut Effects) -> Result<Applied, Refusal> {
        self.lease.settle(since)?;
        effects.events.push(Event::LeaseSettled { ttl: self.lease.ttl });
        Ok(Applied::LeaseChanged)
    }

    fn keep(&mut self, session: SessionId, kept: KeptIn, effects: &mut Effects) -> Result<Applied, Refusal> {
        if self.sessions.keep(session, kept)?.is_some() {
            let name = self.sessions.live.get(&session).map(|live| live.node.name.clone()).unwrap_or_default();
            effects.events.push(Event::StoreChanged { session, name, store: kept.store });
        }
        Ok(Applied::StoreNoted)
    }

    fn end_sessions(
        &mut self,
        index: u64,
        sessions: &[SessionId],
        ending: Ending,
        takeovers: &[Run],
        effects: &mut Effects,
    ) -> Result<Applied, Refusal> {
        let ending_now = self.all_live(sessions)?;
        if !takeovers.is_empty() && !self.map.is_placed() {
            return Err(Refusal::FirstPlacementPartial);
        }
        self.map.check(takeovers, &self.sessions, &ending_now)?;
        let live = self.sessions.live.iter().filter(|(session, _)| ending_now.contains(session));
        let kept = live.map(|(session, live)| (*session, live.kept.store)).collect();
        for &session in sessions {
            effects.events.push(ended_event(self.sessions.end(index, session, ending)));
        }
        self.map.vacate(index, &kept);
        Ok(self.take(index, takeovers, effects))
    }

    /// The sessions as a set, each live and named once.
    fn all_live(&self, sessions: &[SessionId]) -> Result<BTreeSet<SessionId>, Refusal> {
        let mut set = BTreeSet::new();
        for &session in sessions {
            if !self.sessions.lives(session) || !set.insert(session) {
                return Err(Refusal::NotLive { session });
            }
        }
        if set.is_empty() { Err(Refusal::Empty) } else { Ok(set) }
    }

    fn appoint(
        &mut self,
        index: u64,
        runs: &[Run],
        by: AppointedBy,
        effects: &mut Effects,
    ) -> Result<Applied, Refusal> {
        if runs.is_empty() {
            return Err(Refusal::Empty);
        }
        self.map.check(runs, &self.sessions, &BTreeSet::new())?;
        if !self.map.is_placed() {
            self.check_first_placement(runs, by)?;
        }
        Ok(self.take(index, runs, effects))
    }

    fn check_first_placement(&self, runs: &[Run], by: AppointedBy) -> Result<(), Refusal> {
        match (by, self.missing_founder()) {
            (AppointedBy::Leader, Some(missing)) => {
                return Err(Refusal::FounderMissing { missing: missing.to_owned() });
            }
            (AppointedBy::Operator, _) | (AppointedBy::Leader, None) => {}
        }
        let covered: usize = runs.iter().map(|run| usize::from(run.len)).sum();
        if covered == self.map.assignments.len() { Ok(()) } else { Err(Refusal::FirstPlacementPartial) }
    }

    /// The first founder that has no live session.
    pub fn missing_founder(&self) -> Option<&str> {
        self.genesis.founders.iter().find(|name| self.sessions.of_name(name).is_none()).map(String::as_str)
    }

    /// Appoints runs that were checked, and says what came of the entry.
    fn take(&mut self, index: u64, runs: &[Run], effects: &mut Effects) -> Applied {
        let before = effects.appointments.len();
        effects.appointments.extend(self.map.appoint(index, runs));
        let appointments = &effects.appointments[before..];
        let appointed = appointments.len() as u16;
        let mut takeovers: BTreeMap<SessionId, u16> = BTreeMap::new();
        for appointment in appointments.iter().filter(|appointment| appointment.has_predecessor()) {
            *takeovers.entry(appointment.session).or_default() += 1;
        }
        let told = takeovers.into_iter().map(|(to, partitions)| {
            let name = self.sessions.live.get(&to).map(|live| live.node.name.clone()).unwrap_or_default();
            Event::Takeover { to, name, partitions }
        });
        effects.events.extend(told);
        if self.map.version == index {
            let vacant = self.map.assignments.iter().filter(|assignment| assignment.owner.is_none()).count() as u16;
            effects.events.push(Event::MapPublished { version: index, appointed, vacant });
        }
        Applied::MapChanged { version: self.map.version, appointed }
    }

    fn apply_policy(
        &mut self,
        index: u64,
        proposal: &PolicyProposal,
        effects: &mut Effects,
    ) -> Result<Applied, Refusal> {
        let PolicyProposal { domain, author, .. } = proposal;
        let (domain, author) = (domain.clone(), author.clone());
        match self.policies.apply(index, proposal) {
            Ok(revision) => {
                effects.events.push(Event::PolicyApplied { domain, revision, author });
                Ok(Applied::PolicyApplied { revision })
            }
            Err(why) => {
                effects.events.push(Event::PolicyRefused { domain, author, why: why.clone() });
                Err(why)
            }
        }
    }
}

fn ended_event(EndedSession { session, name, ending, .. }: EndedSession) -> Event {
    match ending {
        Ending::Expired => Event::SessionExpired { session, name },
        Ending::Released => Event::SessionReleased { session, name },
    }
}

/// What in a snapshot cannot be. Ours or the disk's doing; the node stops rather than live by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// The genesis would have been refused.
    #[error("the genesis is not valid")]
    Genesis,
    /// A ttl that no lease can have, or from the future.
    #[error("the lease terms contradict genesis")]
    Lease,
    /// Too many sessions, two of one node or name, or fewer than n_max allows.
    #[error("the sessions contradict each other")]
    Sessions,
    /// Another number of partitions than genesis says, an owner that does not live, or an entry from the future.
    #[error("the map contradicts genesis or the sessions")]
    Map,
    /// A domain without a revision, or limits that share a number.
    #[error("the policies contradict each other")]
    Policies,
}

impl Cluster {
    fn check(&self, applied: u64) -> Result<(), Corrupt> {
        let ok = |holds: bool, otherwise: Corrupt| if holds { Ok(()) } else { Err(otherwise) };
        ok(self.genesis.validate().is_ok(), Corrupt::Genesis)?;
        ok(self.lease.is_consistent(applied, &self.genesis.lease), Corrupt::Lease)?;
        ok(self.sessions.are_consistent(), Corrupt::Sessions)?;
        let assignment_holds = |assignment: &crate::Assignment| {
            assignment.since <= applied
                && assignment.before.is_none_or(|before| before.keeper.epoch <= assignment.epoch)
                && assignment.owner.is_none_or(|owner| self.sessions.lives(owner) && assignment.epoch > Epoch(0))
        };
        let map_holds = self.map.assignments.len() == usize::from(self.genesis.partitions.get())
            && self.map.version <= applied
            && self.map.assignments.iter().all(assignment_holds);
        ok(map_holds, Corrupt::Map)?;
        ok(self.policies.are_consistent(), Corrupt::Policies)
    }
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
