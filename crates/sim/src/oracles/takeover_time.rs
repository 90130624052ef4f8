//! How long a crash lasts for others: where a quorum was well meanwhile, the partitions of a node that died have another
//! owner within `TTL (1 + 2 rho)`, a failover where there was one, and one commit. In virtual time, so to the nanosecond.

use limits::{Moment, Span};
use ownership::lease::FAILOVER;

use super::story::{Reign, Spell, Story};
use super::{Failure, Findings};
use crate::world::Fault;

/// What a takeover takes beside the wait: the entry is proposed, committed, applied, and the successor's first renewal is
/// acknowledged, over a network at its best.
pub(super) const COMMIT: Span = Span::from_millis(100);

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let crashes = story.spells.iter().filter(|spell| matches!(story.fault(spell), Some(Fault::Crash { .. })));
    for crash in crashes {
        let owned = |reign: &&Reign<'_>| {
            crash.befell(reign.node)
                && reign.began < crash.began
                && reign.ended.is_some_and(|ended| ended == crash.began)
        };
        let owned: Vec<&Reign<'_>> = story.reigns.iter().filter(owned).collect();
        let by = crash.began.saturating_add(bound(story, crash));
        if owned.is_empty() || story.end() <= by || !is_well_meanwhile(story, crash, by) {
            continue;
        }
        findings.count("crashes timed", 1);
        if crash_of_the_leader(story, crash) {
            findings.count("crashes of a leader timed", 1);
            findings.measure("failover, ms", failover(story, crash.began).as_nanos() / 1_000_000);
        }
        for reign in owned {
            is_taken_over(story, reign, crash.began, by, findings)?;
        }
    }
    Ok(())
}

/// `TTL (1 + 2 rho)`, rounded up, by the longest ttl of the story: what a leader with a slow clock waits.
pub(super) fn wait(story: &Story<'_>) -> Span {
    let terms = story.scenario.longest();
    let slowest = 1_000 - u64::from(terms.rho_per_mille());
    terms.granted().scaled(1_000, slowest).saturating_add(Span::from_nanos(1))
}

fn bound(story: &Story<'_>, crash: &Spell) -> Span {
    // The last renewal may have been under way.
    let arrives = story.scenario.weather.delay_max;
    let failover = if crash_of_the_leader(story, crash) { failover(story, crash.began) } else { Span::ZERO };
    [wait(story), failover, COMMIT].into_iter().fold(arrives, Span::saturating_add)
}

/// How long after it was mended a fault may still be felt: what was cut connects again.
pub(super) const AFTERMATH: Span = Span::from_secs(1);

/// The longest that a change of leader may take for what hangs on it to be judged: votes may be split again and again.
const FAILOVER_MOST: Span = Span::from_secs(5);

/// How long the log had no leader after a moment, as it was measured; what is usual at the least.
pub(super) fn failover(story: &Story<'_>, from: Moment) -> Span {
    let leads = story.leads.iter().map(|(at, _, _)| *at).filter(|at| *at > from && at.since(from) <= FAILOVER_MOST);
    leads.map(|at| at.since(from)).max().map_or(FAILOVER, |took| took.max(FAILOVER))
}

/// Whether nothing else was broken from just before the crash on, but what leaves the quorum well.
fn is_well_meanwhile(story: &Story<'_>, crash: &Spell, by: Moment) -> bool {
    let from = crash.began.saturating_sub(AFTERMATH);
    let weather = &story.scenario.weather;
    let calm = weather.lost_per_mille == 0;
    let others = story.spells.iter().filter(|spell| spell.fault != crash.fault && spell.overlaps(from, by));
    let stays = story.leads.iter().filter(|(at, _, _)| *at > crash.began && *at <= by).count();
    let leader_died = crash_of_the_leader(story, crash);
    calm && others.into_iter().all(|spell| story.fault(spell).is_some_and(is_harmless))
        && stays <= usize::from(leader_died)
}

