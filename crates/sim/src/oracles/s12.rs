//! S12, the caller's discipline: nobody acts on an answer that is older than `D_max` since its attempt was sent, nor on one
//! of an epoch that is known to be over; and whoever was let pass by an owner was let pass by an answer that was acted on.

use std::collections::BTreeSet;

use super::story::Story;
use super::{Failure, Findings};
use crate::history::Source;
use crate::world::trace::{Event, Told};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let d_max = story.scenario.terms.d_max();
    let mut acted = BTreeSet::new();
    for entry in story.trace {
        let Event::Acted { node, id, partition, epoch, known, age, .. } = &entry.event else { continue };
        findings.count("answers acted on", 1);
        findings.measure("age of an answer acted on, us", age.as_nanos() / 1_000);
        let refused = |words: String| Err(Failure::new("S12", entry.at, words));
        if *age > d_max {
            return refused(format!("n{} acted on an answer to {id:?} that was {age} old", node + 1));
        }
        if epoch < known {
            return refused(format!(
                "n{} acted on an answer of {partition:?} at {epoch:?}, knowing {known:?}",
                node + 1
            ));
        }
        acted.insert((story.original(*node), *id, *epoch));
    }
    for (at, told) in &story.told {
        went_by_an_answer(told, &acted).map_err(|words| Failure::new("S12", *at, words))?;
    }
    Ok(())
}

fn went_by_an_answer(told: &Told, acted: &BTreeSet<(u8, ownership::CheckId, ownership::Epoch)>) -> Result<(), String> {
    let Some(decision) = told.decision.as_ref().filter(|decision| decision.allowed) else { return Ok(()) };
    let by_owner = decision.legs.iter().filter(|leg| matches!(leg.source, Source::Owner | Source::Forwarded));
    for leg in by_owner {
        let Some(epoch) = leg.epoch else { return Err(format!("{:?} was let pass at no epoch", told.id)) };
        if !acted.contains(&(told.node, told.id, epoch)) {
            return Err(format!("n{} let {:?} pass at {epoch:?} by an answer it never took", told.node + 1, told.id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use limits::Span;
    use ownership::Epoch;

    use super::super::telling::{P, Telling};
    use super::*;

    fn acted(age: u64, epoch: u64, known: u64) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).decide(0, 1, 1, true);
        let (epoch, known, age) = (Epoch(epoch), Epoch(known), Span::from_millis(age));
        let (asker, id) = (decided.asker, decided.id);
        telling.at(210).tell(Event::Acted { node: 1, asker, id, partition: P, epoch, known, age });
        telling.judged(judge)
    }

    #[test]
    fn answers_are_taken_while_they_are_young_and_of_an_epoch_that_may_be_the_last() {
        assert_eq!(acted(250, 1, 1).expect("kept").counted("answers acted on"), 1);
        assert!(acted(251, 1, 1).unwrap_err().words.contains("old"));
        assert!(acted(10, 1, 2).unwrap_err().words.contains("knowing"));
        assert!(acted(10, 3, 2).is_ok(), "newer than known is news");
    }

    #[test]
    fn nobody_is_let_pass_by_an_answer_that_was_not_taken() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(200).ask(0, 1, 1, true);
        assert!(telling.judged(judge).is_ok());
        telling.trace.retain(|entry| !matches!(entry.event, Event::Acted { .. }));
        assert!(telling.judged(judge).unwrap_err().words.contains("never took"), "{decided:?}");
    }
}
