//! C2, the white box: the owners' clock readings are a witness. They never go back within a reign, each lies between the
//! ends of the question that it answers, and what was charged under them is within the limit in every window, over all
//! owners of the key, with nothing allowed for. Where this passes, a history as the limit promises it exists.

use std::collections::BTreeMap;

use limits::{Algorithm, Align, Basis, Moment, Rate, Shape, Span};
use ownership::{CheckId, Epoch};

use super::fullest::{CLUSTER_TIME_PPM, PUT_FORWARD, Spent, excess};
use super::story::{Account, Key, Reign, Spell, Story, Touch, What};
use super::{Failure, Findings};
use crate::history::Source;
use crate::world::Fault;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    never_back(story)?;
    between_the_ends(story, findings)?;
    for (key, account) in &story.accounts {
        findings.count("keys by witness", 1);
        within(story, key, account, findings)?;
    }
    Ok(())
}

fn never_back(story: &Story<'_>) -> Result<(), Failure> {
    for reign in &story.reigns {
        let mut last = Moment::ZERO;
        for (_, at, decided) in &reign.decisions {
            if decided.clock < last {
                let words = format!("the clock of n{} in {:?} went back", reign.node + 1, reign.partition);
                return Err(Failure::new("C2", *at, words));
            }
            last = decided.clock;
        }
    }
    Ok(())
}

/// Where, when and by which reading something was decided.
type Witness = (u8, Moment, Moment);

/// When every question was decided that a caller was told of.
fn between_the_ends(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let mut decided: BTreeMap<(CheckId, Epoch), Vec<Witness>> = BTreeMap::new();
    for reign in &story.reigns {
        for (_, at, one) in &reign.decisions {
            decided.entry((one.id, one.epoch)).or_default().push((reign.node, *at, one.clock));
        }
    }
    for (at, told) in &story.told {
        let legs = told.decision.iter().flat_map(|decision| &decision.legs);
        for leg in legs.filter(|leg| matches!(leg.source, Source::Owner | Source::Forwarded)) {
            let Some(epoch) = leg.epoch else { continue };
            findings.count("witnesses", 1);
            let witnesses = decided.get(&(told.id, epoch)).into_iter().flatten();
            let fits = |(node, at, clock): &Witness| {
                let course = story.course(*node);
                *at <= told.returned && course.first(*clock) <= told.returned && course.last_at(*clock) >= told.invoked
            };
            if !witnesses.into_iter().any(fits) {
                let words =
                    format!("{:?} was answered at {epoch:?}, and no owner decided it between its ends", told.id);
                return Err(Failure::new("C2", *at, words));
            }
        }
    }
    Ok(())
}

/// The charges of one key that stand, in stretches of one set of numbers, each within them.
fn within(story: &Story<'_>, key: &Key, account: &Account, findings: &mut Findings) -> Result<(), Failure> {
    let chain = &story.chains[&account.partition];
    let rank = |reign: usize| chain.iter().position(|number| *number == reign);
    let stands = |touch: &&Touch| match touch.what {
        What::Charged(charge) => story.reigns[touch.reign].charges[charge].stands(),
        What::Undone(_) | What::Owed | What::Refused { .. } => false,
    };
    let mut charges: Vec<&Touch> = account.touches.iter().filter(stands).collect();
    charges.sort_by_key(|touch| rank(touch.reign));
    let overlaps = story.overlaps(account.partition);
    for run in charges.chunk_by(|one, other| goes_on(account, one, other)) {
        let spent = witnessed(story, run);
        let shape = &run[0].shape;
        let (over, hidden) = if tell_one_time(run) {
            (excess(shape, &key.1, &spent), 0)
        } else {
            (free_of_edges(shape, key, &spent, findings), hidden_edges(story, run))
        };
        findings.count("charges by witness", run.len() as u64);
        each_alone(story, key, shape, run)?;
        let hidden = hidden.saturating_mul(shape.capacity().unwrap_or(0));
        let allowed = Story::beyond(shape, &overlaps).saturating_add(hidden);
        findings.measure(if overlaps.is_empty() && hidden == 0 { "units over by witness" } else { OVER_BEYOND }, over);
        if over > allowed {
            let last = run[run.len() - 1];
            return Err(Failure::new("C2", last.at, in_words(key, shape, over, allowed, run)));
        }
    }
    across_changes(story, key, (account, &charges), &overlaps, findings)
}