fn crash_of_the_leader(story: &Story<'_>, crash: &Spell) -> bool {
    let leader = story.leads.iter().rev().find(|(at, _, _)| *at <= crash.began);
    leader.is_none_or(|(_, node, _)| crash.befell(*node))
}

/// What neither stops a process nor keeps a message from arriving.
pub(super) fn is_harmless(fault: &Fault) -> bool {
    match fault {
        Fault::WallStep { .. } | Fault::Suspect { .. } | Fault::Policy { .. } | Fault::Ttl { .. } => true,
        Fault::Store(_) => true,
        Fault::Crash { .. }
        | Fault::Stop { .. }
        | Fault::Freeze { .. }
        | Fault::Clone { .. }
        | Fault::Rate { .. }
        | Fault::OneWay { .. }
        | Fault::Isolate { .. }
        | Fault::Split { .. }
        | Fault::Storm { .. }
        | Fault::SlowDisk { .. }
        | Fault::Overload { .. }
        | Fault::Leave { .. } => false,
    }
}

fn is_taken_over(
    story: &Story<'_>,
    reign: &Reign<'_>,
    crashed: Moment,
    by: Moment,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let successors =
        story.reigns.iter().filter(|other| other.partition == reign.partition && other.epoch > reign.epoch);
    let began = successors.map(|successor| successor.began).min();
    findings.count("takeovers timed", 1);
    match began {
        Some(began) if began <= by => {
            findings.measure("from a crash to a successor, ms", began.since(crashed).as_nanos() / 1_000_000);
            Ok(())
        }
        _ => {
            let words = format!(
                "{:?} of n{}, which died {} before, has no other owner",
                reign.partition,
                reign.node + 1,
                by.since(crashed)
            );
            Err(Failure::new("takeover-time", by, words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, ms};
    use super::*;
    use crate::world::trace::Event;
    use crate::world::{Planned, When, Who};

    /// n1 dies at 1,000 ms, and n2 reigns at the given time.
    fn crash(successor: u64, leader: u8) -> Telling {
        let mut telling = Telling::new();
        let fault = Fault::Crash { who: Who::Node(0), down: Span::from_secs(1) };
        telling.scenario.faults.push(Planned { when: When::At(ms(1_000)), fault });
        telling.at(50).tell(Event::Leads { node: leader, term: 1 });
        telling.at(100).reign(0, 1);
        telling.at(1_000).tell(Event::Broke { fault: 0, nodes: 1 });
        telling.tell(Event::Died { node: 0 });
        telling.at(successor).reign(1, 2);
        telling.at(9_000).tell(Event::Healed);
        telling
    }

    // 3,000 ms * 1.01 / 0.99 = 3,060.606..., 1 ms under way, 100 ms for the commit.
    #[test]
    fn a_crash_lasts_a_lease_and_a_commit() {
        let findings = crash(4_161, 2).judged(judge).expect("kept");
        assert_eq!((findings.counted("takeovers timed"), findings.most("from a crash to a successor, ms")), (1, 3_161));
        assert_eq!(crash(4_162, 2).judged(judge).unwrap_err().check, "takeover-time");
    }

    #[test]
    fn the_leaders_crash_lasts_a_failover_longer() {
        assert!(crash(4_811, 0).judged(judge).is_ok());
        assert!(crash(4_812, 0).judged(judge).is_err());
    }

    #[test]
    fn a_crash_beside_another_fault_is_not_timed() {
        let mut telling = crash(8_000, 2);
        let fault = Fault::SlowDisk { who: Who::Node(2), lasts: Span::from_secs(1) };
        telling.scenario.faults.push(Planned { when: When::At(ms(2_000)), fault });
        telling.at(2_000).tell(Event::Broke { fault: 1, nodes: 4 });
        telling.trace.sort_by_key(|entry| entry.at);
        assert_eq!(telling.judged(judge).expect("not judged").counted("crashes timed"), 0);
    }
}
