//! C1, the black box: what callers were let pass with by owners. A question was decided at some moment between its two
//! ends, so whatever lies wholly inside a stretch was admitted in it. Both ends are read on the partition's own clock, by
//! its course, so that nothing has to be allowed for clocks that run apart. It believes no owner's word for when it decided.

use std::collections::BTreeMap;

use limits::{Algorithm, Align, Basis, Moment, Shape, Span};
use ownership::{CheckId, Epoch};

use super::fullest::CLUSTER_TIME_PPM;
use super::story::{Account, Key, Story};
use super::{Failure, Findings};
use crate::c1::{Admitted, worst};
use crate::clocks::Clocks;
use crate::promise::Promise;
use crate::world::trace::{LegTold, Told};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let decisions = by_question(story);
    let mut rows: BTreeMap<Key, Vec<Counted>> = BTreeMap::new();
    for (at, told) in &story.told {
        findings.count("rows", 1);
        let decision = told.decision.as_ref().filter(|decision| decision.allowed);
        let legs = decision.iter().flat_map(|decision| &decision.legs);
        for leg in legs.filter(|leg| leg.source.is_counted() && leg.leg.allowed && leg.leg.cost > 0) {
            if let Some(row) = counted(story, &decisions, *at, told, leg) {
                rows.entry((leg.leg.limit, leg.leg.key)).or_default().push(row);
            }
        }
    }
    rows.iter_mut().try_for_each(|(key, rows)| within(story, key, rows, findings))
}

/// A row that an owner let pass.
#[derive(Clone, Copy)]
struct Counted {
    at: Moment,
    row: Admitted,
    /// By which reign it was decided, in which order, and by which numbers.
    reign: usize,
    order: (Epoch, usize),
    decided: Moment,
    shape: Shape,
    /// Whether two copies of an owner decided it.
    by_two: bool,
}

/// A decision of a question about a key.
#[derive(Clone, Copy)]
struct Known {
    reign: usize,
    place: usize,
    at: Moment,
    shape: Shape,
    /// Whether two copies of an owner decided it, so that nobody can tell of which one a caller was told.
    by_two: bool,
}

type Decisions = BTreeMap<(CheckId, Epoch, Key), Known>;

fn by_question(story: &Story<'_>) -> Decisions {
    let mut decisions = Decisions::new();
    for (number, reign) in story.reigns.iter().enumerate() {
        for (place, at, decided) in reign.decisions.iter().filter(|(_, _, decided)| decided.allowed) {
            let stands = |number: usize| {
                let reign = &story.reigns[number];
                reign.by_id.get(&decided.id).is_some_and(|charge| reign.charges[*charge].stands())
            };
            for leg in &decided.legs {
                let question = (decided.id, decided.epoch, (leg.limit, leg.key));
                // Of two copies of an owner that decided it, the one whose charge was not taken back.
                let known = decisions.get(&question).copied();
                let by_two = known.is_some_and(|known| known.by_two || known.reign != number);
                let kept = known.filter(|known| stands(known.reign)).unwrap_or(Known {
                    reign: number,
                    place: *place,
                    at: *at,
                    shape: leg.shape,
                    by_two,
                });
                decisions.insert(question, Known { by_two, ..kept });
            }
        }
    }
    decisions
}

fn counted(story: &Story<'_>, decisions: &Decisions, at: Moment, told: &Told, leg: &LegTold) -> Option<Counted> {
    let (key, epoch) = ((leg.leg.limit, leg.leg.key), leg.epoch?);
    let Known { reign, place, at: decided, shape, by_two } = *decisions.get(&(told.id, epoch, key))?;
    // A copy of the ingress took the charge back, or booked what it owed instead: row 17, and the charges' judge counts it.
    let charge = story.reigns[reign].by_id.get(&told.id).map(|charge| &story.reigns[reign].charges[*charge]);
    if charge.is_some_and(|charge| !charge.stands()) && story.had_a_copy(told.node, told.invoked, at) {
        return None;
    }
    let clock = &story.clocks[&story.reigns[reign].partition];
    let end = |real: Moment| {
        let time = clock.at_in(reign, real, story.courses()) + OFFSET;
        Moment::from_nanos(u64::try_from(time).unwrap_or(0))
    };
    let row = Admitted { invoked: end(told.invoked), returned: end(told.returned), cost: leg.leg.cost };
    Some(Counted { at, row, reign, by_two, order: (epoch, place), decided, shape })
}

