//! The suite runs itself once more, in a cage: network, mounts and processes of its own. Whatever it makes inside, links,
//! rules, namespaces, nodes, is gone when the first process of the cage is, and that one dies with whoever started it. So
//! there is nothing to clean up, after Ctrl-C and after `kill -9` alike.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::shell;

/// The word that says: this is the run inside. People have no use for it.
pub const INSIDE: &str = "--in-its-cage";

/// What runs inside goes before what else the machine does: the suite looks at faults that it makes itself.
const NICENESS: &str = "-15";

/// Runs this program again with the same words, inside, and returns how it ended.
///
/// # Errors
/// When the cage cannot be made.
pub fn reenter() -> Result<ExitCode> {
    let own = env::current_exe().context("where this program lies")?;
    let words: Vec<OsString> = env::args_os().skip(1).chain([INSIDE.into()]).collect();
    // setsid: where Linux shares time out by session first, niceness counts within a session only. setpriv: unshare dies with us. unshare: its child, the first process inside, dies with it, and takes all along.
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "setsid", "--", "nice", "-n", NICENESS])
        .args(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .arg(own)
        .args(words)
        .status()
        .context("setpriv")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Makes the inside habitable, from its first process: a `/run` of its own, where `ip` keeps the names of namespaces and
/// iptables its lock, and a loopback that is up.
///
/// # Errors
/// When this is not the first process inside a cage, so that nobody sets up a whole machine by mistake.
pub fn furnish() -> Result<()> {
    if std::process::id() != 1 || !has_its_own_network()? {
        bail!("{INSIDE} is for the suite itself: this process is not the first of a cage");
    }
    // Where there are no such groups, or they may not be touched, the run is as nice as it is.
    let _ = std::fs::write("/proc/self/autogroup", NICENESS);
    shell::run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    shell::run("ip", &["link", "set", "lo", "up"])?;
    Ok(())
}

/// A network that was just made has a loopback that is down; every machine's own is up.
fn has_its_own_network() -> Result<bool> {
    let link = shell::run("ip", &["-o", "link", "show", "lo"])?;
    Ok(link.contains("state DOWN"))
}
