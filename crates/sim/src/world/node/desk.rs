//! Where renewals wait at the leader until its leadership is confirmed, as `node::desk` has it; and the rounds that confirm
//! it.

use std::collections::{BTreeMap, BTreeSet};

use control::Sessions;
use limits::Moment;
use ownership::SessionId;
use ownership::lease::{Ack, Grantor, News, Renewal, Reply, Round, Terms};
use ring::NodeId;

use super::{Effect, Node};
use crate::world::consensus::Ask;
use crate::world::packet::{Address, Call, NotRenewed, Packet};
use crate::world::trace::Event;

#[derive(Clone, Debug)]
pub(super) struct Desk {
    term: u64,
    grantor: Grantor,
    waiting: BTreeMap<(SessionId, u64), (Waiting, u64)>,
    /// Sessions whose first renewal has been seen.
    seen: BTreeSet<SessionId>,
    /// How many renewals went unheard before the one that a deadline comes from.
    unheard: BTreeMap<SessionId, u64>,
    round: Option<(Ask, Round)>,
    /// The deadlines that the trace knows.
    told: BTreeMap<SessionId, Moment>,
}

/// Who waits for what comes of a renewal.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Here,
    There(Address, Call),
}

impl Desk {
    pub(super) fn poll_timeout(&self) -> Moment {
        self.grantor.poll_timeout()
    }

    pub(super) fn grantor(&self) -> &Grantor {
        &self.grantor
    }

    pub(super) fn awaits(&self, ask: Ask) -> bool {
        self.round.is_some_and(|(asked, _)| asked == ask)
    }
}

impl Node {
    pub(super) fn open_desk(&mut self, term: u64) {
        let live: Vec<SessionId> =
            self.cluster().map(|cluster| cluster.sessions.live.keys().copied().collect()).unwrap_or_default();
        let grantor = Grantor::new(self.at.boot, live, self.terms, term);
        let (waiting, seen, unheard, told) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        self.desk = Some(Desk { term, grantor, waiting, seen, unheard, round: None, told });
        self.settle_desk();
    }

    /// This node leads no more: whoever waits is told to ask the new leader.
    pub(super) fn close_desk(&mut self) {
        let Some(desk) = self.desk.take() else { return };
        for (waiting, _) in desk.waiting.into_values() {
            self.answer_renewal(waiting, Err(NotRenewed::NotLeader));
        }
    }

    pub(super) fn desk_opened(&mut self, session: SessionId) {
        let now = self.at.boot;
        self.with_grantor(|grantor| grantor.handle_session_opened(session, now));
    }

    pub(super) fn desk_closed(&mut self, session: SessionId) {
        self.with_grantor(|grantor| grantor.handle_session_closed(session));
        if let Some(desk) = &mut self.desk {
            desk.told.remove(&session);
        }
    }

    pub(super) fn take_renewal(&mut self, from: Address, call: Call, renewal: &Renewal) {
        self.hand_in(Waiting::There(from, call), renewal);
    }

    /// This node's own renewal, where it leads itself.
    pub(super) fn renew_here(&mut self, renewal: &Renewal) {
        self.hand_in(Waiting::Here, renewal);
    }

    fn hand_in(&mut self, waiting: Waiting, renewal: &Renewal) {
        let now = self.at.boot;
        let Some(desk) = &mut self.desk else {
            return self.answer_renewal(waiting, Err(NotRenewed::NotLeader));
        };
        let taken = desk.grantor.handle_renewal(renewal, now);
        if taken.is_ok() {
            // The first renewal that a leader sees proves nothing and need not.
            let first = desk.seen.insert(renewal.session);
            let unheard = if first { 0 } else { renewal.seq.saturating_sub(renewal.last_ack_seen) };
            desk.waiting.insert((renewal.session, renewal.seq), (waiting, unheard));
        }
        self.settle_desk();
        if let Err(why) = taken {
            self.effect(Effect::Count("renewals refused"));
            self.answer_renewal(waiting, Err(NotRenewed::Refused(why)));
        }
    }

    fn answer_renewal(&mut self, waiting: Waiting, answer: Result<Ack, NotRenewed>) {
        match (waiting, answer) {
            (Waiting::Here, Ok(ack)) => self.handle_ack(&ack),
            (Waiting::Here, Err(_)) => {}
            (Waiting::There(to, call), answer) => self.effect(Effect::Reply(to, Packet::Renewed(call, answer))),
        }
    }

