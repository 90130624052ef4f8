//! Each kind of fault bites: it does to a node or to the network what it says, and the cluster answers as it should.

use control::Ending;
use limits::Span;
use sim::history::Source;
use sim::world::trace::Event;
use sim::world::{Fault, Phase, Planned, Scenario, Weather, When, Who, play};

use crate::scene::{all, broken, decided, first, first_leader, ms, policy, quiet, told, within};

const N1: Who = Who::Node(0);

fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

fn ends(of: u8, how: Ending) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Ended { session, ending, .. } if session.node.0.get() == u64::from(of) + 1 && *ending == how)
}

/// Who reigned from the second epoch on: the successors.
fn successors(run: &sim::world::Run) -> Vec<u8> {
    let reigns = |event: &Event| {
        if let Event::Reigns { node, epoch, .. } = event { (epoch.0 > 1).then_some(*node) } else { None }
    };
    all(run, reigns).into_iter().map(|(_, node)| node).collect()
}

#[test]
fn a_node_that_dies_is_taken_over_after_its_lease_and_starts_anew() {
    let (_, run) = broken(Fault::Crash { who: N1, down: secs(4) });
    assert_eq!(decided(&run, 0, 2_001, 6_000).len(), 0);
    assert!(within(first(&run, ends(0, Ending::Expired)), 4_500, 2_000 + 3_060 + 700));
    assert!(successors(&run).iter().all(|node| *node != 0) && !successors(&run).is_empty());
    let starts = |event: &Event| if let Event::Started { node: 0, nonce } = event { Some(*nonce) } else { None };
    let starts = all(&run, starts);
    assert!(starts.len() == 2 && starts[0].1 != starts[1].1 && starts[1].0 == ms(6_000), "{starts:?}");
}

#[test]
fn a_node_that_is_back_at_once_waits_for_its_own_lease() {
    let (_, run) = broken(Fault::Crash { who: N1, down: Span::from_millis(100) });
    let opens = |event: &Event| matches!(event, Event::Committed { words, .. } if words.starts_with("open session n1"));
    let opened = all(&run, |event| opens(event).then_some(()));
    let expired = first(&run, ends(0, Ending::Expired)).unwrap();
    let refused = |event: &Event| matches!(event, Event::Committed { words, .. } if words.contains("refused"));
    assert!(first(&run, refused).is_some(), "it asked before");
    assert!(opened.last().unwrap().0 > expired, "S7: only the end of a lease proves that nobody decides");
}

#[test]
fn a_process_that_is_stopped_does_nothing_and_its_clock_runs_on() {
    let (_, run) = broken(Fault::Stop { who: N1, lasts: secs(4) });
    assert_eq!(decided(&run, 0, 2_001, 6_000).len(), 0);
    assert_eq!(run.courses[0].reads(ms(6_000)).since(run.courses[0].reads(ms(2_000))), secs(4));
    assert!(first(&run, ends(0, Ending::Expired)).is_some_and(|at| at < ms(6_000)));
    let late = decided(&run, 0, 6_000, 6_020);
    assert_eq!(late.len(), 0, "its lease is over when it wakes: {late:?}");
}

#[test]
fn a_machine_that_is_frozen_shows_the_same_time_afterwards() {
    let (_, run) = broken(Fault::Freeze { who: N1, lasts: secs(4) });
    assert_eq!(decided(&run, 0, 2_001, 6_000).len(), 0);
    assert_eq!(run.courses[0].reads(ms(6_000)), run.courses[0].reads(ms(2_000)));
}

#[test]
fn a_machine_that_is_copied_decides_twice_under_one_session() {
    let cloned = (0..3).find(|node| *node != first_leader()).unwrap();
    let (scenario, run) = broken(Fault::Clone { who: Who::Node(cloned) });
    let (original, copy) = (decided(&run, cloned, 2_000, 4_000), decided(&run, scenario.nodes, 2_000, 4_000));
    assert!(!original.is_empty() && !copy.is_empty());
    assert!(original.iter().all(|decided| decided.session == copy[0].session));
    assert!(
        first(&run, ends(cloned, Ending::Expired)).is_some(),
        "the fork shows, and the session is extended no more"
    );
}

