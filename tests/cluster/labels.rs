//! Metrics whose labels come from the configuration alone: a hundred thousand keys, and whatever else callers make up,
//! add no series.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde_json::json;
use wire::v1::CheckRequest;

use crate::dev::Dev;
use crate::exactness::POLICY;
use crate::grpc::{patient_request, stream};
use crate::http;

/// Distinct keys asked.
const KEYS: usize = 100_000;

/// Checks in one batch.
const BATCH: usize = 1_000;

/// The metrics that operators build on, and what kind of number each is. Those of parts that are not built (moves,
/// evictions) are absent.
const METRICS: [(&str, &str); 24] = [
    ("ringfence_build_info", "gauge"),
    ("ringfence_cancelled_charges", "counter"),
    ("ringfence_checks", "counter"),
    ("ringfence_decision_cost", "counter"),
    ("ringfence_decision_duration_seconds", "histogram"),
    ("ringfence_decisions", "counter"),
    ("ringfence_degraded_decisions", "counter"),
    ("ringfence_fenced_writes", "counter"),
    ("ringfence_forward_duration_seconds", "histogram"),
    ("ringfence_forward_errors", "counter"),
    ("ringfence_keys", "gauge"),
    ("ringfence_lease_remaining_seconds", "gauge"),
    ("ringfence_map_version", "gauge"),
    ("ringfence_members", "gauge"),
    ("ringfence_near_limit", "counter"),
    ("ringfence_partitions", "gauge"),
    ("ringfence_policy_apply", "counter"),
    ("ringfence_policy_revision", "gauge"),
    ("ringfence_store_durable", "gauge"),
    ("ringfence_store_put_off", "counter"),
    ("ringfence_store_snapshot_age_seconds", "gauge"),
    ("ringfence_store_up", "gauge"),
    ("ringfence_table_full", "counter"),
    ("ringfence_takeovers", "counter"),
];

fn scrape(dev: &Dev, node: usize) -> String {
    let answer = http::get(dev.admin(node), "/metrics");
    assert_eq!(answer.status, 200);
    answer.body.as_str().unwrap().to_owned()
}

/// What a busy machine does between nodes, which no caller can bring about or name: these have a series for each peer and
/// reason, and get it when that happens first.
const BETWEEN_NODES: [&str; 3] = ["ringfence_forward_errors", "ringfence_lost_corrections", "ringfence_peer_refusals"];

/// The series of a scrape that are callers' doing: each name with its labels, without its value.
fn series(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.filter(|line| !BETWEEN_NODES.iter().any(|name| line.starts_with(name)));
    samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

/// What callers can get wrong, at each node.
fn nonsense(dev: &Dev, round: usize) {
    for node in 1..=3 {
        let word = format!("nonsense-{round}");
        let post = |path: &str, body: &serde_json::Value| {
            http::post_text(dev.api(node), path, "application/json", &body.to_string()).status
        };
        assert_eq!(post("/v1/check", &json!({ "domain": word, "attributes": {} })), 404);
        assert_eq!(post("/v1/check", &json!({ word.as_str(): 1 })), 400);
        assert_eq!(post("/v1/check", &json!({ "domain": "test", "attributes": { "kind": word } })), 200);
        assert_eq!(post(&format!("/v1/{word}"), &json!({})), 404);
        assert_eq!(http::get(dev.api(node), &format!("/{word}/{word}?{word}")).status, 404);
        assert_eq!(http::post_text(dev.api(node), "/v1/check", &format!("text/{word}"), "{}").status, 415);
        assert_eq!(http::get(dev.admin(node), &format!("/v1/policies/{word}")).status, 404);
        assert_eq!(http::get(dev.admin(node), &format!("/{word}")).status, 404);
    }
}

/// Asks every key of a range, dealt to all nodes.
async fn ask_all(dev: &Dev, kind: &str, keys: std::ops::Range<usize>) {
    let keys: Vec<_> = keys.collect();
    let batches: Vec<Vec<_>> = keys
        .chunks(BATCH)
        .map(|keys| keys.iter().map(|key| patient_request(kind, &format!("key-{key}"))).collect())
        .collect();
    let dealt = (0..3).map(|node| batches.iter().skip(node).step_by(3).cloned().collect());
    let streams = (1..=3).zip(dealt).map(|(node, batches)| stream(dev.api(node), batches, 1));
    let decisions: Vec<_> = join_all(streams).await.into_iter().flatten().collect();
    assert_eq!(decisions.len(), keys.len());
}

/// Asks so many at once with so little patience that the failure mode answers for some, at every node: on a busy machine
/// that happens by itself, and is a series of its own.
async fn ask_impatiently(dev: &Dev) {
    let hurried = |key| CheckRequest { deadline_ms: Some(1), ..patient_request("closed", &format!("key-{key}")) };
    for node in 1..=3 {
        loop {
            let decisions = stream(dev.api(node), vec![(0..BATCH).map(hurried).collect()], 1).await;
            if decisions.iter().any(|decision| decision.degraded) {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_keys_and_much_nonsense_add_no_series() {
    let dev = Dev::start_with_policy(POLICY);
    // Each outcome that follows has been there once: admitted and refused, by the owner itself, by way of another, and by
    // the failure mode.
    for _ in 0..7 {
        ask_all(&dev, "closed", 0..3 * BATCH).await;
    }
    ask_impatiently(&dev).await;
    nonsense(&dev, 0);
    let before: Vec<_> = (1..=3).map(|node| series(&scrape(&dev, node))).collect();
    assert!(before.iter().all(|series| (50..500).contains(&series.len())), "{:?}", before[0]);

    ask_all(&dev, "closed", 0..KEYS).await;
    for round in 1..20 {
        nonsense(&dev, round);
    }
    for (node, before) in (1..=3).zip(&before) {
        let text = scrape(&dev, node);
        let after = series(&text);
        let added: Vec<_> = after.difference(before).collect();
        assert!(added.is_empty() && after.len() == before.len(), "n{node} has new series: {added:?}");
        assert!(!text.contains("nonsense") && !text.contains("key-"), "callers' words are nobody's labels");
    }
    let asked: f64 = (1..=3).map(|node| value(&scrape(&dev, node), "ringfence_keys")).sum();
    assert!(asked > KEYS as f64 / 2.0, "most of the keys were there, also where answers came late: {asked}");
}

/// The sum of all series of a name.
fn value(text: &str, name: &str) -> f64 {
    let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

#[test]
fn every_metric_that_operators_build_on_is_there_with_its_type() {
    let dev = Dev::start();
    http::check(dev.api(1), "somebody");
    let text = scrape(&dev, 1);
    let seen = types(&text);
    for (name, kind) in METRICS {
        assert_eq!(seen.get(name), Some(&kind), "{name} in {seen:#?}");
    }
    assert!(seen.keys().all(|name| name.starts_with("ringfence_")), "{seen:#?}");
    assert!(text.ends_with("# EOF\n"), "a scrape that broke off would not end so");
}
