//! What a seed says will happen: clocks, weather on the network, faults, and what is asked of whom. Times are counted from
//! the first placement, and nothing here depends on what comes of it.

use std::ops::Range;
use std::time::Duration;

use limits::{Moment, WallTime};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// How many nodes there are.
pub const NODES: usize = 3;

/// When the last fault is over.
pub const HEAL: Duration = Duration::from_secs(10);

/// How many faults a seed has; the first takes a node away for longer than a lease.
const FAULTS: usize = 4;

/// How many questions are asked before the heal.
const ASKS: usize = 520;

/// How far a clock's rate may be off, in millionths; the cluster's terms say 10,000.
pub const RATE_OFF: i32 = 9_000;

/// What happens to a node, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed; it starts anew on the same machine when the fault is over.
    Crash(usize),
    /// Nothing arrives between the two.
    Cut(usize, usize),
    /// Nothing that the first sends arrives at the second.
    OneWay(usize, usize),
    /// Nothing arrives at the node, or from it.
    Alone(usize),
    /// Nothing that the node sends arrives anywhere.
    Mute(usize),
    /// Nothing arrives at the node.
    Deaf(usize),
    /// What the two send each other is held, and arrives when the fault is over.
    Hold(usize, usize),
    /// All that is sent between the two takes this many milliseconds.
    Slow(usize, usize, u64),
    /// Every link breaks now and then, and mends by itself: one message in so many breaks it.
    Lossy(u32),
    /// Both clocks of the node run by so many millionths faster.
    Rate(usize, i32),
    /// The node's wall clock is set forward or back by so many milliseconds, and stays.
    Wall(usize, i64),
    /// Every write to the node's disk takes this many milliseconds.
    Disk(usize, u64),
}

/// A fault and its time.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Which.
    pub fault: Fault,
    /// When it begins and is over.
    pub time: Range<Duration>,
}

/// A question of a caller.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its id.
    pub id: u128,
    /// When it is asked.
    pub at: Duration,
    /// Which node.
    pub node: usize,
    /// Which other node it is put to as well, and how much later, if no answer has come by then.
    pub again: Option<(usize, Duration)>,
    /// Which limit.
    pub limit: &'static str,
    /// Whose.
    pub key: String,
    /// Units.
    pub cost: u64,
    /// How long the caller waits.
    pub budget: Duration,
}

/// How a machine's clocks begin.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// What the boot-time clock reads.
    pub boot: Moment,
    /// What the wall clock reads.
    pub wall: WallTime,
    /// How fast both run.
    pub millionths: i32,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed it follows from.
    pub seed: u64,
    /// The machines.
    pub starts: Vec<Start>,
    /// How long messages take, in milliseconds.
    pub latency: Range<u64>,
    /// What goes wrong.
    pub faults: Vec<Timed>,
    /// What is asked, by time.
    pub asks: Vec<Ask>,
}

impl Plan {
    /// What this seed says.
    pub fn of(seed: u64) -> Plan {
        let mut chance = StdRng::seed_from_u64(seed);
        let starts = (0..NODES).map(|_| start(&mut chance)).collect();
        let least = chance.random_range(0..3);
        let latency = least..least + chance.random_range(1..10);
        let faults = (0..FAULTS).map(|number| timed(&mut chance, number == 0)).collect();
        let mut asks: Vec<_> = (0..ASKS).map(|number| ask(&mut chance, number)).collect();
        asks.sort_by_key(|ask| ask.at);
        Plan { seed, starts, latency, faults, asks }
    }
}

fn start(chance: &mut StdRng) -> Start {
    const SECOND: u64 = 1_000_000_000;
    let year_2026 = 1_767_225_600 * SECOND;
    Start {
        boot: Moment::from_nanos(chance.random_range(10 * SECOND..100_000 * SECOND)),
        wall: WallTime::from_unix_nanos(year_2026 + chance.random_range(0..4 * SECOND)),
        millionths: chance.random_range(-RATE_OFF..=RATE_OFF),
    }
}

fn timed(chance: &mut StdRng, takes_away: bool) -> Timed {
    let heal = HEAL.as_millis() as u64;
    let (begins, lasts) = match (takes_away, chance.random_bool(0.5)) {
        (true, _) => (chance.random_range(300..4_000), chance.random_range(3_200..7_000)),
        (false, true) => (chance.random_range(300..9_500), chance.random_range(20..1_500)),
        (false, false) => (chance.random_range(300..8_000), chance.random_range(1_500..7_000)),
    };
    // Every other one lasts to the end.
    let ends = if chance.random_bool(0.5) { heal } else { (begins + lasts).min(heal) };
    let fault = if takes_away { away(chance) } else { fault(chance) };
    Timed { fault, time: Duration::from_millis(begins)..Duration::from_millis(ends) }
}

fn away(chance: &mut StdRng) -> Fault {
    let node = chance.random_range(0..NODES);
    match chance.random_range(0..5) {
        0 | 1 => Fault::Crash(node),
        2 => Fault::Alone(node),
        3 => Fault::Mute(node),
        _ => Fault::Deaf(node),
    }
}

fn fault(chance: &mut StdRng) -> Fault {
    let node = chance.random_range(0..NODES);
    let other = (node + chance.random_range(1..NODES)) % NODES;
    match chance.random_range(0..16) {
        0..=3 => Fault::Crash(node),
        4 => Fault::Cut(node, other),
        5 => Fault::OneWay(node, other),
        6 | 7 => Fault::Alone(node),
        8 => Fault::Mute(node),
        9 => Fault::Deaf(node),
        10 => Fault::Hold(node, other),
        11 => Fault::Slow(node, other, chance.random_range(20..400)),
        12 => Fault::Lossy(chance.random_range(100..2_000)),
        13 => Fault::Rate(node, chance.random_range(-RATE_OFF..=RATE_OFF)),
        14 => Fault::Wall(node, chance.random_range(-20_000..20_000)),
        _ => Fault::Disk(node, chance.random_range(1..300)),
    }
}

fn ask(chance: &mut StdRng, number: usize) -> Ask {
    let node = chance.random_range(0..NODES);
    let budget = Duration::from_millis(chance.random_range(30..1_000));
    let again = chance.random_bool(0.3).then(|| {
        let other = (node + chance.random_range(1..NODES)) % NODES;
        (other, budget.mul_f64(chance.random_range(0.1..0.9)))
    });
    Ask {
        id: (u128::from(chance.random::<u64>()) << 32) | number as u128,
        at: Duration::from_millis(chance.random_range(0..HEAL.as_millis() as u64)),
        node,
        again,
        limit: ["bucket", "log", "open", "share"][chance.random_range(0..4)],
        key: format!("k{}", chance.random_range(0..2)),
        cost: if chance.random_bool(0.8) { 1 } else { 2 },
        budget,
    }
}
