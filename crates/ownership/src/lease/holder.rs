//! The side that decides while it may. One holder is one session: it asks for its lease again and again, counts each
//! grant from the moment at which it *sent* what was granted, and says once when the lease has run out. A session that
//! the log ended is over for good; the process opens the next one, with a holder of its own and no lease (S5).

use std::collections::VecDeque;

use limits::{Moment, WallTime};

use super::{Ack, Renewal, Terms};
use crate::bug::Bug;
use crate::partition::LeaseBound;
use crate::session::SessionId;

/// Renewals that may await an acknowledgement; of more, the oldest is forgotten, and its acknowledgement counts for
/// nothing. With the default terms a lease outlives six.
pub const OUTSTANDING_MAX: usize = 8;

/// One session's lease, on its own node.
///
/// Inlets: [`handle_timeout`](Holder::handle_timeout), [`handle_ack`](Holder::handle_ack),
/// [`handle_session_dead`](Holder::handle_session_dead). After each, drain [`poll_renewal`](Holder::poll_renewal) and
/// [`poll_lapsed`](Holder::poll_lapsed), then wait until [`poll_timeout`](Holder::poll_timeout).
#[derive(Clone, Debug)]
pub struct Holder {
    session: SessionId,
    terms: Terms,
    lease_end: Moment,
    next_renewal: Moment,
    due: Option<Moment>,
    seq: u64,
    outstanding: VecDeque<Sent>,
    last_ack_seen: u64,
    ack_heard: Moment,
    nonce: u64,
    /// What this session divides emergency shares by; 0 before it may lend.
    n_max: u32,
    applied: u64,
    lapse: Lapse,
    dead: bool,
}

/// A renewal that is on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    at: Moment,
}

/// Where the news of a lapse stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lapse {
    /// There is no lease whose end could be news.
    Nothing,
    /// A lease runs, or ran out unnoticed.
    Running,
    /// It ran out, and nobody asked yet.
    Due,
}

/// What an acknowledgement meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When the renewal that it answers was sent: one end of the round trip that cluster time is
    /// measured by.
    pub sent: Moment,
    /// Until when this session may decide now.
    pub lease_end: Moment,
}

impl Holder {
    /// The holder of a session that the log has just opened, without a lease; its first renewal is due at once.
    pub fn new(session: SessionId, terms: Terms, now: Moment) -> Holder {
        Holder {
            session,
            terms,
            lease_end: Moment::ZERO,
            next_renewal: now,
            due: None,
            seq: 0,
            outstanding: VecDeque::with_capacity(OUTSTANDING_MAX),
            last_ack_seen: 0,
            ack_heard: Moment::ZERO,
            nonce: 0,
            n_max: 0,
            applied: 0,
            lapse: Lapse::Nothing,
            dead: false,
        }
    }

    /// The session.
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// The first reading of this node's clock at which the session may no longer decide; the boot, while it never could.
    pub const fn lease_end(&self) -> Moment {
        self.lease_end
    }

    /// Whether the lease runs.
    pub fn is_live(&self, now: Moment) -> bool {
        now < self.lease_end
    }

    /// What a partition goes by when it decides in this session's name.
    pub fn bound(&self) -> LeaseBound {
        LeaseBound { session: self.session, end: self.lease_end, margin: self.terms.margin() }
    }

