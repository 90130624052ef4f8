//! Charges: what is on the owners' accounts is there because somebody was let pass with it, or because nobody could tell
//! the owner otherwise. Whoever was let pass by an owner was charged there, and that charge was not taken back; whatever
//! else stands is the cost of a question that timed out or was refused elsewhere and whose cancel was lost, or whose
//! ingress died before it could send one; of an attempt that came as a new question; or of an account that was over when
//! another owner answered.

use std::collections::{BTreeMap, BTreeSet};

use limits::{Moment, Span};
use ownership::{CheckId, Epoch, RECORD_HORIZON};
use ring::PartitionId;

use super::story::{Charge, REMEMBERED_AT_LEAST, Reign, Spell, Story};
use super::takeover_time::{AFTERMATH, is_harmless};
use super::{Failure, Findings};
use crate::history::Source;
use crate::world::Fault;
use crate::world::trace::{Event, Told};

/// How long after its answer a question is still being settled: its cancel may be under way, or its caller not yet told.
const SETTLED_WITHIN: Span = Span::from_secs(2);

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let let_pass = let_pass(story, findings)?;
    let told = Settling { corrected: corrected(story), acted: acted(story) };
    let asked: BTreeMap<CheckId, Vec<&Told>> = story.told.iter().fold(BTreeMap::new(), |mut asked, (_, told)| {
        asked.entry(told.id).or_insert_with(Vec::new).push(told);
        asked
    });
    for reign in &story.reigns {
        for charge in reign.charges.iter().filter(|charge| charge.stands()) {
            let cost = cost(charge);
            findings.count("units charged", cost);
            if let_pass.contains(&(charge.decided.id, reign.partition, reign.epoch)) {
                findings.count("units charged and let pass", cost);
                continue;
            }
            let askings = asked.get(&charge.decided.id).map_or(&[][..], |askings| askings);
            match excuse(Case { story, reign, charge, askings, settling: &told }) {
                Some(why) => findings.count(why, cost),
                None => {
                    let words = format!(
                        "n{} in {:?} at {:?} keeps {cost} units of {:?}, with which nobody was let pass",
                        reign.node + 1,
                        reign.partition,
                        reign.epoch,
                        charge.decided.id
                    );
                    return Err(Failure::new("charges", charge.at, words));
                }
            }
        }
    }
    Ok(())
}

fn cost(charge: &Charge<'_>) -> u64 {
    charge.decided.legs.iter().filter(|leg| leg.allowed).map(|leg| leg.cost).sum()
}

/// Questions that were let pass by an owner, each held against its charge.
fn let_pass(story: &Story<'_>, findings: &mut Findings) -> Result<BTreeSet<(CheckId, PartitionId, Epoch)>, Failure> {
    let mut charges: BTreeMap<(CheckId, Epoch), Vec<(usize, usize)>> = BTreeMap::new();
    for (number, reign) in story.reigns.iter().enumerate() {
        for (charge, one) in reign.charges.iter().enumerate() {
            charges.entry((one.decided.id, reign.epoch)).or_default().push((number, charge));
        }
    }
    let mut let_pass = BTreeSet::new();
    for (at, told) in &story.told {
        let decision = told.decision.as_ref().filter(|decision| decision.allowed);
        let by_owner = |source| matches!(source, Source::Owner | Source::Forwarded);
        let legs = decision.iter().flat_map(|decision| &decision.legs);
        for leg in legs.filter(|leg| by_owner(leg.source) && leg.leg.allowed && leg.leg.cost > 0) {
            let Some(epoch) = leg.epoch else { continue };
            findings.count("admissions held against their charge", 1);
            let of_key = |&&(reign, charge): &&(usize, usize)| {
                let legs = &story.reigns[reign].charges[charge].decided.legs;
                legs.iter().any(|one| (one.limit, one.key, one.cost) == (leg.leg.limit, leg.leg.key, leg.leg.cost))
            };
            let found: Vec<&(usize, usize)> =
                charges.get(&(told.id, epoch)).into_iter().flatten().filter(of_key).collect();
            let stands = found.iter().any(|(reign, charge)| story.reigns[*reign].charges[*charge].undone.is_none());
            // Both copies of an ingress ask as one; what one of them went by, the other takes back (row 17).
            if !stands && story.had_a_copy(told.node, told.invoked, *at) {
                findings.count("admissions whose charge a copy of their ingress took back", 1);
                continue;
            }
            if !stands {
                let words = format!("{:?} was let pass at {epoch:?} on a charge that does not stand", told.id);
                return Err(Failure::new("charges", *at, words));
            }
            let_pass.extend(found.iter().map(|(reign, _)| (told.id, story.reigns[*reign].partition, epoch)));
        }
    }
    Ok(let_pass)
}

