//! A few nodes, their disks and a bad network in one thread, from one seed. For eight seconds messages are lost,
//! doubled and late, views are split, nodes crash before and after their disks have what they wrote, and one founder
//! loses its disk. Then everything heals, but for messages that are still under way.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const TROUBLE: u64 = 8_000;
const END: u64 = 20_000;
const TICK: u64 = 50;
const HELLO_EVERY: u64 = 300;

/// How many seeds a run looks at.
const SEEDS: u64 = 1_000;

#[test]
fn a_thousand_schedules_found_exactly_one_cluster_each() {
    let mut seen = Coverage::default();
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed, Seeded::None).run();
        let coverage = outcome.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        seen.add(coverage);
    }
    // A schedule that never got into trouble proves nothing.
    assert!(seen.disks_lost_after_birth >= 100, "{seen:?}");
    assert!(seen.founded_again_after_loss >= 20, "{seen:?}");
    assert!(seen.followed_after_loss >= 20, "{seen:?}");
    assert!(seen.crashed_between_promise_and_genesis >= 100, "{seen:?}");
    assert!(seen.split >= 500 && seen.lost >= 10_000 && seen.doubled >= 10_000, "{seen:?}");
}

#[test]
fn a_founder_content_with_most_promises_is_caught() {
    assert_caught(Seeded::MajorityFounds, 100);
}

#[test]
fn a_promise_that_does_not_bind_is_caught() {
    assert_caught(Seeded::PromiseDoesNotBind, SEEDS);
}

#[test]
fn a_promise_that_is_not_written_down_is_caught() {
    assert_caught(Seeded::PromiseIsNotWritten, SEEDS);
}

fn assert_caught(seeded: Seeded, within: u64) {
    let caught = (0..within).find(|&seed| Simulation::new(seed, seeded).run().is_err());
    assert!(caught.is_some(), "{seeded:?} was not caught within {within} seeds");
}

#[derive(Clone, Copy, Debug, Default)]
struct Coverage {
    disks_lost_after_birth: u64,
    founded_again_after_loss: u64,
    followed_after_loss: u64,
    crashed_between_promise_and_genesis: u64,
    split: u64,
    lost: u64,
    doubled: u64,
}

impl Coverage {
    fn add(&mut self, other: Coverage) {
        self.disks_lost_after_birth += other.disks_lost_after_birth;
        self.founded_again_after_loss += other.founded_again_after_loss;
        self.followed_after_loss += other.followed_after_loss;
        self.crashed_between_promise_and_genesis += other.crashed_between_promise_and_genesis;
        self.split += other.split;
        self.lost += other.lost;
        self.doubled += other.doubled;
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

#[derive(Clone)]
enum Packet {
    Hello(Hello),
    Request(PromiseRequest),
    Reply(PromiseReply),
}

enum Happening {
    Deliver {
        to: usize,
        packet: Packet,
    },
    /// The disk has what that life of the node wrote.
    Written {
        node: usize,
        life: u64,
        standing: Standing,
    },
    /// A node that asked to be added hears whether it was.
    Admission {
        node: usize,
        life: u64,
        birth: Birth,
    },
    Tick,
    Trouble,
    Crash {
        node: usize,
    },
    Wipe {
        node: usize,
    },
    Restart {
        node: usize,
    },
    Heal,
}

struct Node {
    name: String,
    id: u64,
    disk: Standing,
    /// Counts processes; none runs while `process` is empty.
    life: u64,
    process: Option<Founding>,
}

struct Simulation {
    seeded: Seeded,
    chance: Chance,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    queued: u64,
    founders: u64,
    nodes: Vec<Node>,
    /// Who hears whom.
    hears: Vec<Vec<bool>>,
    /// The only founder whose disk may be lost, and how often it still is.
    victim: usize,
    losses_left: u64,
    healed: bool,
    births: BTreeSet<ClusterId>,
    committed: BTreeSet<ClusterId>,
    coverage: Coverage,
}

type Violation = String;

impl Simulation {
    fn new(seed: u64, seeded: Seeded) -> Simulation {
        let mut chance = Chance(seed);
        // Mostly three founders; a fourth node that is none is always there from the start.
        let founders = [3, 3, 3, 3, 5, 2, 1][chance.below(7) as usize];
        let size = founders as usize + 1;
        let nodes = (1..=size as u64)
            .map(|n| Node { name: format!("n{n}"), id: n * 1_000, disk: Standing::Free, life: 0, process: None })
            .collect();
        // With fewer than three founders nobody could refuse a founder that lost its disk.
        let losses_left = if founders >= 3 { 1 + chance.below(2) } else { 0 };
        let victim = if chance.one_in(3) { chance.below(founders) as usize } else { 0 };
        let hears = vec![vec![true; size]; size];
        let mut simulation = Simulation {
            seeded,
            chance,
            now: 0,
            queue: BTreeMap::new(),
            queued: 0,
            founders,
            nodes,
            hears,
            victim,
            losses_left,
            healed: false,
            births: BTreeSet::new(),
            committed: BTreeSet::new(),
            coverage: Coverage::default(),
        };
        simulation.set_out();
        simulation
    }

    fn set_out(&mut self) {
        for node in 0..self.nodes.len() {
            let after = self.chance.below(1_500);
            self.after(after, Happening::Restart { node });
        }
        self.after(0, Happening::Tick);
        self.after(100, Happening::Trouble);
        self.after(TROUBLE, Happening::Heal);
    }

    fn run(mut self) -> Result<Coverage, Violation> {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > END {
                break;
            }
            self.now = at;
            self.happen(happening)?;
        }
        self.check_end()
    }

    fn after(&mut self, delay: u64, happening: Happening) {
        self.queued += 1;
        self.queue.insert((self.now + delay, self.queued), happening);
    }

    fn moment(&self) -> Moment {
        Moment::from_nanos(self.now * 1_000_000)
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Deliver { to, packet } => self.deliver(to, packet),
            Happening::Written { node, life, standing } => self.written(node, life, standing)?,
            Happening::Admission { node, life, birth } => self.admission(node, life, &birth),
            Happening::Tick => self.tick(),
            Happening::Trouble => self.trouble(),
            Happening::Crash { node } => self.crash(node),
            Happening::Wipe { node } => self.lose_disk(node),
            Happening::Restart { node } => self.restart(node),
            Happening::Heal => self.heal(),
        }
        Ok(())
    }

