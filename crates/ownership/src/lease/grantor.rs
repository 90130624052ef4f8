//! The leader's side of every lease: until when each session may believe that it decides. Nothing here is replicated.
//! A renewal is acknowledged only after a confirmation of leadership that began after its receipt (S6), so a deposed
//! leader acknowledges nothing that its successor does not wait for; a new leader gives everybody one full lease before
//! it ends anyone. The leader's own session is a session like any other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use limits::{Moment, Span, WallTime};

use super::{Ack, News, Renewal, Terms};
use crate::cluster_time::WALL_SPREAD_MAX;
use crate::session::SessionId;

/// How far a renewal may be ahead of the last acknowledgement its holder heard and still extend the lease.
const UNHEARD_MAX: u64 = 2;

/// A leader's book of deadlines, for as long as it leads.
///
/// Inlets: [`handle_session_opened`](Grantor::handle_session_opened) and
/// [`handle_session_closed`](Grantor::handle_session_closed) as the log is applied,
/// [`handle_renewal`](Grantor::handle_renewal), [`handle_confirmed`](Grantor::handle_confirmed) or
/// [`handle_unconfirmed`](Grantor::handle_unconfirmed) once for each round, [`handle_timeout`](Grantor::handle_timeout).
/// After each, drain [`poll_reply`](Grantor::poll_reply), [`poll_confirmation`](Grantor::poll_confirmation) and
/// [`poll_expired`](Grantor::poll_expired), then wait until [`poll_timeout`](Grantor::poll_timeout).
///
/// It holds one entry per live session, and in it at most one renewal in the round that runs and one that waits for the
/// next.
#[derive(Debug)]
pub struct Grantor {
    terms: Terms,
    term: u64,
    acks: u64,
    rounds: u64,
    in_flight: Option<Round>,
    last_tick: Moment,
    sessions: BTreeMap<SessionId, Standing>,
    replies: VecDeque<Reply>,
    expired: Vec<SessionId>,
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
}

/// What the leader knows of one session.
#[derive(Clone, Copy, Debug)]
struct Standing {
    deadline: Moment,
    fate: Fate,
    heard: Option<Renewal>,
    last_ack: Option<(u64, u64)>,
    /// When it last told its wall clock, and what that said.
    wall: Option<(Moment, WallTime)>,
    waiting: Option<Pending>,
    asked: Option<Pending>,
}

/// Whether a session's deadline can still move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Renewals extend it.
    Open,
    /// It was cloned; nothing extends it.
    Forked,
    /// Its end was offered to the log at that reading and may commit at any time; nothing extends it.
    Offered(Moment),
}