/// What ingresses did with answers.
struct Settling {
    /// What was sent to owners, by question and partition.
    corrected: Corrected,
    /// Who acted on an answer.
    acted: Acted,
}

/// Who acted on an answer, and when.
type Acted = BTreeMap<(CheckId, PartitionId, Epoch), Vec<(u8, Moment)>>;

fn acted(story: &Story<'_>) -> Acted {
    let mut acted = Acted::new();
    for entry in story.trace {
        if let Event::Acted { node, id, partition, epoch, .. } = &entry.event {
            acted.entry((*id, *partition, *epoch)).or_default().push((story.original(*node), entry.at));
        }
    }
    acted
}

/// Which machine sent something, and when.
type Corrected = BTreeMap<(CheckId, PartitionId), Vec<(u8, Moment)>>;

fn corrected(story: &Story<'_>) -> Corrected {
    let mut sent = Corrected::new();
    for entry in story.trace {
        if let Event::Corrected { node, id, partition, .. } = &entry.event {
            sent.entry((*id, *partition)).or_default().push((*node, entry.at));
        }
    }
    sent
}

/// A charge that nobody was let pass with.
#[derive(Clone, Copy)]
struct Case<'c> {
    story: &'c Story<'c>,
    reign: &'c Reign<'c>,
    charge: &'c Charge<'c>,
    askings: &'c [&'c Told],
    settling: &'c Settling,
}

