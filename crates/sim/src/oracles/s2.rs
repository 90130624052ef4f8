//! S2, one session per epoch: the epochs of a partition only rise, the log gives each to one session, and a reign begins
//! once. A process that starts anew and goes on at an epoch of the one before begins that reign a second time.

use std::collections::BTreeMap;

use limits::Moment;
use ownership::Epoch;
use ring::PartitionId;

use super::story::Story;
use super::{Failure, Findings};
use crate::world::trace::Event;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let mut newest: BTreeMap<PartitionId, Epoch> = BTreeMap::new();
    for entry in story.trace {
        if let Event::Appointed { partition, epoch, session, .. } = &entry.event {
            findings.count("appointments", 1);
            let before = newest.insert(*partition, *epoch);
            if before.is_some_and(|before| before >= *epoch) {
                let words = format!("{partition:?} went to {session:?} at {epoch:?} after {before:?}");
                return Err(Failure::new("S2", entry.at, words));
            }
        }
    }
    let mut begun: BTreeMap<(PartitionId, Epoch), (u8, Moment)> = BTreeMap::new();
    for reign in story.reigns.iter().filter(|reign| !reign.is_beside() && reign.announced) {
        let whose = (reign.partition, reign.epoch);
        if let Some((node, at)) = begun.insert(whose, (reign.node, reign.began)) {
            let words =
                format!("the reign of {whose:?} began at n{} and before at n{} ({at:?})", reign.node + 1, node + 1);
            return Err(Failure::new("S2", reign.began, words));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, session};
    use super::*;

    #[test]
    fn epochs_rise_and_each_has_one_reign() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(5_000).reign(1, 2);
        assert_eq!(telling.judged(judge).expect("kept").counted("appointments"), 2);
    }

    #[test]
    fn an_epoch_that_is_given_twice_or_falls_is_seen() {
        for epoch in [1, 2] {
            let mut telling = Telling::new();
            telling.at(100).appoint(2, session(0, 100));
            telling.at(200).appoint(epoch, session(1, 101));
            assert_eq!(telling.judged(judge).unwrap_err().check, "S2");
        }
    }

    #[test]
    fn a_reign_that_begins_again_is_seen() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.trace.push(telling.trace.last().unwrap().clone());
        assert!(telling.judged(judge).unwrap_err().words.contains("began at n1"));
    }
}
