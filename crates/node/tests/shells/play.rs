//! One run: three machines found a cluster, are asked while things go wrong, and are left alone afterwards.

use std::ops::Range;
use std::time::Duration;

use node::simulated::Host;
use ringfence_node as node;
use sim::Row;
use tokio::sync::watch;
use turmoil::Sim;

use crate::asking::Callers;
use crate::machine::{Machine, PARTITIONS, Seen, name};
use crate::plan::{Ask, Fault, HEAL, NODES, Plan};
use crate::story::Story;
use crate::weather::Weather;

/// How long founding and the first placement may take.
const PLACED_WITHIN: Duration = Duration::from_secs(10);

/// How soon after the heal every partition has one owner and every node knows it: a lease as the leader counts it, an
/// election, a connection that nobody answers on given up, a process started anew, and one claim.
pub const LIVE_WITHIN: Duration = Duration::from_millis(3_060 + 3_500);

/// How long the cluster is watched after that.
const CALM: Duration = Duration::from_millis(6_900);

/// Longer than the longest period of a limit: what was busy has room again.
const PERIOD: Duration = Duration::from_millis(6_200);

/// The simulation's step.
const STEP: Duration = Duration::from_millis(1);

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Everything that happened, in order.
    pub story: Vec<String>,
    /// What callers were told.
    pub rows: Vec<Row>,
    /// Which node was down when.
    pub down: Vec<(usize, Range<Duration>)>,
    /// How long the first placement took.
    pub placed: Duration,
    /// How long after the heal the cluster was live, and stayed so to the end.
    pub live_after: Option<Duration>,
}

/// Plays a plan to its end.
pub fn play(plan: &Plan) -> Played {
    let story = Story::default();
    let asks = [plan.asks.clone(), last_asks(plan.seed)].concat();
    let callers = Callers::new(asks, story.clone());
    let directory = directory();
    let (placed, heard) = watch::channel(None);
    let mut builder = turmoil::Builder::new();
    builder
        .rng_seed(plan.seed)
        .tick_duration(STEP)
        .simulation_duration(Duration::MAX)
        .min_message_latency(Duration::from_millis(plan.latency.start))
        .max_message_latency(Duration::from_millis(plan.latency.end))
        .repair_rate(0.02)
        .tcp_capacity(4_096)
        .udp_capacity(4_096);
    let mut stage = Stage {
        sim: builder.build(),
        machines: Vec::new(),
        weather: Weather::default(),
        story: story.clone(),
        down: Vec::new(),
        live_since: None,
    };
    for (number, start) in plan.starts.iter().enumerate() {
        let host = Host::new(plan.seed ^ (number as u64 + 1) << 56, start.boot, start.wall);
        host.set_rate(start.millionths, Duration::ZERO);
        let home = directory.path().join(name(number));
        let machine = Machine::new(number, host, home, callers.clone(), story.clone(), heard.clone());
        stage.machines.push(machine.clone());
        stage.sim.host(name(number), move || machine.clone().live());
    }
    let began = stage.found();
    placed.send_replace(Some(began));
    stage.play(plan, began);
    let live_after = stage.live_since.map(|since| since.saturating_sub(began + HEAL));
    Played { story: story.lines(), rows: callers.rows(), down: stage.down, placed: began, live_after }
}

/// Where files cost no disk, if there is such a place.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What is asked when all should be well: every node about many keys, then the keys that were busy before.
fn last_asks(seed: u64) -> Vec<Ask> {
    let ask = |number: usize, at: Duration, node: usize, limit, key: String| Ask {
        id: (u128::from(seed) << 64) | (1 << 40) | number as u128,
        at,
        node,
        again: None,
        limit,
        key,
        cost: 1,
        budget: Duration::from_millis(500),
    };
    let well = HEAL + LIVE_WITHIN;
    let wide = (0..NODES * 16).map(|number| {
        let at = well + Duration::from_millis(10 * number as u64);
        ask(number, at, number % NODES, "wide", format!("w{number}"))
    });
    let busy = ["bucket", "log", "open", "share"].into_iter().flat_map(|limit| [(limit, "k0"), (limit, "k1")]);
    let busy = busy.enumerate().map(|(number, (limit, key))| {
        let at = well + PERIOD + Duration::from_millis(10 * number as u64);
        ask(1_000 + number, at, number % NODES, limit, key.to_owned())
    });
    wide.chain(busy).collect()
}

struct Stage<'s> {
    sim: Sim<'s>,
    machines: Vec<Machine>,
    weather: Weather,
    story: Story,
    down: Vec<(usize, Range<Duration>)>,
    live_since: Option<Duration>,
}

impl Stage<'_> {
    fn step(&mut self) {
        self.sim.step().expect("no process ends by itself");
    }

    /// Until the first placement is known everywhere; when that was.
    fn found(&mut self) -> Duration {
        while !self.is_live() {
            assert!(self.sim.elapsed() < PLACED_WITHIN, "not founded in time:\n{}", self.story.lines().join("\n"));
            self.step();
        }
        self.sim.elapsed()
    }

    fn play(&mut self, plan: &Plan, began: Duration) {
        let mut due: Vec<(Duration, usize, bool)> = Vec::new();
        for (number, timed) in plan.faults.iter().enumerate() {
            due.push((began + timed.time.start, number, true));
            due.push((began + timed.time.end, number, false));
        }
        due.sort_unstable();
        let mut due = due.into_iter().peekable();
        while self.sim.elapsed() < began + HEAL + LIVE_WITHIN + CALM {
            while let Some((_, number, begins)) = due.next_if(|(at, ..)| *at <= self.sim.elapsed()) {
                self.turn(plan.faults[number].fault, begins);
            }
            self.step();
            let live = self.is_live();
            self.live_since = self.live_since.filter(|_| live).or(live.then(|| self.sim.elapsed()));
        }
    }

    fn turn(&mut self, fault: Fault, begins: bool) {
        let now = self.sim.elapsed();
        self.story.tell(now, format_args!("{} {fault:?}", if begins { "begin" } else { "end" }));
        match (fault, begins) {
            (Fault::Crash(node), true) => self.kill(node, now),
            (Fault::Crash(node), false) => self.start(node, now),
            (_, true) => self.weather.begin(fault, &mut self.sim, &self.machines),
            (_, false) => self.weather.end(fault, &mut self.sim, &self.machines),
        }
    }

    fn kill(&mut self, node: usize, now: Duration) {
        if self.sim.is_host_running(name(node)) {
            let handle = self.machines[node].let_go();
            self.sim.crash(name(node));
            drop(handle);
            self.down.push((node, now..Duration::MAX));
        }
    }

    fn start(&mut self, node: usize, now: Duration) {
        if !self.sim.is_host_running(name(node)) {
            self.sim.bounce(name(node));
            let down = self.down.iter_mut().rev().find(|(down, _)| *down == node).expect("it was killed");
            down.1.end = now;
        }
    }

    /// Every node is settled, and every partition has one owner.
    fn is_live(&self) -> bool {
        let seen: Vec<Seen> = self.machines.iter().map(|machine| machine.seen.get()).collect();
        let active: usize = seen.iter().map(|seen| seen.active).sum();
        seen.iter().all(|seen| seen.settled) && active == usize::from(PARTITIONS)
    }
}
