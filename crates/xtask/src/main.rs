//! The project's errands. `cargo xtask test` is the one command that says whether the tree is sound; the others are
//! its gates and suites by themselves, the benches, and the image. Each errand is a module; this file only picks one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that talks to a terminal")]

mod bench;
mod chain;
mod chaos;
mod fuzz;
mod gateway;
mod image;
mod layering;
mod licences;
mod machine;
mod shell;
mod simulation;
mod spdx;
mod tidy;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use chain::Pace;

const USAGE: &str = "\
usage: cargo xtask <errand>

  test            everything that must hold before a change goes in, from formatting to doc tests
  test --quick    the same for the inner loop: formatting, gates, and the tests of the pure crates
  ci              test, then the release build that the README begins with, all with the lock file as it is
  layering        who depends on whom, against the table that ARCHITECTURE.md quotes
  tidy            module heads, dead files, long functions, banned words, stray bytes
  licences        every dependency's licence, against the list; cargo-deny too, where it is installed
  bench           run the benches and print their ratios
  bench store [PART]
                  only what a Redis costs and saves: throughput, recovery, outage; needs redis-server
  fuzz [TARGET] [--seconds N]
                  build the fuzzer and run a target, or all of them, each for so long; needs a C++ compiler
  sim [WORDS]     the simulator: --seed N, --seeds A..B, --time 10m, --mutants, --help for the rest
  gateway         forward-auth behind a real nginx, which Debian's package brings
  chaos [WORDS]   build the nodes and the chaos suite, and run it; WORDS are the suite's own, `run` without any
  compose         the same nodes in containers, by the compose file that users start; needs a Docker engine
  image           ringfence:local, the image of a release build; needs a Docker engine";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words, &root()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the errand found everything in order; where not, it has said so.
fn run(words: &[&str], root: &Path) -> Result<bool> {
    match words {
        ["test"] => chain::run(Pace::Full, root),
        ["test", "--quick"] => chain::run(Pace::Quick, root),
        ["ci"] => chain::run(Pace::Ci, root),
        ["layering"] => layering::run(root).map(|()| true),
        ["tidy"] => tidy::run(root).map(|()| true),
        ["licences"] => licences::run(root).map(|()| true),
        ["bench"] => bench::run(root).map(|()| true),
        ["bench", "store", parts @ ..] => bench::store(root, parts).map(|()| true),
        ["fuzz", words @ ..] => fuzz::run(root, words).map(|()| true),
        ["sim", words @ ..] => simulation::run(root, words, |_| ()).map(|()| true),
        ["gateway"] => gateway::run(root, |_| ()).map(|()| true),
        ["chaos", words @ ..] => chaos::run(root, words, |_| ()).map(|()| true),
        ["compose"] => chaos::compose(root, |_| ()).map(|()| true),
        ["image"] => image::run(root).map(|()| true),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        [] => bail!("no errand named\n\n{USAGE}"),
        unknown => bail!("no errand is called `{}`\n\n{USAGE}", unknown.join(" ")),
    }
}

/// The repository, wherever cargo was called from: this crate lies two folders below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/xtask lies in a workspace").to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_errand_is_refused_and_shows_what_there_is() {
        let error = run(&["tests"], &root()).unwrap_err().to_string();
        assert!(error.contains("no errand is called `tests`"), "{error}");
        assert!(error.contains("test --quick"), "{error}");
    }

    #[test]
    fn the_root_is_where_the_workspace_is_described() {
        assert!(root().join("Cargo.lock").is_file());
    }
}
