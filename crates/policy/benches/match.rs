//! Matching must cost the same with 10 limits and rules as with 10,000. Each round asks for 1,000 checks that are spread
//! evenly over all rules, every check for another value, so the larger policy also pays for its cold memory.
#![allow(clippy::unwrap_used, missing_docs, reason = "benches")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use limits::LimitId;
use ringfence_policy::{Attributes, Bounds, Catalogue, Document, Matched};

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

/// Every check has a path of its own rule's, in an order that jumps about.
fn checks(rules: usize) -> Vec<Check> {
    let step = (rules / CHECKS).max(1);
    let check = |n: usize| {
        let rule = (n * 617 % CHECKS) * step % rules;
        Check { path: format!("/v1/endpoint/{rule}"), user: format!("user-{n}") }
    };
    (0..CHECKS).map(check).collect()
}

/// Matches one check and walks the parts of its keys, as an ingress does.
fn match_one(catalogue: &Catalogue, attributes: &Attributes<'_>) -> usize {
    let domain = catalogue.domain("d").expect("the domain");
    let Ok(Matched::Limits(limits)) = domain.matching(attributes, 1) else { panic!("a rule matches") };
    let bytes = |applied: ringfence_policy::Applied<'_>| applied.key().map(|part| part.bytes.len()).sum::<usize>();
    limits.iter().map(bytes).sum()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("match");
    group.throughput(Throughput::Elements(CHECKS as u64));
    for count in [10, 10_000] {
        let (catalogue, checks) = (catalogue(count), checks(count));
        let attributes: Vec<Attributes<'_>> = checks.iter().map(attributes_of).collect();
        group.bench_function(BenchmarkId::from_parameter(count), |b| {
            b.iter(|| attributes.iter().map(|it| match_one(&catalogue, black_box(it))).sum::<usize>());
        });
    }
    group.finish();
    let checks = checks(10);
    c.bench_function("attributes", |b| {
        b.iter(|| checks.iter().map(|check| attributes_of(black_box(check)).iter().count()).sum::<usize>());
    });
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
