//! Nodes that die, hang, refuse connections, break streams and come back.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use ringfence_client::{CheckError, NodeStanding, NodeState, TroubleKind};

use crate::fake::{Act, Fake, allowed};
use crate::{PATIENT, builder, check, connected};

/// An address where nobody listens.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn is_unreachable(node: &NodeStanding, what: TroubleKind) -> bool {
    matches!(&node.state, NodeState::Unreachable(trouble) if trouble.what == what)
}

#[tokio::test]
async fn when_the_stream_breaks_the_next_node_gets_the_same_question_as_attempt_two() {
    let (first, second) = (Fake::start(|_| Act::Break), Fake::allowing("n2"));
    let client = connected(builder(&[&first.address, &second.address])).await;
    let decision = client.check(check(5)).await.unwrap();
    assert_eq!((decision.owner.as_deref(), decision.attempts), (Some("n2"), 2));
    assert_eq!(&*decision.answered_by, second.address);
    let (lost, answered) = (&first.checks()[0], &second.checks()[0]);
    assert_eq!((lost.attempt, answered.attempt), (1, 2));
    assert_eq!(
        (&lost.binary_id, lost.cost, &lost.attributes),
        (&answered.binary_id, answered.cost, &answered.attributes)
    );
    assert!(answered.deadline_ms.unwrap() <= PATIENT.as_millis() as u64);
}

#[tokio::test]
async fn a_text_of_the_callers_own_goes_along_too() {
    let (first, second) = (Fake::start(|_| Act::Break), Fake::allowing("n2"));
    let client = connected(builder(&[&first.address, &second.address])).await;
    let _ = client.check(check(1).id("order-7")).await.unwrap();
    assert_eq!((first.checks()[0].id.as_str(), second.checks()[0].id.as_str()), ("order-7", "order-7"));
}

#[tokio::test]
async fn a_node_that_refuses_connections_costs_one_attempt_and_then_none() {
    let second = Fake::allowing("n2");
    let client = builder(&[&nobody(), &second.address]).backoff(PATIENT, PATIENT).build().unwrap();
    assert_eq!(client.check(check(1)).await.unwrap().owner.as_deref(), Some("n2"));
    client.wait_for(|nodes| is_unreachable(&nodes[0], TroubleKind::NoConnection)).await;
    assert_eq!(client.check(check(1)).await.unwrap().attempts, 1, "it is passed over");
}

#[tokio::test]
async fn a_node_that_says_nothing_is_given_its_share_and_then_left_alone() {
    let (first, second) = (Fake::start(|_| Act::Ignore), Fake::allowing("n2"));
    let deadline = Duration::from_secs(2);
    let client = builder(&[&first.address, &second.address]).deadline(deadline).backoff(PATIENT, PATIENT);
    let client = connected(client).await;
    let started = Instant::now();
    let decision = client.check(check(1)).await.unwrap();
    let waited = started.elapsed();
    assert_eq!((decision.owner.as_deref(), decision.attempts), (Some("n2"), 2));
    assert!(waited >= deadline / 2 && waited < deadline, "{waited:?}");
    let (silent, answered) = (&first.checks()[0], &second.checks()[0]);
    assert_eq!((silent.attempt, answered.attempt), (1, 2));
    assert_eq!(silent.binary_id, answered.binary_id);
    let told = Duration::from_millis(silent.deadline_ms.unwrap());
    assert!(told < waited, "a node that works has given up by the time another is asked: {told:?}");
    client.wait_for(|nodes| is_unreachable(&nodes[0], TroubleKind::Silent)).await;
    assert_eq!(client.check(check(1)).await.unwrap().attempts, 1);
    assert_eq!(first.checks().len(), 1);
}

#[tokio::test]
async fn everybody_who_waits_for_a_silent_node_moves_on_with_the_first_who_notices() {
    let (first, second) = (Fake::start(|_| Act::Ignore), Fake::allowing("n2"));
    let client = builder(&[&first.address, &second.address]).backoff(PATIENT, PATIENT);
    let client = connected(client).await;
    let impatient = client.check(check(1).deadline(Duration::from_secs(1)));
    let started = Instant::now();
    let (impatient, patient) = tokio::join!(impatient, client.check(check(2)));
    assert_eq!((impatient.unwrap().attempts, patient.unwrap().attempts), (2, 2));
    assert!(started.elapsed() < PATIENT / 2, "the patient one would wait {PATIENT:?} on its own");
}

#[tokio::test]
async fn a_node_that_takes_connections_and_never_speaks_is_no_node() {
    // The kernel completes the handshake of a process that is stopped.
    let stopped = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = Fake::allowing("n2");
    let address = stopped.local_addr().unwrap().to_string();
    let client = builder(&[&address, &second.address]).connect_timeout(Duration::from_millis(100)).build().unwrap();
    assert_eq!(client.check(check(1)).await.unwrap().owner.as_deref(), Some("n2"));
    client.wait_for(|nodes| is_unreachable(&nodes[0], TroubleKind::NoConnection)).await;
}

