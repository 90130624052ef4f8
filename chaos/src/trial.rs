//! One scenario from beginning to end: a cluster, its load, the script, the recovery, and the judgement of what callers
//! saw.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use limits::{FailMode, Moment, Span};
use sim::judge::Circumstances;
use sim::{Clocks, LimitVerdict, Outcome, Reason, Row, Source, Violation, judge};

use crate::bounds::OWNED_AGAIN;
use crate::keys::{self, Chosen};
use crate::net::{self, Host};
use crate::node_file::name;
use crate::scenarios::Scenario;
use crate::serving::Serving;
use crate::stage::{Claim, DURABLE, NODES, Notes, Stage};
use crate::stalls::Stalls;
use crate::terms::{self, LEDGER, ROOMY};
use crate::{history_file, report, succession};

/// How long the load runs before anything breaks: long enough to use every limit up.
const WARM: Duration = Duration::from_millis(3_500);

/// How long a cluster that is whole again is watched.
const WHOLE: Duration = Duration::from_millis(2_500);

/// From when on a cluster that is whole again has to answer as if nothing had happened.
const WHOLE_AFTER: Span = Span::from_millis(500);

/// How far edges of aligned windows may lie from where the suite's wall clock has them: cluster time is steered, and
/// owners agree on it within 100 ms.
const EDGES_UNSURE: Span = Span::from_millis(300);

/// A limit that fails open and of which nothing outlives its owner, Redis or not.
const CONTROL: &str = "open-pressed";

/// Marks of a cluster that is waited for; the first other one is the first fault.
const BEFORE_THE_FAULT: [&str; 2] = ["settled", DURABLE];

/// What is needed to run scenarios.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The node's program.
    pub program: &'a Path,
    /// Where scenarios leave what they saw.
    pub out: &'a Path,
    /// faketime's library.
    pub faketime: &'a Path,
}

/// What a scenario came to.
pub struct Trial {
    /// Which.
    pub scenario: &'static Scenario,
    /// What the script wrote down; claims of the judgement included.
    pub notes: Notes,
    /// What was seen of each limit.
    pub limits: Vec<LimitSeen>,
    /// Questions asked.
    pub rows: usize,
    /// What the machine kept from running.
    pub stalls: Stalls,
    /// Why it could not be carried out; nothing above is complete then.
    pub broken: Option<String>,
    /// How long all of it took.
    pub took: Duration,
}

/// What was seen of a limit.
pub struct LimitSeen {
    /// Held against its promises.
    pub verdict: LimitVerdict,
    /// From the first break until the last answer that no owner gave.
    pub degraded_for: Span,
    /// How many answers no owner gave.
    pub degraded: u64,
}

impl Trial {
    /// Everything that was not as it ought to be, in words.
    pub fn failures(&self) -> Vec<String> {
        let claims = self.notes.claims.iter();
        let claims = claims.filter_map(|claim| claim.but.as_ref().map(|but| format!("{}: {but}", claim.says)));
        let times = self.notes.measured.iter().filter(|measured| !measured.holds());
        let times = times.map(|late| {
            format!("{} took {}, at most {} and {} of stalls", late.what, late.took, late.bound, late.stalled)
        });
        let violations = self.limits.iter().flat_map(|seen| report::told_violations(&seen.verdict));
        self.broken.iter().cloned().chain(claims).chain(times).chain(violations).collect()
    }
}

/// Carries a scenario out.
pub fn run(scenario: &'static Scenario, options: &Options<'_>) -> Trial {
    let began = Instant::now();
    let mut trial = Trial {
        scenario,
        notes: Notes::default(),
        limits: Vec::new(),
        rows: 0,
        stalls: Stalls::default(),
        broken: None,
        took: Duration::ZERO,
    };
    if let Err(error) = carry_out(&mut trial, options) {
        trial.broken = Some(format!("{error:#}"));
    }
    trial.took = began.elapsed();
    trial
}

fn carry_out(trial: &mut Trial, options: &Options<'_>) -> Result<()> {
    let folder = options.out.join(trial.scenario.name);
    let mut stage = Stage::set(&folder, options.program)?;
    (trial.scenario.prepare)(&mut stage, options.faketime)?;
    stage.found().context("founding the cluster")?;
    let callers = stage.callers()?;
    let watch = stage.watch;
    let terms = terms::of_policy(stage.policy(), NODES as u64, &|period| watch.edges(period, EDGES_UNSURE))?;
    let limits: Vec<Arc<str>> = terms.iter().map(|terms| Arc::clone(&terms.limit)).collect();
    let chosen = keys::choose(&callers, &limits)?;
    let load = callers.ask(chosen.iter().map(|chosen| chosen.stream.clone()).collect(), watch);
    stage.pass(WARM);
    let script = (trial.scenario.script)(&mut stage).context("the script");
    let settled = script.and_then(|()| stage.settle().context("after the script"));
    if settled.is_ok() {
        stage.pass(WHOLE);
    }
    let rows = callers.finish(load);
    for host in (0..NODES).map(Host::Node).chain((0..net::STORES).map(Host::Store)) {
        net::heal(host)?;
    }
    history_file::write(&folder.join("history.jsonl"), &rows)?;
    let Stage { notes, sleeper, .. } = &mut stage;
    trial.notes = std::mem::take(notes);
    trial.stalls = std::mem::replace(sleeper, crate::stalls::Sleeper::start(watch)).finish();
    trial.rows = rows.len();
    judge_all(trial, &rows, &terms, stage.serving())?;
    report::timeline(trial, &rows).map(|picture| std::fs::write(folder.join("timeline.svg"), picture)).transpose()?;
    let whole = settled?;
    claim_whole(trial, &rows, whole);
    claim_felt(trial, &rows);
    claim_unmoved(trial, &rows);
    claim_alone(trial, &rows);
    claim_known(trial, &rows);
    claim_free(trial, &rows);
    if trial.scenario.spares {
        claim_spared(trial, &rows, &chosen);
    }
    Ok(())
}

