//! How long leases last, changed while the cluster lives: on all nodes, on the safe side first, and without taking anything
//! from anybody.

use limits::Span;
use ownership::lease::Terms;
use ringfence_node::{Node, NotProposed, Refused};

use crate::nodes::*;

fn lease(node: &Node) -> (Span, Span) {
    let lease = node.cluster_status().lease.unwrap();
    (lease.ttl, lease.waited)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_that_is_set_holds_on_every_node_and_a_shorter_one_is_settled_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (_, nodes) = three(directory.path()).await;
    let secs = Span::from_secs;
    let everywhere = |ttl, waited| nodes.iter().all(|node| lease(node) == (secs(ttl), secs(waited)));
    assert!(everywhere(3, 3));

    assert!(matches!(nodes[1].set_ttl(secs(1)).await, Err(NotProposed::Refused(_))), "no lease outlives a failover");
    nodes[0].set_ttl(secs(4)).await.unwrap();
    until("longer everywhere", || everywhere(4, 4)).await;
    let longer = |node: &std::sync::Arc<Node>| node.lease_remaining() > Span::from_millis(3_100);
    until("granted", || nodes.iter().all(longer)).await;

    nodes[1].set_ttl(secs(2)).await.unwrap();
    until("shorter everywhere", || nodes.iter().all(|node| lease(node).0 == secs(2))).await;
    assert!(nodes.iter().all(|node| lease(node).1 == secs(4)), "leaders wait for whoever holds a longer one");
    until("settled", || everywhere(2, 2)).await;
    for node in &nodes {
        let told = words(node).into_iter().filter(|word| word.starts_with("lease_")).collect::<Vec<_>>();
        assert_eq!(told, ["lease_changed", "lease_changed", "lease_settled"], "and nobody's lease ran out");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_may_say_what_the_cluster_was_founded_with_or_goes_by_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = alone(directory.path());
    let node = settled(&mut told).await;
    node.set_ttl(Span::from_secs(2)).await.unwrap();
    until("settled", || lease(&node) == (Span::from_secs(2), Span::from_secs(2))).await;
    node.stop().await;
    drop(node);
    let with = |secs| Terms::new(Span::from_secs(secs), told.terms.renew(), told.terms.d_max(), 10).unwrap();
    let (now, other) = (with(2), with(5));
    for terms in [told.terms, now] {
        let again = settled(&mut Told { terms, ..told.clone() }).await;
        assert_eq!(lease(&again).0, Span::from_secs(2), "the log has the last word");
        again.stop().await;
    }
    let wrong = Node::start(Told { terms: other, ..told.clone() }.config()).await.unwrap();
    let why = in_time("refused", wrong.refused()).await;
    let Refused::BadConfig(differences) = &why else { panic!("{why}") };
    let difference = &differences[0];
    assert_eq!((difference.setting, &*difference.here, &*difference.genesis), ("lease.ttl", "5s", "2s"));
    wrong.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_when_the_ttl_was_set_is_judged_by_the_one_that_holds_now() {
    let directory = tempfile::tempdir().unwrap();
    let (mut told, mut nodes) = three(directory.path()).await;
    let secs = Span::from_secs;
    nodes[0].set_ttl(secs(4)).await.unwrap();
    until("longer everywhere", || nodes.iter().all(|node| lease(node).0 == secs(4))).await;
    let (gone, mut gone_told) = (nodes.remove(2), told.remove(2));
    gone.stop().await;
    drop(gone);
    // What it finds in its own log is one ttl after the cluster's first and one before its last.
    nodes[0].set_ttl(secs(2)).await.unwrap();
    let terms = gone_told.terms;
    let mut with = |ttl| {
        gone_told.terms = Terms::new(secs(ttl), terms.renew(), terms.d_max(), terms.rho_per_mille()).unwrap();
        gone_told.config()
    };

    let back = Node::start(with(4)).await.unwrap();
    let why = in_time("refused", back.refused()).await;
    assert_eq!(why.to_string(), "bad-config: lease.ttl is 4s here and 2s in genesis");
    assert!(!words(&back).contains(&"session_opened"), "{:?}", words(&back));
    back.stop().await;
    drop(back);

    let back = Node::start(with(2)).await.unwrap();
    in_time("settled", back.settled()).await;
    assert_eq!(lease(&back).0, secs(2));
    for node in nodes.iter().chain([&back]) {
        node.stop().await;
    }
}