/// What was charged, in the order of the witness.
fn witnessed(story: &Story<'_>, run: &[&Touch]) -> Vec<Spent> {
    let clock = &story.clocks[&story.reigns[run[0].reign].partition];
    let witness =
        |touch: &&Touch| Spent { at: clock.witness(touch.reign, touch.clock), wall: touch.wall, cost: touch.cost };
    let mut spent: Vec<Spent> = run.iter().map(witness).collect();
    spent.sort_by_key(|one| one.at);
    spent
}

/// Where only amounts changed, what was used stays used: all of it together keeps the greatest of them, those included by
/// which something was refused in between.
fn across_changes(
    story: &Story<'_>,
    key: &Key,
    (account, charges): (&Account, &[&Touch]),
    overlaps: &[Span],
    findings: &mut Findings,
) -> Result<(), Failure> {
    for run in charges.chunk_by(|one, other| goes_on_in_amounts(one, other)) {
        let (first, last) = (run[0], run[run.len() - 1]);
        let met: Vec<Shape> = account.met_between(first.at, last.at).collect();
        let in_amounts_only = met.iter().all(|shape| are_alike_but_for_amounts(first.shape, *shape));
        if met.iter().all(|shape| *shape == first.shape) || !in_amounts_only || !tell_one_time(run) {
            continue;
        }
        let spent = witnessed(story, run);
        let widest = met.into_iter().fold(first.shape, wider);
        let (over, allowed) = (excess(&widest, &key.1, &spent), Story::beyond(&widest, overlaps));
        findings.count("keys whose amounts changed", 1);
        findings.measure("units over the greatest of amounts that changed", if allowed == 0 { over } else { 0 });
        if over > allowed {
            return Err(Failure::new("C2", last.at, in_words(key, &widest, over, allowed, run)));
        }
    }
    Ok(())
}

/// Whether two charges one after the other are counted alike but for amounts.
fn goes_on_in_amounts(one: &Touch, other: &Touch) -> bool {
    let goes_on = one.reign == other.reign || (one.shape.basis, other.shape.basis) == (Basis::Hi, Basis::Hi);
    goes_on && are_alike_but_for_amounts(one.shape, other.shape)
}

/// Whether two sets of numbers are alike but for amounts: then either is the wider alike.
fn are_alike_but_for_amounts(one: Shape, other: Shape) -> bool {
    let period = |shape: Shape| shape.rate.map(|rate| rate.period());
    period(one) == period(other) && wider(one, other) == wider(other, one)
}

/// The greater of two amounts, and of two bursts.
fn wider(one: Shape, other: Shape) -> Shape {
    let rate = match (one.rate, other.rate) {
        (Some(less), Some(more)) if less.amount() < more.amount() => Some(more),
        (rate, _) => rate,
    };
    let algorithm = match (one.algorithm, other.algorithm) {
        (Algorithm::TokenBucket { burst }, Algorithm::TokenBucket { burst: more }) => {
            Algorithm::TokenBucket { burst: burst.max(more) }
        }
        (algorithm, _) => algorithm,
    };
    Shape { rate, algorithm, ..one }
}

/// How far apart two owners may tell cluster time for their windows to be the same (A6).
const EDGE: i128 = 100_000_000;

/// Whether the owners of these charges told cluster time alike, so that a window of the one was that of the other. One whose
/// clock stood still comes back slowly.
fn tell_one_time(run: &[&Touch]) -> bool {
    let ahead = |touch: &&Touch| Some(i128::from(touch.wall?.as_unix_nanos()) - i128::from(touch.at.as_nanos()));
    let (least, most) = (run.iter().filter_map(ahead).min(), run.iter().filter_map(ahead).max());
    let one_owner = run.iter().all(|touch| touch.reign == run[0].reign);
    one_owner || most.zip(least).is_none_or(|(most, least)| most - least <= EDGE)
}

