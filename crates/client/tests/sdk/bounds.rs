//! Nothing goes on for ever: places, dropped futures, shutting down.

use ringfence_client::CheckError;

use crate::fake::{Act, Fake};
use crate::{PATIENT, builder, check, connected};

#[tokio::test]
async fn one_check_more_than_may_be_under_way_is_told_so_at_once() {
    let silent = Fake::start(|_| Act::Ignore);
    let client = connected(builder(&[&silent.address]).queue_max(3)).await;
    let under_way: Vec<_> = (0..3)
        .map(|cost| {
            let client = client.clone();
            tokio::spawn(async move { client.check(check(cost)).await })
        })
        .collect();
    silent.wait_for_checks(3).await;
    assert_eq!(client.check(check(9)).await, Err(CheckError::QueueFull { max: 3 }));
    for task in &under_way {
        task.abort();
    }
    for task in under_way {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    let later: Vec<_> = (10..13)
        .map(|cost| {
            let client = client.clone();
            tokio::spawn(async move { client.check(check(cost)).await })
        })
        .collect();
    silent.wait_for_checks(6).await;
    assert_eq!(client.check(check(9)).await, Err(CheckError::QueueFull { max: 3 }), "the three places are taken again");
    later.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_dropped_future_leaves_nothing_behind_although_it_never_left() {
    // Nobody accepts, so checks wait for the stream to open.
    let stopped = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stopped.local_addr().unwrap().to_string();
    let client = builder(&[&address]).queue_max(10).connect_timeout(PATIENT).build().unwrap();
    for _ in 0..1_000 {
        tokio::select! {
            biased;
            result = client.check(check(1)) => panic!("it has a place, and room in the queue: {result:?}"),
            // The link takes it in; then it is dropped.
            () = tokio::task::yield_now() => {}
        }
    }
}

#[tokio::test]
async fn shutting_down_closes_streams_and_fails_what_is_under_way() {
    let silent = Fake::start(|_| Act::Ignore);
    let client = connected(builder(&[&silent.address])).await;
    let under_way = tokio::spawn({
        let client = client.clone();
        async move { client.check(check(1)).await }
    });
    silent.wait_for_checks(1).await;
    client.shutdown().await;
    assert_eq!(under_way.await.unwrap(), Err(CheckError::ShutDown { may_have_spent: true }));
    assert_eq!(client.check(check(2)).await, Err(CheckError::ShutDown { may_have_spent: false }));
    silent.wait_for_streams(0).await;
}

#[tokio::test]
async fn dropping_the_last_clone_closes_the_streams() {
    let fake = Fake::allowing("n1");
    let client = connected(builder(&[&fake.address])).await;
    let other = client.clone();
    drop(client);
    assert!(other.check(check(1)).await.unwrap().allowed);
    drop(other);
    fake.wait_for_streams(0).await;
}
