//! What goes over the stream to a node that works, and what comes back.

use std::time::Duration;

use ringfence_client::{CHECK_BYTES_MAX, Check, CheckError, Mode, Reason, Source};
use wire::v1 as proto;

use crate::fake::{Act, Fake, allowed};
use crate::{PATIENT, builder, check, connected};

#[tokio::test]
async fn a_check_goes_out_whole_and_its_decision_comes_back_whole() {
    let fake = Fake::start(|check| {
        let limit = proto::LimitDecision {
            limit: "per-client".to_owned(),
            capacity: Some(20),
            remaining: Some(0),
            retry_after_ms: Some(90),
            reason: "limit".to_owned(),
            source: "forwarded".to_owned(),
            owner: "n2".to_owned(),
            epoch: 7,
            mode: "enforce".to_owned(),
            ..proto::LimitDecision::default()
        };
        Act::Decide(Box::new(proto::Decision {
            allowed: false,
            epoch: 7,
            id: check.id.clone(),
            domain: check.domain.clone(),
            limit: "per-client".to_owned(),
            remaining: Some(0),
            retry_after_ms: Some(90),
            reset_after_ms: Some(2_000),
            reason: "limit".to_owned(),
            source: "forwarded".to_owned(),
            degraded: true,
            revision: 3,
            replayed: true,
            limits: vec![limit],
            ..*allowed(check, "n2")
        }))
    });
    let client = connected(builder(&[&fake.address])).await;
    let decision = client.check(check(5).attribute("user", 7).id("order-7")).await.unwrap();
    assert!(!decision.allowed && decision.degraded && decision.replayed);
    assert_eq!((decision.id.as_str(), decision.domain.as_str(), decision.cost), ("order-7", "test", 5));
    assert_eq!((decision.limit.as_deref(), decision.remaining), (Some("per-client"), Some(0)));
    assert_eq!(decision.retry_after, Some(Duration::from_millis(90)));
    assert_eq!(decision.reset_after, Some(Duration::from_secs(2)));
    assert_eq!((decision.reason, decision.source), (Reason::Limit, Source::Forwarded));
    assert_eq!((decision.owner.as_deref(), decision.epoch, decision.revision), (Some("n2"), Some(7), 3));
    assert_eq!((&*decision.answered_by, decision.attempts), (fake.address.as_str(), 1));
    let leg = &decision.limits[0];
    assert_eq!((leg.limit.as_str(), leg.allowed, leg.capacity), ("per-client", false, Some(20)));
    assert_eq!((leg.mode.clone(), leg.epoch, leg.reset_after), (Mode::Enforce, Some(7), None));

    let asked = &fake.checks()[0];
    assert_eq!((asked.domain.as_str(), asked.cost, asked.id.as_str()), ("test", Some(5), "order-7"));
    assert_eq!((asked.attributes["client"].as_str(), asked.attributes["user"].as_str()), ("alice", "7"));
    assert_eq!((asked.attempt, asked.binary_id.len()), (1, 0));
    let told = Duration::from_millis(asked.deadline_ms.unwrap());
    assert!(told < PATIENT && told > PATIENT / 2, "the node is told what is left, and less than all of it: {told:?}");
}

