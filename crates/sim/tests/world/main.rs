//! Stories, played: what a cluster does when nothing breaks, that a seed tells one story, and that each kind of fault bites.

#![allow(clippy::unwrap_used, reason = "tests")]

mod faults;
mod rematch;
mod scene;

use sim::world::trace::Event;
use sim::world::{CALLER_SLACK, Scenario, play};

use crate::scene::{all, quiet, told};

#[test]
fn in_a_quiet_story_each_partition_has_one_owner_from_beginning_to_end() {
    let run = play(&quiet());
    let reigns = |event: &Event| {
        let Event::Reigns { partition, epoch, full_as_of, .. } = event else { return None };
        Some((partition.0, epoch.0, full_as_of.is_some()))
    };
    let mut begun: Vec<_> = all(&run, reigns).into_iter().map(|(_, reign)| reign).collect();
    begun.sort_unstable();
    let expected: Vec<_> = (0..8).map(|partition| (partition, 1, false)).collect();
    assert_eq!(begun, expected);
    let ends = |event: &Event| {
        matches!(event, Event::Reigned { .. } | Event::Ended { .. } | Event::Lapsed { .. }).then_some(())
    };
    assert_eq!(all(&run, ends), []);
}

#[test]
fn in_a_quiet_story_everybody_is_let_pass_by_an_owner() {
    let scenario = quiet();
    let run = play(&scenario);
    let told = told(&run);
    assert_eq!(told.len(), scenario.asks.len());
    for told in told {
        let decision = told.decision.unwrap();
        assert!(decision.allowed && decision.legs.iter().all(|leg| leg.session.is_some()), "{decision:?}");
    }
}

#[test]
fn a_seed_tells_one_story() {
    for seed in 0..12 {
        let scenario = Scenario::of(seed);
        let (one, other) = (play(&scenario), play(&scenario));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!((one.courses, one.phases, one.counters), (other.courses, other.phases, other.counters));
    }
}

#[test]
fn every_ask_of_any_story_has_one_row_and_no_answer_comes_after_its_caller_went() {
    for seed in 0..40 {
        let scenario = Scenario::of(seed);
        let told = told(&play(&scenario));
        let mut asks: Vec<usize> = told.iter().map(|told| told.ask).collect();
        asks.sort_unstable();
        assert_eq!(asks, (0..scenario.asks.len()).collect::<Vec<_>>(), "seed {seed}");
        for told in told {
            let ask = &scenario.asks[told.ask];
            let again = ask.again.iter().fold(ask.at, |at, (after, _)| at.saturating_add(*after));
            assert!(
                told.returned <= again.saturating_add(ask.budget).saturating_add(CALLER_SLACK),
                "seed {seed}: {told:?}"
            );
        }
    }
}

#[test]
fn what_is_told_reads_as_sentences() {
    let run = play(&quiet());
    let lines: Vec<String> = run.trace.iter().map(ToString::to_string).collect();
    assert!(lines[0].ends_with(&format!("nonce {}", &lines[0][lines[0].len() - 4..])), "{}", lines[0]);
    assert!(lines.iter().any(|line| line.contains("leads in term 1")));
    assert!(lines.iter().any(|line| line.contains("found `story`, 8 partitions")));
    assert!(lines.iter().any(|line| line.contains("may go ahead")));
}
