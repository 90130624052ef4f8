//! Nodes to start and stop: where each lives, what it is told, and what to ask it.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use limits::Span;
use ownership::lease::Terms;
use policy::Attributes;
use ring::PartitionCount;
use ringfence_node as node;

use node::config::{Advertise, Bounds, Config, Founding, Given, PeerSockets, Place};
use node::secret::{ClusterSecret, Secrets};
use node::{AskedId, Decision, Node, NotPut, Question, Wanted};

/// How long anything may take that a node does by itself, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const POLICY: &str = "
ringfence: 1
domain: default
limits:
  login: { rate: 2/h, algorithm: sliding-log, key: [client], fail: closed }
  views: { rate: 2/h, algorithm: sliding-log, key: [client], fail: open }
rules:
  - { name: closed, match: { kind: closed }, limits: [login] }
  - { name: open, match: { kind: open }, limits: [views] }
";

/// What a node is told; tests change it between two starts.
#[derive(Clone, Debug)]
pub struct Told {
    pub name: String,
    pub directory: PathBuf,
    /// Where it is reached: 0 until its first start.
    pub peer: SocketAddr,
    pub seeds: Vec<String>,
    pub founders: Vec<String>,
    pub secret: u8,
    pub terms: Terms,
    pub partitions: u16,
    pub given: Given,
    pub keys_max: u64,
}

impl Told {
    /// What a start needs, with its port taken; the port stays the node's.
    pub fn config(&mut self) -> Config {
        let peer = bind(self.peer);
        self.peer = peer.tcp.local_addr().unwrap();
        Config {
            name: self.name.clone(),
            data: Place::Directory(self.directory.clone()),
            peer,
            advertise: Advertise {
                peer: self.peer.to_string(),
                api: "127.0.0.1:1".to_owned(),
                admin: "127.0.0.1:2".to_owned(),
            },
            seeds: self.seeds.clone(),
            secrets: secrets(self.secret),
            founding: Founding {
                name: "life".to_owned(),
                founders: self.founders.clone(),
                terms: self.terms,
                partitions: PartitionCount::new(self.partitions).unwrap(),
                given: self.given,
                policies: vec![POLICY.to_owned()],
            },
            bounds: Bounds { keys_max: self.keys_max, ..Bounds::default() },
            store: None,
        }
    }
}

pub fn secrets(byte: u8) -> Secrets {
    Secrets::new(ClusterSecret::new(&[byte; 32]).unwrap())
}

/// A port that a stopped node has just let go of may be held a moment longer.
fn bind(address: SocketAddr) -> PeerSockets {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let tcp = TcpListener::bind(address);
        let both = tcp.and_then(|tcp| Ok(PeerSockets { udp: UdpSocket::bind(tcp.local_addr()?)?, tcp }));
        match both {
            Ok(sockets) => return sockets,
            Err(error) if std::time::Instant::now() > until => panic!("{address}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// A cluster of one, which lives in `directory`.
pub fn alone(directory: &Path) -> Told {
    Told {
        name: "n1".to_owned(),
        directory: directory.to_owned(),
        peer: SocketAddr::from(([127, 0, 0, 1], 0)),
        seeds: Vec::new(),
        founders: vec!["n1".to_owned()],
        secret: 9,
        terms: Terms::DEFAULT,
        partitions: 16,
        given: Given::ALL,
        keys_max: Bounds::default().keys_max,
    }
}

/// Starts a node and waits until it can decide.
pub async fn settled(told: &mut Told) -> Arc<Node> {
    let node = Node::start(told.config()).await.unwrap();
    in_time("settled", node.settled()).await;
    node
}

/// Three nodes that found a cluster together, each in a directory of its own below `directory`.
pub async fn three(directory: &Path) -> (Vec<Told>, Vec<Arc<Node>>) {
    let names: Vec<_> = (1..=3).map(|number| format!("n{number}")).collect();
    let mut told: Vec<_> = names
        .iter()
        .map(|name| Told {
            name: name.clone(),
            directory: directory.join(name),
            founders: names.clone(),
            ..alone(directory)
        })
        .collect();
    // Every port is taken before any seed is named.
    let mut configs: Vec<_> = told.iter_mut().map(Told::config).collect();
    let seeds: Vec<_> = told.iter().map(|told| told.peer.to_string()).collect();
    for (told, config) in told.iter_mut().zip(&mut configs) {
        told.seeds.clone_from(&seeds);
        config.seeds.clone_from(&seeds);
    }
    let mut nodes = Vec::new();
    for config in configs {
        nodes.push(Node::start(config).await.unwrap());
    }
    for node in &nodes {
        in_time("settled", node.settled()).await;
    }
    (told, nodes)
}

/// What comes of `what`, which must come in time.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Waits until `holds`, looking often.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    in_time(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub async fn ask(node: &Node, kind: &str, client: &str) -> Decision {
    try_ask(node, kind, client).await.unwrap()
}

pub async fn try_ask(node: &Node, kind: &str, client: &str) -> Result<Decision, NotPut> {
    let question = Question {
        domain: "default",
        attributes: Attributes::new([("kind", kind), ("client", client)]).unwrap(),
        wanted: Wanted::Spend,
        cost: 1,
        brought: &[],
        limit: None,
        id: AskedId::Made,
        budget: Span::from_secs(1),
    };
    node.check(&[question]).await.decisions.remove(0).0
}

/// The words of everything that a node saw.
pub fn words(node: &Node) -> Vec<&'static str> {
    node.events(0).iter().map(|seen| seen.event.word()).collect()
}
