//! A group in a bad network, from many seeds: what raft promises holds in all of them, and they do get into trouble.

#![allow(clippy::unwrap_used, reason = "tests")]

mod checks;
mod group;

use limits::{Moment, Span};

use self::group::{Group, Seen};
use super::*;

/// How many seeds a run looks at.
const SEEDS: u64 = 2_000;

#[test]
fn nothing_committed_is_lost_and_no_late_leader_is_confirmed() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let outcome = Group::new(seed).run();
        seen.add(&outcome.unwrap_or_else(|violation| panic!("seed {seed}: {violation}")));
    }
    // Seeds that never got into trouble prove nothing.
    let often = [seen.elections, seen.committed, seen.crashes, seen.stuck, seen.believed_too_long, seen.unconfirmed];
    assert!(often.iter().all(|count| *count >= SEEDS), "{seen:?}");
    assert!(seen.confirmed >= 10 * SEEDS && seen.undecided_and_gone >= SEEDS, "{seen:?}");
    assert!(seen.lost >= 10 * SEEDS && seen.doubled >= 10 * SEEDS, "{seen:?}");
    assert!(seen.undecided_and_committed >= SEEDS / 100 && seen.confirmed_late >= SEEDS / 200, "{seen:?}");
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    assert_eq!(Group::new(7).run(), Group::new(7).run());
}

fn ms(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// Three nodes without a network between them, all of whose messages the test carries by hand.
fn three() -> [Consensus<&'static str>; 3] {
    [0, 1, 2].map(|node| Consensus::new(node, 3, Disk::default(), 5, ms(0)))
}

/// Carries everything between those nodes until nothing is said any more.
fn carry(nodes: &mut [Consensus<&'static str>], between: &[u8], now: Moment) {
    while let Some(message) = between.iter().find_map(|node| nodes[usize::from(*node)].poll_message()) {
        if between.contains(&message.to) {
            nodes[usize::from(message.to)].handle_message(message, now);
        }
    }
}

fn elect(nodes: &mut [Consensus<&'static str>], leader: u8, between: &[u8]) -> Moment {
    let node = &mut nodes[usize::from(leader)];
    let now = node.poll_timeout().unwrap().max(ms(700));
    node.handle_timeout(now);
    carry(nodes, between, now);
    assert!(nodes[usize::from(leader)].has_begun_soon(), "node {leader} leads");
    now
}

impl<P: Clone> Consensus<P> {
    /// Hands out everything, and says whether the term has begun.
    fn has_begun_soon(&mut self) -> bool {
        while self.poll_committed().is_some() {}
        self.has_begun()
    }
}

#[test]
fn a_proposal_is_answered_where_it_was_made_and_applied_everywhere() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    let ask = nodes[0].propose("a", now).unwrap();
    carry(&mut nodes, &[0, 1, 2], now);
    let entry = |answers| Some(Committed { index: 2, term: 1, payload: Some("a"), answers });
    assert_eq!(nodes[0].poll_committed(), entry(Some(ask)));
    assert_eq!(nodes[1].poll_committed().map(|first| first.payload), Some(None), "the first entry of the term");
    assert_eq!(nodes[1].poll_committed(), entry(None));
}

#[test]
fn who_asks_during_a_round_waits_for_the_next() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    let first = nodes[0].confirm(now).unwrap();
    let of_first: Vec<_> = std::iter::from_fn(|| nodes[0].poll_message()).collect();
    let second = nodes[0].confirm(now).unwrap();
    for message in of_first {
        let to = usize::from(message.to);
        nodes[to].handle_message(message, now);
    }
    for node in [1, 2] {
        let answer = nodes[node].poll_message().unwrap();
        nodes[0].handle_message(answer, now);
    }
    assert_eq!(nodes[0].poll_outcome(), Some(Outcome::Confirmed { ask: first, term: 1, index: 1 }));
    assert_eq!(nodes[0].poll_outcome(), None, "the answers were to messages from before the second ask");
    carry(&mut nodes, &[0, 1, 2], now);
    assert_eq!(nodes[0].poll_outcome(), Some(Outcome::Confirmed { ask: second, term: 1, index: 1 }));
}

#[test]
fn a_deposed_leader_believes_until_it_hears_and_what_it_proposed_alone_is_undecided() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    let lost = nodes[0].propose("lost", now).unwrap();
    let unconfirmed = nodes[0].confirm(now).unwrap();
    carry(&mut nodes, &[0], now);
    let later = elect(&mut nodes, 1, &[1, 2]);
    assert!(nodes[0].leadership().is_me, "nobody told it");
    nodes[1].propose("kept", later).unwrap();
    carry(&mut nodes, &[1, 2], later);
    nodes[1].handle_timeout(later.saturating_add(HEARTBEAT));
    carry(&mut nodes, &[0, 1, 2], later.saturating_add(HEARTBEAT));
    assert_eq!(nodes[0].leadership(), Leadership { term: 2, leader: Some(1), is_me: false });
    assert_eq!(nodes[0].poll_outcome(), Some(Outcome::Unconfirmed { ask: unconfirmed }));
    assert_eq!(nodes[0].poll_outcome(), Some(Outcome::Undecided { ask: lost }));
    let applied: Vec<_> = std::iter::from_fn(|| nodes[0].poll_committed()).filter_map(|entry| entry.payload).collect();
    assert_eq!(applied, ["kept"]);
}

