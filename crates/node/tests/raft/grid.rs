//! A grid of nodes on real loopback sockets. Peers are known by name and found through a registry, so a node may come
//! back on another port; every connection passes a switch, so a node can be cut off and healed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use ring::NodeId;
use ringfence_node::raft::{
    Dial, Door, Journal, Machine, Peer, Proposed, RaftNode, RestoreError, Settings, Setup, Standing, StartError,
};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Endpoint, Server};

/// No test waits longer for anything: the machine may be busy, but never that busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Slower than the defaults, so that a busy machine elects nobody by accident.
pub fn settings() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(200),
        election: Duration::from_millis(800)..Duration::from_millis(1_600),
        ..Settings::default()
    }
}

/// Who is where, and who is cut off.
#[derive(Clone, Default)]
pub struct Grid {
    places: Arc<Mutex<BTreeMap<String, Place>>>,
}

struct Place {
    port: u16,
    cut: watch::Sender<bool>,
}

/// One node, its machine's lines, and where they are kept.
pub struct TestNode {
    pub name: String,
    pub raft: RaftNode,
    pub lines: Lines,
    pub dir: TempDir,
    grid: Grid,
    server: JoinHandle<()>,
}

impl Grid {
    pub async fn node(&self, name: &str) -> TestNode {
        self.node_with(name, settings()).await
    }

    pub async fn node_with(&self, name: &str, settings: Settings) -> TestNode {
        self.node_in(name, tempfile::tempdir().unwrap(), settings).await.unwrap()
    }

    /// A node over what is in `dir` already.
    pub async fn node_in(&self, name: &str, dir: TempDir, settings: Settings) -> Result<TestNode, StartError> {
        let door = Door::new();
        let server = self.serve(name, &door).await;
        let lines = Lines::default();
        let setup = Setup {
            settings,
            journal: Journal::open(dir.path()).unwrap(),
            machine: Box::new(lines.clone()),
            dial: self.dial(name),
            door,
        };
        let raft = RaftNode::start(setup).await?;
        Ok(TestNode { name: name.to_owned(), raft, lines, dir, grid: self.clone(), server })
    }

    /// Opens `name`'s peer port, and makes it reachable there.
    pub async fn serve(&self, name: &str, door: &Door) -> JoinHandle<()> {
        self.serve_router(name, Server::builder().add_service(door.service())).await
    }

    /// The same with anything else behind it.
    pub async fn serve_router(&self, name: &str, router: Router) -> JoinHandle<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        self.places.lock().insert(address(name), Place { port, cut: watch::channel(false).0 });
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(async move { router.serve_with_incoming(incoming).await.unwrap() })
    }

    pub fn cut(&self, name: &str) {
        self.switch(name, true);
    }

    pub fn heal(&self, name: &str) {
        self.switch(name, false);
    }

    fn switch(&self, name: &str, cut: bool) {
        self.places.lock()[&address(name)].cut.send_replace(cut);
    }

    pub fn dial(&self, from: &str) -> Dial {
        let (grid, from) = (self.clone(), address(from));
        Arc::new(move |peer: &Peer| {
            let (grid, from, to) = (grid.clone(), from.clone(), peer.address.clone());
            let connect = tower::service_fn(move |_| {
                let (grid, from, to) = (grid.clone(), from.clone(), to.clone());
                async move { grid.connect(&from, &to).await.map(TokioIo::new) }
            });
            let endpoint = Endpoint::from_shared(format!("http://{}", peer.address))?;
            Ok(endpoint.connect_timeout(Duration::from_secs(5)).connect_with_connector_lazy(connect))
        })
    }

    async fn connect(&self, from: &str, to: &str) -> io::Result<tokio::io::DuplexStream> {
        let (port, mut cut_here, mut cut_there) = {
            let places = self.places.lock();
            let (here, there) = (places.get(from), places.get(to).ok_or(io::ErrorKind::HostUnreachable)?);
            let here = here.ok_or(io::ErrorKind::NetworkDown)?;
            (there.port, here.cut.subscribe(), there.cut.subscribe())
        };
        if *cut_here.borrow() || *cut_there.borrow() {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut far, &mut socket) => {}
                _ = cut_here.wait_for(|cut| *cut) => {}
                _ = cut_there.wait_for(|cut| *cut) => {}
            }
        });
        Ok(near)
    }
}

impl TestNode {
    pub fn peer(&self) -> Peer {
        peer(&self.name, self.raft.id())
    }

    pub fn id(&self) -> NodeId {
        self.raft.id()
    }

    pub fn standing(&self) -> Standing {
        self.raft.watch().borrow().clone()
    }

