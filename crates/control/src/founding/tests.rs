//! Stories of two or three machines wired by hand, then a simulation: seeded schedules of everything that can go wrong
//! before there is a cluster, after which there must be exactly one.
#![allow(clippy::unwrap_used, reason = "tests")]

mod simulation;

use super::*;
use crate::state::fixtures::node;

/// Bugs that the simulation must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seeded {
    /// None.
    #[default]
    None,
    /// The founder is content with most of the founders.
    MajorityFounds,
    /// A node that promised enters whatever it hears of.
    PromiseDoesNotBind,
    /// A promise is given, and gone after a restart. (The simulation's disk does this.)
    PromiseIsNotWritten,
}

fn voter(n: u64) -> Voter {
    Voter { name: format!("n{n}"), id: node(n), peer: format!("n{n}:7601") }
}

fn cluster(n: u8) -> ClusterId {
    ClusterId([n; 16])
}

/// Node `n` of a cluster with founders n1 to n`founders`, starting.
fn machine(n: u64, founders: u64, standing: Standing) -> Founding {
    started(Voter { ..voter(n) }, (1..=founders).map(|n| format!("n{n}")).collect(), standing, n)
}

fn started(me: Voter, founders: Vec<String>, standing: Standing, nonce: u64) -> Founding {
    let candidate = cluster(nonce as u8);
    Founding::new(Start { me, cluster_name: "main".into(), founders, standing, candidate, nonce }, Moment::ZERO)
}

fn persist(machine: &mut Founding) -> Option<Standing> {
    let standing = machine.poll_persist()?;
    machine.handle_persisted(Moment::ZERO);
    Some(standing)
}

fn requests(machine: &mut Founding) -> Vec<(String, PromiseRequest)> {
    std::iter::from_fn(|| machine.poll_message())
        .filter_map(|Outgoing { to, message }| match message {
            FoundingMessage::Request(request) => Some((to, request)),
            FoundingMessage::Reply(_) => None,
        })
        .collect()
}

fn reply(machine: &mut Founding) -> Option<PromiseReply> {
    match machine.poll_message()?.message {
        FoundingMessage::Reply(reply) => Some(reply),
        FoundingMessage::Request(_) => None,
    }
}

/// What `n` answers to the founder's question, written down where it must be.
fn answer(machine: &mut Founding, request: &PromiseRequest) -> PromiseAnswer {
    machine.handle_request(request.clone());
    persist(machine);
    reply(machine).unwrap().answer
}

fn hello(from: u64, machine: &Founding, cluster: Option<Birth>) -> Hello {
    Hello { from: voter(from), cluster, ..machine.hello() }
}

fn birth(cluster_number: u8, founder: u64, voters: &[u64]) -> Birth {
    Birth {
        cluster: cluster(cluster_number),
        founder: node(founder),
        voters: voters.iter().map(|&n| voter(n)).collect(),
    }
}

#[test]
fn three_found_one_cluster() {
    let mut first = machine(1, 3, Standing::Free);
    let mut others = [machine(2, 3, Standing::Free), machine(3, 3, Standing::Free)];
    let asked = requests(&mut first);
    assert_eq!(asked.iter().map(|(to, _)| to.as_str()).collect::<Vec<_>>(), ["n2", "n3"]);
    for (other, (_, request)) in others.iter_mut().zip(asked) {
        assert_eq!(persist(&mut first), None, "not before all have promised");
        other.handle_request(request);
        assert_eq!(reply(other), None, "not before it is durable");
        assert!(matches!(persist(other), Some(Standing::Promised { .. })));
        first.handle_reply(reply(other).unwrap(), Moment::ZERO);
    }
    assert_eq!(first.poll_outcome(), None, "not before it is durable");
    let founded = birth(1, 1, &[1, 2, 3]);
    assert_eq!(persist(&mut first), Some(Standing::Member(founded.clone())));
    assert_eq!(first.poll_outcome(), Some(Outcome::Found(founded.clone())));
    for mut other in others {
        other.handle_hello(first.hello(), Moment::ZERO);
        assert_eq!(persist(&mut other), Some(Standing::Member(founded.clone())));
        assert!(matches!(other.poll_outcome(), Some(Outcome::Join { birth, .. }) if birth == founded));
        assert!(other.accepts(cluster(1)) && !other.accepts(cluster(2)));
    }
}

#[test]
fn one_founds_alone() {
    let mut alone = machine(1, 1, Standing::Free);
    persist(&mut alone).unwrap();
    assert_eq!(alone.poll_outcome(), Some(Outcome::Found(birth(1, 1, &[1]))));
    alone.handle_entered(cluster(1));
    assert_eq!(alone.poll_timeout(), None);
}

