//! The life of a process, as `node::session` leads it: it opens a session through the log, lives it by renewing its lease, and
//! opens the next one when the log has ended it.

use control::{Applied, Command, Refusal};
use limits::{Moment, Span};
use ownership::lease::{Ack, Holder, Renewal, Terms};
use ownership::{Bug, SessionId};

use super::calls::{Purpose, What};
use super::{Effect, Exit, Node};
use crate::world::packet::{Call, NotProposed, NotRenewed, Packet};
use crate::world::script::{id_of, spec_of};
use crate::world::trace::Event;

/// How long a refused or failed attempt to open a session rests.
const OPEN_AGAIN: Span = Span::from_millis(200);

/// Where a process stands with its session.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one per process")]
pub(super) enum Life {
    Unborn,
    Opening { session: SessionId, step: Step },
    Living(Holder),
    Over,
}

/// Where the opening of a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To be proposed, not before that moment.
    Rests(Moment),
    /// Proposed.
    Asked,
    /// The log took it; this node's own replica has yet to see it.
    Taken,
}

impl Life {
    pub(super) const fn unborn() -> Life {
        Life::Unborn
    }

    pub(super) fn into_holder(self) -> Option<Holder> {
        match self {
            Life::Living(holder) => Some(holder),
            Life::Unborn | Life::Opening { .. } | Life::Over => None,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        match self {
            Life::Opening { step: Step::Rests(until), .. } => Some(*until),
            Life::Living(holder) => holder.poll_timeout(),
            Life::Unborn | Life::Over | Life::Opening { step: Step::Asked | Step::Taken, .. } => None,
        }
    }
}

impl Node {
    /// A process begins. One with a seeded bug goes on with what the one before knew of its session.
    pub(super) fn be_born(&mut self, reused: Option<Holder>) {
        match reused {
            Some(holder) => {
                self.mine = Some(holder.session());
                if Bug::RestartReusesLease.is_here() {
                    self.owner.set_lease(holder.bound());
                }
                self.life = Life::Living(holder);
            }
            None => self.open(SessionId { node: id_of(self.me), nonce: self.nonce, counter: 1 }),
        }
    }

    fn open(&mut self, session: SessionId) {
        self.mine = Some(session);
        self.life = Life::Opening { session, step: Step::Rests(self.at.boot) };
    }

    /// What came of the proposal to open a session.
    pub(super) fn opened(&mut self, result: &Result<Applied, NotProposed>) {
        let now = self.at.boot;
        let Life::Opening { session, step } = &mut self.life else { return };
        match result {
            Ok(_) => *step = Step::Taken,
            Err(NotProposed::Refused(Refusal::SessionEnded)) => {
                let next = next_of(*session);
                self.open(next);
            }
            Err(NotProposed::Refused(_) | NotProposed::NoLeader | NotProposed::Undecided) => {
                *step = Step::Rests(now.saturating_add(OPEN_AGAIN));
            }
        }
    }

    pub(super) fn go_on_living(&mut self) -> bool {
        match &self.life {
            Life::Opening { session, step } => {
                let (session, step) = (*session, *step);
                self.go_on_opening(session, step)
            }
            Life::Living(holder) => {
                let session = holder.session();
                self.go_on_with(session)
            }
            Life::Unborn | Life::Over => false,
        }
    }

    fn go_on_opening(&mut self, session: SessionId, step: Step) -> bool {
        if self.lives(session) {
            let mut holder = Holder::new(session, self.terms, self.at.boot);
            holder.handle_applied(self.state.applied());
            self.life = Life::Living(holder);
            return true;
        }
        match step {
            // What was proposed is seen to its end, also by a process that leaves.
            Step::Asked => false,
            Step::Taken if !self.has_ended(session) => false,
            Step::Taken | Step::Rests(_) if self.exit != Exit::None => {
                self.life = Life::Over;
                true
            }
            Step::Rests(until) if until <= self.at.boot => {
                self.life = Life::Opening { session, step: Step::Asked };
                let node = Box::new(spec_of(self.me));
                self.propose(Purpose::Open, Command::OpenSession { session, node });
                true
            }
            Step::Rests(_) => false,
            Step::Taken => {
                self.open(session);
                true
            }
        }
    }

