//! What the leader does while it leads, as `node::leader` does it: it begins with a confirmation, founds the cluster if nobody
//! has, grants leases, ends those that ran out, and gives what has no owner a place. Everything is proposed; what is legal is
//! for the log to say.

use std::collections::BTreeSet;

use control::{Applied, AppointedBy, Command};
use limits::{Moment, Span};
use ownership::{Bug, SessionId};

use super::calls::Purpose;
use super::{Effect, Node};
use crate::world::consensus::{Ask, Leadership};
use crate::world::packet::NotProposed;
use crate::world::script::id_of;
use crate::world::trace::Event;

/// How long a duty rests after it failed.
const AGAIN_AFTER: Span = Span::from_millis(250);

/// How often a leader looks at its members although nothing seems to have changed.
const LOOK_EVERY: Span = Span::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Lead {
    term: u64,
    stage: Stage,
    /// Sessions whose lease has run out, until the log has ended them.
    due: BTreeSet<SessionId>,
    expire: Errand,
    place: Errand,
    numbers: Errand,
    /// The log does not take the first policy.
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Leadership is confirmed for the first time: asked, or to be asked again at that moment.
    First(Result<Ask, Moment>),
    /// The first entry is written, where there is none.
    Found(Errand),
    /// The desk is open.
    Serves,
}

/// What a leader proposes again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// Proposed.
    Asked,
    /// Not before that moment.
    Rests(Moment),
    /// Nothing to do, unless something changes or that moment comes.
    Idle(Moment),
}

/// Which of a leader's duties a proposal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    Found,
    Expire,
    Place,
    FirstPolicy,
    /// `n_max` falls, or a shorter ttl is waited for.
    Numbers,
}

impl Errand {
    fn is_due(self, now: Moment, changed: bool) -> bool {
        match self {
            Errand::Asked => false,
            Errand::Rests(until) => until <= now,
            Errand::Idle(until) => changed || until <= now,
        }
    }

    fn timeout(self) -> Option<Moment> {
        match self {
            Errand::Asked => None,
            Errand::Rests(until) | Errand::Idle(until) => Some(until).filter(|until| *until < Moment::MAX),
        }
    }
}

impl Lead {
    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        match self.stage {
            Stage::First(asked) => asked.err(),
            Stage::Found(errand) => errand.timeout(),
            Stage::Serves => [self.expire, self.place, self.numbers].into_iter().filter_map(Errand::timeout).min(),
        }
    }
}

impl Node {
    /// Begins to lead, or leads no more, as consensus has it now.
    pub(super) fn see_leadership(&mut self) -> bool {
        let leadership = self.log.leadership();
        if self.believed != Some(leadership) {
            self.believed = Some(leadership);
            self.effect(Effect::Believes(leadership));
        }
        let Leadership { term, is_me, .. } = leadership;
        if self.lead.as_ref().map(|lead| lead.term) == is_me.then_some(term) {
            return false;
        }
        self.close_desk();
        let now = self.at.boot;
        let idle = Errand::Idle(now);
        let lead = |term| Lead {
            term,
            stage: Stage::First(Err(now)),
            due: BTreeSet::new(),
            expire: Errand::Idle(Moment::MAX),
            place: idle,
            numbers: idle,
            refused: false,
        };
        self.lead = is_me.then(|| lead(term));
        true
    }

    pub(super) fn go_on_leading(&mut self) -> bool {
        let Some(lead) = &self.lead else { return false };
        match lead.stage {
            Stage::First(Err(at)) if at <= self.at.boot => self.confirm_first(),
            Stage::First(_) => false,
            Stage::Found(errand) => self.found(errand),
            Stage::Serves => self.expire() | self.place() | self.numbers(),
        }
    }

    fn confirm_first(&mut self) -> bool {
        let now = self.at.boot;
        let asked = self.log.confirm(now).map_err(|_| now.saturating_add(AGAIN_AFTER));
        if let Some(lead) = &mut self.lead {
            lead.stage = Stage::First(asked);
        }
        true
    }

    /// A confirmation is over: it held in that term, or failed.
    pub(super) fn confirmed(&mut self, ask: Ask, term: Option<u64>) {
        let (now, node) = (self.at.boot, self.machine);
        if let Some(lead) = self.lead.as_mut().filter(|lead| lead.stage == Stage::First(Ok(ask))) {
            let own = lead.term;
            let holds = term == Some(own);
            lead.stage = if holds {
                Stage::Found(Errand::Idle(now))
            } else {
                Stage::First(Err(now.saturating_add(AGAIN_AFTER)))
            };
            if holds {
                self.trace(Event::Leads { node, term: own });
            }
            return;
        }
        self.round_over(ask, term);
    }

    /// Writes the first entry, if there is none; then opens the desk.
    fn found(&mut self, errand: Errand) -> bool {
        if self.cluster().is_some() {
            let term = self.lead.as_mut().map(|lead| {
                lead.stage = Stage::Serves;
                lead.term
            });
            term.into_iter().for_each(|term| self.open_desk(term));
            return true;
        }
        if !errand.is_due(self.at.boot, false) {
            return false;
        }
        self.set_stage(Stage::Found(Errand::Asked));
        let command = self.script.found();
        self.propose(Purpose::Lead(Duty::Found), command);
        true
    }

    fn set_stage(&mut self, stage: Stage) {
        self.lead.iter_mut().for_each(|lead| lead.stage = stage);
    }

    /// Sessions whose lease has run out.
    pub(super) fn note_due(&mut self, sessions: Vec<SessionId>) {
        let now = self.at.boot;
        let Some(lead) = &mut self.lead else { return };
        lead.due.extend(sessions);
        if matches!(lead.expire, Errand::Idle(_)) {
            lead.expire = Errand::Idle(now);
        }
    }

