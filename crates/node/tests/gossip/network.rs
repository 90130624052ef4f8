//! A network of gossip cores in one thread and in virtual time: links with delay and loss, nodes with clocks of their own,
//! and one seed behind every choice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU64;

use limits::{Moment, Span};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use ring::NodeId;
use ringfence_node::cluster::{ClusterId, ClusterName, ClusterUuid, NodeName};
use ringfence_node::gossip::{Core, Event, Identity, Incarnation, Settings, State};
use ringfence_node::secret::{ClusterSecret, Secrets};

/// Where every test starts, so that no node's clock is near its boot.
const START: Span = Span::from_secs(1_000);

pub fn secrets(byte: u8) -> Secrets {
    Secrets::new(ClusterSecret::new(&[byte; 16]).unwrap())
}

pub fn cluster(name: &str) -> ClusterId {
    ClusterId { name: ClusterName::new(name).unwrap(), uuid: None }
}

pub fn uuid(byte: u8) -> ClusterUuid {
    ClusterUuid::from_bytes([byte; 16]).unwrap()
}

pub fn node_id(number: u64) -> NodeId {
    NodeId(NonZeroU64::new(number).unwrap())
}

/// Where the node that is started as number `number` listens.
pub fn address(number: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(number).unwrap()], 7601))
}

/// How a node is started; by default as a member of `main` with secret 1, on its `boot` 1.
#[derive(Clone)]
pub struct Start {
    /// The number of its address.
    pub at: u64,
    pub id: u64,
    pub boot: u32,
    pub cluster: ClusterId,
    pub secrets: Secrets,
}

impl Start {
    pub fn node(number: u64) -> Start {
        Start { at: number, id: number, boot: 1, cluster: cluster("main"), secrets: secrets(1) }
    }
}

struct Host {
    core: Core,
    /// Added to the network's time: what this node's own clock shows.
    offset: Span,
    frozen: bool,
    /// What arrived while it was frozen.
    waiting: Vec<(SocketAddr, Vec<u8>)>,
}

struct Flying {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Something a node said about another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub at: Span,
    pub by: u64,
    pub event: Event,
}

pub struct Network {
    now: Span,
    hosts: BTreeMap<SocketAddr, Host>,
    flying: BTreeMap<(Span, u64), Flying>,
    numbered: u64,
    cut: BTreeSet<(u64, u64)>,
    chance: StdRng,
    /// Of a thousand datagrams, how many are lost.
    pub loss: u32,
    /// What every node's seeds resolve to.
    pub seeds: Vec<SocketAddr>,
    pub told: Vec<Told>,
    pub sent: u64,
}

impl Network {
    pub fn new(seed: u64, loss: u32) -> Network {
        Network {
            now: START,
            hosts: BTreeMap::new(),
            flying: BTreeMap::new(),
            numbered: 0,
            cut: BTreeSet::new(),
            chance: StdRng::seed_from_u64(seed),
            loss,
            seeds: vec![address(1), address(2), address(3)],
            told: Vec::new(),
            sent: 0,
        }
    }

    /// A network with nodes 1 to `count`, started within 50 ms of each other.
    pub fn of(count: u64, seed: u64, loss: u32) -> Network {
        let mut network = Network::new(seed, loss);
        for number in 1..=count {
            network.start(Start::node(number));
            let pause = Span::from_micros(network.chance.random_range(0..50_000 / count));
            network.run_for(pause);
        }
        network
    }

    /// How long ago the first node may have been started.
    pub fn age(&self) -> Span {
        self.now.saturating_sub(START)
    }

    pub fn start(&mut self, start: Start) {
        let offset = Span::from_micros(self.chance.random_range(0..10_000_000_000));
        let identity = Identity {
            id: node_id(start.id),
            incarnation: Incarnation::of_boot(start.boot),
            name: NodeName::new(&format!("n{}", start.id)).unwrap(),
            peer: address(start.at),
            api: None,
        };
        let seed = self.chance.random();
        let now = local(self.now, offset);
        let core = Core::new(identity, start.cluster, start.secrets, Settings::default(), seed, now).unwrap();
        let host = Host { core, offset, frozen: false, waiting: Vec::new() };
        self.hosts.insert(address(start.at), host);
    }

    /// The process at address `number` ends without a word.
    pub fn kill(&mut self, number: u64) {
        self.hosts.remove(&address(number)).unwrap();
    }

    /// The process stands still: it neither reads nor acts, though its clock runs on.
    pub fn freeze(&mut self, number: u64) {
        self.hosts.get_mut(&address(number)).unwrap().frozen = true;
    }

    /// It goes on, and reads first what has been waiting.
    pub fn thaw(&mut self, number: u64) {
        let host = self.hosts.get_mut(&address(number)).unwrap();
        host.frozen = false;
        let now = local(self.now, host.offset);
        for (from, bytes) in std::mem::take(&mut host.waiting) {
            host.core.handle_datagram(&bytes, from, now);
        }
        self.drain(address(number));
    }

