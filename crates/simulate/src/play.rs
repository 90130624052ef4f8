//! One story, played and judged. A panic on the way is a finding like any other: the machines assert what they hold to be
//! impossible.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use anyhow::{Result, bail};
use ownership::Bug;
use sim::campaign::Grid;
use sim::oracles::{Failure, Findings, all_failures, judge};
use sim::world::{Run, Scenario, play};

/// The check that a panic fails.
const PANIC: &str = "panic";

/// What came of a story.
pub struct Outcome {
    /// What happened; nothing after a panic.
    pub run: Option<Run>,
    /// What was judged, or what does not hold: the first failure of each check, in the order in which they speak.
    pub verdict: Result<Findings, Vec<Failure>>,
}

/// Plays and judges it on this thread, which carries the mistake if there is one.
pub fn story(scenario: &Scenario, bug: Option<Bug>) -> Outcome {
    carry(bug);
    be_quiet_about_panics();
    let run = panic::catch_unwind(AssertUnwindSafe(|| play(scenario)));
    let Ok(run) = run else { return Outcome { run: None, verdict: Err(vec![panicked(scenario)]) } };
    let judged = || judge(scenario, &run).map_err(|_| all_failures(scenario, &run));
    let verdict = panic::catch_unwind(AssertUnwindSafe(judged));
    let verdict = verdict.unwrap_or_else(|_| Err(vec![panicked(scenario)]));
    Outcome { run: Some(run), verdict }
}

impl Outcome {
    /// What is not accepted first.
    pub fn first(&self) -> Option<&Failure> {
        self.verdict.as_ref().err()?.first()
    }

    /// The [`first`](Outcome::first), if it is what `other` says of another story: by the same check, and for the same reason as
    /// far as words without their numbers tell; a panic at the same place.
    pub fn fails_alike(&self, other: &Failure) -> Option<&Failure> {
        let first = self.first()?;
        let place = |failure: &Failure| match failure.check {
            PANIC => failure.words.split_whitespace().next().map(str::to_owned),
            _ => None,
        };
        let alike = first.check == other.check && place(first) == place(other) && reason(first) == reason(other);
        alike.then_some(first)
    }

    /// Counts the faults that began.
    pub fn count_into(&self, scenario: &Scenario, grid: &mut Grid) {
        let Some(run) = &self.run else { return };
        let faults = scenario.faults.iter().zip(&run.phases);
        faults.for_each(|(planned, phases)| grid.add(&planned.fault, phases.as_deref()));
    }
}

/// The words that have no number in them: those with one differ from story to story.
fn reason(failure: &Failure) -> Vec<&str> {
    let has_digit = |word: &str| word.contains(|letter: char| letter.is_ascii_digit());
    failure.words.split_whitespace().filter(|word| !has_digit(word)).collect()
}

/// Refuses to go on with a build that cannot make mistakes.
///
/// # Errors
/// When one is asked for and this build carries none.
pub fn need_mistakes(asked: bool) -> Result<()> {
    if asked && !cfg!(feature = "seeded-bugs") {
        bail!("this build makes no mistakes: build it with --features seeded-bugs, as `cargo xtask sim` does");
    }
    Ok(())
}

#[cfg(feature = "seeded-bugs")]
fn carry(bug: Option<Bug>) {
    Bug::carry(bug);
}

#[cfg(not(feature = "seeded-bugs"))]
fn carry(_: Option<Bug>) {}

thread_local! {
    static LAST_WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what a panic says for the report.
fn be_quiet_about_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let place =
                info.location().map_or_else(String::new, |place| format!("{}:{}: ", place.file(), place.line()));
            let says = info.payload_as_str().unwrap_or("no words");
            LAST_WORDS.set(format!("{place}{says}"));
        }));
    });
}

fn panicked(scenario: &Scenario) -> Failure {
    Failure { check: PANIC, words: LAST_WORDS.take(), at: scenario.end_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_played_and_judged() {
        let scenario = Scenario::of(1);
        let outcome = story(&scenario, None);
        let mut grid = Grid::default();
        outcome.count_into(&scenario, &mut grid);
        assert!(outcome.run.is_some());
        assert!(grid.numbers().iter().sum::<u64>() > 0);
    }

    #[test]
    fn another_reason_another_check_and_another_place_are_not_alike() {
        let failed = |check, words: &str| Failure { check, words: words.to_owned(), at: Scenario::of(1).end_at };
        let outcome = |failure| Outcome { run: None, verdict: Err(vec![failure, failed("C1", "over by 3")]) };
        let lives = || failed("liveness", "p3 of n1 had no owner before 20ms");
        assert!(outcome(lives()).fails_alike(&failed("liveness", "p5 of n2 had no owner before 1.5s")).is_some());
        assert!(outcome(lives()).fails_alike(&failed("liveness", "p3 was never given to anybody")).is_none());
        assert!(outcome(lives()).fails_alike(&failed("C1", "over by 3")).is_none(), "it does not speak first");
        let panicked = || failed(PANIC, "src/a.rs:12: it cannot be 3");
        assert!(outcome(panicked()).fails_alike(&failed(PANIC, "src/a.rs:12: it cannot be 4")).is_some());
        assert!(outcome(panicked()).fails_alike(&failed(PANIC, "src/a.rs:13: it cannot be 3")).is_none());
    }

    #[test]
    fn a_panic_becomes_a_failure_with_its_place_and_words() {
        be_quiet_about_panics();
        let caught = panic::catch_unwind(|| assert_eq!(1, 2, "it cannot be"));
        assert!(caught.is_err());
        let failure = panicked(&Scenario::of(1));
        assert_eq!(failure.check, PANIC);
        assert!(failure.words.contains("play.rs:") && failure.words.contains("it cannot be"), "{}", failure.words);
    }
}
