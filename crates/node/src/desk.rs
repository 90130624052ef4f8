//! Where renewals wait at the leader until its leadership is confirmed. The rules are the grantor's; this file only keeps
//! who waits for which answer, and wakes the leader's loop when there is something to confirm.

use std::collections::{BTreeMap, BTreeSet};

use limits::Moment;
use ownership::SessionId;
use ownership::lease::{Ack, Grantor, News, OddClock, Renewal, Reply, Round, Terms};
use parking_lot::Mutex;
use ring::NodeId;
use tokio::sync::{Notify, oneshot};
use wire::lease::NotRenewed;

use crate::clock;

type Answer = Result<Ack, NotRenewed>;

/// The leader's desk; closed while this node does not lead.
#[derive(Debug, Default)]
pub struct Desk {
    open: Mutex<Option<OpenDesk>>,
    /// Somebody waits for a confirmation.
    rang: Notify,
}

#[derive(Debug)]
struct OpenDesk {
    grantor: Grantor,
    waiting: BTreeMap<(SessionId, u64), oneshot::Sender<Answer>>,
}

impl Desk {
    /// Opens the desk under a new term; whoever waited under an older one is turned away.
    pub fn open(&self, grantor: Grantor) {
        *self.open.lock() = Some(OpenDesk { grantor, waiting: BTreeMap::new() });
    }

    /// Closes the desk: this node leads no more. Whoever waits is told to ask the new leader.
    pub fn close(&self) {
        if let Some(desk) = self.open.lock().take() {
            for waiting in desk.waiting.into_values() {
                let _ = waiting.send(Err(NotRenewed::NotLeader));
            }
        }
    }

    /// Hands a renewal in and waits for what comes of it: the confirmation under way, if one is, and its own.
    ///
    /// # Errors
    ///
    /// [`NotRenewed`]: nothing was granted.
    pub async fn renew(&self, renewal: &Renewal) -> Answer {
        let answer = {
            let mut open = self.open.lock();
            let desk = open.as_mut().ok_or(NotRenewed::NotLeader)?;
            let taken = desk.grantor.handle_renewal(renewal, clock::now());
            desk.settle();
            taken?;
            let (waiting, answer) = oneshot::channel();
            desk.waiting.insert((renewal.session, renewal.seq), waiting);
            answer
        };
        self.rang.notify_one();
        answer.await.unwrap_or(Err(NotRenewed::NotLeader))
    }

    /// Resolves when somebody waits for a confirmation.
    pub async fn rung(&self) {
        self.rang.notified().await;
    }

    /// The confirmation that should be started now, if one should.
    pub fn poll_confirmation(&self) -> Option<Round> {
        self.with(Grantor::poll_confirmation).flatten()
    }

    /// The confirmation succeeded: everyone it was started for is answered.
    pub fn handle_confirmed(&self, round: Round, news: News) {
        self.with(|grantor| grantor.handle_confirmed(round, news));
    }

    /// The confirmation failed.
    pub fn handle_unconfirmed(&self, round: Round) {
        self.with(|grantor| grantor.handle_unconfirmed(round));
    }

    /// The number of the last renewal of a session that reached this leader; `None` on any other node. `Some(None)`: no
    /// such session lives.
    pub fn heard(&self, session: SessionId) -> Option<Option<u64>> {
        self.open.lock().as_ref().map(|desk| desk.grantor.heard(session))
    }

    /// The log index that every live session has applied by its own word, 0 while one has told this leader nothing; `None`
    /// on any other node.
    pub fn applied_by_all(&self) -> Option<u64> {
        self.open.lock().as_ref().map(|desk| desk.grantor.applied_by_all().unwrap_or(0))
    }

    /// The sessions whose wall clocks are far from those of most.
    pub fn odd_clocks(&self) -> BTreeSet<SessionId> {
        self.open.lock().as_ref().map(|desk| desk.grantor.odd_clocks()).unwrap_or_default()
    }

    /// The sessions that get nothing new.
    pub fn passed_over(&self) -> BTreeSet<SessionId> {
        self.open.lock().as_ref().map(|desk| desk.grantor.passed_over()).unwrap_or_default()
    }

    /// Whose clocks were found odd since this was last asked.
    pub fn odd_paces(&self) -> Vec<OddClock> {
        self.with(|grantor| std::iter::from_fn(|| grantor.poll_odd_clock()).collect()).unwrap_or_default()
    }

    /// Whether everybody who may lend, `lenders` among them, divides emergency shares by at least `n_max`.
    pub fn all_go_by(&self, n_max: u32, lenders: &BTreeSet<NodeId>) -> bool {
        let open = self.open.lock();
        open.as_ref().is_some_and(|desk| desk.grantor.all_go_by(n_max, lenders.iter().copied()))
    }

    /// Whether this leader knows that every lease of a longer ttl than the one in force is over.
    pub fn is_settled(&self) -> bool {
        self.open.lock().as_ref().is_some_and(|desk| desk.grantor.is_settled(clock::now()))
    }

    /// The log changed the terms of leases.
    pub fn handle_terms(&self, terms: Terms) {
        self.with(|grantor| grantor.handle_terms(terms, clock::now()));
    }

    /// The log opened a session.
    pub fn handle_session_opened(&self, session: SessionId) {
        self.with(|grantor| grantor.handle_session_opened(session, clock::now()));
    }

    /// The log ended a session.
    pub fn handle_session_closed(&self, session: SessionId) {
        self.with(|grantor| grantor.handle_session_closed(session));
    }

    /// Time has come to `now`; returns the sessions whose lease has passed, to be proposed as expired in one entry.
    pub fn handle_timeout(&self, now: Moment) -> Vec<SessionId> {
        self.with(|grantor| {
            grantor.handle_timeout(now);
            grantor.poll_expired()
        })
        .unwrap_or_default()
    }

    /// When `handle_timeout` is next worth calling.
    pub fn poll_timeout(&self) -> Option<Moment> {
        self.with(|grantor| grantor.poll_timeout())
    }

    /// Lets the grantor do something, then hands out the replies it has.
    fn with<T>(&self, act: impl FnOnce(&mut Grantor) -> T) -> Option<T> {
        let mut open = self.open.lock();
        let desk = open.as_mut()?;
        let result = act(&mut desk.grantor);
        desk.settle();
        Some(result)
    }
}

impl OpenDesk {
    fn settle(&mut self) {
        while let Some(reply) = self.grantor.poll_reply() {
            let (session, seq, answer) = match reply {
                Reply::Ack(ack) => (ack.session, ack.seq, Ok(ack)),
                Reply::Dropped { session, seq } => (session, seq, Err(NotRenewed::Dropped)),
            };
            if let Some(waiting) = self.waiting.remove(&(session, seq)) {
                // The holder may have given up on this renewal; its next one counts.
                let _ = waiting.send(answer);
            }
        }
    }
}
