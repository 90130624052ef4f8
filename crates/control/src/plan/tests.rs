//! Plans are legal, complete and even.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use crate::command::{AppointedBy, Command};
use crate::state::fixtures::*;

#[test]
fn the_first_placement_is_even_and_runs_join_neighbours() {
    let history = History::placed(3);
    let mut owned: Vec<usize> = (1..=3).map(|n| history.owned(session(n, 1))).collect();
    owned.sort_unstable();
    assert_eq!(owned, [5, 5, 6]);
    assert_eq!(history.cluster().plan_first_placement(&BTreeSet::new()), None, "once");
    assert_eq!(History::founded(1).cluster().plan_vacant(&BTreeSet::new()), [], "nor does anything else place first");
    let mut alone = History::founded(1);
    alone.apply(open(1, 1)).unwrap();
    assert_eq!(alone.cluster().plan_first_placement(&BTreeSet::new()).unwrap(), [run(0, 16, session(1, 1))]);
}

#[test]
fn a_join_moves_nothing_and_what_falls_vacant_goes_to_the_newcomer() {
    let mut history = History::placed(3);
    let before = history.cluster().map.clone();
    history.apply(open(4, 1)).unwrap();
    assert_eq!(history.cluster().plan_vacant(&BTreeSet::new()), []);
    assert_eq!(history.cluster().map, before);
    let gone = [session(1, 1)];
    let left = history.owned(gone[0]);
    let takeovers = history.cluster().plan_takeovers(&gone, &BTreeSet::new());
    history.apply(Command::Expire { sessions: gone.to_vec(), takeovers }).unwrap();
    assert!(history.owned(session(4, 1)) >= left - 1, "the others have their share already");
}

#[test]
fn two_that_go_at_once_are_taken_over_by_the_third() {
    let mut history = History::placed(3);
    let gone = vec![session(1, 1), session(3, 1)];
    let takeovers = history.cluster().plan_takeovers(&gone, &BTreeSet::new());
    history.apply(Command::Expire { sessions: gone, takeovers }).unwrap();
    assert_eq!(history.owned(session(2, 1)), 16);
}

#[test]
fn a_plan_for_the_last_one_to_go_is_empty_and_the_next_takes_what_is_vacant() {
    let mut history = History::placed(1);
    let gone = vec![session(1, 1)];
    assert_eq!(history.cluster().plan_takeovers(&gone, &BTreeSet::new()), []);
    history.apply(Command::Release { session: gone[0], takeovers: vec![] }).unwrap();
    assert_eq!(history.words(), ["session_released", "map_published"]);
    history.apply(open(2, 1)).unwrap();
    let runs = history.cluster().plan_vacant(&BTreeSet::new());
    history.apply(Command::Appoint { runs, by: AppointedBy::Leader }).unwrap();
    assert_eq!(history.owned(session(2, 1)), 16);
}

#[test]
fn a_session_that_is_passed_over_keeps_what_it_has_and_gets_nothing_new() {
    let mut history = History::placed(3);
    let (odd, gone) = (session(2, 1), session(1, 1));
    let before = history.owned(odd);
    let takeovers = history.cluster().plan_takeovers(&[gone], &BTreeSet::from([odd]));
    assert!(takeovers.iter().all(|run| run.to == session(3, 1)));
    history.apply(Command::Expire { sessions: vec![gone], takeovers }).unwrap();
    assert_eq!((history.owned(odd), history.owned(session(3, 1))), (before, 16 - before));
}