    /// Nothing passes between nodes of the two groups any more.
    pub fn split(&mut self, one: &[u64], other: &[u64]) {
        let pairs = one.iter().flat_map(|a| other.iter().flat_map(move |b| [(*a, *b), (*b, *a)]));
        self.cut.extend(pairs);
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    pub fn core(&self, number: u64) -> &Core {
        &self.hosts[&address(number)].core
    }

    /// Lets a test act on one core as its node would.
    pub fn with<T>(&mut self, number: u64, act: impl FnOnce(&mut Core, Moment) -> T) -> T {
        let host = self.hosts.get_mut(&address(number)).unwrap();
        let result = act(&mut host.core, local(self.now, host.offset));
        self.drain(address(number));
        result
    }

    /// A datagram from `from` arrives at node `number` now.
    pub fn inject(&mut self, number: u64, from: SocketAddr, bytes: &[u8]) {
        self.with(number, |core, now| core.handle_datagram(bytes, from, now));
    }

    /// Every datagram that is under way from node `from`.
    pub fn flying_from(&self, from: u64) -> Vec<Vec<u8>> {
        let sent = self.flying.values().filter(|flying| flying.from == address(from));
        sent.map(|flying| flying.bytes.clone()).collect()
    }

    pub fn sees(&self, observer: u64, id: u64) -> Option<State> {
        self.core(observer).view().members.get(&node_id(id)).map(|member| member.state)
    }

    /// Whether every running node takes exactly the other running ones to be alive.
    pub fn agrees(&self) -> bool {
        let running: Vec<_> = self.hosts.values().map(|host| host.core.identity()).collect();
        self.hosts.values().all(|host| {
            let view = host.core.view();
            view.active().count() == running.len() - 1
                && running.iter().filter(|other| other.id != host.core.identity().id).all(|other| {
                    let seen = view.members.get(&other.id);
                    seen.is_some_and(|seen| seen.state == State::Alive && seen.incarnation == other.incarnation)
                })
        })
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.now.saturating_add(span);
        while self.step(end) {}
        self.now = end;
    }

    /// How long it takes until `done`; `None` if that is more than `limit`.
    pub fn run_until(&mut self, limit: Span, done: impl Fn(&Network) -> bool) -> Option<Span> {
        let (start, end) = (self.now, self.now.saturating_add(limit));
        while !done(self) {
            if !self.step(end) {
                return None;
            }
        }
        Some(self.now.saturating_sub(start))
    }

    /// The next thing that happens up to `end`, if anything does.
    fn step(&mut self, end: Span) -> bool {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let awake = self.hosts.iter().filter(|(_, host)| !host.frozen);
        let timeout = awake.filter_map(|(at, host)| Some((due(host)?, *at))).min();
        match (arrival, timeout) {
            (Some(at), timeout) if at <= end && timeout.is_none_or(|(due, _)| at <= due) => self.arrive(),
            (_, Some((due, host))) if due <= end => self.wake(due, host),
            (Some(_) | None, Some(_) | None) => return false,
        }
        true
    }

    fn arrive(&mut self) {
        let ((at, _), flying) = self.flying.pop_first().unwrap();
        self.now = self.now.max(at);
        let Some(host) = self.hosts.get_mut(&flying.to) else { return };
        if host.frozen {
            host.waiting.push((flying.from, flying.bytes));
            return;
        }
        host.core.handle_datagram(&flying.bytes, flying.from, local(self.now, host.offset));
        self.drain(flying.to);
    }

    fn wake(&mut self, due: Span, at: SocketAddr) {
        self.now = self.now.max(due);
        let host = self.hosts.get_mut(&at).unwrap();
        host.core.handle_timeout(local(self.now, host.offset));
        self.drain(at);
    }

    fn drain(&mut self, at: SocketAddr) {
        let host = self.hosts.get_mut(&at).unwrap();
        if host.core.poll_resolve() {
            host.core.handle_seeds(self.seeds.iter().copied(), local(self.now, host.offset));
        }
        let by = host.core.identity().id.0.get();
        let told = std::iter::from_fn(|| host.core.poll_event()).map(|event| Told { at: self.now, by, event });
        self.told.extend(told);
        let sent: Vec<_> = std::iter::from_fn(|| host.core.poll_transmit()).collect();
        for transmit in sent {
            self.sent += 1;
            self.fly(Flying { from: at, to: transmit.to, bytes: transmit.bytes.to_vec() });
        }
    }

    /// Links take 0.2 to 2 ms.
    fn fly(&mut self, flying: Flying) {
        let delay = Span::from_micros(self.chance.random_range(200..2_000));
        let lost = self.chance.random_range(0..1_000) < self.loss;
        if lost || self.cut.contains(&(number(flying.from), number(flying.to))) {
            return;
        }
        self.numbered += 1;
        self.flying.insert((self.now.saturating_add(delay), self.numbered), flying);
    }
}

fn local(now: Span, offset: Span) -> Moment {
    Moment::ZERO.saturating_add(now).saturating_add(offset)
}

/// When a host wants to be woken, in the network's time.
fn due(host: &Host) -> Option<Span> {
    Some(host.core.poll_timeout()?.saturating_sub(host.offset).since(Moment::ZERO))
}

fn number(address: SocketAddr) -> u64 {
    match address {
        SocketAddr::V4(address) => u64::from(address.ip().octets()[3]),
        SocketAddr::V6(_) => unreachable!("every host of this network has an IPv4 address"),
    }
}
