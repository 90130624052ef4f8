//! `ringfence serve` as operators run it: processes with files, data directories and a secret, on ports of their own,
//! broken by signals and gone when the test is.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::dev::{node, program, signal};
use crate::http;
use crate::patience::until;

/// The first secret of every fleet.
pub const SECRET: &str = "the first secret of this fleet";

/// One limit per failure mode, in windows that no test outlives.
pub const POLICY: &str = "
ringfence: 1
domain: default
limits:
  closed: { rate: 100_000/d, algorithm: fixed-window, align: first, key: [client], fail: closed }
  open: { rate: 100_000/d, algorithm: fixed-window, align: first, key: [client], fail: open }
rules:
  - { name: closed, match: { kind: closed }, limits: [closed] }
  - { name: open, match: { kind: open }, limits: [open] }
";

/// Addresses of one fleet: a network of the loopback's own, `127.a.b.*`, in which node `n` has the address `n` and the
/// ports are always the same. So a node that comes back finds its ports free, whatever else runs on this machine.
struct Loopback {
    a: u8,
    b: u8,
    /// Held for as long as the network is ours.
    _claim: TcpListener,
}

impl Loopback {
    /// The port that claims a network, at its last address.
    const CLAIM: u16 = 7599;

    fn claim() -> Loopback {
        let first = std::process::id() as usize * 31;
        let networks = (0..usize::from(u16::MAX)).map(|step| (first + step) % (254 * 256));
        let claim = |network: usize| {
            let (a, b) = (u8::try_from(1 + network / 256).unwrap(), u8::try_from(network % 256).unwrap());
            let claim = TcpListener::bind((Ipv4Addr::new(127, a, b, 255), Loopback::CLAIM)).ok()?;
            Some(Loopback { a, b, _claim: claim })
        };
        networks.into_iter().find_map(claim).expect("some network of the loopback is free")
    }

    fn address(&self, number: usize, port: u16) -> String {
        format!("127.{}.{}.{number}:{port}", self.a, self.b)
    }
}

/// Nodes that belong together, numbered from 1 and named `n1`, `n2`, ...
pub struct Fleet {
    folder: TempDir,
    loopback: Loopback,
    founders: usize,
    /// Settings that differ from a fleet's own, as TOML, by node and key; node 0 stands for all.
    told: BTreeMap<(usize, String), String>,
    running: BTreeMap<usize, Child>,
}

impl Fleet {
    /// A fleet of which nothing runs, to be founded by its first nodes.
    pub fn new(founders: usize) -> Fleet {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        let fleet =
            Fleet { folder, loopback: Loopback::claim(), founders, told: BTreeMap::new(), running: BTreeMap::new() };
        fleet.write_secret("secret", SECRET);
        fleet
    }

    /// Three nodes, settled.
    pub fn of_three() -> Fleet {
        let mut fleet = Fleet::new(3);
        fleet.start_all(1..=3);
        fleet.wait_until_settled(1, 3);
        fleet
    }

    /// Tells one node (or all, as number 0) another value for a setting, as TOML. It counts from its next start.
    pub fn tell(&mut self, number: usize, key: &str, toml: &str) {
        self.told.insert((number, key.to_owned()), toml.to_owned());
    }

    /// Starts these nodes, one right after the other.
    pub fn start_all(&mut self, numbers: impl IntoIterator<Item = usize>) {
        numbers.into_iter().for_each(|number| self.start(number));
    }

    /// Starts a node, from its file.
    pub fn start(&mut self, number: usize) {
        let mut command = program();
        command.env_remove("RINGFENCE_LOG").args(["serve", "--config"]).arg(self.write_file(number));
        self.start_by(number, command);
    }

