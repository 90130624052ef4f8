//! S5, sessions do not come back: what a process does, it does under sessions of its own. A session's nonce is its
//! process's, and once a process has held a lease in a later session, it does nothing more in an earlier one.

use std::collections::BTreeMap;

use limits::Moment;
use ownership::SessionId;

use super::story::Story;
use super::{Failure, Findings};
use crate::world::trace::Event;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let mut latest: BTreeMap<u8, SessionId> = BTreeMap::new();
    for entry in story.trace {
        let (node, session, holds) = match &entry.event {
            Event::Extended { node, session, .. } => (*node, *session, true),
            Event::Decided(decided) => (decided.node, decided.session, false),
            Event::Reigns { node, session, .. } | Event::Lent { node, session, .. } => (*node, *session, false),
            Event::Started { node, .. } => {
                latest.remove(node);
                continue;
            }
            Event::Broke { .. }
            | Event::Mended { .. }
            | Event::Healed
            | Event::Died { .. }
            | Event::Cloned { .. }
            | Event::Leads { .. }
            | Event::Committed { .. }
            | Event::Appointed { .. }
            | Event::Granted { .. }
            | Event::Lapsed { .. }
            | Event::Ended { .. }
            | Event::Reigned { .. }
            | Event::Undone { .. }
            | Event::Buried { .. }
            | Event::Booked { .. }
            | Event::Corrected { .. }
            | Event::Acted { .. }
            | Event::Counts { .. }
            | Event::Claimed { .. }
            | Event::Kept { .. }
            | Event::Flushed { .. }
            | Event::Vouched { .. }
            | Event::TookIn { .. }
            | Event::Recovered { .. }
            | Event::Told(_)
            | Event::Note(_) => continue,
        };
        findings.count("acts in the name of a session", 1);
        is_its_own(story, node, session, entry.at)?;
        let known = latest.get(&node).copied();
        if known.is_some_and(|known| known.nonce == session.nonce && known.counter > session.counter) {
            let words = format!("n{} goes on as {session:?} after it was {known:?}", node + 1);
            return Err(Failure::new("S5", entry.at, words));
        }
        if holds {
            latest.insert(node, session);
        }
    }
    Ok(())
}

fn is_its_own(story: &Story<'_>, node: u8, session: SessionId, at: Moment) -> Result<(), Failure> {
    let processes = story.processes.get(&node).into_iter().flatten();
    let running = processes.filter(|process| process.started <= at && process.died.is_none_or(|died| died >= at));
    let mut running = running.peekable();
    let refused = |words: String| Err(Failure::new("S5", at, words));
    if running.peek().is_none() {
        return refused(format!("n{} acts as {session:?}, and no process runs there", node + 1));
    }
    match running.any(|process| process.nonce == session.nonce) {
        true => Ok(()),
        false => refused(format!("n{} acts as {session:?}, a session of another process", node + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, session};
    use super::*;

    #[test]
    fn a_process_lives_its_own_sessions() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(200).ask(0, 1, 1, true);
        assert_eq!(telling.judged(judge).expect("kept").counted("acts in the name of a session"), 3);
    }

    #[test]
    fn the_session_of_the_process_before_is_not_lived_on() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(150).tell(Event::Died { node: 0 });
        telling.at(160).tell(Event::Started { node: 0, nonce: 200 });
        telling.at(200).ask(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("of another process"));
    }

    #[test]
    fn an_earlier_session_of_one_process_is_over_once_a_later_one_holds_a_lease() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let later = SessionId { counter: 2, ..session(0, 100) };
        let (sent, end) = (telling.clock(0), telling.clock(0));
        telling.at(150).tell(Event::Extended { node: 0, session: later, sent, end, until: end });
        telling.at(200).ask(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("goes on as"));
    }

    #[test]
    fn the_dead_do_nothing() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.at(150).tell(Event::Died { node: 0 });
        telling.at(200).ask(0, 1, 1, true);
        assert!(telling.judged(judge).unwrap_err().words.contains("no process"));
    }
}