#[test]
fn a_clock_that_is_slow_shows_less() {
    let (_, run) = broken(Fault::Rate { who: N1, ppm: -10_000, lasts: secs(3) });
    assert_eq!(run.courses[0].reads(ms(5_000)).since(run.courses[0].reads(ms(2_000))), Span::from_millis(2_970));
    assert_eq!(run.courses[0].reads(ms(6_000)).since(run.courses[0].reads(ms(5_000))), secs(1));
}

#[test]
fn a_node_whose_wall_clock_is_odd_takes_nothing_over() {
    let crash = Fault::Crash { who: Who::Node(1), down: secs(5) };
    let step = Fault::WallStep { who: N1, millis: 60_000 };
    let faults = [(1_500, step), (2_100, crash)].map(|(at, fault)| Planned { when: When::At(ms(at)), fault });
    let odd = play(&Scenario { faults: faults.to_vec(), ..quiet() });
    let well = play(&Scenario { faults: faults[1..].to_vec(), ..quiet() });
    assert!(successors(&well).contains(&0) && !successors(&odd).is_empty());
    assert!(!successors(&odd).contains(&0));
}

#[test]
fn an_owner_that_hears_nothing_stops_and_is_extended_no_more() {
    let mut scenario = quiet();
    let leader = first_leader();
    let deaf = (0..3).find(|node| *node != leader).unwrap();
    let to = Some(Who::Node(deaf));
    let fault = |from| Fault::OneWay { from: Who::Node(from), to, lasts: secs(6) };
    let planned = |from| Planned { when: When::At(ms(2_000)), fault: fault(from) };
    scenario.faults = (0..3).filter(|node| *node != deaf).map(planned).collect();
    let run = play(&scenario);
    let is_its = |session: &ownership::SessionId| session.node.0.get() == u64::from(deaf) + 1;
    let lapsed = first(&run, |event| matches!(event, Event::Lapsed { session } if is_its(session)));
    assert!(within(lapsed, 4_400, 5_000), "{lapsed:?}");
    assert_eq!(decided(&run, deaf, 5_000, 8_000).len(), 0);
    let moments = |of: &dyn Fn(&Event) -> bool| -> Vec<_> {
        let all = run.trace.iter().filter(|entry| (ms(3_600)..ms(8_000)).contains(&entry.at) && of(&entry.event));
        all.map(|entry| entry.at).collect()
    };
    assert!(first(&run, ends(deaf, Ending::Expired)).is_some_and(|at| at > lapsed.unwrap() && at < ms(8_000)), "row 8");
    // Each new leader waits for everybody; but no renewal extends the session, since none proves that it hears.
    let granted = moments(&|event| matches!(event, Event::Granted { session, .. } if is_its(session)));
    let led = moments(&|event| matches!(event, Event::Leads { .. }));
    assert!(granted.iter().all(|at| led.contains(at)), "{granted:?}, {led:?}");
}

#[test]
fn an_owner_that_is_cut_off_stops_before_another_begins() {
    let (_, run) = broken(Fault::Isolate { who: N1, lasts: secs(5) });
    let last = all(&run, |event| matches!(event, Event::Decided(decided) if decided.node == 0).then_some(()));
    let last = last.into_iter().map(|(at, ())| at).filter(|at| *at < ms(7_000)).max().unwrap();
    let begins = first(&run, |event| matches!(event, Event::Reigns { epoch, .. } if epoch.0 > 1)).unwrap();
    assert!(last < begins && last < ms(5_000), "{last:?}, {begins:?}");
}

