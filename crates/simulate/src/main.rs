//! The simulator as a program: seeds on all cores, what they covered, and for what was found a story that is small enough
//! to be read and the command that tells it again.

mod campaign;
mod cli;
mod mutants;
mod page;
mod play;
mod pool;
mod progress;
mod report;
mod resume;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            cli::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
