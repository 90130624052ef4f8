//! Liveness: after the healing, within `TTL (1 + 2 rho)`, a failover, two renewals and a commit, every partition has exactly
//! one owner and no question goes unanswered; a window or a filling later nothing is refused for a takeover any more. And
//! before that too: a holder that hears no acknowledgement loses its session while others can take its place.

use std::collections::BTreeMap;

use limits::{Algorithm, Moment, Shape, Span};
use ownership::{Epoch, SessionId};
use ring::PartitionId;

use super::story::Story;
use super::takeover_time::{COMMIT, failover, is_harmless, wait};
use super::{Failure, Findings, proven};
use crate::history::{Reason, Source};
use crate::world::Fault;
use crate::world::trace::{Event, LegTold, Told};

pub(super) fn judge(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    proven::judge(story, findings)?;
    unheard_holders_lose_their_sessions(story, findings)?;
    let Some(healed) = story.healed else { return Ok(()) };
    let settled = healed.saturating_add(settles_within(story, healed));
    if story.end() <= settled {
        findings.count("stories that end before they settle", 1);
        return Ok(());
    }
    findings.count("stories that settle", 1);
    findings.measure("from the healing to a leader, ms", failover(story, healed).as_nanos() / 1_000_000);
    one_owner_each(story, settled, findings)?;
    for (at, told) in story.told.iter().filter(|(_, told)| told.put >= settled) {
        is_answered(story, told, settled, findings).map_err(|words| Failure::new("liveness", *at, words))?;
    }
    Ok(())
}

/// How long checks wait where the store cannot be asked, and until that is noticed.
const STORE_AWAY: Span = Span::from_millis(200);

/// What a question may need beyond its way, where what it uses has to be written down first.
const WRITTEN_DOWN: Span = Span::from_millis(25);

fn settles_within(story: &Story<'_>, healed: Moment) -> Span {
    let renew = story.scenario.terms.renew();
    let asks_the_store = if story.scenario.store { STORE_AWAY } else { Span::ZERO };
    let parts = [failover(story, healed), renew, renew, COMMIT, asks_the_store];
    parts.into_iter().fold(wait(story), Span::saturating_add)
}

fn one_owner_each(story: &Story<'_>, settled: Moment, findings: &mut Findings) -> Result<(), Failure> {
    let mut newest: BTreeMap<PartitionId, (Epoch, SessionId)> = BTreeMap::new();
    for entry in story.trace {
        if let Event::Appointed { partition, epoch, session, .. } = &entry.event {
            newest.insert(*partition, (*epoch, *session));
        }
    }
    let refused = |words: String| Err(Failure::new("liveness", settled, words));
    for number in 0..story.scenario.partitions {
        let partition = PartitionId(number);
        findings.count("partitions after the healing", 1);
        let reigns = story.chains.get(&partition).map_or(&[][..], |chain| chain);
        let going_on = reigns.iter().map(|reign| &story.reigns[*reign]).filter(|reign| reign.ended.is_none());
        let going_on: Vec<_> = going_on.collect();
        match (newest.get(&partition), going_on.as_slice()) {
            (None, _) => return refused(format!("{partition:?} was never given to anybody")),
            (Some((epoch, session)), [one]) if one.epoch == *epoch && one.session == *session => {
                if one.began > settled {
                    return refused(format!("{partition:?} had no owner before {}", one.began.since(settled)));
                }
                findings.measure("from the healing to the last reign, ms", since_healing(story, one.began));
            }
            (Some((epoch, _)), owners) => {
                let owners: Vec<_> = owners.iter().map(|reign| (reign.node + 1, reign.epoch)).collect();
                return refused(format!("{partition:?} is given away at {epoch:?}, and these reign: {owners:?}"));
            }
        }
    }
    Ok(())
}

fn since_healing(story: &Story<'_>, at: Moment) -> u64 {
    story.healed.map_or(0, |healed| at.since(healed).as_nanos() / 1_000_000)
}

fn is_answered(story: &Story<'_>, told: &Told, settled: Moment, findings: &mut Findings) -> Result<(), String> {
    let budget = story.scenario.asks.get(told.ask).map_or(Span::ZERO, |ask| ask.budget);
    let writes = if story.scenario.store { WRITTEN_DOWN } else { Span::from_millis(5) };
    // There and back, twice: what a question needs that is asked again at half its time.
    if budget < story.scenario.weather.delay_max.scaled(8, 1).saturating_add(writes) {
        return Ok(());
    }
    findings.count("questions after the healing", 1);
    let Some(decision) = &told.decision else {
        return Err(format!("n{} said nothing to {:?} after the healing", told.node + 1, told.id));
    };
    for leg in &decision.legs {
        let unknown = matches!(leg.source, Source::Open | Source::Closed | Source::Emergency);
        if unknown || leg.reason == Reason::Unavailable {
            return Err(format!("{:?} was answered by {} after the healing: {}", told.id, leg.source, leg.reason));
        }
        let until = settled.saturating_add(wears_off(&leg.leg.shape));
        if leg.reason == Reason::Recovering && told.put >= until {
            return Err(format!("{:?} met a limit that still recovered {}", told.id, since(settled, told.put)));
        }
        findings.count(kind_after(leg), 1);
    }
    Ok(())
}