    /// Time has come to `now`, a reading taken *before* anything that it causes is sent.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.dead {
            return;
        }
        if now >= self.next_renewal {
            self.due = Some(now);
            self.next_renewal = now.saturating_add(self.terms.renew());
        }
        if self.lapse == Lapse::Running && !self.is_live(now) {
            self.lapse = Lapse::Due;
        }
    }

    /// An acknowledgement came. It counts if it is for this session and for a renewal that still awaits one; `None` says
    /// that it did not, and nothing changed.
    ///
    /// The lease then ends `ttl (1 - rho)` after that renewal was *sent*, or when it would have ended anyway. A `ttl`
    /// above this node's own terms is cut to them: a longer one binds leaders first.
    pub fn handle_ack(&mut self, ack: &Ack, now: Moment) -> Option<Heard> {
        if self.dead || ack.session != self.session {
            return None;
        }
        let index = self.outstanding.iter().position(|sent| sent.seq == ack.seq)?;
        let sent = self.outstanding.remove(index)?;
        self.learn(ack, now);
        let ttl = ack.ttl.min(self.terms.ttl());
        let from = if Bug::LeaseFromAck.is_here() { now } else { sent.at };
        self.lease_end = self.lease_end.max(from.saturating_add(self.terms.held(ttl)));
        if self.is_live(now) {
            self.lapse = Lapse::Running;
        }
        Some(Heard { sent: sent.at, lease_end: self.lease_end })
    }

    /// An acknowledgement that was overtaken by a later one proves nothing new, and what it says is out of date.
    ///
    /// Who lends nothing yet begins with a number that everybody else is known to go by, and not before.
    fn learn(&mut self, ack: &Ack, now: Moment) {
        // A nonce begins with its leader's term. What an earlier leader said of a later renewal is out of date too.
        if ack.seq <= self.last_ack_seen || ack.nonce >> 32 < self.nonce >> 32 {
            return;
        }
        (self.last_ack_seen, self.ack_heard, self.nonce) = (ack.seq, now, ack.nonce);
        if self.n_max > 0 || ack.news.n_max_settled {
            self.n_max = ack.news.n_max;
        }
    }

    /// Among how many sessions emergency shares are divided here; `None` while this session may not lend at all.
    pub fn n_max(&self) -> Option<u32> {
        (self.n_max > 0).then_some(self.n_max)
    }

    /// This node has applied the log up to this index; the next renewal says so.
    pub fn handle_applied(&mut self, index: u64) {
        self.applied = self.applied.max(index);
    }

    /// The log changed the terms. A longer ttl is taken from acknowledgements from now on, and a shorter one cuts them.
    pub const fn handle_terms(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// The log says that this session has ended. Whatever its lease said, it decides nothing more and renews nothing
    /// more. Returns the session that this process opens next.
    pub fn handle_session_dead(&mut self) -> SessionId {
        self.dead = true;
        self.lease_end = Moment::ZERO;
        self.due = None;
        self.outstanding.clear();
        self.lapse = Lapse::Nothing;
        SessionId { counter: self.session.counter.saturating_add(1), ..self.session }
    }

    /// When [`handle_timeout`](Holder::handle_timeout) is next worth calling; never, for a session that has ended.
    pub fn poll_timeout(&self) -> Option<Moment> {
        if self.dead {
            return None;
        }
        let lapse = if self.lapse == Lapse::Running { self.lease_end } else { Moment::MAX };
        Some(self.next_renewal.min(lapse))
    }

    /// The renewal that is due, to be sent to the leader at once. It counts as sent when time was handed in, so that a
    /// shell that dawdles shortens the lease and never lengthens it.
    ///
    /// `map_version` is the newest map applied here, `wall_clock` this node's own wall clock.
    pub fn poll_renewal(&mut self, map_version: u64, wall_clock: Option<WallTime>) -> Option<Renewal> {
        let at = self.due.take()?;
        self.seq += 1;
        if self.outstanding.len() == OUTSTANDING_MAX {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(Sent { seq: self.seq, at });
        Some(Renewal {
            session: self.session,
            seq: self.seq,
            nonce: self.nonce,
            last_ack_seen: self.last_ack_seen,
            map_version,
            my_clock: at,
            ack_heard: self.ack_heard,
            wall_clock,
            n_max: self.n_max,
            applied: self.applied,
        })
    }

    /// The end of a lease that has run out, told once each time one does. The session may still be renewed.
    pub fn poll_lapsed(&mut self) -> Option<Moment> {
        if self.lapse != Lapse::Due {
            return None;
        }
        self.lapse = Lapse::Nothing;
        Some(self.lease_end)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use limits::Span;
    use ring::NodeId;

    use super::super::News;
    use super::*;

    const NEWS: News = News { n_max: 3, n_max_settled: true, cluster_time: None, map_version: 7 };

    fn session() -> SessionId {
        SessionId { node: NodeId(NonZeroU64::MIN), nonce: 9, counter: 1 }
    }

    fn ms(millis: u64) -> Moment {
        Moment::ZERO.saturating_add(Span::from_millis(millis))
    }

    fn holder() -> Holder {
        Holder::new(session(), Terms::DEFAULT, ms(10_000))
    }

    fn ack(seq: u64) -> Ack {
        Ack { session: session(), seq, nonce: 100 + seq, ttl: Terms::DEFAULT.ttl(), news: NEWS }
    }

    fn renew_at(holder: &mut Holder, now: Moment) -> Renewal {
        holder.handle_timeout(now);
        holder.poll_renewal(7, None).expect("a renewal is due")
    }

    #[test]
    fn a_lease_counts_from_when_the_renewal_was_sent_and_is_shortened_by_rho() {
        let mut holder = holder();
        assert!(!holder.is_live(ms(10_000)), "a new session holds nothing");
        let renewal = renew_at(&mut holder, ms(10_000));
        assert_eq!((renewal.seq, renewal.last_ack_seen, renewal.nonce), (1, 0, 0));
        let heard = holder.handle_ack(&ack(1), ms(10_400)).expect("it is outstanding");
        assert_eq!(heard, Heard { sent: ms(10_000), lease_end: ms(12_970) });
        assert!(holder.is_live(ms(12_969)) && !holder.is_live(ms(12_970)));
    }

    #[test]
    fn renewals_go_on_while_earlier_ones_are_unanswered_and_echo_the_newest_answer() {
        let mut holder = holder();
        renew_at(&mut holder, ms(10_000));
        assert_eq!(holder.poll_timeout(), Some(ms(10_500)));
        holder.handle_timeout(ms(10_499));
        assert_eq!(holder.poll_renewal(7, None), None, "not before its time");
        renew_at(&mut holder, ms(10_500));
        assert!(holder.handle_ack(&ack(2), ms(10_600)).is_some());
        assert!(holder.handle_ack(&ack(1), ms(10_700)).is_some(), "an overtaken answer still counts");
        assert_eq!(holder.lease_end(), ms(13_470), "and takes nothing away");
        let third = renew_at(&mut holder, ms(11_000));
        assert_eq!((third.seq, third.last_ack_seen, third.nonce), (3, 2, 102));
    }

    #[test]
    fn an_answer_counts_once_and_only_for_its_own_session_and_for_what_was_asked() {
        let mut holder = holder();
        renew_at(&mut holder, ms(10_000));
        let stranger = Ack { session: SessionId { counter: 2, ..session() }, ..ack(1) };
        assert_eq!(holder.handle_ack(&stranger, ms(10_001)), None);
        assert_eq!(holder.handle_ack(&ack(2), ms(10_001)), None);
        assert!(holder.handle_ack(&ack(1), ms(10_001)).is_some());
        assert_eq!(holder.handle_ack(&ack(1), ms(10_002)), None);
    }

    #[test]
    fn an_answer_to_a_renewal_that_was_forgotten_for_space_counts_for_nothing() {
        let mut holder = holder();
        for n in 0..=OUTSTANDING_MAX as u64 {
            renew_at(&mut holder, ms(10_000 + 500 * n));
        }
        assert_eq!(holder.handle_ack(&ack(1), ms(15_000)), None);
        assert!(holder.handle_ack(&ack(2), ms(15_000)).is_some());
    }

    #[test]
    fn a_grant_is_cut_to_the_holders_own_terms_and_a_shorter_one_is_taken() {
        let mut holder = holder();
        renew_at(&mut holder, ms(10_000));
        renew_at(&mut holder, ms(10_500));
        holder.handle_ack(&Ack { ttl: Span::from_secs(60), ..ack(1) }, ms(10_600));
        assert_eq!(holder.lease_end(), ms(12_970));
        let heard = holder.handle_ack(&Ack { ttl: Span::ZERO, ..ack(2) }, ms(10_700));
        assert_eq!(heard.map(|heard| heard.lease_end), Some(ms(12_970)), "no grant, but it was heard");
        assert_eq!(renew_at(&mut holder, ms(11_000)).last_ack_seen, 2);
    }

    #[test]
    fn what_an_earlier_leader_said_of_a_later_renewal_is_out_of_date() {
        let mut holder = holder();
        let told = |seq, term: u64, n_max| Ack { nonce: term << 32 | seq, news: News { n_max, ..NEWS }, ..ack(seq) };
        renew_at(&mut holder, ms(10_000));
        renew_at(&mut holder, ms(10_500));
        assert!(holder.handle_ack(&told(1, 7, 4), ms(10_600)).is_some());
        assert!(holder.handle_ack(&told(2, 6, 3), ms(10_700)).is_some(), "its lease counts");
        assert_eq!((holder.lease_end(), holder.n_max()), (ms(13_470), Some(4)));
    }

    #[test]
    fn a_lapse_is_told_once_and_again_when_a_revived_lease_runs_out() {
        let mut holder = holder();
        holder.handle_timeout(ms(10_000));
        assert_eq!(holder.poll_lapsed(), None, "what was never held does not lapse");
        holder.poll_renewal(7, None);
        holder.handle_ack(&ack(1), ms(10_001));
        holder.handle_timeout(ms(12_969));
        assert_eq!(holder.poll_lapsed(), None);
        holder.poll_renewal(7, None);
        assert_eq!(holder.poll_timeout(), Some(ms(12_970)));
        holder.handle_timeout(ms(12_970));
        assert_eq!(holder.poll_lapsed(), Some(ms(12_970)));
        holder.handle_timeout(ms(13_000));
        assert_eq!(holder.poll_lapsed(), None);

        holder.handle_ack(&ack(2), ms(13_100));
        assert!(holder.is_live(ms(13_100)));
        holder.handle_timeout(ms(20_000));
        assert_eq!(holder.poll_lapsed(), Some(ms(15_939)));
    }

    #[test]
    fn a_session_that_ended_renews_nothing_decides_nothing_and_names_its_successor() {
        let mut holder = holder();
        renew_at(&mut holder, ms(10_000));
        holder.handle_ack(&ack(1), ms(10_001));
        renew_at(&mut holder, ms(10_500));
        assert_eq!(holder.handle_session_dead(), SessionId { counter: 2, ..session() });
        assert!(!holder.is_live(ms(10_501)));
        assert_eq!(holder.handle_ack(&ack(2), ms(10_501)), None, "S5: a session does not come back");
        holder.handle_timeout(ms(11_000));
        assert_eq!((holder.poll_timeout(), holder.poll_renewal(7, None), holder.poll_lapsed()), (None, None, None));
    }

    #[test]
    fn a_shell_that_sends_late_shortens_the_lease() {
        let mut holder = holder();
        holder.handle_timeout(ms(10_000));
        // The machine stalls here; the renewal leaves at 10,900 and still counts from 10,000.
        let renewal = holder.poll_renewal(7, None).expect("due");
        assert_eq!(renewal.my_clock, ms(10_000));
    }
}
