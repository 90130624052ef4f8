//! The chaos suite as an errand and as a step: it builds the nodes and the suite, and lets the suite loose on them. What
//! breaks processes runs in network namespaces; what breaks containers runs where a Docker engine answers.

use std::path::Path;

use anyhow::Result;

use crate::machine::{self, Program};
use crate::{image, shell};

/// What the faults are made with.
const PROGRAMS: &[Program] = &[
    Program { name: "ip", package: "iproute2" },
    Program { name: "iptables", package: "iptables" },
    Program { name: "faketime", package: "faketime" },
];

/// Builds the program and the suite, and runs the suite with these words; without any, all of it.
///
/// # Errors
/// When something is missing ([`machine::DidNotRun`]), does not build, or when the suite has found something.
pub fn run(root: &Path, words: &[&str], see: impl FnMut(&str)) -> Result<()> {
    machine::need_namespaces()?;
    machine::need_programs(PROGRAMS)?;
    build(root)?;
    let words = if words.is_empty() { &["run"] } else { words };
    shell::run_and_read(suite(root)?.args(words), see)
}

/// The scenario on containers: the image of a release build, and the compose file as users start it.
///
/// # Errors
/// As [`run`].
pub fn compose(root: &Path, see: impl FnMut(&str)) -> Result<()> {
    machine::need_engine()?;
    machine::need_compose()?;
    image::need_base(root)?;
    image::build_program(root)?;
    build(root)?;
    let program = shell::target(root)?.join("release/ringfence");
    shell::run_and_read(suite(root)?.arg("compose").arg("--program").arg(program), see)
}

fn build(root: &Path) -> Result<()> {
    shell::run(&mut shell::cargo(root, &["build", "--quiet", "--package=ringfence", "--package=ringfence-chaos"]))
}

fn suite(root: &Path) -> Result<std::process::Command> {
    let mut command = std::process::Command::new(shell::target(root)?.join("debug/ringfence-chaos"));
    command.current_dir(root);
    Ok(command)
}