#[test]
fn an_entry_of_an_earlier_term_is_committed_only_with_one_of_the_leader_itself() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    nodes[0].propose("old", now).unwrap();
    carry(&mut nodes, &[0], now);
    nodes[0].handle_message(Message { from: 2, to: 0, term: 2, body: Body::Vote { granted: false } }, now);
    nodes[0].handle_timeout(nodes[0].poll_timeout().unwrap());
    nodes[0].handle_message(Message { from: 1, to: 0, term: 3, body: Body::Vote { granted: true } }, now);
    assert_eq!(nodes[0].leadership(), Leadership { term: 3, leader: Some(0), is_me: true });
    let has = |index| Message { from: 1, to: 0, term: 3, body: Body::Appended { matched: Ok(index), round: 0 } };
    nodes[0].handle_message(has(2), now);
    assert_eq!(nodes[0].disk().committed(), 1, "most have it, and another with a newer entry could still lead");
    nodes[0].handle_message(has(3), now);
    assert_eq!(nodes[0].disk().committed(), 3);
}

#[test]
fn a_follower_takes_for_committed_only_what_it_knows_to_be_the_leaders() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    nodes[0].propose("alone", now).unwrap();
    let body = Body::Append { after: Position { term: 1, index: 1 }, entries: vec![], committed: 2, round: 0 };
    nodes[0].handle_message(Message { from: 1, to: 0, term: 2, body }, now);
    assert_eq!(nodes[0].disk().committed(), 1, "its own second entry is not the one meant");
}

#[test]
fn a_stuck_disk_confirms_nothing_and_asks_end_all_the_same() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    nodes[0].handle_disk(true, now);
    let proposed = nodes[0].propose("held", now).unwrap();
    let asked = nodes[0].confirm(now).unwrap();
    carry(&mut nodes, &[0, 1, 2], now);
    assert_eq!(nodes[0].poll_outcome(), None);
    let late = now.saturating_add(CONFIRM_WITHIN);
    assert_eq!(nodes[0].poll_timeout(), Some(late), "no heartbeat is due while the disk is stuck");
    nodes[0].handle_timeout(late);
    assert_eq!(nodes[0].poll_outcome(), Some(Outcome::Unconfirmed { ask: asked }));
    let later = now.saturating_add(PROPOSE_WITHIN);
    nodes[0].handle_timeout(later);
    assert_eq!(nodes[0].poll_outcome(), Some(Outcome::Undecided { ask: proposed }));
    nodes[0].handle_disk(false, later);
    carry(&mut nodes, &[0, 1, 2], later);
    let applied = std::iter::from_fn(|| nodes[0].poll_committed()).map(|entry| (entry.payload, entry.answers));
    assert_eq!(applied.last(), Some((Some("held"), None)), "undecided, and committed after all");
}

#[test]
fn a_node_starts_anew_with_what_its_disk_knows() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    nodes[0].propose("a", now).unwrap();
    carry(&mut nodes, &[0, 1, 2], now);
    let [first, ..] = nodes;
    let mut again = Consensus::new(0, 3, first.into_disk(), 6, ms(5));
    assert_eq!(again.leadership(), Leadership { term: 1, leader: None, is_me: false });
    let applied: Vec<_> = std::iter::from_fn(|| again.poll_committed()).map(|entry| entry.payload).collect();
    assert_eq!(applied, [None, Some("a")]);
    assert_eq!(again.propose("b", ms(5)), Err(NotAsked::NotLeader { leader: None }));
}

#[test]
fn a_node_that_hears_a_leader_helps_nobody_to_depose_it() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    nodes[2].handle_timeout(nodes[2].poll_timeout().unwrap());
    carry(&mut nodes, &[1, 2], now);
    assert_eq!(nodes[1].leadership(), Leadership { term: 1, leader: Some(0), is_me: false });
    let silent = now.saturating_add(ELECTION_MAX).saturating_add(Span::from_millis(1));
    nodes[2].handle_timeout(nodes[2].poll_timeout().unwrap());
    carry(&mut nodes, &[1, 2], silent);
    assert!(nodes[2].leadership().is_me);
}

#[test]
fn a_node_whose_log_is_behind_deposes_nobody_however_high_its_term() {
    let mut nodes = three();
    let now = elect(&mut nodes, 0, &[0, 1, 2]);
    nodes[0].propose("a", now).unwrap();
    carry(&mut nodes, &[0, 1], now);
    let mut late = now;
    for _ in 0..5 {
        late = nodes[2].poll_timeout().unwrap().max(late);
        nodes[2].handle_timeout(late);
    }
    let asked = std::iter::from_fn(|| nodes[2].poll_message()).last().unwrap();
    nodes[0].handle_message(Message { to: 0, ..asked }, late);
    assert!(nodes[0].leadership().is_me, "it was asked for its vote, and saw that the other cannot win");
    assert_eq!((nodes[0].leadership().term, nodes[2].leadership().term), (1, 6));
}
