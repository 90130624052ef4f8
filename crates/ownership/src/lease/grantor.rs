//! The leader's side of every lease: until when each session may believe that it decides. Nothing here is replicated.
//! A renewal is acknowledged only after a confirmation of leadership that began after its receipt (S6), so a deposed
//! leader acknowledges nothing that its successor does not wait for; a new leader gives everybody one full lease before
//! it ends anyone. The leader's own session is a session like any other.

mod clocks;
mod standing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use limits::{Moment, Span};
use ring::NodeId;

use self::standing::{Fate, Pending, Standing};
use super::pace::stretched;
use super::{Ack, News, Renewal, Terms};
use crate::bug::Bug;
use crate::session::SessionId;

/// Sessions that have ended of whom it is remembered by which number they divided emergency shares. Beyond it, all are
/// forgotten: what is not known counts as the stricter.
const ENDED_MAX: usize = 256;

/// A leader's book of deadlines, for as long as it leads.
///
/// Inlets: [`handle_session_opened`](Grantor::handle_session_opened) and
/// [`handle_session_closed`](Grantor::handle_session_closed) as the log is applied,
/// [`handle_renewal`](Grantor::handle_renewal), [`handle_confirmed`](Grantor::handle_confirmed) or
/// [`handle_unconfirmed`](Grantor::handle_unconfirmed) once for each round, [`handle_timeout`](Grantor::handle_timeout),
/// and [`handle_terms`](Grantor::handle_terms) when the log changes them. After each, drain
/// [`poll_reply`](Grantor::poll_reply), [`poll_confirmation`](Grantor::poll_confirmation),
/// [`poll_expired`](Grantor::poll_expired) and [`poll_odd_clock`](Grantor::poll_odd_clock), then wait until
/// [`poll_timeout`](Grantor::poll_timeout).
///
/// It holds one entry per live session, and in it at most one renewal in the round that runs and one that waits for the
/// next.
#[derive(Clone, Debug)]
pub struct Grantor {
    terms: Terms,
    term: u64,
    acks: u64,
    rounds: u64,
    in_flight: Option<Round>,
    /// What the last acknowledgements carried.
    news: Option<News>,
    last_tick: Moment,
    sessions: BTreeMap<SessionId, Standing>,
    replies: VecDeque<Reply>,
    expired: Vec<SessionId>,
    /// Since when nothing is granted here but by these terms.
    binds_since: Moment,
    /// By how much this leader's own clock was found to run ahead of most, in parts per billion.
    ahead_ppb: i64,
    /// Nodes that had a session with an odd clock, and none since that was found to run well.
    suspects: BTreeSet<NodeId>,
    odd: VecDeque<OddClock>,
    /// The lowest number by which sessions that ended may still divide emergency shares.
    ended: BTreeMap<NodeId, u32>,
}

/// One confirmation of leadership. It names the term, so that a round of an earlier term in which the same node led
/// counts for nothing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    term: u64,
    number: u64,
}

/// What becomes of a renewal that was taken in: one of these, each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It counts.
    Ack(Ack),
    /// It does not: leadership could not be confirmed, a later renewal took its place, or the session is ending.
    /// Nothing was granted; the holder's next renewal asks again.
    Dropped {
        /// Whose.
        session: SessionId,
        /// Which.
        seq: u64,
    },
}

/// Why a renewal was not taken in. Nothing was granted and no [`Reply`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The log names no such session, or it has ended. The holder learns which from its own log.
    #[error("no such session is live")]
    UnknownSession,
    /// A duplicate, or overtaken by a later one. Nobody's fault; nothing to do.
    #[error("a later renewal was seen before")]
    Stale,
    /// Two processes renew as one session: a cloned machine. Report it; the session is extended no more and runs out.
    #[error("two holders renew one session")]
    Forked,
    /// The holder's clock does not run as those of most do. Report it; the session is extended no more and runs out, and
    /// the process opens another.
    #[error("the clock of the holder does not run as those of most do")]
    OddClock,
}

/// A session whose clock does not run as another does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OddClock {
    /// The session.
    pub session: SessionId,
    /// How much faster its clock runs than those of most, in parts per billion; below zero: slower. If it was not `ended`:
    /// than this leader's.
    pub fast_ppb: i64,
    /// Whether most clocks agree that it is this one, so that its session is extended no more. If not, this one and the
    /// leader's disagree, and nobody can say which is right.
    pub ended: bool,
}

impl Grantor {
    /// A leader that has just applied the first entry of its term, with the sessions that are live then. Each of them may
    /// hold a lease that an earlier leader granted up to now, so nobody ends before `ttl (1 + rho)`.
    ///
    /// `term` is the term that this node leads; no two leaders share one.
    pub fn new(now: Moment, live: impl IntoIterator<Item = SessionId>, terms: Terms, term: u64) -> Grantor {
        let mut grantor = Grantor {
            terms,
            term,
            acks: 0,
            rounds: 0,
            in_flight: None,
            news: None,
            last_tick: now,
            sessions: BTreeMap::new(),
            replies: VecDeque::new(),
            expired: Vec::new(),
            binds_since: now,
            ahead_ppb: 0,
            suspects: BTreeSet::new(),
            odd: VecDeque::new(),
            ended: BTreeMap::new(),
        };
        for session in live {
            grantor.handle_session_opened(session, now);
        }
        if Bug::NewLeaderDoesNotWait.is_here() {
            grantor.sessions.values_mut().for_each(|standing| standing.deadline = now);
        }
        grantor
    }