/// Why it stands, by the name under which it is counted; `None` where nothing explains it. First what became of the account,
/// then of the cancel; where none was sent, what else answered, and what became of who asked.
fn excuse(case: Case<'_>) -> Option<&'static str> {
    let Case { reign, charge, settling, .. } = case;
    case.of_the_account().or_else(|| match settling.corrected.get(&(charge.decided.id, reign.partition)) {
        Some(sent) => case.of_the_cancel(sent),
        None => case.of_another_answer().or_else(|| case.of_the_ingress()),
    })
}

impl Case<'_> {
    fn of_the_account(self) -> Option<&'static str> {
        let Case { story, reign, charge, .. } = self;
        if charge.decided.legs.iter().all(|leg| leg.shadow || leg.cost == 0) {
            return Some("units charged where a limit only watches");
        }
        if story.end().since(charge.at) < SETTLED_WITHIN {
            return Some("units charged at the very end");
        }
        if reign.ended.is_some_and(|ended| ended.since(charge.at) < SETTLED_WITHIN) {
            return Some("units charged on an account that was dropped soon after");
        }
        // What one copy of an owner charged, the other may have refused or taken back (row 17).
        let mut chain = story.chains.get(&reign.partition).into_iter().flatten().map(|number| &story.reigns[*number]);
        let is_copied = chain.any(|other| other.epoch == reign.epoch && other.is_beside());
        is_copied.then_some("units charged by one of two copies")
    }

    /// A decision of which others were told too stands, whoever cancels it.
    fn of_the_cancel(self, sent: &[(u8, Moment)]) -> Option<&'static str> {
        let asked_once = self.askings.iter().map(|told| asked(self.story, told).count()).sum::<usize>() == 1;
        let fails = !asked_once || self.may_have_failed(sent);
        fails.then_some("units charged whose cancel was sent, and may have been lost")
    }

    /// Whether what was sent may not have come, or have come in vain: by the weather, a fault, or the end of either; or by
    /// the end of the record that it is about. After the healing nothing is lost any more.
    fn may_have_failed(self, sent: &[(u8, Moment)]) -> bool {
        let Case { story, reign, charge, .. } = self;
        let disturbs = |spell: &Spell| story.fault(spell).is_none_or(|fault| !is_harmless(fault));
        let fails = |(node, at): &(u8, Moment)| {
            let (from, until) = (at.saturating_sub(AFTERMATH), at.saturating_add(SETTLED_WITHIN));
            let rains = story.healed.is_none_or(|healed| *at < healed) && story.scenario.weather.lost_per_mille > 0;
            rains
                || story.spells.iter().any(|spell| spell.overlaps(from, until) && disturbs(spell))
                || !story.was_up(*node, charge.at, until)
                || reign.ended.is_some_and(|ended| ended <= until)
                || at.since(charge.at) >= REMEMBERED_AT_LEAST
        };
        sent.iter().all(fails)
    }

    fn of_another_answer(self) -> Option<&'static str> {
        let Case { story, reign, charge, settling, .. } = self;
        let (id, partition, epoch) = (charge.decided.id, reign.partition, reign.epoch);
        // An earlier owner had decided, and its records went with its reign (row 24): an attempt that the network held until
        // then is a new question to the next one.
        let before = (id, partition, Epoch(0))..(id, partition, epoch);
        if settling.acted.range(before).any(|(_, acted)| acted.iter().any(|(_, at)| *at <= charge.at)) {
            return Some("units charged by an attempt that came in a later reign than its answer");
        }
        if was_forgotten(reign, charge) {
            return Some("units charged by an attempt that came when the record of its answer was over");
        }
        let nobody_acted = !settling.acted.contains_key(&(id, partition, epoch));
        let succeeded = nobody_acted && was_succeeded(story, charge, (partition, epoch), settling);
        succeeded.then_some("units charged by an owner whose successor answered instead")
    }

    fn of_the_ingress(self) -> Option<&'static str> {
        let Case { story, reign, charge, askings, settling } = self;
        // It let the question pass, and its caller had given up, or been told by another one.
        let acted = settling.acted.get(&(charge.decided.id, reign.partition, reign.epoch));
        let puts = |told: &Told, node: u8| asked(story, told).filter(|asked| *asked == node).count();
        let told_there = |(node, at): &(u8, Moment)| {
            let by_it = |told: &&&Told| told.node == *node && told.decision.is_some() && told.returned >= *at;
            // Of two askings at one node only one told its caller anything.
            askings.iter().find(by_it).is_some_and(|told| puts(told, *node) < 2)
        };
        if acted.into_iter().flatten().any(|acted| !told_there(acted)) {
            return Some("units charged and let pass, with nobody there any more to hear it");
        }
        let soon = charge.at.saturating_add(SETTLED_WITHIN);
        let copied = |node: u8, told: &Told| story.had_a_copy(node, told.invoked, soon);
        if askings.iter().any(|told| asked(story, told).any(|node| copied(node, told))) {
            return Some("units charged for one of two copies");
        }
        let died = |node: u8, told: &Told| !story.was_up(node, told.invoked, settles_by(story, node, charge.at));
        let lost_its_ingress = askings.iter().any(|told| asked(story, told).any(|node| died(node, told)));
        (askings.is_empty() || lost_its_ingress).then_some("units charged whose ingress died")
    }
}

/// Whether a successor that was appointed after the charge answered the question, and somebody acted on that: an account
/// that is over is never read again, so nothing needs to be taken back from it.
fn was_succeeded(
    story: &Story<'_>,
    charge: &Charge<'_>,
    (partition, epoch): (PartitionId, Epoch),
    settling: &Settling,
) -> bool {
    let id = charge.decided.id;
    let later = (id, partition, Epoch(epoch.0 + 1))..=(id, partition, Epoch(u64::MAX));
    settling.acted.range(later).any(|((_, _, later), acted)| {
        let appointed = story.appointed.get(&(partition, *later)).map(|(at, _)| *at);
        appointed.is_some_and(|since| charge.at <= since && acted.iter().any(|(_, at)| *at >= since))
    })
}

