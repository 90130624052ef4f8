//! What a Redis costs and what it saves, measured on real nodes with a real `redis-server`, all on one machine: closed limits
//! with it beside without it, writes per decision, a node that comes back with a million keys, and a Redis that goes away
//! under load. It prints figures and judges none. `cargo xtask bench store` runs it, with the name of a part that part alone.
#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark"
)]

#[path = "../../../../tests/cluster/dev.rs"]
mod dev;
#[path = "../../../../tests/cluster/http.rs"]
mod http;
mod load;
mod metrics;
mod outage;
#[path = "../../../../tests/cluster/patience.rs"]
mod patience;
mod recovery;
#[path = "../../../../tests/cluster/redis.rs"]
mod redis;
#[path = "../../../../tests/cluster/serve.rs"]
mod serve;
mod throughput;

use redis::Redis;
use serve::{Fleet, all_owned, live_nodes};

/// The limit of every part, as two algorithms count it.
const POLICY: &str = "
ringfence: 1
domain: default
limits:
  bucket: { rate: 1000/h, key: [client], fail: closed }
  log: { rate: 1000/h, algorithm: sliding-log, key: [client], fail: closed }
rules:
  - { name: bucket, match: { kind: bucket }, limits: [bucket] }
  - { name: log, match: { kind: log }, limits: [log] }
";

const LIMIT: u64 = 1_000;

/// The parts, in the order in which they run.
const PARTS: [(&str, fn()); 3] =
    [("throughput", throughput::run), ("recovery", recovery::run), ("outage", outage::run)];

fn main() {
    // Cargo adds words of its own, which begin with a dash.
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some(unknown) = named.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        panic!("no part is called {unknown}; there are: {}", PARTS.map(|(part, _)| part).join(", "));
    }
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        return println!("store: did not run: there is no redis-server; on Debian: apt-get install redis-server");
    }
    for (name, run) in PARTS {
        if named.is_empty() || named.iter().any(|part| part == name) {
            run();
        }
    }
}

/// So many nodes, settled; with a Redis, what they keep counts.
fn fleet(nodes: usize, redis: Option<&Redis>) -> Fleet {
    let mut fleet = Fleet::new(nodes);
    std::fs::write(fleet.path("policy.yaml"), POLICY).unwrap();
    fleet.tell(0, "admin.open_metrics", "true");
    if let Some(redis) = redis {
        // As most who care for what is in it have it; the tests' own writes every call to disk before it answers.
        assert_eq!(redis.ask(&["CONFIG", "SET", "appendfsync", "everysec"]), "OK");
        fleet.tell(0, "redis.url", &redis.toml());
    }
    fleet.start_all(1..=nodes);
    fleet.wait_until_settled(1, nodes);
    if redis.is_some() {
        wait_until_durable(&fleet, nodes);
    }
    fleet
}

/// Waits until what so many nodes keep counts.
fn wait_until_durable(fleet: &Fleet, nodes: usize) {
    fleet.wait_until(1, &format!("{nodes} nodes being durable"), |cluster| {
        let seen = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let durable = seen.iter().filter(|node| node["durable"].is_string()).count();
        live_nodes(cluster) == nodes && durable == nodes && all_owned(cluster)
    });
}

fn row(says: &str, measured: &str, wanted: &str) {
    println!("{says:<66} {measured:>12}   {wanted}");
}
