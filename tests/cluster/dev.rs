//! `ringfence dev` as a child process: started with ports that the system chooses, steered through its stdin, and gone
//! when the test is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::http;
use crate::patience::until;

/// A running cluster.
pub struct Dev {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// What it printed before it took commands.
    pub banner: String,
    nodes: Vec<Addresses>,
}

#[derive(Clone, Debug)]
struct Addresses {
    name: String,
    api: String,
    admin: String,
}

/// The program under test.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.env_remove("RINGFENCE_API").env_remove("RINGFENCE_ADMIN").env("RINGFENCE_LOG", "warn,openraft=off");
    command
}

impl Dev {
    /// Three nodes with the sample policy.
    pub fn start() -> Dev {
        Dev::start_with(&[])
    }

    /// Three nodes with this policy.
    pub fn start_with_policy(policy: &str) -> Dev {
        Dev::start_with_policies(&[policy.to_owned()])
    }

    /// Three nodes with these policies, one for each domain.
    pub fn start_with_policies(policies: &[String]) -> Dev {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<_> = (0..policies.len()).map(|number| folder.path().join(format!("{number}.yaml"))).collect();
        for (file, policy) in files.iter().zip(policies) {
            std::fs::write(file, policy).unwrap();
        }
        let arguments: Vec<_> = files.iter().flat_map(|file| [Path::new("--policy"), file]).collect();
        Dev::start_with(&arguments)
    }

    fn start_with(arguments: &[&Path]) -> Dev {
        let mut child = program()
            .args(["dev", "--port", "0"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        // The banner's last line begins with `Type`; a program that fails closes its stdout instead.
        loop {
            let before = banner.len();
            let read = stdout.read_line(&mut banner).unwrap();
            assert_ne!(read, 0, "the program ended while it started, after: {banner}");
            if banner[before..].starts_with("Type ") {
                break;
            }
        }
        let nodes = banner.lines().filter_map(Addresses::parse).collect();
        Dev { child, stdin, stdout, banner, nodes }
    }

    /// The API address of a node, by its number from 1.
    pub fn api(&self, number: usize) -> &str {
        &self.nodes[number - 1].api
    }

    /// The admin address of a node, by its number from 1.
    pub fn admin(&self, number: usize) -> &str {
        &self.nodes[number - 1].admin
    }

    /// The process that runs all nodes.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal, by its name.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Kills a node, as abruptly as the program can.
    pub fn kill(&mut self, name: &str) {
        self.type_line(&format!("kill {name}"));
        let said = self.read_line();
        assert!(said.starts_with(&format!("{name} is dead")), "{said}");
    }

    /// Starts a killed node again.
    pub fn revive(&mut self, name: &str) {
        self.type_line(&format!("start {name}"));
        let said = self.read_line();
        assert!(said.starts_with(&format!("{name} is starting")), "{said}");
    }

    /// Three nodes under a limit time that moves by the command `clock` alone.
    #[cfg(feature = "test-clock")]
    pub fn start_with_test_clock() -> Dev {
        Dev::start_with(&[Path::new("--test-clock")])
    }

    /// Types a command, and returns the line that is said to it.
    pub fn command(&mut self, line: &str) -> String {
        self.type_line(line);
        self.read_line()
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// The cluster as node `number` sees it.
    pub fn cluster(&self, number: usize) -> Value {
        http::get(self.admin(number), "/v1/cluster").body
    }

    /// Looks at the cluster from node `number` until `settled` says so; fails with the last look.
    pub fn wait_until(&self, number: usize, what: &str, settled: impl Fn(&Value) -> bool) -> Value {
        until(what, || match http::try_get(self.admin(number), "/v1/cluster").map(|answer| answer.body) {
            Some(cluster) if settled(&cluster) => Ok(cluster),
            seen => Err(seen),
        })
    }

    /// A check at a node whose front door may only be about to open: asked until it answers.
    pub fn check_until_answered(&self, number: usize, client: &str) -> Value {
        let body = serde_json::json!({ "attributes": { "client": client } });
        let answer = || http::try_post(self.api(number), "/v1/check", &body).ok_or("no answer");
        until("an answer", answer).body
    }
}

impl Addresses {
    /// `  n1  api 127.0.0.1:7600  admin 127.0.0.1:7602`
    fn parse(line: &str) -> Option<Addresses> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [name, "api", api, "admin", admin] => {
                Some(Addresses { name: name.to_owned(), api: api.to_owned(), admin: admin.to_owned() })
            }
            _ => None,
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a process a signal, by its name, through the shell's own `kill`: that one is everywhere.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "{name} reaches {pid}");
}

/// The node of this name in a cluster's status.
pub fn node<'c>(cluster: &'c Value, name: &str) -> Option<&'c Value> {
    cluster["nodes"].as_array()?.iter().find(|node| node["name"] == name)
}

#[test]
fn the_banner_names_three_nodes_and_fits_on_a_screen() {
    let dev = Dev::start();
    let names: Vec<_> = dev.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3"]);
    assert!(dev.banner.lines().count() <= 15, "{}", dev.banner);
}
