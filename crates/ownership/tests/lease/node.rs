//! One node of the world: a clock, a holder, a grantor while it believes that it leads, and the shell around them, which
//! may have a bug seeded into it.

use limits::{Moment, Span};
use ringfence_ownership::SessionId;
use ringfence_ownership::lease::{Ack, Grantor, Holder, News, Renewal, Reply, Round, Terms};

use crate::chance::Chance;

/// A bug in the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    None,
    /// The lease is counted from the receipt of the acknowledgement instead of the sending of the renewal.
    CountsFromAck,
    /// Renewals are acknowledged without asking whether this node still leads.
    AcksUnconfirmed,
    /// A confirmation from a while ago is taken for one that begins now.
    OldConfirmation,
    /// A new leader believes that every lease was granted long ago.
    NewLeaderDoesNotWait,
    /// Nobody allows for clocks that differ.
    PerfectClocks,
    /// A shorter ttl is waited by as soon as it is granted.
    LeadersFallFirst,
    /// A shorter ttl is settled before the leases of a longer one are over.
    SettlesAtOnce,
    /// A longer ttl is counted on by holders before a leader waits by it.
    HoldersRiseFirst,
}

/// What a node wants of the world.
pub enum Effect {
    Renew(Renewal),
    Acknowledge(Ack),
    Confirm { term: u64, round: Round },
    Propose { term: u64, expired: Vec<SessionId> },
}

pub struct Node {
    clock: u64,
    rate: u64,
    bug: Bug,
    terms: Terms,
    pub holder: Holder,
    pub leads: Option<Leading>,
    /// Whom it takes for the leader, and of which term.
    pub follows: (usize, u64),
    pub stalled_until: u64,
    pub cut_off: bool,
    /// Until when the shell believes that it may decide: the holder's word, unless it has a bug.
    lease_end: Moment,
    pub lapses: u64,
}

pub struct Leading {
    pub term: u64,
    pub grantor: Grantor,
}

impl Node {
    pub fn new(session: SessionId, terms: Terms, bug: Bug, chance: &mut Chance) -> Node {
        let clock = chance.between(1_000_000_000_000, 9_000_000_000_000);
        Node {
            clock,
            rate: 990_000 + 5_000 * chance.between(0, 4),
            bug,
            terms,
            holder: Holder::new(session, terms, Moment::from_nanos(clock)),
            leads: None,
            follows: (0, 0),
            stalled_until: 0,
            cut_off: false,
            lease_end: Moment::ZERO,
            lapses: 0,
        }
    }

    /// What its clock reads.
    pub fn reading(&self) -> Moment {
        Moment::from_nanos(self.clock)
    }

    /// A millisecond of real time passes. The clock's rate is within 1 % of real time, often at one of the ends.
    pub fn pass_a_milli(&mut self, chance: &mut Chance) {
        if chance.between(0, 4_000) == 0 {
            self.rate = [990_000, 1_010_000, chance.between(990_000, 1_010_000)][chance.between(0, 2) as usize];
        }
        self.clock += self.rate;
    }

    pub fn may_decide(&self) -> bool {
        self.reading() < self.lease_end
    }

    pub fn lead(&mut self, term: u64, live: impl IntoIterator<Item = SessionId>) {
        let back = if self.bug == Bug::NewLeaderDoesNotWait { Span::from_secs(4) } else { Span::ZERO };
        let grantor = Grantor::new(self.reading().saturating_sub(back), live, self.terms, term);
        self.leads = Some(Leading { term, grantor });
    }

    /// It has applied the log as far as these terms.
    pub fn learn_terms(&mut self, terms: Terms) {
        self.terms = terms;
        self.holder.handle_terms(terms);
        let now = self.reading();
        if let Some(leading) = &mut self.leads {
            leading.grantor.handle_terms(terms, now);
        }
    }

    /// It hears that another node leads, and gives up leading an earlier term.
    pub fn follow(&mut self, leader: usize, term: u64) {
        if term > self.follows.1 {
            self.follows = (leader, term);
            self.leads.take_if(|leading| leading.term < term);
        }
    }

    pub fn open(&mut self, session: SessionId) {
        self.holder = Holder::new(session, self.terms, self.reading());
        self.lease_end = Moment::ZERO;
    }

    pub fn hear(&mut self, ack: &Ack) {
        let now = self.reading();
        let risen = Ack { ttl: self.terms.ttl(), ..*ack };
        let ack = if self.bug == Bug::HoldersRiseFirst { &risen } else { ack };
        if self.holder.handle_ack(ack, now).is_none() {
            return;
        }
        let from_ack = now.saturating_add(self.terms.held(ack.ttl));
        let end = if self.bug == Bug::CountsFromAck { from_ack } else { self.holder.lease_end() };
        self.lease_end = self.lease_end.max(end);
    }

    pub fn take(&mut self, renewal: &Renewal) {
        let now = self.reading();
        if let Some(leading) = &mut self.leads {
            let _refused = leading.grantor.handle_renewal(renewal, now);
        }
    }

    /// Does what is due and drains what comes of it.
    pub fn turn(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.turn_holder(&mut effects);
        self.turn_grantor(&mut effects);
        effects
    }

    fn turn_holder(&mut self, effects: &mut Vec<Effect>) {
        let now = self.reading();
        if self.holder.poll_timeout().is_some_and(|at| at <= now) {
            self.holder.handle_timeout(now);
        }
        effects.extend(self.holder.poll_renewal(0, None).map(Effect::Renew));
        self.lapses += u64::from(self.holder.poll_lapsed().is_some());
    }

    fn turn_grantor(&mut self, effects: &mut Vec<Effect>) {
        let now = self.reading();
        let Some(Leading { term, grantor }) = &mut self.leads else { return };
        let term = *term;
        if grantor.poll_timeout() <= now {
            grantor.handle_timeout(now);
        }
        if let Some(round) = grantor.poll_confirmation() {
            if self.bug == Bug::AcksUnconfirmed {
                grantor.handle_confirmed(round, news());
            } else {
                effects.push(Effect::Confirm { term, round });
            }
        }
        while let Some(reply) = grantor.poll_reply() {
            if let Reply::Ack(ack) = reply {
                effects.push(Effect::Acknowledge(ack));
            }
        }
        let expired = grantor.poll_expired();
        if !expired.is_empty() {
            effects.push(Effect::Propose { term, expired });
        }
    }
}

pub fn news() -> News {
    News { n_max: 5, n_max_settled: true, cluster_time: None, map_version: 1 }
}