#[test]
fn a_bridge_hears_both_sides_and_they_do_not_hear_each_other() {
    let split = |bridge| Fault::Split { side: 0b001, bridge, lasts: secs(4) };
    let (_, apart) = broken(split(None));
    let (_, bridged) = broken(split(Some(1)));
    let unanswered = |run: &sim::world::Run| told(run).iter().filter(|told| is_closed(told)).count();
    assert!(unanswered(&bridged) > 0 && unanswered(&bridged) < unanswered(&apart));
}

fn is_closed(told: &sim::world::trace::Told) -> bool {
    told.decision.as_ref().is_some_and(|decision| decision.legs.iter().any(|leg| leg.source == Source::Closed))
}

#[test]
fn a_storm_loses_doubles_and_delays() {
    let storm = |lost_per_mille, doubled_per_mille, delay_max| Fault::Storm {
        weather: Weather { delay_min: Span::from_millis(1), delay_max, lost_per_mille, doubled_per_mille },
        lasts: secs(4),
    };
    let (_, lossy) = broken(storm(200, 0, Span::from_millis(1)));
    assert!(lossy.counters["packets lost"] > 50, "{:?}", lossy.counters);
    let (_, doubled) = broken(storm(0, 500, Span::from_millis(1)));
    let renewals = doubled.counters.get("renewals refused");
    assert!(renewals.is_some_and(|count| *count > 3), "a renewal that comes twice is stale: {:?}", doubled.counters);
    let (scenario, late) = broken(storm(0, 0, Span::from_millis(100)));
    let slow = told(&late).iter().filter(|told| told.returned.since(told.invoked) > Span::from_millis(60)).count();
    assert!(slow > scenario.asks.len() / 10, "{slow}");
}

#[test]
fn a_leader_whose_disk_is_stuck_is_replaced() {
    let (_, run) = broken(Fault::SlowDisk { who: Who::Leader, lasts: secs(3) });
    let leads = |event: &Event| if let Event::Leads { node, term } = event { Some((*node, *term)) } else { None };
    let leaders = all(&run, leads);
    assert!(leaders.len() >= 2 && leaders[0].1.0 != leaders[1].1.0, "{leaders:?}");
    assert!(within(Some(leaders[1].0), 2_150, 2_700), "a failover: {leaders:?}");
}

#[test]
fn a_node_that_is_overloaded_answers_late() {
    let (_, run) = broken(Fault::Overload { who: N1, each: Span::from_millis(30), lasts: secs(3) });
    let late = |told: &sim::world::trace::Told| told.node == 0 && told.returned.since(told.put) > Span::from_millis(50);
    assert!(told(&run).iter().filter(|told| late(told)).count() > 20);
}

#[test]
fn a_suspicion_ends_nobody() {
    let (_, run) = broken(Fault::Suspect { who: N1 });
    assert_eq!(first(&run, |event| matches!(event, Event::Ended { .. })), None);
}

#[test]
fn a_policy_that_is_applied_is_decided_by() {
    let (scenario, run) = broken(Fault::Policy { number: 1 });
    assert_eq!(scenario.policies[1], policy(50));
    let amounts = |from, to| -> Vec<u64> {
        let all = (0..3).flat_map(|node| decided(&run, node, from, to));
        all.flat_map(|decided| decided.legs).filter_map(|leg| leg.shape.rate.map(|rate| rate.amount())).collect()
    };
    assert!(amounts(0, 2_000).iter().all(|amount| *amount == 100));
    assert!(amounts(2_100, 9_000).iter().all(|amount| *amount == 50));
}

/// How long leases were held from when their renewals were sent, from one moment to another.
fn held(run: &sim::world::Run, from: u64, to: u64) -> Vec<Span> {
    let held =
        |event: &Event| if let Event::Extended { sent, end, .. } = event { Some(end.since(*sent)) } else { None };
    let all = all(run, held).into_iter();
    all.filter(|(at, _)| (ms(from)..ms(to)).contains(at)).map(|(_, held)| held).collect()
}

