//! What is held against a run: no closed limit was exceeded, no emergency share, no open limit refused for want of an
//! owner, no answer came late, and the cluster was live again in time. The judges are the simulator's.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use limits::{FailMode, Rate, Span};
use sim::judge::{Circumstances, Share};
use sim::{Clocks, Counted, Outcome, Promise, Row, Source, Terms, judge};

use crate::asking::moment;
use crate::plan::{HEAL, RATE_OFF};
use crate::play::{LIVE_WITHIN, Played};

/// By how much an answer may be later than its deadline: a hundredth of the longest, as a slow clock reads it, and a few
/// steps of the simulation.
const LATE: Span = Span::from_millis(16);

/// What runs showed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Runs.
    pub seeds: u64,
    /// Answers by who gave them and why; `silent` are those that never came.
    pub answers: BTreeMap<String, u64>,
    /// How often a node became the owner of partitions without knowing what had been used.
    pub takeovers: u64,
    /// How long it took at most until the cluster was live after the heal.
    pub live_after: Duration,
    /// What was not kept.
    pub broken: Vec<String>,
}

/// Holds a run against all that is promised.
pub fn of(played: &Played) -> Findings {
    let mut findings = Findings { seeds: 1, ..Findings::default() };
    for terms in promises() {
        findings.weigh(played, &terms);
    }
    findings.count(played);
    match played.live_after {
        Some(after) if after <= LIVE_WITHIN => findings.live_after = after,
        after => findings.broken.push(format!("live after {after:?}, and {LIVE_WITHIN:?} were due")),
    }
    findings.hold_last_rows(played);
    findings
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { seeds, answers, takeovers, live_after, broken } = self;
        write!(
            f,
            "{seeds} seeds: {takeovers} times a node took partitions over; live {live_after:?} after the heal at most; "
        )?;
        write!(f, "{} promises broken; answers:", broken.len())?;
        answers.iter().try_for_each(|(what, count)| write!(f, " {what} {count},"))
    }
}

impl Findings {
    /// These, with those of another run.
    #[must_use]
    pub fn and(mut self, other: Findings) -> Findings {
        self.seeds += other.seeds;
        self.takeovers += other.takeovers;
        self.live_after = self.live_after.max(other.live_after);
        for (what, count) in other.answers {
            *self.answers.entry(what).or_default() += count;
        }
        self.broken.extend(other.broken);
        self
    }

    fn count(&mut self, played: &Played) {
        for row in &played.rows {
            let what =
                row.answer().map_or("silent".to_owned(), |answer| format!("{} {}", answer.source, answer.reason));
            *self.answers.entry(what).or_default() += 1;
        }
        self.takeovers = played.story.iter().filter(|line| line.contains("state: WorstCase")).count() as u64;
    }

    fn weigh(&mut self, played: &Played, terms: &Terms) {
        let clocks = Clocks::within_millionths(RATE_OFF);
        let grace = |row: &Row| (row.answer().is_some() || !may_be_lost(row, &played.down)).then_some(LATE);
        let verdict = judge(&played.rows, terms, &Circumstances { clocks, grace: &grace }).unwrap();
        for violation in &verdict.violations {
            self.broken.push(format!("{}: {violation}", terms.limit));
        }
    }

    /// Asked when all should be well: somebody decides about every key, and what was busy admits again.
    fn hold_last_rows(&mut self, played: &Played) {
        let well = moment(played.placed + HEAL + LIVE_WITHIN);
        for row in played.rows.iter().filter(|row| row.invoked >= well) {
            if !row.admitted().is_some_and(|answer| answer.source.is_counted()) {
                self.broken.push(format!("all was well, and {row:?}"));
            }
        }
    }
}

/// What would be said of the limit that fails open if it were closed, and what nobody counted had been counted.
pub fn open_as_if_closed(played: &Played) -> Vec<String> {
    let mut played = Played { rows: played.rows.clone(), ..Played::default() };
    for row in &mut played.rows {
        if let Outcome::Answered(answer) = &mut row.outcome
            && answer.source == Source::Open
        {
            answer.source = Source::Owner;
        }
    }
    let open = promises().into_iter().find(|terms| terms.fail == FailMode::Open).unwrap();
    let mut findings = Findings::default();
    findings.weigh(&played, &Terms { fail: FailMode::Closed, ..open });
    findings.broken
}

/// Whether the question may have been lost with a process.
fn may_be_lost(row: &Row, down: &[(usize, Range<Duration>)]) -> bool {
    down.iter().any(|(_, down)| row.invoked <= moment(down.end) && moment(down.start) <= row.returned)
}

/// What [`crate::asking::POLICY`] promises, worked out by hand.
pub fn promises() -> Vec<Terms> {
    let rate = |amount, seconds| Rate::new(amount, Span::from_secs(seconds)).unwrap();
    let bucket = |amount, seconds| Promise { rate: rate(amount, seconds), counted: Counted::Bucket { burst: amount } };
    let log = |amount, seconds| Promise { rate: rate(amount, seconds), counted: Counted::Log };
    let terms = |limit: &str, fail, owner, share| Terms { limit: limit.into(), fail, owner, share };
    let share = Share { together: bucket(9, 2), each: bucket(3, 2) };
    vec![
        terms("bucket", FailMode::Closed, bucket(9, 6), None),
        terms("log", FailMode::Closed, log(9, 6), None),
        terms("open", FailMode::Open, log(5, 2), None),
        terms("share", FailMode::Emergency { percent: 30, reserved: true }, bucket(21, 2), Some(share)),
    ]
}