/// Whether this owner had decided the question before, so long ago that nothing is remembered of it: an attempt that lay in
/// the queue of an owner with too much to do until then is a new question.
fn was_forgotten(reign: &Reign<'_>, charge: &Charge<'_>) -> bool {
    let (id, now) = (charge.decided.id, charge.decided.clock);
    let before = reign.decisions.iter().take_while(|(_, at, _)| *at < charge.at);
    before.into_iter().any(|(_, _, decided)| decided.id == id && now.since(decided.clock) >= RECORD_HORIZON)
}

/// When an ingress has settled what was charged for it at a moment: one that stands still does nothing meanwhile, and may die
/// before it goes on.
fn settles_by(story: &Story<'_>, node: u8, charged: Moment) -> Moment {
    let stands_still = |spell: &&Spell| {
        spell.befell(node) && matches!(story.fault(spell), Some(Fault::Stop { .. } | Fault::Freeze { .. }))
    };
    let soon = charged.saturating_add(SETTLED_WITHIN);
    story.spells.iter().filter(stands_still).filter(|spell| spell.overlaps(charged, soon)).fold(soon, |by, spell| {
        let goes_on = spell.ended.unwrap_or(story.end());
        by.max(goes_on.saturating_add(SETTLED_WITHIN))
    })
}

