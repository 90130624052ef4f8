//! A node dies under load and comes back. Closed limits never admit more than they say, open ones never refuse for it,
//! emergency ones stay within their share, and everything has an owner again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tonic::transport::Channel;
use wire::v1::rate_limiter_client::RateLimiterClient;
use wire::v1::{CheckBatchRequest, Decision};

use crate::dev::{Dev, node};
use crate::exactness::POLICY;
use crate::grpc::{channel, decision, request};

/// Keys per kind of limit: enough that every node owns many.
const KEYS: usize = 120;

/// What callers of one key saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    allowed: usize,
    refused_by_owner: usize,
    unavailable: usize,
    recovering: usize,
    passed_open: usize,
    emergency_allowed: usize,
}

impl Seen {
    fn note(&mut self, decision: &Decision) {
        self.allowed += usize::from(decision.allowed);
        match (decision.allowed, decision.source.as_str(), decision.reason.as_str()) {
            (false, _, "recovering") => self.recovering += 1,
            (false, "owner" | "forwarded" | "denial_cache", _) => self.refused_by_owner += 1,
            (false, _, _) => self.unavailable += 1,
            (true, "open", _) => self.passed_open += 1,
            (true, "emergency", _) => self.emergency_allowed += 1,
            (true, _, _) => {}
        }
    }
}

