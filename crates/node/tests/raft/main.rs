//! Consensus over real sockets: groups that grow, lose their leader, restart, fall behind, are cut off, and replace their
//! dead.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod grid;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use ringfence_node::raft::{
    BootstrapError, ConfirmError, Door, Journal, MESSAGE_BYTES_MAX, MembersError, PAYLOAD_BYTES_MAX, ProposeError,
    RaftNode, Role, SNAPSHOT_FILE, Settings, Setup, Standing, StartError,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use wire::peer::raft_server::{Raft, RaftServer};
use wire::peer::{RaftAppend, RaftAppendReply, RaftSnapshotPart, RaftSnapshotReply, RaftVoteReply, RaftVoteRequest};

use grid::{Grid, Lines, PATIENCE, found, left_behind, next_leader, settings, trio};

#[tokio::test(flavor = "multi_thread")]
async fn a_group_grows_from_one_node_and_everyone_applies_the_same_log() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;

    let mut last = 0;
    for number in 1..=50_u64 {
        let proposed = n1.propose(&format!("line {number}")).await;
        assert_eq!(proposed.reply, number.to_string());
        assert!(proposed.index > last, "the log only grows");
        last = proposed.index;
    }
    let expected: Vec<String> = (1..=50).map(|number| format!("line {number}")).collect();
    for node in [&n1, &n2, &n3] {
        node.applies(last).await;
        assert_eq!(node.lines.texts(), expected, "{}", node.name);
        assert_eq!(node.lines.all(), n1.lines.all(), "{}: at the same places", node.name);
        let standing = node.standing();
        assert_eq!(standing.leader, Some(n1.id()));
        assert_eq!(standing.members.voters, BTreeSet::from([n1.id(), n2.id(), n3.id()]));
        assert!(!standing.members.changing);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_that_name_the_same_voters_begin_one_log() {
    let grid = Grid::default();
    let nodes = [grid.node("n1").await, grid.node("n2").await, grid.node("n3").await];
    let voters: Vec<_> = nodes.iter().map(|node| node.peer()).collect();
    let (a, b, c) =
        tokio::join!(nodes[0].raft.found(&voters), nodes[1].raft.found(&voters), nodes[2].raft.found(&voters),);
    for begun in [a, b, c] {
        assert!(matches!(begun, Ok(()) | Err(BootstrapError::AlreadyMember)), "{begun:?}");
    }
    let leader = next_leader(&[&nodes[0], &nodes[1], &nodes[2]], 0).await;
    let proposed = leader.propose("line").await;
    for node in &nodes {
        node.applies(proposed.index).await;
        assert_eq!(node.lines.texts(), ["line"]);
        assert_eq!(node.standing().members.voters, nodes.iter().map(|node| node.id()).collect());
    }
    let stranger = grid.node("n4").await;
    assert_eq!(stranger.raft.found(&voters).await.unwrap_err(), BootstrapError::NotNamed);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_proposals_at_once_are_applied_once_each_and_in_the_same_order() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;
    let mut proposals = Vec::new();
    for number in 0..200 {
        let raft = n1.raft.clone();
        proposals.push(tokio::spawn(async move { raft.propose(Bytes::from(format!("{number}"))).await.unwrap() }));
    }
    let mut last = 0;
    for proposal in proposals {
        last = last.max(proposal.await.unwrap().index);
    }
    for node in [&n1, &n2, &n3] {
        node.applies(last).await;
        assert_eq!(node.lines.all(), n1.lines.all());
    }
    let once: BTreeSet<String> = n1.lines.texts().into_iter().collect();
    assert_eq!((once.len(), n1.lines.all().len()), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_points_to_the_leader_and_proposes_nothing() {
    let grid = Grid::default();
    let [n1, n2, _n3] = trio(&grid, settings()).await;
    n2.reaches("the leader", |standing| standing.leader == Some(n1.id())).await;
    let leader = Some(n1.peer());
    let refused = n2.raft.propose(Bytes::from_static(b"line")).await.unwrap_err();
    assert_eq!(refused, ProposeError::NotLeader { leader: leader.clone() });
    assert_eq!(n2.raft.confirm_leadership().await.unwrap_err(), ConfirmError::NotLeader { leader: leader.clone() });
    assert_eq!(n2.raft.remove(n1.id()).await.unwrap_err(), MembersError::StillVotes);
    let refused = n2.raft.change_voters(BTreeSet::from([n2.id()])).await.unwrap_err();
    assert_eq!(refused, MembersError::NotLeader { leader });
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_dies_another_goes_on() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;
    n1.propose("before").await;
    let term = n1.standing().term;
    let n1_left = n1.kill().await;

    let leader = next_leader(&[&n2, &n3], term).await;
    let after = leader.propose("after").await;
    assert!(after.term > term);
    for node in [&n2, &n3] {
        node.applies(after.index).await;
        assert_eq!(node.lines.texts(), ["before", "after"]);
    }

    let n1 = grid.node_in("n1", n1_left, settings()).await.unwrap();
    n1.applies(after.index).await;
    assert_eq!(n1.lines.all(), leader.lines.all(), "it caught up with what it missed");
    assert_eq!(n1.standing().role, Role::Follower);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_alone_has_its_state_and_no_leader() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;
    n1.propose("one").await;
    let last = n1.propose("two").await.index;
    for node in [&n2, &n3] {
        node.applies(last).await;
    }
    n1.kill().await;
    n3.kill().await;
    let (id, dir) = (n2.id(), n2.kill().await);

    let n2 = grid.node_in("n2", dir, settings()).await.unwrap();
    assert_eq!(n2.id(), id);
    assert_eq!(n2.lines.texts(), ["one", "two"], "applied before the start returned, and without a quorum");
    assert_eq!(n2.standing().members.voters.len(), 3);
    assert!(matches!(n2.raft.propose(Bytes::from_static(b"three")).await.unwrap_err(), ProposeError::NotLeader { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_founder_comes_back_with_what_was_acknowledged() {
    let grid = Grid::default();
    let n1 = grid.node("n1").await;
    found(&n1).await;
    for number in 0..20 {
        n1.propose(&format!("{number}")).await;
    }
    let left = left_behind(n1.dir.path());
    n1.kill().await;

    let n1 = grid.node_in("n1", left, settings()).await.unwrap();
    n1.reaches("leadership", Standing::is_leader).await;
    n1.propose("20").await;
    let expected: Vec<String> = (0..=20).map(|number| number.to_string()).collect();
    assert_eq!(n1.lines.texts(), expected);
    let refused = n1.raft.bootstrap("elsewhere:1", "n1").await.unwrap_err();
    assert_eq!(refused, BootstrapError::AlreadyMember);
}

fn compacting() -> Settings {
    Settings { snapshot_entries: 50, log_kept: 10, ..settings() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_learner_catches_up_through_a_snapshot_and_restarts_from_it() {
    let grid = Grid::default();
    let n1 = grid.node_with("n1", compacting()).await;
    found(&n1).await;
    for number in 0..120 {
        n1.propose(&format!("{number}")).await;
    }
    let compacted = n1.reaches("a purged log", |standing| standing.purged >= Some(60)).await;
    assert!(compacted.snapshot > compacted.purged);

    let n2 = grid.node_with("n2", compacting()).await;
    let held = n1.raft.add_learner(&n2.peer()).await.unwrap();
    grid.cut("n2");
    n2.reaches("the whole log, from nobody any more", |standing| standing.last_log >= Some(held)).await;
    grid.heal("n2");
    n2.applies(held).await;
    assert!(n2.standing().snapshot >= compacted.snapshot, "the entries it lacks are in no log any more");
    assert_eq!(n2.lines.all(), n1.lines.all());
    assert_eq!(n2.standing().role, Role::Learner);

    let dir = n2.kill().await;
    let n2 = grid.node_in("n2", dir, compacting()).await.unwrap();
    assert_eq!(n2.lines.all(), n1.lines.all(), "restored before it heard from anyone");
    let next = n1.propose("after").await.index;
    n2.applies(next).await;
    assert_eq!(n2.lines.all(), n1.lines.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_larger_than_any_message_arrives_in_parts() {
    let grid = Grid::default();
    let by_entries_only = Settings { snapshot_bytes: u64::MAX, ..compacting() };
    let n1 = grid.node_with("n1", by_entries_only.clone()).await;
    found(&n1).await;
    let large = "x".repeat(PAYLOAD_BYTES_MAX);
    for _ in 0..70 {
        n1.propose(&large).await;
    }
    n1.reaches("the first snapshot", |standing| standing.snapshot.is_some()).await;
    n1.raft.compact().await;
    n1.reaches("a snapshot of it all", |standing| standing.snapshot >= Some(70)).await;
    n1.reaches("a purged log", |standing| standing.purged >= Some(60)).await;
    let snapshot_len = std::fs::metadata(n1.dir.path().join(SNAPSHOT_FILE)).unwrap().len();
    assert!(snapshot_len > MESSAGE_BYTES_MAX as u64);

    let n2 = grid.node_with("n2", by_entries_only).await;
    let held = n1.raft.add_learner(&n2.peer()).await.unwrap();
    n2.applies(held).await;
    assert_eq!(n2.lines.all(), n1.lines.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_alone_bring_on_a_snapshot() {
    let grid = Grid::default();
    let n1 = grid.node_with("n1", Settings { snapshot_bytes: 10_000, ..settings() }).await;
    found(&n1).await;
    n1.propose(&"x".repeat(9_999)).await;
    assert_eq!(n1.standing().snapshot, None);
    let last = n1.propose("x").await.index;
    n1.reaches("a snapshot", |standing| standing.snapshot >= Some(last)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_believes_to_lead_but_cannot_confirm_it() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, Settings { propose_within: Duration::from_secs(1), ..settings() }).await;
    let before = n1.propose("before").await;
    let confirmed = n1.raft.confirm_leadership().await.unwrap();
    assert_eq!((confirmed.term, confirmed.index), (before.term, before.index));
    n1.reaches("a quorum's answer", |standing| standing.quorum_acked.is_some()).await;

    grid.cut("n1");
    let cut_at = Instant::now();
    let leader = next_leader(&[&n2, &n3], before.term).await;
    let standing = n1.standing();
    assert!(standing.is_leader(), "nobody can tell it");
    assert!(standing.quorum_acked <= Some(cut_at), "no quorum answered anything sent since");
    let now = Instant::now();
    assert!(standing.quorum_ack_age(now).unwrap() >= now - cut_at);
    assert_eq!(n1.raft.confirm_leadership().await.unwrap_err(), ConfirmError::NoQuorum);
    assert_eq!(n1.raft.propose(Bytes::from_static(b"lost")).await.unwrap_err(), ProposeError::Undecided);
    assert_eq!(leader.raft.confirm_leadership().await.unwrap().term, leader.standing().term);
    let after = leader.propose("after").await;

    grid.heal("n1");
    n1.applies(after.index).await;
    n1.reaches("the new leader", |standing| standing.leader == Some(leader.id())).await;
    assert_eq!(n1.lines.texts(), ["before", "after"]);
    assert_eq!(n1.standing().quorum_acked, None, "no leader, no quorum of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_covers_everything_proposed_before_it() {
    let grid = Grid::default();
    let [n1, _n2, _n3] = trio(&grid, settings()).await;
    let mut asks = Vec::new();
    for number in 0..100 {
        let raft = n1.raft.clone();
        asks.push(tokio::spawn(async move {
            let proposed = raft.propose(Bytes::from(format!("{number}"))).await.unwrap();
            (proposed, raft.confirm_leadership().await.unwrap())
        }));
    }
    for ask in asks {
        let (proposed, confirmed) = ask.await.unwrap();
        assert!(confirmed.index >= proposed.index);
        assert_eq!(confirmed.term, proposed.term);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_voter_is_replaced_and_hears_of_it_when_it_comes_back() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;
    n1.propose("before").await;
    let (dead, dead_dir) = (n3.peer(), n3.kill().await);

    let n4 = grid.node("n4").await;
    n1.raft.add_learner(&n4.peer()).await.unwrap();
    let voters = BTreeSet::from([n1.id(), n2.id(), n4.id()]);
    n1.raft.change_voters(voters.clone()).await.unwrap();
    let demoted = n1.reaches("the change", |standing| standing.members.voters == voters).await;
    assert!(demoted.members.peers.contains_key(&dead.id), "demoted, but kept as a learner");
    n1.raft.remove(dead.id).await.unwrap();
    let after = n1.propose("after").await;
    n4.applies(after.index).await;
    assert_eq!(n4.lines.texts(), ["before", "after"]);
    for node in [&n1, &n2, &n4] {
        let left = node.reaches("the removal", |standing| !standing.members.peers.contains_key(&dead.id)).await;
        assert_eq!(left.members.voters, voters);
    }

    let n3 = grid.node_in("n3", dead_dir, settings()).await.unwrap();
    assert!(n3.standing().members.voters.contains(&n3.id()), "it knows nothing yet");
    n3.reaches("the news", |standing| standing.left_out).await;
    let unmoved = n1.standing();
    assert!(unmoved.is_leader());
    assert_eq!(unmoved.term, after.term, "its candidacy disturbed nobody");
    assert!(!n1.standing().left_out && !n2.standing().left_out && !n4.standing().left_out);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_trio_survives_the_loss_of_an_old_member() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;
    n3.kill().await;
    let n4 = grid.node("n4").await;
    n1.raft.add_learner(&n4.peer()).await.unwrap();
    n1.raft.change_voters(BTreeSet::from([n1.id(), n2.id(), n4.id()])).await.unwrap();
    let term = n1.standing().term;
    n1.kill().await;
    let leader = next_leader(&[&n2, &n4], term).await;
    let proposed = leader.propose("on").await;
    n2.applies(proposed.index).await;
    n4.applies(proposed.index).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_change_only_in_the_ways_that_are_allowed() {
    let grid = Grid::default();
    let n1 = grid.node("n1").await;
    found(&n1).await;
    let n2 = grid.node("n2").await;
    let both = BTreeSet::from([n1.id(), n2.id()]);
    assert_eq!(n1.raft.change_voters(both).await.unwrap_err(), MembersError::VoterCount { count: 2 });
    let stranger = BTreeSet::from([n2.id()]);
    assert_eq!(n1.raft.change_voters(stranger).await.unwrap_err(), MembersError::NotAMember);
    assert_eq!(n1.raft.move_peer(&n2.peer()).await.unwrap_err(), MembersError::NotAMember);
    assert_eq!(n1.raft.remove(n1.id()).await.unwrap_err(), MembersError::StillVotes);

    n1.raft.add_learner(&n2.peer()).await.unwrap();
    n1.raft.add_learner(&n2.peer()).await.unwrap();
    let mut moved = n2.peer();
    moved.name = "renamed".to_owned();
    n1.raft.move_peer(&moved).await.unwrap();
    n2.reaches("its new name", |standing| standing.members.peers.get(&moved.id) == Some(&moved)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_that_cannot_be_reached_is_reported_as_behind() {
    let grid = Grid::default();
    let n1 = grid.node_with("n1", Settings { members_within: Duration::from_secs(1), ..settings() }).await;
    found(&n1).await;
    let n2 = grid.node("n2").await;
    grid.cut("n2");
    let refused = n1.raft.add_learner(&n2.peer()).await.unwrap_err();
    assert!(matches!(refused, MembersError::Behind { matched: None, .. }), "{refused}");
    grid.heal("n2");
    n1.raft.add_learner(&n2.peer()).await.unwrap();
}

/// Answers every call with a refusal, and counts them.
struct Refuser(watch::Sender<usize>);

impl Refuser {
    fn refuse<R>(&self) -> Result<Response<R>, Status> {
        self.0.send_modify(|calls| *calls += 1);
        Err(Status::invalid_argument("no"))
    }
}

#[tonic::async_trait]
impl Raft for Refuser {
    async fn append(&self, _: Request<RaftAppend>) -> Result<Response<RaftAppendReply>, Status> {
        self.refuse()
    }

    async fn vote(&self, _: Request<RaftVoteRequest>) -> Result<Response<RaftVoteReply>, Status> {
        self.refuse()
    }

    async fn install_snapshot(
        &self,
        _: Request<Streaming<RaftSnapshotPart>>,
    ) -> Result<Response<RaftSnapshotReply>, Status> {
        self.refuse()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_refuses_everything_is_asked_again_but_not_at_once() {
    let grid = Grid::default();
    let n1 = grid.node_with("n1", Settings { members_within: Duration::from_secs(1), ..settings() }).await;
    found(&n1).await;
    let (calls, mut called) = watch::channel(0);
    let router = Server::builder().add_service(RaftServer::new(Refuser(calls)));
    let _server = grid.serve_router("n2", router).await;

    let began = Instant::now();
    let stranger = grid::peer("n2", Journal::in_memory().identity());
    n1.raft.add_learner(&stranger).await.unwrap_err();
    timeout(PATIENCE, called.wait_for(|calls| *calls > 10)).await.unwrap().unwrap();
    let calls = *called.borrow();
    let pauses = u32::try_from(calls - 1).unwrap();
    assert!(began.elapsed() >= pauses * Duration::from_millis(50), "{calls} calls in {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_command_travels_and_a_larger_one_is_refused() {
    let grid = Grid::default();
    let [n1, n2, n3] = trio(&grid, settings()).await;
    let largest = "x".repeat(PAYLOAD_BYTES_MAX);
    let index = n1.propose(&largest).await.index;
    for node in [&n2, &n3] {
        node.applies(index).await;
        assert_eq!(node.lines.texts(), [largest.as_str()]);
    }
    let len = PAYLOAD_BYTES_MAX + 1;
    let refused = n1.raft.propose(Bytes::from(vec![b'x'; len])).await.unwrap_err();
    assert_eq!(refused, ProposeError::TooLarge { len });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_panics_stops_consensus_and_tells_whoever_waits() {
    let grid = Grid::default();
    let n1 = grid.node("n1").await;
    found(&n1).await;
    let outcome = timeout(PATIENCE, n1.raft.propose(Bytes::from_static(b"panic"))).await.unwrap();
    assert!(matches!(outcome, Err(ProposeError::Stopped(_))), "{outcome:?}");
    let failure = timeout(PATIENCE, n1.raft.stopped()).await.unwrap();
    assert!(failure.contains("the machine panicked"), "{failure}");
    assert_eq!(n1.standing().role, Role::Stopped);
    assert!(matches!(n1.raft.confirm_leadership().await, Err(ConfirmError::Stopped(_))));
    n1.raft.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_every_wait_and_frees_the_files() {
    let grid = Grid::default();
    let n1 = grid.node("n1").await;
    found(&n1).await;
    let (raft, stopped) = (n1.raft.clone(), n1.raft.clone());
    let stopped = tokio::spawn(async move { stopped.stopped().await });
    raft.shutdown().await;
    raft.shutdown().await;
    timeout(PATIENCE, stopped).await.unwrap().unwrap();
    assert!(raft.propose(Bytes::from_static(b"late")).await.is_err());
    assert!(matches!(raft.confirm_leadership().await, Err(ConfirmError::Stopped(_))));
    assert_eq!(n1.raft.leader_watch().borrow().leader, None);
    Journal::open(n1.dir.path()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_wait_for_a_node_whose_port_is_open_before_its_consensus_runs() {
    let grid = Grid::default();
    let n1 = grid.node("n1").await;
    found(&n1).await;

    let (door, lines) = (Door::new(), Lines::default());
    let _server = grid.serve("n2", &door).await;
    let journal = Journal::in_memory();
    let peer = grid::peer("n2", journal.identity());
    let adding = tokio::spawn({
        let raft = n1.raft.clone();
        async move { raft.add_learner(&peer).await }
    });
    n1.reaches("the new member", |standing| standing.members.peers.len() == 2).await;

    let setup = Setup {
        settings: settings(),
        journal,
        machine: Box::new(lines.clone()),
        dial: grid.dial("n2"),
        door: door.clone(),
    };
    let n2 = RaftNode::start(setup).await.unwrap();
    timeout(PATIENCE, adding).await.unwrap().unwrap().unwrap();
    n1.propose("line").await;
    let mut watch = n2.watch();
    timeout(PATIENCE, watch.wait_for(|_| lines.texts() == ["line"])).await.unwrap().unwrap();

    let again = Setup {
        settings: settings(),
        journal: Journal::in_memory(),
        machine: Box::new(Lines::default()),
        dial: grid.dial("n2"),
        door,
    };
    assert_eq!(RaftNode::start(again).await.err().unwrap(), StartError::DoorOpen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_snapshot_is_gone_does_not_pretend_to_be_empty() {
    let grid = Grid::default();
    let n1 = grid.node_with("n1", compacting()).await;
    found(&n1).await;
    for number in 0..100 {
        n1.propose(&format!("{number}")).await;
    }
    n1.reaches("a purged log", |standing| standing.purged.is_some()).await;
    let dir = n1.kill().await;
    std::fs::remove_file(dir.path().join(SNAPSHOT_FILE)).unwrap();
    let refused = grid.node_in("n1", dir, compacting()).await.err().unwrap();
    assert!(matches!(refused, StartError::SnapshotLost { .. }), "{refused}");
    assert!(refused.to_string().contains(SNAPSHOT_FILE), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_contradict_each_other_are_refused() {
    let slow = Settings { heartbeat: Duration::from_secs(1), ..settings() };
    let setup = Setup {
        settings: slow,
        journal: Journal::in_memory(),
        machine: Box::new(Lines::default()),
        dial: Grid::default().dial("n1"),
        door: Door::new(),
    };
    assert!(matches!(RaftNode::start(setup).await, Err(StartError::Settings(_))));
}

#[test]
fn nodes_are_told_apart_from_their_first_start() {
    assert_ne!(Journal::in_memory().identity(), Journal::in_memory().identity());
}
