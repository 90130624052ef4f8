//! `ringfence dev`: a whole cluster in this process, on loopback and in memory, running the code that a real one runs.
//! Each node has a runtime of its own, so that killing one is as abrupt as it can be without a second process.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use node::config::{Advertise, Bounds, Config, Founding, Given, PeerSockets, Place};
use node::secret::{ClusterSecret, Secrets};
use node::{Node, StartError};
use ownership::lease::Terms;
use ring::PartitionCount;
use server::{Access, Door, Settings, Sockets};
use tokio::runtime::Runtime;

use crate::calls::Calls;
use crate::cli::Dev;
use crate::commands::cluster::status_of;
use crate::commands::policy::read_document;
use crate::commands::put;
use crate::exit::Exit;

/// Worker threads per node: enough to answer while something else computes.
const WORKERS_PER_NODE: usize = 2;

/// How long the first start may take before `dev` gives up.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Ports between one node's and the next one's.
const PORTS_APART: u16 = 10;

/// How often a port that is free for both TCP and UDP is looked for.
const PEER_PORT_TRIES: u32 = 16;

/// How long a killed node's threads may take to let go of its ports.
const DEATH_WITHIN: Duration = Duration::from_secs(1);

/// Nodes that the banner names.
const NODES_SHOWN: usize = 3;

/// Runs the cluster until it is interrupted.
pub fn run(dev: &Dev) -> anyhow::Result<Exit> {
    start_logging();
    let policies = policies_of(dev).map_err(|error| error.context(Exit::BadConfig))?;
    let Some(policies) = policies else { return Ok(Exit::BadConfig) };
    let mut cluster = Cluster::new(dev, policies).map_err(|error| error.context(Exit::BadConfig))?;
    // Every port is taken before any node starts: a port that is in use costs nothing but a message.
    let names = cluster.founders.clone();
    let sockets: anyhow::Result<Vec<_>> = names.into_iter().map(|name| Ok((cluster.bind(&name)?, name))).collect();
    for (sockets, name) in sockets.map_err(|error| error.context(Exit::BadConfig))? {
        cluster.start(&name, sockets)?;
    }
    cluster.wait_until_settled(START_TIMEOUT)?;
    put(&cluster.banner());
    cluster.obey(&commands());
    Ok(Exit::Ok)
}

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RINGFENCE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,openraft=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// The documents to found with; `None` when one of them is wrong, which has been said by then.
fn policies_of(dev: &Dev) -> anyhow::Result<Option<Vec<String>>> {
    if dev.policy.is_empty() {
        return Ok(Some(vec![policy::SAMPLE.to_owned()]));
    }
    let documents = dev.policy.iter().map(|file| Ok(read_document(file)?.map(|(text, _)| text)));
    documents.collect()
}

/// What an operator types.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Status,
    Kill(String),
    Start(String),
    Help,
    Unknown(String),
    Stop,
}

impl Command {
    fn parse(line: &str) -> Option<Command> {
        let mut words = line.split_whitespace();
        let command = match (words.next()?, words.next(), words.next()) {
            ("status", None, None) => Command::Status,
            ("kill", Some(name), None) => Command::Kill(name.to_owned()),
            ("start", Some(name), None) => Command::Start(name.to_owned()),
            ("help", None, None) => Command::Help,
            ("stop" | "quit" | "exit", None, None) => Command::Stop,
            _ => Command::Unknown(line.trim().to_owned()),
        };
        Some(command)
    }
}

/// Commands from stdin, and a stop when the process is asked to end. Without a terminal the end of the input is not a
/// stop: a cluster in the background has none.
fn commands() -> Receiver<Command> {
    let (commands, receiver) = channel();
    let signals = commands.clone();
    std::thread::spawn(move || stop_on_signal(&signals));
    std::thread::spawn(move || {
        let stdin = std::io::stdin();
        for line in stdin.lock().lines().map_while(Result::ok) {
            if let Some(command) = Command::parse(&line)
                && commands.send(command).is_err()
            {
                return;
            }
        }
        if stdin.is_terminal() {
            let _ = commands.send(Command::Stop);
        }
    });
    receiver
}

fn stop_on_signal(commands: &Sender<Command>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    let _ = commands.send(Command::Stop);
}

