//! Emergency shares: what all ingresses together lend where no owner can answer stays within its part of the limit in every
//! window; a limit whose share is reserved is kept whole, owners and shares together. Shares are counted on many clocks, so
//! windows are read as the fastest of them may have read them. For a session that outlived what leases assume, or was
//! copied, one share more is accounted for.

use std::collections::{BTreeMap, BTreeSet};

use control::Ending;
use limits::{Algorithm, FailMode, Moment, Rate, Shape, Span};
use ownership::CheckId;

use super::story::{Key, Story};
use super::{Failure, Findings};
use crate::c1::{Admitted, worst};
use crate::clocks::{Clocks, Ratio};
use crate::history::Source;
use crate::promise::Promise;
use crate::world::trace::Event;

/// What was lent for one key.
#[derive(Clone, Copy)]
struct Lent {
    at: Moment,
    cost: u64,
    percent: u8,
    whole: Shape,
}

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let (lent, known) = lent(story, findings);
    nobody_passes_by_nothing(story, &known)?;
    let clocks = clocks(story);
    for (key, lent) in &lent {
        for run in lent.chunk_by(|one, other| (one.percent, one.whole) == (other.percent, other.whole)) {
            let share = part(run[0].whole, run[0].percent);
            let admitted = run.iter().map(|lent| row(lent.at, lent.cost)).collect::<Vec<_>>();
            let over = over(&admitted, &share, &clocks).map_err(|why| Failure::new("emergency", run[0].at, why))?;
            let allowed = Story::beyond(&share, &outlived(story));
            let within =
                if allowed == 0 { "units over emergency shares" } else { "units over emergency shares, beyond" };
            findings.measure(within, over);
            if over > allowed {
                let words = format!(
                    "{}% of {:?} was over by {over} ({allowed} allowed) at key {:?}",
                    run[0].percent, key.0, key.1
                );
                return Err(Failure::new("emergency", run[run.len() - 1].at, words));
            }
        }
    }
    reserved_is_kept_whole(story, &lent, &clocks, findings)
}

/// For which questions something was lent where.
type Known = BTreeSet<(u8, CheckId, Key)>;

fn lent(story: &Story<'_>, findings: &mut Findings) -> (BTreeMap<Key, Vec<Lent>>, Known) {
    let (mut lent, mut known) = (BTreeMap::<Key, Vec<Lent>>::new(), Known::new());
    for entry in story.trace {
        let Event::Lent { node, id, percent, leg, .. } = &entry.event else { continue };
        findings.count("units lent by emergency shares", leg.cost);
        let key = (leg.limit, leg.key);
        known.insert((story.original(*node), *id, key));
        lent.entry(key).or_default().push(Lent { at: entry.at, cost: leg.cost, percent: *percent, whole: leg.shape });
    }
    (lent, known)
}

fn nobody_passes_by_nothing(story: &Story<'_>, known: &Known) -> Result<(), Failure> {
    for (at, told) in &story.told {
        let decision = told.decision.as_ref().filter(|decision| decision.allowed);
        let legs = decision.iter().flat_map(|decision| &decision.legs);
        for leg in legs.filter(|leg| leg.source == Source::Emergency && leg.leg.allowed && leg.leg.cost > 0) {
            if !known.contains(&(told.node, told.id, (leg.leg.limit, leg.leg.key))) {
                let words = format!("n{} let {:?} pass by a share that lent nothing", told.node + 1, told.id);
                return Err(Failure::new("emergency", *at, words));
            }
        }
    }
    Ok(())
}

/// As fast and as slow as any clock ever ran.
fn clocks(story: &Story<'_>) -> Clocks {
    let rates = || story.courses().iter().flat_map(|course| course.rates());
    Clocks {
        fastest: Ratio::one_and_millionths(rates().max().unwrap_or(0).max(0)),
        slowest: Ratio::one_and_millionths(rates().min().unwrap_or(0).min(0)),
    }
}

/// So many per cent of a limit, rounded down.
fn part(whole: Shape, percent: u8) -> Shape {
    let part = |amount: u64| amount * u64::from(percent) / 100;
    let rate = whole.rate.and_then(|rate| Rate::new(part(rate.amount()), rate.period()).ok());
    let algorithm = match whole.algorithm {
        Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: part(burst) },
        other @ (Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { .. }
        | Algorithm::SlidingCounter
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. }) => other,
    };
    Shape { rate, algorithm, ..whole }
}

