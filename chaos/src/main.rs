//! The chaos suite: real nodes, real faults, a history of what callers saw, and a verdict.

mod admin;
mod bounds;
mod cage;
mod cli;
mod clock_fault;
mod compose;
mod history_file;
mod keys;
mod load;
mod needs;
mod net;
mod node;
mod node_file;
mod redis;
mod report;
mod scenarios;
mod serving;
mod shell;
mod signal;
mod stage;
mod stalls;
mod succession;
mod suite;
mod terms;
mod tokens;
mod trial;
mod watch;

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