    /// When the session's partitions may be given to others, on this node's clock; `None` when the log names no such
    /// live session.
    pub fn deadline(&self, session: SessionId) -> Option<Moment> {
        self.sessions.get(&session).map(|standing| standing.deadline)
    }

    /// The number of the last renewal of the session that reached this leader, 0 when none has since it leads: from two
    /// readings one learns whether anybody lives it. `None` when the log names no such live session.
    pub fn heard(&self, session: SessionId) -> Option<u64> {
        self.sessions.get(&session).map(|standing| standing.heard.map_or(0, |renewal| renewal.seq))
    }

    /// Whether everybody who may lend from emergency shares is known to divide them by at least `n_max`: all that live, and
    /// the last sessions of `lenders`, which ended but may not know it.
    pub fn all_go_by(&self, n_max: u32, mut lenders: impl Iterator<Item = NodeId>) -> bool {
        let live = |standing: &Standing| standing.shares.least().is_some_and(|least| least >= n_max);
        self.sessions.values().all(live)
            && lenders.all(|node| self.ended.get(&node).is_some_and(|least| *least >= n_max))
    }

    /// The log index that every live session has applied by its own word; `None` while one has told this leader nothing. A
    /// session that ended needs to have applied nothing: it decides no more.
    pub fn applied_by_all(&self) -> Option<u64> {
        let applied = self.sessions.values().map(|standing| standing.heard.map(|renewal| renewal.applied));
        applied.min().flatten()
    }

    /// Whether every lease that was granted by earlier and longer terms is over by now, so that nobody need be waited for
    /// that long any more: a shorter ttl binds holders first, and leaders only once this was said.
    pub fn is_settled(&self, now: Moment) -> bool {
        now.since(self.binds_since) > self.granted()
    }

    /// The log changed the terms, here and now. Whatever is acknowledged from now on follows them; what was granted before
    /// stays as it is.
    pub fn handle_terms(&mut self, terms: Terms, now: Moment) {
        if terms != self.terms {
            (self.terms, self.binds_since) = (terms, now);
        }
    }

    /// How long is waited for a session that was heard just now.
    fn granted(&self) -> Span {
        let times = if Bug::WaitsTwice.is_here() { 2 } else { 1 };
        stretched(self.terms.granted().scaled(times, 1), self.ahead_ppb)
    }

    /// The log opened a session, here and now.
    pub fn handle_session_opened(&mut self, session: SessionId, now: Moment) {
        let deadline = now.saturating_add(self.granted());
        // Its process says with it that the one before lends nothing any more.
        self.ended.remove(&session.node);
        self.sessions.entry(session).or_insert_with(|| Standing::until(deadline));
    }

    /// The log ended a session, for whatever reason.
    pub fn handle_session_closed(&mut self, session: SessionId) {
        self.expired.retain(|expired| *expired != session);
        for reply in &mut self.replies {
            reply.withdraw(session);
        }
        if let Some(mut standing) = self.sessions.remove(&session) {
            drop_pending(session, &mut standing, &mut self.replies);
            if self.ended.len() == ENDED_MAX {
                self.ended.clear();
            }
            self.ended.extend(standing.shares.least().map(|least| (session.node, least)));
        }
    }

    /// A renewal arrived at `now`. It is remembered until leadership is confirmed by a round that begins later.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why it was not taken in.
    pub fn handle_renewal(&mut self, renewal: &Renewal, now: Moment) -> Result<(), Refused> {
        let standing = self.sessions.get_mut(&renewal.session).ok_or(Refused::UnknownSession)?;
        let checked = standing.check(renewal);
        if checked == Err(Refused::Forked) {
            standing.fate = Fate::Forked;
            drop_pending(renewal.session, standing, &mut self.replies);
        }
        checked?;
        let pending = Pending { seq: renewal.seq, received: now, extends: standing.proves_that_acks_arrive(renewal) };
        standing.hear(renewal, now, self.term);
        self.judge_clocks(now);
        let standing = self.sessions.get_mut(&renewal.session).ok_or(Refused::UnknownSession)?;
        if standing.fate == Fate::OddClock {
            return Err(Refused::OddClock);
        }
        if let Some(overtaken) = standing.waiting.replace(pending) {
            self.replies.push_back(Reply::Dropped { session: renewal.session, seq: overtaken.seq });
        }
        if let Some(news) = self.news.filter(|_| Bug::UnconfirmedRenewals.is_here()) {
            standing.asked = standing.waiting.take();
            self.acknowledge(News { cluster_time: None, ..news });
        }
        Ok(())
    }