fn since(from: Moment, until: Moment) -> Span {
    until.since(from)
}

fn kind_after(leg: &LegTold) -> &'static str {
    match (leg.leg.allowed, leg.reason) {
        (true, _) => "limits that admitted after the healing",
        (false, Reason::Recovering) => "limits that recovered after the healing",
        (
            false,
            Reason::Ok
            | Reason::NoLimit
            | Reason::Limit
            | Reason::MissingAttribute
            | Reason::Never
            | Reason::Unavailable,
        ) => "limits that refused after the healing",
    }
}

/// How long a takeover may be the reason of a denial, in real time, on a clock that runs slowly.
fn wears_off(shape: &Shape) -> Span {
    let Some(rate) = shape.rate else { return Span::ZERO };
    let period = rate.period();
    let span = match shape.algorithm {
        Algorithm::TokenBucket { burst } => {
            let nanos = u128::from(period.as_nanos()) * u128::from(burst) / u128::from(rate.amount().max(1));
            Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
        Algorithm::SlidingLog { .. } => period,
        Algorithm::FixedWindow { .. } | Algorithm::Calendar { .. } => period.saturating_add(Span::from_millis(500)),
        Algorithm::SlidingCounter => period.saturating_add(period),
        Algorithm::Concurrency { max_hold } => max_hold,
    };
    span.scaled(105, 100).saturating_add(Span::from_millis(1))
}

/// How many renewals a leader still grants to a holder that may not have heard it, and one that was under way.
const UNHEARD: u64 = 4;

/// Row 8: acknowledgements do not arrive, the owner stops at the end of its lease, and the leader, to whom nothing proves
/// that they arrive, ends its session soon after. Judged where one leader was well all the while and nothing was broken but
/// one direction to the holder, or the holder itself.
fn unheard_holders_lose_their_sessions(story: &Story<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let terms = story.scenario.longest();
    // A leader may wait by the longest while a holder was granted the shortest.
    let apart = terms.waited().saturating_sub(story.scenario.ttl_least());
    for (session, life) in &story.lives {
        let [node] = life.nodes[..] else { continue };
        for (place, extension) in life.extended.iter().enumerate() {
            let lapses = story.course(node).first(extension.end);
            // What was heard only after it was over gave no lease: nothing lapsed then.
            if extension.at >= lapses {
                continue;
            }
            let drift = terms.waited().scaled(5, 100);
            let within = terms.renew().scaled(UNHEARD, 1).saturating_add(drift).saturating_add(apart);
            let by = lapses.saturating_add(within).saturating_add(COMMIT);
            let extended = life.extended.get(place + 1).is_some_and(|next| next.at <= by);
            let ended = life.ended.is_some_and(|(at, _)| at <= by);
            let from = extension.at;
            if extended || story.end() <= by || !others_are_well(story, node, from, by) {
                continue;
            }
            findings.count("leases that lapsed unheard", 1);
            if !ended {
                let words = format!("the lease of {session:?} lapsed {within} ago, and its session lives on");
                return Err(Failure::new("liveness", by, words));
            }
        }
    }
    Ok(())
}

/// Whether one leader led all the while and was well, as the leases that it granted to others show, and nothing kept the
/// holder's renewals from it.
fn others_are_well(story: &Story<'_>, holder: u8, from: Moment, by: Moment) -> bool {
    let changes = story.leads.iter().filter(|(at, _, _)| *at >= from && *at <= by).count();
    let Some((_, leader, _)) = story.leads.iter().rev().find(|(at, _, _)| *at < from) else { return false };
    let mut spells = story.spells.iter().filter(|spell| spell.overlaps(from, by));
    let spares_the_leader = spells.all(|spell| match story.fault(spell) {
        Some(Fault::OneWay { to: Some(_), .. }) => !spell.befell(holder),
        Some(Fault::Storm { .. } | Fault::Split { .. }) | None => false,
        Some(other) => is_harmless(other) || !(spell.befell(*leader) || spell.befell(holder)),
    });
    let until = by.saturating_add(story.scenario.terms.renew());
    let leads_others = story.lives.values().filter(|life| !life.nodes.contains(&holder)).any(|life| {
        let by_it = life.granted.iter().filter(|(node, _, _)| node == leader);
        by_it.into_iter().any(|(_, at, _)| *at > by.saturating_sub(story.scenario.terms.renew()) && *at <= until)
    });
    changes == 0 && *leader != holder && spares_the_leader && leads_others && story.scenario.weather.lost_per_mille == 0
}

#[cfg(test)]
mod tests {
    use super::super::telling::{Telling, ms, session};
    use super::*;
    use crate::world::{Planned, When, Who};

    /// Healed at 1,000 ms: settled 3,060.606 + 650 + 1,000 + 100 ms later, at 5,810.606.
    fn healed() -> Telling {
        let mut telling = Telling::new();
        telling.scenario.partitions = 4;
        telling.at(100).reign(0, 1);
        telling.at(1_000).tell(Event::Healed);
        telling
    }

    fn others_reign(telling: &mut Telling, millis: u64) {
        for number in [0, 1, 2] {
            let (partition, epoch, session) = (PartitionId(number), Epoch(1), session(1, 101));
            telling.at(millis).tell(Event::Appointed { partition, epoch, session, index: 2, before: None });
            telling.tell(Event::Reigns { node: 1, partition, epoch, session, full_as_of: None });
        }
    }

    fn until_the_end(telling: &mut Telling) -> Result<Findings, Failure> {
        telling.at(20_000).tell(Event::Note("the end".to_owned()));
        telling.judged(judge)
    }

    #[test]
    fn every_partition_has_one_owner_in_time() {
        for (millis, kept) in [(5_810, true), (5_811, false)] {
            let mut telling = healed();
            others_reign(&mut telling, millis);
            assert_eq!(until_the_end(&mut telling).is_ok(), kept, "{millis}");
        }
    }

    #[test]
    fn a_partition_without_an_owner_or_with_two_is_seen() {
        assert!(until_the_end(&mut healed()).unwrap_err().words.contains("never given"));
        let mut telling = healed();
        others_reign(&mut telling, 2_000);
        telling.at(2_500).reign(2, 2);
        assert!(until_the_end(&mut telling).unwrap_err().words.contains("these reign"));
    }

    fn asked_at(millis: u64, tell: impl FnOnce(&mut Told)) -> Result<Findings, Failure> {
        let mut telling = healed();
        others_reign(&mut telling, 2_000);
        let decided = telling.at(millis).decide(0, 1, 1, true);
        telling.told(&decided, 1);
        let Some(Event::Told(told)) = telling.trace.last_mut().map(|entry| &mut entry.event) else { panic!() };
        tell(told);
        until_the_end(&mut telling)
    }

    #[test]
    fn every_question_is_answered_by_an_owner_once_all_is_settled() {
        let closed = |told: &mut Told| told.decision.as_mut().unwrap().legs[0].source = Source::Closed;
        assert!(asked_at(7_000, |_| {}).is_ok());
        assert!(asked_at(5_000, closed).is_ok());
        assert!(asked_at(7_000, closed).unwrap_err().words.contains("answered by closed"));
        assert!(asked_at(7_000, |told| told.decision = None).unwrap_err().words.contains("said nothing"));
    }

    #[test]
    fn a_window_later_nothing_recovers_any_more() {
        let recovering = |told: &mut Told| told.decision.as_mut().unwrap().legs[0].reason = Reason::Recovering;
        assert!(asked_at(6_800, recovering).is_ok());
        assert!(asked_at(6_900, recovering).unwrap_err().words.contains("still recovered"));
    }

    #[test]
    fn a_holder_that_hears_nothing_loses_its_session() {
        // Lapsed at 3,070 ms; four renewals, 5 % of a lease and a commit later it is 5,320.
        for (ended, kept) in [(5_320, true), (5_321, false)] {
            let mut telling = Telling::new();
            telling.at(50).tell(Event::Leads { node: 2, term: 1 });
            telling.at(100).reign(0, 1);
            let fault = Fault::OneWay { from: Who::Leader, to: Some(Who::Node(0)), lasts: Span::from_secs(8) };
            telling.scenario.faults.push(Planned { when: When::At(ms(200)), fault });
            telling.at(200).tell(Event::Broke { fault: 0, nodes: 4 });
            telling.at(ended).expire(0);
            let (session, deadline) = (session(1, 101), ms(9_000));
            telling.tell(Event::Granted { node: 2, term: 1, session, deadline, unheard: 0 });
            telling.at(ended + 500).reign(1, 2);
            telling.at(8_000).tell(Event::Mended { fault: 0 });
            assert_eq!(telling.judged(judge).is_ok(), kept, "{ended}");
        }
    }

    #[test]
    fn what_is_heard_after_its_end_is_no_lease_that_lapsed() {
        let mut telling = Telling::new();
        telling.at(50).tell(Event::Leads { node: 2, term: 1 });
        telling.at(100).reign(0, 1);
        let fault = Fault::Overload { who: Who::Node(0), each: Span::from_millis(20), lasts: Span::from_millis(6_100) };
        telling.scenario.faults.push(Planned { when: When::At(ms(200)), fault });
        telling.at(200).tell(Event::Broke { fault: 0, nodes: 1 });
        let deadline = ms(9_000);
        telling.at(6_200).tell(Event::Granted { node: 2, term: 1, session: session(1, 101), deadline, unheard: 0 });
        telling.at(6_300).tell(Event::Mended { fault: 0 });
        // Sent at 4,000 ms, granted nothing, and heard when all that had piled up was done.
        let (sent, end, until) = (ms(4_000), ms(4_000), ms(4_000));
        telling.at(6_400).tell(Event::Extended { node: 0, session: session(0, 100), sent, end, until });
        telling.at(8_000).tell(Event::Note("the end".to_owned()));
        let findings = telling.judged(judge).expect("nothing lapsed unheard");
        assert_eq!(findings.counted("leases that lapsed unheard"), 0);
    }
}