    fn deliver(&mut self, to: usize, packet: Packet) {
        let now = self.moment();
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let Some(process) = &mut self.nodes[to].process else { return };
        match packet {
            Packet::Hello(hello) => {
                let asker = names.iter().position(|name| *name == hello.from.name).unwrap();
                let answer = process.answer(hello.challenge);
                let wants_answer = hello.echo.is_none();
                process.handle_hello(hello, now);
                if wants_answer {
                    self.send(to, asker, Packet::Hello(answer));
                }
            }
            Packet::Request(request) => process.handle_request(request),
            Packet::Reply(reply) => process.handle_reply(reply, now),
        }
        self.drain(to);
    }

    fn written(&mut self, node: usize, life: u64, standing: Standing) -> Result<(), Violation> {
        let now = self.moment();
        if self.nodes[node].life != life {
            return Ok(());
        }
        self.store(node, standing);
        if let Some(process) = &mut self.nodes[node].process {
            process.handle_persisted(now);
        }
        self.drain(node);
        self.check_disks()
    }

    fn store(&mut self, node: usize, standing: Standing) {
        if let Standing::Member(birth) = &standing
            && birth.founder.0.get() == self.nodes[node].id
        {
            if !self.births.is_empty() && !self.births.contains(&birth.cluster) {
                self.coverage.founded_again_after_loss += 1;
            }
            self.births.insert(birth.cluster);
            if node == self.victim && self.losses_left > 0 && self.chance.one_in(2) {
                // The worst moment: nobody hears of the birth but from packets that are under way.
                self.hears.iter_mut().for_each(|hears| hears[node] = false);
                let soon = 100 + self.chance.below(600);
                self.after(soon, Happening::Wipe { node });
            }
        }
        if matches!(standing, Standing::Promised { .. }) {
            if self.chance.one_in(3) {
                let soon = self.chance.below(60);
                self.after(soon, Happening::Crash { node });
            }
            if self.seeded == Seeded::PromiseIsNotWritten {
                return;
            }
        }
        self.nodes[node].disk = standing;
    }

    /// The log admits a node when most of the first voters have begun it.
    fn admission(&mut self, node: usize, life: u64, birth: &Birth) {
        if self.nodes[node].life != life || !self.has_quorum(birth) {
            return;
        }
        if let Some(process) = &mut self.nodes[node].process {
            process.handle_admitted(birth.cluster);
        }
        self.drain(node);
    }

