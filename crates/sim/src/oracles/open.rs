//! Open never blocks: a limit that fails open is refused only where what was truly let pass has used it up; never because
//! nobody could say, never because a takeover left it unknown. And no caller waits longer than it said it would, but for
//! what the node it asked stood still itself: every node that was well answers every question in time.

use limits::{Basis, FailMode, Moment, Span};

use super::story::Story;
use super::{Failure, Findings};
use crate::history::{Reason, Source};
use crate::world::Fault;
use crate::world::trace::{LegTold, Told};

/// What a node needs to say what it knows when time is up: nothing happens in no time, and times are whole nanoseconds.
const SLACK: Span = Span::from_millis(1);

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    for (at, told) in &story.told {
        let legs = told.decision.iter().flat_map(|decision| &decision.legs);
        for leg in legs.filter(|leg| leg.fail == FailMode::Open && !leg.leg.shadow) {
            findings.count("answers of open limits", 1);
            is_justified(told, leg).map_err(|words| Failure::new("open", *at, words))?;
        }
        in_time(story, told, findings).map_err(|words| Failure::new("open", *at, words))?;
    }
    never_recovering(story)
}

fn is_justified(told: &Told, leg: &LegTold) -> Result<(), String> {
    let nobody_counted = match leg.source {
        Source::Closed | Source::Emergency => true,
        Source::Owner | Source::Forwarded | Source::Open | Source::DenialCache | Source::Policy => false,
    };
    let infrastructure = match leg.reason {
        Reason::Unavailable => !leg.leg.allowed,
        Reason::Recovering => true,
        Reason::Ok | Reason::NoLimit | Reason::Limit | Reason::MissingAttribute | Reason::Never => false,
    };
    match nobody_counted || infrastructure {
        true => Err(format!("{:?} met an open limit that said {} from {}", told.id, leg.reason, leg.source)),
        false => Ok(()),
    }
}

/// Owners too: what was decided for an open limit was not refused for what a takeover left unknown.
fn never_recovering(story: &Story<'_>) -> Result<(), Failure> {
    for reign in &story.reigns {
        for (_, at, decided) in reign.decisions.iter().filter(|(_, _, decided)| decided.recovering) {
            let open =
                |leg: &&crate::world::trace::LegSeen| leg.shape.basis == Basis::Lo && !leg.allowed && !leg.shadow;
            if let Some(leg) = decided.legs.iter().find(open) {
                let words = format!("n{} refused {:?} of an open limit for a takeover", reign.node + 1, leg.limit);
                return Err(Failure::new("open", *at, words));
            }
        }
    }
    Ok(())
}

/// Whether the node that was asked answered before the caller's time was up, on that node's own clock.
fn in_time(story: &Story<'_>, told: &Told, findings: &mut Findings) -> Result<(), String> {
    let Some(ask) = story.scenario.asks.get(told.ask) else { return Ok(()) };
    // A copy of the node may have been asked, and its clock may run otherwise.
    let copies = story.copies.iter().filter(|(_, original, _)| *original == told.node).map(|(copy, ..)| *copy);
    let asked = copies.chain([told.node]).map(|node| deadline(story, node, told.put, ask.budget));
    let deadline = asked.max().unwrap_or(told.put);
    if told.decision.is_none() {
        return has_an_excuse(story, told, deadline, findings);
    }
    findings.count("answers timed", 1);
    if told.returned <= deadline || is_hampered(story, told.node, told.put, told.returned) {
        findings.measure("latest answer after its deadline, us", told.returned.since(deadline).as_nanos() / 1_000);
        return Ok(());
    }
    let late = told.returned.since(deadline);
    Err(format!("n{} answered {:?} {late} after its deadline, and was well", told.node + 1, told.id))
}

/// When a well node has answered a question that was put to it at a real moment: its budget by its own clock, and what that
/// clock showed while its process was stopped.
fn deadline(story: &Story<'_>, node: u8, put: Moment, budget: Span) -> Moment {
    let course = story.course(node);
    let due = |reading: Moment| course.last_at(reading).saturating_add(SLACK);
    let reading = stops(story, node).fold(course.reads(put).saturating_add(budget), |reading, (from, until)| {
        let stood = from <= due(reading) && until >= put;
        let passed = course.reads(until).since(course.reads(put.max(from)));
        reading.saturating_add(if stood { passed } else { Span::ZERO })
    });
    due(reading)
}

/// When a process stood still and its clock ran on, from and until.
fn stops<'s>(story: &'s Story<'_>, node: u8) -> impl Iterator<Item = (Moment, Moment)> + 's {
    let end = story.end();
    let stops = story.spells.iter().filter(move |spell| spell.befell(node));
    stops
        .filter(|spell| matches!(story.fault(spell), Some(Fault::Stop { .. })))
        .map(move |spell| (spell.began, spell.ended.unwrap_or(end)))
}

/// Whether a node had more to do than it could, so that nobody can say when its turn came.
fn is_hampered(story: &Story<'_>, node: u8, from: Moment, until: Moment) -> bool {
    let overloads = story.spells.iter().filter(|spell| spell.befell(node));
    overloads.filter(|spell| matches!(story.fault(spell), Some(Fault::Overload { .. }))).any(|spell| {
        let ended = spell.ended.map(|ended| ended.saturating_add(Span::from_secs(2)));
        spell.began <= until && ended.is_none_or(|ended| ended >= from)
    })
}

