//! Five nodes in virtual real time, one step per millisecond. Between them is a network that loses, delays, repeats and
//! reorders; nodes stall; the cluster splits, and elects a leader on the side of the majority while the old one goes on
//! believing. Consensus itself is assumed: a confirmation succeeds only if no successor was elected when it began, and an
//! entry commits only while its proposer leads.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use ring::NodeId;
use ringfence_ownership::SessionId;
use ringfence_ownership::lease::{Ack, Renewal, Round, Terms};

use crate::chance::Chance;
use crate::node::{Bug, Effect, Leading, Node, news};
use crate::terms::Agreed;

pub const NODES: usize = 5;

/// What the network and the machines do to a run.
#[derive(Clone, Copy)]
pub struct Weather {
    pub delay_max_ms: u64,
    pub loss_percent: u64,
    pub duplicate_percent: u64,
    /// Whether the cluster splits, and nodes stall for seconds.
    pub faults: bool,
    /// How long a leader leads before it may be deposed in passing; never, if absent.
    pub steady_ms: Option<u64>,
    /// Whether operators change the ttl.
    pub ttl_changes: bool,
}

impl Weather {
    pub const FINE: Weather = Weather {
        delay_max_ms: 20,
        loss_percent: 0,
        duplicate_percent: 0,
        faults: false,
        steady_ms: None,
        ttl_changes: false,
    };
    /// Leaders come and go, each long enough to hear everybody once.
    pub const CHANGEABLE: Weather = Weather { steady_ms: Some(1_000), ..Weather::FINE };
    pub const STORM: Weather = Weather {
        delay_max_ms: 250,
        loss_percent: 10,
        duplicate_percent: 10,
        faults: true,
        steady_ms: Some(0),
        ttl_changes: false,
    };
    /// A storm in which the ttl changes every few seconds.
    pub const STORM_OF_TERMS: Weather = Weather { ttl_changes: true, steady_ms: Some(3_000), ..Weather::STORM };
}

/// How a run broke the order of leases, in words, and when.
pub type Violation = String;

pub enum Body {
    Renewal(Renewal),
    Ack(Ack),
}

/// What happens at a later moment.
pub enum Later {
    Arrive { from: usize, to: usize, body: Body },
    EndRound { node: usize, term: u64, round: Round, may_succeed: bool },
    Commit { term: u64, expired: Vec<SessionId> },
    LearnDeath { node: usize, session: SessionId },
    Open { node: usize, session: SessionId },
    LearnLeader { node: usize, leader: usize, term: u64 },
    Elect,
    Split,
    Heal,
    SetTtl,
    LearnTerms { node: usize, terms: Terms },
    Settle { term: u64, change: u64 },
}

pub struct World {
    pub chance: Chance,
    weather: Weather,
    pub bug: Bug,
    rho: u16,
    /// The ttl, as the log has it.
    pub agreed: Agreed,
    pub now: u64,
    pub nodes: Vec<Node>,
    later: Vec<(u64, Later)>,
    pub term: u64,
    pub leader: usize,
    /// When the current leader was elected.
    elected_at: u64,
    electing: bool,
    live: BTreeSet<SessionId>,
    pub expiries: u64,
    pub elections: u64,
    pub deciding_ms: u64,
    pub ttl_changes: u64,
    pub settled: u64,
}

impl World {
    pub fn new(seed: u64, weather: Weather, bug: Bug) -> World {
        let mut chance = Chance::new(seed);
        let rho = if bug == Bug::PerfectClocks { 0 } else { 10 };
        let terms = Agreed::FIRST.terms(rho);
        let sessions: Vec<SessionId> = (0..NODES).map(first_session).collect();
        let nodes = sessions.iter().map(|session| Node::new(*session, terms, bug, &mut chance)).collect();
        let mut world = World {
            chance,
            weather,
            bug,
            rho,
            agreed: Agreed::FIRST,
            now: 0,
            nodes,
            later: Vec::new(),
            term: 0,
            leader: 0,
            elected_at: 0,
            electing: false,
            live: sessions.into_iter().collect(),
            expiries: 0,
            elections: 0,
            deciding_ms: 0,
            ttl_changes: 0,
            settled: 0,
        };
        world.elect();
        world.after(500, 3_000, Later::Split);
        if weather.ttl_changes {
            world.after(1_000, 6_000, Later::SetTtl);
        }
        world
    }

    /// Runs for `millis`, and stops at the first violation.
    pub fn run(&mut self, millis: u64) -> Result<(), Violation> {
        for _ in 0..millis {
            self.step();
            self.check()?;
        }
        Ok(())
    }