struct Cluster {
    founders: Vec<String>,
    /// Every node's ports; they stay the same when it comes back.
    ports: BTreeMap<String, Ports>,
    partitions: PartitionCount,
    policies: Vec<String>,
    secret: ClusterSecret,
    running: BTreeMap<String, Running>,
}

/// A node with the runtime it lives in; shutting the runtime down is its death.
struct Running {
    runtime: Runtime,
    node: Arc<Node>,
}

#[derive(Clone, Copy, Default)]
struct Ports {
    api: u16,
    peer: u16,
    admin: u16,
}

struct Bound {
    api: Door,
    admin: Door,
    peer: PeerSockets,
}

impl Cluster {
    fn new(dev: &Dev, policies: Vec<String>) -> anyhow::Result<Cluster> {
        let last = u32::from(dev.port) + u32::from(PORTS_APART) * u32::from(dev.nodes - 1) + 2;
        anyhow::ensure!(last <= u32::from(u16::MAX), "--port {} leaves no room for {} nodes", dev.port, dev.nodes);
        let founders: Vec<_> = (1..=dev.nodes).map(|number| format!("n{number}")).collect();
        let ports = |index: u16| match dev.port {
            0 => Ports::default(),
            first => {
                let api = first + PORTS_APART * index;
                Ports { api, peer: api + 1, admin: api + 2 }
            }
        };
        Ok(Cluster {
            ports: founders.iter().cloned().zip((0..).map(ports)).collect(),
            founders,
            partitions: PartitionCount::new(dev.partitions).context("--partitions is a power of two, 1 to 4096")?,
            policies,
            secret: ClusterSecret::new(&rand::random::<[u8; 32]>()).context("32 bytes are enough for a secret")?,
            running: BTreeMap::new(),
        })
    }

    /// Takes a node's ports; where the system was to choose, they are known from then on.
    fn bind(&mut self, name: &str) -> anyhow::Result<Bound> {
        let ports = *self.ports.get(name).with_context(|| format!("there is no node {name}"))?;
        let door = |port: u16, what: &str| {
            Door::bind((Ipv4Addr::LOCALHOST, port).into()).with_context(|| taken(name, what, port))
        };
        let (api, admin) = (door(ports.api, "API")?, door(ports.admin, "admin")?);
        let peer = bind_peer(ports.peer).with_context(|| taken(name, "peer", ports.peer))?;
        let chosen = Ports {
            api: api.local_addr()?.port(),
            peer: peer.tcp.local_addr()?.port(),
            admin: admin.local_addr()?.port(),
        };
        self.ports.insert(name.to_owned(), chosen);
        Ok(Bound { api, admin, peer })
    }

