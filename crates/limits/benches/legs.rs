//! What several limits on one check cost, and what a denial costs, each against the plain thing.
//!
//! - *One limit*: a check of a limit per user of an org, at a million live keys. *Three limits*: two more, per org and per
//!   endpoint of an org, all three in one partition and decided together. Both start from the same strings and work as an
//!   owner does, a batch of 64 at a time: the routing hash, a fingerprint per limit, all look-ups side by side, then one
//!   decision after the other.
//! - *Denied*: the same checks, refused by the limit that comes last.
//!
//! The four take turns, round by round, so that whatever else the machine does slows all of them; a ratio is the median of
//! the rounds' ratios. Criterion measures one after the other, and its figures depend on what the machine did meanwhile.

#![allow(clippy::unwrap_used, reason = "a bench")]
#![allow(clippy::print_stdout, reason = "the figures are the point")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock as an owner does")]

use std::hint::black_box;
use std::time::Instant;

use limits::{
    Absent, Algorithm, Basis, Budgets, Decided, DomainId, Fingerprint, FingerprintKey, Leg, LimitId, Moment, Now, Part,
    Rate, Shape, ShapeId, Shapes, Span, Table,
};
use siphasher::sip::SipHasher24;

const KEYS: usize = 1_000_000;
const ORGS: usize = 5_000;
const ENDPOINTS: usize = 10;
const TABLES: usize = 4_096;
const CHECKS_PER_BATCH: usize = 64;
const CHECKS_PER_SAMPLE: usize = 4_096;
const ROUNDS: usize = 600;

/// Units of every limit, at a thousand a second.
const CAPACITY: u64 = 1_000_000;

/// The attributes of one check: `org`, `user` and `path`.
type Attributes = [String; 3];

const FINGERPRINT_KEY: FingerprintKey = FingerprintKey(*b"a secret of ours");

/// All keys of a node, under as many limits as there are shapes.
struct Node {
    shapes: Shapes,
    limits: Vec<ShapeId>,
    budgets: Budgets,
    tables: Vec<Table>,
    out: Decided,
}

/// A check on its way: the table that decides it, and its legs.
type Asked = (usize, [Leg; 3]);

fn shape(limit: usize, amount: u64, period: Span, algorithm: Algorithm) -> Shape {
    let (limit, rate) = (LimitId(limit as u32 + 1), Some(Rate::new(amount, period).unwrap()));
    Shape { limit, domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
}

impl Node {
    /// A node with so many limits, each of as many units as a key can get back in a thousand seconds.
    fn new(limits: usize) -> Node {
        let mut shapes = Shapes::new();
        let limits = (0..limits).map(|limit| {
            let algorithm = Algorithm::TokenBucket { burst: CAPACITY };
            shapes.intern(shape(limit, 1_000, Span::from_secs(1), algorithm))
        });
        let limits = limits.collect();
        let budgets = Budgets::new();
        budgets.set_max(DomainId(0), 2 * KEYS as u64);
        let tables = (0..TABLES).map(|_| Table::new()).collect();
        Node { shapes, limits, budgets, tables, out: Decided::default() }
    }

    /// What a check's strings say. All limits go by the org's route, so that they meet in one partition.
    fn ask(&self, [org, user, path]: &Attributes, cost: u64) -> Asked {
        let (org, user, path) = (Part::text(org), Part::text(user), Part::text(path));
        let leg = |limit: usize| {
            let id = LimitId(limit as u32 + 1);
            let key = match limit {
                0 => Fingerprint::of(&FINGERPRINT_KEY, id, [org, user]),
                1 => Fingerprint::of(&FINGERPRINT_KEY, id, [org]),
                _ => Fingerprint::of(&FINGERPRINT_KEY, id, [org, path]),
            };
            Leg { shape: self.limits[limit], key, cost, absent: Absent::Fresh, shadow: false }
        };
        // Legs that are not asked for repeat the first, and cost nothing to make.
        let first = leg(0);
        let mut legs = [first; 3];
        (1..self.limits.len()).for_each(|limit| legs[limit] = leg(limit));
        (route(org), legs)
    }

    fn decide(&mut self, (table, legs): &Asked, now: Now) -> bool {
        let legs = &legs[..self.limits.len()];
        self.tables[*table].decide(legs, &self.shapes, &self.budgets, now, &mut self.out).unwrap()
    }

    fn decide_batch(&mut self, checks: &[Attributes], asked: &mut Vec<Asked>, now: Now) -> usize {
        asked.clear();
        asked.extend(checks.iter().map(|attributes| self.ask(attributes, 1)));
        for (table, legs) in asked.iter() {
            for leg in &legs[..self.limits.len()] {
                black_box(self.tables[*table].holds(&leg.key));
            }
        }
        asked.iter().filter(|asked| self.decide(asked, now)).count()
    }

    fn live(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }
}

/// The partition of an org: the top 12 bits of a keyed 64-bit hash over its typed, length-prefixed bytes.
fn route(org: Part<'_>) -> usize {
    let mut bytes = [0; 64];
    let [a, b, c, d] = (org.bytes.len() as u32).to_le_bytes();
    bytes[..6].copy_from_slice(&[1, org.kind as u8, a, b, c, d]);
    bytes[6..6 + org.bytes.len()].copy_from_slice(org.bytes);
    (SipHasher24::new_with_key(b"a seed of routes").hash(&bytes[..6 + org.bytes.len()]) >> 52) as usize
}

fn attributes(key: usize) -> Attributes {
    let endpoint = key / ORGS % ENDPOINTS;
    [format!("org-{}", key % ORGS), format!("user-{key:07}"), format!("/v1/endpoint/{endpoint}")]
}

/// The checks of a sample, of random keys; a linear congruence is random enough to miss every cache.
fn sample(seed: &mut u64) -> Vec<Attributes> {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        attributes((*seed >> 33) as usize % KEYS)
    };
    (0..CHECKS_PER_SAMPLE).map(|_| next()).collect()
}

