//! A part of liveness: a leader goes on granting only while it is proven that its acknowledgements arrive. Otherwise a holder
//! that is heard and hears nothing would keep its session, and its partitions, for ever.

use limits::Moment;
use ownership::SessionId;

use super::story::{Life, Story};
use super::{Failure, Findings};
use crate::world::Fault;

/// Deadlines that one leader may set in a row with nothing heard by the holder in between: where the session is opened or the
/// leader begins, with the first renewal that it sees, and with two more (`UNHEARD_MAX` of the grantor); the rest is for
/// renewals that were under way.
const IN_A_ROW: u64 = 6;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    story.lives.iter().try_for_each(|(session, life)| granted_in_vain(story, *session, life, findings))
}

fn granted_in_vain(story: &Story<'_>, session: SessionId, life: &Life, findings: &mut Findings) -> Result<(), Failure> {
    let mut heard = life.extended.iter().map(|extension| extension.at).peekable();
    let mut row = 0;
    let mut before = None;
    for (node, at, _) in &life.granted {
        let mut fresh = begins_to_lead(story, *node, before.replace((*node, *at)), *at);
        while heard.next_if(|heard| heard <= at).is_some() {
            fresh = true;
        }
        row = if fresh { 1 } else { row + 1 };
        if rearms(story, *node) {
            continue;
        }
        findings.measure("deadlines set in a row of which their holder heard nothing", row);
        if row > IN_A_ROW {
            let words =
                format!("n{} granted {session:?} a lease {row} times in a row, and its holder heard nothing", node + 1);
            return Err(Failure::new("liveness", *at, words));
        }
    }
    Ok(())
}

/// Whether another one led before, or this one in an earlier term.
fn begins_to_lead(story: &Story<'_>, node: u8, before: Option<(u8, Moment)>, at: Moment) -> bool {
    before.is_none_or(|(other, then)| {
        other != node || story.leads.iter().any(|(led, leader, _)| *leader == node && *led >= then && *led <= at)
    })
}

/// Whether this leader may have been held up, after which it sets every deadline anew.
fn rearms(story: &Story<'_>, node: u8) -> bool {
    story.spells.iter().filter(|spell| spell.befell(node)).any(|spell| match story.fault(spell) {
        Some(Fault::Stop { .. } | Fault::Freeze { .. } | Fault::Overload { .. } | Fault::SlowDisk { .. }) => true,
        Some(Fault::Clone { .. } | Fault::Rate { .. }) => true,
        Some(
            Fault::Crash { .. }
            | Fault::WallStep { .. }
            | Fault::OneWay { .. }
            | Fault::Isolate { .. }
            | Fault::Split { .. }
            | Fault::Storm { .. }
            | Fault::Suspect { .. }
            | Fault::Policy { .. }
            | Fault::Leave { .. },
        )
        | None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, ms, session};
    use super::*;
    use crate::world::trace::Event;

    fn granted(times: u64, heard_after: Option<u64>) -> Result<Findings, Failure> {
        let mut telling = Telling::new();
        let holder = session(0, 100);
        telling.at(50).tell(Event::Leads { node: 2, term: 1 });
        for time in 1..=times {
            telling.at(100 * time).tell(Event::Granted {
                node: 2,
                term: 1,
                session: holder,
                deadline: ms(100 * time + 3_000),
            });
            if heard_after == Some(time) {
                let (sent, end, until) = (ms(100 * time), ms(100 * time + 2_000), ms(100 * time + 2_000));
                telling.tell(Event::Extended { session: holder, node: 0, sent, end, until });
            }
        }
        telling.judged(judge)
    }

    #[test]
    fn a_leader_does_not_grant_on_and_on_what_nobody_hears() {
        assert!(granted(IN_A_ROW, None).is_ok());
        assert!(granted(IN_A_ROW + 1, None).unwrap_err().words.contains("heard nothing"));
        assert!(granted(IN_A_ROW + 1, Some(3)).is_ok());
    }
}
