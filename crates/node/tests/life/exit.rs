//! Leaving as planned: nobody waits for a lease to run out, nothing is decided after the seal, and a closed limit lets
//! nothing more through than it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_node::{Left, Node, Reason, Source};

use crate::nodes::*;

/// What a caller of any node counts.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    allowed: u64,
    unavailable: u64,
}

/// Asks one node again and again about many keys, until it is told to stop; says what it was answered.
async fn callers(node: Arc<Node>, kind: &'static str, stop: Arc<AtomicBool>) -> Answers {
    let mut answers = Answers::default();
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let decision = ask(&node, kind, &format!("{kind}-{}", number % 50)).await;
        answers.allowed += u64::from(decision.allowed);
        answers.unavailable += u64::from(decision.reason == Reason::Unavailable);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    answers
}

fn of_name<'n>(nodes: &'n [Arc<Node>], name: &str) -> &'n Arc<Node> {
    nodes.iter().find(|node| node.name() == name).unwrap()
}

/// One of three leaves under load; what the others saw of it must not depend on whether it led.
async fn one_leaves(leader: bool) {
    let directory = tempfile::tempdir().unwrap();
    let (_told, nodes) = three(directory.path()).await;
    let led_by = nodes[0].cluster_status().leader.unwrap();
    let leaves = nodes.iter().find(|node| (node.name() == led_by) == leader).unwrap();
    let others: Vec<_> = nodes.iter().filter(|node| node.name() != leaves.name()).cloned().collect();
    let owned = leaves.holdings().active;
    assert!(owned > 0);

    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = nodes
        .iter()
        .flat_map(|node| ["closed", "open"].map(|kind| tokio::spawn(callers(node.clone(), kind, stop.clone()))))
        .collect();
    until("some load", || nodes.iter().all(|node| node.holdings().keys > 0)).await;
    let epochs_before = leaves.map_runs().0;
    let left = in_time("left", leaves.leave(Duration::from_secs(20))).await;
    assert_eq!(left, Left::Released { partitions: owned });
    assert_eq!(leaves.unready().as_deref(), Some("this node is leaving"));
    assert_eq!(leaves.holdings().active, 0, "it decides nothing any more");
    for other in &others {
        let status = other.cluster_status();
        assert_eq!((status.vacant, status.map_version > epochs_before), (0, true), "taken over at once: {status:?}");
    }
    // A check that still comes in is forwarded to whoever took over.
    let forwarded = ask(leaves, "open", "late").await;
    assert_eq!((forwarded.allowed, forwarded.legs[0].source), (true, Source::Forwarded));

    stop.store(true, Ordering::Relaxed);
    let mut sum = Answers::default();
    for callers in load {
        let answers = callers.await.unwrap();
        sum.allowed += answers.allowed;
        sum.unavailable += answers.unavailable;
    }
    assert_eq!(sum.unavailable, 0, "every caller waited for the new owners, and no longer than its budget");

    leaves.stop().await;
    for other in &others {
        let words = words(other);
        assert!(words.contains(&"session_released"), "{words:?}");
        assert!(!words.contains(&"session_expired"), "nobody waited for a lease: {words:?}");
    }
    for node in &others {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_follows_leaves_and_nobody_waits() {
    one_leaves(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_leaves_and_nobody_waits() {
    one_leaves(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_limit_lets_nothing_more_through_when_its_owner_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let (_told, nodes) = three(directory.path()).await;
    let clients: Vec<_> = (0..60).map(|number| format!("c{number}")).collect();
    let mut allowed = vec![0; clients.len()];
    for (client, allowed) in clients.iter().zip(&mut allowed) {
        *allowed += u64::from(ask(&nodes[0], "closed", client).await.allowed);
    }
    assert!(allowed.iter().all(|allowed| *allowed == 1));
    let leaves = of_name(&nodes, "n2");
    in_time("left", leaves.leave(Duration::from_secs(20))).await;
    let mut recovering = 0;
    for (client, allowed) in clients.iter().zip(&mut allowed) {
        for node in &nodes {
            let decision = ask(node, "closed", client).await;
            *allowed += u64::from(decision.allowed);
            recovering += u64::from(decision.reason == Reason::Recovering);
        }
    }
    assert!(allowed.iter().all(|allowed| *allowed <= 2), "two an hour: {allowed:?}");
    assert!(recovering > 0, "what its new owners do not know counts as used");
    assert!(allowed.contains(&2), "whose owner stayed goes on");
    for node in &nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_one_leaves_nobody_behind_and_needs_not_wait_when_it_returns() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = alone(directory.path());
    let first = settled(&mut told).await;
    assert!(ask(&first, "closed", "ann").await.allowed);
    let left = in_time("left", first.leave(Duration::from_secs(20))).await;
    assert_eq!(left, Left::Released { partitions: 16 });
    assert_eq!(first.cluster_status().vacant, 16);
    assert_eq!(in_time("left again", first.leave(Duration::ZERO)).await, left, "the second time it is the same");
    assert_eq!(words(&first).iter().filter(|word| **word == "draining").count(), 1);
    let closed = ask(&first, "closed", "ann").await;
    assert_eq!((closed.allowed, closed.reason), (false, Reason::Unavailable));
    first.stop().await;
    drop(first);

    let second = settled(&mut told).await;
    let words = words(&second);
    assert!(!words.contains(&"session_expired") && words.contains(&"session_opened"), "{words:?}");
    let closed = ask(&second, "closed", "ann").await;
    assert_eq!((closed.allowed, closed.reason), (false, Reason::Recovering));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_a_node_leaves_in_time_and_decides_nothing_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (_told, nodes) = three(directory.path()).await;
    nodes[0].stop().await;
    nodes[1].stop().await;
    assert!(nodes[2].holdings().active > 0);
    let left = in_time("left", nodes[2].leave(Duration::from_secs(1))).await;
    let Left::NotReleased(why) = left else { panic!("{left:?}") };
    assert!(!why.is_empty());
    assert_eq!(nodes[2].holdings().active, 0);
    nodes[2].stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_no_cluster_has_nothing_to_release() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = alone(directory.path());
    told.founders.push("n2".to_owned());
    let node = Node::start(told.config()).await.unwrap();
    let left = in_time("left", node.leave(Duration::from_secs(20))).await;
    assert_eq!(left, Left::Released { partitions: 0 });
    node.stop().await;
}
