//! `ringfence dev`: a whole cluster in this process, on loopback and in memory, running the code that a real one runs.
//! Each node has a runtime of its own, so that killing one is as abrupt as it can be without a second process.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use node::config::{Bounds, Config, Founding, Given, PeerSockets, Place};
use node::secret::{ClusterSecret, Secrets};
use ownership::lease::Terms;
use ring::PartitionCount;
use server::{Access, Proxies, Settings};
use store::StoreConfig;

use crate::calls::Calls;
use crate::cli::Dev;
use crate::commands::cluster::status_of;
use crate::commands::policy::read_document;
use crate::commands::put;
use crate::exit::{Exit, bad_config};
use crate::logging;
use crate::ports::{Bound, Listen};
use crate::running::Running;

/// What is logged unless RINGFENCE_LOG says otherwise: the terminal is for the banner and the commands.
const LOG_FILTER: &str = "warn";

/// Worker threads per node: enough to answer while something else computes.
const WORKERS_PER_NODE: usize = 2;

/// How long the first start may take before `dev` gives up.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Ports between one node's and the next one's.
const PORTS_APART: u16 = 10;

/// How long a killed node's threads may take to let go of its ports.
const DEATH_WITHIN: Duration = Duration::from_secs(1);

/// What the cluster is called.
const CLUSTER: &str = "dev";

/// Nodes that the banner names.
const NODES_SHOWN: usize = 3;

/// Runs the cluster until it is interrupted.
pub fn run(dev: &Dev) -> anyhow::Result<Exit> {
    logging::start(false, LOG_FILTER).map_err(bad_config)?;
    let policies = policies_of(dev).map_err(bad_config)?;
    let Some(policies) = policies else { return Ok(Exit::BadConfig) };
    #[cfg(feature = "test-clock")]
    if dev.test_clock {
        node::test_clock::stop();
    }
    let mut cluster = Cluster::new(dev, policies).map_err(bad_config)?;
    // Every port is taken before any node starts: a port that is in use costs nothing but a message.
    let names = cluster.founders.clone();
    let sockets: anyhow::Result<Vec<_>> = names.into_iter().map(|name| Ok((cluster.bind(&name)?, name))).collect();
    for (sockets, name) in sockets.map_err(bad_config)? {
        cluster.start(&name, sockets)?;
    }
    cluster.wait_until_settled(START_TIMEOUT)?;
    put(&cluster.banner());
    cluster.obey(&commands());
    Ok(Exit::Ok)
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
    /// Limit time moves on.
    #[cfg(feature = "test-clock")]
    Clock(Duration),
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
            #[cfg(feature = "test-clock")]
            ("clock", Some(by), None) => {
                clock_step(by).map_or_else(|| Command::Unknown(line.trim().to_owned()), Command::Clock)
            }
            ("help", None, None) => Command::Help,
            ("stop" | "quit" | "exit", None, None) => Command::Stop,
            _ => Command::Unknown(line.trim().to_owned()),
        };
        Some(command)
    }
}

/// How far limit time is to move, as in `+1500ms`.
#[cfg(feature = "test-clock")]
fn clock_step(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+')?;
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
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
    /// Where every node listens; that stays the same when it comes back.
    ports: BTreeMap<String, Listen>,
    partitions: PartitionCount,
    /// Where nodes keep what was used, if anywhere.
    store: Option<StoreConfig>,
    policies: Vec<String>,
    secret: ClusterSecret,
    running: BTreeMap<String, Running>,
}

impl Cluster {
    fn new(dev: &Dev, policies: Vec<String>) -> anyhow::Result<Cluster> {
        let last = u32::from(dev.port) + u32::from(PORTS_APART) * u32::from(dev.nodes - 1) + 2;
        anyhow::ensure!(last <= u32::from(u16::MAX), "--port {} leaves no room for {} nodes", dev.port, dev.nodes);
        let founders: Vec<_> = (1..=dev.nodes).map(|number| format!("n{number}")).collect();
        let ports = |index: u16| match dev.port {
            0 => listen(0, 0, 0),
            first => {
                let api = first + PORTS_APART * index;
                listen(api, api + 1, api + 2)
            }
        };
        Ok(Cluster {
            ports: founders.iter().cloned().zip((0..).map(ports)).collect(),
            founders,
            partitions: PartitionCount::new(dev.partitions).context("--partitions is a power of two, 1 to 4096")?,
            store: dev.redis.clone().map(|url| StoreConfig::new(url, CLUSTER)),
            policies,
            secret: ClusterSecret::new(&rand::random::<[u8; 32]>()).context("32 bytes are enough for a secret")?,
            running: BTreeMap::new(),
        })
    }

    /// Takes a node's ports; where the system was to choose, they are known from then on.
    fn bind(&mut self, name: &str) -> anyhow::Result<Bound> {
        let listen = *self.ports.get(name).with_context(|| format!("there is no node {name}"))?;
        let bound = Bound::take(listen).with_context(|| format!("{name} does not get its ports; see --port"))?;
        self.ports.insert(name.to_owned(), bound.addresses);
        Ok(bound)
    }

    fn start(&mut self, name: &str, bound: Bound) -> anyhow::Result<()> {
        let config = self.config(name, bound.peer)?;
        let settings = Settings { access: Access::open(), open_metrics: true, proxies: Proxies::default() };
        let running = Running::start(config, bound.doors, settings, Some(WORKERS_PER_NODE))?;
        self.running.insert(name.to_owned(), running);
        Ok(())
    }

    fn config(&self, name: &str, peer: PeerSockets) -> anyhow::Result<Config> {
        let ports = self.ports.get(name).with_context(|| format!("there is no node {name}"))?;
        Ok(Config {
            name: name.to_owned(),
            data: Place::Memory,
            peer,
            advertise: ports.advertised(),
            seeds: self.ports.values().map(|ports| ports.peer.to_string()).collect(),
            secrets: Secrets::new(self.secret.clone()),
            founding: Founding {
                name: CLUSTER.to_owned(),
                founders: self.founders.clone(),
                terms: Terms::DEFAULT,
                partitions: self.partitions,
                given: Given::ALL,
                policies: self.policies.clone(),
            },
            bounds: Bounds::default(),
            store: self.store.clone(),
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
            text.push_str(&format!("  {name}  api {}  admin {}\n", ports.api, ports.admin));
        }
        if self.founders.len() > NODES_SHOWN {
            text.push_str(&format!("  and {} more; `status` lists them\n", self.founders.len() - NODES_SHOWN));
        }
        let api = |at: usize| {
            shown().nth(at).or_else(|| shown().next()).map_or(String::new(), |(_, ports)| ports.api.to_string())
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
                #[cfg(feature = "test-clock")]
                Command::Clock(by) => put(&match node::test_clock::advance(by) {
                    Some(wall) => format!("limit time is {} ns\n", wall.as_unix_nanos()),
                    None => "limit time runs by itself; see --test-clock\n".to_owned(),
                }),
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
        match status_of(&Calls::to(&ports.admin.to_string())) {
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

fn listen(api: u16, peer: u16, admin: u16) -> Listen {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Listen { api: at(api), peer: at(peer), admin: at(admin) }
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
