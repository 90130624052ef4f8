//! The simulator as an errand and as steps: it builds the program that plays seeds, with the mistakes that can be made on
//! purpose, and lets it play. It is built in the dev profile: assertions are part of what is tried.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::shell;

/// What the full chain plays: so many seeds, or as many as this time allows.
const FULL: [&str; 5] = ["--seeds", "0..8000", "--time", "4m", "--grid"];

/// What the inner loop plays.
const QUICK: [&str; 4] = ["--seeds", "0..1000", "--time", "10s"];

/// Builds the program and hands it these words.
///
/// # Errors
/// When it does not build, does not understand its words, or has found something.
pub fn run(root: &Path, words: &[&str], see: impl FnMut(&str)) -> Result<()> {
    build(root)?;
    shell::run_and_read(program(root)?.args(words), see)
}

/// The seeds of the full chain, then every mistake.
///
/// # Errors
/// When a seed fails, or a mistake is not noticed.
pub fn full(root: &Path, mut see: impl FnMut(&str)) -> Result<()> {
    run(root, &FULL, &mut see)?;
    run(root, &["--mutants"], see)
}

/// A few seeds.
///
/// # Errors
/// When one fails.
pub fn quick(root: &Path, see: impl FnMut(&str)) -> Result<()> {
    run(root, &QUICK, see)
}

fn build(root: &Path) -> Result<()> {
    let words = ["build", "--quiet", "--package=ringfence-simulate", "--features=seeded-bugs"];
    shell::run(&mut shell::cargo(root, &words))
}

fn program(root: &Path) -> Result<Command> {
    let mut command = Command::new(shell::target(root)?.join("debug/ringfence-simulate"));
    command.current_dir(root);
    Ok(command)
}
