//! Deciding at a million live keys, beside governor. Both sides start from the same two attribute strings of a check,
//! and each does with them what it has to before it can decide:
//!
//! - `ringfence-1M` works as an owner does, a batch of 64 checks at a time: it hashes the strings of each check twice
//!   (the fingerprint, and a SipHash-2-4 of 64 bits that stands for the routing hash, whose top 12 bits pick one of
//!   4,096 partition tables), asks the tables for all keys, so that the look-ups wait for memory side by side, and then
//!   decides one check after the other with one clock reading. `ringfence-one-by-one-1M` is the same without batches.
//! - governor's keyed limiter takes one `String` per key: the strings are joined in a buffer that is used again, so it
//!   allocates nothing, and it hashes and looks up that. It reads its own clock (quanta) per check, as it always does.
//!   `governor-1M` has the faster of its two stores, one map behind a lock that nobody contends for here;
//!   `governor-dashmap-1M` has the other, a sharded map.
//!
//! Keys are uniformly random, so nearly every check misses the cache; the strings of a check are laid out before the
//! clock runs, as a request would bring them. A unit takes 36 s to come back, so keys stay live; half of them have
//! nothing left, so half of the checks are denied. `cargo xtask bench` prints the ratio.

#![allow(clippy::unwrap_used, reason = "a bench")]
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock as an owner does")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, KeyedStateStore};
use governor::{Quota, RateLimiter};
use limits::{
    Absent, Algorithm, Basis, Budgets, Decided, DomainId, Fingerprint, FingerprintKey, Leg, LimitId, Moment, Now, Part,
    Rate, Shape, Shapes, Span, Table,
};
use siphasher::sip::SipHasher24;

const KEYS: usize = 1_000_000;
const TABLES: usize = 4_096;
const CHECKS_PER_BATCH: usize = 64;
const CHECKS_PER_SAMPLE: usize = 4_096;
const BURST: u32 = 10;

/// The attributes of one check: `org` and `user`.
type Attributes = (String, String);

fn attributes() -> Vec<Attributes> {
    (0..KEYS).map(|key| (format!("org-{}", key % 5_000), format!("user-{key:07}"))).collect()
}

/// The checks of a sample, of random keys; a linear congruence is random enough to miss every cache.
fn sample(all: &[Attributes], seed: &mut u64) -> Vec<Attributes> {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all[(*seed >> 33) as usize % all.len()].clone()
    };
    (0..CHECKS_PER_SAMPLE).map(|_| next()).collect()
}

struct Node {
    fingerprint_key: FingerprintKey,
    shapes: Shapes,
    leg: Leg,
    budgets: Budgets,
    tables: Vec<Table>,
    boot: Instant,
    out: Decided,
}

impl Node {
    fn new() -> Node {
        let mut shapes = Shapes::new();
        let shape = shapes.intern(Shape {
            limit: LimitId(1),
            domain: DomainId(0),
            rate: Some(Rate::new(100, Span::from_secs(3_600)).unwrap()),
            algorithm: Algorithm::TokenBucket { burst: BURST as u64 },
            basis: Basis::Hi,
        });
        let budgets = Budgets::new();
        budgets.set_max(DomainId(0), KEYS as u64);
        let leg = Leg { shape, key: Fingerprint([0, 0]), cost: 1, absent: Absent::Fresh, shadow: false };
        let tables = (0..TABLES).map(|_| Table::new()).collect();
        let (fingerprint_key, boot) = (FingerprintKey(*b"a secret of ours"), Instant::now());
        Node { fingerprint_key, shapes, leg, budgets, tables, boot, out: Decided::default() }
    }

    fn now(&self) -> Now {
        Now::at(Moment::from_nanos(self.boot.elapsed().as_nanos() as u64))
    }

    /// What a check's strings say: the table that has the key, and the leg.
    fn ask(&self, (org, user): &Attributes, cost: u64) -> (usize, Leg) {
        let parts = [Part::text(org), Part::text(user)];
        let key = Fingerprint::of(&self.fingerprint_key, LimitId(1), parts);
        (route(parts), Leg { key, cost, ..self.leg })
    }

    fn decide(&mut self, (table, leg): &(usize, Leg), now: Now) -> bool {
        let legs = std::slice::from_ref(leg);
        self.tables[*table].decide(legs, &self.shapes, &self.budgets, now, &mut self.out).unwrap()
    }