    /// The weather turns fine, for good.
    pub fn calm_down(&mut self) {
        self.weather = Weather::FINE;
        self.heal();
        for node in &mut self.nodes {
            node.stalled_until = 0;
        }
    }

    /// The terms in force.
    pub fn terms(&self) -> Terms {
        self.agreed.terms(self.rho)
    }

    pub fn all_may_decide(&self) -> bool {
        self.nodes.iter().all(Node::may_decide)
    }

    fn step(&mut self) {
        self.now += 1;
        for node in &mut self.nodes {
            node.pass_a_milli(&mut self.chance);
        }
        self.disturb();
        let now = self.now;
        let due: Vec<Later> = self.later.extract_if(.., |(at, _)| *at <= now).map(|(_, later)| later).collect();
        for later in due {
            self.happen(later);
        }
        for node in 0..NODES {
            if self.nodes[node].stalled_until <= self.now {
                let effects = self.nodes[node].turn();
                effects.into_iter().for_each(|effect| self.carry_out(node, effect));
            }
        }
        self.propose_to_settle();
        self.deciding_ms += self.nodes.iter().filter(|node| node.may_decide()).count() as u64;
    }

    /// S4 and S5 in real time: nobody decides under a session that the log has ended, or whose deadline has passed on the
    /// clock of the leader who may end it.
    fn check(&self) -> Result<(), Violation> {
        let leader = &self.nodes[self.leader];
        for node in self.nodes.iter().filter(|node| node.may_decide()) {
            let session = node.holder.session();
            if !self.live.contains(&session) {
                return Err(format!("at {} ms {session:?} decides although the log has ended it", self.now));
            }
            let deadline = leader.leads.as_ref().and_then(|leading| leading.grantor.deadline(session));
            if deadline.is_some_and(|deadline| leader.reading() > deadline) {
                return Err(format!("at {} ms {session:?} decides although its deadline has passed", self.now));
            }
        }
        Ok(())
    }

    fn disturb(&mut self) {
        let steady = self.weather.steady_ms.is_some_and(|steady| self.now > self.elected_at + steady);
        if steady && !self.electing && self.chance.between(0, 2_000) == 0 {
            self.lose_leader();
        }
        if self.weather.faults && self.chance.between(0, 3_000) == 0 {
            let node = self.chance.between(0, NODES as u64 - 1) as usize;
            self.nodes[node].stalled_until = self.now + self.chance.between(50, 6_000);
        }
    }

    /// The leader is gone, or only seems to be.
    fn lose_leader(&mut self) {
        if self.chance.percent(50) {
            self.nodes[self.leader].leads = None;
        }
        self.call_election();
    }

    /// The others elect within the failover time.
    fn call_election(&mut self) {
        self.electing = true;
        self.after(150, 650, Later::Elect);
    }

