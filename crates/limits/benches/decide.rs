//! Deciding at a million live keys, beside governor. Both sides start from the same two attribute strings of a check,
//! and each does with them what it has to before it can decide:
//!
//! - ringfence hashes them twice (the fingerprint, and a SipHash-2-4 of 64 bits that stands for the routing hash, which
//!   picks one of 4,096 partition tables), and decides with a clock reading that is taken once per 64 checks, as the
//!   owner does (law 2 of the design: once per batch).
//! - governor's keyed limiter takes one `String` per key: the parts are joined into a buffer that is used again, so it
//!   allocates nothing, and it hashes and looks up that. It reads its own clock (quanta) per check, as it always does.
//!   Its stores are both measured: `governor-1M` is the faster one here, named in the output of the other.
//!
//! Keys are uniformly random, so nearly every check misses the cache. `cargo xtask bench` prints the ratio.

#![allow(clippy::unwrap_used, reason = "a bench")]
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock as an owner does")]

use std::hash::Hasher as _;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
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
const CHECKS_PER_CLOCK_READING: usize = 64;
const BATCH: usize = 4_096;

/// The attributes of one check: `org` and `user`.
type Attributes = (String, String);

fn attributes() -> Vec<Attributes> {
    (0..KEYS).map(|key| (format!("org-{}", key % 5_000), format!("user-{key:07}"))).collect()
}

/// A batch of random keys; a linear congruence is random enough to miss every cache.
fn batch(all: &[Attributes], seed: &mut u64) -> Vec<usize> {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % all.len()
    };
    (0..BATCH).map(|_| next()).collect()
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
            rate: Some(Rate::new(100, Span::from_secs(1)).unwrap()),
            algorithm: Algorithm::TokenBucket { burst: 100 },
            basis: Basis::Hi,
        });
        let budgets = Budgets::new();
        budgets.set_max(DomainId(0), KEYS as u64);
        let leg = Leg { shape, key: Fingerprint([0, 0]), cost: 1, absent: Absent::Fresh, shadow: false };
        let tables = vec![Table::new(); TABLES];
        let (fingerprint_key, boot) = (FingerprintKey(*b"a secret of ours"), Instant::now());
        Node { fingerprint_key, shapes, leg, budgets, tables, boot, out: Decided::default() }
    }

    fn now(&self) -> Now {
        Now::at(Moment::from_nanos(self.boot.elapsed().as_nanos() as u64))
    }

    fn check(&mut self, (org, user): &Attributes, now: Now) -> bool {
        let parts = [Part::text(org), Part::text(user)];
        let key = Fingerprint::of(&self.fingerprint_key, LimitId(1), parts);
        let table = &mut self.tables[route(parts)];
        table.decide(&[Leg { key, ..self.leg }], &self.shapes, &self.budgets, now, &mut self.out).unwrap()
    }
}

/// The partition: the top 12 bits of a keyed 64-bit hash over the same typed, length-prefixed bytes.
fn route(parts: [Part<'_>; 2]) -> usize {
    let mut hasher = SipHasher24::new_with_key(b"a seed of routes");
    hasher.write(&[1, 1, 0, 0, 0]);
    for part in parts {
        hasher.write(&[part.kind as u8]);
        hasher.write(&(part.bytes.len() as u32).to_le_bytes());
        hasher.write(part.bytes);
    }
    (hasher.finish() >> 52) as usize
}

fn decide(criterion: &mut Criterion) {
    let all = attributes();
    let mut group = criterion.benchmark_group("decide");
    group.throughput(Throughput::Elements(BATCH as u64));

    let mut seed = 1;
    let mut node = Node::new();
    let now = node.now();
    all.iter().for_each(|attributes| drop(node.check(attributes, now)));
    group.bench_function("ringfence-1M", |bencher| {
        bencher.iter_batched_ref(
            || batch(&all, &mut seed),
            |keys| {
                for some in keys.chunks(CHECKS_PER_CLOCK_READING) {
                    let now = node.now();
                    some.iter().for_each(|key| drop(black_box(node.check(&all[*key], now))));
                }
            },
            BatchSize::LargeInput,
        );
    });
    drop(node);

    let quota = Quota::per_second(NonZeroU32::new(100).unwrap());
    let dashmap =
        RateLimiter::<String, DashMapStateStore<String>, _>::new(quota, Default::default(), DefaultClock::default());
    group.bench_function("governor-1M", |bencher| governor(bencher, &all, &dashmap));
    drop(dashmap);
    let mutex =
        RateLimiter::<String, HashMapStateStore<String>, _>::new(quota, Default::default(), DefaultClock::default());
    group.bench_function("governor-hashmap-1M", |bencher| governor(bencher, &all, &mutex));
    group.finish();
}

fn governor<S: KeyedStateStore<String>>(
    bencher: &mut criterion::Bencher<'_>,
    all: &[Attributes],
    limiter: &RateLimiter<String, S, DefaultClock>,
) {
    let mut seed = 1;
    let mut buffer = String::new();
    let mut check = |(org, user): &Attributes| {
        buffer.clear();
        buffer.push_str(org);
        buffer.push('\0');
        buffer.push_str(user);
        limiter.check_key(&buffer).is_ok()
    };
    all.iter().for_each(|attributes| drop(check(attributes)));
    bencher.iter_batched_ref(
        || batch(all, &mut seed),
        |keys| keys.iter().for_each(|key| drop(black_box(check(&all[*key])))),
        BatchSize::LargeInput,
    );
}

criterion_group!(benches, decide);
criterion_main!(benches);
