//! The report of a run, to be read.

use std::fmt::Write as _;

use crate::report::table;
use crate::trial::Trial;
use crate::watch::seconds;

/// All of it.
pub fn report(trials: &[Trial]) -> String {
    let mut text = "# What broke, and what callers saw\n\n".to_owned();
    let _ = writeln!(text, "| scenario | outcome | checks | measured | stalls of the machine |\n|---|---|---|---|---|");
    for trial in trials {
        let owned: Vec<_> = trial.notes.measured.iter().map(|one| format!("{:.2} s", seconds(one.took))).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {}, longest {} ms |",
            trial.scenario.name,
            table::outcome(trial),
            trial.rows,
            owned.join(", "),
            trial.stalls.count(),
            trial.stalls.longest().as_millis_ceil()
        );
    }
    for trial in trials {
        chapter(&mut text, trial);
    }
    text
}

fn chapter(text: &mut String, trial: &Trial) {
    let _ = writeln!(text, "\n## {}: {}\n\n{}\n", trial.scenario.name, trial.scenario.event, table::outcome(trial));
    for failure in trial.failures() {
        let _ = writeln!(text, "- **{failure}**");
    }
    for claim in trial.notes.claims.iter().filter(|claim| claim.but.is_none()) {
        let _ = writeln!(text, "- {}", claim.says);
    }
    for one in &trial.notes.measured {
        let (took, bound, stalled) = (seconds(one.took), seconds(one.bound), seconds(one.stalled));
        let _ = writeln!(text, "- {} after {took:.2} s, at most {bound:.2} s and {stalled:.2} s of stalls", one.what);
    }
    let _ = writeln!(text, "\n| s | |\n|---|---|");
    for mark in &trial.notes.marks {
        let _ = writeln!(text, "| {:.3} | {} |", mark.at.as_nanos() as f64 / 1e9, mark.says);
    }
    let _ = writeln!(text, "\n| limit | fails | asked | allowed by | denied for | no answer | slowest | fullest |");
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|");
    for seen in &trial.limits {
        let verdict = &seen.verdict;
        let counts = |all: Vec<String>| if all.is_empty() { "-".to_owned() } else { all.join(", ") };
        let fullest = verdict.fullest.iter().map(|fullest| {
            let worst = &fullest.worst;
            format!(
                "{}: {} of {} ({} over, key {})",
                fullest.part,
                worst.admitted,
                worst.allowed,
                worst.excess(),
                fullest.key
            )
        });
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} ms | {} |",
            verdict.limit,
            table::fail_words(verdict.fail),
            verdict.asked,
            counts(verdict.allowed.iter().map(|(source, count)| format!("{source} {count}")).collect()),
            counts(verdict.denied.iter().map(|(reason, count)| format!("{reason} {count}")).collect()),
            verdict.silent,
            verdict.slowest.as_millis_ceil(),
            counts(fullest.collect()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up;

    #[test]
    fn a_failure_stands_in_the_report_in_bold() {
        let text = report(&[made_up::trial(), made_up::broken()]);
        assert!(text.contains("| kill-owner | passed | 300 | 3.50 s |"), "{text}");
        assert!(text.contains("- **it could not be founded**"), "{text}");
        assert!(text.contains("the owners: 40 of 40 (0 over, key key-1)"), "{text}");
    }
}
