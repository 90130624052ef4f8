//! What follows from each entry of the log here, as `node::replica` does it: partitions begin and end their reigns, policies
//! are compiled, the desk learns of sessions. Reigns end before others begin, and routes change last.

use std::sync::Arc;

use control::{Cluster, Command, Effects as Followed};
use ownership::{Bug, Floor, Route, Routes, SessionId};
use ring::PartitionId;

use super::owner::Begins;
use super::{Effect, Node};
use crate::world::consensus::Committed;
use crate::world::packet::{Entry, Packet};

/// Keys that a node has room for, in all domains.
const KEYS_MAX: u64 = 1_000_000;

impl Node {
    /// Takes from the log what it has: entries, outcomes, messages, and who leads. Says whether there was anything.
    pub(super) fn follow_log(&mut self) -> bool {
        self.log.handle_timeout(self.at.boot);
        let mut busy = false;
        while let Some(committed) = self.log.poll_committed() {
            self.apply(committed);
            busy = true;
        }
        while let Some(outcome) = self.log.poll_outcome() {
            self.outcome(outcome);
            busy = true;
        }
        while let Some(message) = self.log.poll_message() {
            self.effect(Effect::Log(message.to, Packet::Log(message)));
        }
        self.see_leadership() || busy
    }

    fn apply(&mut self, Committed { index, payload, answers, .. }: Committed<Entry>) {
        if index <= self.state.applied() {
            return;
        }
        self.effect(Effect::Applied(index, payload.clone()));
        let Some(command) = payload else { return };
        let mut followed = Followed::default();
        let mut state = std::mem::take(&mut self.state);
        let result = state.apply(index, &command, &mut followed);
        if let (Ok(_), Some(cluster)) = (&result, state.cluster()) {
            self.terms = cluster.terms();
            self.follow(cluster, &command);
            self.holder_applied(index, self.terms);
        }
        self.state = state;
        self.keep_by_the_log();
        self.tell_deadlines();
        if let Some(ask) = answers {
            self.proposal_applied(ask, result);
        }
    }

    fn follow(&mut self, cluster: &Cluster, command: &Command) {
        match command {
            Command::Found(_) => self.follow_genesis(cluster),
            Command::OpenSession { session, .. } => self.desk_opened(*session),
            Command::Release { session, .. } => {
                self.follow_map(cluster);
                self.desk_closed(*session);
            }
            Command::Expire { sessions, .. } => {
                self.follow_map(cluster);
                sessions.iter().for_each(|session| self.desk_closed(*session));
            }
            Command::Appoint { .. } => self.follow_map(cluster),
            Command::ApplyPolicy(_) | Command::DefineInline(_) => self.follow_policies(cluster),
            Command::SetTtl { .. } | Command::SettleTtl { .. } => self.desk_terms(cluster.terms()),
            Command::LowerNMax { .. } | Command::Keep { .. } | Command::Trust { .. } => {}
        }
        self.announced = true;
    }

    fn follow_genesis(&mut self, cluster: &Cluster) {
        self.ingress.set_keys(&cluster.genesis);
        self.owner.make(cluster.genesis.partitions);
    }

    fn follow_map(&mut self, cluster: &Cluster) {
        for (partition, assignment) in cluster.map.iter() {
            let appointed =
                cluster.map.appointment(partition).filter(|appointment| Some(appointment.session) == self.mine);
            match appointed {
                Some(appointment) => {
                    let full = Floor::FullAsOf { at: self.now(), takeover_index: appointment.index };
                    let begins = if self.goes_on_at_an_epoch(appointment.session) {
                        Begins::With(Floor::Fresh)
                    } else if self.keep.is_some() {
                        Begins::Claiming(full, appointment.before)
                    } else {
                        Begins::With(if appointment.has_predecessor() { full } else { Floor::Fresh })
                    };
                    self.reign(partition, appointment.epoch, appointment.session, begins);
                }
                None => match self.mine.filter(|_| self.appoints_itself(partition)) {
                    Some(session) => {
                        let floor = Floor::FullAsOf { at: self.now(), takeover_index: 0 };
                        self.reign(partition, assignment.epoch, session, Begins::With(floor));
                    }
                    None => self.deactivate(partition, assignment.epoch, assignment.owner),
                },
            }
        }
        let routes =
            cluster.map.iter().map(|(_, assignment)| Route { epoch: assignment.epoch, session: assignment.owner });
        self.routes = Arc::new(Routes::new(cluster.map.version, routes));
    }

    /// A seeded bug: a process goes on at the epochs of the one before, as if it had its memory.
    fn goes_on_at_an_epoch(&self, session: SessionId) -> bool {
        Bug::RestartKeepsEpoch.is_here() && self.reused == Some(session)
    }

    /// A seeded bug: the ring is taken for an appointment.
    fn appoints_itself(&self, partition: PartitionId) -> bool {
        Bug::ReignsUnappointed.is_here() && u16::from(self.me) == partition.0
    }

    fn follow_policies(&mut self, cluster: &Cluster) {
        let script = Arc::clone(&self.script);
        let name = script.domain();
        let Some(domain) = cluster.policies.domain(name) else { return };
        let current = domain.current();
        if current.revision == self.revision {
            return;
        }
        let document = script.document(&current.document);
        let ids = |limit: &str| cluster.policies.limit(name, limit);
        let next = self.catalogue.with_domain(document, current.revision, &ids, KEYS_MAX);
        self.catalogue = Arc::new(next.expect("what the log took fits"));
        self.revision = current.revision;
    }

    /// The epoch that this node knows a partition to be at.
    pub(super) fn route_of(&self, partition: PartitionId) -> Route {
        self.routes.route_of(partition)
    }

    /// The newest map and the newest policy that this node goes by.
    pub(crate) fn standing(&self) -> (u64, u64) {
        (self.routes.map_version(), self.revision)
    }

    /// The windows, or times to fill, of the limits that this node knows, as far as they are short.
    pub(crate) fn short_periods(&self) -> impl Iterator<Item = limits::Span> {
        let domain = self.catalogue.domain(self.script.domain());
        let periods = domain.into_iter().flat_map(|domain| domain.limits()).filter_map(|limit| limit.rate());
        periods.map(|rate| rate.period()).filter(|period| *period <= crate::world::phases::SHORT)
    }
}
