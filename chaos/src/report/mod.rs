//! What a run came to, for people, for programs and for the eye: Markdown, JSON, a picture per scenario, and the page of
//! the documentation that holds the measured table.

mod docs;
mod json;
mod markdown;
mod table;
mod timeline;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sim::LimitVerdict;

use crate::trial::{Trial, kind};

pub use timeline::timeline;

/// How many violations of one kind are told in full; the others are counted.
const TOLD_MAX: usize = 3;

/// Writes `report.md` and `report.json`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write(out: &Path, trials: &[Trial]) -> Result<()> {
    put(&out.join("report.md"), &markdown::report(trials))?;
    put(&out.join("report.json"), &format!("{:#}\n", json::report(trials)))
}

/// Writes the page of the documentation; `command` is what was run.
///
/// # Errors
/// When the file cannot be written.
pub fn write_docs(path: &Path, trials: &[Trial], command: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    put(path, &docs::page(trials, command))
}

/// In the form of cargo test, so that whatever reads the last line of that can read the last line of this.
pub fn closing_line(trials: &[Trial], took: Duration) -> String {
    let failed = trials.iter().filter(|trial| !trial.failures().is_empty()).count();
    let (passed, verdict) = (trials.len() - failed, if failed == 0 { "ok" } else { "FAILED" });
    let seconds = took.as_secs_f64();
    format!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in {seconds:.2}s"
    )
}

/// What one limit's history broke: the first few of each kind in full, the rest as a number.
pub fn told_violations(verdict: &LimitVerdict) -> Vec<String> {
    let mut kinds: Vec<&'static str> = verdict.violations.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut told = Vec::new();
    for one in kinds {
        let all: Vec<_> = verdict.violations.iter().filter(|violation| kind(violation) == one).collect();
        told.extend(all.iter().take(TOLD_MAX).map(|violation| format!("{}: {one}: {violation}", verdict.limit)));
        if all.len() > TOLD_MAX {
            told.push(format!("{}: {one}: and {} more", verdict.limit, all.len() - TOLD_MAX));
        }
    }
    told
}

fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod made_up;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_cargos_and_a_trial_with_any_failure_failed() {
        let trials = [made_up::trial(), made_up::broken()];
        let line = closing_line(&trials, Duration::from_millis(1_500));
        let expected =
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s";
        assert_eq!(line, expected);
        assert!(closing_line(&trials[..1], Duration::ZERO).starts_with("test result: ok. 1 passed; 0 failed"));
    }

    #[test]
    fn many_violations_are_told_as_a_few_and_a_number() {
        let mut verdict = made_up::verdict("closed-log", limits::FailMode::Closed);
        verdict.violations = (0..9).map(|row| sim::Violation::Unjustified { row }).collect();
        let told = told_violations(&verdict);
        assert_eq!(told.len(), TOLD_MAX + 1);
        assert_eq!(told[TOLD_MAX], "closed-log: refused without need: and 6 more");
    }
}