fn says(words: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Committed { words: said, .. } if said == words)
}

#[test]
fn a_longer_ttl_is_held_and_waited_for_from_its_entry_on() {
    let mut scenario = quiet();
    let crash = Fault::Crash { who: N1, down: secs(9) };
    let planned = |at, fault| Planned { when: When::At(ms(at)), fault };
    scenario.faults = vec![planned(2_000, Fault::Ttl { ttl: secs(4) }), planned(3_200, crash)];
    let run = play(&scenario);
    assert!(within(first(&run, says("leases last 4s from now on")), 2_000, 2_050));
    assert!(held(&run, 0, 2_000).iter().all(|held| *held == Span::from_millis(2_970)));
    let later = held(&run, 2_600, 9_000);
    assert!(!later.is_empty() && later.iter().all(|held| *held == Span::from_millis(3_960)), "{later:?}");
    assert!(within(first(&run, ends(0, Ending::Expired)), 6_700, 7_900), "a second later than before");
    assert_eq!(first(&run, says("every longer lease is over")), None);
}

#[test]
fn a_shorter_ttl_is_held_at_once_and_waited_for_once_longer_leases_are_over() {
    let (scenario, run) = broken(Fault::Ttl { ttl: secs(2) });
    let later = held(&run, 2_600, 9_000);
    assert!(!later.is_empty() && later.iter().all(|held| *held == Span::from_millis(1_980)), "{later:?}");
    let settled = first(&run, says("every longer lease is over"));
    assert!(within(settled, 5_030, 6_200), "{settled:?}");
    assert_eq!((scenario.longest().waited(), scenario.ttl_least()), (secs(3), secs(2)));
    let changing = Fault::Crash { who: N1, down: secs(1) };
    let faults = vec![
        Planned { when: When::At(ms(2_000)), fault: Fault::Ttl { ttl: secs(2) } },
        Planned { when: When::In(Phase::TtlChanging, ms(2_000)), fault: changing },
    ];
    assert!(
        play(&Scenario { faults, ..quiet() }).phases[1]
            .as_ref()
            .is_some_and(|phases| phases.contains(&Phase::TtlChanging))
    );
}

#[test]
fn a_node_that_leaves_is_taken_over_at_once() {
    let (_, run) = broken(Fault::Leave { who: N1, down: secs(2) });
    assert!(within(first(&run, ends(0, Ending::Released)), 2_000, 2_050));
    assert!(within(first(&run, |event| matches!(event, Event::Reigns { epoch, .. } if epoch.0 > 1)), 2_000, 2_050));
    assert_eq!(decided(&run, 0, 2_000, 4_400).len(), 0, "sealed from the first moment on");
    assert!(first(&run, |event| matches!(event, Event::Died { node: 0 })).is_some());
}

#[test]
fn a_fault_waits_for_its_phase() {
    let mut scenario = quiet();
    let crash = Fault::Crash { who: N1, down: secs(1) };
    scenario.faults = vec![Planned { when: When::In(Phase::Renewing, ms(2_000)), fault: crash }];
    let run = play(&scenario);
    assert!(run.phases[0].as_ref().is_some_and(|phases| phases.contains(&Phase::Renewing)), "{:?}", run.phases);
    scenario.faults[0].when = When::In(Phase::Leaving, ms(2_000));
    assert_eq!(play(&scenario).phases, [None], "nobody leaves");
}

#[test]
fn a_fault_waits_until_there_is_somebody_to_befall() {
    let planned = |at, fault| Planned { when: When::At(ms(at)), fault };
    let crash = Fault::Crash { who: Who::Successor, down: secs(1) };
    let nobody = play(&Scenario { faults: vec![planned(2_000, crash.clone())], ..quiet() });
    assert_eq!(nobody.phases, [None], "nobody took over");
    let leave = Fault::Leave { who: N1, down: secs(1) };
    let run = play(&Scenario { faults: vec![planned(2_000, crash), planned(3_000, leave)], ..quiet() });
    let died = first(&run, |event| matches!(event, Event::Died { node } if *node != 0));
    assert!(run.phases[0].is_some() && within(died, 3_000, 3_050), "{died:?}");
}

