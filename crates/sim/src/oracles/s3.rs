//! S3, disjoint reigns: an owner decides only with enough of its lease left that whoever acts on the answer does so before
//! it ends; nothing is decided, and after a crash no answer acted on, once a successor reigns. All of it by what clocks
//! really showed, not by what was read off them.

use limits::{Moment, Span};
use ownership::Epoch;
use ring::PartitionId;

use super::story::Story;
use super::{Failure, Findings};
use crate::world::trace::{Decided, Event};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for entry in story.trace {
        match &entry.event {
            Event::Decided(decided) => {
                findings.count("decisions held against their lease", 1);
                has_lease_left(story, decided, entry.at)?;
            }
            Event::Acted { node, partition, epoch, age, .. } => {
                let sent = story.course(*node).reads(entry.at).saturating_sub(*age);
                let seen = Seen { node: *node, partition: *partition, epoch: *epoch, sent, at: entry.at };
                is_within_the_lease(story, &seen, findings)?;
            }
            Event::Broke { .. }
            | Event::Mended { .. }
            | Event::Healed
            | Event::Started { .. }
            | Event::Died { .. }
            | Event::Cloned { .. }
            | Event::Leads { .. }
            | Event::Committed { .. }
            | Event::Appointed { .. }
            | Event::Granted { .. }
            | Event::Extended { .. }
            | Event::Lapsed { .. }
            | Event::Ended { .. }
            | Event::Reigns { .. }
            | Event::Reigned { .. }
            | Event::Undone { .. }
            | Event::Buried { .. }
            | Event::Booked { .. }
            | Event::Corrected { .. }
            | Event::Lent { .. }
            | Event::Counts { .. }
            | Event::Claimed { .. }
            | Event::Kept { .. }
            | Event::Flushed { .. }
            | Event::Vouched { .. }
            | Event::TookIn { .. }
            | Event::Recovered { .. }
            | Event::Told(_)
            | Event::Note(_) => {}
        }
    }
    story.chains.values().try_for_each(|chain| disjoint(story, chain, findings))
}

fn has_lease_left(story: &Story<'_>, decided: &Decided, at: Moment) -> Result<(), Failure> {
    let Decided { node, partition, epoch, session, clock, .. } = decided;
    let shown = story.course(*node).reads(at);
    let refused = |words: String| {
        Err(Failure::new("S3", at, format!("n{} decided in {partition:?} at {epoch:?} {words}", node + 1)))
    };
    let Some(end) = story.lives.get(session).and_then(|life| life.lease_end(*node, at)) else {
        return refused("without ever having held a lease".to_owned());
    };
    let left = end.since(shown);
    let read = shown.since(*clock);
    if read > Span::ZERO {
        return refused(format!("by a clock read {read} before, with {left} left of its lease"));
    }
    if left < story.scenario.terms.margin() {
        return refused(format!("with {left} left of its lease"));
    }
    Ok(())
}

/// An answer that somebody acts on.
struct Seen {
    node: u8,
    partition: PartitionId,
    epoch: Epoch,
    /// On the actor's clock.
    sent: Moment,
    at: Moment,
}

fn is_within_the_lease(story: &Story<'_>, seen: &Seen, findings: &mut Findings) -> Result<(), Failure> {
    let Some((_, session)) = story.appointed.get(&(seen.partition, seen.epoch)) else { return Ok(()) };
    let Some(life) = story.lives.get(session) else { return Ok(()) };
    let ends = |node: &u8| Some(story.course(*node).first(life.lease_end(*node, seen.at)?));
    let Some(ends) = life.nodes.iter().filter_map(ends).max() else { return Ok(()) };
    if seen.at <= ends {
        findings.measure("least of a lease left when its answer was acted on, us below 1 s", left(seen.at, ends));
        return Ok(());
    }
    let sent = story.course(seen.node).first(seen.sent);
    if story.is_beyond(*session, sent, seen.at) || !story.is_steady(seen.node, sent, seen.at) {
        findings.count("answers acted on beyond what leases assume", 1);
        return Ok(());
    }
    let words = format!(
        "n{} acted on an answer of {:?} at {:?}, {} after the lease it was given under had ended",
        seen.node + 1,
        seen.partition,
        seen.epoch,
        seen.at.since(ends)
    );
    Err(Failure::new("S3", seen.at, words))
}