const fn row(at: Moment, cost: u64) -> Admitted {
    Admitted { invoked: at, returned: at, cost }
}

fn over(rows: &[Admitted], shape: &Shape, clocks: &Clocks) -> Result<u64, crate::TooMuch> {
    let Some(promise) = Promise::of(shape, None) else { return Ok(0) };
    let worst = worst(rows, &promise, clocks)?;
    Ok(worst.map_or(0, |worst| u64::try_from(worst.excess()).unwrap_or(u64::MAX)))
}

/// For each session that may have been lived beside the one that took its part: how long, at the most.
fn outlived(story: &Story<'_>) -> Vec<Span> {
    let end = story.end();
    let outlived = |life: &super::story::Life| {
        let (at, Ending::Expired) = life.ended? else { return None };
        let odd = life.nodes.iter().any(|node| {
            life.last(*node).is_some_and(|last| {
                let course = story.course(*node);
                course.first(last.end) > at && !story.is_steady(*node, course.first(last.sent), course.first(last.end))
            })
        });
        odd.then(|| end.since(at))
    };
    let copies = story.copies.iter().map(|(_, _, at)| end.since(*at));
    story.lives.values().filter_map(outlived).chain(copies).collect()
}

/// Where the share is reserved, owners run with the rest: all together keep the limit.
fn reserved_is_kept_whole(
    story: &Story<'_>,
    lent: &BTreeMap<Key, Vec<Lent>>,
    clocks: &Clocks,
    findings: &mut Findings,
) -> Result<(), Failure> {
    for (key, whole) in reserved(story, lent) {
        let Some(account) = story.accounts.get(&key) else { continue };
        let standing = account.touches.iter().filter(|touch| match touch.what {
            super::story::What::Charged(charge) => story.reigns[touch.reign].charges[charge].stands(),
            super::story::What::Undone(_) | super::story::What::Owed | super::story::What::Refused { .. } => false,
        });
        let by_owners = standing.map(|touch| row(touch.at, touch.cost));
        let by_shares = lent.get(&key).into_iter().flatten().map(|lent| row(lent.at, lent.cost));
        let rows: Vec<Admitted> = by_owners.chain(by_shares).collect();
        findings.count("keys with a reserved share", 1);
        let over = over(&rows, &whole, clocks).map_err(|why| Failure::new("emergency", Moment::ZERO, why))?;
        let beside = [story.overlaps(account.partition), outlived(story)].concat();
        let allowed = Story::beyond(&whole, &beside);
        let within = "units over limits with a reserved share";
        findings.measure(if allowed == 0 { within } else { "units over limits with a reserved share, beyond" }, over);
        if over > allowed {
            let words = format!("{:?} has a reserved share and was over by {over} in all at key {:?}", key.0, key.1);
            return Err(Failure::new("emergency", story.end(), words));
        }
    }
    Ok(())
}

