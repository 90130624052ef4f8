//! The chaos suite as an errand and as a step: it builds the nodes and the suite, and lets the suite loose on them. What
//! breaks processes runs in network namespaces; what breaks containers runs where a Docker engine answers.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::machine::{self, DidNotRun, Program};
use crate::{image, shell};

/// How the suite begins to say why it did not run, if it finds that the machine lacks something that we did not see.
const DID_NOT_RUN: &str = "ringfence-chaos: did not run: ";

/// What the faults are made with.
const PROGRAMS: &[Program] = &[
    Program { name: "ip", package: "iproute2" },
    Program { name: "iptables", package: "iptables" },
    Program { name: "faketime", package: "faketime" },
    Program { name: "redis-server", package: "redis-server" },
    Program { name: "redis-cli", package: "redis-tools" },
];

/// Builds the program and the suite, and runs the suite with these words; without any, all of it.
///
/// # Errors
/// When something is missing ([`DidNotRun`]), does not build, or when the suite has found something.
pub fn run(root: &Path, words: &[&str], see: impl FnMut(&str)) -> Result<()> {
    let words = if words.is_empty() { &["run"] } else { words };
    if words[0] == "run" {
        machine::need_namespaces()?;
        machine::need_programs(PROGRAMS)?;
    }
    build(root)?;
    let_loose(suite(root)?.args(words), see)
}

/// The scenario on containers: the image of a release build, and the compose file as users start it.
///
/// # Errors
/// As [`run`].
pub fn compose(root: &Path, see: impl FnMut(&str)) -> Result<()> {
    machine::need_engine()?;
    machine::need_compose()?;
    for base in [image::DEBIAN, image::REDIS] {
        image::need_base(root, &base)?;
    }
    image::build_program(root)?;
    build(root)?;
    let program = shell::target(root)?.join("release/ringfence");
    let_loose(suite(root)?.arg("compose").arg("--program").arg(program), see)
}

fn let_loose(suite: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    let mut reason = None;
    let ended = shell::run_and_read(suite, |line| {
        reason = reason.take().or_else(|| line.strip_prefix(DID_NOT_RUN).map(str::to_owned));
        see(line);
    });
    match (ended, reason) {
        (Err(_), Some(reason)) => Err(DidNotRun(reason).into()),
        (ended, _) => ended,
    }
}

/// Of the whole workspace, and with the examples, since then cargo counts what tests depend on as well: it chooses the same
/// features of everybody's crates as the tests did, and finds nearly all built already.
fn build(root: &Path) -> Result<()> {
    shell::run(&mut shell::cargo(root, &["build", "--quiet", "--workspace", "--bins", "--examples"]))
}

fn suite(root: &Path) -> Result<Command> {
    let mut command = Command::new(shell::target(root)?.join("debug/ringfence-chaos"));
    command.current_dir(root);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(words: &str) -> Result<()> {
        let_loose(Command::new("sh").args(["-c", words]), |_| ())
    }

    #[test]
    fn a_suite_that_did_not_run_has_neither_passed_nor_failed() {
        let error = script("echo 'ringfence-chaos: did not run: no bridge'; exit 77").unwrap_err();
        assert_eq!(error.downcast::<DidNotRun>().unwrap(), DidNotRun("no bridge".into()));
        assert!(!script("echo it broke; exit 1").unwrap_err().is::<DidNotRun>());
        script("exit 0").unwrap();
    }
}
