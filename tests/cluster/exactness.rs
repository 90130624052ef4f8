//! A limit admits exactly what it says, whatever node is asked, however many ask at once.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::dev::Dev;
use crate::grpc::{patient_request, stream};
use crate::http;

/// The limits of these tests: `kind` picks one.
pub const POLICY: &str = "
ringfence: 1
domain: test
limits:
  login: { rate: 5/min, algorithm: sliding-log, key: [client], fail: closed }
  relaxed: { rate: 5/min, algorithm: sliding-log, key: [client], fail: open }
  shared: { rate: 60/min, algorithm: sliding-log, key: [client], fail: { emergency: 50% } }
rules:
  - { name: closed, match: { kind: closed }, limits: [login] }
  - { name: open, match: { kind: open }, limits: [relaxed] }
  - { name: emergency, match: { kind: emergency }, limits: [shared] }
";

#[test]
fn three_thousand_parallel_checks_over_three_nodes_admit_exactly_five() {
    let dev = Dev::start_with_policy(POLICY);
    let attributes = serde_json::json!({ "kind": "closed", "client": "one" });
    let body = serde_json::json!({ "domain": "test", "attributes": attributes, "deadline_ms": 1_000 });
    // Thirty threads with a hundred checks each, over all nodes: as parallel as plain HTTP gets.
    let allowed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..30)
            .map(|thread| {
                let (dev, body) = (&dev, &body);
                scope.spawn(move || {
                    let answers = (0..100).map(|_| http::check_with(dev.api(thread % 3 + 1), body));
                    answers.filter(|answer| allowed(answer.status, &answer.body)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 5);
}

fn allowed(status: u16, body: &serde_json::Value) -> bool {
    assert_eq!(body["degraded"], false, "nothing is broken, so nothing may be degraded: {body}");
    match (status, body["reason"].as_str()) {
        (200, Some("ok")) => true,
        (429, Some("limit")) => false,
        other => panic!("{other:?}: {body}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_thousand_checks_on_streams_over_three_nodes_admit_exactly_five() {
    let dev = Dev::start_with_policy(POLICY);
    let streams = (1..=3).map(|node| stream(dev.api(node), vec![vec![patient_request("closed", "one"); 50]; 20], 20));
    let decisions: Vec<_> = join_all(streams).await.into_iter().flatten().collect();
    assert_eq!(decisions.len(), 3_000);
    assert!(decisions.iter().all(|decision| !decision.degraded));
    assert_eq!(decisions.iter().filter(|decision| decision.allowed).count(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_keys_asked_fifty_times_from_three_nodes_at_once_admit_exactly_five_each() {
    let dev = Dev::start_with_policy(POLICY);
    let keys: Vec<String> = (0..1_000).map(|key| format!("key-{key}")).collect();
    // Fifty rounds over all keys, dealt to the nodes in turn. Batches are small: an answer that is a quarter of a
    // second old is dropped, and a busy machine takes long for a large one.
    let batches = |node: usize| -> Vec<_> {
        let rounds = (0..50).filter(|round| round % 3 == node);
        let batch = |keys: &[String]| keys.iter().map(|key| patient_request("closed", key)).collect();
        rounds.flat_map(|_| keys.chunks(100).map(batch)).collect()
    };
    let asked = (0..3).map(|node| stream_by_key(dev.api(node + 1), batches(node), &keys));
    let mut sums: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for counts in join_all(asked).await {
        for (key, (allowed, asked)) in counts {
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + allowed, sum.1 + asked);
        }
    }
    assert_eq!(sums.len(), 1_000);
    assert!(sums.values().all(|counts| *counts == (5, 50)), "{sums:?}");
}

/// Sends batches that hold all keys in order, again and again, and counts per key how many were allowed and asked.
async fn stream_by_key(
    address: &str,
    batches: Vec<Vec<wire::v1::CheckRequest>>,
    keys: &[String],
) -> BTreeMap<String, (usize, usize)> {
    let decisions = stream(address, batches, 2).await;
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (decision, key) in decisions.iter().zip(keys.iter().cycle()) {
        assert!(!decision.degraded, "{decision:?}");
        let count = counts.entry(key.clone()).or_default();
        *count = (count.0 + usize::from(decision.allowed), count.1 + 1);
    }
    counts
}

#[test]
fn a_fresh_cluster_admits_from_its_first_second() {
    let dev = Dev::start_with_policy(POLICY);
    let body = serde_json::json!({ "domain": "test", "attributes": { "kind": "closed", "client": "first" } });
    let answer = http::check_with(dev.api(1), &body);
    assert_eq!((answer.status, &answer.body["remaining"]), (200, &serde_json::json!(4)), "{}", answer.body);
    assert_eq!(answer.body["epoch"], 1);
}

#[test]
fn a_denial_over_http_names_the_limit_and_the_wait() {
    let dev = Dev::start();
    let answers: Vec<_> = (0..25).map(|_| http::check(dev.api(1), "bob")).collect();
    let denied =
        answers.iter().find(|answer| answer.status == 429).expect("25 at once are more than 20 and the refill");
    assert_eq!(denied.body["limit"], "per-client");
    assert_eq!(denied.body["reason"], "limit");
    assert_eq!(denied.header("content-type"), "application/problem+json");
    assert_eq!(denied.header("retry-after"), "1");
    assert_eq!(denied.header("ratelimit-policy"), r#""per-client";q=20;w=2"#);
    assert_eq!(denied.header("ratelimit"), r#""per-client";r=0;t=1"#);
    let wait = denied.body["retry_after_ms"].as_u64().unwrap();
    assert!((1..=100).contains(&wait), "{}", denied.body);
}
