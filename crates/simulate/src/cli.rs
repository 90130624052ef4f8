//! The command line.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use ownership::Bug;
use sim::campaign::{Part, Places};
use sim::world::Scenario;

use crate::{campaign, mutants, report, words};

/// How the program ends where its words mean nothing, as clap has it.
const NO_MEANING: u8 = 2;

/// Plays stories of a whole cluster, each from one seed, and holds what happened against what is promised.
#[derive(Debug, Parser)]
#[command(name = "ringfence-simulate", bin_name = "cargo xtask sim", version)]
pub struct Cli {
    /// Play this seed and say what came of it.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "time", "resume", "mutants"])]
    pub seed: Option<u64>,
    /// Play these seeds, the second number not included.
    #[arg(long, value_name = "A..B", value_parser = words::seeds)]
    pub seeds: Option<Range<u64>>,
    /// Play for so long, such as 90s, 10m or 2h; without --seeds from seed 0 on.
    #[arg(long, value_name = "TIME", value_parser = words::time)]
    pub time: Option<Duration>,
    /// Of the seed's faults, only these, such as 0,2.
    #[arg(long, value_name = "PLACES", requires = "seed")]
    pub faults: Option<Places>,
    /// Of the seed's asks, only these, such as 10-40,77.
    #[arg(long, value_name = "PLACES", requires = "seed")]
    pub asks: Option<Places>,
    /// Play the seed in fine weather.
    #[arg(long, requires = "seed")]
    pub calm: bool,
    /// Print all that happened.
    #[arg(long, requires = "seed")]
    pub tell: bool,
    /// Make this mistake on purpose.
    #[arg(long, value_name = "NAME", value_parser = words::mistake, conflicts_with = "mutants")]
    pub mutant: Option<Bug>,
    /// Make every mistake on purpose, one after the other: each has to be noticed, by the check that is meant to.
    #[arg(long, conflicts_with_all = ["seeds", "time", "resume", "grid"])]
    pub mutants: bool,
    /// Print which faults began while what was going on.
    #[arg(long, conflicts_with = "seed")]
    pub grid: bool,
    /// Write the grid into docs/simulation.md.
    #[arg(long, conflicts_with_all = ["seed", "mutants", "mutant"])]
    pub write_docs: bool,
    /// Go on where the campaign of this file stopped, and keep it up to date; begin it if there is none.
    #[arg(long, value_name = "FILE", requires = "seeds", conflicts_with = "mutant")]
    pub resume: Option<PathBuf>,
    /// Stop after so many failures, each of another check.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = words::count, conflicts_with = "seed")]
    pub failures: usize,
    /// Do not make stories smaller that fail: count them by check, and say what the first of each found.
    #[arg(long, conflicts_with = "seed")]
    pub brief: bool,
    /// How many threads play; as many as there are cores if not given.
    #[arg(long, value_name = "N", value_parser = words::count)]
    pub threads: Option<usize>,
}

impl Cli {
    /// Does what was asked.
    ///
    /// # Errors
    /// When it could not be done at all; a check that fails is no error.
    pub fn run(self) -> Result<ExitCode> {
        crate::play::need_mistakes(self.mutants || self.mutant.is_some())?;
        let holds = match self.seed {
            Some(seed) => {
                let part = Part { faults: self.faults, asks: self.asks, calm: self.calm };
                if let Err(refused) = part.fits(&Scenario::of(seed)) {
                    complain(&format!("seed {seed}: {refused}"));
                    return Ok(ExitCode::from(NO_MEANING));
                }
                report::one_seed(seed, &part, self.mutant, self.tell)
            }
            None if self.mutants => mutants::run(self.threads),
            None => campaign::run(&self)?,
        };
        Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A line for people.
#[allow(clippy::print_stdout, reason = "what this program is for")]
pub fn say(line: &str) {
    println!("{line}");
}

/// A line about what went wrong or how far things are.
#[allow(clippy::print_stderr, reason = "what this program is for")]
pub fn complain(line: &str) {
    eprintln!("ringfence-simulate: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Cli, String> {
        let words = ["sim"].into_iter().chain(words.iter().copied());
        Cli::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
        let cli = parsed(&["--seed", "7", "--faults", "0,2", "--asks", "10-12", "--tell"]).unwrap();
        assert_eq!((cli.seed, cli.faults.unwrap().to_string()), (Some(7), "0,2".to_owned()));
    }

    #[test]
    fn words_that_do_not_go_together_are_refused() {
        for wrong in [
            &["--seed", "1", "--seeds", "0..2"][..],
            &["--faults", "1"],
            &["--seeds", "5..1"],
            &["--time", "5"],
            &["--resume", "x"],
            &["--mutants", "--grid"],
            &["--mutant", "Nobody"],
            &["--seed", "1", "--asks", "x"],
            &["--failures", "0"],
            &["--threads", "0"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_was_expected() {
        let refused = parsed(&["--time", "5"]).unwrap_err();
        assert!(refused.contains("expected a time such as `90s`"), "{refused}");
    }
}