#[test]
fn a_log_begins_with_an_odd_number_of_voters() {
    for (founders, voters) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (7, 5)] {
        let mut first = machine(1, founders, Standing::Free);
        for (n, (_, request)) in (2..).zip(requests(&mut first)) {
            let answer = PromiseAnswer::Promised;
            first.handle_reply(PromiseReply { from: voter(n), nonce: request.nonce, answer }, Moment::ZERO);
        }
        let Some(Standing::Member(birth)) = persist(&mut first) else { panic!("all have promised") };
        assert_eq!(birth.voters, (1..=voters).map(voter).collect::<Vec<_>>());
    }
}

#[test]
fn a_founder_that_restarts_founds_the_same_cluster() {
    let standing = Standing::Member(birth(9, 1, &[1, 2, 3]));
    let mut again = machine(1, 3, standing);
    assert_eq!(again.poll_outcome(), Some(Outcome::Found(birth(9, 1, &[1, 2, 3]))));
    assert_eq!(again.hello().cluster.unwrap().cluster, cluster(9));
}

#[test]
fn a_promise_outlives_a_restart_and_binds_to_its_founder() {
    let mut first = machine(1, 3, Standing::Free);
    let (_, request) = requests(&mut first).remove(0);
    let mut second = machine(2, 3, Standing::Free);
    second.handle_request(request.clone());
    let promise = persist(&mut second).unwrap();
    let mut second = machine(2, 3, promise);
    assert_eq!(answer(&mut second, &request), PromiseAnswer::Promised, "asked again, it is given again");
    let earlier = birth(8, 77, &[2, 3]);
    second.handle_hello(hello(3, &second, Some(earlier.clone())), Moment::ZERO);
    assert_eq!(persist(&mut second), None, "another founder's cluster is not entered");
    let follows = hello(1, &second, Some(earlier.clone()));
    second.handle_hello(follows.clone(), Moment::ZERO);
    assert_eq!(persist(&mut second), None, "nor when the founder followed it some time ago");
    let answer = Hello { echo: Some(second.hello().challenge), ..follows };
    second.handle_hello(answer, Moment::ZERO);
    assert_eq!(persist(&mut second), Some(Standing::Member(earlier)), "unless the founder follows it now");
}

#[test]
fn a_founder_that_lost_its_disk_joins_what_a_founder_entered_meanwhile() {
    let founded = birth(9, 77, &[77, 2, 3]);
    let mut first = machine(1, 3, Standing::Free);
    let mut asked = requests(&mut first);
    let (mut second, mut third) = (machine(2, 3, Standing::Free), machine(3, 3, Standing::Member(founded.clone())));
    let (to_third, to_second) = (asked.pop().unwrap().1, asked.pop().unwrap().1);
    second.handle_request(to_second);
    persist(&mut second).unwrap();
    let late = reply(&mut second).unwrap();
    third.handle_request(to_third);
    first.handle_reply(reply(&mut third).unwrap(), Moment::ZERO);
    assert_eq!(first.poll_outcome(), Some(Outcome::Join { birth: founded.clone(), via: "n3".into() }));
    first.handle_reply(late, Moment::ZERO);
    assert_eq!(persist(&mut first), None, "it founds nothing any more");
    second.handle_hello(first.answer(second.hello().challenge), Moment::ZERO);
    assert_eq!(persist(&mut second), Some(Standing::Member(founded)), "and frees who promised it");
}

#[test]
fn a_question_from_an_earlier_life_does_not_undo_a_promise() {
    let mut earlier = started(Voter { id: node(70), ..voter(1) }, vec!["n1".into(), "n2".into()], Standing::Free, 70);
    let mut first = machine(1, 2, Standing::Free);
    let mut second = machine(2, 2, Standing::Free);
    let stale = requests(&mut earlier).remove(0).1;
    let fresh = requests(&mut first).remove(0).1;
    assert_eq!(answer(&mut second, &stale), PromiseAnswer::Promised);
    let PromiseAnswer::Prove { challenge } = answer(&mut second, &fresh) else { panic!("it must show that it lives") };
    let prove = PromiseReply { from: voter(2), nonce: fresh.nonce, answer: PromiseAnswer::Prove { challenge } };
    first.handle_reply(prove, Moment::ZERO);
    let proven = requests(&mut first).remove(0).1;
    assert_eq!(answer(&mut second, &proven), PromiseAnswer::Promised);
    let stale = PromiseRequest { proof: Some(challenge), ..stale };
    assert!(matches!(answer(&mut second, &stale), PromiseAnswer::Prove { .. }), "a number proves one thing once");
    assert_eq!(answer(&mut second, &fresh), PromiseAnswer::Promised);
}

