//! What a step asks of the machine beyond Rust: root, programs, a Docker engine. What Debian has is installed where we may;
//! what stays missing is said in one line, and the step did not run. It never passes for that.

use std::env;
use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::shell;

/// Why a step did not run on this machine. The person at the machine changes that, or lives with it.
#[derive(Debug, PartialEq, Eq)]
pub struct DidNotRun(pub String);

impl fmt::Display for DidNotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "did not run: {}", self.0)
    }
}

impl std::error::Error for DidNotRun {}

/// A program, and the package of Debian that brings it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    pub package: &'static str,
}

/// Sees to it that these programs are there: by apt-get where we are root and it exists.
///
/// # Errors
/// What is missing, and what would bring it.
pub fn need_programs(programs: &[Program]) -> Result<(), DidNotRun> {
    if absent(programs).is_empty() {
        return Ok(());
    }
    if is_root() && is_there("apt-get") {
        install(&absent(programs))?;
    }
    match absent(programs).as_slice() {
        [] => Ok(()),
        missing => Err(DidNotRun(format!(
            "{} not on the PATH; on Debian, as root: apt-get install {}",
            listed(missing, |program| program.name),
            listed(missing, |program| program.package).replace(", ", " ")
        ))),
    }
}

/// Sees to it that we are root and may make network namespaces.
///
/// # Errors
/// Which of the two is not so.
pub fn need_namespaces() -> Result<(), DidNotRun> {
    if !is_root() {
        return Err(DidNotRun("it makes network namespaces, which needs root".into()));
    }
    match shell::answer(Command::new("unshare").args(["--net", "true"])) {
        Some(_) => Ok(()),
        None => Err(DidNotRun("`unshare --net true` fails: this machine lets nobody make network namespaces".into())),
    }
}

/// Sees to it that a Docker engine answers.
///
/// # Errors
/// When none does.
pub fn need_engine() -> Result<(), DidNotRun> {
    match shell::answer(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"])) {
        Some(_) => Ok(()),
        None => Err(DidNotRun("no Docker engine answers `docker version`".into())),
    }
}

/// Sees to it that compose is there, as the second version's plugin or the first version's program.
///
/// # Errors
/// When neither is.
pub fn need_compose() -> Result<(), DidNotRun> {
    let plugin = shell::answer(Command::new("docker").args(["compose", "version"]));
    match plugin.or_else(|| shell::answer(Command::new("docker-compose").arg("version"))) {
        Some(_) => Ok(()),
        None => Err(DidNotRun("there is neither `docker compose` nor `docker-compose`".into())),
    }
}

fn install(missing: &[Program]) -> Result<(), DidNotRun> {
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    println!("xtask: apt-get install {}", packages.join(" "));
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        shell::answer(&mut command)
    };
    let install = [&["install", "-qq", "--yes", "--no-install-recommends"], packages.as_slice()].concat();
    // Lists that are too old name files that are gone; lists that are missing name nothing. Both are mended by an update.
    if apt(&install).is_none() && (apt(&["update", "-qq"]).is_none() || apt(&install).is_none()) {
        return Err(DidNotRun(format!("apt-get cannot install {}", packages.join(" "))));
    }
    Ok(())
}

fn absent(programs: &[Program]) -> Vec<Program> {
    programs.iter().filter(|program| !is_there(program.name)).copied().collect()
}

/// On the PATH of this process, as whoever is called by it will find it.
fn is_there(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| is_file(&folder.join(name)))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file())
}

fn is_root() -> bool {
    shell::answer(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

fn listed(programs: &[Program], word: fn(&Program) -> &'static str) -> String {
    programs.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SH: Program = Program { name: "sh", package: "dash" };

    #[test]
    fn a_program_that_is_there_is_not_missed() {
        assert_eq!(need_programs(&[SH]), Ok(()));
    }

    #[test]
    fn what_is_missing_is_found_by_name() {
        let nowhere = Program { name: "ringfence-has-no-such-program", package: "none" };
        let missing: Vec<&str> = absent(&[SH, nowhere]).iter().map(|program| program.name).collect();
        assert_eq!(missing, ["ringfence-has-no-such-program"]);
    }

    #[test]
    fn a_reason_is_told_in_one_line() {
        assert_eq!(DidNotRun("no engine".into()).to_string(), "did not run: no engine");
    }
}