/// Nobody answered: then every node that was asked was down, stood still, or was overloaded.
fn has_an_excuse(story: &Story<'_>, told: &Told, deadline: Moment, findings: &mut Findings) -> Result<(), String> {
    findings.count("askings without an answer, held against what ailed the node", 1);
    let until = told.returned.max(told.put);
    let is_ready = story.is_ready(told.node, told.put);
    let ails = !story.was_up(told.node, told.put, until)
        || story.had_a_copy(told.node, told.put, until)
        || is_hampered(story, told.node, told.put, until);
    if !is_ready {
        findings.count("askings at nodes that were not ready", 1);
        return Ok(());
    }
    if ails || deadline > until {
        return Ok(());
    }
    Err(format!("n{} never answered {:?}, and was well", told.node + 1, told.id))
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, ms};
    use super::*;
    use crate::world::trace::{Decision, Event};
    use crate::world::{Planned, When, Who};

    fn asked(millis: u64, tell: impl FnOnce(&mut LegTold)) -> Telling {
        let mut telling = Telling::new();
        telling.fail = FailMode::Open;
        telling.at(100).reign(0, 1);
        let decided = telling.at(1_000).decide(0, 1, 1, true);
        telling.at(1_000 + millis).told(&decided, millis);
        let Some(Event::Told(told)) = telling.trace.last_mut().map(|entry| &mut entry.event) else { panic!() };
        tell(&mut told.decision.as_mut().unwrap().legs[0]);
        telling
    }

    #[test]
    fn an_open_limit_admits_or_says_that_it_is_used_up() {
        assert_eq!(asked(5, |_| {}).judged(judge).expect("kept").counted("answers of open limits"), 1);
        let used_up = |leg: &mut LegTold| (leg.leg.allowed, leg.reason) = (false, Reason::Limit);
        assert!(asked(5, used_up).judged(judge).is_ok(), "whether it is, others judge");
        let unseen = |leg: &mut LegTold| (leg.source, leg.reason) = (Source::Open, Reason::Unavailable);
        assert!(asked(5, unseen).judged(judge).is_ok());
    }

    #[test]
    fn an_open_limit_is_never_refused_for_the_infrastructures_sake() {
        for reason in [Reason::Unavailable, Reason::Recovering] {
            let refused = |leg: &mut LegTold| (leg.leg.allowed, leg.reason) = (false, reason);
            assert!(asked(5, refused).judged(judge).unwrap_err().words.contains("met an open limit"), "{reason}");
        }
        let closed = |leg: &mut LegTold| leg.source = Source::Closed;
        assert!(asked(5, closed).judged(judge).is_err());
    }

    #[test]
    fn an_owner_does_not_refuse_an_open_limit_for_a_takeover() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        telling.shape.basis = Basis::Lo;
        telling.at(200).decide(0, 1, 1, false);
        assert!(telling.judged(judge).is_ok());
        let Some(Event::Decided(decided)) = telling.trace.last_mut().map(|entry| &mut entry.event) else { panic!() };
        decided.recovering = true;
        assert!(telling.judged(judge).unwrap_err().words.contains("for a takeover"));
    }

    #[test]
    fn an_answer_comes_before_the_deadline() {
        assert!(asked(101, |_| {}).judged(judge).is_ok());
        assert!(asked(102, |_| {}).judged(judge).unwrap_err().words.contains("after its deadline"));
    }

    fn broken(fault: Fault, from: u64, until: u64) -> Telling {
        let mut telling = asked(300, |_| {});
        let when = When::At(ms(from));
        telling.scenario.faults.push(Planned { when, fault });
        let told = telling.trace.pop().unwrap();
        telling.at(from).tell(Event::Broke { fault: 0, nodes: 1 });
        telling.at(until).tell(Event::Mended { fault: 0 });
        telling.trace.push(told);
        telling
    }

    #[test]
    fn a_process_that_was_stopped_is_excused_for_so_long() {
        let stop = Fault::Stop { who: Who::Node(0), lasts: Span::ZERO };
        assert!(broken(stop.clone(), 1_050, 1_260).judged(judge).is_ok());
        assert!(broken(stop.clone(), 1_050, 1_240).judged(judge).is_err());
        let mut on_a_fast_clock = broken(stop, 1_050, 1_255);
        on_a_fast_clock.courses[0].change(ms(1_050), 500_000);
        on_a_fast_clock.courses[0].change(ms(1_255), 0);
        assert!(on_a_fast_clock.judged(judge).is_ok(), "by as much as the clock showed");
        let slow = Fault::Rate { who: Who::Node(0), ppm: 0, lasts: Span::ZERO };
        assert!(broken(slow, 1_050, 1_260).judged(judge).is_err(), "whose process went on");
    }

    #[test]
    fn a_clock_that_is_slow_has_a_later_deadline() {
        let mut telling = asked(190, |_| {});
        telling.courses[0].change(ms(1_000), -500_000);
        assert!(telling.judged(judge).is_ok());
    }

    #[test]
    fn whoever_is_well_answers() {
        let mut telling = Telling::new();
        telling.at(100).reign(0, 1);
        let decided = telling.at(1_000).ask(0, 1, 1, true);
        telling.at(1_200).tell_caller(&decided, 199, None::<Decision>);
        assert!(telling.judged(judge).unwrap_err().words.contains("never answered"));
        let told = telling.trace.pop().unwrap();
        telling.at(1_100).tell(Event::Died { node: 0 });
        telling.trace.push(told);
        assert!(telling.judged(judge).is_ok());
    }
}