    /// Starts a node by a command of the test's own; what it says goes to the node's log.
    pub fn start_by(&mut self, number: usize, mut command: Command) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_path(number)).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let before = self.running.insert(number, child);
        assert!(before.is_none(), "n{number} runs already");
    }

    /// Ends a node at once, as a crash would.
    pub fn kill(&mut self, number: usize) {
        let mut child = self.running.remove(&number).expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a running node a signal.
    pub fn signal(&self, number: usize, name: &str) {
        signal(self.pid(number), name);
    }

    /// The process of a running node.
    pub fn pid(&self, number: usize) -> u32 {
        self.running[&number].id()
    }

    /// Waits until a node has ended by itself, and returns its exit code.
    pub fn ended(&mut self, number: usize) -> i32 {
        let mut child = self.running.remove(&number).expect("it runs");
        let status = until(&format!("the end of n{number}"), || child.try_wait().unwrap().ok_or(()));
        status.code().unwrap_or_else(|| panic!("n{number} ended by a signal: {status}"))
    }

    /// Takes a stopped node's data directory away.
    pub fn wipe(&self, number: usize) {
        assert!(!self.running.contains_key(&number));
        std::fs::remove_dir_all(self.data_dir(number)).unwrap();
    }

    /// Writes a file with a secret, for its owner alone.
    pub fn write_secret(&self, name: &str, secret: &str) {
        let path = self.path(name);
        std::fs::write(&path, secret).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    /// A path in the fleet's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where callers reach a node.
    pub fn api(&self, number: usize) -> String {
        self.loopback.address(number, 7600)
    }

    /// Where other nodes reach it.
    pub fn peer(&self, number: usize) -> String {
        self.loopback.address(number, 7601)
    }

    /// Where operators reach it.
    pub fn admin(&self, number: usize) -> String {
        self.loopback.address(number, 7602)
    }

    /// All that a node has written to its log, over all its lives.
    pub fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.log_path(number)).unwrap_or_default()
    }

    /// Waits until a node's log has a line with all of these words.
    pub fn wait_for_log(&self, number: usize, words: &[&str]) -> String {
        until(&format!("a line of n{number}'s log with {words:?}"), || {
            let log = self.log(number);
            let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
            line.map(str::to_owned).ok_or(log)
        })
    }

    /// The cluster as a node sees it.
    pub fn cluster(&self, number: usize) -> Value {
        http::get(&self.admin(number), "/v1/cluster").body
    }

    /// Looks at the cluster from a node until `settled` says so.
    pub fn wait_until(&self, number: usize, what: &str, settled: impl Fn(&Value) -> bool) -> Value {
        until(what, || {
            let seen = http::try_get(&self.admin(number), "/v1/cluster").map(|answer| answer.body);
            seen.filter(&settled).ok_or_else(|| (self.seen_by(number), self.log(number)))
        })
    }

    /// Waits until this node sees so many live, every partition owned, and answers itself.
    pub fn wait_until_settled(&self, number: usize, live: usize) -> Value {
        let cluster = self.wait_until(number, &format!("{live} nodes live, all partitions owned"), |cluster| {
            live_nodes(cluster) == live && all_owned(cluster)
        });
        self.wait_until_ready(number);
        cluster
    }

    /// Waits until a node says that it can answer checks.
    pub fn wait_until_ready(&self, number: usize) {
        until(&format!("n{number} being ready"), || match self.readiness(number) {
            Some((200, _)) => Ok(()),
            seen => Err((seen, self.log(number))),
        });
    }

    /// What a node answers to who asks whether it is ready: the status, and why not.
    pub fn readiness(&self, number: usize) -> Option<(u16, String)> {
        let answer = http::try_get(&self.admin(number), "/readyz")?;
        Some((answer.status, answer.body["detail"].as_str().unwrap_or("").to_owned()))
    }

    /// A check at a node, of a key under the limit of a failure mode.
    pub fn check(&self, number: usize, kind: &str, client: &str) -> http::Answer {
        http::check_with(&self.api(number), &question(kind, client))
    }

    fn seen_by(&self, number: usize) -> Option<Value> {
        http::try_get(&self.admin(number), "/v1/cluster").map(|answer| answer.body)
    }

    fn log_path(&self, number: usize) -> PathBuf {
        self.path(&format!("n{number}.log"))
    }

    fn data_dir(&self, number: usize) -> PathBuf {
        self.path(&format!("n{number}"))
    }

    /// Writes the node's file as it is told now.
    pub fn write_file(&self, number: usize) -> PathBuf {
        let quoted = |path: &Path| format!("{path:?}");
        let list = |items: Vec<String>| format!("{items:?}");
        let own = [
            ("node.name", format!("\"n{number}\"")),
            ("node.data_dir", quoted(&self.data_dir(number))),
            ("api.listen", format!("{:?}", self.api(number))),
            ("peer.listen", format!("{:?}", self.peer(number))),
            ("admin.listen", format!("{:?}", self.admin(number))),
            ("cluster.name", "\"fleet\"".to_owned()),
            ("cluster.seeds", list((1..=self.founders).map(|founder| self.peer(founder)).collect())),
            ("cluster.founders", list((1..=self.founders).map(|founder| format!("n{founder}")).collect())),
            ("cluster.secret_file", quoted(&self.path("secret"))),
            ("policy.initial", list(vec![self.path("policy.yaml").display().to_string()])),
            ("log.level", "\"info,openraft=off\"".to_owned()),
        ];
        let mut settings: BTreeMap<String, String> =
            own.into_iter().map(|(key, toml)| (key.to_owned(), toml)).collect();
        for ((_, key), toml) in self.told.iter().filter(|((told, _), _)| *told == 0 || *told == number) {
            settings.insert(key.clone(), toml.clone());
        }
        let lines = settings.iter().map(|(key, toml)| format!("{key} = {toml}\n"));
        let path = self.path(&format!("n{number}.toml"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        path
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The body of a check under the limit of a failure mode, by a caller who waits as long as it may.
pub fn question(kind: &str, client: &str) -> Value {
    serde_json::json!({ "attributes": { "kind": kind, "client": client }, "deadline_ms": 1_000 })
}

/// How many nodes live, as a cluster's status has it.
pub fn live_nodes(cluster: &Value) -> usize {
    let nodes = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter(|node| node["state"] == "live").count()
}

/// Whether there is a map and nothing on it is vacant.
pub fn all_owned(cluster: &Value) -> bool {
    cluster["partitions"]["vacant"] == 0 && cluster["partitions"]["owned"] != 0
}

/// A member of a node's status, as text.
pub fn of(cluster: &Value, name: &str, member: &str) -> String {
    let node = node(cluster, name).unwrap_or_else(|| panic!("there is no {name} in {cluster:#}"));
    node[member].as_str().unwrap_or_else(|| panic!("{name} has no {member} in {cluster:#}")).to_owned()
}