/// As [`excess`], where edges are no common ones: twice the amount in any stretch of what is left of a period where cluster
/// time is put forward.
fn free_of_edges(shape: &Shape, key: &Key, spent: &[Spent], findings: &mut Findings) -> u64 {
    match shape.algorithm {
        Algorithm::FixedWindow { align: Align::Epoch | Align::Hashed } => {
            findings.count("keys whose owners told cluster time more than 100 ms apart", 1);
            let shortest = |rate: Rate| {
                let slower = rate.period().scaled(1_000_000, 1_000_000 + u64::from(CLUSTER_TIME_PPM.unsigned_abs()));
                Rate::new(rate.amount(), slower.saturating_sub(PUT_FORWARD)).ok()
            };
            let algorithm = Algorithm::FixedWindow { align: Align::First };
            let Some(rate) = shape.rate.and_then(shortest) else {
                findings.count("of these, keys with periods too short to be judged over owners", 1);
                return 0;
            };
            excess(&Shape { algorithm, rate: Some(rate), ..*shape }, &key.1, spent)
        }
        Algorithm::TokenBucket { .. }
        | Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { align: Align::First }
        | Algorithm::SlidingCounter
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. } => excess(shape, &key.1, spent),
    }
}

/// How often windows may have turned unseen by the witness: once with every machine that stood still with its clock. Whoever
/// takes over from it goes by a cluster time that went on. Found in seed 39755.
fn hidden_edges(story: &Story<'_>, run: &[&Touch]) -> u64 {
    let reigned = |spell: &Spell| run.iter().any(|touch| spell.befell(story.reigns[touch.reign].node));
    let frozen = |spell: &&Spell| matches!(story.fault(spell), Some(Fault::Freeze { .. })) && reigned(spell);
    story.spells.iter().filter(frozen).count() as u64
}

/// However many owners there are at a time, each keeps the limit by itself; a copy together with what it began with.
fn each_alone(story: &Story<'_>, key: &Key, shape: &Shape, run: &[&Touch]) -> Result<(), Failure> {
    let reigns: std::collections::BTreeSet<usize> = run.iter().map(|touch| touch.reign).collect();
    for reign in reigns {
        let Reign { copy_of, began, ref given_back, .. } = story.reigns[reign];
        let is_given_back = |touch: &Touch| match touch.what {
            What::Charged(charge) => given_back.contains(&story.reigns[touch.reign].charges[charge].decided.id),
            What::Undone(_) | What::Owed | What::Refused { .. } => false,
        };
        let before = |touch: &Touch| Some(touch.reign) == copy_of && touch.at <= began && !is_given_back(touch);
        let own: Vec<&Touch> = run.iter().copied().filter(|touch| touch.reign == reign || before(touch)).collect();
        let spent =
            |touch: &&Touch| Spent { at: i128::from(touch.clock.as_nanos()), wall: touch.wall, cost: touch.cost };
        let over = excess(shape, &key.1, &own.iter().map(spent).collect::<Vec<_>>());
        if over > 0 {
            return Err(Failure::new("C2", own[own.len() - 1].at, in_words(key, shape, over, 0, &own)));
        }
    }
    Ok(())
}

const OVER_BEYOND: &str = "units over by witness, beyond what leases assume";

/// Whether two charges one after the other are counted by the same numbers, and nothing was refused by others in between. An
/// open limit promises nothing across owners.
fn goes_on(account: &Account, one: &Touch, other: &Touch) -> bool {
    one.shape == other.shape
        && account.is_unchanged(one.at, other.at)
        && (one.reign == other.reign || one.shape.basis == Basis::Hi)
}

fn in_words(key: &Key, shape: &Shape, over: u64, allowed: u64, run: &[&Touch]) -> String {
    let counted = match shape.algorithm {
        Algorithm::TokenBucket { .. } => "a bucket",
        Algorithm::SlidingLog { .. } => "a log",
        Algorithm::FixedWindow { .. } => "a window",
        Algorithm::SlidingCounter => "a counter",
        Algorithm::Calendar { .. } => "a calendar",
        Algorithm::Concurrency { .. } => "slots",
    };
    let owners: std::collections::BTreeSet<usize> = run.iter().map(|touch| touch.reign).collect();
    format!(
        "{counted} of {:?} was over by {over} ({allowed} allowed) at key {:?}, under {} owners: {:?} per {:?}",
        key.0,
        key.1,
        owners.len(),
        shape.capacity(),
        shape.rate.map(|rate| rate.period())
    )
}

#[cfg(test)]
mod tests {
    use super::super::telling::{LOG, Telling, ms, shape};
    use super::*;
    use crate::world::trace::Event;