    /// Gossip says that a node is dead: a hint, and no more. A seeded bug takes it for a fact.
    pub(super) fn suspect(&mut self, node: u8) {
        if !Bug::SuspicionEndsSession.is_here() {
            return;
        }
        let session =
            self.cluster().and_then(|cluster| cluster.sessions.of_node(id_of(node))).map(|(session, _)| session);
        session.into_iter().for_each(|session| self.note_due(vec![session]));
    }

    /// One entry ends all sessions that are due and gives away what they owned.
    fn expire(&mut self) -> bool {
        let now = self.at.boot;
        let odd = self.passed_over();
        let (Some(lead), Some(cluster)) = (&mut self.lead, self.state.cluster()) else { return false };
        if !lead.expire.is_due(now, false) {
            return false;
        }
        lead.due.retain(|session| cluster.sessions.lives(*session));
        let sessions: Vec<SessionId> = lead.due.iter().copied().collect();
        if sessions.is_empty() {
            lead.expire = Errand::Idle(Moment::MAX);
            return true;
        }
        let takeovers = cluster.plan_takeovers(&sessions, &odd);
        lead.expire = Errand::Asked;
        self.propose(Purpose::Lead(Duty::Expire), Command::Expire { sessions, takeovers });
        true
    }

    fn passed_over(&self) -> BTreeSet<SessionId> {
        self.desk.as_ref().map(|desk| desk.grantor().passed_over()).unwrap_or_default()
    }

    /// Appoints owners for what has none, once that is due.
    fn place(&mut self) -> bool {
        let (now, changed) = (self.at.boot, self.announced);
        let Some(lead) = self.lead.as_ref().filter(|lead| lead.place.is_due(now, changed)) else { return false };
        let refused = lead.refused;
        let planned = self.placement(refused);
        let errand = if planned.is_some() { Errand::Asked } else { Errand::Idle(now.saturating_add(LOOK_EVERY)) };
        self.lead.iter_mut().for_each(|lead| lead.place = errand);
        match planned {
            Some((duty, command)) => {
                self.propose(Purpose::Lead(duty), command);
                true
            }
            None => false,
        }
    }

    fn placement(&self, refused: bool) -> Option<(Duty, Command)> {
        let cluster = self.cluster()?;
        let (by, odd) = (AppointedBy::Leader, self.passed_over());
        if cluster.map.is_placed() {
            let runs = cluster.plan_vacant(&odd);
            return (!runs.is_empty()).then_some((Duty::Place, Command::Appoint { runs, by }));
        }
        if cluster.policies.domain(self.script.domain()).is_none() && !refused {
            return self.script.proposal(0).map(|command| (Duty::FirstPolicy, command));
        }
        let runs = cluster.plan_first_placement(&odd)?;
        Some((Duty::Place, Command::Appoint { runs, by }))
    }

    /// Lets the number of lenders fall once everybody goes by it, and leaders wait no longer than leases last once every
    /// longer one is over.
    fn numbers(&mut self) -> bool {
        let (now, changed) = (self.at.boot, self.announced);
        if !self.lead.as_ref().is_some_and(|lead| lead.numbers.is_due(now, changed)) {
            return false;
        }
        let planned = self.changed_numbers();
        let errand = if planned.is_some() { Errand::Asked } else { Errand::Idle(now.saturating_add(LOOK_EVERY)) };
        self.lead.iter_mut().for_each(|lead| lead.numbers = errand);
        match planned {
            Some(command) => {
                self.propose(Purpose::Lead(Duty::Numbers), command);
                true
            }
            None => false,
        }
    }

    fn changed_numbers(&self) -> Option<Command> {
        let cluster = self.cluster()?;
        let lower = cluster.plan_lower_n_max().filter(|_| self.all_go_by(cluster.sessions.n_max, BTreeSet::new()));
        let waits_too_long = cluster.terms().waited() > cluster.terms().ttl();
        let settled = waits_too_long && self.desk.as_ref()?.grantor().is_settled(self.at.boot);
        let settle = settled.then_some(Command::SettleTtl { since: cluster.lease.changed_at });
        lower.map(|to| Command::LowerNMax { to }).or(settle)
    }

    /// What came of something that a leader proposed.
    pub(super) fn done_by_leader(&mut self, duty: Duty, result: &Result<Applied, NotProposed>) {
        let now = self.at.boot;
        let again = Errand::Rests(now.saturating_add(AGAIN_AFTER));
        let next = if result.is_ok() { Errand::Rests(now) } else { again };
        let Some(lead) = &mut self.lead else { return };
        match duty {
            Duty::Found if matches!(lead.stage, Stage::Found(_)) => lead.stage = Stage::Found(next),
            Duty::Found => {}
            Duty::Expire => lead.expire = next,
            Duty::Numbers => lead.numbers = next,
            Duty::Place => lead.place = next,
            Duty::FirstPolicy => {
                let is_refused = matches!(result, Err(NotProposed::Refused(_)));
                lead.refused |= is_refused;
                lead.place = if is_refused { Errand::Rests(now) } else { next };
            }
        }
    }

    /// Whether this process leads as far as it knows, and in which term.
    pub(crate) fn leads(&self) -> Option<u64> {
        self.lead.as_ref().map(|lead| lead.term)
    }

    /// Whether this process leads and has applied the first entry of its term.
    pub(crate) fn has_begun(&self) -> bool {
        self.log.has_begun()
    }

    pub(crate) fn is_confirming(&self) -> bool {
        self.log.is_confirming()
    }
}
