//! `ringfence serve`: one node, from its configuration to its orderly end. Whatever can be found wrong is found before
//! anything runs; what only the cluster knows ends the node with the same exit code, so that nobody restarts it in vain.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use node::config::{Advertise, Config, Founding, Place};
use node::{Left, Node, StartError};
use ring::PartitionCount;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Access, Proxies, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::Told;
use crate::config::prepare::{Prepared, gather, prepare};
use crate::config::secrets;
use crate::config::settings::{ClusterSettings, NodeSettings, Placed};
use crate::exit::{Exit, bad_config};
use crate::ports::{Bound, Listen, NotBound};
use crate::running::Running;
use crate::{logging, notify};

/// How often a node that cannot answer yet says why.
const WAITING_TOLD_EVERY: Duration = Duration::from_secs(10);

/// How long threads may take to let go when everything has been said and closed.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Who may use a data directory that is made here: its owner.
const DATA_DIR_MODE: u32 = 0o700;

/// Runs a node until it is asked to end, or must.
pub fn run(told: &Told) -> anyhow::Result<Exit> {
    let sources = gather(told).map_err(bad_config)?;
    let prepared = match prepare(&sources) {
        Ok(prepared) => prepared,
        Err(refusal) => {
            eprint!("{}", refusal.render());
            return Ok(Exit::BadConfig);
        }
    };
    logging::start(prepared.settings.log.json, &prepared.settings.log.filter).map_err(bad_config)?;
    logging::end_on_panic();
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    // From here on an error is a log line, in the format that was asked for.
    Ok(live(prepared).unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        Exit::of_error(&error)
    }))
}

fn live(prepared: Prepared) -> anyhow::Result<Exit> {
    let settings = &prepared.settings;
    make_data_dir(&settings.data_dir).map_err(bad_config)?;
    allow_open_files();
    let (api, peer, admin) = (settings.api.listen.value, settings.peer.listen.value, settings.admin.listen.value);
    let bound = Bound::take(Listen { api, peer, admin }).map_err(|error| not_bound(error, settings))?;
    tell_start(settings, &bound.addresses);
    let (cluster, drain) = (settings.cluster.clone(), settings.drain_timeout);
    let doors = Settings {
        access: Access::of(settings.tokens.clone()),
        open_metrics: settings.open_metrics,
        proxies: Proxies::of(settings.trusted_proxies.clone()),
    };
    let Bound { doors: sockets, peer, addresses } = bound;
    let config = config(prepared, peer, &addresses);
    let running = Running::start(config, sockets, doors, None).map_err(not_started)?;
    let Running { runtime, node, doors, close } = running;
    let exit = runtime.block_on(until_the_end(node, Doors { open: doors, close }, &cluster, drain));
    runtime.shutdown_timeout(END_WITHIN);
    exit
}

/// Lives until a signal, a refusal by the cluster, or a door that does not open ends it.
async fn until_the_end(
    node: Arc<Node>,
    mut doors: Doors,
    cluster: &ClusterSettings,
    drain: Duration,
) -> anyhow::Result<Exit> {
    let mut signals = Signals::new().context("signals cannot be heard")?;
    // The service manager is told as soon as the node runs and its admin port answers, and not when it serves: of a new
    // cluster each node waits for the others, and whoever starts them one after the other must get past the first.
    notify::tell("READY=1\nSTATUS=waiting for the cluster");
    let waiting = tokio::spawn(tell_when_it_serves(Arc::clone(&node)));
    let exit = loop {
        tokio::select! {
            said = signals.next() => match said {
                Said::Reload => reload(&node, cluster),
                Said::End(name) => {
                    tracing::info!(signal = name, "asked to end");
                    break Ok(Exit::Ok);
                }
            },
            _ = node.refused() => {
                // The node has said why, with its word.
                break Ok(Exit::BadConfig);
            }
            ended = &mut doors.open => break Err(door_closed(ended)),
        }
    };
    waiting.abort();
    notify::tell("STOPPING=1");
    tokio::select! {
        () = end(&node, doors, drain) => {}
        code = signals.end() => {
            tracing::warn!("asked to end once more: at once");
            std::process::exit(code);
        }
    }
    exit
}

/// The orderly end: everything is given away first, then what is in flight is answered, then everything is closed.
async fn end(node: &Node, doors: Doors, drain: Duration) {
    match node.leave(drain).await {
        Left::Released { partitions: 0 } => tracing::info!("released: this node owned nothing"),
        Left::Released { partitions } => tracing::info!(partitions, "released: others own these partitions now"),
        Left::NotReleased(why) => {
            tracing::warn!(why, "not released: the partitions are owned again when the lease has run out")
        }
    }
    if !doors.open.is_finished() {
        // Nobody listens if the doors fail at this very moment; then they are closed already.
        let _ = doors.close.send(());
        let _ = doors.open.await;
    }
    node.stop().await;
    tracing::info!("ended");
}