#[test]
fn an_answer_to_an_earlier_life_is_none() {
    let mut first = machine(1, 2, Standing::Free);
    first.handle_reply(PromiseReply { from: voter(2), nonce: 0, answer: PromiseAnswer::Promised }, Moment::ZERO);
    assert_eq!(persist(&mut first), None);
    first.handle_reply(PromiseReply { from: voter(9), nonce: 1, answer: PromiseAnswer::Promised }, Moment::ZERO);
    assert_eq!(persist(&mut first), None, "nor is that of somebody who is no founder");
}

#[test]
fn another_list_is_refused_by_name() {
    let mut other = started(voter(2), vec!["n1".into(), "n2".into()], Standing::Free, 2);
    let mut first = machine(1, 3, Standing::Free);
    let (_, request) = requests(&mut first).remove(0);
    assert_eq!(answer(&mut other, &request), PromiseAnswer::WrongFounders);
    let refusal = PromiseReply { from: voter(2), nonce: 1, answer: PromiseAnswer::WrongFounders };
    first.handle_reply(refusal, Moment::ZERO);
    assert_eq!(first.poll_notice(), Some(Notice::WrongFounders { name: "n2".into(), founded: false }));
    let told = Hello { cluster: Some(birth(9, 1, &[1, 2])), ..first.hello() };
    other.handle_hello(told, Moment::ZERO);
    assert_eq!(other.poll_notice(), Some(Notice::WrongFounders { name: "n1".into(), founded: true }));
    assert_eq!(other.poll_outcome(), None);
}

#[test]
fn only_a_founder_promises_and_only_to_the_first() {
    let mut first = machine(1, 3, Standing::Free);
    let (_, request) = requests(&mut first).remove(0);
    let from_second = PromiseRequest { from: voter(2), ..request.clone() };
    assert_eq!(answer(&mut machine(4, 3, Standing::Free), &request), PromiseAnswer::NotYours);
    assert_eq!(answer(&mut machine(3, 3, Standing::Free), &from_second), PromiseAnswer::NotYours);
    assert_eq!(answer(&mut first, &request), PromiseAnswer::NotYours);
    let founders = FoundersDigest::of("main", &["n0".into(), "n2".into()]);
    let elsewhere = Standing::Promised { name: "n0".into(), founder: node(50), founders };
    let mut second = machine(2, 3, elsewhere);
    assert_eq!(answer(&mut second, &request), PromiseAnswer::PromisedTo { founder: "n0".into() });
}

#[test]
fn another_cluster_is_refused_by_name() {
    let mut second = machine(2, 3, Standing::Member(birth(9, 1, &[1, 2, 3])));
    second.handle_hello(hello(3, &second, Some(birth(8, 1, &[1, 2, 3]))), Moment::ZERO);
    assert_eq!(second.poll_notice(), Some(Notice::WrongCluster { name: "n3".into(), cluster: cluster(8) }));
    assert_eq!(second.cluster(), Some(cluster(9)));
}

#[test]
fn a_fourth_node_joins_and_is_bound_only_once_it_is_admitted() {
    let founded = birth(9, 1, &[1, 2, 3]);
    let mut fourth = machine(4, 3, Standing::Free);
    fourth.handle_hello(hello(2, &fourth, Some(founded.clone())), Moment::ZERO);
    assert_eq!(fourth.poll_outcome(), Some(Outcome::Join { birth: founded.clone(), via: "n2".into() }));
    assert_eq!((persist(&mut fourth), fourth.hello().cluster), (None, None));
    assert!(!fourth.accepts(cluster(9)));
    let mut vias = Vec::new();
    for _ in 0..3 {
        fourth.handle_timeout(fourth.poll_timeout().unwrap());
        let Some(Outcome::Join { via, .. }) = fourth.poll_outcome() else { panic!("it asks again") };
        vias.push(via);
    }
    assert_eq!(vias, ["n1", "n3", "n2"], "another node each time");
    fourth.handle_admitted(cluster(9));
    assert_eq!(persist(&mut fourth), Some(Standing::Member(founded)));
    assert!(fourth.accepts(cluster(9)));
    fourth.handle_entered(cluster(9));
    assert_eq!(fourth.poll_timeout(), None);
}

#[test]
fn questions_are_asked_again_with_growing_pauses() {
    let mut first = machine(1, 2, Standing::Free);
    requests(&mut first);
    let mut pauses = Vec::new();
    let mut now = Moment::ZERO;
    for _ in 0..7 {
        let next = first.poll_timeout().unwrap();
        pauses.push(next.since(now).as_millis_ceil());
        now = next;
        first.handle_timeout(now);
        assert_eq!(requests(&mut first).len(), 1);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 2_000, 2_000]);
}