type Log = BTreeMap<(&'static str, usize), Seen>;

/// Asks every key of every kind through one node, again and again, until told to stop. A node that cannot be reached is
/// what the caller of a dead node sees: it asks another, which its fellow tasks do already.
async fn ask_until_told(channel: Channel, stop: Arc<AtomicBool>) -> Log {
    let mut client = RateLimiterClient::new(channel);
    let mut log = Log::new();
    let kinds = ["closed", "open", "emergency"];
    let asked: Vec<_> = kinds.into_iter().flat_map(|kind| (0..KEYS).map(move |key| (kind, key))).collect();
    while !stop.load(Ordering::Relaxed) {
        let checks = asked.iter().map(|(kind, key)| request(kind, &format!("key-{key}"))).collect();
        match client.check_batch(CheckBatchRequest { number: 1, checks }).await {
            Ok(answer) => {
                for (name, result) in asked.iter().zip(answer.into_inner().results) {
                    log.entry(*name).or_default().note(&decision(result));
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    log
}

fn sum(logs: Vec<Log>) -> Log {
    let mut total = Log::new();
    for (name, seen) in logs.into_iter().flatten() {
        let sum = total.entry(name).or_default();
        sum.allowed += seen.allowed;
        sum.refused_by_owner += seen.refused_by_owner;
        sum.unavailable += seen.unavailable;
        sum.recovering += seen.recovering;
        sum.passed_open += seen.passed_open;
        sum.emergency_allowed += seen.emergency_allowed;
    }
    total
}

fn all<'l>(log: &'l Log, kind: &'l str) -> impl Iterator<Item = (usize, Seen)> + 'l {
    log.iter().filter(move |((of, _), _)| *of == kind).map(|((_, key), seen)| (*key, *seen))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_dies_under_load_and_comes_back() {
    let mut dev = Dev::start_with_policy(POLICY);
    let stop = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> =
        (1..=3).map(|node| tokio::spawn(ask_until_told(channel(dev.api(node)), Arc::clone(&stop)))).collect();
    let before = dev.cluster(1);
    let old_session = node(&before, "n2").unwrap()["session"].clone();
    let old_id = node(&before, "n2").unwrap()["id"].clone();

    dev.kill("n2");
    let dead = dev.wait_until(1, "n2's partitions having new owners", |cluster| {
        node(cluster, "n2").is_some_and(|n2| n2["state"] == "expired") && cluster["partitions"]["vacant"] == 0
    });
    let owned = |cluster: &serde_json::Value, name: &str| node(cluster, name).unwrap()["partitions"].as_u64().unwrap();
    assert_eq!(owned(&dead, "n1") + owned(&dead, "n3"), 4096);

    dev.revive("n2");
    let back =
        dev.wait_until(1, "n2 living again", |cluster| node(cluster, "n2").is_some_and(|n2| n2["state"] == "live"));
    assert_ne!(node(&back, "n2").unwrap()["session"], old_session, "it lives under a new session");
    assert_ne!(node(&back, "n2").unwrap()["id"], old_id, "and in memory, as another node");
    // The new n2 answers for what others own.
    let checks = vec![request("open", "key-0")];
    let mut client = RateLimiterClient::new(channel(dev.api(2)));
    let answered = loop {
        match client.check_batch(CheckBatchRequest { number: 1, checks: checks.clone() }).await {
            Ok(answer) => break decision(answer.into_inner().results.remove(0)),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(!answered.owner.is_empty() || answered.degraded, "{answered:?}");

    stop.store(true, Ordering::Relaxed);
    let mut logs = Vec::new();
    for asker in askers {
        logs.push(asker.await.unwrap());
    }
    let log = sum(logs);
    // The whole run is shorter than a minute, so it is one window of each limit.
    let unavailable: usize = all(&log, "closed").map(|(_, seen)| seen.unavailable + seen.recovering).sum();
    assert!(unavailable > 0, "the load met the failure, or this test shows nothing");
    for (key, seen) in all(&log, "closed") {
        assert!(seen.allowed <= 5, "closed key {key} admits 5 a minute: {seen:?}");
    }
    for (key, seen) in all(&log, "open") {
        assert_eq!(
            (seen.unavailable, seen.recovering),
            (0, 0),
            "open key {key} is not refused for the failure: {seen:?}"
        );
    }
    // Three nodes share half of 60: ten each at most; the dead one's share is not inherited, and the new n2 counts as one.
    for (key, seen) in all(&log, "emergency") {
        assert!(seen.emergency_allowed <= 30, "emergency key {key} stays within its share: {seen:?}");
        assert!(seen.allowed <= 60 + 30, "emergency key {key} stays within 150 %: {seen:?}");
    }
}

#[test]
fn the_founder_may_die_and_come_back_at_once() {
    let mut dev = Dev::start();
    let before = dev.cluster(3);
    let old_id = node(&before, "n1").unwrap()["id"].clone();
    dev.kill("n1");
    dev.revive("n1");
    let after = dev.wait_until(3, "n1 living again in the same cluster", |cluster| {
        let n1 = node(cluster, "n1").unwrap();
        n1["state"] == "live" && n1["id"] != old_id && cluster["partitions"]["vacant"] == 0
    });
    assert_eq!(after["uuid"], before["uuid"], "no second cluster");
    dev.wait_until(1, "the new n1 seeing the same cluster", |cluster| cluster["uuid"] == before["uuid"]);
    dev.wait_until(3, "three voters again", |cluster| {
        cluster["nodes"].as_array().unwrap().iter().all(|node| node["role"] == "voter")
    });
    let answer = dev.check_until_answered(1, "after-all-that");
    assert_eq!(answer["allowed"], true, "{answer}");
}

/// What leases cost the log: nothing. There is no event for something that does not happen, so this waits for as long as
/// ten renewals of each node take.
#[test]
fn renewals_leave_the_log_alone() {
    let dev = Dev::start();
    let applied = |node: usize| dev.cluster(node)["applied"].as_u64().unwrap();
    // The founders' voters may still be settling when the first placement is there.
    let before = dev.wait_until(1, "everybody having applied the same", |cluster| {
        let applied_here = cluster["applied"].as_u64().unwrap();
        applied(2) == applied_here && applied(3) == applied_here
    })["applied"]
        .as_u64()
        .unwrap();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!([applied(1), applied(2), applied(3)], [before; 3]);
    let answer = crate::http::check(dev.api(1), "still-owned");
    assert_eq!((answer.status, &answer.body["degraded"]), (200, &serde_json::json!(false)), "{}", answer.body);
}
