//! The judges of a simulated run. Each holds what happened against one promise, by that promise's name, and none believes
//! what a node says of time: real time and the course of every clock are the world's. What is judged is counted, so that a
//! judge that had nothing to judge shows.

mod c1;
mod c2;
mod charges;
mod emergency;
mod findings;
mod fullest;
mod justified;
mod liveness;
mod open;
mod proven;
mod s1;
mod s10;
mod s11;
mod s12;
mod s14;
mod s2;
mod s3;
mod s4;
mod s5;
mod story;
mod takeover_time;
#[cfg(test)]
mod telling;

use std::fmt;

use limits::Moment;

pub use findings::Findings;

use crate::world::{Run, Scenario};
use story::Story;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{check} at {:.6} s: {words}", at.as_nanos() as f64 / 1e9)]
pub struct Failure {
    /// Which promise: the name of its judge.
    pub check: &'static str,
    /// What was seen.
    pub words: String,
    /// When, in real time.
    pub at: Moment,
}

impl Failure {
    fn new(check: &'static str, at: Moment, words: impl fmt::Display) -> Failure {
        Failure { check, at, words: words.to_string() }
    }
}

/// A judge: counts what it saw, and says what it cannot accept.
type Judge = fn(&Story<'_>, &mut Findings) -> Result<(), Failure>;

/// A judge by its name, and what it must have come across in many stories to have judged anything.
struct Seat {
    name: &'static str,
    judge: Judge,
    sees: &'static [&'static str],
}

/// The judges, in the order in which they speak: who may decide before what was decided, since with two owners everything
/// else is wrong too.
const JUDGES: &[Seat] = &[
    Seat { name: "S1", judge: s1::judge, sees: &["reigns", "decisions"] },
    Seat { name: "S2", judge: s2::judge, sees: &["appointments"] },
    Seat { name: "S5", judge: s5::judge, sees: &["acts in the name of a session"] },
    Seat { name: "S12", judge: s12::judge, sees: &["answers acted on"] },
    Seat {
        name: "S4",
        judge: s4::judge,
        sees: &["leases extended", "sessions expired", "leases beyond their assumptions"],
    },
    Seat { name: "S3", judge: s3::judge, sees: &["decisions held against their lease"] },
    Seat { name: "S14", judge: s14::judge, sees: &["charges", "cancels before their question"] },
    Seat { name: "S11", judge: s11::judge, sees: &["records taken in"] },
    Seat {
        name: "S10",
        judge: s10::judge,
        sees: &["words on where records count", "charges held against what is kept"],
    },
    Seat { name: "C2", judge: c2::judge, sees: &["witnesses", "charges by witness", "keys whose amounts changed"] },
    Seat { name: "C1", judge: c1::judge, sees: &["admitted rows"] },
    Seat {
        name: "emergency",
        judge: emergency::judge,
        sees: &["units lent by emergency shares", "keys with a reserved share"],
    },
    Seat {
        name: "charges",
        judge: charges::judge,
        sees: &["admissions held against their charge", "units charged whose cancel was sent, and may have been lost"],
    },
    Seat { name: "open", judge: open::judge, sees: &["answers of open limits", "answers timed"] },
    Seat {
        name: "justified",
        judge: justified::judge,
        sees: &["denials held against an account", "denials by a takeover", "denials by what a takeover left"],
    },
    Seat {
        name: "takeover-time",
        judge: takeover_time::judge,
        sees: &["takeovers timed", "crashes of a leader timed"],
    },
    Seat {
        name: "liveness",
        judge: liveness::judge,
        sees: &["partitions after the healing", "questions after the healing", "leases that lapsed unheard"],
    },
];

/// Every judge has come across what it judges in this many stories.
pub const STORIES_TO_SEE_ALL: u64 = 4_000;

/// The names of all checks.
pub fn names() -> impl Iterator<Item = &'static str> {
    JUDGES.iter().map(|seat| seat.name)
}

/// What judges never came across, with the judge: after [`STORIES_TO_SEE_ALL`] there should be nothing, or it judged nothing.
pub fn unseen(findings: &Findings) -> impl Iterator<Item = (&'static str, &'static str)> {
    let unseen = |seat: &'static Seat| seat.sees.iter().map(|what| (seat.name, *what));
    JUDGES.iter().flat_map(unseen).filter(|(_, what)| findings.counted(what) == 0)
}

/// Judges a run of a scenario.
///
/// # Errors
///
/// The first promise that was not kept.
pub fn judge(scenario: &Scenario, run: &Run) -> Result<Findings, Failure> {
    let story = Story::read(scenario, &run.trace, &run.courses);
    let mut findings = Findings::default();
    for seat in JUDGES {
        (seat.judge)(&story, &mut findings)?;
    }
    Ok(findings)
}

/// Every promise that was not kept, the first of each: for whoever wants to know which judges see a mistake.
pub fn all_failures(scenario: &Scenario, run: &Run) -> Vec<Failure> {
    let story = Story::read(scenario, &run.trace, &run.courses);
    JUDGES.iter().filter_map(|seat| (seat.judge)(&story, &mut Findings::default()).err()).collect()
}
