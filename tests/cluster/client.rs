//! The Rust SDK against real clusters: decisions word for word, one limit over three nodes, and a node that dies under
//! load, which costs no caller more than it costs the limits of the keys that the node owned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Check, CheckError, Client, Decision, Mode, NodeState, Reason, Source};

use crate::dev::{Dev, node};
use crate::exactness::POLICY;

/// Keys per kind of limit: enough that every node owns many.
const KEYS: usize = 60;

/// The nodes of a cluster, beginning with this one.
fn addresses(dev: &Dev, first: usize) -> Vec<String> {
    (0..3).map(|step| dev.api((first - 1 + step) % 3 + 1).to_owned()).collect()
}

/// A caller who waits as long as it may, so that a busy machine does not decide a test's outcome.
fn patient(dev: &Dev, first: usize) -> Client {
    let client = Client::builder().nodes(addresses(dev, first)).deadline(Duration::from_secs(2));
    client.connect_timeout(Duration::from_secs(2)).build().unwrap()
}

fn check(kind: &str, key: &str) -> Check {
    Check::new("test").attribute("kind", kind).attribute("client", key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_has_every_field_of_a_decision() {
    let dev = Dev::start();
    let client = patient(&dev, 2);
    let asked = || Check::new("default").attribute("client", "sdk");
    let allowed = client.check(asked().id("order-7")).await.unwrap();
    assert!(allowed.allowed && !allowed.degraded && !allowed.replayed);
    assert_eq!((allowed.id.as_str(), allowed.domain.as_str(), allowed.cost), ("order-7", "default", 1));
    assert_eq!((allowed.limit.as_deref(), allowed.remaining), (Some("per-client"), Some(19)));
    assert_eq!((&allowed.reason, allowed.retry_after, allowed.revision), (&Reason::Ok, None, 1));
    assert!(matches!(allowed.source, Source::Owner | Source::Forwarded), "{allowed:?}");
    assert!(allowed.owner.is_some() && allowed.epoch == Some(1) && allowed.reset_after.is_some());
    assert_eq!((&*allowed.answered_by, allowed.attempts), (dev.api(2), 1));
    let [leg] = &allowed.limits[..] else { panic!("one limit applies: {allowed:?}") };
    assert_eq!((leg.limit.as_str(), leg.capacity, &leg.mode), ("per-client", Some(20), &Mode::Enforce));

    let again = client.check(asked().id("order-7")).await.unwrap();
    assert!(again.replayed && again.remaining == Some(19), "{again:?}");
    let denied = client.check(asked().cost(20)).await.unwrap();
    assert!(!denied.allowed && denied.reason == Reason::Limit, "{denied:?}");
    assert!(denied.retry_after.is_some_and(|wait| wait <= Duration::from_millis(100)), "{denied:?}");
    let never = client.check(asked().cost(21)).await.unwrap();
    assert_eq!((never.reason, never.retry_after), (Reason::Never, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_put_is_told_with_code_and_field() {
    let dev = Dev::start();
    let client = patient(&dev, 1);
    let wrong = [
        (Check::new("nowhere"), "unknown-domain", "domain"),
        (Check::new("default").attribute("client", "x".repeat(257)), "value-too-long", "attributes.client"),
        (Check::new("default").attribute("client", "a").cost(u64::MAX), "out-of-range", "cost"),
        (Check::new("default").attribute("client", "a").id("na\u{ef}ve"), "out-of-range", "id"),
    ];
    let (checks, said): (Vec<_>, Vec<_>) = wrong.into_iter().map(|(check, code, field)| (check, (code, field))).unzip();
    // All in one batch, with one that can be put: a bad check spoils only its own place.
    let good = Check::new("default").attribute("client", "good");
    let mut results = client.check_all(checks.into_iter().chain([good])).await;
    assert!(results.pop().unwrap().unwrap().allowed);
    for (result, (expected_code, expected_field)) in results.into_iter().zip(said) {
        let Err(CheckError::Rejected { code, field, .. }) = result else { panic!("{expected_code}: {result:?}") };
        assert_eq!((code.as_str(), field.as_str()), (expected_code, expected_field));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_at_three_nodes_share_one_limit() {
    let dev = Dev::start_with_policy(POLICY);
    let clients: Vec<_> = (1..=3).map(|first| patient(&dev, first)).collect();
    let asked = clients.iter().map(|client| client.check_all((0..1_000).map(|_| check("closed", "one"))));
    let decisions: Vec<_> = futures_util::future::join_all(asked).await.into_iter().flatten().collect();
    let decisions: Vec<Decision> = decisions.into_iter().map(Result::unwrap).collect();
    assert_eq!(decisions.len(), 3_000);
    assert!(decisions.iter().all(|decision| !decision.degraded));
    assert_eq!(decisions.iter().filter(|decision| decision.allowed).count(), 5);
}

/// Asks every key of two kinds, round after round, until told to stop.
async fn ask_until_told(client: Client, stop: Arc<AtomicBool>) -> Vec<(&'static str, usize, Decision)> {
    let mut log = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let asked: Vec<_> =
            ["closed", "open"].into_iter().flat_map(|kind| (0..KEYS).map(move |key| (kind, key))).collect();
        let checks = asked.iter().map(|(kind, key)| check(kind, &format!("key-{key}")));
        let results = client.check_all(checks).await;
        for ((kind, key), result) in asked.into_iter().zip(results) {
            log.push((kind, key, result.expect("two nodes of three answer")));
        }
    }
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_under_load_costs_its_callers_no_answer() {
    let mut dev = Dev::start_with_policy(POLICY);
    let clients: Vec<_> = (1..=3).map(|first| patient(&dev, first)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> =
        clients.iter().map(|client| tokio::spawn(ask_until_told(client.clone(), Arc::clone(&stop)))).collect();
    // The client that asks n2 first is the one that loses its node.
    let state = |want: fn(&NodeState) -> bool| {
        let client = clients[1].clone();
        async move { client.wait_for(|nodes| want(&nodes[0].state)).await }
    };
    state(|state| *state == NodeState::Reachable).await;
    dev.kill("n2");
    state(|state| matches!(state, NodeState::Unreachable(_))).await;
    dev.wait_until(1, "n2's partitions having new owners", |cluster| {
        node(cluster, "n2").is_some_and(|n2| n2["state"] == "expired") && cluster["partitions"]["vacant"] == 0
    });
    dev.revive("n2");
    state(|state| *state == NodeState::Reachable).await;
    stop.store(true, Ordering::Relaxed);
    let mut logs = Vec::new();
    for asker in askers {
        logs.push(asker.await.unwrap());
    }
    let elsewhere = logs[1].iter().any(|(_, _, decision)| *decision.answered_by != *dev.api(2));
    assert!(elsewhere, "whoever asks n2 first was answered by others meanwhile");
    let log = logs.concat();
    let of = |kind: &'static str| log.iter().filter(move |(of, _, _)| *of == kind);
    assert!(of("closed").any(|(_, _, decision)| decision.degraded), "the load met the failure");
    // The whole run is shorter than a minute, so it is one window of each limit.
    for key in 0..KEYS {
        let allowed = of("closed").filter(|(_, of, decision)| *of == key && decision.allowed).count();
        assert!(allowed <= 5, "closed key {key} admits 5 a minute, not {allowed}");
    }
    for (_, key, decision) in of("open") {
        assert!(
            decision.allowed || decision.reason == Reason::Limit,
            "open key {key} is not refused for the failure: {decision:?}"
        );
    }
}
