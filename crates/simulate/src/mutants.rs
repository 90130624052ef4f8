//! Every mistake made on purpose: each has to be noticed, within its number of seeds and by the check that is meant to.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use sim::campaign::{ABSENT, ELSEWHERE, TEETH, Tooth};

use crate::cli::say;
use crate::pool::{self, Job};
use crate::words;

/// What came of a mistake.
struct Seen {
    /// The first seed in which a check failed that is meant to, and which.
    by: Option<(u64, &'static str)>,
    /// How often other checks failed before that.
    others: BTreeMap<&'static str, u64>,
    played: u64,
    seconds: f64,
}

/// Makes them all; whether each was noticed.
pub fn run(threads: Option<usize>) -> bool {
    let mut survivors = 0;
    for tooth in TEETH {
        let seen = look(tooth, pool::threads(threads));
        survivors += u64::from(seen.by.is_none());
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
    let mut seen = Seen { by: None, others: BTreeMap::new(), played: 0, seconds: 0.0 };
    let began = Instant::now();
    pool::play(&job, &mut |block| {
        seen.played += block.played;
        for failed in block.failed {
            let meant = failed.failures.iter().find(|failure| tooth.checks.contains(&failure.check));
            if let Some(failure) = meant {
                seen.by = Some((failed.seed, failure.check));
                return ControlFlow::Break(());
            }
            *seen.others.entry(failed.check()).or_default() += 1;
        }
        ControlFlow::Continue(())
    });
    seen.seconds = began.elapsed().as_secs_f64();
    seen
}

fn line(tooth: &Tooth, seen: &Seen) -> String {
    let name = words::name(tooth.bug);
    let others: Vec<String> = seen.others.iter().map(|(check, count)| format!("{check} {count} times")).collect();
    let others = if others.is_empty() { String::new() } else { format!("; before that {}", others.join(", ")) };
    let (played, seconds) = (seen.played, seen.seconds);
    match seen.by {
        Some((seed, check)) => format!("{name:<24} noticed by {check} in seed {seed}{others} ({seconds:.1} s)"),
        None => format!(
            "{name:<24} SURVIVES {played} seeds: none of {} fails{} ({seconds:.1} s)",
            tooth.checks.join(", "),
            others.replace("before that", "others do:")
        ),
    }
}

#[cfg(test)]
mod tests {
    use ownership::Bug;

    use super::*;

    fn seen(by: Option<(u64, &'static str)>, others: &[(&'static str, u64)]) -> String {
        let tooth = Tooth { bug: Bug::SuccessorFresh, checks: &["C1", "C2"], seeds: 9 };
        line(&tooth, &Seen { by, others: others.iter().copied().collect(), played: 9, seconds: 1.0 })
    }

    #[test]
    fn a_mistake_that_is_noticed_only_by_another_check_survives() {
        let line = seen(None, &[("open", 3)]);
        assert!(line.contains("SURVIVES 9 seeds: none of C1, C2 fails; others do: open 3 times"), "{line}");
        let line = seen(Some((4, "C2")), &[]);
        assert!(line.contains("noticed by C2 in seed 4 ("), "{line}");
    }
}
