//! S11, the store fence: a successor takes in a record only if it is that of whoever decided last, as the log has it, whole,
//! and from the life of the store that the log holds for that session, or from one that an operator has vouched for since that
//! session ended. Anything else is the worst case.

use std::collections::BTreeMap;

use ownership::Epoch;
use ownership::kept::{Predecessor, Trust};
use ring::PartitionId;

use super::story::Story;
use super::{Failure, Findings};
use crate::world::trace::Event;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let mut before: BTreeMap<(PartitionId, Epoch), Option<Predecessor>> = BTreeMap::new();
    let mut vouched: Vec<Trust> = Vec::new();
    for entry in story.trace {
        if let Event::Vouched { life, index } = entry.event {
            vouched.push(Trust { incarnation: life, since: index });
        }
        if let Event::Appointed { partition, epoch, before: last, .. } = &entry.event {
            before.insert((*partition, *epoch), *last);
        }
        if let Event::TookIn { partition, keeper, by, of, whole } = &entry.event {
            findings.count("records taken in", 1);
            let last = before.get(&(*partition, keeper.epoch)).copied().flatten();
            let is_vouched_for = |last: &Predecessor| {
                vouched.iter().any(|trust| trust.incarnation == *by && last.ended_at <= trust.since)
            };
            let wrong = match last {
                None => Some("nobody had decided before"),
                Some(last) if last.keeper != *of => Some("it was not of whoever decided last"),
                Some(Predecessor { store: None, .. }) => Some("the log did not count it"),
                Some(_) if !whole => Some("it was not whole"),
                Some(last) if last.store == Some(*by) => None,
                Some(last) if is_vouched_for(&last) => {
                    findings.count("records taken in on an operator's word", 1);
                    None
                }
                Some(_) => Some("the log held another life of the store"),
            };
            if let Some(wrong) = wrong {
                let words = format!("{keeper:?} took in a record of {partition:?}, and {wrong}: {of:?}, {last:?}");
                return Err(Failure::new("S11", entry.at, words));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ownership::kept::{Incarnation, Keeper};

    use super::super::telling::{P, Telling, session};
    use super::*;

    const X: Incarnation = Incarnation { run: [1; 20], history: [1; 20] };
    const BACK: Incarnation = Incarnation { run: [1; 20], history: [2; 20] };

    fn keeper(node: u8, epoch: u64) -> Keeper {
        Keeper { epoch: Epoch(epoch), session: session(node, 100 + u64::from(node)) }
    }

    /// A successor at epoch 2 takes in what `of` kept.
    fn told(of: Keeper, by: Incarnation, whole: bool) -> Result<Findings, Failure> {
        told_after(&[], of, by, whole)
    }

    /// The same, after an operator has vouched for these lives in entries of the log with these indices.
    fn told_after(
        vouched: &[(Incarnation, u64)],
        of: Keeper,
        by: Incarnation,
        whole: bool,
    ) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        let before = Some(Predecessor { keeper: keeper(0, 1), store: Some(X), ended_at: 7 });
        let heir = keeper(1, 2);
        telling.at(100).tell(Event::Appointed {
            partition: P,
            epoch: heir.epoch,
            session: heir.session,
            index: 8,
            before,
        });
        for (life, index) in vouched.iter().copied() {
            telling.at(105).tell(Event::Vouched { life, index });
        }
        telling.at(110).tell(Event::TookIn { partition: P, keeper: heir, by, of, whole });
        telling.judged(judge)
    }

    #[test]
    fn a_record_of_the_last_owner_from_the_life_that_the_log_holds_is_right() {
        assert_eq!(told(keeper(0, 1), X, true).expect("kept").counted("records taken in"), 1);
    }

    #[test]
    fn any_other_record_is_seen() {
        let says = |of, by, whole| told(of, by, whole).unwrap_err().words;
        assert!(says(keeper(2, 1), X, true).contains("whoever decided last"));
        assert!(says(keeper(0, 1), BACK, true).contains("another life of the store:"));
        assert!(says(keeper(0, 1), X, false).contains("not whole"));
    }
    #[test]
    fn an_operators_word_makes_another_life_right_for_those_that_had_ended_and_nothing_else() {
        let told = |life, index, by, whole| told_after(&[(life, index)], keeper(0, 1), by, whole);
        assert_eq!(told(BACK, 7, BACK, true).expect("kept").counted("records taken in on an operator's word"), 1);
        assert!(told(BACK, 6, BACK, true).unwrap_err().words.contains("another life of the store:"), "it lived on");
        assert!(told(X, 7, BACK, true).unwrap_err().words.contains("another life of the store:"));
        assert!(told(BACK, 7, BACK, false).unwrap_err().words.contains("not whole"));
    }
}
