//! The task that owns the socket: it carries datagrams, names and time between the world and the core, and decides nothing.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use limits::Moment;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::core::{Core, Settings, Transmit};
use super::counters::Counters;
use super::frame::DATAGRAM_MAX;
use super::identity::{AddressError, Identity};
use super::view::{Event, View};
use crate::clock;
use crate::cluster::{ClusterId, ClusterUuid};
use crate::net::{UdpSocket, lookup_host};
use crate::secret::Secrets;

/// How many events are kept for a reader that falls behind; then it misses the oldest.
pub const EVENTS_KEPT: usize = 256;

/// How many datagrams are read before timers get their turn.
const READ_BATCH: usize = 64;

/// How long a socket that reports an error on reading is left alone.
const READ_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// What gossip is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node, with the addresses that the others reach it at.
    pub identity: Identity,
    /// The cluster, as far as it is known already.
    pub cluster: ClusterId,
    /// The secrets in force.
    pub secrets: Secrets,
    /// How fast.
    pub settings: Settings,
    /// `host:port` of nodes to greet; this node's own may be among them. Resolved anew for each greeting: a name that
    /// does not resolve yet is no error.
    pub seeds: Vec<String>,
    /// What feeds every random choice.
    pub seed: u64,
}

/// Gossip while it runs. Dropping the handle ends it without a word, as a crash would.
#[derive(Debug)]
pub struct GossipHandle {
    members: watch::Receiver<View>,
    events: broadcast::Sender<Event>,
    said: watch::Sender<Said>,
    leave: mpsc::Sender<oneshot::Sender<()>>,
    counters: Arc<Counters>,
    task: JoinHandle<()>,
}

impl GossipHandle {
    /// The view, now and whenever it changes.
    pub fn members(&self) -> watch::Receiver<View> {
        self.members.clone()
    }

    /// What changes from now on. A reader that is [`EVENTS_KEPT`] behind misses the oldest: the view is what counts.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// This node belongs to `uuid` from now on: every datagram says so, and nodes of another uuid are refused.
    pub fn set_uuid(&self, uuid: ClusterUuid) {
        self.said.send_modify(|said| said.uuid = Some(uuid));
    }

    /// This node has applied this map: every datagram says so.
    pub fn set_map_version(&self, version: u64) {
        self.said.send_modify(|said| said.map_version = version);
    }

    /// These secrets are in force from now on.
    pub fn set_secrets(&self, secrets: Secrets) {
        self.said.send_modify(|said| said.secrets = secrets);
    }

    /// The totals.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Says goodbye and ends. The others take this node to be down at once, without waiting for it. Everything else on the
    /// handle does nothing from then on.
    pub async fn leave(&self) {
        let (done, gone) = oneshot::channel();
        if self.leave.send(done).await.is_ok() {
            // Either way the task is over afterwards.
            let _ = gone.await;
        }
    }
}

impl GossipHandle {
    /// Ends at once and without a word, as a crash would.
    pub fn end(&self) {
        self.task.abort();
    }
}

impl Drop for GossipHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts gossip on `socket`, inside the current tokio runtime. The receiver misses no event from the start on.
///
/// # Errors
///
/// [`AddressError`] if the identity advertises what nobody could answer to; nothing was started.
pub fn start(socket: UdpSocket, config: Config) -> Result<(GossipHandle, broadcast::Receiver<Event>), AddressError> {
    let Config { identity, cluster, secrets, settings, seeds, seed } = config;
    let said = Said { uuid: cluster.uuid, map_version: 0, secrets: secrets.clone() };
    let core = Core::new(identity, cluster, secrets, settings, seed, clock::now())?;
    let counters = core.counters().clone();
    let (view, members) = watch::channel(core.view().clone());
    let (events, first) = broadcast::channel(EVENTS_KEPT);
    let (said, heard) = watch::channel(said);
    let (leave, leaving) = mpsc::channel(1);
    let task = Task { socket, core, seeds: Seeds::new(seeds), view, events: events.clone(), said: heard, leaving };
    let task = tokio::spawn(task.run());
    Ok((GossipHandle { members, events, said, leave, counters, task }, first))
}

/// What the rest of the node wants said in every datagram.
#[derive(Debug)]
struct Said {
    uuid: Option<ClusterUuid>,
    map_version: u64,
    secrets: Secrets,
}

