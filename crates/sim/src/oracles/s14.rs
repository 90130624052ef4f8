//! S14, charge once: within the horizon of the records an owner decides a question once, however often it is asked; after
//! its cancel or its debt not at all. What an earlier revision of the policy denied is decided anew.

use std::collections::BTreeMap;

use ownership::{CheckId, RECORD_HORIZON};

use super::story::{REMEMBERED_AT_LEAST, Reign, Story};
use super::{Failure, Findings};
use crate::world::trace::Decided;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for reign in &story.reigns {
        findings.count("charges", reign.charges.len() as u64);
        findings.count("cancels before their question", reign.buried.len() as u64);
        once_each(reign)?;
    }
    Ok(())
}

fn once_each(reign: &Reign<'_>) -> Result<(), Failure> {
    let mut known: BTreeMap<CheckId, &Decided> = BTreeMap::new();
    for (_, at, decided) in &reign.decisions {
        let refused = |words: String| Err(Failure::new("S14", *at, words));
        let whose = format!("n{} in {:?} at {:?}", reign.node + 1, reign.partition, reign.epoch);
        // A peek is asked as often as one likes.
        if decided.legs.iter().all(|leg| leg.cost == 0) {
            continue;
        }
        let before = known.insert(decided.id, decided);
        // What an earlier revision refused charged nothing, and may be another limit's to say.
        let before = before.filter(|before| before.allowed || before.revision >= decided.revision);
        if before.is_some_and(|before| decided.clock.since(before.clock) < RECORD_HORIZON) {
            return refused(format!("{whose} decided {:?} anew (attempt {})", decided.id, decided.attempt));
        }
        let buried = reign.buried.get(&decided.id).filter(|buried| decided.clock > **buried);
        if buried.is_some_and(|buried| decided.clock.since(*buried) < RECORD_HORIZON) {
            return refused(format!("{whose} decided {:?} after its cancel", decided.id));
        }
        // A debt does not make a question known for longer; one that came first makes it known.
        let booked = reign.booked.get(&decided.id).filter(|booked| **booked < *at && before.is_none());
        if booked.is_some_and(|booked| at.since(*booked) < REMEMBERED_AT_LEAST) {
            return refused(format!("{whose} decided {:?}, of which a debt was booked", decided.id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::telling::Telling;
    use super::*;
    use crate::world::trace::Event;

    fn asked_again_after(millis: u64, replayed: bool) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 1, true);
        telling.at(200 + millis);
        let clock = telling.clock(0);
        telling.tell(Event::Decided(Decided { clock, replayed, attempt: 2, ..decided }));
        telling.judged(judge)
    }

    #[test]
    fn a_question_whose_debt_was_booked_is_not_decided_any_more() {
        for (millis, kept) in [(1_700, false), (2_100, true)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let decided = telling.at(200).decide(0, 1, 1, true);
            telling.trace.pop();
            let Decided { partition, epoch, id, asker, clock, wall, legs, .. } = decided.clone();
            telling.tell(Event::Booked { node: 0, partition, epoch, id, asker, clock, wall, legs });
            telling.at(200 + millis);
            let clock = telling.clock(0);
            telling.tell(Event::Decided(Decided { clock, ..decided }));
            assert_eq!(telling.judged(judge).is_ok(), kept, "{millis}");
        }
    }

    #[test]
    fn a_question_that_was_cancelled_before_it_came_is_not_decided() {
        for (millis, kept) in [(1_999, false), (2_000, true)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let decided = telling.at(200).decide(0, 1, 1, true);
            telling.trace.pop();
            let Decided { partition, epoch, id, clock, .. } = decided;
            telling.tell(Event::Buried { node: 0, partition, epoch, id, clock });
            telling.at(200 + millis);
            let clock = telling.clock(0);
            telling.tell(Event::Decided(Decided { clock, ..decided }));
            assert_eq!(telling.judged(judge).is_ok(), kept, "{millis}");
        }
    }

    #[test]
    fn what_an_earlier_revision_denied_is_decided_anew_and_by_the_same_one_not() {
        for (revision, kept) in [(2, true), (1, false)] {
            let mut telling = Telling::new();
            telling.at(100).reign(0, 1);
            let denied = telling.at(200).decide(0, 1, 1, false);
            let clock = telling.at(300).clock(0);
            telling.tell(Event::Decided(Decided { clock, revision, ..denied }));
            assert_eq!(telling.judged(judge).is_ok(), kept, "{revision}");
        }
    }

    #[test]
    fn a_question_is_decided_once_within_the_horizon() {
        assert_eq!(asked_again_after(500, true).expect("kept").counted("charges"), 1);
        assert!(asked_again_after(500, false).unwrap_err().words.contains("anew"));
        assert!(asked_again_after(2_000, false).is_ok(), "by then it is forgotten");
    }
}
