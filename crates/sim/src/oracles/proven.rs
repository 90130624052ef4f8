//! A part of liveness: a leader goes on granting only while it is proven that its acknowledgements arrive. Otherwise a holder
//! that is heard and hears nothing would keep its session, and its partitions, for ever.

use super::story::Story;
use super::{Failure, Findings};
use crate::world::trace::Event;

/// A holder may have missed so many acknowledgements and be granted more.
const UNHEARD_MAX: u64 = 2;

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for entry in story.trace {
        let Event::Granted { node, session, unheard, .. } = &entry.event else { continue };
        findings.measure("renewals unheard when a lease was granted", *unheard);
        if *unheard > UNHEARD_MAX {
            let words = format!("n{} granted {session:?} a lease, and its holder heard nothing of {unheard}", node + 1);
            return Err(Failure::new("liveness", entry.at, words));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, ms, session};
    use super::*;

    #[test]
    fn nothing_is_granted_on_and_on_that_nobody_hears() {
        for (unheard, kept) in [(UNHEARD_MAX, true), (UNHEARD_MAX + 1, false)] {
            let mut telling = Telling::new();
            let (session, deadline) = (session(0, 100), ms(3_000));
            telling.at(100).tell(Event::Granted { node: 2, term: 1, session, deadline, unheard });
            assert_eq!(telling.judged(judge).is_ok(), kept);
        }
    }
}
