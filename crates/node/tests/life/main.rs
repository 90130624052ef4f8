//! A whole node over its lives: founded, stopped, started again from its directory, and started beside one that still has
//! its name.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use limits::Span;
use node::config::{Advertise, Bounds, Config, Founding, Given, PeerSockets, Place};
use node::secret::{ClusterSecret, Secrets};
use node::{AskedId, Decision, Node, Question, Reason};
use ownership::lease::Terms;
use policy::Attributes;
use ring::PartitionCount;
use ringfence_node as node;

/// How long anything may take that a node does by itself, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);

const POLICY: &str = "
ringfence: 1
domain: default
limits:
  login: { rate: 2/h, algorithm: sliding-log, key: [client], fail: closed }
  views: { rate: 2/h, algorithm: sliding-log, key: [client], fail: open }
rules:
  - { name: closed, match: { kind: closed }, limits: [login] }
  - { name: open, match: { kind: open }, limits: [views] }
";

/// A cluster of one, which lives in `directory`.
fn config(directory: &Path) -> Config {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(peer).unwrap();
    Config {
        name: "n1".to_owned(),
        data: Place::Directory(directory.to_owned()),
        peer: PeerSockets { tcp, udp },
        advertise: Advertise { peer: peer.to_string(), api: "127.0.0.1:1".to_owned(), admin: "127.0.0.1:2".to_owned() },
        seeds: Vec::new(),
        secrets: Secrets::new(ClusterSecret::new(&[9; 32]).unwrap()),
        founding: Founding {
            name: "life".to_owned(),
            founders: vec!["n1".to_owned()],
            terms: Terms::DEFAULT,
            partitions: PartitionCount::new(16).unwrap(),
            given: Given::ALL,
            policies: vec![POLICY.to_owned()],
        },
        bounds: Bounds::default(),
    }
}

async fn start(directory: &Path) -> Arc<Node> {
    let node = Node::start(config(directory)).await.unwrap();
    tokio::time::timeout(PATIENCE, node.settled()).await.unwrap();
    node
}

async fn ask(node: &Node, kind: &str, client: &str) -> Decision {
    let question = Question {
        domain: "default",
        attributes: Attributes::new([("kind", kind), ("client", client)]).unwrap(),
        cost: 1,
        id: AskedId::Made,
        budget: Span::from_secs(1),
    };
    node.check(&[question]).await.decisions.remove(0).0.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_is_the_same_node_under_a_new_session_and_forgives_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(directory.path()).await;
    assert!(ask(&first, "closed", "ann").await.allowed);
    let before = first.cluster_status();
    first.stop().await;
    drop(first);

    let second = start(directory.path()).await;
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
    let first = start(directory.path()).await;
    let error = Node::start(config(directory.path())).await.unwrap_err().to_string();
    assert!(error.contains(directory.path().to_str().unwrap()), "{error}");
    first.stop().await;
}
