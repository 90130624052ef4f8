//! One node's part in the log, as a machine. Hand in one thing (`handle_*`, `propose`, `confirm`), then drain what comes
//! of it: first [`poll_committed`](Consensus::poll_committed), then [`poll_outcome`](Consensus::poll_outcome), then
//! [`poll_message`](Consensus::poll_message); then look at [`leadership`](Consensus::leadership) and at
//! [`poll_timeout`](Consensus::poll_timeout).

use std::collections::VecDeque;

use limits::{Moment, Span};

use super::asks::{Ask, Asks, NotAsked, Outcome};
use super::disk::{Disk, Entry};
use super::lead::Leading;
use super::message::{Body, Message};
use super::{BEHIND_WAITS, ELECTION_MAX, ELECTION_MIN, HELD_MAX, NODES_MAX};
use crate::world::making::Chance;

/// One process's consensus. A copy goes on as if it were the original; two of them in one group are more than the
/// algorithm bears.
#[derive(Clone, Debug)]
pub struct Consensus<P> {
    pub(super) me: u8,
    pub(super) nodes: u8,
    pub(super) disk: Disk<P>,
    pub(super) role: Role,
    /// Who leads the term on the disk, as far as this node has heard.
    pub(super) leader: Option<u8>,
    /// When this process last heard a leader.
    pub(super) heard: Option<Moment>,
    /// When it stands for election.
    pub(super) stands_at: Moment,
    /// Up to where the log was handed out.
    handed_out: u64,
    pub(super) asks: Asks,
    /// What waits while the disk is stuck; `None` while it is well.
    held: Option<VecDeque<Held<P>>>,
    pub(super) outcomes: VecDeque<Outcome>,
    messages: VecDeque<Message<P>>,
    chance: Chance,
}

#[derive(Clone, Debug)]
pub(super) enum Role {
    Follows,
    /// Asks for votes, and has those of these nodes, a bit each.
    Stands {
        votes: u8,
    },
    Leads(Leading),
}

#[derive(Clone, Debug)]
enum Held<P> {
    Message(Message<P>),
    Proposal(Ask, P),
}

/// An entry that is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<P> {
    /// Its place in the log.
    pub index: u64,
    /// The term it was proposed in.
    pub term: u64,
    /// What it says; nothing, where it is the first of its leader's term.
    pub payload: Option<P>,
    /// The ask of this process whose proposal it is, and which still waits.
    pub answers: Option<Ask>,
}

/// Who leads, as far as a node knows. A leader that is cut off goes on believing in itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The newest term it has seen.
    pub term: u64,
    /// Its leader, if it has heard of one.
    pub leader: Option<u8>,
    /// Whether that is this node.
    pub is_me: bool,
}

impl<P: Clone> Consensus<P> {
    /// A process that starts on that disk, as number `me` of `nodes` (at most [`NODES_MAX`]). What its disk knows to be
    /// committed is handed out at once.
    pub fn new(me: u8, nodes: u8, disk: Disk<P>, seed: u64, now: Moment) -> Consensus<P> {
        assert!(me < nodes && nodes <= NODES_MAX, "node {me} of {nodes}: votes are bits of a byte");
        let mut consensus = Consensus {
            me,
            nodes,
            disk,
            role: Role::Follows,
            leader: None,
            heard: None,
            stands_at: now,
            handed_out: 0,
            asks: Asks::default(),
            held: None,
            outcomes: VecDeque::new(),
            messages: VecDeque::new(),
            chance: Chance::of(seed, u64::from(me)),
        };
        // Where there was a leader before there may be one still, and it is given the time to say so.
        let patience = if consensus.disk.term == 0 { Span::ZERO } else { ELECTION_MAX };
        consensus.wait_for_leader(patience, now);
        consensus
    }

    /// What is left of the process when it dies.
    pub fn into_disk(self) -> Disk<P> {
        self.disk
    }

    /// What is on its disk.
    pub fn disk(&self) -> &Disk<P> {
        &self.disk
    }