/// The keys of limits with a reserved share, whose numbers were never higher than these: neither the owner's part nor what was
/// lent from is of another revision that had more.
fn reserved(story: &Story<'_>, lent: &BTreeMap<Key, Vec<Lent>>) -> BTreeMap<Key, Shape> {
    let mut shapes: BTreeMap<Key, Option<(Shape, u8)>> = BTreeMap::new();
    for (_, told) in &story.told {
        for leg in told.decision.iter().flat_map(|decision| &decision.legs) {
            // Only what was answered without an owner carries the whole limit's numbers.
            let without_owner = matches!(leg.source, Source::Emergency | Source::Closed);
            if let (true, FailMode::Emergency { percent, reserved: true }) = (without_owner, leg.fail) {
                let numbers = (leg.leg.shape, percent);
                let known = shapes.entry((leg.leg.limit, leg.leg.key)).or_insert(Some(numbers));
                *known = known.filter(|known| *known == numbers);
            }
        }
    }
    let rate = |shape: &Shape| shape.rate.map(|rate| rate.amount());
    let never_higher = |key: &Key, whole: &Shape, percent: u8| {
        let owners = part(*whole, 100u8.saturating_sub(percent));
        let mut touches = story.accounts.get(key).into_iter().flat_map(|account| &account.touches);
        let mut lent = lent.get(key).into_iter().flatten();
        touches.all(|touch| rate(&touch.shape) <= rate(&owners) && touch.shape.domain == whole.domain)
            && lent.all(|lent| rate(&lent.whole) <= rate(whole))
    };
    let known = shapes.into_iter().filter_map(|(key, numbers)| Some((key, numbers?)));
    let judged = known.filter(|(key, (whole, percent))| never_higher(key, whole, *percent));
    judged.map(|(key, (whole, _))| (key, whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::telling::{KEY, LOG, Telling, session, shape};
    use super::*;
    use crate::history::Reason;
    use crate::world::trace::{Decision, LegSeen, LegTold};
    use limits::LimitId;

    const FAIL: FailMode = FailMode::Emergency { percent: 50, reserved: true };

    /// A log of 6 a second, of which 50 % may be lent.
    fn lend(telling: &mut Telling, node: u8, millis: u64, cost: u64) {
        telling.at(millis);
        let (clock, wall) = (telling.clock(node), telling.wall());
        let leg = LegSeen { limit: LimitId(1), key: KEY, cost, allowed: true, shadow: false, shape: shape(6, LOG) };
        let session = session(node, 100 + u64::from(node));
        telling.tell(Event::Lent { node, session, clock, wall, id: CheckId(900), percent: 50, leg });
    }

    #[test]
    fn what_all_shares_lend_together_is_within_their_part() {
        for (last, kept) in [(1_299, false), (1_300, true)] {
            let mut telling = Telling::new();
            lend(&mut telling, 0, 300, 2);
            lend(&mut telling, 1, 500, 1);
            lend(&mut telling, 2, last, 1);
            let judged = telling.judged(judge);
            assert_eq!(judged.is_ok(), kept, "{last}: {judged:?}");
        }
    }

    #[test]
    fn a_session_that_was_copied_may_lend_one_part_more_and_no_more() {
        for (cost, kept) in [(6, true), (7, false)] {
            let mut telling = Telling::new();
            telling.at(100).tell(Event::Cloned { node: 0, copy: 3 });
            telling.courses.push(telling.courses[0].clone());
            lend(&mut telling, 0, 300, cost);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{cost}");
        }
    }

    fn told_by_a_share(telling: &mut Telling, id: CheckId) {
        let mut decided = telling.decide(0, 1, 1, true);
        telling.trace.pop();
        decided.id = id;
        let leg = LegSeen { shape: shape(6, LOG), ..decided.legs[0] };
        let (source, reason) = (Source::Emergency, Reason::Unavailable);
        let leg = LegTold { leg, source, reason, fail: FAIL, epoch: None, session: None };
        telling.tell_caller(&decided, 1, Some(Decision { allowed: true, legs: vec![leg] }));
    }

    #[test]
    fn nobody_is_let_pass_by_a_share_that_lent_nothing() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        told_by_a_share(telling.at(300), CheckId(900));
        assert!(telling.judged(judge).unwrap_err().words.contains("lent nothing"));
        lend(&mut telling, 0, 300, 1);
        assert!(telling.judged(judge).is_ok());
    }

    #[test]
    fn a_limit_with_a_reserved_share_is_kept_whole() {
        for (by_owner, kept) in [(3, true), (4, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            (0..by_owner).for_each(|_| drop(telling.at(300).ask(0, 1, 1, true)));
            lend(&mut telling, 1, 400, 3);
            told_by_a_share(telling.at(410), CheckId(900));
            // The row of the share is n1's, and what it went by was lent there too.
            lend(&mut telling, 0, 1_500, 1);
            let judged = telling.judged(judge);
            assert_eq!(judged.is_ok(), kept, "{by_owner}: {judged:?}");
        }
    }

    #[test]
    fn what_an_owner_charged_by_higher_numbers_is_not_held_against_lower_ones() {
        // Half of 12, as an earlier document had it; then the whole is 6.
        for (owners, judged_keys) in [(6, 0), (3, 1)] {
            let mut telling = Telling::new();
            telling.shape = shape(owners, LOG);
            telling.at(100).reign(0, 1);
            (0..owners).for_each(|_| drop(telling.at(300).ask(0, 1, 1, true)));
            lend(&mut telling, 0, 400, 1);
            told_by_a_share(telling.at(410), CheckId(900));
            let judged = telling.judged(judge).expect("kept");
            assert_eq!(judged.counted("keys with a reserved share"), judged_keys, "{owners}");
        }
    }
}
