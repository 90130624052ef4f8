//! Every mistake made on purpose: each has to be noticed, within its number of seeds and by the check that is meant to.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use sim::campaign::{ABSENT, ELSEWHERE, TEETH, Tooth};

use crate::cli::say;
use crate::pool::{self, Failed, Job};
use crate::words;

/// What came of a mistake.
struct Seen {
    /// Of the checks that are meant to fail, the first seed in which each did.
    by: BTreeMap<&'static str, u64>,
    /// How often other checks failed before all of them had.
    others: BTreeMap<&'static str, u64>,
    played: u64,
    seconds: f64,
}

impl Seen {
    /// The checks that were meant to fail and did not.
    fn missing(&self, tooth: &Tooth) -> Vec<&'static str> {
        tooth.checks.iter().copied().filter(|check| !self.by.contains_key(check)).collect()
    }

    fn note(&mut self, tooth: &Tooth, failed: &Failed) {
        let mut meant = false;
        for failure in failed.failures.iter().filter(|failure| tooth.checks.contains(&failure.check)) {
            self.by.entry(failure.check).or_insert(failed.seed);
            meant = true;
        }
        if !meant {
            *self.others.entry(failed.check()).or_default() += 1;
        }
    }
}

/// Makes them all; whether each was noticed.
pub fn run(threads: Option<usize>) -> bool {
    let mut survivors = 0;
    for tooth in TEETH {
        let seen = look(tooth, pool::threads(threads));
        survivors += u64::from(!seen.missing(tooth).is_empty());
        say(&line(tooth, &seen));
    }
    ELSEWHERE.iter().for_each(|(what, place)| say(&format!("elsewhere: {what}: {place}")));
    ABSENT.iter().for_each(|what| say(&format!("absent, since the part is: {what}")));
    let noticed = TEETH.len() as u64 - survivors;
    let verdict = if survivors == 0 { "ok" } else { "FAILED" };
    say(&format!("test result: {verdict}. {noticed} passed; {survivors} failed; 0 ignored; mistakes made on purpose"));
    survivors == 0
}

fn look(tooth: &Tooth, threads: usize) -> Seen {
    let job = Job { seeds: 0..tooth.seeds, until: None, bug: Some(tooth.bug), threads };
    let mut seen = Seen { by: BTreeMap::new(), others: BTreeMap::new(), played: 0, seconds: 0.0 };
    let began = Instant::now();
    pool::play(&job, &mut |block| {
        seen.played += block.played;
        for failed in &block.failed {
            seen.note(tooth, failed);
            if seen.missing(tooth).is_empty() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    seen.seconds = began.elapsed().as_secs_f64();
    seen
}

fn line(tooth: &Tooth, seen: &Seen) -> String {
    let name = words::name(tooth.bug);
    let others: Vec<String> = seen.others.iter().map(|(check, count)| format!("{check} {count} times")).collect();
    let others = if others.is_empty() { String::new() } else { format!("; others fail: {}", others.join(", ")) };
    let by: Vec<String> = seen.by.iter().map(|(check, seed)| format!("{check} in seed {seed}")).collect();
    let (by, missing) = (by.join(", "), seen.missing(tooth).join(", "));
    let (played, seconds) = (seen.played, seen.seconds);
    match (missing.is_empty(), by.is_empty()) {
        (true, _) => format!("{name:<24} noticed by {by}{others} ({seconds:.1} s)"),
        (false, true) => {
            format!("{name:<24} SURVIVES {played} seeds: missed by {missing}{others} ({seconds:.1} s)")
        }
        (false, false) => {
            format!("{name:<24} SURVIVES {played} seeds: missed by {missing}, noticed by {by}{others} ({seconds:.1} s)")
        }
    }
}

#[cfg(test)]
mod tests {
    use ownership::Bug;

    use super::*;

    fn seen(by: &[(&'static str, u64)], others: &[(&'static str, u64)]) -> String {
        let tooth = Tooth { bug: Bug::SuccessorFresh, checks: &["C1", "C2"], seeds: 9 };
        let (by, others) = (by.iter().copied().collect(), others.iter().copied().collect());
        line(&tooth, &Seen { by, others, played: 9, seconds: 1.0 })
    }

    #[test]
    fn a_mistake_that_one_of_its_checks_does_not_notice_survives() {
        let line = seen(&[], &[("open", 3)]);
        assert!(line.contains("SURVIVES 9 seeds: missed by C1, C2; others fail: open 3 times"), "{line}");
        let line = seen(&[("C2", 4)], &[]);
        assert!(line.contains("SURVIVES 9 seeds: missed by C1, noticed by C2 in seed 4 ("), "{line}");
        let line = seen(&[("C2", 4), ("C1", 5)], &[]);
        assert!(line.contains("noticed by C1 in seed 5, C2 in seed 4 ("), "{line}");
    }
}
