//! A real `redis-server` in its own network namespace, with a folder and a log, and everything that can be done to it.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::bounds::LOOK_EVERY;
use crate::net::{self, Host};
use crate::shell;
use crate::signal::{self, Signal};

/// How long a server may take to answer after it was started.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// A server's process and where it lives.
#[derive(Debug)]
pub struct Redis {
    host: Host,
    /// `data`, `log`.
    folder: PathBuf,
    child: Option<Child>,
}

impl Redis {
    /// A server that has not been started.
    pub fn new(place: usize, folder: PathBuf) -> Redis {
        Redis { host: Host::Store(place), folder, child: None }
    }

    /// Starts it with whatever is in its folder, and waits until it answers.
    ///
    /// # Errors
    /// When it runs already, or does not answer in time.
    pub fn start(&mut self) -> Result<()> {
        let name = self.host.name();
        if self.child.is_some() {
            bail!("{name} runs already");
        }
        let data = self.folder.join("data");
        std::fs::create_dir_all(&data).with_context(|| format!("making {}", data.display()))?;
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log")).context("Redis' log")?;
        let mut command = Command::new("ip");
        // `ip` becomes the program, so the child's number is the server's own.
        command.args(["netns", "exec", &name, "redis-server", "--protected-mode", "no", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0"]);
        command.arg("--dir").arg(data).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("starting {name}"))?);
        let began = Instant::now();
        while self.ask(&["PING"]).ok().as_deref() != Some("PONG") {
            if began.elapsed() > ANSWERS_WITHIN {
                bail!("{name} does not answer within {ANSWERS_WITHIN:?}; its log lies in {}", self.folder.display());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().with_context(|| format!("{} does not run", self.host.name()))?;
        child.kill().context("kill -9")?;
        child.wait().context("kill -9").map(drop)
    }

    /// Stops it in the middle of whatever it does, or lets it go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().with_context(|| format!("{} does not run", self.host.name()))?;
        signal::send(child, signal).with_context(|| format!("{signal:?} {}", self.host.name()))
    }

    /// Takes its data away while it does not run.
    ///
    /// # Errors
    /// When it runs, or the files cannot be removed.
    pub fn wipe(&self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs", self.host.name());
        }
        std::fs::remove_dir_all(self.folder.join("data")).context("wiping Redis' data")
    }

    /// What it answers to a command.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let address = self.host.address().to_string();
        Ok(shell::run("redis-cli", &[&["-h", &address], words].concat())?.trim().to_owned())
    }

    /// Makes it follow another, and waits until it has all that the other had.
    ///
    /// # Errors
    /// When that does not come about.
    pub fn follow(&self, other: &Redis) -> Result<()> {
        self.ask(&["REPLICAOF", &other.host.address().to_string(), &net::STORE_PORT.to_string()])?;
        let began = Instant::now();
        while self.info("master_link_status")? != "up" {
            if began.elapsed() > ANSWERS_WITHIN {
                bail!("{} does not follow {} within {ANSWERS_WITHIN:?}", self.host.name(), other.host.name());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Its life, as nodes name it.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn life(&self) -> Result<String> {
        Ok(format!("{}.{}", self.info("run_id")?, self.info("master_replid")?))
    }

    /// How far it is in the stream of writes, in bytes.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn place(&self) -> Result<u64> {
        let place = self.info("master_repl_offset")?;
        place.parse().with_context(|| format!("{} is at `{place}`", self.host.name()))
    }

    /// How many keys it has.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn keys(&self) -> Result<u64> {
        let keys = self.ask(&["DBSIZE"])?;
        keys.parse().with_context(|| format!("{} has `{keys}` keys", self.host.name()))
    }

    /// One of the figures that it tells of itself.
    ///
    /// # Errors
    /// When it does not answer, or does not tell that one.
    pub fn info(&self, name: &str) -> Result<String> {
        let info = self.ask(&["INFO"])?;
        let found = info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
        found.with_context(|| format!("{} does not say its {name}: {info}", self.host.name()))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself; either way nobody is left to tell.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
