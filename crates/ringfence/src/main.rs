//! The `ringfence` program: a cluster in one process, and the commands that ask and steer a running one. Data goes to
//! stdout, messages to stderr, and the exit code says how it went.

// A command-line program prints; everything that does not belong on stdout goes through `tracing` or stderr.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the one crate that talks to a terminal")]

mod calls;
mod cli;
mod commands;
mod config;
mod exit;
mod logging;
mod notify;
mod ports;
mod running;

use clap::Parser as _;
use server::call::Call;

use crate::cli::{Cli, Command};
use crate::exit::Exit;

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("ringfence: {error:#}");
            Exit::of_error(&error).into()
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Dev(dev) => commands::dev::run(&dev),
        Command::Serve(told) => commands::serve::run(&told),
        Command::Config(config) => commands::config::run(&config, cli.output),
        Command::Check(check) => commands::call::run(check.spoken(), &cli.target, cli.output),
        Command::Peek(peek) => commands::call::run(peek.spoken(), &cli.target, cli.output),
        Command::Reserve(reserve) => commands::call::run(reserve.spoken(), &cli.target, cli.output),
        Command::Settle(settle) => commands::call::run(settle.spoken(), &cli.target, cli.output),
        Command::Acquire(acquire) => commands::call::run(acquire.spoken(), &cli.target, cli.output),
        Command::Renew(renew) => commands::call::run(renew.spoken(), &cli.target, cli.output),
        Command::Release(named) => commands::call::run(named.spoken(Call::Release), &cli.target, cli.output),
        Command::Refund(named) => commands::call::run(named.spoken(Call::Refund), &cli.target, cli.output),
        Command::Reset(reset) => commands::call::run(reset.spoken(), &cli.target, cli.output),
        Command::Policy(policy) => commands::policy::run(&policy, &cli.target, cli.output),
        Command::Cluster(cluster) => commands::cluster::run(&cluster, &cli.target, cli.output),
        Command::Top(top) => commands::top::run(&top, &cli.target, cli.output),
        Command::Completion { shell } => commands::completion::completion(shell),
        Command::Man { command } => commands::completion::man(&command),
        Command::Healthcheck => commands::healthcheck::run(&cli.target),
        Command::Errors(errors) => commands::errors::run(&errors, cli.output),
    }
}