    /// Leadership held at some moment after the round began: every renewal that was in hand then extends its session to
    /// `ttl (1 + rho)` from its *receipt*, and is acknowledged.
    ///
    /// Receipt is enough: the holder counts from when it sent, which was earlier. Counting from the confirmation would be
    /// as safe, and make every takeover wait longer.
    pub fn handle_confirmed(&mut self, round: Round, news: News) {
        if self.in_flight.take_if(|running| *running == round).is_none() {
            return;
        }
        self.news = Some(news);
        self.acknowledge(news);
    }

    /// Extends and answers every renewal that a round was begun for.
    fn acknowledge(&mut self, news: News) {
        let granted = self.granted();
        for (&session, standing) in &mut self.sessions {
            let Some(pending) = standing.asked.take() else { continue };
            if pending.extends {
                standing.deadline = standing.deadline.max(pending.received.saturating_add(granted));
            }
            self.acks += 1;
            let nonce = (self.term << 32) | (self.acks & 0xffff_ffff);
            standing.last_ack = Some((pending.seq, nonce));
            standing.shares.handle_ack(pending.seq, news.n_max, news.n_max_settled);
            let ttl = if pending.extends { self.terms.ttl() } else { Span::ZERO };
            self.replies.push_back(Reply::Ack(Ack { session, seq: pending.seq, nonce, ttl, news }));
        }
    }

    /// Leadership could not be confirmed by that round. What awaited it is dropped; nothing is granted.
    pub fn handle_unconfirmed(&mut self, round: Round) {
        if self.in_flight.take_if(|running| *running == round).is_none() {
            return;
        }
        for (&session, standing) in &mut self.sessions {
            let dropped = standing.asked.take();
            self.replies.extend(dropped.map(|pending| Reply::Dropped { session, seq: pending.seq }));
        }
    }

    /// Time has come to `now`. Sessions whose deadline has passed are offered to the log, and are extended no more.
    ///
    /// A leader that was itself asleep for more than one renewal beyond its time has heard nobody meanwhile, and gives
    /// everybody a full lease instead: a machine that stalls ends no one.
    pub fn handle_timeout(&mut self, now: Moment) {
        let late = now.since(self.next_tick()) > self.terms.renew();
        self.last_tick = now;
        if late {
            self.extend_all(now);
        }
        for (&session, standing) in &mut self.sessions {
            if standing.is_to_be_offered(now, self.terms.ttl()) {
                standing.fate = Fate::Offered(now);
                drop_pending(session, standing, &mut self.replies);
                self.expired.push(session);
            }
        }
    }

    fn extend_all(&mut self, now: Moment) {
        let deadline = now.saturating_add(self.granted());
        for standing in self.sessions.values_mut() {
            standing.deadline = standing.deadline.max(deadline);
        }
    }

    fn next_tick(&self) -> Moment {
        self.last_tick.saturating_add(self.terms.renew())
    }

    /// When [`handle_timeout`](Grantor::handle_timeout) is next worth calling; at least once per renewal interval.
    pub fn poll_timeout(&self) -> Moment {
        let open = self.sessions.values().filter(|standing| !matches!(standing.fate, Fate::Offered(_)));
        let passed = open.map(|standing| standing.deadline.saturating_add(Span::from_nanos(1))).min();
        passed.map_or(self.next_tick(), |passed| passed.min(self.next_tick()))
    }

    /// The replies that are due, in no particular order.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// A confirmation of leadership that should begin *now*, when renewals wait for one and none is running. What
    /// arrives while it runs waits for the next.
    pub fn poll_confirmation(&mut self) -> Option<Round> {
        let waits = self.sessions.values().any(|standing| standing.waiting.is_some());
        if !waits || self.in_flight.is_some() {
            return None;
        }
        for standing in self.sessions.values_mut() {
            standing.asked = standing.waiting.take();
        }
        self.rounds += 1;
        self.in_flight = Some(Round { term: self.term, number: self.rounds });
        self.in_flight
    }

    /// Sessions whose deadline has passed, to be proposed to the log as one entry; empty when there are none. A session
    /// that the log has not ended one ttl after it was offered is offered again.
    pub fn poll_expired(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.expired)
    }
}

impl Reply {
    /// A session that has ended is promised nothing that has not left yet.
    fn withdraw(&mut self, ended: SessionId) {
        if let Reply::Ack(Ack { session, seq, .. }) = *self
            && session == ended
        {
            *self = Reply::Dropped { session, seq };
        }
    }
}

fn drop_pending(session: SessionId, standing: &mut Standing, replies: &mut VecDeque<Reply>) {
    let dropped = [standing.waiting.take(), standing.asked.take()];
    replies.extend(dropped.into_iter().flatten().map(|pending| Reply::Dropped { session, seq: pending.seq }));
}

#[cfg(test)]
mod tests;