fn left(at: Moment, ends: Moment) -> u64 {
    1_000_000u64.saturating_sub(ends.since(at).as_nanos() / 1_000)
}

fn disjoint(story: &Story<'_>, chain: &[usize], findings: &mut Findings) -> Result<(), Failure> {
    let mut successor: Option<(Epoch, Moment)> = None;
    for reign in chain.iter().rev().map(|number| &story.reigns[*number]) {
        let next = successor.filter(|(epoch, _)| *epoch > reign.epoch).map(|(_, began)| began);
        let late = reign.decisions.iter().find(|(_, at, _)| next.is_some_and(|began| *at >= began));
        if let Some((_, at, decided)) = late {
            if !story.is_beyond(reign.session, reign.began, *at) {
                let words = format!(
                    "n{} decided in {:?} at {:?} while its successor reigned",
                    reign.node + 1,
                    reign.partition,
                    decided.epoch
                );
                return Err(Failure::new("S3", *at, words));
            }
            findings.count("reigns that overlapped beyond what leases assume", 1);
        }
        let earlier = |known: &(Epoch, Moment)| known.0 > reign.epoch && known.1 <= reign.began;
        if !successor.as_ref().is_some_and(earlier) {
            successor = Some((reign.epoch, reign.began));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::telling::{P, Telling, ms};
    use super::*;

    #[test]
    fn a_decision_with_room_for_its_answer_is_right() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(2_812).ask(0, 1, 1, true);
        assert!(telling.judged(judge).is_ok());
    }

    #[test]
    fn a_decision_without_room_for_its_answer_is_seen_whatever_clock_it_tells() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(2_813).decide(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("left of its lease"));
        let Some(Event::Decided(decided)) = telling.trace.last_mut().map(|entry| &mut entry.event) else { panic!() };
        decided.clock = ms(200);
        assert!(telling.judged(judge).unwrap_err().words.contains("by a clock read"));
    }

    #[test]
    fn an_answer_is_not_acted_on_after_the_lease() {
        for (at, kept) in [(3_070, true), (3_071, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let decided = telling.at(2_800).decide(0, 1, 1, true);
            telling.at(at).told(&decided, 250);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{at}");
        }
    }

    #[test]
    fn nobody_decides_once_a_successor_reigns() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(200).reign(1, 2);
        telling.at(300).ask(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("while its successor reigned"));
    }

    #[test]
    fn a_frozen_owner_may_overlap_and_one_that_was_well_may_not() {
        for frozen in [true, false] {
            let mut telling = Telling::new();
            if frozen {
                telling.freeze(0, 500, 4_500);
            }
            telling.at(100).reign(0, 1);
            telling.at(if frozen { 4_000 } else { 1_000 }).reign(1, 2);
            telling.at(if frozen { 4_600 } else { 1_100 }).decide(0, 1, 1, true);
            assert_eq!(telling.judged(judge).is_ok(), frozen);
        }
    }

    #[test]
    fn an_ingress_that_stood_still_with_its_clock_is_excused() {
        for (frozen, at) in [(true, 5_010), (false, 3_080)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let decided = telling.at(2_800).decide(0, 1, 1, true);
            if frozen {
                telling.freeze(1, 2_850, 5_000);
            }
            let (asker, id, age) = (decided.asker, decided.id, Span::from_millis(60));
            telling.at(at);
            telling.tell(Event::Acted { node: 1, asker, id, partition: P, epoch: Epoch(1), known: Epoch(1), age });
            assert_eq!(telling.judged(judge).is_ok(), frozen);
        }
    }
}
