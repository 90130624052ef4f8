//! A real `redis-server` for the cluster's tests: with its data in a folder of its own, started and stopped as an operator
//! would, and gone when it is dropped.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::patience::until;

/// A server on a port of its own that writes everything to disk at once.
pub struct Redis {
    pub port: u16,
    folder: TempDir,
    process: Option<Child>,
}

impl Redis {
    /// A server that runs and has nothing.
    pub fn start() -> Redis {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut redis = Redis { port, folder: tempfile::tempdir().unwrap(), process: None };
        redis.run();
        redis
    }

    /// Starts the server again, with whatever is in its folder.
    pub fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"]);
        command.arg("--dir").arg(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("redis-server: {error}; on Debian: apt-get install redis-server");
        });
        self.process = Some(child);
        until("redis-server answering", || match self.ask(&["PING"]) {
            answer if answer == "PONG" => Ok(()),
            other => Err(other),
        });
    }

    /// Ends it at once.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Ends it, and takes its data away.
    pub fn wipe(&mut self) {
        self.stop();
        self.folder = tempfile::tempdir().unwrap();
    }

    /// Stops the process, or lets it go on.
    pub fn signal(&self, name: &str) {
        crate::dev::signal(self.process.as_ref().expect("it runs").id(), name);
    }

    /// What the server answers to a command.
    pub fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(words);
        let output = command.output().expect("redis-cli comes with redis-server");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// What `redis.url` says of it, as TOML.
    pub fn toml(&self) -> String {
        format!("\"redis://127.0.0.1:{}\"", self.port)
    }

    /// The sum of the field that `INFO` has under this name.
    pub fn info(&self, section: &str, name: &str) -> String {
        let info = self.ask(&["INFO", section]);
        let line = info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {info}"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