#[tokio::test]
async fn what_is_asked_at_once_leaves_in_full_batches_and_is_answered_in_order() {
    let fake = Fake::allowing("n1");
    let client = connected(builder(&[&fake.address]).batch_max(100)).await;
    let decisions = client.check_all((0..700).map(check)).await;
    let costs: Vec<_> = decisions.into_iter().map(|decision| decision.unwrap().cost).collect();
    assert_eq!(costs, (0..700).collect::<Vec<_>>());
    let sizes: Vec<_> = fake.seen().iter().map(|seen| seen.checks.len()).collect();
    assert_eq!(sizes, [100; 7]);
    let sent: Vec<_> = fake.checks().iter().map(|check| check.cost.unwrap()).collect();
    assert_eq!(sent, (0..700).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_lone_check_waits_for_no_other() {
    let fake = Fake::allowing("n1");
    let client = connected(builder(&[&fake.address])).await;
    for cost in 0..20 {
        assert_eq!(client.check(check(cost)).await.unwrap().cost, cost);
    }
    assert_eq!(fake.seen().len(), 20);
}

#[tokio::test]
async fn answers_are_matched_by_number_and_not_by_turn() {
    let fake = Fake::start(|check| Act::Swap(allowed(check, "n1")));
    let client = connected(builder(&[&fake.address]).batch_max(1)).await;
    let decisions = client.check_all((0..20).map(check)).await;
    let costs: Vec<_> = decisions.into_iter().map(|decision| decision.unwrap().cost).collect();
    assert_eq!(costs, (0..20).collect::<Vec<_>>());
    assert_eq!(fake.seen().len(), 20, "the node had each alone, and answered them in pairs the wrong way round");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_checks_at_once_are_each_asked_and_answered_once() {
    let fake = Fake::allowing("n1");
    let client = connected(builder(&[&fake.address])).await;
    let tasks: Vec<_> = (0..10_000)
        .map(|cost| {
            let client = client.clone();
            tokio::spawn(async move { client.check(check(cost)).await.unwrap().cost })
        })
        .collect();
    for (cost, task) in (0..).zip(tasks) {
        assert_eq!(task.await.unwrap(), cost);
    }
    let mut ids: Vec<_> = fake.checks().into_iter().map(|check| check.binary_id).collect();
    assert_eq!(ids.len(), 10_000);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10_000, "every check has a name of its own");
    assert!(ids.iter().all(|id| id.len() == 16 && id[..8] == ids[0][..8]), "one client, one nonce");
}

#[tokio::test]
async fn two_clients_make_different_names() {
    let fake = Fake::allowing("n1");
    for _ in 0..2 {
        let _ = connected(builder(&[&fake.address])).await.check(check(1)).await.unwrap();
    }
    let checks = fake.checks();
    assert_ne!(checks[0].binary_id[..8], checks[1].binary_id[..8]);
}

#[tokio::test]
async fn a_check_that_cannot_be_put_is_told_once_and_spoils_only_its_own_place() {
    let reject = |check: &proto::CheckRequest| match check.cost {
        Some(13) => Act::Reject(proto::CheckError {
            code: "out-of-range".to_owned(),
            field: "checks[1].cost".to_owned(),
            detail: "unlucky".to_owned(),
        }),
        _ => Act::Decide(allowed(check, "n1")),
    };
    let (first, second) = (Fake::start(reject), Fake::allowing("n2"));
    let client = connected(builder(&[&first.address, &second.address])).await;
    let results = client.check_all([12, 13, 14].map(check)).await;
    assert!(results[0].is_ok() && results[2].is_ok());
    let (code, field) = ("out-of-range".to_owned(), "cost".to_owned());
    assert_eq!(results[1], Err(CheckError::Rejected { code, field, detail: "unlucky".to_owned() }));
    assert_eq!((first.checks().len(), second.checks().len()), (3, 0), "no other node is bothered");
}

#[tokio::test]
async fn a_check_that_is_too_large_does_not_leave() {
    let fake = Fake::allowing("n1");
    let client = connected(builder(&[&fake.address])).await;
    let large = Check::new("test").attribute("client", "x".repeat(CHECK_BYTES_MAX));
    let Err(CheckError::Rejected { code, .. }) = client.check(large).await else { panic!("it is rejected") };
    assert_eq!(code, "body-too-large");
    let Err(CheckError::Rejected { code, field, .. }) = client.check(check(1).deadline(Duration::ZERO)).await else {
        panic!("it is rejected")
    };
    assert_eq!((code.as_str(), field.as_str()), ("out-of-range", "deadline"));
    assert_eq!(fake.checks().len(), 0);
}

#[tokio::test]
async fn words_that_the_client_does_not_know_reach_the_caller() {
    let fake = Fake::start(|check| {
        let newer =
            proto::Decision { reason: "tired".to_owned(), source: "oracle".to_owned(), ..*allowed(check, "n1") };
        Act::Decide(Box::new(newer))
    });
    let client = connected(builder(&[&fake.address])).await;
    let decision = client.check(check(1)).await.unwrap();
    assert_eq!(decision.reason, Reason::Other("tired".to_owned()));
    assert_eq!(decision.source, Source::Other("oracle".to_owned()));
}

#[tokio::test]
async fn the_token_opens_the_stream_and_a_wrong_one_is_told_without_asking_elsewhere() {
    let (guarded, other) = (Fake::with_token("good"), Fake::allowing("n2"));
    let client = connected(builder(&[&guarded.address]).token("good")).await;
    assert!(client.check(check(1)).await.unwrap().allowed);
    assert_eq!(guarded.seen()[0].authorization.as_deref(), Some("Bearer good"));

    let client = builder(&[&guarded.address, &other.address]).token("bad").build().unwrap();
    for _ in 0..3 {
        let Err(CheckError::Rejected { code, detail, .. }) = client.check(check(1)).await else {
            panic!("it is rejected")
        };
        assert_eq!((code.as_str(), detail.as_str()), ("unauthorised", "no such token"));
    }
    assert_eq!((guarded.checks().len(), other.checks().len()), (1, 0));
}
