//! S1, authority: whoever decides was appointed. Every decision and every reign names a partition, an epoch and a session,
//! and the log had given just these to each other before; nobody decides but in a reign of his own.

use super::story::{Reign, Story};
use super::{Failure, Findings};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for reign in &story.reigns {
        findings.count("reigns", 1);
        was_appointed(story, reign)?;
        decides_in_its_own_name(reign)?;
        findings.count("decisions", reign.decisions.len() as u64);
    }
    Ok(())
}

fn was_appointed(story: &Story<'_>, reign: &Reign<'_>) -> Result<(), Failure> {
    let Reign { partition, epoch, session, node, began, .. } = reign;
    let refused = |words: String| Err(Failure::new("S1", *began, words));
    match story.appointed.get(&(*partition, *epoch)) {
        Some((at, appointed)) if appointed == session && at <= began => Ok(()),
        Some((_, appointed)) if appointed != session => refused(format!(
            "n{} reigns over {partition:?} at {epoch:?} as {session:?}, and {appointed:?} was appointed",
            node + 1
        )),
        Some(_) => refused(format!("n{} reigns over {partition:?} at {epoch:?} before that was committed", node + 1)),
        None => refused(format!("n{} reigns over {partition:?} at {epoch:?}, to which nobody was appointed", node + 1)),
    }
}

fn decides_in_its_own_name(reign: &Reign<'_>) -> Result<(), Failure> {
    for (_, at, decided) in &reign.decisions {
        let whose = format!("n{} over {:?} at {:?}", decided.node + 1, decided.partition, decided.epoch);
        if !reign.announced {
            return Err(Failure::new("S1", *at, format!("{whose} decided without a reign")));
        }
        if decided.session != reign.session {
            let words = format!("{whose} decided as {:?} and reigns as {:?}", decided.session, reign.session);
            return Err(Failure::new("S1", *at, words));
        }
        if reign.ended.is_some_and(|ended| ended < *at) {
            return Err(Failure::new("S1", *at, format!("{whose} decided after its reign had ended")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::telling::{P, Telling, session};
    use super::*;
    use crate::world::trace::Event;
    use ownership::Epoch;

    #[test]
    fn an_appointed_owner_may_decide() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(200).ask(0, 1, 1, true);
        let findings = telling.judged(judge).expect("kept");
        assert_eq!((findings.counted("reigns"), findings.counted("decisions")), (1, 1));
    }

    #[test]
    fn nobody_decides_at_an_epoch_that_the_log_gave_to_somebody_else() {
        let mut telling = Telling::new();
        telling.at(50).appoint(1, session(1, 101));
        telling.at(100).reign(0, 1);
        assert!(telling.judged(judge).unwrap_err().words.contains("was appointed"));
    }

    #[test]
    fn nobody_decides_before_the_entry_is_committed_or_without_any() {
        let mut telling = Telling::new();
        let session = session(0, 100);
        telling.at(100).tell(Event::Reigns { node: 0, partition: P, epoch: Epoch(1), session, full_as_of: None });
        assert!(telling.judged(judge).unwrap_err().words.contains("nobody was appointed"));
        telling.at(200).appoint(1, session);
        assert!(telling.judged(judge).unwrap_err().words.contains("before that was committed"));
    }

    #[test]
    fn nobody_decides_without_a_reign_or_after_it() {
        let mut telling = Telling::new();
        telling.appoint(1, session(0, 100));
        telling.at(200).ask(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("without a reign"));

        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(150).tell(Event::Reigned { node: 0, partition: P, epoch: Epoch(1) });
        telling.at(200).ask(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("after its reign had ended"));
    }
}
