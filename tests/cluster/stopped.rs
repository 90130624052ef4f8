//! A whole cluster stands still and goes on (Ctrl-Z, a laptop's lid, a paused machine). Every lease is over by then, yet
//! nobody else can have decided meanwhile: nobody is expired for it, and nothing that was counted is forgotten.

use std::time::Duration;

use serde_json::{Value, json};

use crate::dev::Dev;
use crate::http;
use crate::patience::until;
use crate::serve::Fleet;

/// How long the cluster stands still: several times its leases.
const STANDS_STILL: Duration = Duration::from_secs(10);

/// Keys, of which each node owns many.
const KEYS: usize = 60;

/// A closed limit whose window is long enough to be the same one before and after, and a bucket that is slow enough to
/// show whether its burst is gone.
const POLICY: &str = "
ringfence: 1
domain: test
limits:
  window: { rate: 100/d, algorithm: fixed-window, align: first, key: [client], fail: closed }
  bucket: { rate: 1/h burst 100, key: [client], fail: closed }
";

fn body(client: usize, cost: u64) -> Value {
    json!({ "attributes": { "client": format!("client-{client}") }, "cost": cost, "domain": "test", "deadline_ms": 1_000 })
}

/// All keys in one batch at a node.
fn ask(dev: &Dev, node: usize, cost: u64) -> Vec<Value> {
    let checks: Vec<_> = (0..KEYS).map(|client| body(client, cost)).collect();
    let batch = json!({ "checks": checks }).to_string();
    let answer = http::post_text(dev.api(node), "/v1/check/batch", "application/json", &batch).body;
    answer["decisions"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

fn remaining(decision: &Value) -> Vec<&Value> {
    decision["limits"].as_array().unwrap().iter().map(|leg| &leg["remaining"]).collect()
}

/// Who owns what under which epoch, and in which sessions.
fn appointed(dev: &Dev, node: usize) -> (Value, Vec<Value>) {
    let map = http::get(dev.admin(node), "/v1/cluster/map").body;
    let sessions = dev.cluster(node)["nodes"].as_array().unwrap().iter().map(|node| node["session"].clone()).collect();
    (map, sessions)
}

#[test]
fn a_cluster_that_stood_still_for_ten_seconds_goes_on_where_it_was() {
    let dev = Dev::start_with_policy(POLICY);
    for decision in ask(&dev, 1, 30) {
        assert_eq!(remaining(&decision), [70, 70], "{decision}");
    }
    let before = appointed(&dev, 1);
    // A cluster of one has no other leader to turn to: the same clock tells it that everybody's lease is over.
    let mut alone = Fleet::new(1);
    alone.start(1);
    let before_alone = alone.wait_until_settled(1, 1);

    dev.signal("STOP");
    alone.signal(1, "STOP");
    // The stop is the fault itself; nothing can announce its end.
    std::thread::sleep(STANDS_STILL);
    dev.signal("CONT");
    alone.signal(1, "CONT");

    // Whoever has no lease says so; nobody may say that a key is used up, or count it anew.
    for node in 1..=3 {
        until("every key having an owner again", || {
            let decisions = ask(&dev, node, 0);
            for decision in &decisions {
                assert_ne!(decision["reason"], "recovering", "no key goes worst case: {decision}");
                assert_ne!(decision["reason"], "limit", "no key is used up: {decision}");
            }
            match decisions.into_iter().find(|decision| decision["degraded"] == true) {
                None => Ok(()),
                degraded => Err(degraded),
            }
        });
    }
    for decision in ask(&dev, 2, 30) {
        assert_eq!(
            (&decision["allowed"], remaining(&decision)),
            (&json!(true), vec![&json!(40), &json!(40)]),
            "{decision}"
        );
    }
    for node in 1..=3 {
        assert_eq!(appointed(&dev, node), before, "no epoch rose and no session ended, as n{node} sees it");
        let metrics = http::get(dev.admin(node), "/metrics").body;
        let metrics = metrics.as_str().unwrap();
        assert!(metrics.contains("ringfence_takeovers_total{state=\"worst_case\"} 0\n"), "{metrics}");
    }
    let after_alone = until("the cluster of one deciding again", || match alone.check(1, "closed", "one").body {
        answer if answer["degraded"] == false => Ok(alone.cluster(1)),
        answer => Err(answer),
    });
    for same in ["nodes", "map_version"] {
        assert_eq!(after_alone[same], before_alone[same], "no epoch rose and no session ended");
    }
}