/// The nodes that a question was to be put to, each as often as it was, and who answered.
fn asked<'s>(story: &'s Story<'_>, told: &Told) -> impl Iterator<Item = u8> + 's {
    let ask = story.scenario.asks.get(told.ask);
    let puts = ask.into_iter().flat_map(|ask| std::iter::once(ask.node).chain(ask.again.iter().map(|(_, node)| *node)));
    let answered = told.node;
    puts.chain(ask.is_none().then_some(answered))
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, ms};
    use super::*;
    use crate::world::trace::{Correction, Decided};
    use crate::world::{Planned, When, Who};

    fn until_the_end(telling: &mut Telling) -> Result<Findings, Failure> {
        telling.at(9_000).tell(Event::Healed);
        telling.judged(judge)
    }

    #[test]
    fn a_charge_with_which_somebody_was_let_pass_is_right() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(200).ask(0, 1, 2, true);
        let findings = until_the_end(&mut telling).expect("kept");
        assert_eq!((findings.counted("units charged"), findings.counted("units charged and let pass")), (2, 2));
    }

    fn refused(correct: bool, lost_per_mille: u16) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        telling.scenario.weather.lost_per_mille = lost_per_mille;
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 2, true);
        telling.at(210).tell_caller(&decided, 5, None);
        let Decided { partition, id, asker, .. } = decided;
        if correct {
            telling.tell(Event::Corrected { node: 0, partition, id, asker, what: Correction::Cancel });
        }
        until_the_end(&mut telling)
    }

    #[test]
    fn a_charge_that_nobody_was_let_pass_with_is_cancelled_by_whoever_asked() {
        assert!(refused(false, 0).unwrap_err().words.contains("nobody was let pass"));
        let lost = refused(true, 10).expect("sent, and lost");
        assert_eq!(lost.counted("units charged whose cancel was sent, and may have been lost"), 2);
    }

    #[test]
    fn a_cancel_that_nothing_can_have_lost_takes_the_charge_back() {
        assert!(refused(true, 0).unwrap_err().words.contains("nobody was let pass"));
    }

    #[test]
    fn a_caller_that_gave_up_hears_nothing_and_is_charged() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 2, true);
        telling.at(400).tell_caller(&decided, 205, None);
        telling.at(500).told(&decided, 300);
        telling.trace.pop();
        let counted = until_the_end(&mut telling).expect("acted on");
        assert_eq!(counted.counted("units charged and let pass, with nobody there any more to hear it"), 2);
    }

    /// An ingress that stood still until it died, or went on a second before that.
    fn dies_later(stops_for: u64) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        let stop = Fault::Stop { who: Who::Node(0), lasts: Span::from_millis(stops_for) };
        telling.scenario.faults.push(Planned { when: When::At(ms(210)), fault: stop });
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 2, true);
        telling.at(210).tell(Event::Broke { fault: 0, nodes: 1 });
        telling.at(400).tell_caller(&decided, 205, None);
        telling.at(210 + stops_for).tell(Event::Mended { fault: 0 });
        telling.at(5_000).tell(Event::Died { node: 0 });
        until_the_end(&mut telling)
    }

    #[test]
    fn an_ingress_that_stands_still_until_it_dies_takes_nothing_back() {
        assert_eq!(dies_later(4_700).expect("it never went on").counted("units charged whose ingress died"), 2);
        assert!(dies_later(1_000).is_err(), "it had the time");
    }

    /// A question that was refused in the reign of `answered`, and is charged in that of `charged`.
    fn charged_elsewhere(answered: u64, charged: u64) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        telling.at(100).reign(0, charged);
        let decided = telling.at(200).decide(0, charged, 2, true);
        let Decided { partition, id, asker, .. } = decided;
        let epoch = Epoch(answered);
        let acted = Event::Acted { node: 1, asker, id, partition, epoch, known: epoch, age: Span::ZERO };
        telling.at(150).tell(acted);
        telling.trace.sort_by_key(|entry| entry.at);
        telling.at(210).tell_caller(&decided, 100, None);
        until_the_end(&mut telling)
    }

    #[test]
    fn an_attempt_that_comes_in_a_later_reign_is_a_new_question() {
        let counted = charged_elsewhere(1, 2).expect("row 24");
        assert_eq!(counted.counted("units charged by an attempt that came in a later reign than its answer"), 2);
        assert!(charged_elsewhere(3, 2).is_err(), "an owner that is over charges nothing for a later one");
    }

    #[test]
    fn an_owner_that_is_over_keeps_what_its_successor_answered_instead() {
        for (charged, appointed, kept) in [(200, 600, true), (700, 600, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let decided = telling.at(charged).decide(0, 1, 2, true);
            telling.at(appointed).reign(1, 2);
            let Decided { partition, id, asker, .. } = decided;
            let epoch = Epoch(2);
            telling.at(750).tell(Event::Acted { node: 1, asker, id, partition, epoch, known: epoch, age: Span::ZERO });
            telling.tell_caller(&Decided { node: 1, ..decided }, 100, None);
            telling.trace.sort_by_key(|entry| entry.at);
            assert_eq!(until_the_end(&mut telling).is_ok(), kept, "{charged}");
        }
    }

    #[test]
    fn an_attempt_that_comes_when_its_record_is_over_is_a_new_question() {
        for (millis, kept) in [(2_200, true), (2_199, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let refused = telling.at(200).ask(0, 1, 2, false);
            let late = telling.at(millis).decide(0, 1, 2, true);
            let Some(Event::Decided(decided)) = telling.trace.last_mut().map(|entry| &mut entry.event) else {
                panic!()
            };
            *decided = Decided { id: refused.id, ..late };
            assert_eq!(until_the_end(&mut telling).is_ok(), kept, "{millis}");
        }
    }

    #[test]
    fn an_ingress_that_died_cannot_cancel() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 2, true);
        telling.at(201).tell(Event::Died { node: 1 });
        telling.at(300).tell_caller(&Decided { node: 1, ..decided }, 105, None);
        assert_eq!(until_the_end(&mut telling).expect("died").counted("units charged whose ingress died"), 2);
    }

    #[test]
    fn nobody_is_let_pass_on_a_charge_that_was_taken_back() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).ask(0, 1, 2, true);
        let Decided { partition, epoch, id, asker, .. } = decided;
        telling.at(210).tell(Event::Undone { node: 0, partition, epoch, id, asker });
        assert!(until_the_end(&mut telling).unwrap_err().words.contains("does not stand"));
    }
}
