//! The group: nodes with clocks of their own, a network that loses, doubles and delays, splits, crashes and stuck disks
//! for eight seconds; then everything heals, and the group must be of one mind.

use std::collections::BTreeMap;

use limits::Moment;

use super::super::*;
use super::checks::Checks;
use crate::world::making::Chance;

const TROUBLE_MS: u64 = 8_000;
const END_MS: u64 = 12_000;

/// What a run got into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) elections: u64,
    pub(super) committed: u64,
    pub(super) crashes: u64,
    pub(super) stuck: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Asks put to a leader whose successor was elected already.
    pub(super) believed_too_long: u64,
    pub(super) undecided_and_committed: u64,
    pub(super) undecided_and_gone: u64,
    pub(super) confirmed: u64,
    /// Confirmations that were rightly there only after a successor was elected.
    pub(super) confirmed_late: u64,
    pub(super) unconfirmed: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Seen) {
        self.elections += other.elections;
        self.committed += other.committed;
        self.crashes += other.crashes;
        self.stuck += other.stuck;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.believed_too_long += other.believed_too_long;
        self.undecided_and_committed += other.undecided_and_committed;
        self.undecided_and_gone += other.undecided_and_gone;
        self.confirmed += other.confirmed;
        self.confirmed_late += other.confirmed_late;
        self.unconfirmed += other.unconfirmed;
    }
}

pub(super) type Violation = String;

enum Happening {
    Arrive(Message<u64>),
    Ask,
    Trouble,
    Crash { node: u8 },
    Start { node: u8 },
    Unstick { node: u8, life: u64 },
    Heal,
}

struct Node {
    /// How much later than real time its clock reads, and how many millionths faster it runs.
    ahead_ms: u64,
    ppm: i64,
    /// While no process runs.
    disk: Disk<u64>,
    /// Counts processes.
    life: u64,
    process: Option<Consensus<u64>>,
    stuck: bool,
}

impl Node {
    fn reads(&self, real_us: u64) -> Moment {
        let drift = i64::try_from(real_us).unwrap() * self.ppm / 1_000_000;
        Moment::from_nanos((self.ahead_ms * 1_000 + real_us.saturating_add_signed(drift)) * 1_000)
    }

    /// A real time at which its clock reads at least so much.
    fn real(&self, reading: Moment) -> u64 {
        let own_us = (reading.as_nanos() / 1_000).saturating_sub(self.ahead_ms * 1_000);
        let guess = i64::try_from(own_us).unwrap() * 1_000_000 / (1_000_000 + self.ppm);
        u64::try_from(guess).unwrap() + 2
    }
}

pub(super) struct Group {
    seed: u64,
    chance: Chance,
    now_us: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    queued: u64,
    nodes: Vec<Node>,
    /// Who hears whom: `hears[to][from]`.
    hears: Vec<Vec<bool>>,
    healed: bool,
    proposed: u64,
    checks: Checks,
    seen: Seen,
}

impl Group {
    pub(super) fn new(seed: u64) -> Group {
        let mut chance = Chance::of(seed, 100);
        let size = if chance.one_in(3) { 5 } else { 3 };
        let node = |chance: &mut Chance| Node {
            ahead_ms: chance.below(100_000),
            ppm: i64::try_from(chance.below(20_001)).unwrap() - 10_000,
            disk: Disk::default(),
            life: 0,
            process: None,
            stuck: false,
        };
        let mut group = Group {
            seed,
            now_us: 0,
            queue: BTreeMap::new(),
            queued: 0,
            nodes: (0..size).map(|_| node(&mut chance)).collect(),
            hears: vec![vec![true; size]; size],
            healed: false,
            proposed: 0,
            checks: Checks::default(),
            seen: Seen::default(),
            chance,
        };
        for node in 0..group.size() {
            group.after_ms(0, 300, Happening::Start { node });
        }
        group.after_ms(0, 0, Happening::Ask);
        group.after_ms(500, 1_000, Happening::Trouble);
        group.after_ms(TROUBLE_MS, TROUBLE_MS, Happening::Heal);
        group
    }

    pub(super) fn run(mut self) -> Result<Seen, Violation> {
        loop {
            let due = (0..self.size()).filter_map(|node| Some((self.timeout(node)?, node))).min();
            let next = self.queue.keys().next().map(|(at, _)| *at).unwrap_or(u64::MAX);
            let timer = due.filter(|(at, _)| *at <= next);
            self.now_us = self.now_us.max(timer.map_or(next, |(at, _)| at));
            if self.now_us > END_MS * 1_000 {
                break;
            }
            match timer {
                Some((_, node)) => self.with(node, |process, now| process.handle_timeout(now))?,
                None => {
                    let (_, happening) = self.queue.pop_first().unwrap();
                    self.happen(happening)?;
                }
            }
        }
        self.end()
    }