/// A renewal that awaits confirmation.
#[derive(Clone, Copy, Debug)]
struct Pending {
    seq: u64,
    received: Moment,
    /// Whether the holder is known to hear acknowledgements.
    extends: bool,
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
            last_tick: now,
            sessions: BTreeMap::new(),
            replies: VecDeque::new(),
            expired: Vec::new(),
        };
        for session in live {
            grantor.handle_session_opened(session, now);
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

    /// The sessions whose wall clocks are further than [`WALL_SPREAD_MAX`] from the median of all that told theirs: never
    /// most of them. Between the middle two of an even number, nobody is odd. A wall clock is told with every renewal, and
    /// what lies between its telling and its receipt is far below the spread.
    pub fn odd_clocks(&self) -> BTreeSet<SessionId> {
        let offset =
            |(received, wall): (Moment, WallTime)| i128::from(wall.as_unix_nanos()) - i128::from(received.as_nanos());
        let told = self.sessions.iter().filter_map(|(session, standing)| Some((*session, offset(standing.wall?))));
        let told: Vec<(SessionId, i128)> = told.collect();
        let mut offsets: Vec<i128> = told.iter().map(|(_, offset)| *offset).collect();
        offsets.sort_unstable();
        let Some(last) = offsets.len().checked_sub(1) else { return BTreeSet::new() };
        let (low, high) = (offsets[last / 2], offsets[last.div_ceil(2)]);
        let spread = i128::from(WALL_SPREAD_MAX.as_nanos());
        let is_odd = |offset: i128| offset < low - spread || offset > high + spread;
        told.into_iter().filter(|(_, offset)| is_odd(*offset)).map(|(session, _)| session).collect()
    }

    /// The log opened a session, here and now.
    pub fn handle_session_opened(&mut self, session: SessionId, now: Moment) {
        let deadline = now.saturating_add(self.terms.granted());
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
        standing.heard = Some(*renewal);
        standing.wall = renewal.wall_clock.map(|wall| (now, wall)).or(standing.wall);
        if let Some(overtaken) = standing.waiting.replace(pending) {
            self.replies.push_back(Reply::Dropped { session: renewal.session, seq: overtaken.seq });
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
        let granted = self.terms.granted();
        for (&session, standing) in &mut self.sessions {
            let Some(pending) = standing.asked.take() else { continue };
            if pending.extends {
                standing.deadline = standing.deadline.max(pending.received.saturating_add(granted));
            }
            self.acks += 1;
            let nonce = (self.term << 32) | (self.acks & 0xffff_ffff);
            standing.last_ack = Some((pending.seq, nonce));
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
        let deadline = now.saturating_add(self.terms.granted());
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

impl Standing {
    fn until(deadline: Moment) -> Standing {
        Standing { deadline, fate: Fate::Open, heard: None, last_ack: None, wall: None, waiting: None, asked: None }
    }

    /// One process sends each `seq` once, never unlearns an acknowledgement, and echoes what it was told.
    fn check(&self, renewal: &Renewal) -> Result<(), Refused> {
        match self.fate {
            Fate::Open => {}
            Fate::Forked => return Err(Refused::Forked),
            Fate::Offered(_) => return Err(Refused::UnknownSession),
        }
        let Some(heard) = self.heard else { return Ok(()) };
        if renewal.seq == heard.seq && renewal.nonce != heard.nonce {
            return Err(Refused::Forked);
        }
        if renewal.seq <= heard.seq {
            return Err(Refused::Stale);
        }
        let unlearned = renewal.last_ack_seen < heard.last_ack_seen;
        if unlearned || self.contradicts_last_ack(renewal) {
            return Err(Refused::Forked);
        }
        Ok(())
    }

    /// Nonces of another leader's term say nothing: both may have acknowledged the same renewal.
    fn contradicts_last_ack(&self, renewal: &Renewal) -> bool {
        self.last_ack.is_some_and(|(seq, nonce)| {
            renewal.last_ack_seen == seq && renewal.nonce >> 32 == nonce >> 32 && renewal.nonce != nonce
        })
    }

    /// The first renewal that a leader sees proves nothing and need not: earlier acknowledgements were another leader's.
    fn proves_that_acks_arrive(&self, renewal: &Renewal) -> bool {
        self.heard.is_none() || renewal.last_ack_seen.saturating_add(UNHEARD_MAX) >= renewal.seq
    }

    fn is_to_be_offered(&self, now: Moment, ttl: Span) -> bool {
        match self.fate {
            Fate::Open | Fate::Forked => now > self.deadline,
            Fate::Offered(at) => now.since(at) >= ttl,
        }
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
mod tests {
    use std::num::NonZeroU64;

    use ring::NodeId;

    use super::*;

    const NEWS: News = News { n_max: 3, cluster_time: None, map_version: 7 };
    const TERMS: Terms = Terms::DEFAULT;

    fn session(nonce: u64) -> SessionId {
        SessionId { node: NodeId(NonZeroU64::MIN), nonce, counter: 1 }
    }

    fn ms(millis: u64) -> Moment {
        Moment::ZERO.saturating_add(Span::from_millis(millis))
    }

    fn renewal(seq: u64, last_ack_seen: u64) -> Renewal {
        let my_clock = Moment::ZERO;
        Renewal { session: session(1), seq, nonce: 0, last_ack_seen, map_version: 7, my_clock, wall_clock: None }
    }

    fn tick_until(grantor: &mut Grantor, first: u64, last: u64) {
        for tick in (first..=last).step_by(500) {
            grantor.handle_timeout(ms(tick));
            assert_eq!(grantor.poll_expired(), []);
        }
    }

    /// A leader of term 5 at 10 s, with sessions 1 and 2.
    fn grantor() -> Grantor {
        Grantor::new(ms(10_000), [session(1), session(2)], TERMS, 5)
    }

    fn take(grantor: &mut Grantor, renewal: &Renewal, now: Moment) -> Option<Reply> {
        grantor.handle_renewal(renewal, now).ok()?;
        let round = grantor.poll_confirmation()?;
        grantor.handle_confirmed(round, NEWS);
        grantor.poll_reply()
    }

    fn ack_of(reply: Option<Reply>) -> Ack {
        match reply {
            Some(Reply::Ack(ack)) => ack,
            other => panic!("an acknowledgement, not {other:?}"),
        }
    }

    #[test]
    fn nothing_is_acknowledged_or_extended_before_leadership_is_confirmed() {
        let mut grantor = grantor();
        assert_eq!(grantor.handle_renewal(&renewal(1, 0), ms(11_000)), Ok(()));
        assert_eq!(grantor.poll_reply(), None);
        let round = grantor.poll_confirmation().expect("somebody waits");
        assert_eq!((grantor.poll_reply(), grantor.deadline(session(1))), (None, Some(ms(13_030))));
        grantor.handle_confirmed(round, NEWS);
        let ack = ack_of(grantor.poll_reply());
        assert_eq!((ack.seq, ack.ttl, ack.news), (1, TERMS.ttl(), NEWS));
        assert_eq!(grantor.deadline(session(1)), Some(ms(14_030)), "counted from receipt");
        assert_eq!(grantor.deadline(session(2)), Some(ms(13_030)), "nobody else's business");
    }

    #[test]
    fn what_arrives_while_a_round_runs_waits_for_the_next() {
        let mut grantor = grantor();
        grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
        let first = grantor.poll_confirmation().expect("somebody waits");
        grantor.handle_renewal(&renewal(2, 0), ms(11_001)).expect("taken");
        assert_eq!(grantor.poll_confirmation(), None, "one at a time");
        grantor.handle_confirmed(first, NEWS);
        assert_eq!(ack_of(grantor.poll_reply()).seq, 1);
        assert_eq!(grantor.poll_reply(), None, "S6: the round began before the second was received");
        let second = grantor.poll_confirmation().expect("the second waits");
        grantor.handle_confirmed(first, NEWS);
        assert_eq!(grantor.poll_reply(), None, "a round counts once");
        grantor.handle_confirmed(second, NEWS);
        assert_eq!(ack_of(grantor.poll_reply()).seq, 2);
    }

    #[test]
    fn a_round_of_an_earlier_term_on_the_same_node_counts_for_nothing() {
        let mut earlier = Grantor::new(ms(9_000), [session(1)], TERMS, 4);
        earlier.handle_renewal(&renewal(1, 0), ms(9_500)).expect("taken");
        let old_round = earlier.poll_confirmation().expect("somebody waits");
        let mut grantor = grantor();
        grantor.handle_renewal(&renewal(2, 0), ms(11_000)).expect("taken");
        grantor.poll_confirmation().expect("somebody waits");
        grantor.handle_confirmed(old_round, NEWS);
        assert_eq!(grantor.poll_reply(), None, "it began before the second was received");
    }

    #[test]
    fn an_unconfirmed_leader_grants_nothing_and_tells_who_waited() {
        let mut grantor = grantor();
        grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
        let round = grantor.poll_confirmation().expect("somebody waits");
        grantor.handle_unconfirmed(round);
        assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
        assert_eq!((grantor.poll_reply(), grantor.poll_confirmation()), (None, None));
        assert_eq!(grantor.deadline(session(1)), Some(ms(13_030)));
        assert!(take(&mut grantor, &renewal(2, 0), ms(11_500)).is_some(), "the next one asks again");
    }

    #[test]
    fn a_later_renewal_takes_the_place_of_one_that_still_waits() {
        let mut grantor = grantor();
        grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
        grantor.handle_renewal(&renewal(2, 0), ms(11_500)).expect("taken");
        assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
        assert_eq!(grantor.handle_renewal(&renewal(1, 0), ms(11_600)), Err(Refused::Stale));
        assert_eq!(grantor.handle_renewal(&renewal(2, 0), ms(11_600)), Err(Refused::Stale), "a duplicate");
    }

    #[test]
    fn a_holder_that_hears_no_acknowledgements_is_answered_but_not_extended() {
        let mut grantor = grantor();
        assert_eq!(ack_of(take(&mut grantor, &renewal(9, 1), ms(10_500))).ttl, TERMS.ttl(), "a leader's first");
        assert_eq!(ack_of(take(&mut grantor, &renewal(10, 8), ms(11_000))).ttl, TERMS.ttl());
        let deadline = grantor.deadline(session(1));
        assert_eq!(ack_of(take(&mut grantor, &renewal(11, 8), ms(11_500))).ttl, Span::ZERO);
        assert_eq!(grantor.deadline(session(1)), deadline);
        let heard = Renewal { nonce: (5 << 32) | 3, ..renewal(12, 11) };
        assert_eq!(ack_of(take(&mut grantor, &heard, ms(12_000))).ttl, TERMS.ttl(), "it hears again");
    }

    #[test]
    fn sessions_whose_deadline_passed_are_offered_together_and_extended_no_more() {
        let mut grantor = grantor();
        assert_eq!(grantor.poll_timeout(), ms(10_500));
        // S6: a new leader ends nobody before one full lease.
        tick_until(&mut grantor, 10_500, 13_000);
        let waiting = Renewal { session: session(2), ..renewal(1, 0) };
        grantor.handle_renewal(&waiting, ms(13_030)).expect("still live");
        assert_eq!(grantor.poll_timeout(), ms(13_030).saturating_add(Span::from_nanos(1)));
        grantor.handle_timeout(grantor.poll_timeout());
        assert_eq!(grantor.poll_expired(), [session(1), session(2)]);
        assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(2), seq: 1 }));
        assert_eq!(grantor.handle_renewal(&renewal(1, 0), ms(13_031)), Err(Refused::UnknownSession));
        assert_eq!(grantor.poll_confirmation(), None);
    }

    #[test]
    fn a_session_that_the_log_has_not_ended_is_offered_again_after_one_ttl() {
        let mut grantor = grantor();
        let offers: Vec<u64> = (20..=40)
            .filter(|tick| {
                grantor.handle_timeout(ms(tick * 500));
                !grantor.poll_expired().is_empty()
            })
            .collect();
        assert_eq!(offers, [27, 33, 39]);
        grantor.handle_session_closed(session(1));
        assert_eq!((grantor.deadline(session(1)), grantor.poll_expired()), (None, vec![]));
    }

    #[test]
    fn a_round_that_ends_after_a_session_was_offered_grants_it_nothing() {
        let mut grantor = grantor();
        tick_until(&mut grantor, 10_500, 13_000);
        grantor.handle_renewal(&renewal(1, 0), ms(13_029)).expect("still live");
        let round = grantor.poll_confirmation().expect("somebody waits");
        grantor.handle_timeout(ms(13_031));
        assert_eq!(grantor.poll_expired(), [session(1), session(2)]);
        grantor.handle_confirmed(round, NEWS);
        assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
        assert_eq!((grantor.poll_reply(), grantor.deadline(session(1))), (None, Some(ms(13_030))));
    }

    #[test]
    fn a_leader_that_was_itself_asleep_gives_everybody_a_full_lease() {
        let mut asleep = grantor();
        tick_until(&mut asleep, 10_500, 12_500);
        // Due at 13,000; one renewal late at 13,500, and a moment more.
        asleep.handle_timeout(ms(13_501));
        assert_eq!(asleep.poll_expired(), []);
        assert_eq!(asleep.deadline(session(1)), Some(ms(16_531)));

        let mut slow = grantor();
        tick_until(&mut slow, 10_500, 12_500);
        slow.handle_timeout(ms(13_500));
        assert_eq!(slow.poll_expired(), [session(1), session(2)]);
    }

    #[test]
    fn a_session_that_ended_is_promised_nothing_that_has_not_left_yet() {
        let mut grantor = grantor();
        grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
        let round = grantor.poll_confirmation().expect("somebody waits");
        grantor.handle_confirmed(round, NEWS);
        grantor.handle_session_closed(session(1));
        assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
        assert_eq!(grantor.handle_renewal(&renewal(2, 1), ms(11_500)), Err(Refused::UnknownSession));
    }

    #[test]
    fn two_copies_of_one_process_are_told_apart_and_extended_no_more() {
        let mut grantor = grantor();
        let nonce = ack_of(take(&mut grantor, &renewal(1, 0), ms(10_500))).nonce;
        // The machine is cloned before the acknowledgement arrives; only one of the two hears it.
        let original = Renewal { nonce, ..renewal(2, 1) };
        let copy = renewal(2, 0);
        ack_of(take(&mut grantor, &original, ms(11_000)));
        let deadline = grantor.deadline(session(1));
        assert_eq!(grantor.handle_renewal(&copy, ms(11_001)), Err(Refused::Forked));
        let original = Renewal { nonce: nonce + 1, ..renewal(3, 2) };
        assert_eq!(grantor.handle_renewal(&original, ms(11_500)), Err(Refused::Forked), "nobody knows who is who");
        assert_eq!(grantor.deadline(session(1)), deadline);
    }

    #[test]
    fn a_process_that_unlearns_an_acknowledgement_or_echoes_another_is_a_copy() {
        let mut grantor = grantor();
        let nonce = ack_of(take(&mut grantor, &renewal(4, 3), ms(10_500))).nonce;
        let mut twin = Grantor::new(ms(10_000), [session(1)], TERMS, 5);
        ack_of(take(&mut twin, &renewal(4, 3), ms(10_500)));
        assert_eq!(grantor.handle_renewal(&renewal(5, 2), ms(11_000)), Err(Refused::Forked));
        let wrong_echo = Renewal { nonce: nonce + 1, ..renewal(5, 4) };
        assert_eq!(twin.handle_renewal(&wrong_echo, ms(11_000)), Err(Refused::Forked));
    }

    #[test]
    fn an_echo_of_another_leaders_acknowledgement_is_no_fork() {
        let mut grantor = grantor();
        ack_of(take(&mut grantor, &renewal(4, 3), ms(10_500)));
        let echo_of_term_4 = Renewal { nonce: (4 << 32) | 77, ..renewal(5, 4) };
        assert_eq!(grantor.handle_renewal(&echo_of_term_4, ms(11_000)), Ok(()));
    }

    #[test]
    fn whose_wall_clock_is_far_from_the_median_is_odd_and_never_most_of_them() {
        let odd = |walls: &[Option<u64>]| {
            let mut grantor = Grantor::new(ms(10_000), (1..=walls.len() as u64).map(session), TERMS, 5);
            for (nonce, wall) in (1..).zip(walls) {
                let wall_clock = wall.map(|secs| WallTime::from_unix_nanos(secs * 1_000_000_000));
                let told = Renewal { session: session(nonce), wall_clock, ..renewal(1, 0) };
                grantor.handle_renewal(&told, ms(10_500)).expect("taken");
            }
            grantor.odd_clocks().into_iter().map(|session| session.nonce).collect::<Vec<_>>()
        };
        assert_eq!(odd(&[Some(1_000), Some(1_004), Some(1_011)]), [3], "7 s from the middle one");
        assert_eq!(odd(&[Some(1_000), Some(1_005), Some(1_010)]), [], "5 s is not above it");
        assert_eq!(odd(&[Some(1_000), Some(9_000)]), [], "of two, nobody knows which");
        assert_eq!(odd(&[Some(1_000), Some(1_000), Some(9_000), Some(9_000)]), []);
        assert_eq!(odd(&[None, Some(1_000), Some(1_001), Some(50)]), [4], "who tells none is not judged");
        assert_eq!(odd(&[None, None]), []);
    }

    #[test]
    fn wall_clocks_that_are_told_at_different_times_are_compared_as_of_one() {
        let mut grantor = Grantor::new(ms(10_000), [session(1), session(2), session(3)], TERMS, 5);
        for (nonce, at, wall) in [(1, 10_000, 70_000), (2, 30_000, 90_000), (3, 50_000, 110_000)] {
            let wall_clock = Some(WallTime::from_unix_nanos(wall * 1_000_000));
            grantor
                .handle_renewal(&Renewal { session: session(nonce), wall_clock, ..renewal(1, 0) }, ms(at))
                .expect("taken");
        }
        assert_eq!(grantor.odd_clocks(), BTreeSet::new());
    }
}
