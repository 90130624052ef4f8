//! One row per event and failure mode: what callers see, what bounds it, and what was measured.

use limits::{FailMode, Span};
use sim::{LimitVerdict, Reason, Source};

use crate::bounds::{GIVEN_AWAY, OWNED_AGAIN};
use crate::load::DEADLINE;
use crate::succession::Knows;
use crate::terms::{ROOMY_CHUNK, mode_word};
use crate::trial::{LimitSeen, Trial};
use crate::watch::seconds;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The event.
    pub event: String,
    /// The failure mode.
    pub mode: &'static str,
    /// What callers see.
    pub callers: &'static str,
    /// What bounds it.
    pub bound: String,
    /// What was measured.
    pub measured: String,
}

const MODES: [&str; 3] = ["closed", "open", "emergency"];

/// What becomes of the partitions in an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// They wait for a lease to run out, and are taken over.
    TakenOver,
    /// The same, by owners who know what was used.
    Known,
    /// They are given away as planned.
    GivenAway,
    /// They stay where they are.
    Unmoved,
    /// The same; what is lost is what they are kept in.
    Unkept,
}

fn course(trial: &Trial) -> Course {
    let known = trial.notes.successions.iter().any(|succession| succession.knows == Knows::TheRest);
    let held_to = |bound: Span| trial.notes.measured.iter().any(|measured| measured.bound == bound);
    match (held_to(OWNED_AGAIN), held_to(GIVEN_AWAY)) {
        (true, _) if known => Course::Known,
        (true, _) => Course::TakenOver,
        (false, true) => Course::GivenAway,
        (false, false) if trial.notes.has_redis => Course::Unkept,
        (false, false) => Course::Unmoved,
    }
}

/// The rows of a trial.
pub fn rows(trial: &Trial) -> Vec<Cells> {
    let course = course(trial);
    let row = |mode: &'static str| Cells {
        event: trial.scenario.event.to_owned(),
        mode,
        callers: callers(course, mode),
        bound: bound(trial, course, mode),
        measured: measured(trial, mode),
    };
    let mut rows: Vec<Cells> = MODES.into_iter().map(row).collect();
    if let Some(failure) = trial.failures().first() {
        // A page that hid it would be worth nothing.
        rows[0].measured = format!("**not kept**: {failure}; {}", rows[0].measured);
    }
    rows
}

fn callers(course: Course, mode: &str) -> &'static str {
    match (course, mode) {
        (Course::TakenOver, "closed") => {
            "denied, `unavailable`, until somebody owns the key again; then `recovering`, until what may have been used \
             has passed"
        }
        (Course::TakenOver, "open") => "allowed, source `open`, until somebody owns the key again; then afresh",
        (Course::TakenOver, _) => {
            "a share of the limit from the node that was asked, source `emergency`; beyond it `unavailable`; then \
             `recovering`"
        }
        (Course::Known, "closed") => {
            "denied, `unavailable`, until somebody owns the key again; then what was left, less a chunk at most; \
             `recovering` where that chunk alone refuses"
        }
        (Course::Known, "open") => {
            "allowed, source `open`, until somebody owns the key again; then what was left when it was written down last"
        }
        (Course::Known, _) => {
            "a share of the limit from the node that was asked, source `emergency`; beyond it `unavailable`; then what was \
             left, less a chunk at most"
        }
        (Course::GivenAway, "open") => "answers of the new owner, which begins afresh",
        (Course::GivenAway, _) => "answers of the new owner; `recovering`, until what may have been used has passed",
        (Course::Unmoved, "closed") => "denied, `unavailable`, where no owner answers in time",
        (Course::Unmoved, "open") => "allowed, source `open`, where no owner answers in time",
        (Course::Unmoved, _) => "a share of the limit, source `emergency`, where no owner answers in time",
        (Course::Unkept, "open") => "answers of the owner",
        (Course::Unkept, "closed") => {
            "answers of the owner; `unavailable` for a key that outruns what was written for it, until nodes know that \
             nothing counts, and for moments while it is written anew"
        }
        (Course::Unkept, _) => {
            "answers of the owner; a share of the limit for a key that outruns what was written for it, until nodes know \
             that nothing counts, and for moments while it is written anew"
        }
    }
}

fn bound(trial: &Trial, course: Course, mode: &str) -> String {
    let mut times: Vec<String> = Vec::new();
    for one in &trial.notes.measured {
        let time = format!("{} within {:.2} s; ", one.what, seconds(one.bound));
        // What is measured twice is held to the same.
        if !times.contains(&time) {
            times.push(time);
        }
    }
    let times = times.concat();
    let lost = match course {
        Course::Unmoved | Course::Unkept => "",
        Course::TakenOver | Course::GivenAway => " and what was lost, once",
        Course::Known => " and what was not written, or lost with Redis, once",
    };
    let deadline = DEADLINE.as_millis();
    match mode {
        "closed" if course == Course::Known => format!("{times}0 over; a chunk fewer, {ROOMY_CHUNK} of 1,200"),
        "closed" => format!("{times}0 over"),
        "open" if course == Course::Unkept => format!("every answer within {deadline} ms; 0 over"),
        "open" => format!("every answer within {deadline} ms; over by what is asked meanwhile{lost}"),
        _ => "the share, 30 %, of all nodes together".to_owned(),
    }
}