    fn spent(telling: &mut Telling, node: u8, epoch: u64, millis: u64, times: u64) {
        (0..times).for_each(|_| drop(telling.at(millis).ask(node, epoch, 1, true)));
    }

    #[test]
    fn what_is_within_the_limit_over_two_owners_is_right() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        spent(&mut telling, 0, 1, 200, 3);
        telling.at(300).reign(1, 2);
        spent(&mut telling, 1, 2, 1_300, 3);
        let findings = telling.judged(judge).expect("kept");
        assert_eq!((findings.counted("charges by witness"), findings.most("units over by witness")), (6, 0));
    }

    #[test]
    fn one_unit_too_many_is_seen_under_one_owner_and_over_two() {
        for second in [0, 1] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            spent(&mut telling, 0, 1, 200, 3);
            telling.at(250).tell(Event::Died { node: 0 });
            telling.at(300).reign(1, 2);
            spent(&mut telling, second, 1 + u64::from(second), 900, 1);
            assert_eq!(telling.judged(judge).unwrap_err().check, "C2", "{second}");
        }
    }

    #[test]
    fn an_owner_whose_lease_held_is_allowed_nothing_beside_its_successor() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(300).reign(1, 2);
        spent(&mut telling, 1, 2, 350, 3);
        spent(&mut telling, 0, 1, 400, 1);
        assert_eq!(telling.judged(judge).unwrap_err().check, "C2");
    }

    #[test]
    fn the_greatest_of_amounts_is_kept_over_their_changes() {
        for (cost, kept) in [(2, true), (3, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            spent(&mut telling, 0, 1, 200, 3);
            telling.shape = shape(5, LOG);
            spent(&mut telling, 0, 1, 300, cost);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{cost}");
        }
    }

    /// Found in seed 173000: the refusal settles that the bucket drains by the greater numbers from then on.
    #[test]
    fn numbers_by_which_something_was_refused_count_among_those_that_changed() {
        for (millis, kept) in [(700, true), (699, false)] {
            let mut telling = Telling::new();
            let burst = Algorithm::TokenBucket { burst: 3 };
            telling.shape = shape(3, burst);
            telling.at(100).reign(0, 1);
            spent(&mut telling, 0, 1, 200, 3);
            telling.shape = shape(6, burst);
            telling.at(210).ask(0, 1, 1, false);
            telling.shape = shape(3, burst);
            spent(&mut telling, 0, 1, millis, 3);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{millis}");
        }
    }

    #[test]
    fn a_charge_that_was_taken_back_does_not_count() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        spent(&mut telling, 0, 1, 200, 2);
        let one = telling.at(300).decide(0, 1, 1, true);
        let (partition, epoch, id, asker) = (one.partition, one.epoch, one.id, one.asker);
        telling.at(310).tell(Event::Undone { node: 0, partition, epoch, id, asker });
        spent(&mut telling, 0, 1, 400, 1);
        assert!(telling.judged(judge).is_ok());
    }

    /// The window is counted by the owner's own clock: what is a second there is one, however long it lasts.
    #[test]
    fn an_owner_is_judged_by_its_own_clock() {
        for (ppm, kept) in [(20_000, true), (0, false)] {
            let mut telling = Telling::new();
            telling.courses[0].change(ms(50), ppm);
            telling.at(100).reign(0, 1);
            spent(&mut telling, 0, 1, 200, 3);
            spent(&mut telling, 0, 1, 1_190, 3);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{ppm}");
        }
    }

    #[test]
    fn a_frozen_owner_may_give_one_more_limit_and_no_more() {
        for (units, kept) in [(3, true), (4, false)] {
            let mut telling = Telling::new();
            telling.freeze(0, 500, 4_500);
            telling.at(100).reign(0, 1);
            telling.at(3_200).reign(1, 2);
            spent(&mut telling, 1, 2, 4_400, 3);
            spent(&mut telling, 0, 1, 4_510, units);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{units}");
        }
    }

    #[test]
    fn a_witness_lies_between_the_ends_of_its_question_and_never_goes_back() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 1, true);
        telling.at(300).told(&decided, 99);
        assert!(telling.judged(judge).unwrap_err().words.contains("between its ends"));

        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(300).decide(0, 1, 1, true);
        telling.at(200).decide(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("went back"));
    }
}
