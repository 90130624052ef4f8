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

/// The judges, in the order in which they speak: who may decide before what was decided, since with two owners everything
/// else is wrong too.
const JUDGES: &[(&str, Judge)] = &[
    ("S1", s1::judge),
    ("S2", s2::judge),
    ("S5", s5::judge),
    ("S12", s12::judge),
    ("S4", s4::judge),
    ("S3", s3::judge),
    ("S14", s14::judge),
    ("C2", c2::judge),
    ("C1", c1::judge),
    ("emergency", emergency::judge),
    ("charges", charges::judge),
    ("open", open::judge),
    ("justified", justified::judge),
    ("takeover-time", takeover_time::judge),
    ("liveness", liveness::judge),
];

/// The names of all checks.
pub fn names() -> impl Iterator<Item = &'static str> {
    JUDGES.iter().map(|(name, _)| *name)
}

/// Judges a run of a scenario.
///
/// # Errors
///
/// The first promise that was not kept.
pub fn judge(scenario: &Scenario, run: &Run) -> Result<Findings, Failure> {
    let story = Story::read(scenario, &run.trace, &run.courses);
    let mut findings = Findings::default();
    for (_, judge) in JUDGES {
        judge(&story, &mut findings)?;
    }
    Ok(findings)
}

/// Every promise that was not kept, the first of each: for whoever wants to know which judges see a mistake.
pub fn all_failures(scenario: &Scenario, run: &Run) -> Vec<Failure> {
    let story = Story::read(scenario, &run.trace, &run.courses);
    JUDGES.iter().filter_map(|(_, judge)| judge(&story, &mut Findings::default()).err()).collect()
}