    /// Confirms leadership for those who wait, and notes the sessions whose lease has run out.
    pub(super) fn serve_desk(&mut self) -> bool {
        let now = self.at.boot;
        let Some(desk) = &mut self.desk else { return false };
        let mut busy = false;
        if let Some(round) = desk.grantor.poll_confirmation() {
            busy = true;
            match self.log.confirm(now) {
                Ok(ask) => desk.round = Some((ask, round)),
                Err(_) => desk.grantor.handle_unconfirmed(round),
            }
        }
        if desk.grantor.poll_timeout() <= now {
            desk.grantor.handle_timeout(now);
            busy = true;
        }
        let expired = desk.grantor.poll_expired();
        if busy {
            self.settle_desk();
        }
        if !expired.is_empty() {
            self.note_due(expired);
        }
        busy
    }

    /// A round that the desk waited for is over: confirmed in that term, or not.
    pub(super) fn round_over(&mut self, ask: Ask, term: Option<u64>) {
        let news = self.news_if(|desk| desk.awaits(ask) && Some(desk.term) == term);
        let Some(desk) = &mut self.desk else { return };
        let Some((_, round)) = desk.round.take_if(|(asked, _)| *asked == ask) else { return };
        match news {
            Some(news) => desk.grantor.handle_confirmed(round, news),
            None => desk.grantor.handle_unconfirmed(round),
        }
        self.settle_desk();
    }

    fn news_if(&mut self, due: impl Fn(&Desk) -> bool) -> Option<News> {
        let odd = self.desk.as_ref().filter(|desk| due(desk))?.grantor.odd_clocks();
        let (now, wall) = (self.at.boot, self.at.wall);
        let cluster_time = Some(self.time.lead(now, wall));
        if !odd.contains(&self.owner.lease().session) {
            self.time.steer(now, wall);
        }
        let sessions = self.cluster().map(|cluster| &cluster.sessions);
        let n_max = sessions.map_or(u32::MAX, |sessions| sessions.n_max);
        let lenders = sessions.map_or(Some(BTreeSet::new()), Sessions::lenders_known);
        let n_max_settled = lenders.is_some_and(|lenders| self.all_go_by(n_max, lenders));
        Some(News { n_max, n_max_settled, cluster_time, map_version: self.routes.map_version() })
    }

    /// Whether everybody who lives, and the last sessions of these, are known to divide the emergency shares by at least so
    /// many.
    pub(super) fn all_go_by(&self, n_max: u32, lenders: BTreeSet<NodeId>) -> bool {
        self.desk.as_ref().is_some_and(|desk| desk.grantor.all_go_by(n_max, lenders.into_iter()))
    }

    pub(super) fn desk_terms(&mut self, terms: Terms) {
        let now = self.at.boot;
        self.with_grantor(|grantor| grantor.handle_terms(terms, now));
    }

    fn with_grantor(&mut self, act: impl FnOnce(&mut Grantor)) {
        if let Some(desk) = &mut self.desk {
            act(&mut desk.grantor);
            self.settle_desk();
        }
    }

    /// Hands out the replies that are due, and tells of deadlines that moved.
    fn settle_desk(&mut self) {
        let mut due = Vec::new();
        while let Some((desk, reply)) = self.desk.as_mut().and_then(|desk| {
            let reply = desk.grantor.poll_reply()?;
            Some((desk, reply))
        }) {
            let (key, answer) = match reply {
                Reply::Ack(ack) => ((ack.session, ack.seq), Ok(ack)),
                Reply::Dropped { session, seq } => ((session, seq), Err(NotRenewed::Dropped)),
            };
            if let Some((waiting, unheard)) = desk.waiting.remove(&key) {
                if answer.is_ok() {
                    desk.unheard.insert(key.0, unheard);
                }
                due.push((waiting, answer));
            }
        }
        self.tell_deadlines();
        due.into_iter().for_each(|(waiting, answer)| self.answer_renewal(waiting, answer));
    }

    pub(super) fn tell_deadlines(&mut self) {
        let node = self.machine;
        let (Some(desk), Some(cluster)) = (&mut self.desk, self.state.cluster()) else { return };
        let term = desk.term;
        for session in cluster.sessions.live.keys().copied() {
            let Some(deadline) = desk.grantor.deadline(session) else { continue };
            let unheard = desk.unheard.remove(&session).unwrap_or(0);
            if desk.told.insert(session, deadline) != Some(deadline) {
                self.out.0.push(Effect::Trace(Event::Granted { node, term, session, deadline, unheard }));
            }
        }
    }
}