    /// Another node says something.
    pub fn handle_message(&mut self, message: Message<P>, now: Moment) {
        match &mut self.held {
            Some(held) if held.len() < HELD_MAX => held.push_back(Held::Message(message)),
            Some(_) => {}
            None => self.take(message, now),
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        while let Some(ask) = self.asks.over(now) {
            self.outcomes.push_back(Outcome::Undecided { ask });
        }
        self.end_late_round(now);
        if self.held.is_some() {
            return;
        }
        match &self.role {
            Role::Leads(leading) if leading.heartbeat_at <= now => self.show_life(now),
            Role::Follows | Role::Stands { .. } if self.stands_at <= now => self.stand(now),
            Role::Leads(_) | Role::Follows | Role::Stands { .. } => {}
        }
    }

    /// The disk is stuck, or well again. While it is stuck, this node's consensus waits for it: it handles nothing and
    /// sends nothing, and afterwards first handles what has come meanwhile.
    pub fn handle_disk(&mut self, stuck: bool, now: Moment) {
        if stuck {
            self.held.get_or_insert_default();
            return;
        }
        for held in self.held.take().into_iter().flatten() {
            match held {
                Held::Message(message) => self.take(message, now),
                Held::Proposal(ask, payload) => self.write(ask, payload, now),
            }
        }
    }

    /// Proposes an entry. It is answered by [`Committed::answers`] or by [`Outcome::Undecided`].
    ///
    /// # Errors
    ///
    /// [`NotAsked`], and then nothing was proposed.
    pub fn propose(&mut self, payload: P, now: Moment) -> Result<Ask, NotAsked> {
        self.must_lead()?;
        let ask = self.asks.propose(now)?;
        match &mut self.held {
            Some(held) if held.len() < HELD_MAX => held.push_back(Held::Proposal(ask, payload)),
            Some(_) => {}
            None => self.write(ask, payload, now),
        }
        Ok(ask)
    }

    /// Asks for a confirmation that this node leads, by a round of messages that are sent from now on. One round is under
    /// way at a time; who asks meanwhile waits for the next.
    ///
    /// # Errors
    ///
    /// [`NotAsked`], and then nothing was asked.
    pub fn confirm(&mut self, now: Moment) -> Result<Ask, NotAsked> {
        self.must_lead()?;
        self.ask_for_round(now)
    }

    /// The next committed entry, in the order of the log.
    pub fn poll_committed(&mut self) -> Option<Committed<P>> {
        if self.handed_out == self.disk.committed {
            return None;
        }
        let Entry { term, payload } = self.disk.after(self.handed_out, 1).first()?.clone();
        self.handed_out += 1;
        let index = self.handed_out;
        Some(Committed { index, term, payload, answers: self.asks.answer(index) })
    }

    /// What came of an ask.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// What must go to another node.
    pub fn poll_message(&mut self) -> Option<Message<P>> {
        self.messages.pop_front()
    }

    /// When to call [`Consensus::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Moment> {
        let own = match &self.role {
            Role::Leads(leading) => leading.heartbeat_at,
            Role::Follows | Role::Stands { .. } => self.stands_at,
        };
        let own = self.held.is_none().then_some(own);
        [own, self.asks.timeout(), self.round_timeout()].into_iter().flatten().min()
    }

    /// Who leads, as far as this node knows.
    pub fn leadership(&self) -> Leadership {
        Leadership { term: self.disk.term, leader: self.leader, is_me: self.leader == Some(self.me) }
    }

    /// Whether this node believes to lead and has handed out the first entry of its term.
    pub fn has_begun(&self) -> bool {
        match &self.role {
            Role::Leads(leading) => self.handed_out >= leading.first,
            Role::Follows | Role::Stands { .. } => false,
        }
    }

    /// Whether a round of confirmation is under way.
    pub fn is_confirming(&self) -> bool {
        self.round_timeout().is_some()
    }

    fn must_lead(&self) -> Result<(), NotAsked> {
        match self.role {
            Role::Leads(_) => Ok(()),
            Role::Follows | Role::Stands { .. } => Err(NotAsked::NotLeader { leader: self.leader }),
        }
    }

    fn take(&mut self, message: Message<P>, now: Moment) {
        let Message { from, term, body, .. } = message;
        debug_assert!(from < self.nodes && from != self.me, "a message of node {from} to node {}", self.me);
        // As openraft does: a candidate with a shorter log is refused whatever its term, so that a node which hears nothing and
        // stands again and again does not depose one leader after another.
        // It hears so, and waits longer before it stands again: else two that take turns in being too early elect nobody.
        if let Body::AskVote { end } = body
            && (self.has_leader(now) || end < self.disk.end())
        {
            self.send(from, if end < self.disk.end() { Body::Behind } else { Body::Vote { granted: false } });
            return;
        }
        if term > self.disk.term {
            self.enter(term, now);
        }
        let is_current = term == self.disk.term;
        match body {
            Body::AskVote { .. } => self.take_ask(from, is_current, now),
            Body::Append { after, entries, committed, round } if is_current => {
                let matched = self.take_append(from, after, entries, committed, now);
                self.send(from, Body::Appended { matched, round });
            }
            // Only that there is a newer term. Its round is not said: the rounds of another term have the same numbers.
            Body::Append { .. } => self.send(from, Body::Appended { matched: Err(0), round: 0 }),
            Body::Vote { granted } if is_current && granted => self.take_vote(from, now),
            Body::Appended { matched, round } if is_current => self.take_appended(from, matched, round, now),
            Body::Behind if matches!(self.role, Role::Stands { .. }) => self.wait_for_leader(BEHIND_WAITS, now),
            Body::Vote { .. } | Body::Behind | Body::Appended { .. } => {}
        }
    }

    pub(super) fn send(&mut self, to: u8, body: Body<P>) {
        if self.held.is_none() {
            self.messages.push_back(Message { from: self.me, to, term: self.disk.term, body });
        }
    }

    pub(super) fn others(&self) -> impl Iterator<Item = u8> + use<P> {
        let me = self.me;
        (0..self.nodes).filter(move |node| *node != me)
    }

    /// How many of all nodes are most of them.
    pub(super) fn majority(&self) -> usize {
        usize::from(self.nodes) / 2 + 1
    }

    /// Waits for a leader to show up, for that long and then for what chance adds.
    pub(super) fn wait_for_leader(&mut self, patience: Span, now: Moment) {
        let drawn = self.chance.between(ELECTION_MIN.as_nanos(), ELECTION_MAX.as_nanos());
        self.stands_at = now.saturating_add(patience).saturating_add(Span::from_nanos(drawn));
    }
}