#[test]
fn a_cut_that_cuts_nothing_and_a_rate_that_changes_nothing_never_begin() {
    let lasts = secs(1);
    for fault in [
        Fault::OneWay { from: N1, to: Some(N1), lasts },
        Fault::Split { side: 0b111, bridge: None, lasts },
        Fault::Split { side: 0b001, bridge: Some(0), lasts },
        Fault::Split { side: 0b110, bridge: Some(0), lasts },
        Fault::Rate { who: N1, ppm: 0, lasts },
    ] {
        let run = play(&Scenario { faults: vec![Planned { when: When::At(ms(2_000)), fault }], ..quiet() });
        assert_eq!(run.phases, [None]);
        assert_eq!(first(&run, |event| matches!(event, Event::Broke { .. })), None);
    }
}

#[test]
fn the_end_of_a_fault_undoes_itself_and_no_other() {
    let planned = |at, fault| Planned { when: When::At(ms(at)), fault };
    let rate = |ppm, lasts| Fault::Rate { who: N1, ppm, lasts: secs(lasts) };
    let run =
        play(&Scenario { faults: vec![planned(2_000, rate(-10_000, 2)), planned(3_000, rate(5_000, 3))], ..quiet() });
    let shown = |from, to| run.courses[0].reads(ms(to)).since(run.courses[0].reads(ms(from)));
    assert_eq!(shown(2_000, 3_000), Span::from_millis(990));
    assert_eq!(shown(3_000, 6_000), Span::from_millis(3_015), "also after the first is over");
    assert_eq!(shown(6_000, 7_000), secs(1));
    let slow = |lasts| Fault::Overload { who: N1, each: Span::from_millis(30), lasts: secs(lasts) };
    let run = play(&Scenario { faults: vec![planned(2_000, slow(3)), planned(2_500, slow(1))], ..quiet() });
    let late = |told: &&sim::world::trace::Told| {
        let after = ms(3_600)..ms(5_000);
        told.node == 0 && after.contains(&told.put) && told.returned.since(told.put) > Span::from_millis(50)
    };
    assert!(told(&run).iter().filter(late).count() > 5);
}

#[test]
fn a_copy_of_a_frozen_machine_goes_on_when_its_original_does() {
    let cloned = (0..3).find(|node| *node != first_leader()).unwrap();
    let who = Who::Node(cloned);
    let planned = |at, fault| Planned { when: When::At(ms(at)), fault };
    let freeze = Fault::Freeze { who, lasts: secs(1) };
    let scenario = Scenario { faults: vec![planned(2_000, freeze), planned(2_500, Fault::Clone { who })], ..quiet() };
    let run = play(&scenario);
    let copy = usize::from(scenario.nodes);
    assert_eq!(run.courses[copy].reads(ms(3_000)), run.courses[copy].reads(ms(2_000)));
    assert_eq!(run.courses[copy].reads(ms(4_000)).since(run.courses[copy].reads(ms(3_000))), secs(1));
    assert_eq!(decided(&run, scenario.nodes, 2_000, 3_000).len(), 0);
    assert!(!decided(&run, scenario.nodes, 3_000, 6_000).is_empty());
}

#[test]
fn each_node_that_leaves_is_away_as_long_as_its_own_fault_says() {
    let planned =
        |at, node, down| Planned { when: When::At(ms(at)), fault: Fault::Leave { who: Who::Node(node), down } };
    let faults = vec![planned(2_000, 0, Span::from_millis(100)), planned(4_000, 1, secs(2))];
    let run = play(&Scenario { faults, ..quiet() });
    for (node, down) in [(0, Span::from_millis(100)), (1, secs(2))] {
        let died = first(&run, |event| matches!(event, Event::Died { node: it } if *it == node)).unwrap();
        let starts = all(&run, |event| matches!(event, Event::Started { node: it, .. } if *it == node).then_some(()));
        let back = starts.into_iter().map(|(at, ())| at).find(|at| *at > died).unwrap();
        assert_eq!(back.since(died), down);
    }
}

