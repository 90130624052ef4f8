//! One machine of the cluster with the node that lives on it: what stays over a crash, and what a process does from its
//! start on. Everything but the sockets, clocks and chance under it is what the program runs.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use limits::Span;
use node::Node;
use node::config::{Advertise, Bounds, Config, Founding, Given, PeerSockets, Place};
use node::net::{BoundTcp, BoundUdp, TcpListener, UdpSocket};
use node::secret::{ClusterSecret, Secrets};
use node::simulated::Host;
use ownership::lease::Terms;
use ring::PartitionCount;
use ringfence_node as node;
use tokio::sync::watch;

use crate::asking::{self, Callers};
use crate::plan::NODES;
use crate::story::Story;

/// How many slices the key space has.
pub const PARTITIONS: u16 = 16;

/// The port for peers, on every machine.
const PORT: u16 = 7_946;

/// How often a node is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a look at a node saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// It answers checks, its lease runs, and it knows an owner for every partition.
    pub settled: bool,
    /// Partitions that it decides for.
    pub active: usize,
}

/// A machine. Clones are the same one.
#[derive(Clone)]
pub struct Machine {
    /// Its number.
    pub number: usize,
    /// Its clocks, chance and disk.
    pub host: Host,
    /// What was seen of its node last; nothing of one that is down.
    pub seen: Rc<Cell<Seen>>,
    directory: PathBuf,
    node: Rc<RefCell<Option<Arc<Node>>>>,
    callers: Callers,
    story: Story,
    /// When the first placement was.
    placed: watch::Receiver<Option<Duration>>,
}

/// A machine's name, which is its node's too.
pub fn name(number: usize) -> String {
    format!("n{}", number + 1)
}

/// The simulation's time, from within.
pub fn now() -> Duration {
    turmoil::sim_elapsed().expect("asked from within a host")
}

impl Machine {
    /// A machine with an empty disk.
    pub fn new(
        number: usize,
        host: Host,
        directory: PathBuf,
        callers: Callers,
        story: Story,
        placed: watch::Receiver<Option<Duration>>,
    ) -> Machine {
        Machine { number, host, seen: Rc::default(), directory, node: Rc::default(), callers, story, placed }
    }

    /// Its name.
    pub fn name(&self) -> String {
        name(self.number)
    }

    /// Lets go of the node's handle, since its process is being killed. To be dropped after that.
    #[must_use = "the files are open until it is dropped"]
    pub fn let_go(&self) -> Option<Arc<Node>> {
        self.seen.set(Seen::default());
        self.node.take()
    }

    /// A process's life on this machine.
    pub async fn live(self) -> turmoil::Result {
        self.host.enter();
        let node = Node::start(self.config().await?).await?;
        self.node.replace(Some(Arc::clone(&node)));
        tokio::task::spawn_local(self.clone().watch(Arc::clone(&node)));
        node.ready().await;
        let mut placed = self.placed.clone();
        let placed = placed.wait_for(Option::is_some).await?.expect("waited for");
        asking::open_door(node, self.number, &self.callers, placed).await;
        std::future::pending().await
    }

    /// Tells what the node tells, and how it stands.
    async fn watch(self, node: Arc<Node>) {
        let mut told = 0;
        loop {
            for seen in node.events(told) {
                told = seen.seq;
                self.story.tell(now(), format_args!("{}: {:?}", self.name(), seen.event));
            }
            let status = node.cluster_status();
            let settled = node.unready().is_none()
                && status.owned == usize::from(PARTITIONS)
                && status.vacant == 0
                && node.lease_remaining() > Span::ZERO;
            self.seen.set(Seen { settled, active: node.holdings().active });
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn config(&self) -> turmoil::Result<Config> {
        let here = ("0.0.0.0", PORT);
        let tcp = BoundTcp(TcpListener::bind(here).await?);
        let udp = BoundUdp(UdpSocket::bind(here).await?);
        let names: Vec<_> = (0..NODES).map(name).collect();
        Ok(Config {
            name: self.name(),
            data: Place::Directory(self.directory.clone()),
            peer: PeerSockets { tcp, udp },
            advertise: Advertise {
                peer: format!("{}:{PORT}", self.name()),
                api: "127.0.0.1:1".to_owned(),
                admin: "127.0.0.1:2".to_owned(),
            },
            seeds: names.iter().map(|name| format!("{name}:{PORT}")).collect(),
            secrets: Secrets::new(ClusterSecret::new(&[7; 32])?),
            founding: Founding {
                name: "shells".to_owned(),
                founders: names,
                terms: Terms::DEFAULT,
                partitions: PartitionCount::new(PARTITIONS).expect("in bounds"),
                given: Given::ALL,
                policies: vec![asking::POLICY.to_owned()],
            },
            bounds: Bounds::default(),
            store: None,
        })
    }
}
