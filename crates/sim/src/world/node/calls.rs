//! Commands on their way into the log, and calls on their way to other nodes: who waits for what, and what becomes of it.
//! As `node::propose` does, a command goes to whoever leads as far as this node knows, once; what came of it is for its
//! proposer to make sense of.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::{Applied, Command, Refusal};
use limits::{Moment, Span};
use ownership::ingress::Delivery;

use super::lead::Duty;
use super::{Effect, Node};
use crate::world::consensus::{Ask, Outcome};
use crate::world::packet::{Address, Call, Entry, NotProposed, Packet};

/// How long one proposal at a leader may take, its transport included.
const PROPOSE_WITHIN: Span = Span::from_secs(6);

#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    next: u64,
    /// Calls to other nodes, with the machine's node that was called.
    away: BTreeMap<Call, Away>,
    /// Proposals of this process's consensus.
    proposed: BTreeMap<Ask, Proposer>,
}

#[derive(Clone, Debug)]
struct Away {
    to: u8,
    until: Moment,
    what: What,
}

/// What a call was for.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Renewal,
    Proposal(Purpose),
    /// A question's number, its group, and the attempt.
    Check(u64, u8, u8),
}

/// For whom something was proposed here.
#[derive(Clone, Copy, Debug)]
enum Proposer {
    Me(Purpose),
    There(Address, Call),
}

/// What a command of this process is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Open,
    Release,
    Lead(Duty),
    Operator(usize),
    /// A word on where this session's records count; whether it is that they do nowhere.
    Keep(bool),
}

impl Calls {
    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        self.away.values().map(|away| away.until).min()
    }

    pub(super) fn is_renewing(&self) -> bool {
        self.away.values().any(|away| matches!(away.what, What::Renewal))
    }

    /// Whether it is being proposed that this session's records count nowhere.
    pub(super) fn is_giving_records_up(&self) -> bool {
        let away = self.away.values().any(|away| matches!(away.what, What::Proposal(Purpose::Keep(true))));
        away || self.proposed.values().any(|proposer| matches!(proposer, Proposer::Me(Purpose::Keep(true))))
    }
}

impl Node {
    /// Calls another node.
    pub(super) fn call(&mut self, to: u8, what: What, within: Span) -> Call {
        self.calls.next += 1;
        let call = Call(self.calls.next);
        let until = self.at.boot.saturating_add(within);
        self.calls.away.insert(call, Away { to, until, what });
        call
    }

    /// What a call was for, now that it is answered; nothing, if it was given up.
    pub(super) fn return_of(&mut self, call: Call) -> Option<What> {
        self.calls.away.remove(&call).map(|away| away.what)
    }

    /// Forgets calls of a kind whose answer nobody waits for any more.
    pub(super) fn forget_calls(&mut self, of: impl Fn(&What) -> bool) {
        self.calls.away.retain(|_, away| !of(&away.what));
    }

    /// Proposes a command at the leader, once. What came of it is handed to [`Node::proposed`].
    pub(super) fn propose(&mut self, purpose: Purpose, command: Command) {
        let command = Arc::new(command);
        match self.log.leadership().leader {
            None => self.proposed(purpose, Err(NotProposed::NoLeader)),
            Some(leader) if leader == self.me => self.propose_here(Proposer::Me(purpose), command),
            Some(leader) => {
                let call = self.call(leader, What::Proposal(purpose), PROPOSE_WITHIN);
                self.effect(Effect::Call(leader, Packet::Propose(call, command)));
            }
        }
    }

    pub(super) fn propose_for(&mut self, from: Address, call: Call, command: Entry) {
        self.propose_here(Proposer::There(from, call), command);
    }

    fn propose_here(&mut self, proposer: Proposer, command: Entry) {
        match self.log.propose(command, self.at.boot) {
            Ok(ask) => drop(self.calls.proposed.insert(ask, proposer)),
            Err(_) => self.tell_proposer(proposer, Err(NotProposed::NoLeader)),
        }
    }

    /// An entry that this process proposed was applied.
    pub(super) fn proposal_applied(&mut self, ask: Ask, result: Result<Applied, Refusal>) {
        if let Some(proposer) = self.calls.proposed.remove(&ask) {
            self.tell_proposer(proposer, result.map_err(NotProposed::Refused));
        }
    }

    pub(super) fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Undecided { ask } => {
                if let Some(proposer) = self.calls.proposed.remove(&ask) {
                    self.tell_proposer(proposer, Err(NotProposed::Undecided));
                }
            }
            Outcome::Confirmed { ask, term, .. } => self.confirmed(ask, Some(term)),
            Outcome::Unconfirmed { ask } => self.confirmed(ask, None),
        }
    }

    fn tell_proposer(&mut self, proposer: Proposer, result: Result<Applied, NotProposed>) {
        match proposer {
            Proposer::Me(purpose) => self.proposed(purpose, result),
            Proposer::There(to, call) => self.effect(Effect::Reply(to, Packet::Proposed(call, result))),
        }
    }

    pub(super) fn proposed_there(&mut self, call: Call, result: Result<Applied, NotProposed>) {
        if let Some(What::Proposal(purpose)) = self.return_of(call) {
            self.proposed(purpose, result);
        }
    }

    fn proposed(&mut self, purpose: Purpose, result: Result<Applied, NotProposed>) {
        match purpose {
            Purpose::Open => self.opened(&result),
            Purpose::Release => self.released(&result),
            Purpose::Lead(duty) => self.done_by_leader(duty, &result),
            Purpose::Operator(operator) => self.effect(Effect::Operated(operator, result.is_ok())),
            // What came of it is seen in the log; where nothing is, it is proposed anew.
            Purpose::Keep(_) => {}
        }
    }

    pub(super) fn operate(&mut self, operator: usize, command: Entry) {
        self.propose(Purpose::Operator(operator), Command::clone(&command));
    }

    /// A call could not be delivered, or its connection broke.
    pub(super) fn failed(&mut self, call: Call, delivery: Delivery) {
        match self.return_of(call) {
            Some(What::Renewal) | None => {}
            Some(What::Proposal(purpose)) => self.proposed(purpose, Err(not_proposed(delivery))),
            Some(What::Check(question, group, attempt)) => self.unreachable(question, group, attempt, delivery),
        }
    }

    /// Every connection with a node is gone.
    pub(super) fn broken(&mut self, node: u8) {
        let calls: Vec<Call> =
            self.calls.away.iter().filter(|(_, away)| away.to == node).map(|(call, _)| *call).collect();
        for call in calls {
            self.failed(call, Delivery::Lost);
        }
    }

    /// Calls whose time is up.
    pub(super) fn give_calls_up(&mut self) -> bool {
        let now = self.at.boot;
        let over = |away: &Away| away.until <= now;
        if !self.calls.away.values().any(over) {
            return false;
        }
        let calls: Vec<Call> = self.calls.away.iter().filter(|(_, away)| over(away)).map(|(call, _)| *call).collect();
        for call in calls {
            self.failed(call, Delivery::Lost);
        }
        true
    }
}

const fn not_proposed(delivery: Delivery) -> NotProposed {
    match delivery {
        Delivery::NeverSent => NotProposed::NoLeader,
        Delivery::Lost => NotProposed::Undecided,
    }
}