async fn tell_when_it_serves(node: Arc<Node>) {
    while tokio::time::timeout(WAITING_TOLD_EVERY, node.ready()).await.is_err() {
        if let Some(why) = node.unready() {
            tracing::info!(why, "not ready yet");
        }
    }
    tracing::info!(node = node.name(), cluster = node.cluster_name(), "serving");
    notify::tell("STATUS=serving");
}

/// Reads the secrets anew. If that fails, those that are in force stay.
fn reload(node: &Node, cluster: &ClusterSettings) {
    let mut warnings = Vec::new();
    match secrets::read(cluster, &mut warnings) {
        Ok(secrets::InForce { secrets, accepts_another }) => {
            node.set_secrets(secrets);
            tracing::info!(accepts_another, "the cluster's secrets were read anew and are in force");
        }
        Err(mistakes) => {
            for mistake in mistakes {
                tracing::error!("bad-config: {}; the secrets from before stay in force", mistake.wrong.message);
            }
        }
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// A connection is a file: as many may be open as the system lets this process have. What it is given at first is often
/// 1,024, less than the front doors' own bound.
fn allow_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit on open files stays as it was");
    }
}

fn tell_start(settings: &NodeSettings, addresses: &Listen) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = settings.name,
        cluster = settings.cluster.name,
        api = %addresses.api,
        peer = %addresses.peer,
        admin = %addresses.admin,
        data_dir = %settings.data_dir.display(),
        "ringfence starts"
    );
}

fn config(prepared: Prepared, peer: node::config::PeerSockets, addresses: &Listen) -> Config {
    let Prepared { settings, secrets, policies, store, .. } = prepared;
    let bound = addresses.advertised();
    Config {
        name: settings.name,
        data: Place::Directory(settings.data_dir),
        peer,
        advertise: Advertise {
            peer: settings.peer.advertise.unwrap_or(bound.peer),
            api: settings.api.advertise.unwrap_or(bound.api),
            admin: settings.admin.advertise.unwrap_or(bound.admin),
        },
        seeds: settings.cluster.seeds,
        secrets,
        founding: Founding {
            name: settings.cluster.name,
            founders: settings.cluster.founders,
            terms: settings.terms,
            partitions: PartitionCount::default(),
            given: settings.given,
            policies,
        },
        bounds: settings.bounds,
        store,
    }
}

/// Makes the directory if it is not there, and sees to it that it can be written to: better said now, with its name.
fn make_data_dir(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(DATA_DIR_MODE)
        .create(directory)
        .with_context(|| format!("bad-config: the data directory {shown} (node.data_dir) cannot be made"))?;
    try_to_write_in(directory)
        .with_context(|| format!("bad-config: the data directory {shown} (node.data_dir) cannot be written to"))
}

fn try_to_write_in(directory: &Path) -> std::io::Result<()> {
    let probe = directory.join(format!(".probe-{}", std::process::id()));
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(&probe)?;
    std::fs::remove_file(&probe)
}

fn not_bound(error: NotBound, settings: &NodeSettings) -> anyhow::Error {
    let ports = [&settings.api.listen, &settings.peer.listen, &settings.admin.listen];
    let said = ports.into_iter().find(|listen| listen.key == error.key);
    let origin = said.map_or(String::new(), |Placed { origin, .. }| format!("; it is from {origin}"));
    bad_config(anyhow::anyhow!("{error}{origin}"))
}

/// What the configuration causes is told apart from what may pass: only the latter is worth a restart.
fn not_started(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<StartError>() {
        Some(StartError::Name { .. } | StartError::Journal(_)) => bad_config(error.context("bad-config")),
        Some(
            StartError::JournalRead(_)
            | StartError::Standing(_)
            | StartError::Consensus(_)
            | StartError::Advertise { .. }
            | StartError::Socket(_),
        )
        | None => error,
    }
}

fn door_closed(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("the front doors have closed"),
        Ok(Err(error)) => anyhow::Error::new(error).context("a front door did not open"),
        Err(error) => anyhow::Error::new(error).context("the front doors have ended"),
    }
}

/// The front doors, and how they are closed.
struct Doors {
    open: JoinHandle<std::io::Result<()>>,
    close: oneshot::Sender<()>,
}

/// What the operator says by signals.
struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
}

enum Said {
    Reload,
    End(&'static str),
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Said {
        tokio::select! {
            _ = self.hang_up.recv() => Said::Reload,
            _ = self.interrupt.recv() => Said::End("SIGINT"),
            _ = self.terminate.recv() => Said::End("SIGTERM"),
        }
    }

    /// The exit code for a signal that asks to end, once there is one: 128 and its number, as shells have it.
    async fn end(&mut self) -> i32 {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        128 + signal.as_raw_value()
    }
}