    /// Waits until this node stands as `wanted`.
    pub async fn reaches(&self, what: &str, wanted: impl Fn(&Standing) -> bool) -> Standing {
        let mut watch = self.raft.watch();
        let reached = tokio::time::timeout(PATIENCE, watch.wait_for(|standing| wanted(standing))).await;
        match reached {
            Ok(standing) => standing.unwrap().clone(),
            Err(_) => panic!("{}: {what} is never reached: {:#?}", self.name, self.standing()),
        }
    }

    pub async fn applies(&self, index: u64) {
        self.reaches(&format!("entry {index}"), |standing| standing.last_applied >= Some(index)).await;
    }

    pub async fn propose(&self, line: &str) -> Proposed {
        self.raft.propose(Bytes::copy_from_slice(line.as_bytes())).await.unwrap()
    }

    /// Gone from the grid and from memory; what it had on disk is left.
    pub async fn kill(self) -> TempDir {
        self.grid.cut(&self.name);
        self.server.abort();
        self.raft.shutdown().await;
        self.dir
    }
}

/// Three voters, the first of them leading, over these settings.
pub async fn trio(grid: &Grid, settings: Settings) -> [TestNode; 3] {
    let nodes = [
        grid.node_with("n1", settings.clone()).await,
        grid.node_with("n2", settings.clone()).await,
        grid.node_with("n3", settings).await,
    ];
    found(&nodes[0]).await;
    for node in &nodes[1..] {
        nodes[0].raft.add_learner(&node.peer()).await.unwrap();
    }
    nodes[0].raft.change_voters(nodes.iter().map(TestNode::id).collect()).await.unwrap();
    nodes
}

pub async fn found(node: &TestNode) {
    let peer = node.peer();
    node.raft.bootstrap(&peer.address, &peer.name).await.unwrap();
}

/// The one of `nodes` that leads in a term after `term`, once all of them follow it.
pub async fn next_leader<'a>(nodes: &[&'a TestNode], term: u64) -> &'a TestNode {
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id()).collect();
    let mut watch = nodes[0].raft.leader_watch();
    let wanted = watch.wait_for(|now| now.term > term && now.leader.is_some_and(|leader| ids.contains(&leader)));
    let found = tokio::time::timeout(PATIENCE, wanted).await.expect("a leader in time").unwrap().leader;
    let leader = nodes.iter().find(|node| Some(node.id()) == found).unwrap();
    leader.reaches("leadership", Standing::is_leader).await;
    leader
}

pub fn peer(name: &str, id: NodeId) -> Peer {
    Peer { id, address: address(name), name: name.to_owned() }
}

/// What the files in `dir` look like to whoever finds them after a kill at this moment.
pub fn left_behind(dir: &Path) -> TempDir {
    let left = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
    }
    left
}

fn address(name: &str) -> String {
    format!("{name}.test:7601")
}

/// A machine that keeps what it is told, and answers with how much that is. `panic` makes it panic.
#[derive(Clone, Default)]
pub struct Lines {
    kept: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Lines {
    pub fn all(&self) -> Vec<(u64, String)> {
        self.kept.lock().clone()
    }

    pub fn texts(&self) -> Vec<String> {
        self.kept.lock().iter().map(|(_, line)| line.clone()).collect()
    }
}

impl Machine for Lines {
    fn apply(&mut self, index: u64, payload: &[u8]) -> Bytes {
        let line = String::from_utf8(payload.to_vec()).unwrap();
        assert_ne!(line, "panic");
        let mut kept = self.kept.lock();
        kept.push((index, line));
        Bytes::from(kept.len().to_string())
    }

    fn snapshot(&self) -> Bytes {
        let mut out = Vec::new();
        for (index, line) in self.kept.lock().iter() {
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(&(line.len() as u64).to_be_bytes());
            out.extend_from_slice(line.as_bytes());
        }
        Bytes::from(out)
    }

    fn restore(&mut self, mut snapshot: &[u8]) -> Result<(), RestoreError> {
        let mut kept = Vec::new();
        while !snapshot.is_empty() {
            let index = number(&mut snapshot)?;
            let len = usize::try_from(number(&mut snapshot)?).unwrap();
            let (line, rest) = snapshot.split_at_checked(len).ok_or_else(short)?;
            kept.push((index, String::from_utf8(line.to_vec()).unwrap()));
            snapshot = rest;
        }
        *self.kept.lock() = kept;
        Ok(())
    }
}

fn number(bytes: &mut &[u8]) -> Result<u64, RestoreError> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    *bytes = rest;
    Ok(u64::from_be_bytes(*number))
}

fn short() -> RestoreError {
    RestoreError("cut short".to_owned())
}
