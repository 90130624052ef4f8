//! Lives of one node: stopped and started again from its directory, alone and among others.

use ringfence_node::{Node, NotPut, Reason, Source};

use crate::nodes::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_is_the_same_node_under_a_new_session_and_forgives_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = settled(&mut alone(directory.path())).await;
    assert!(ask(&first, "closed", "ann").await.allowed);
    let before = first.cluster_status();
    first.stop().await;
    drop(first);

    let second = settled(&mut alone(directory.path())).await;
    let after = second.cluster_status();
    assert_eq!((&after.uuid, after.nodes[0].id), (&before.uuid, before.nodes[0].id), "the same cluster and node");
    assert_ne!(after.nodes[0].session, before.nodes[0].session, "a restart is another session");
    assert_eq!(second.policy("default").unwrap().revision, 1, "the initial policy is applied once");

    // What ann and bob used before is not known any more: closed limits wait, open ones do not.
    for client in ["ann", "bob"] {
        let closed = ask(&second, "closed", client).await;
        assert_eq!((closed.allowed, closed.reason), (false, Reason::Recovering), "{client}");
        assert_eq!(closed.legs[0].epoch.unwrap().0, 2, "it took over from itself");
        assert!(ask(&second, "open", client).await.allowed, "{client}");
    }
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_in_use_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let first = settled(&mut alone(directory.path())).await;
    let error = Node::start(alone(directory.path()).config()).await.unwrap_err().to_string();
    assert!(error.contains(directory.path().to_str().unwrap()), "{error}");
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_without_the_others_answers_by_failure_mode() {
    let directory = tempfile::tempdir().unwrap();
    let (mut told, nodes) = three(directory.path()).await;
    for node in &nodes {
        node.stop().await;
    }
    drop(nodes);

    let lonely = Node::start(told[1].config()).await.unwrap();
    in_time("ready", lonely.ready()).await;
    let closed = ask(&lonely, "closed", "ann").await;
    assert_eq!((closed.allowed, closed.reason), (false, Reason::Unavailable));
    assert_eq!(closed.legs[0].source, Source::Closed);
    let open = ask(&lonely, "open", "ann").await;
    assert_eq!((open.allowed, open.legs[0].source), (true, Source::Open));
    assert_eq!(lonely.holdings().active, 0, "it decides nothing");
    assert!(!words(&lonely).contains(&"cluster_founded"), "what the journal held is not told again");
    lonely.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_disk_never_claims_that_there_is_no_policy() {
    let directory = tempfile::tempdir().unwrap();
    let (mut told, nodes) = three(directory.path()).await;
    for node in &nodes {
        node.stop().await;
    }
    drop(nodes);
    std::fs::remove_dir_all(&told[2].directory).unwrap();

    let wiped = Node::start(told[2].config()).await.unwrap();
    // It has no policies and cannot know them: it says that it is not ready, so that nobody listens for checks.
    assert_eq!(wiped.unready().as_deref(), Some("this node belongs to no cluster yet"));
    assert_eq!(try_ask(&wiped, "closed", "ann").await, Err(NotPut::UnknownDomain));
    let ready = tokio::time::timeout(std::time::Duration::from_secs(1), wiped.ready()).await;
    assert!(ready.is_err(), "nobody can have told it");
    wiped.stop().await;
}
