//! A run: the scenarios one after the other, each told in a line, then the reports and a last line that reads as cargo
//! test's.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::cli::{RunWords, say};
use crate::needs::Found;
use crate::scenarios::{self, Scenario};
use crate::stage::NODES;
use crate::trial::{self, Options, Trial};
use crate::watch::seconds;
use crate::{net, report};

/// The page that `--write-docs` writes.
const DOCS: &str = "docs/failures.md";

/// The scenarios of these names; all of them for no names.
///
/// # Errors
/// When there is none of such a name.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(scenarios::ALL.iter().collect());
    }
    let find = |name: &String| match scenarios::named(name) {
        Some(scenario) => Ok(scenario),
        None => bail!("no scenario `{name}`; `ringfence-chaos list` names them"),
    };
    names.iter().map(find).collect()
}

/// Runs them, inside the cage.
///
/// # Errors
/// When the stage cannot be set for any of them.
pub fn run(chosen: &[&'static Scenario], words: &RunWords, found: &Found) -> Result<ExitCode> {
    let began = Instant::now();
    let program = program(words.program.as_deref())?;
    std::fs::create_dir_all(&words.out).with_context(|| format!("making {}", words.out.display()))?;
    let out = words.out.canonicalize().with_context(|| format!("finding {}", words.out.display()))?;
    net::lay(NODES)?;
    let options = Options { program: &program, out: &out, faketime: &found.faketime };
    let mut trials = Vec::new();
    for scenario in chosen {
        say(&format!("chaos: {}: {} ...", scenario.name, scenario.event));
        let trial = trial::run(scenario, &options);
        tell(&trial);
        trials.push(trial);
    }
    report::write(&out, &trials)?;
    if words.write_docs {
        report::write_docs(Path::new(DOCS), &trials, &command(words))?;
    }
    say(&format!("chaos: reports, histories, logs and pictures: {}", words.out.display()));
    say(&report::closing_line(&trials, began.elapsed()));
    let failed = trials.iter().any(|trial| !trial.failures().is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn tell(trial: &Trial) {
    let failures = trial.failures();
    for failure in &failures {
        say(&format!("chaos: {}: {failure}", trial.scenario.name));
    }
    let owned = trial.notes.measured.iter().map(|one| format!("{} after {:.2} s", one.what, seconds(one.took)));
    let facts: Vec<String> = owned.chain([format!("{} checks", trial.rows)]).collect();
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    let took = trial.took.as_secs_f64();
    say(&format!("chaos: {}: {verdict}, {took:.1} s: {}", trial.scenario.name, facts.join(", ")));
}

/// The node's program, by default the one that was built beside this one.
///
/// # Errors
/// When there is none.
pub fn program(told: Option<&Path>) -> Result<PathBuf> {
    let program = match told {
        Some(path) => path.to_owned(),
        None => env::current_exe().context("where this program lies")?.with_file_name("ringfence"),
    };
    let shown = program.display();
    program.canonicalize().with_context(|| format!("the node's program, {shown}: build it, or say --program"))
}

/// What was run, as somebody would type it.
fn command(words: &RunWords) -> String {
    let only = words.only.iter().map(|name| format!(" --only {name}")).collect::<String>();
    format!("cargo xtask chaos run{only} --write-docs")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn scenarios_are_chosen_by_name_and_a_wrong_one_is_told() {
        assert_eq!(chosen(&[]).unwrap().len(), scenarios::ALL.len());
        assert_eq!(chosen(&["freeze".into()]).unwrap()[0].name, "freeze");
        let Err(error) = chosen(&["frost".into()]) else { panic!("there is no such scenario") };
        assert_eq!(error.to_string(), "no scenario `frost`; `ringfence-chaos list` names them");
    }
}