struct Task {
    socket: UdpSocket,
    core: Core,
    seeds: Seeds,
    view: watch::Sender<View>,
    events: broadcast::Sender<Event>,
    said: watch::Receiver<Said>,
    leaving: mpsc::Receiver<oneshot::Sender<()>>,
}

impl Task {
    /// Datagrams are read before time is told: after a stall the answers that lie in the socket must count.
    async fn run(mut self) {
        while let Some(due) = self.core.poll_timeout() {
            let now = clock::now();
            if due <= now {
                self.core.handle_timeout(now);
            }
            self.drain();
            let pause = self.until_due();
            tokio::select! {
                biased;
                order = self.leaving.recv() => self.take_leave(order),
                Ok(()) = self.said.changed() => self.listen(),
                ready = self.socket.readable() => self.read(ready).await,
                Some(addresses) = self.seeds.found() => self.core.handle_seeds(addresses, clock::now()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn until_due(&self) -> std::time::Duration {
        let due = self.core.poll_timeout().unwrap_or(Moment::ZERO);
        due.since(clock::now()).into()
    }

    fn take_leave(&mut self, order: Option<oneshot::Sender<()>>) {
        // Without a handle nobody can want anything of this node's gossip any more.
        self.core.handle_leave(clock::now());
        self.drain();
        // Whoever asked may have stopped waiting.
        let _ = order.map(|done| done.send(()));
    }

    fn listen(&mut self) {
        let said = self.said.borrow_and_update();
        if let Some(uuid) = said.uuid {
            self.core.set_uuid(uuid);
        }
        self.core.set_map_version(said.map_version);
        self.core.set_secrets(said.secrets.clone());
    }

    async fn read(&mut self, ready: io::Result<()>) {
        let outcome = ready.and_then(|()| self.read_batch());
        if let Err(error) = outcome {
            tracing::debug!(%error, "gossip socket");
            tokio::time::sleep(READ_PAUSE).await;
        }
    }

    fn read_batch(&mut self) -> io::Result<()> {
        // One byte more than may come: what fills it is too long, and the core says so.
        let mut buffer = [0; DATAGRAM_MAX + 1];
        for _ in 0..READ_BATCH {
            match self.socket.try_recv_from(&mut buffer) {
                Ok((length, from)) => self.core.handle_datagram(&buffer[..length], from, clock::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.core.poll_transmit() {
            self.send(&transmit);
        }
        while let Some(event) = self.core.poll_event() {
            // Nobody has to listen.
            let _ = self.events.send(event);
        }
        if let Some(view) = self.core.poll_view() {
            self.view.send_replace(view);
        }
        if self.core.poll_resolve() {
            self.seeds.look_up();
        }
    }

    /// A full socket buffer or an unreachable address loses the datagram, as the network might: gossip repeats itself.
    fn send(&self, transmit: &Transmit) {
        if let Err(error) = self.socket.try_send_to(&transmit.bytes, transmit.to) {
            self.core.counters().count_unsent();
            tracing::debug!(%error, to = %transmit.to, "gossip datagram lost");
        }
    }
}

/// The seeds, and the look-ups that are under way: one at most for each, however long the resolver takes.
struct Seeds {
    names: Vec<String>,
    busy: BTreeSet<usize>,
    lookups: JoinSet<(usize, Vec<SocketAddr>)>,
}

impl Seeds {
    fn new(names: Vec<String>) -> Seeds {
        Seeds { names, busy: BTreeSet::new(), lookups: JoinSet::new() }
    }

    fn look_up(&mut self) {
        for (at, name) in self.names.iter().enumerate() {
            if self.busy.insert(at) {
                let name = name.clone();
                self.lookups.spawn(async move { (at, addresses_of(&name).await) });
            }
        }
    }

    /// The addresses of the next seed that was looked up; `None` while no look-up is under way.
    async fn found(&mut self) -> Option<Vec<SocketAddr>> {
        let (at, addresses) = self.lookups.join_next().await?.expect("a look-up neither panics nor is it aborted");
        self.busy.remove(&at);
        Some(addresses)
    }
}

async fn addresses_of(name: &str) -> Vec<SocketAddr> {
    match lookup_host(name).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            tracing::debug!(seed = name, %error, "a seed does not resolve yet");
            Vec::new()
        }
    }
}