#[tokio::test]
async fn a_node_that_comes_back_is_found_and_asked_first_again() {
    let (mut first, second) = (Fake::allowing("n1"), Fake::allowing("n2"));
    let client = connected(builder(&[&first.address, &second.address])).await;
    let owner = async || client.check(check(1)).await.unwrap().owner.unwrap();
    assert_eq!(owner().await, "n1");
    first.kill();
    client.wait_for(|nodes| matches!(nodes[0].state, NodeState::Unreachable(_))).await;
    assert_eq!(owner().await, "n2");
    let first = Fake::start_at(&first.address, None, |check| Act::Decide(allowed(check, "n1 again")));
    client.wait_for(|nodes| nodes[0].state == NodeState::Reachable).await;
    assert_eq!(owner().await, "n1 again");
    drop(first);
}

#[tokio::test]
async fn a_check_waits_for_an_only_node_that_comes_back_in_time() {
    let mut only = Fake::allowing("n1");
    let client = builder(&[&only.address]).backoff(Duration::from_millis(10), Duration::from_millis(50));
    let client = connected(client).await;
    only.kill();
    client.wait_for(|nodes| matches!(nodes[0].state, NodeState::Unreachable(_))).await;
    let asked = tokio::spawn({
        let client = client.clone();
        async move { client.check(check(1)).await }
    });
    let _again = Fake::start_at(&only.address, None, |check| Act::Decide(allowed(check, "n1 again")));
    assert_eq!(asked.await.unwrap().unwrap().owner.as_deref(), Some("n1 again"));
}

#[tokio::test]
async fn with_nobody_there_it_fails_at_once_and_says_that_nothing_was_spent() {
    let nodes = [nobody(), nobody()];
    let client = builder(&[&nodes[0], &nodes[1]]).deadline(Duration::from_secs(5)).backoff(PATIENT, 2 * PATIENT);
    let client = client.build().unwrap();
    let started = Instant::now();
    for _ in 0..2 {
        let error = client.check(check(1)).await.unwrap_err();
        let CheckError::Unreachable { last, may_have_spent: false } = &error else { panic!("{error:?}") };
        assert!(last.what == TroubleKind::NoConnection && nodes.contains(&last.node.to_string()), "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(5), "it does not wait for the deadline");
}

#[tokio::test]
async fn a_node_that_keeps_breaking_is_given_up_and_the_charge_is_not_known() {
    let only = Fake::start(|_| Act::Break);
    let client = builder(&[&only.address]).backoff(Duration::from_millis(1), Duration::from_millis(2)).build().unwrap();
    let error = client.check(check(1)).await.unwrap_err();
    assert!(matches!(error, CheckError::Unreachable { may_have_spent: true, .. }), "{error:?}");
    let attempts: Vec<_> = only.checks().iter().map(|check| check.attempt).collect();
    assert!(attempts.len() > 1 && attempts.is_sorted_by(|a, b| a < b), "{attempts:?}");
}

#[tokio::test]
async fn an_answer_by_failure_mode_is_an_answer() {
    let unavailable = |check: &wire::v1::CheckRequest| {
        Act::Decide(Box::new(wire::v1::Decision {
            allowed: false,
            reason: "unavailable".to_owned(),
            source: "closed".to_owned(),
            degraded: true,
            owner: String::new(),
            ..*allowed(check, "")
        }))
    };
    let (first, second) = (Fake::start(unavailable), Fake::allowing("n2"));
    let client = connected(builder(&[&first.address, &second.address])).await;
    let decision = client.check(check(1)).await.unwrap();
    assert!(!decision.allowed && decision.degraded && decision.owner.is_none());
    assert_eq!(second.checks().len(), 0);
}

#[tokio::test]
async fn when_time_is_up_the_caller_is_told_and_the_late_answer_goes_nowhere() {
    let late = Fake::start(|check| match check.cost {
        Some(1) => Act::Swap(allowed(check, "n1")),
        _ => Act::Decide(allowed(check, "n1")),
    });
    let client = connected(builder(&[&late.address])).await;
    let deadline = Duration::from_millis(200);
    // The stream stays busy, so that the node is slow with one check and not silent.
    let busy = tokio::spawn({
        let (client, started) = (client.clone(), Instant::now());
        async move {
            // The fake answers what it holds together with the next batch: nothing else is asked until time is up.
            tokio::time::sleep_until((started + 2 * deadline).into()).await;
            client.check(check(2)).await
        }
    });
    let started = Instant::now();
    let error = client.check(check(1).deadline(deadline)).await.unwrap_err();
    assert!(started.elapsed() >= deadline);
    assert_eq!(error, CheckError::DeadlineExceeded { may_have_spent: true });
    assert_eq!(busy.await.unwrap().unwrap().cost, 2, "each answer finds its own question");
}

/// A node answers a check when its time is up if the owner is silent. A few such checks must not take all places on the
/// stream: those behind them would leave when their own time is nearly up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_of_a_silent_owner_leave_places_for_the_others() {
    let fake = Fake::start(|check| Act::DecideLate(allowed(check, "nobody")));
    let client = connected(builder(&[&fake.address])).await;
    let ask = |cost: u64| {
        let client = client.clone();
        tokio::spawn(async move { client.check(check(cost)).await })
    };
    let mut asked = Vec::new();
    // Each leaves alone, for the next is asked when this one has arrived; after the first few they are spaced out.
    for cost in 0..8 {
        asked.push(ask(cost));
        fake.wait_for_checks(asked.len()).await;
    }
    for cost in 0..200 {
        asked.push(ask(cost));
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    fake.wait_for_checks(asked.len()).await;
    assert!(asked.iter().all(|task| !task.is_finished()), "all are there, long before the time of the first is up");
    assert!(fake.seen().len() < 32, "and there are places left");
}
