//! The compose cluster as an object: the commands that users type, under a project, an image and an address of its own, so
//! that a cluster which somebody has running is not touched. What was made is taken away when the object goes, and when
//! the run is interrupted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::shell;

/// The nodes of deploy/compose.yaml, each with the ports of its API and of its admin API on the host.
pub const NODES: [(&str, u16, u16); 3] = [("n1", 7600, 7602), ("n2", 7610, 7612), ("n3", 7620, 7622)];

/// The services of Redis: the one that nodes are led to, and the one that follows it.
pub const REDIS: [&str; 2] = ["redis", "redis-replica"];

/// Calls Redis inside its container as an operator does.
const REDIS_CLI: &str = "REDISCLI_AUTH=$(cat /run/redis/operator) exec redis-cli --user operator \"$@\"";

/// The repository: this crate lies one folder below it.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// How often the engine is asked for what it does not tell by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A compose project that this run has made.
#[derive(Debug)]
pub struct Project {
    names: Names,
    /// Held while the engine is asked for something, and for good by whoever cleans up: nothing is made after that.
    gate: Arc<Mutex<()>>,
}

/// What the project and its things are called.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    project: String,
    image: String,
    /// A loopback address that no other cluster publishes its ports on.
    address: String,
}

impl Project {
    /// Chooses names after this process, and sees to it that an interrupt leaves nothing behind.
    ///
    /// # Errors
    /// When signals cannot be heard.
    pub fn new() -> Result<Project> {
        let (names, gate) = (Names::of(std::process::id()), Arc::new(Mutex::new(())));
        let (doomed, held) = (names.clone(), Arc::clone(&gate));
        on_interrupt(move || {
            let _held = held.lock().unwrap_or_else(PoisonError::into_inner);
            doomed.remove();
            // Still under the gate, so that the story cannot go on behind our back.
            std::process::exit(130);
        })?;
        Ok(Project { names, gate })
    }

    /// The name of the image that the project runs.
    pub fn image(&self) -> &str {
        &self.names.image
    }

    /// `host:port` of each node's API, with its name.
    pub fn apis(&self) -> Vec<(String, Arc<str>)> {
        NODES.iter().map(|(name, api, _)| (format!("{}:{api}", self.names.address), Arc::from(*name))).collect()
    }

    /// `host:port` of a node's admin API.
    pub fn admin(&self, node: &str) -> String {
        let port = NODES.iter().find(|(name, ..)| *name == node).map(|(_, _, admin)| admin).expect("one of the three");
        format!("{}:{port}", self.names.address)
    }