#[test]
fn a_session_that_was_proposed_before_an_exit_is_released_and_does_not_run_out() {
    let slow = Weather { delay_min: Span::from_millis(20), delay_max: Span::from_millis(20), ..quiet().weather };
    let crash = Planned { when: When::At(ms(2_000)), fault: Fault::Crash { who: N1, down: secs(4) } };
    let mut released = 0;
    for at in (6_180..6_320).step_by(7) {
        let leave = Planned { when: When::At(ms(at)), fault: Fault::Leave { who: N1, down: secs(9) } };
        let faults = vec![crash.clone(), leave];
        let run = play(&Scenario { faults, weather: slow, heal_at: ms(11_000), end_at: ms(12_000), ..quiet() });
        let ended = all(&run, |event| ends(0, Ending::Expired)(event).then_some(()));
        assert_eq!(ended.iter().filter(|(ended, ())| *ended > ms(6_000)).count(), 0, "asked to leave at {at} ms");
        released += all(&run, |event| ends(0, Ending::Released)(event).then_some(())).len();
    }
    assert!(released > 3, "{released} had a session to release");
}

#[test]
fn what_is_sent_into_a_cut_that_no_connection_crosses_never_left() {
    // The first connection breaks with the cut; later ones cannot be opened.
    let (_, run) = broken(Fault::Isolate { who: N1, lasts: secs(5) });
    assert!(run.counters.get("packets never sent").is_some_and(|count| *count > 10), "{:?}", run.counters);
    let (_, brief) = broken(Fault::Isolate { who: N1, lasts: secs(1) });
    assert_eq!(brief.counters.get("packets never sent"), None, "what stands is not given up at once");
}

#[test]
fn at_the_healing_everything_is_mended() {
    let mut scenario = quiet();
    let faults = [
        Fault::Stop { who: N1, lasts: secs(60) },
        Fault::Crash { who: Who::Node(1), down: secs(60) },
        Fault::Rate { who: Who::Node(2), ppm: 5_000, lasts: secs(60) },
        Fault::Split { side: 0b100, bridge: None, lasts: secs(60) },
    ];
    scenario.faults = faults.map(|fault| Planned { when: When::At(ms(2_000)), fault }).to_vec();
    (scenario.heal_at, scenario.end_at) = (ms(4_000), ms(9_000));
    let run = play(&scenario);
    let asked = |told: &sim::world::trace::Told| told.invoked > ms(7_900);
    let last: Vec<_> = told(&run).into_iter().filter(asked).collect();
    assert!(
        !last.is_empty() && last.iter().all(|told| told.decision.as_ref().is_some_and(|told| told.allowed)),
        "{last:?}"
    );
    assert_eq!(run.courses[2].reads(ms(8_000)).since(run.courses[2].reads(ms(7_000))), secs(1));
}

#[test]
fn whoever_leaves_at_the_healing_is_back_then() {
    let planned = |at, fault| Planned { when: When::At(ms(at)), fault };
    let cut = Fault::Isolate { who: N1, lasts: secs(60) };
    let faults = vec![planned(2_000, cut), planned(2_001, Fault::Leave { who: N1, down: secs(3) })];
    let run = play(&Scenario { faults, heal_at: ms(4_000), end_at: ms(12_000), ..quiet() });
    let died = all(&run, |event| matches!(event, Event::Died { node: 0 }).then_some(()));
    assert_eq!(died, [(ms(4_000), ())]);
    let starts = all(&run, |event| matches!(event, Event::Started { node: 0, .. }).then_some(()));
    assert_eq!(starts.last(), Some(&(ms(4_000), ())));
}