fn judge_all(trial: &mut Trial, rows: &[Row], terms: &[sim::Terms], serving: &[Serving]) -> Result<()> {
    let stalls = trial.stalls.clone();
    let owed = |row: &Row| serving.iter().any(|node| node.covers(row.invoked, row.returned));
    let stalled = |row: &Row| stalls.within(row.invoked, row.returned);
    // A caller that gave up at its deadline cannot know what would have come within the stall.
    let unproven = |row: &Row| matches!(row.outcome, Outcome::Silent(_)) && stalled(row) > Span::ZERO;
    let grace = |row: &Row| if owed(row) && !unproven(row) { Some(stalled(row)) } else { None };
    let clocks = Clocks::within_millionths(trial.notes.clocks_off);
    let broke = trial.notes.marks.iter().find(|mark| !BEFORE_THE_FAULT.contains(&&*mark.says)).map(|mark| mark.at);
    for terms in terms {
        let verdict = judge(rows, terms, &Circumstances { clocks, grace: &grace })?;
        let degraded = rows.iter().filter(|row| row.limit == terms.limit && is_degraded(row));
        let last = degraded.clone().map(|row| row.returned).max();
        let degraded_for = last.zip(broke).map_or(Span::ZERO, |(last, broke)| last.since(broke));
        let degraded = degraded.count() as u64;
        claim_pressed(&mut trial.notes, &verdict);
        trial.limits.push(LimitSeen { verdict, degraded_for, degraded });
    }
    let unknown =
        rows.iter().filter(|row| matches!(&row.outcome, Outcome::Silent(why) if why.contains("unknown-domain")));
    let but = Some(unknown.count()).filter(|count| *count > 0).map(|count| format!("{count} answers say so"));
    trial.notes.claims.push(Claim { says: "no node forgets its policies".into(), but });
    Ok(())
}

/// Whether no owner stands behind an answer.
fn is_degraded(row: &Row) -> bool {
    row.answer().is_none_or(|answer| answer.degraded || answer.reason == Reason::Unavailable)
}

/// A load that does not use its limits up proves nothing about them.
fn claim_pressed(notes: &mut Notes, verdict: &LimitVerdict) {
    if verdict.fail == FailMode::Closed && ![LEDGER, ROOMY].contains(&&*verdict.limit) {
        let refused = verdict.denied.get(&Reason::Limit).copied().unwrap_or(0);
        let but = Some("nobody was refused for it".to_owned()).filter(|_| refused == 0);
        notes.claims.push(Claim { says: format!("the load uses {} up", verdict.limit), but });
    }
}

/// A cluster that is whole again answers as if nothing had happened.
fn claim_whole(trial: &mut Trial, rows: &[Row], whole: Moment) {
    let from = whole.saturating_add(WHOLE_AFTER);
    let after: Vec<&Row> = rows.iter().filter(|row| row.invoked >= from).collect();
    claim_answered(trial, &after, "once whole again, owners answer everything");
}

/// While Redis is away nobody waits for it, and nobody is over for it.
fn claim_free(trial: &mut Trial, rows: &[Row]) {
    let Some((from, until)) = trial.notes.away else { return };
    let during: Vec<&Row> = rows.iter().filter(|row| row.invoked >= from && row.returned <= until).collect();
    claim_answered(trial, &during, "while nothing that is kept counts, owners answer everything");
    let excess = trial.limits.iter().map(|seen| seen.verdict.excess()).max().unwrap_or(0);
    let but = Some(format!("one was over by {excess}")).filter(|_| excess > 0);
    trial.notes.claims.push(Claim { says: "no limit is over, open ones neither".into(), but });
}

fn claim_answered(trial: &mut Trial, rows: &[&Row], says: &str) {
    let odd =
        rows.iter().filter(|row| is_degraded(row) && trial.stalls.within(row.invoked, row.returned) == Span::ZERO);
    let odd: Vec<_> = odd.collect();
    let but = match (rows.len(), odd.first()) {
        (0, _) => Some("nothing was asked".to_owned()),
        (_, Some(first)) => Some(format!("{} of {} answers, such as {:?}", odd.len(), rows.len(), first.outcome)),
        (_, None) => None,
    };
    trial.notes.claims.push(Claim { says: says.into(), but });
}