    /// Builds the image of this program, with deploy/Dockerfile's target for programs that are built already.
    ///
    /// # Errors
    /// What the engine says.
    pub fn build(&self, program: &Path, scratch: &Path) -> Result<()> {
        let file = root().join("deploy/Dockerfile");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            std::fs::copy(root().join(licence), scratch.join(licence)).with_context(|| format!("copying {licence}"))?;
        }
        let shown = || format!("copying {}", program.display());
        std::fs::copy(program, scratch.join("ringfence")).with_context(shown)?;
        let (file, scratch) = (file.to_string_lossy().into_owned(), scratch.to_string_lossy().into_owned());
        let words = ["build", "--quiet", "--file", &file, "--target", "prebuilt", "--build-arg", "PROGRAM=ringfence"];
        self.docker(&[&words[..], &["--tag", self.image(), &scratch]].concat())?;
        Ok(())
    }

    /// `up -d`, of these services or of all.
    ///
    /// # Errors
    /// What compose says.
    pub fn up(&self, services: &[&str]) -> Result<()> {
        self.compose(&[&["up", "-d", "--no-build"], services].concat()).map(drop)
    }

    /// Kills a node's process, as the kernel does when memory runs out.
    ///
    /// # Errors
    /// What the engine says.
    pub fn kill(&self, node: &str) -> Result<()> {
        let container = self.container(node)?;
        self.docker(&["kill", &container]).map(drop)
    }

    /// Starts a node's container again, with the volume it had.
    ///
    /// # Errors
    /// What the engine says.
    pub fn start(&self, node: &str) -> Result<()> {
        let container = self.container(node)?;
        self.docker(&["start", &container]).map(drop)
    }

    /// Asks a node to end, and returns its exit code.
    ///
    /// # Errors
    /// What compose says.
    pub fn stop(&self, node: &str) -> Result<i32> {
        self.compose(&["stop", node])?;
        let code = self.inspect(node, "{{.State.ExitCode}}")?;
        code.parse().with_context(|| format!("{node} ended with `{code}`"))
    }

    /// Takes a node's container and its volume away.
    ///
    /// # Errors
    /// What compose says.
    pub fn wipe(&self, node: &str) -> Result<()> {
        self.compose(&["rm", "--stop", "--force", node])?;
        self.docker(&["volume", "rm", &format!("{}_{node}", self.names.project)]).map(drop)
    }

    /// Waits until the engine calls a node's health by this word, and says how long it took.
    ///
    /// # Errors
    /// When that does not come in time; with what it was called at the end.
    pub fn wait_for_health(&self, node: &str, word: &str, within: Duration) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let health = self.inspect(node, "{{.State.Health.Status}}")?;
            if health == word {
                return Ok(began.elapsed());
            }
            if began.elapsed() > within {
                bail!("{node} is {health} and not {word} after {within:?}");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// What one of the [`REDIS`] answers to a command.
    ///
    /// # Errors
    /// What the engine says.
    pub fn redis(&self, service: &str, words: &[&str]) -> Result<String> {
        let container = self.container(service)?;
        let said = self.docker(&[&["exec", &container, "sh", "-c", REDIS_CLI, "redis-cli"], words].concat())?;
        Ok(said.trim().to_owned())
    }

    /// What it answers to somebody who says no password.
    ///
    /// # Errors
    /// What the engine says.
    pub fn redis_of_nobody(&self, service: &str) -> Result<String> {
        let container = self.container(service)?;
        Ok(self.docker(&["exec", &container, "redis-cli", "ping"])?.trim().to_owned())
    }

    /// What a node has logged.
    ///
    /// # Errors
    /// What the engine says.
    pub fn logs(&self, node: &str) -> Result<String> {
        self.compose(&["logs", "--no-color", node])
    }

    /// One field of a node's container.
    ///
    /// # Errors
    /// What the engine says.
    pub fn inspect(&self, node: &str, field: &str) -> Result<String> {
        let container = self.container(node)?;
        Ok(self.docker(&["inspect", "--format", field, &container])?.trim().to_owned())
    }

    /// Any command of the engine.
    ///
    /// # Errors
    /// What the engine says.
    pub fn docker(&self, words: &[&str]) -> Result<String> {
        let _held = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        shell::run("docker", words)
    }

    /// Takes everything away, and says what is left all the same: containers, volumes, networks.
    ///
    /// # Errors
    /// What compose says.
    pub fn down(&self) -> Result<Vec<String>> {
        // How a node ends when it is asked to is an act of its own; here nobody has to be waited for.
        self.compose(&["down", "--volumes", "--timeout", "1"])?;
        let label = format!("label=com.docker.compose.project={}", self.names.project);
        let mut left = Vec::new();
        for list in [&["ps", "--all"][..], &["volume", "ls"], &["network", "ls"]] {
            let listed = self.docker(&[list, &["--quiet", "--filter", &label]].concat())?;
            left.extend(listed.lines().map(|line| format!("{} {line}", list[0])));
        }
        Ok(left)
    }

    fn container(&self, node: &str) -> Result<String> {
        let listed = self.compose(&["ps", "--quiet", node])?;
        let container = listed.lines().next().with_context(|| format!("{node} has no container"))?;
        Ok(container.trim().to_owned())
    }

    fn compose(&self, words: &[&str]) -> Result<String> {
        let _held = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = self.names.compose();
        let output = command.args(words).output().with_context(|| format!("{command:?}"))?;
        if !output.status.success() {
            bail!("compose {}: {}: {}", words.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _held = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.remove();
    }
}

impl Names {
    /// Two runs at a time have two process numbers, and these give two of each.
    fn of(process: u32) -> Names {
        let (high, low) = (process / 254 % 254 + 1, process % 254 + 1);
        Names {
            project: format!("ringfence-chaos-{process}"),
            image: format!("ringfence:chaos-{process}"),
            address: format!("127.76.{high}.{low}"),
        }
    }

    /// Compose in its second version, or else in its first; both read the file.
    fn compose(&self) -> Command {
        let has_plugin = Command::new("docker")
            .args(["compose", "version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        let mut command = Command::new(if has_plugin { "docker" } else { "docker-compose" });
        if has_plugin {
            command.arg("compose");
        }
        command.arg("--file").arg(root().join("deploy/compose.yaml"));
        command.args(["--project-name", &self.project]);
        command.env("RINGFENCE_IMAGE", &self.image).env("RINGFENCE_PUBLISH", &self.address).stdin(Stdio::null());
        command
    }

    /// Whatever is there of it; what was never made is not missed.
    fn remove(&self) {
        let quietly = |command: &mut Command| {
            // Nobody is left to tell; the next run has other names.
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        };
        quietly(self.compose().args(["down", "--volumes", "--timeout", "0", "--remove-orphans"]));
        quietly(Command::new("docker").args(["image", "rm", "--force", &self.image]));
    }
}

/// deploy/ lies here, and what the images are made of.
pub fn root() -> PathBuf {
    Path::new(ROOT).canonicalize().unwrap_or_else(|_| ROOT.into())
}

/// Does this once on the first interrupt, on a thread of its own.
fn on_interrupt(act: impl FnOnce() + Send + 'static) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    drop(entered);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        act();
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_have_nothing_in_common_and_addresses_are_of_this_machine() {
        let all: Vec<Names> = (1..64_000).step_by(7).map(Names::of).collect();
        let addresses: std::collections::BTreeSet<_> = all.iter().map(|names| &names.address).collect();
        assert_eq!(addresses.len(), all.len());
        assert!(all.iter().all(|names| names.address.parse::<std::net::Ipv4Addr>().is_ok_and(|it| it.is_loopback())));
    }

    #[test]
    fn the_files_that_the_image_is_made_of_are_there() {
        for file in
            ["deploy/Dockerfile", "deploy/compose.yaml", "deploy/redis.conf", "deploy/development.token", "LICENSE-MIT"]
        {
            assert!(root().join(file).is_file(), "{file}");
        }
    }
}