    fn size(&self) -> u8 {
        u8::try_from(self.nodes.len()).unwrap()
    }

    fn timeout(&self, node: u8) -> Option<u64> {
        let node = &self.nodes[usize::from(node)];
        Some(node.real(node.process.as_ref()?.poll_timeout()?))
    }

    fn after_ms(&mut self, low: u64, high: u64, happening: Happening) {
        let at = self.now_us + self.chance.between(low * 1_000, high * 1_000);
        self.queued += 1;
        self.queue.insert((at, self.queued), happening);
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Arrive(message) => self.with(message.to, |process, now| process.handle_message(message, now))?,
            Happening::Ask => self.ask()?,
            Happening::Trouble => self.trouble()?,
            Happening::Crash { node } => self.crash(node, 30),
            Happening::Start { node } => self.start(node)?,
            Happening::Unstick { node, life } if self.nodes[usize::from(node)].life == life => self.unstick(node)?,
            Happening::Unstick { .. } => {}
            Happening::Heal => self.heal()?,
        }
        Ok(())
    }

    /// Hands something to a process, if one runs there, and carries out what comes of it.
    fn with(&mut self, node: u8, hand: impl FnOnce(&mut Consensus<u64>, Moment)) -> Result<(), Violation> {
        let at = &mut self.nodes[usize::from(node)];
        let now = at.reads(self.now_us);
        if let Some(process) = &mut at.process {
            hand(process, now);
        }
        self.drain(node)
    }

    fn drain(&mut self, node: u8) -> Result<(), Violation> {
        let at = &mut self.nodes[usize::from(node)];
        let (life, stuck) = (at.life, at.stuck);
        let Some(process) = &mut at.process else { return Ok(()) };
        while let Some(entry) = process.poll_committed() {
            self.checks.committed(node, life, &entry)?;
        }
        while let Some(outcome) = process.poll_outcome() {
            self.checks.outcome((node, life), outcome, stuck, &mut self.seen)?;
        }
        self.checks.leads(node, process, &mut self.seen)?;
        let messages: Vec<_> = std::iter::from_fn(|| process.poll_message()).collect();
        if stuck && !messages.is_empty() {
            return Err(format!("node {node} says something although its disk is stuck"));
        }
        messages.into_iter().for_each(|message| self.send(message));
        Ok(())
    }

    fn send(&mut self, message: Message<u64>) {
        let is_heard = self.hears[usize::from(message.to)][usize::from(message.from)];
        if !self.healed && is_heard && self.chance.one_in(20) {
            self.seen.doubled += 1;
            self.after_ms(1, 2_000, Happening::Arrive(message.clone()));
        }
        if !is_heard || (!self.healed && self.chance.one_in(20)) {
            self.seen.lost += 1;
            // As in the buffers of a connection, it may arrive when nobody thinks of it any more.
            if self.chance.one_in(4) {
                self.after_ms(100, 4_000, Happening::Arrive(message));
            }
            return;
        }
        if !self.healed && message.body == (Body::Vote { granted: true }) && self.chance.one_in(2) {
            // Whoever has just voted must remember.
            self.after_ms(0, 1, Happening::Crash { node: message.from });
        }
        let most = if !self.healed && self.chance.one_in(10) { 400 } else { 10 };
        self.after_ms(1, most, Happening::Arrive(message));
    }

    /// Some node, the leader or not, is asked for something.
    fn ask(&mut self) -> Result<(), Violation> {
        self.after_ms(5, 40, Happening::Ask);
        let node = u8::try_from(self.chance.below(u64::from(self.size()))).unwrap();
        let proposes = self.chance.one_in(2);
        let at = &mut self.nodes[usize::from(node)];
        let now = at.reads(self.now_us);
        let Some(process) = &mut at.process else { return Ok(()) };
        if proposes {
            self.proposed += 1;
            if let Ok(ask) = process.propose(self.proposed, now) {
                self.checks.proposed((node, at.life), ask, self.proposed);
            }
        } else if let Ok(ask) = process.confirm(now) {
            self.checks.asked((node, at.life), ask, process.leadership().term, &mut self.seen);
        }
        self.drain(node)?;
        self.checks.logs(self.nodes.iter().map(Node::log))
    }

    fn trouble(&mut self) -> Result<(), Violation> {
        if self.healed {
            return Ok(());
        }
        self.after_ms(100, 900, Happening::Trouble);
        let node = self.victim();
        match self.chance.below(6) {
            0 | 1 => self.crash(node, 1_500),
            2 => self.stick(node)?,
            3 | 4 => self.split(node),
            _ => self.hears.iter_mut().flatten().for_each(|hears| *hears = true),
        }
        Ok(())
    }

    /// Often one that believes to lead.
    fn victim(&mut self) -> u8 {
        let leads = |node: &u8| {
            self.nodes[usize::from(*node)].process.as_ref().is_some_and(|process| process.leadership().is_me)
        };
        let leaders: Vec<u8> = (0..self.size()).filter(leads).collect();
        let all: Vec<u8> = (0..self.size()).collect();
        let from = if leaders.is_empty() || self.chance.one_in(2) { all } else { leaders };
        *self.chance.pick(&from)
    }

    fn crash(&mut self, node: u8, down_ms: u64) {
        let at = &mut self.nodes[usize::from(node)];
        if let Some(process) = at.process.take() {
            at.disk = process.into_disk();
            at.stuck = false;
            self.seen.crashes += 1;
            self.after_ms(1, down_ms, Happening::Start { node });
        }
    }

    fn start(&mut self, node: u8) -> Result<(), Violation> {
        let size = self.size();
        let at = &mut self.nodes[usize::from(node)];
        at.life += 1;
        let (disk, seed) = (std::mem::take(&mut at.disk), self.seed ^ (at.life << 32));
        at.process = Some(Consensus::new(node, size, disk, seed, at.reads(self.now_us)));
        self.drain(node)
    }

    fn stick(&mut self, node: u8) -> Result<(), Violation> {
        let at = &mut self.nodes[usize::from(node)];
        if at.process.is_none() || at.stuck {
            return Ok(());
        }
        at.stuck = true;
        let life = at.life;
        self.seen.stuck += 1;
        self.after_ms(50, 3_000, Happening::Unstick { node, life });
        self.with(node, |process, now| process.handle_disk(true, now))
    }

    fn unstick(&mut self, node: u8) -> Result<(), Violation> {
        self.nodes[usize::from(node)].stuck = false;
        self.with(node, |process, now| process.handle_disk(false, now))
    }

    /// One node is cut off, wholly or one way, or everybody hears whom they happen to.
    fn split(&mut self, node: u8) {
        let node = usize::from(node);
        match self.chance.below(4) {
            0 => self.hears[node].iter_mut().for_each(|hears| *hears = false),
            1 => self.hears.iter_mut().for_each(|hears| hears[node] = false),
            2 => {
                self.hears[node].iter_mut().for_each(|hears| *hears = false);
                self.hears.iter_mut().for_each(|hears| hears[node] = false);
            }
            _ => self.hears.iter_mut().flatten().for_each(|hears| *hears = self.chance.one_in(2)),
        }
    }

    fn heal(&mut self) -> Result<(), Violation> {
        self.healed = true;
        self.hears.iter_mut().flatten().for_each(|hears| *hears = true);
        for node in 0..self.size() {
            self.unstick(node)?;
        }
        Ok(())
    }

    /// After the healing there is one leader, nothing is undecided for ever, and everybody has what is committed.
    fn end(mut self) -> Result<Seen, Violation> {
        self.seen.committed = self.checks.ledger_len();
        self.checks.count_undecided(&mut self.seen);
        let processes: Vec<_> = self.nodes.iter().map(|node| node.process.as_ref().ok_or("a node is down")).collect();
        let processes: Vec<_> = processes.into_iter().collect::<Result<_, _>>()?;
        let leaders = processes.iter().filter(|process| process.leadership().is_me).count();
        let behind = processes.iter().any(|process| process.disk().committed() + 20 < self.seen.committed);
        let fresh = self.checks.committed_of_late(self.proposed);
        match (leaders, behind, fresh) {
            (1, false, true) => Ok(self.seen),
            _ => Err(format!("not of one mind: {leaders} lead, somebody behind: {behind}, goes on: {fresh}")),
        }
    }
}

impl Node {
    fn log(&self) -> &Disk<u64> {
        self.process.as_ref().map_or(&self.disk, Consensus::disk)
    }
}