/// Partition time begins with the first reign; questions may have been put before.
const OFFSET: i128 = 1 << 50;

/// The rows of one key, in stretches of one set of numbers, each within them: together, and each owner's by themselves.
fn within(story: &Story<'_>, key: &Key, rows: &mut [Counted], findings: &mut Findings) -> Result<(), Failure> {
    findings.count("keys by rows", 1);
    rows.sort_by_key(|row| row.order);
    let Some(account) = story.accounts.get(key) else { return Ok(()) };
    let (overlaps, later) = (story.overlaps(account.partition), story.put_forward());
    for run in rows.chunk_by(|one, other| goes_on(account, one, other)) {
        findings.count("admitted rows", run.len() as u64);
        let (over, periods) = over(run, later)?;
        findings.measure(if overlaps.is_empty() { "units over by rows" } else { OVER_BEYOND }, over);
        // Where there were two owners each filled each of these periods.
        let allowed = Story::beyond(&run[0].shape, &overlaps).saturating_mul(periods);
        let mut alone = run.chunk_by(|one, other| one.reign == other.reign);
        if over > allowed {
            return Err(failure(key, run, over, allowed));
        }
        let by_itself =
            if overlaps.is_empty() { None } else { alone.find_map(|one| Some((one, over_alone(one, later)?))) };
        if let Some((one, over)) = by_itself {
            return Err(failure(key, one, over, 0));
        }
    }
    Ok(())
}

fn over_alone(run: &[Counted], later: Span) -> Option<u64> {
    let alone: Vec<Counted> = run.iter().filter(|row| !row.by_two).copied().collect();
    let over = if alone.is_empty() { None } else { over(&alone, later).ok() };
    over.map(|(over, _)| over).filter(|over| *over > 0)
}

/// An open limit promises nothing across owners: what it lets through when its owner is lost is bounded by demand alone.
fn goes_on(account: &Account, one: &Counted, other: &Counted) -> bool {
    one.shape == other.shape
        && account.is_unchanged(one.decided, other.decided)
        && (one.reign == other.reign || one.shape.basis == Basis::Hi)
}

/// Units above what the numbers allow, and how many periods the fullest stretch lasts. Windows that follow cluster time are as
/// long as that makes them: each row is taken to last as much later as it may have been put forward.
fn over(run: &[Counted], later: Span) -> Result<(u64, u64), Failure> {
    let Some(promise) = Promise::of(&run[0].shape, None) else { return Ok((0, 1)) };
    let (later, clocks) = match run[0].shape.algorithm {
        Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } | Algorithm::Calendar { .. } => {
            (later, Clocks::within_millionths(CLUSTER_TIME_PPM))
        }
        Algorithm::TokenBucket { .. }
        | Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { align: Align::First }
        | Algorithm::SlidingCounter
        | Algorithm::Concurrency { .. } => (Span::ZERO, Clocks::ALIKE),
    };
    let lasting = |row: &Counted| Admitted { returned: row.row.returned.saturating_add(later), ..row.row };
    let admitted: Vec<Admitted> = run.iter().map(lasting).collect();
    let worst = worst(&admitted, &promise, &clocks).map_err(|why| Failure::new("C1", run[0].at, why))?;
    let Some(worst) = worst else { return Ok((0, 1)) };
    let periods = worst.until.since(worst.from).as_nanos() / promise.rate.period().as_nanos() + 1;
    Ok((u64::try_from(worst.excess()).unwrap_or(u64::MAX), periods))
}