fn measured(trial: &Trial, mode: &str) -> String {
    let seen: Vec<&LimitSeen> = trial.limits.iter().filter(|seen| mode_word(seen.verdict.fail) == mode).collect();
    let verdicts: Vec<&LimitVerdict> = seen.iter().map(|seen| &seen.verdict).collect();
    let denied = |reason: Reason| verdicts.iter().filter_map(|one| one.denied.get(&reason)).sum::<u64>();
    let allowed = |source: Source| verdicts.iter().filter_map(|one| one.allowed.get(&source)).sum::<u64>();
    let asked: u64 = verdicts.iter().map(|one| one.asked).sum();
    let silent: u64 = verdicts.iter().map(|one| one.silent).sum();
    let slowest = verdicts.iter().map(|one| one.slowest).max().unwrap_or(Span::ZERO);
    let degraded = seen.iter().map(|seen| seen.degraded_for).max().unwrap_or(Span::ZERO);
    let owned = trial.notes.measured.iter().map(|one| format!("{} after {:.2} s", one.what, seconds(one.took)));
    let mut times: Vec<String> = if mode == "closed" { owned.collect() } else { Vec::new() };
    let mut counts = Vec::new();
    let mut count = |number: u64, what: &str| {
        if number > 0 {
            counts.push(format!("{number} {what}"));
        }
    };
    count(denied(Reason::Unavailable), "`unavailable`");
    count(denied(Reason::Recovering), "`recovering`");
    count(allowed(Source::Open), "let pass");
    count(allowed(Source::Emergency), "from the shares");
    count(silent, "without an answer");
    if counts.is_empty() {
        counts.push("all answered by owners".to_owned());
    }
    times.push(format!("of {asked}: {}", counts.join(", ")));
    let facts = trial.notes.facts.iter().filter(|_| mode == "closed").cloned();
    let tail = [
        Some(format!("the last after {:.2} s", seconds(degraded))).filter(|_| degraded > Span::ZERO),
        Some(over(&verdicts)),
        Some(format!("slowest answer {} ms", slowest.as_millis_ceil())),
    ];
    times.into_iter().chain(tail.into_iter().flatten()).chain(facts).collect::<Vec<_>>().join("; ")
}

/// By how much the fullest stretch was over, and how full it was.
fn over(verdicts: &[&LimitVerdict]) -> String {
    let excess = verdicts.iter().map(|one| one.excess()).max().unwrap_or(0);
    let is_share = |part: &sim::judge::Part| *part == sim::judge::Part::Share;
    let shares = verdicts.iter().flat_map(|one| &one.fullest).filter(|fullest| is_share(&fullest.part));
    let fullest = shares.max_by_key(|fullest| fullest.worst.admitted * 100 / fullest.worst.allowed.max(1));
    match fullest {
        Some(fullest) => format!(
            "{excess} over; a share at its fullest gave {} of {}",
            fullest.worst.admitted, fullest.worst.allowed
        ),
        None => format!("{excess} over"),
    }
}

/// The word for an outcome.
pub fn outcome(trial: &Trial) -> &'static str {
    if trial.failures().is_empty() { "passed" } else { "FAILED" }
}

/// How a failure mode is written in the policy.
pub fn fail_words(fail: FailMode) -> String {
    match fail {
        FailMode::Closed => "closed".to_owned(),
        FailMode::Open => "open".to_owned(),
        FailMode::Emergency { percent, reserved: false } => format!("emergency {percent} %"),
        FailMode::Emergency { percent, reserved: true } => format!("emergency {percent} %, reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up;

    #[test]
    fn a_trial_is_one_row_per_mode_with_its_figures() {
        let rows = rows(&made_up::trial());
        assert_eq!(rows.iter().map(|row| row.mode).collect::<Vec<_>>(), MODES);
        assert_eq!(rows[0].bound, "owned again within 4.65 s; 0 over");
        assert_eq!(
            rows[0].measured,
            "owned again after 3.50 s; of 100: 20 `unavailable`; the last after 3.60 s; 0 over; slowest answer 240 ms"
        );
        assert!(rows[1].measured.contains("of 100: 9 let pass"), "{}", rows[1].measured);
        assert!(rows[2].measured.contains("a share at its fullest gave 11 of 12"), "{}", rows[2].measured);
    }

    #[test]
    fn owners_who_know_have_other_words_and_their_facts() {
        let mut trial = made_up::trial();
        let victims = std::collections::BTreeSet::from(["n2".to_owned()]);
        let succession = crate::succession::Succession { at: limits::Moment::ZERO, victims, knows: Knows::TheRest };
        (trial.notes.has_redis, trial.notes.successions) = (true, vec![succession]);
        trial.notes.facts = vec!["9 more admitted".to_owned()];
        let known = rows(&trial);
        assert_eq!(known[0].bound, "owned again within 4.65 s; 0 over; a chunk fewer, 24 of 1,200");
        assert!(known[0].measured.ends_with("; 9 more admitted") && !known[1].measured.contains("9 more"));
        trial.notes.measured.clear();
        assert!(rows(&trial)[0].callers.starts_with("answers of the owner"));
    }

    #[test]
    fn a_promise_that_was_not_kept_stands_in_the_table() {
        let rows = rows(&made_up::broken());
        assert!(rows[0].measured.starts_with("**not kept**: it could not be founded"), "{}", rows[0].measured);
        assert_eq!(rows[0].bound, "0 over", "nothing was taken over");
    }
}
