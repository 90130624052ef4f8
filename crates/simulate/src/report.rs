//! What is said about a story that fails: which check and why, the story made as small as it gets, its last events, and
//! the command that tells it again.

use ownership::Bug;
use sim::campaign::{Part, shrink, story};
use sim::oracles::Failure;
use sim::world::{Run, Scenario};

use crate::cli::say;
use crate::play;
use crate::words;

/// Events that are shown of a failure, the last ones before it.
const EVENTS_SHOWN: usize = 40;

/// Asks that are told one by one.
const ASKS_TOLD: usize = 60;

/// Plays one seed, or a part of it, and says what came of it; whether everything holds.
pub fn one_seed(seed: u64, part: &Part, bug: Option<Bug>, tell: bool) -> bool {
    let scenario = part.of(&Scenario::of(seed));
    let outcome = play::story(&scenario, bug);
    if tell {
        say(&format!("seed {seed}\n{}", story::told(&scenario, ASKS_TOLD)));
        scenario.policies.iter().enumerate().for_each(|(number, text)| say(&format!("document {number}\n{text}")));
        outcome.run.iter().flat_map(|run| &run.trace).for_each(|entry| say(&entry.to_string()));
    }
    match &outcome.verdict {
        Ok(findings) => {
            say(&format!("seed {seed}{part}: everything holds\n{findings}"));
            true
        }
        Err(failures) => {
            failures.iter().for_each(|failure| say(&headline(seed, failure)));
            if part.is_whole() && !tell {
                failure(seed, bug);
            } else if let (Some(first), Some(run)) = (failures.first(), &outcome.run) {
                say(&last_events(run, first));
            }
            false
        }
    }
}

/// Makes a story smaller in which something fails, and tells it. What is left fails as the whole does: by the same check,
/// and for the same reason as far as its words tell.
pub fn failure(seed: u64, bug: Option<Bug>) {
    let whole = Scenario::of(seed);
    let failed = play::story(&whole, bug);
    let Some(failure) = failed.first() else { return };
    say(&headline(seed, failure));
    let shrunk = shrink(&whole, failure.at, &mut |scenario| {
        play::story(scenario, bug).fails_alike(failure).map(|failure| failure.at)
    });
    let part = shrunk.part.of(&whole);
    say(&format!(
        "made smaller by playing {} stories: {} of {} faults, {} of {} asks",
        shrunk.tries,
        part.faults.len(),
        whole.faults.len(),
        part.asks.len(),
        whole.asks.len()
    ));
    say(&story::told(&part, ASKS_TOLD));
    let outcome = play::story(&part, bug);
    if let (Some(smaller), Some(run)) = (outcome.fails_alike(failure), &outcome.run) {
        say(&headline(seed, smaller));
        say(&last_events(run, smaller));
    }
    let mutant = bug.map_or_else(String::new, |bug| format!(" --mutant {}", words::name(bug)));
    say(&format!("play it again:   cargo xtask sim --seed {seed}{}{mutant}", shrunk.part));
    say("see all of it:   the same with --tell");
}

/// Which check fails in the seed, when, and why.
pub fn headline(seed: u64, failure: &Failure) -> String {
    let Failure { check, words, at } = failure;
    format!("seed {seed} fails: {check}, at {}\n  {words}", story::At(*at))
}

/// The last events before the failure, and the few at the very moment.
fn last_events(run: &Run, failure: &Failure) -> String {
    let until = run.trace.partition_point(|entry| entry.at <= failure.at);
    let from = until.saturating_sub(EVENTS_SHOWN);
    let lines: Vec<String> = run.trace[from..until].iter().map(|entry| format!("  {entry}")).collect();
    format!("the last events before it:\n{}", lines.join("\n"))
}