fn failure(key: &Key, run: &[Counted], over: u64, allowed: u64) -> Failure {
    let promise = Promise::of(&run[0].shape, None).map(|promise| promise.in_words()).unwrap_or_default();
    let words = format!("key {:?} of {:?} is over {promise} by {over} ({allowed} allowed)", key.1, key.0);
    Failure::new("C1", run[run.len() - 1].at, words)
}

const OVER_BEYOND: &str = "units over by rows, beyond what leases assume";

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, shape};
    use super::*;
    use crate::world::trace::Event;

    fn rows(telling: &mut Telling, node: u8, epoch: u64, millis: u64, times: u64) {
        (0..times).for_each(|_| drop(telling.at(millis).ask(node, epoch, 1, true)));
    }

    #[test]
    fn rows_within_the_limit_are_right() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        rows(&mut telling, 0, 1, 200, 3);
        rows(&mut telling, 0, 1, 1_201, 3);
        let findings = telling.judged(judge).expect("kept");
        assert_eq!((findings.counted("admitted rows"), findings.most("units over by rows")), (6, 0));
    }

    #[test]
    fn one_row_too_many_is_seen_over_two_owners_too() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        rows(&mut telling, 0, 1, 200, 3);
        telling.at(250).tell(Event::Died { node: 0 });
        telling.at(300).reign(1, 2);
        rows(&mut telling, 1, 2, 900, 1);
        let failure = telling.judged(judge).unwrap_err();
        assert!(failure.check == "C1" && failure.words.contains("by 1"), "{failure}");
    }

    /// A row that may have been decided outside the stretch is no evidence.
    #[test]
    fn a_row_that_reaches_out_of_the_stretch_proves_nothing() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        rows(&mut telling, 0, 1, 1_000, 3);
        let decided = telling.at(1_990).decide(0, 1, 1, true);
        telling.at(2_010).told(&decided, 25);
        assert!(telling.judged(judge).is_ok());
    }

    /// Found in seed 150938: the copy of an ingress books what it owes of one limit, and so takes back what its original let pass.
    #[test]
    fn what_a_copy_of_an_ingress_settled_is_no_row() {
        for (copied, kept) in [(true, true), (false, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            if copied {
                telling.at(150).tell(Event::Cloned { node: 1, copy: 3 });
                telling.courses.push(telling.courses[1].clone());
            }
            let decided = telling.at(200).decide(0, 1, 1, true);
            telling.told(&crate::world::trace::Decided { node: 1, ..decided.clone() }, 1);
            let crate::world::trace::Decided { partition, epoch, id, asker, clock, wall, .. } = decided;
            telling.at(210).tell(Event::Booked { node: 0, partition, epoch, id, asker, clock, wall, legs: Vec::new() });
            rows(&mut telling, 0, 1, 300, 3);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{copied}");
        }
    }

    /// Found in seed 178778: cluster time is put forward at once by as much as the owner's machine stood still.
    #[test]
    fn a_window_that_follows_cluster_time_is_shorter_where_its_owner_stood_still() {
        for (frozen, kept) in [(true, true), (false, false)] {
            let mut telling = Telling::new();
            telling.shape = shape(3, Algorithm::FixedWindow { align: Align::Epoch });
            telling.at(100).reign(0, 1);
            rows(&mut telling, 0, 1, 200, 3);
            if frozen {
                telling.freeze(0, 300, 900);
            }
            // 400 ms and 500 ms on its clock.
            let stood = if frozen { 600 } else { 0 };
            rows(&mut telling, 0, 1, 400 + stood, 3);
            rows(&mut telling, 0, 1, 500 + stood, 3);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{frozen}");
        }
    }

    #[test]
    fn a_frozen_owner_may_give_one_more_limit_and_no_more() {
        for (units, kept) in [(3, true), (4, false)] {
            let mut telling = Telling::new();
            telling.freeze(0, 500, 4_500);
            telling.at(100).reign(0, 1);
            telling.at(3_200).reign(1, 2);
            rows(&mut telling, 1, 2, 4_400, 3);
            rows(&mut telling, 0, 1, 4_510, units);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{units}");
        }
    }
}