fn now(boot: Instant) -> Now {
    Now::at(Moment::from_nanos(boot.elapsed().as_nanos() as u64))
}

/// Every key of every limit has spent some, so that it stays live to the end, and where the last limit is to refuse, all
/// that it may and more.
fn fill(node: &mut Node, refuses: bool, now: Now) {
    let limits = node.limits.len();
    for key in 0..KEYS {
        let (table, legs) = node.ask(&attributes(key), 1);
        // Orgs and their endpoints come round again; each is filled once.
        for limit in (0..limits).filter(|limit| key < [KEYS, ORGS, ORGS * ENDPOINTS][*limit]) {
            let spent = if refuses && limit + 1 == limits { 2 * CAPACITY } else { CAPACITY / 4 };
            let leg = Leg { cost: spent, ..legs[limit] };
            assert!(node.tables[table].force(&leg, None, &node.shapes, &node.budgets, now));
        }
    }
}

/// One of the four, and what it has taken, in nanoseconds per check, round by round.
struct Case {
    name: &'static str,
    node: Node,
    refuses: bool,
    times: Vec<f64>,
}

impl Case {
    fn new(name: &'static str, limits: usize, refuses: bool, boot: Instant) -> Case {
        let mut node = Node::new(limits);
        fill(&mut node, refuses, now(boot));
        Case { name, node, refuses, times: Vec::with_capacity(ROUNDS) }
    }

    fn play(&mut self, checks: &[Attributes], asked: &mut Vec<Asked>, boot: Instant) {
        let (began, mut admitted) = (Instant::now(), 0);
        for checks in checks.chunks(CHECKS_PER_BATCH) {
            admitted += self.node.decide_batch(checks, asked, now(boot));
        }
        self.times.push(began.elapsed().as_nanos() as f64 / checks.len() as f64);
        assert_eq!(admitted, if self.refuses { 0 } else { checks.len() }, "{} is what it is called", self.name);
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn ratio(of: &Case, to: &Case) -> f64 {
    median(of.times.iter().zip(&to.times).map(|(of, to)| of / to).collect())
}

fn main() {
    let boot = Instant::now();
    let mut cases = [
        Case::new("one limit", 1, false, boot),
        Case::new("three limits", 3, false, boot),
        Case::new("one limit, denied", 1, true, boot),
        Case::new("three limits, denied", 3, true, boot),
    ];
    let (mut seed, mut asked) = (1, Vec::with_capacity(CHECKS_PER_BATCH));
    for round in 0..ROUNDS {
        let checks = sample(&mut seed);
        for turn in 0..cases.len() {
            cases[(round + turn) % 4].play(&checks, &mut asked, boot);
        }
    }
    for case in &cases {
        assert!(case.node.live() >= KEYS, "{}: keys are live to the end", case.name);
        println!("{:<46} {:>14.1} ns a check, the median", case.name, median(case.times.clone()));
    }
    let [one, three, one_denied, three_denied] = &cases;
    println!("{:<46} {:>14.2}   at most 2.00", "three limits on a check / one", ratio(three, one));
    println!("{:<46} {:>14.2}   at most 1.00", "a denial / an admission, one limit", ratio(one_denied, one));
    println!("{:<46} {:>14.2}   at most 1.00", "a denial / an admission, three limits", ratio(three_denied, three));
}