/// Where nobody had to be replaced, nobody may have to guess what was used.
fn claim_unmoved(trial: &mut Trial, rows: &[Row]) {
    if trial.notes.is_unmoved {
        let guessed = rows.iter().filter(|row| row.denied().is_some_and(|answer| answer.reason == Reason::Recovering));
        let but = Some(guessed.count()).filter(|count| *count > 0).map(|count| format!("{count} answers say so"));
        trial.notes.claims.push(Claim { says: "no key is read as used up for want of knowledge".into(), but });
    }
}

/// A node without a quorum answers each limit by its failure mode.
fn claim_alone(trial: &mut Trial, rows: &[Row]) {
    let Some((from, until)) = trial.notes.alone else { return };
    let during = rows.iter().filter(|row| row.invoked >= from && row.returned <= until).filter_map(Row::answer);
    let (mut refused, mut passed, mut odd) = (0, 0, 0);
    for answer in during {
        match (answer.allowed, answer.reason, answer.source) {
            (false, Reason::Unavailable, _) => refused += 1,
            (true, _, Source::Open) => passed += 1,
            _ => odd += 1,
        }
    }
    let but = Some(format!("{refused} refused, {passed} let pass, {odd} answered otherwise"));
    let but = but.filter(|_| refused == 0 || passed == 0 || odd > 0);
    trial.notes.claims.push(Claim { says: "alone, a node answers by failure mode and nothing else".into(), but });
}

/// Where what was used outlives its owner, the next one knows it; and where it cannot be known, nobody guesses.
fn claim_known(trial: &mut Trial, rows: &[Row]) {
    for succession in std::mem::take(&mut trial.notes.successions) {
        let found = succession::hold(rows, &succession);
        let but = found.as_ref().err().cloned();
        trial.notes.claims.push(Claim { says: succession.promise().into(), but });
        trial.notes.facts.extend(found.ok());
        trial.notes.successions.push(succession);
    }
}

/// Where somebody had to be replaced, callers must have felt it, or the fault was none.
fn claim_felt(trial: &mut Trial, rows: &[Row]) {
    if trial.notes.measured.iter().all(|measured| measured.bound != OWNED_AGAIN) {
        return;
    }
    let but = Some("every answer came from an owner".to_owned()).filter(|_| !rows.iter().any(is_degraded));
    trial.notes.claims.push(Claim { says: "callers felt it".into(), but });
    if trial.notes.victims.len() < NODES {
        claim_shared(trial);
        claim_keen(trial);
    }
}

/// Nodes that lived on have had time to fill their shares, and give from them.
fn claim_shared(trial: &mut Trial) {
    let given = trial.limits.iter().filter_map(|seen| seen.verdict.allowed.get(&Source::Emergency)).sum::<u64>();
    let but = Some("they gave nothing".to_owned()).filter(|_| given == 0);
    trial.notes.claims.push(Claim { says: "emergency shares are used".into(), but });
}

/// The proof that the checker sees: a limit that fails open starts afresh with its new owner, as it may, and a limit that
/// fails closed would show just so if its new owner forgot what was used.
fn claim_keen(trial: &mut Trial) {
    let control = trial.limits.iter().find(|seen| &*seen.verdict.limit == CONTROL);
    let excess = control.map_or(0, |seen| seen.verdict.excess());
    let but = Some(format!("{CONTROL} was over by {excess}")).filter(|_| excess == 0);
    trial.notes.claims.push(Claim { says: "the checker sees a new owner that starts afresh".into(), but });
}

/// Keys whose owner was not touched are answered by it, whoever was asked.
fn claim_spared(trial: &mut Trial, rows: &[Row], chosen: &[Chosen]) {
    let victims: Vec<String> = trial.notes.victims.iter().map(|node| name(*node)).collect();
    let is_spared = |row: &Row| {
        let of = chosen.iter().find(|chosen| chosen.stream.limit == row.limit && chosen.stream.key == row.key);
        of.is_some_and(|chosen| !victims.contains(&chosen.owner))
    };
    let still = |row: &Row| trial.stalls.within(row.invoked, row.returned) > Span::ZERO;
    let odd: Vec<_> = rows.iter().filter(|row| is_spared(row) && is_degraded(row) && !still(row)).collect();
    let but = odd.first().map(|first| format!("{} answers were not the owner's, such as {first:?}", odd.len()));
    trial.notes.claims.push(Claim { says: "keys of the other owners are answered by their owners".into(), but });
}

/// The kinds of violations, for counting.
pub fn kind(violation: &Violation) -> &'static str {
    match violation {
        Violation::Over(_) => "over the limit",
        Violation::OpenRefused { .. } => "open, and refused",
        Violation::Unjustified { .. } => "refused without need",
        Violation::Late { .. } => "late",
        Violation::NoDecision { .. } => "no decision",
    }
}