    fn decide_batch(&mut self, checks: &[Attributes], asked: &mut Vec<(usize, Leg)>) {
        let now = self.now();
        asked.clear();
        asked.extend(checks.iter().map(|attributes| self.ask(attributes, 1)));
        for (table, leg) in asked.iter() {
            black_box(self.tables[*table].holds(&leg.key));
        }
        for asked in asked.iter() {
            black_box(self.decide(asked, now));
        }
    }

    fn live(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }
}

/// What a key has spent before the clock runs: every second one all it has.
fn spent_before(key: usize) -> u32 {
    if key.is_multiple_of(2) { BURST } else { 1 }
}

/// The partition: the top 12 bits of a keyed 64-bit hash over the same typed, length-prefixed bytes.
fn route(parts: [Part<'_>; 2]) -> usize {
    let mut bytes = [0; 128];
    let mut len = 0;
    let mut write = |piece: &[u8]| {
        bytes[len..len + piece.len()].copy_from_slice(piece);
        len += piece.len();
    };
    write(&[1, 1, 0, 0, 0]);
    for part in parts {
        let [a, b, c, d] = (part.bytes.len() as u32).to_le_bytes();
        write(&[part.kind as u8, a, b, c, d]);
        write(part.bytes);
    }
    (SipHasher24::new_with_key(b"a seed of routes").hash(&bytes[..len]) >> 52) as usize
}

fn decide(criterion: &mut Criterion) {
    let all = attributes();
    let mut group = criterion.benchmark_group("decide");
    group.throughput(Throughput::Elements(CHECKS_PER_SAMPLE as u64));

    let mut seed = 1;
    let mut node = Node::new();
    let now = node.now();
    for (key, attributes) in all.iter().enumerate() {
        let asked = node.ask(attributes, u64::from(spent_before(key)));
        assert!(node.decide(&asked, now));
    }
    let mut asked = Vec::with_capacity(CHECKS_PER_BATCH);
    group.bench_function("ringfence-1M", |bencher| {
        bencher.iter_batched_ref(
            || sample(&all, &mut seed),
            |checks| checks.chunks(CHECKS_PER_BATCH).for_each(|checks| node.decide_batch(checks, &mut asked)),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("ringfence-one-by-one-1M", |bencher| {
        bencher.iter_batched_ref(
            || sample(&all, &mut seed),
            |checks| {
                for checks in checks.chunks(CHECKS_PER_BATCH) {
                    let now = node.now();
                    for attributes in checks {
                        let asked = node.ask(attributes, 1);
                        black_box(node.decide(&asked, now));
                    }
                }
            },
            BatchSize::LargeInput,
        );
    });
    assert!(node.live() > KEYS * 9 / 10, "keys are live to the end: {}", node.live());
    drop(node);

    let quota = Quota::with_period(Duration::from_secs(36)).unwrap().allow_burst(NonZeroU32::new(BURST).unwrap());
    let store: HashMapStateStore<String> = HashMapStateStore::default();
    governor(&mut group, "governor-1M", &all, &RateLimiter::new(quota, store, DefaultClock::default()));
    let store: DashMapStateStore<String> = DashMapStateStore::default();
    governor(&mut group, "governor-dashmap-1M", &all, &RateLimiter::new(quota, store, DefaultClock::default()));
    group.finish();
}

fn governor<S: KeyedStateStore<String>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    all: &[Attributes],
    limiter: &RateLimiter<String, S, DefaultClock>,
) {
    let mut buffer = String::new();
    let mut check = |(org, user): &Attributes, cost: u32| {
        buffer.clear();
        buffer.push_str(org);
        buffer.push('\0');
        buffer.push_str(user);
        match NonZeroU32::new(cost).filter(|cost| cost.get() > 1) {
            Some(cost) => limiter.check_key_n(&buffer, cost).is_ok_and(|fits| fits.is_ok()),
            None => limiter.check_key(&buffer).is_ok(),
        }
    };
    for (key, attributes) in all.iter().enumerate() {
        assert!(check(attributes, spent_before(key)));
    }
    let mut seed = 1;
    group.bench_function(name, |bencher| {
        bencher.iter_batched_ref(
            || sample(all, &mut seed),
            |checks| {
                for attributes in checks.iter() {
                    black_box(check(attributes, 1));
                }
            },
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(benches, decide);
criterion_main!(benches);