    fn carry_out(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Renew(renewal) => self.send(node, self.nodes[node].follows.0, || Body::Renewal(renewal)),
            Effect::Acknowledge(ack) => self.send(node, home_of(ack.session), || Body::Ack(ack)),
            Effect::Confirm { term, round } => {
                let may_succeed = self.leads_when_asked(node, term);
                self.after(1, self.weather.delay_max_ms, Later::EndRound { node, term, round, may_succeed });
            }
            Effect::Propose { term, expired } => self.after(0, 100, Later::Commit { term, expired }),
        }
    }

    /// Whether a majority still follows that leader when the confirmation begins.
    fn leads_when_asked(&self, node: usize, term: u64) -> bool {
        let stale = if self.bug == Bug::OldConfirmation { 400 } else { 0 };
        let just_deposed = term + 1 == self.term && self.now < self.elected_at + stale;
        just_deposed || (term == self.term && !self.nodes[node].cut_off)
    }

    fn send(&mut self, from: usize, to: usize, body: impl Fn() -> Body) {
        let copies = 1 + u64::from(self.chance.percent(self.weather.duplicate_percent));
        for _ in 0..copies {
            if !self.chance.percent(self.weather.loss_percent) {
                self.after(1, self.weather.delay_max_ms, Later::Arrive { from, to, body: body() });
            }
        }
    }

    fn happen(&mut self, later: Later) {
        match later {
            Later::Arrive { from, to, body } => self.arrive(from, to, body),
            Later::EndRound { node, term, round, may_succeed } => self.end_round(node, term, round, may_succeed),
            Later::Commit { term, expired } => self.commit(term, &expired),
            Later::LearnDeath { node, session } => self.learn_death(node, session),
            Later::Open { node, session } => self.open(node, session),
            Later::LearnLeader { node, leader, term } => self.nodes[node].follow(leader, term),
            Later::Elect => self.elect(),
            Later::Split => self.split(),
            Later::Heal => self.heal(),
            Later::SetTtl => self.set_ttl(),
            Later::LearnTerms { node, terms } => self.nodes[node].learn_terms(terms),
            Later::Settle { term, change } => self.settle(term, change),
        }
    }

    fn arrive(&mut self, from: usize, to: usize, body: Body) {
        if self.nodes[to].stalled_until > self.now {
            self.later.push((self.nodes[to].stalled_until, Later::Arrive { from, to, body }));
        } else if self.nodes[from].cut_off == self.nodes[to].cut_off {
            match body {
                Body::Renewal(renewal) => self.nodes[to].take(&renewal),
                Body::Ack(ack) => self.nodes[to].hear(&ack),
            }
        }
    }

    fn end_round(&mut self, node: usize, term: u64, round: Round, may_succeed: bool) {
        let succeeds = may_succeed && (term == self.term || self.chance.percent(50));
        let Some(Leading { grantor, .. }) = &mut self.nodes[node].leads else { return };
        match succeeds {
            true => grantor.handle_confirmed(round, news()),
            false => grantor.handle_unconfirmed(round),
        }
    }

    fn commit(&mut self, term: u64, expired: &[SessionId]) {
        if term != self.term || self.nodes[self.leader].cut_off {
            return;
        }
        for &session in expired {
            self.expiries += u64::from(self.live.remove(&session));
            if let Some(leading) = &mut self.nodes[self.leader].leads {
                leading.grantor.handle_session_closed(session);
            }
            self.after(0, 3_000, Later::LearnDeath { node: home_of(session), session });
        }
    }

    fn learn_death(&mut self, node: usize, session: SessionId) {
        if self.nodes[node].holder.session() == session {
            let next = self.nodes[node].holder.handle_session_dead();
            self.after(1, 200, Later::Open { node, session: next });
        }
    }

    fn open(&mut self, node: usize, session: SessionId) {
        self.live.insert(session);
        let leader = &mut self.nodes[self.leader];
        let reading = leader.reading();
        if let Some(leading) = &mut leader.leads {
            leading.grantor.handle_session_opened(session, reading);
        }
        self.nodes[node].open(session);
    }

    fn elect(&mut self) {
        let voters: Vec<usize> = (0..NODES).filter(|node| !self.nodes[*node].cut_off).collect();
        self.leader = voters[self.chance.between(0, voters.len() as u64 - 1) as usize];
        self.term += 1;
        self.elections += 1;
        (self.elected_at, self.electing) = (self.now, false);
        // Whatever is committed, who begins to lead has applied.
        let terms = self.terms();
        self.nodes[self.leader].learn_terms(terms);
        self.nodes[self.leader].lead(self.term, self.live.iter().copied());
        (0..NODES).for_each(|node| self.tell_leader(node));
    }

    /// A node hears who leads, unless it is cut off.
    fn tell_leader(&mut self, node: usize) {
        if !self.nodes[node].cut_off {
            self.after(0, 50, Later::LearnLeader { node, leader: self.leader, term: self.term });
        }
    }

    /// One or two nodes are cut off, the leader often among them.
    fn split(&mut self) {
        if !self.weather.faults {
            return;
        }
        let first = if self.chance.percent(70) { self.leader } else { self.chance.between(0, 4) as usize };
        let second = self.chance.between(0, 4) as usize;
        (self.nodes[first].cut_off, self.nodes[second].cut_off) = (true, true);
        if self.nodes[self.leader].cut_off {
            self.call_election();
        }
        self.after(1_000, 8_000, Later::Heal);
    }

    fn heal(&mut self) {
        for node in 0..NODES {
            self.nodes[node].cut_off = false;
            self.tell_leader(node);
        }
        if self.nodes[self.leader].leads.is_none() {
            self.call_election();
        }
        self.after(500, 5_000, Later::Split);
    }

    pub fn after(&mut self, least_ms: u64, most_ms: u64, later: Later) {
        let at = self.now + self.chance.between(least_ms, most_ms);
        self.later.push((at, later));
    }
}

fn first_session(node: usize) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::MIN.saturating_add(node as u64)), nonce: 77, counter: 1 }
}

fn home_of(session: SessionId) -> usize {
    session.node.0.get() as usize - 1
}
