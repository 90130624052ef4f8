//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::scenarios;
use crate::{cage, compose, needs, suite};

/// The exit code of a run that did not take place, since the machine lacks something: what other suites use for it too.
const DID_NOT_RUN: u8 = 77;

/// Breaks a cluster of real nodes in every way that is documented, and holds what callers see against what is promised.
#[derive(Debug, Parser)]
#[command(name = "ringfence-chaos", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios. Needs Linux and root: everything takes place in namespaces that vanish with the run.
    Run(RunWords),
    /// List the scenarios.
    List,
    /// Start the compose cluster, as users do, and kill its containers under load. Needs a Docker engine.
    Compose(ComposeWords),
}

/// What `run` is told.
#[derive(Clone, Debug, Args)]
pub struct RunWords {
    /// Run this scenario; may be given several times. Without it, all run.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// The node's program; the one beside this program if not given.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Where reports, histories, logs and pictures go.
    #[arg(long, value_name = "DIR", default_value = "target/chaos")]
    pub out: PathBuf,
    /// Write the measured table to docs/failures.md.
    #[arg(long)]
    pub write_docs: bool,
    /// Set by the suite for its run inside.
    #[arg(long = "in-its-cage", hide = true)]
    pub inside: bool,
}

/// What `compose` is told.
#[derive(Clone, Debug, Args)]
pub struct ComposeWords {
    /// The node's program, which goes into the image and is called as users call it; the one beside this program if not
    /// given.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Where the report, the history and logs go.
    #[arg(long, value_name = "DIR", default_value = "target/chaos/compose")]
    pub out: PathBuf,
}

impl Cli {
    /// Does what was asked.
    ///
    /// # Errors
    /// When it could not be done at all; a scenario that fails is no error.
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::List => {
                list();
                Ok(ExitCode::SUCCESS)
            }
            Command::Run(words) => run(&words),
            Command::Compose(words) => {
                let program = suite::program(words.program.as_deref())?;
                compose::run(&program, &words.out).map(|()| ExitCode::SUCCESS)
            }
        }
    }
}

fn run(words: &RunWords) -> Result<ExitCode> {
    let chosen = suite::chosen(&words.only)?;
    let found = match needs::look() {
        Ok(found) => found,
        Err(missing) => {
            say(&format!("ringfence-chaos: did not run: {missing}"));
            return Ok(ExitCode::from(DID_NOT_RUN));
        }
    };
    if !words.inside {
        return cage::reenter();
    }
    cage::furnish()?;
    suite::run(&chosen, words, &found)
}

fn list() {
    for scenario in scenarios::ALL {
        say(&format!("{:<14} {}", scenario.name, scenario.event));
    }
}

/// A line for people and for whoever reads the last line.
#[allow(clippy::print_stdout, reason = "what this program is for")]
pub fn say(line: &str) {
    println!("{line}");
}

/// A line about what went wrong.
#[allow(clippy::print_stderr, reason = "what this program is for")]
pub fn complain(line: &str) {
    eprintln!("ringfence-chaos: {line}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_its_hidden_word_is_the_cages() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
        let words = ["ringfence-chaos", "run", "--only", "freeze", "--only", "wiped", cage::INSIDE];
        let Command::Run(words) = Cli::try_parse_from(words).unwrap().command else { panic!("it is a run") };
        assert_eq!(words.only, ["freeze", "wiped"]);
        assert!(words.inside && !words.write_docs);
    }
}
