//! Matching must cost the same with 10 limits and rules as with 10,000. `match/10` and `match/10000` ask policies of that
//! size for the same traffic: ten kinds of checks, of which the larger policy has rules for a thousand times as many.
//! `match-spread/10000` spreads the traffic evenly over all 10,000 rules: what is added there are misses of the processor's
//! caches, not work.
#![allow(clippy::unwrap_used, missing_docs, reason = "benches")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use limits::LimitId;
use ringfence_policy::{Attributes, Bounds, Catalogue, Document, Matched};

/// Checks per round; a power of ten, so that it divides the number of rules or is divided by it.
const CHECKS: usize = 1_000;

/// A limit and a rule for each of `count` endpoints.
fn catalogue(count: usize) -> Catalogue {
    let mut text = "ringfence: 1\ndomain: d\nlimits:\n".to_owned();
    (0..count).for_each(|n| text += &format!("  l{n}: {{ rate: 10/s, key: [org, user], route: [org] }}\n"));
    text += "rules:\n";
    for n in 0..count {
        text += &format!("- {{ name: r{n}, match: {{ method: POST, path: /v1/endpoint/{n} }}, limits: [l{n}] }}\n");
    }
    let bounds = Bounds { bytes: 4 << 20, ..Bounds::default() };
    let document = Document::parse_within(&text, &bounds).unwrap();
    let id = |name: &str| Some((LimitId(name[1..].parse::<u32>().unwrap() + 1), 0));
    Catalogue::empty().with_domain(&document, 1, &id, 1_000_000).unwrap()
}

struct Check {
    path: String,
    user: String,
}

/// Checks of `kinds` kinds, in an order that jumps about; their rules are spread evenly over `rules`.
fn checks(kinds: usize, rules: usize) -> Vec<Check> {
    let rule = |n: usize| (n * 617 % CHECKS) % kinds * (rules / kinds);
    (0..CHECKS).map(|n| Check { path: format!("/v1/endpoint/{}", rule(n)), user: format!("user-{n}") }).collect()
}

/// Matches one check and walks the parts of its keys, as an ingress does.
fn match_one(catalogue: &Catalogue, attributes: &Attributes<'_>) -> usize {
    let domain = catalogue.domain("d").expect("the domain");
    let Ok(Matched::Limits(limits)) = domain.matching(attributes, 1, None) else { panic!("a rule matches") };
    let bytes = |applied: ringfence_policy::Applied<'_>| applied.key().map(|part| part.bytes.len()).sum::<usize>();
    limits.iter().map(bytes).sum()
}

fn bench(c: &mut Criterion) {
    let (small, large) = (catalogue(10), catalogue(10_000));
    bench_match(c, "match", 10, &small, &checks(10, 10));
    bench_match(c, "match", 10_000, &large, &checks(10, 10_000));
    bench_match(c, "match-spread", 10_000, &large, &checks(CHECKS, 10_000));
    let checks = checks(10, 10);
    c.bench_function("attributes", |b| {
        b.iter(|| checks.iter().map(|check| attributes_of(black_box(check)).iter().count()).sum::<usize>());
    });
}

/// A round from the strings of the checks, as an ingress has them.
fn bench_match(c: &mut Criterion, group: &str, size: usize, catalogue: &Catalogue, checks: &[Check]) {
    let mut group = c.benchmark_group(group);
    group.throughput(Throughput::Elements(CHECKS as u64));
    group.bench_function(BenchmarkId::from_parameter(size), |b| {
        b.iter(|| checks.iter().map(|check| match_one(catalogue, &attributes_of(black_box(check)))).sum::<usize>());
    });
    group.finish();
}

fn attributes_of(check: &Check) -> Attributes<'_> {
    let pairs =
        [("method", "POST"), ("path", &check.path), ("org", "acme"), ("user", &check.user), ("ip", "192.0.2.1")];
    Attributes::new(pairs).unwrap()
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(3));
    targets = bench
}
criterion_main!(benches);