    fn tick(&mut self) {
        let now = self.moment();
        for node in 0..self.nodes.len() {
            if let Some(process) = &mut self.nodes[node].process {
                process.handle_timeout(now);
                if let Some(cluster) = process.cluster().filter(|cluster| self.committed.contains(cluster)) {
                    process.handle_entered(cluster);
                }
            }
            self.drain(node);
            if self.now.is_multiple_of(HELLO_EVERY) {
                self.say_hello(node);
            }
        }
        self.after(TICK, Happening::Tick);
    }

    fn say_hello(&mut self, from: usize) {
        let Some(hello) = self.nodes[from].process.as_ref().map(Founding::hello) else { return };
        for to in (0..self.nodes.len()).filter(|&to| to != from) {
            self.send(from, to, Packet::Hello(hello.clone()));
        }
    }

    fn drain(&mut self, node: usize) {
        let life = self.nodes[node].life;
        while let Some(process) = &mut self.nodes[node].process {
            if let Some(standing) = process.poll_persist() {
                let delay = 1 + self.chance.below(20);
                self.after(delay, Happening::Written { node, life, standing });
            } else if let Some(Outgoing { to, message }) = process.poll_message() {
                let packet = match message {
                    FoundingMessage::Request(request) => Packet::Request(request),
                    FoundingMessage::Reply(reply) => Packet::Reply(reply),
                };
                let to = self.nodes.iter().position(|node| node.name == to).unwrap();
                self.send(node, to, packet);
            } else if let Some(outcome) = process.poll_outcome() {
                self.take_outcome(node, outcome);
            } else if process.poll_notice().is_none() {
                break;
            }
        }
    }

    fn take_outcome(&mut self, node: usize, outcome: Outcome) {
        let Node { id, life, .. } = self.nodes[node];
        let Outcome::Join { birth, via } = outcome else { return };
        if node == 0 && birth.founder.0.get() != id {
            self.coverage.followed_after_loss +=
                u64::from(self.chance.one_in(1) && self.nodes[0].disk == Standing::Free);
        }
        let via = self.nodes.iter().position(|node| node.name == via).unwrap();
        if !birth.has_voter(crate::state::fixtures::node(id)) && self.hears[via][node] && self.hears[node][via] {
            let delay = 5 + self.chance.below(100);
            self.after(delay, Happening::Admission { node, life, birth });
        }
    }

    fn send(&mut self, from: usize, to: usize, packet: Packet) {
        let held = !self.hears[to][from] && self.chance.one_in(2);
        if held {
            // As in the buffers of a connection: it arrives when nobody thinks of it any more.
            let late = self.chance.below(4_000);
            self.after(late, Happening::Deliver { to, packet });
            return;
        }
        if !self.hears[to][from] || (!self.healed && self.chance.one_in(5)) {
            self.coverage.lost += 1;
            return;
        }
        if !self.healed && self.chance.one_in(5) {
            self.coverage.doubled += 1;
            let delay = self.delay();
            self.after(delay, Happening::Deliver { to, packet: packet.clone() });
        }
        let delay = self.delay();
        self.after(delay, Happening::Deliver { to, packet });
    }

    fn delay(&mut self) -> u64 {
        match self.chance.below(10) {
            0 if !self.healed => self.chance.below(5_000),
            1 | 2 if !self.healed => self.chance.below(500),
            _ => 1 + self.chance.below(20),
        }
    }

    fn trouble(&mut self) {
        if self.healed {
            return;
        }
        let node = self.chance.below(self.nodes.len() as u64) as usize;
        match self.chance.below(4) {
            0 => self.crash(node),
            1 if self.chance.one_in(2) => self.lose_disk(self.victim),
            1 | 2 => self.split(),
            _ => self.hears.iter_mut().flatten().for_each(|hears| *hears = true),
        }
        let next = 50 + self.chance.below(800);
        self.after(next, Happening::Trouble);
    }

    fn split(&mut self) {
        self.coverage.split += 1;
        for to in 0..self.nodes.len() {
            for from in 0..self.nodes.len() {
                self.hears[to][from] = self.chance.one_in(2);
            }
        }
    }

    fn crash(&mut self, node: usize) {
        if self.healed || self.nodes[node].process.is_none() {
            return;
        }
        if matches!(self.nodes[node].disk, Standing::Promised { .. }) || self.asks_with_promises(node) {
            self.coverage.crashed_between_promise_and_genesis += 1;
        }
        self.nodes[node].process = None;
        self.finish_or_drop_writes(node);
        self.nodes[node].life += 1;
        let after = 20 + if self.chance.one_in(2) { self.chance.below(60) } else { self.chance.below(2_000) };
        self.after(after, Happening::Restart { node });
    }

