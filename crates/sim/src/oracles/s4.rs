//! S4, the order of leases: in real time a holder stops before anybody may take its place. A lease is counted from when its
//! renewal was sent; it ends before the deadline of whoever granted it; and the log ends no session whose lease runs. Clocks
//! that ran beyond what leases assume are an excuse, and are found by their course, not by the name of a fault.

use control::Ending;
use limits::Moment;
use ownership::SessionId;

use super::story::{Life, Story};
use super::{Failure, Findings};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for (session, life) in &story.lives {
        findings.count("sessions", 1);
        findings.count("leases extended", life.extended.len() as u64);
        counted_from_sending(story, *session, life)?;
        within_deadlines(story, *session, life, findings)?;
        not_ended_alive(story, *session, life, findings)?;
    }
    Ok(())
}

fn counted_from_sending(story: &Story<'_>, session: SessionId, life: &Life) -> Result<(), Failure> {
    let held = |at: Moment| story.scenario.terms.held(story.longest_ttl_by(at));
    match life.extended.iter().find(|extension| extension.end.since(extension.sent) > held(extension.at)) {
        None => Ok(()),
        Some(extension) => {
            let (lasts, held) = (extension.end.since(extension.sent), held(extension.at));
            let words = format!("the lease of {session:?} ends {lasts} after its renewal was sent, {held} are granted");
            Err(Failure::new("S4", extension.at, words))
        }
    }
}

fn within_deadlines(
    story: &Story<'_>,
    session: SessionId,
    life: &Life,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let mut granted = life.granted.iter().peekable();
    let mut latest = Moment::ZERO;
    for extension in &life.extended {
        while let Some((leader, _, deadline)) = granted.next_if(|(_, at, _)| *at <= extension.at) {
            latest = latest.max(story.course(*leader).first(*deadline));
        }
        let ends = story.course(extension.node).first(extension.end);
        if ends <= latest {
            continue;
        }
        if story.is_beyond(session, extension.at, ends) {
            findings.count("leases beyond their assumptions", 1);
            continue;
        }
        let words = format!("the lease of {session:?} ends {} after the latest deadline", ends.since(latest));
        return Err(Failure::new("S4", extension.at, words));
    }
    Ok(())
}

fn not_ended_alive(story: &Story<'_>, session: SessionId, life: &Life, findings: &mut Findings) -> Result<(), Failure> {
    let Some((at, Ending::Expired)) = life.ended else { return Ok(()) };
    findings.count("sessions expired", 1);
    for node in &life.nodes {
        let Some(last) = life.last(*node) else { continue };
        let ends = story.course(*node).first(last.end);
        if ends <= at {
            continue;
        }
        if story.is_beyond(session, at, ends) {
            findings.count("leases beyond their assumptions", 1);
            continue;
        }
        let words =
            format!("{session:?} was ended while its lease at n{} ran for another {}", node + 1, ends.since(at));
        return Err(Failure::new("S4", at, words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use limits::Span;

    use super::super::telling::{Telling, ms, session};
    use super::*;
    use crate::world::trace::Event;
    use crate::world::{FROZEN_PPM, Fault, Planned, When, Who};

    fn granted(telling: &mut Telling, deadline: u64) {
        let deadline = ms(deadline);
        telling.tell(Event::Granted { node: 2, term: 1, session: session(0, 100), deadline, unheard: 0 });
    }

    #[test]
    fn a_lease_that_ends_before_its_deadline_and_its_session_is_right() {
        let mut telling = Telling::new();
        granted(telling.at(99), 3_200);
        telling.at(100).reign(0, 1);
        telling.at(3_070).expire(0);
        let findings = telling.judged(judge).expect("kept");
        assert_eq!((findings.counted("leases extended"), findings.counted("sessions expired")), (1, 1));
    }

    #[test]
    fn a_session_is_not_ended_while_its_lease_runs() {
        let mut telling = Telling::new();
        granted(telling.at(99), 3_200);
        telling.at(100).reign(0, 1);
        telling.at(3_069).expire(0);
        assert!(telling.judged(judge).unwrap_err().words.contains("was ended while"));
    }

    #[test]
    fn a_lease_does_not_outlast_the_deadline() {
        let mut telling = Telling::new();
        granted(telling.at(99), 3_069);
        telling.at(100).reign(0, 1);
        assert!(telling.judged(judge).unwrap_err().words.contains("after the latest deadline"));
    }

    #[test]
    fn a_lease_is_not_counted_from_its_acknowledgement() {
        let mut telling = Telling::new();
        granted(telling.at(99), 9_000);
        telling.at(100).extend(0, 2_971);
        assert!(telling.judged(judge).unwrap_err().words.contains("was sent"));
    }

    #[test]
    fn a_machine_that_stood_still_is_an_excuse_and_a_clock_that_did_so_by_itself_is_none() {
        for frozen in [true, false] {
            let mut telling = Telling::new();
            granted(telling.at(99), 3_050);
            if frozen {
                telling.freeze(0, 1_000, 1_500);
            } else {
                telling.courses[0].change(ms(1_000), FROZEN_PPM);
                telling.courses[0].change(ms(1_500), 0);
            }
            telling.at(100).reign(0, 1);
            assert_eq!(telling.judged(judge).is_ok(), frozen);
        }
    }

    #[test]
    fn a_clock_within_rho_is_no_excuse() {
        let mut telling = Telling::new();
        granted(telling.at(99), 3_050);
        let fault = Fault::Rate { who: Who::Node(0), ppm: -9_000, lasts: Span::from_secs(1) };
        telling.scenario.faults.push(Planned { when: When::At(ms(1_000)), fault });
        telling.at(1_000).tell(Event::Broke { fault: 0, nodes: 1 });
        telling.courses[0].change(ms(1_000), -9_000);
        telling.at(100).reign(0, 1);
        assert!(telling.judged(judge).unwrap_err().words.contains("after the latest deadline"));
    }

    #[test]
    fn a_longer_ttl_is_granted_from_when_it_was_set() {
        for (set, millis, kept) in [(true, 3_960, true), (true, 3_961, false), (false, 3_960, false)] {
            let mut telling = Telling::new();
            let fault = Fault::Ttl { ttl: Span::from_secs(4) };
            telling.scenario.faults.push(Planned { when: When::At(ms(50)), fault });
            if set {
                telling.at(50).tell(Event::Broke { fault: 0, nodes: 7 });
            }
            granted(telling.at(99), 9_000);
            telling.at(100).extend(0, millis);
            assert_eq!(telling.judged(judge).is_ok(), kept, "{set} {millis}");
        }
    }
}