    fn start(&mut self, name: &str, bound: Bound) -> anyhow::Result<()> {
        let config = self.config(name, bound.peer)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS_PER_NODE)
            .thread_name(name)
            .enable_all()
            .build()?;
        let sockets = Sockets { api: bound.api, admin: bound.admin };
        let node = runtime.block_on(async {
            let node = Node::start(config).await?;
            tokio::spawn(serve(node.clone(), sockets));
            Ok::<_, StartError>(node)
        })?;
        self.running.insert(name.to_owned(), Running { runtime, node });
        Ok(())
    }

    fn config(&self, name: &str, peer: PeerSockets) -> anyhow::Result<Config> {
        let ports = self.ports.get(name).with_context(|| format!("there is no node {name}"))?;
        let advertise = Advertise { peer: address(ports.peer), api: address(ports.api), admin: address(ports.admin) };
        Ok(Config {
            name: name.to_owned(),
            data: Place::Memory,
            peer,
            advertise,
            seeds: self.ports.values().map(|ports| address(ports.peer)).collect(),
            secrets: Secrets::new(self.secret.clone()),
            founding: Founding {
                name: "dev".to_owned(),
                founders: self.founders.clone(),
                terms: Terms::DEFAULT,
                partitions: self.partitions,
                given: Given::ALL,
                policies: self.policies.clone(),
            },
            bounds: Bounds::default(),
        })
    }

    fn wait_until_settled(&self, timeout: Duration) -> anyhow::Result<()> {
        for (name, running) in &self.running {
            let settled =
                running.runtime.block_on(async { tokio::time::timeout(timeout, running.node.settled()).await });
            settled
                .with_context(|| format!("{name} was not ready within {timeout:?}; RINGFENCE_LOG=info tells more"))?;
        }
        Ok(())
    }

    fn banner(&self) -> String {
        let mut text = format!("ringfence {}: {} nodes, in memory\n\n", env!("CARGO_PKG_VERSION"), self.founders.len());
        let shown = || self.founders.iter().filter_map(|name| Some((name, self.ports.get(name)?)));
        for (name, ports) in shown().take(NODES_SHOWN) {
            text.push_str(&format!("  {name}  api {}  admin {}\n", address(ports.api), address(ports.admin)));
        }
        if self.founders.len() > NODES_SHOWN {
            text.push_str(&format!("  and {} more; `status` lists them\n", self.founders.len() - NODES_SHOWN));
        }
        let api = |at: usize| {
            shown().nth(at).or_else(|| shown().next()).map_or(String::new(), |(_, ports)| address(ports.api))
        };
        text.push_str(&format!(
            r#"
One call, and two to another node of which the second is denied:

  curl -s {first}/v1/check --json '{{"attributes":{{"client":"alice"}}}}'
  for i in 1 2; do curl -s {second}/v1/check --json '{{"attributes":{{"client":"bob"}},"cost":15}}'; done

Type status, kill n2, start n2, or stop.
"#,
            first = api(0),
            second = api(1),
        ));
        text
    }

    fn obey(&mut self, commands: &Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            match command {
                Command::Status => self.print_status(),
                Command::Kill(name) => self.kill(&name),
                Command::Start(name) => self.revive(&name),
                Command::Help => put("status, kill NODE, start NODE, stop\n"),
                Command::Unknown(line) => {
                    put(&format!("`{line}` is no command; there are status, kill NODE, start NODE, stop\n"));
                }
                Command::Stop => break,
            }
        }
        for (_, running) in std::mem::take(&mut self.running) {
            running.runtime.shutdown_background();
        }
    }

    fn print_status(&self) {
        let Some(ports) = self.running.keys().next().and_then(|name| self.ports.get(name)) else {
            put("no node is running\n");
            return;
        };
        match status_of(&Calls::to(&address(ports.admin))) {
            Ok(text) => put(&text),
            Err(error) => put(&format!("{error:#}\n")),
        }
    }

    fn kill(&mut self, name: &str) {
        match self.running.remove(name) {
            // Everything the node was doing stops where it is; nothing is sealed, released or said.
            Some(running) => {
                running.runtime.shutdown_timeout(DEATH_WITHIN);
                put(&format!("{name} is dead; `start {name}` brings it back as another node\n"));
            }
            None => put(&format!("{name} is not running\n")),
        }
    }

    fn revive(&mut self, name: &str) {
        if self.running.contains_key(name) {
            put(&format!("{name} is running\n"));
            return;
        }
        match self.bind(name).and_then(|bound| self.start(name, bound)) {
            Ok(()) => put(&format!("{name} is starting; it lives again once its old session has expired\n")),
            Err(error) => put(&format!("{error:#}\n")),
        }
    }
}

async fn serve(node: Arc<Node>, sockets: Sockets) {
    let settings = Settings { access: Access::open(), open_metrics: true };
    if let Err(error) = server::serve(node, sockets, settings).await {
        tracing::error!(%error, "a front door is closed");
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn taken(name: &str, what: &str, port: u16) -> String {
    format!("port-in-use: the {what} port {} of {name} cannot be taken; see --port", address(port))
}

/// One port number for TCP and UDP. Where the system chooses, what it gives to the one may be taken for the other: then
/// it chooses again.
fn bind_peer(port: u16) -> std::io::Result<PeerSockets> {
    let mut tries = if port == 0 { PEER_PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::bind(("127.0.0.1", port))?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok(PeerSockets { tcp, udp }),
            Err(_) if tries > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_word_by_word() {
        assert_eq!(Command::parse("  kill   n2 "), Some(Command::Kill("n2".to_owned())));
        assert_eq!(Command::parse("start n2"), Some(Command::Start("n2".to_owned())));
        assert_eq!(Command::parse("status"), Some(Command::Status));
        assert_eq!(Command::parse("kill"), Some(Command::Unknown("kill".to_owned())));
        assert_eq!(Command::parse("   "), None);
    }
}
