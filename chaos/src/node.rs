//! One real node: `ringfence serve` in its own network namespace, with a file, a data directory and a log, and everything
//! that can be done to it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::clock_fault::ClockFault;
use crate::net;
use crate::signal::{self, Signal};

/// How long a process may take to be gone after it was killed, or to end after it was asked to.
const END_WITHIN: Duration = Duration::from_secs(20);

/// A node's process and where it lives.
#[derive(Debug)]
pub struct Node {
    place: usize,
    program: PathBuf,
    /// `node.toml`, `data`, `log`.
    folder: PathBuf,
    fault: Option<ClockFault>,
    child: Option<Child>,
}

impl Node {
    /// A node that has not been started; `folder` holds its file.
    pub fn new(place: usize, program: &Path, folder: PathBuf) -> Node {
        Node { place, program: program.to_owned(), folder, fault: None, child: None }
    }

    /// The clock that it is started with from now on.
    pub fn set_clock_fault(&mut self, fault: ClockFault) {
        self.fault = Some(fault);
    }

    /// The clock that it is started with, where that is not the machine's.
    pub fn clock_fault(&self) -> Option<&ClockFault> {
        self.fault.as_ref()
    }

    /// Starts it.
    ///
    /// # Errors
    /// When the process cannot be made, or runs already.
    pub fn start(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs already", net::namespace(self.place));
        }
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).context("the node's log")?;
        let mut command = Command::new("ip");
        // `ip` and `env` become the program, so the child's number is the node's own.
        command.args(["netns", "exec", &net::namespace(self.place), "env"]);
        command.args(self.fault.iter().flat_map(ClockFault::variables));
        command.arg(&self.program).arg("serve").arg("--config").arg(self.folder.join("node.toml"));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("starting {}", net::namespace(self.place)))?);
        Ok(())
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<()> {
        self.running()?.kill().context("kill -9")?;
        self.ended().map(drop)
    }

    /// Stops it in the middle of whatever it does.
    ///
    /// # Errors
    /// When it does not run.
    pub fn freeze(&mut self) -> Result<()> {
        signal::send(self.running()?, Signal::Stop).context("SIGSTOP")
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw(&mut self) -> Result<()> {
        signal::send(self.running()?, Signal::Continue).context("SIGCONT")
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// When it does not run.
    pub fn terminate(&mut self) -> Result<()> {
        signal::send(self.running()?, Signal::Terminate).context("SIGTERM")
    }

    /// Waits until its process is gone, and says how it ended.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.running()?.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            if began.elapsed() > END_WITHIN {
                bail!("{} did not end within {END_WITHIN:?}", net::namespace(self.place));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it has a process that has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Whether it was started, and neither killed nor waited for since.
    pub fn was_started(&self) -> bool {
        self.child.is_some()
    }

    /// Removes its data directory.
    ///
    /// # Errors
    /// When it runs, or the files cannot be removed.
    pub fn wipe(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs", net::namespace(self.place));
        }
        std::fs::remove_dir_all(self.folder.join("data")).context("wiping the data directory")
    }

    /// The end of its log, for whoever has to find out why.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn running(&mut self) -> Result<&mut Child> {
        let name = net::namespace(self.place);
        self.child.as_mut().with_context(|| format!("{name} does not run"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself; either way nobody is left to tell.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