    fn go_on_with(&mut self, session: SessionId) -> bool {
        let replayed = self.cluster().is_some() || self.reused != Some(session);
        if (!self.lives(session) && replayed) || self.exit == Exit::Left {
            self.end(session);
            return true;
        }
        let (now, version, wall) = (self.at.boot, self.routes.map_version(), self.at.wall);
        let Life::Living(holder) = &mut self.life else { return false };
        if holder.poll_timeout().is_some_and(|at| at <= now) {
            holder.handle_timeout(now);
        }
        let lapsed = holder.poll_lapsed();
        let mut renewals = Vec::new();
        while let Some(renewal) = holder.poll_renewal(version, Some(wall)) {
            renewals.push(renewal);
        }
        let busy = lapsed.is_some() || !renewals.is_empty();
        renewals.iter().for_each(|renewal| self.send_renewal(renewal));
        if lapsed.is_some() {
            self.trace(Event::Lapsed { session });
        }
        busy
    }

    /// The log has ended the session, or the process has left.
    fn end(&mut self, session: SessionId) {
        let Life::Living(holder) = &mut self.life else { return };
        let next = holder.handle_session_dead();
        let bound = holder.bound();
        // Whoever lived by the session's lease does not any more.
        self.owner.set_lease(bound);
        self.ingress.end_emergency();
        self.forget_calls(|what| matches!(what, What::Renewal));
        match self.exit {
            Exit::None => self.open(next),
            Exit::Leaving | Exit::Left => self.life = Life::Over,
        }
        debug_assert!(session.counter < next.counter, "S5: a session does not come back");
    }

    fn has_ended(&self, session: SessionId) -> bool {
        self.cluster().is_some_and(|cluster| cluster.sessions.ended.iter().any(|ended| ended.session == session))
    }

    fn send_renewal(&mut self, renewal: &Renewal) {
        let Some(leader) = self.log.leadership().leader else { return };
        if leader == self.me && self.log.leadership().is_me {
            return self.renew_here(renewal);
        }
        if leader == self.me {
            return;
        }
        let call = self.call(leader, What::Renewal, self.terms.ttl());
        self.effect(Effect::Call(leader, Packet::Renew(call, *renewal)));
    }

    pub(super) fn renewed(&mut self, call: Call, answer: Result<Ack, NotRenewed>) {
        match (self.return_of(call), answer) {
            (Some(What::Renewal), Ok(ack)) => self.handle_ack(&ack),
            (Some(What::Renewal), Err(_)) => self.effect(Effect::Count("renewals not acknowledged")),
            (Some(What::Proposal(_) | What::Check(..)) | None, _) => {}
        }
    }

    pub(super) fn handle_ack(&mut self, ack: &Ack) {
        let now = self.at.boot;
        let Life::Living(holder) = &mut self.life else { return };
        let before = holder.lease_end();
        let Some(heard) = holder.handle_ack(ack, now) else { return };
        let (bound, n_max) = (holder.bound(), holder.n_max());
        if let Some(told) = ack.news.cluster_time {
            self.time.handle_ack_time(heard.sent, now, told);
        }
        let limit_time = self.now();
        n_max.into_iter().for_each(|n_max| self.ingress.set_n_max(n_max, limit_time));
        // Cluster time first: whoever may decide can also read it.
        let was = self.owner.lease();
        self.owner.set_lease(bound);
        if was.session != ack.session || was.end <= now {
            self.announced = true;
        }
        if heard.lease_end > before {
            self.effect(Effect::Extended { session: ack.session, sent: heard.sent, end: heard.lease_end });
        }
    }

    /// The log has gone on to this index, and leases follow these terms there.
    pub(super) fn holder_applied(&mut self, index: u64, terms: Terms) {
        if let Life::Living(holder) = &mut self.life {
            holder.handle_applied(index);
            holder.handle_terms(terms);
        }
    }

    /// Whether this process waits for a session.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.life, Life::Opening { .. } | Life::Unborn)
    }

    /// Whether a renewal of this process is under way.
    pub(crate) fn is_renewing(&self) -> bool {
        self.calls.is_renewing()
    }
}

const fn next_of(session: SessionId) -> SessionId {
    SessionId { counter: session.counter + 1, ..session }
}