    fn asks_with_promises(&self, node: usize) -> bool {
        let stage = self.nodes[node].process.as_ref().map(|process| &process.stage);
        matches!(stage, Some(Stage::Asking { promised, .. }) if !promised.is_empty())
    }

    /// What was being written at the crash is on the disk, or is not.
    fn finish_or_drop_writes(&mut self, crashed: usize) {
        let life = self.nodes[crashed].life;
        let kept = self.chance.one_in(2);
        let is_that = |happening: &Happening| matches!(happening, Happening::Written { node, life: at, .. } if *node == crashed && *at == life);
        let written = self.queue.iter().find(|(_, happening)| is_that(happening)).map(|(&key, _)| key);
        if let Some(Happening::Written { standing, .. }) = written.and_then(|key| self.queue.remove(&key))
            && kept
        {
            self.store(crashed, standing);
        }
    }

    fn lose_disk(&mut self, node: usize) {
        if self.losses_left == 0 || self.healed {
            return;
        }
        self.losses_left -= 1;
        self.crash(node);
        self.hears.iter_mut().for_each(|hears| hears[node] = true);
        let wiped = &mut self.nodes[node];
        if matches!(&wiped.disk, Standing::Member(birth) if birth.founder.0.get() == wiped.id) {
            self.coverage.disks_lost_after_birth += 1;
        }
        wiped.disk = Standing::Free;
        wiped.id += 1;
    }

    fn restart(&mut self, node: usize) {
        let now = self.moment();
        let (nonce, uuid) = (self.chance.next(), u128::from(self.chance.next()) << 64 | u128::from(self.chance.next()));
        let founders = (1..=self.founders).map(|n| format!("n{n}")).collect();
        let starting = &mut self.nodes[node];
        if starting.process.is_some() {
            return;
        }
        let me = Voter { name: starting.name.clone(), id: super::node(starting.id), peer: starting.name.clone() };
        let (standing, candidate) = (starting.disk.clone(), ClusterId(uuid.to_le_bytes()));
        let start = Start { me, cluster_name: "main".into(), founders, standing, candidate, nonce };
        let mut process = Founding::new(start, now);
        process.seeded = self.seeded;
        starting.process = Some(process);
        self.drain(node);
    }

    fn heal(&mut self) {
        self.healed = true;
        self.hears.iter_mut().flatten().for_each(|hears| *hears = true);
        for node in 0..self.nodes.len() {
            self.restart(node);
        }
    }

    fn has_quorum(&self, birth: &Birth) -> bool {
        let begun = birth.voters.iter().filter(|voter| {
            let holder = self.nodes.iter().find(|node| node.id == voter.id.0.get());
            holder.is_some_and(|node| matches!(&node.disk, Standing::Member(on_disk) if on_disk == birth))
        });
        begun.count() * 2 > birth.voters.len()
    }

    fn births_on_disks(&self) -> Vec<Birth> {
        let member = |node: &Node| match &node.disk {
            Standing::Member(birth) => Some(birth.clone()),
            Standing::Free | Standing::Promised { .. } => None,
        };
        self.nodes.iter().filter_map(member).collect()
    }

    /// At no moment do two nodes belong to two clusters, and a cluster that could decide is never replaced.
    fn check_disks(&mut self) -> Result<(), Violation> {
        let births = self.births_on_disks();
        let clusters: BTreeSet<ClusterId> = births.iter().map(|birth| birth.cluster).collect();
        let begun = births.iter().filter(|birth| self.has_quorum(birth)).map(|birth| birth.cluster);
        self.committed.extend(begun.collect::<Vec<_>>());
        if clusters.len() > 1 || self.committed.len() > 1 {
            return Err(format!("two clusters at {} ms: {clusters:?}, {:?}", self.now, self.committed));
        }
        Ok(())
    }

    fn check_end(self) -> Result<Coverage, Violation> {
        let births = self.births_on_disks();
        let entered = births.iter().filter(|birth| self.committed.contains(&birth.cluster)).count();
        if entered < self.nodes.len() || self.committed.len() != 1 {
            let disks: Vec<_> = self.nodes.iter().map(|node| (&node.name, &node.disk)).collect();
            return Err(format!("after everything healed, {entered} nodes are in one cluster: {disks:?}"));
        }
        Ok(self.coverage)
    }
}
