//! Nodes that were told the wrong thing are refused by name, those that may mend are not stopped for it.

use std::sync::Arc;

use limits::Span;
use ownership::lease::Terms;
use ringfence_node::config::Given;
use ringfence_node::{Node, Refused};

use crate::nodes::*;

/// Short, so that two leases are soon over, and long enough for a busy machine.
fn short() -> Terms {
    Terms::new(Span::from_secs(2), Span::from_millis(250), Span::from_millis(250), 10).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_of_one_name_is_refused_and_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut founder = Told { terms: short(), ..alone(&directory.path().join("n1")) };
    let founds = settled(&mut founder).await;
    let joining = |lives_in: &str| Told {
        name: "n2".to_owned(),
        directory: directory.path().join(lives_in),
        peer: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        seeds: vec![founder.peer.to_string()],
        ..founder.clone()
    };
    let mut told = joining("n2");
    let lives = Node::start(told.config()).await.unwrap();
    until("n2 lives", || founds.cluster_status().nodes.iter().any(|node| node.name == "n2")).await;

    let twin = Node::start(joining("twin").config()).await.unwrap();
    let why = in_time("refused", twin.refused()).await;
    assert_eq!(why, Refused::NameInUse { name: "n2".to_owned(), held_by: told.peer.to_string() });
    assert!(why.to_string().starts_with("name-in-use: n2 "), "{why}");
    assert_eq!(twin.unready(), Some(why.to_string()));
    assert!(lives.unready().is_none() && lives.lease_remaining() > Span::ZERO, "the one that lives goes on");
    for node in [twin, lives, founds] {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_whose_node_died_is_free_after_its_lease() {
    let directory = tempfile::tempdir().unwrap();
    let (mut told, nodes) = three(directory.path()).await;
    nodes[2].stop().await;
    std::fs::remove_dir_all(&told[2].directory).unwrap();
    let returned = Node::start(told[2].config()).await.unwrap();
    tokio::select! {
        () = in_time("settled", returned.settled()) => {}
        why = returned.refused() => panic!("{why}"),
    }
    for node in nodes[..2].iter().chain([&returned]) {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_founders_than_the_clusters_are_refused_by_name() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut told = alone(first.path());
    let lives = settled(&mut told).await;

    let mut other = alone(second.path());
    other.name = "n2".to_owned();
    other.founders.push("n2".to_owned());
    other.seeds = vec![told.peer.to_string()];
    let other = Node::start(other.config()).await.unwrap();
    let why = in_time("refused", other.refused()).await;
    let ours = vec!["n1".to_owned(), "n2".to_owned()];
    assert_eq!(why, Refused::WrongFounders { told_by: "n1".to_owned(), ours });
    assert!(why.to_string().starts_with("wrong-founders: n1 "), "{why}");
    until("told", || count(&lives, "peer_refused") == 1).await;
    other.stop().await;
    lives.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_genesis_holds_otherwise_are_all_named_and_the_node_does_not_live() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = alone(directory.path());
    settled(&mut told).await.stop().await;

    (told.terms, told.partitions) = (short(), 32);
    let node = Node::start(told.config()).await.unwrap();
    let why = in_time("refused", node.refused()).await.to_string();
    assert_eq!(
        why,
        "bad-config: lease.ttl is 2s here and 3s in genesis; lease.renew is 250ms here and 500ms in genesis; \
         cluster.partitions is 32 here and 16 in genesis"
    );
    assert_eq!(node.unready(), Some(why));
    node.stop().await;
    assert!(!words(&node).contains(&"session_opened"), "{:?}", words(&node));
    drop(node);

    // What nobody said, the cluster says.
    told.given = Given::NOTHING;
    let node = settled(&mut told).await;
    assert_eq!(node.cluster_status().owned, 16);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_told_once_on_both_sides_and_mended_while_both_run() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut told = alone(first.path());
    let lives = settled(&mut told).await;

    let mut stranger = alone(second.path());
    stranger.name = "n2".to_owned();
    stranger.seeds = vec![told.peer.to_string()];
    stranger.secret = 8;
    let stranger = Node::start(stranger.config()).await.unwrap();
    let says = |node: &Arc<Node>, word: &str| node.unready().is_some_and(|text| text.contains(word));
    until("said", || says(&stranger, "wrong-secret")).await;
    assert!(says(&stranger, &told.peer.to_string()), "it names the peer: {:?}", stranger.unready());
    until("told", || count(&lives, "peer_refused") > 0).await;
    // Many attempts later it is still told once for each way in which the two met: a call, a datagram.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(count(&stranger, "peer_refused") <= 2 && count(&lives, "peer_refused") <= 2, "{:?}", stranger.events(0));

    stranger.set_secrets(secrets(9));
    in_time("ready", stranger.ready()).await;
    stranger.stop().await;
    lives.stop().await;
}

fn count(node: &Node, word: &str) -> usize {
    words(node).iter().filter(|found| **found == word).count()
}
