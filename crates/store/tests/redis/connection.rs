//! How a connection breaks and heals, and what callers are told meanwhile.

use std::time::Duration;

use ownership::Write;
use ownership::kept::{Claimed, Incarnation, WriteAnswer};
use store::{IN_FLIGHT_MAX, Op, Standing, Store, StoreConfig, StoreError};
use tokio::time::Instant;

use crate::support::*;

/// A half-open connection is left behind within this time, without anybody's doing.
const RECOVERY: Duration = Duration::from_secs(2);

async fn claim(store: &Store, epoch: u64) -> Result<Claimed, StoreError> {
    store.claim(P, keeper(epoch, 1), 0).await
}

#[tokio::test]
async fn a_store_opens_without_redis_and_is_up_when_that_comes() {
    let port = free_port();
    let store = open(&format!("redis://127.0.0.1:{port}"));
    assert_eq!(*store.standing().borrow(), Standing::Connecting);
    let why = down(&store).await;
    assert!(why.contains("is unreachable"), "{why}");
    let asked = Instant::now();
    assert_eq!(claim(&store, 1).await, Err(StoreError::Away));
    assert_eq!(store.write(P, &adding(keeper(1, 1), 1, &[]), None).await, Err(StoreError::Away));
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[]), None).await, Err(StoreError::Away));
    assert!(asked.elapsed() < Duration::from_millis(50), "{:?}", asked.elapsed());
    let _redis = Redis::start_at(port).await;
    let by = up(&store).await;
    assert_eq!(claim(&store, 1).await, Ok(Claimed::New { by, previous_cluster: false }));
    assert!(store.tally().failed() > 0);
}

#[tokio::test]
async fn time_without_a_store_is_counted_from_its_first_failure() {
    let store = open(&format!("redis://127.0.0.1:{}", free_port()));
    down(&store).await;
    let since = |standing: &Standing| match standing {
        Standing::Down { since, .. } => *since,
        Standing::Connecting | Standing::Up { .. } | Standing::Refused { .. } => panic!("{standing:?}"),
    };
    let first = since(&store.standing().borrow());
    while store.tally().failed() < 4 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(since(&store.standing().borrow()), first);
}

#[tokio::test]
async fn a_connection_that_passes_nothing_on_is_left_behind_though_nobody_asks() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    let by = up(&store).await;
    let frozen = Instant::now();
    proxy.freeze();
    let why = down(&store).await;
    assert!(why.contains("does not answer"), "{why}");
    assert_eq!(up(&store).await, by);
    assert!(frozen.elapsed() < RECOVERY, "{:?}", frozen.elapsed());
    assert!(claim(&store, 1).await.is_ok());
    assert_eq!(store.tally().connected(), 2);
}

#[tokio::test]
async fn a_connection_that_passes_nothing_on_is_left_behind_sooner_when_it_is_used() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    claim(&store, 1).await.unwrap();
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[]), None).await, Ok(WriteAnswer::Ok));
    let frozen = Instant::now();
    proxy.freeze();
    let mut ends = Vec::new();
    for seq in 2.. {
        match store.write(P, &adding(keeper(1, 1), seq, &[]), None).await {
            Ok(written) => {
                assert_eq!(written, WriteAnswer::Ok);
                break;
            }
            Err(StoreError::Away) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => ends.push(error),
        }
    }
    assert_eq!(ends, [StoreError::Unknown, StoreError::Unknown]);
    assert!(frozen.elapsed() < RECOVERY / 2, "{:?}", frozen.elapsed());
}

#[tokio::test]
async fn while_nothing_passes_on_new_connections_either_the_store_is_away_and_then_comes_back() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    proxy.freeze_all();
    down(&store).await;
    let before = store.tally().failed();
    while store.tally().failed() == before {
        assert_eq!(claim(&store, 1).await, Err(StoreError::Away));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    proxy.thaw();
    up(&store).await;
    assert!(claim(&store, 1).await.is_ok());
}

#[tokio::test]
async fn one_slow_answer_costs_nobody_the_connection_however_many_wait_for_it() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    claim(&store, 1).await.unwrap();
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[]), None).await, Ok(WriteAnswer::Ok));
    proxy.delay(Duration::from_millis(300));
    let writes: Vec<_> = (2..=21)
        .map(|seq| {
            let store = store.clone();
            tokio::spawn(async move { store.write(P, &adding(keeper(1, 1), seq, &[kept(seq, 1)]), None).await })
        })
        .collect();
    for write in writes {
        assert_eq!(write.await.unwrap(), Err(StoreError::Unknown));
    }
    proxy.delay(Duration::ZERO);
    let again = store.write(P, &adding(keeper(1, 1), 21, &[kept(21, 1)]), None).await;
    assert!(matches!(again, Ok(WriteAnswer::Stale) | Err(StoreError::Unknown)), "it was written after all: {again:?}");
    assert!(claim(&store, 1).await.is_ok());
    assert_eq!(store.tally().connected(), 1);
    assert_eq!(redis.header(&partition_key(P)).await["q"], "21");
}

#[tokio::test]
async fn a_connection_that_is_cut_leaves_what_was_asked_unknown_and_is_made_anew() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    proxy.delay(Duration::from_millis(200));
    let asking = store.clone();
    let call = tokio::spawn(async move { claim(&asking, 1).await });
    while redis.ask::<i64>("EXISTS ringfence:prod").await == 0 {}
    proxy.cut();
    assert_eq!(call.await.unwrap(), Err(StoreError::Unknown));
    down(&store).await;
    proxy.delay(Duration::ZERO);
    up(&store).await;
    assert!(matches!(claim(&store, 1).await, Ok(Claimed::New { .. })), "the claim that was unknown is asked again");
}

#[tokio::test]
async fn a_server_that_is_restarted_is_another_incarnation() {
    let mut redis = Redis::start().await;
    let store = open_up(redis.port).await;
    let before = up(&store).await;
    claim(&store, 1).await.unwrap();
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[kept(1, 1)]), None).await, Ok(WriteAnswer::Ok));
    redis.restart().await;
    let after = until(&store, |standing| other_than(before, standing)).await;
    assert_ne!((before.run, before.history), (after.run, after.history));
    assert_ne!(before.run, after.run);
    assert_eq!(store.write(P, &adding(keeper(1, 1), 2, &[]), None).await, Ok(WriteAnswer::Lost { keeper: None }));
    assert_eq!(claim(&store, 1).await, Ok(Claimed::New { by: after, previous_cluster: false }));
}

#[tokio::test]
async fn a_history_that_changes_on_one_connection_is_told() {
    let redis = Redis::start().await;
    let store = open_up(redis.port).await;
    let before = up(&store).await;
    redis.tell("DEBUG CHANGE-REPL-ID").await;
    let after = until(&store, |standing| other_than(before, standing)).await;
    assert_eq!(before.run, after.run);
    assert_ne!(before.history, after.history);
    assert_eq!(store.tally().connected(), 1);
}

#[tokio::test]
async fn a_primary_that_loses_its_place_and_gets_it_back_has_another_history_in_the_same_run() {
    let (first, second) = (Redis::start().await, Redis::start().await);
    let store = open_up(first.port).await;
    let before = up(&store).await;
    claim(&store, 1).await.unwrap();
    replicate(&second, &first).await;
    second.tell("REPLICAOF NO ONE").await;
    replicate(&first, &second).await;
    let why = down(&store).await;
    assert!(why.contains("is a replica"), "{why}");
    assert_eq!(claim(&store, 2).await, Err(StoreError::Away));
    first.tell("REPLICAOF NO ONE").await;
    let after = up(&store).await;
    assert_eq!(before.run, after.run);
    assert_ne!(before.history, after.history);
    assert!(matches!(claim(&store, 2).await, Ok(Claimed::Taken { by, .. }) if by == after));
}

#[tokio::test]
async fn a_replica_that_takes_its_primarys_place_has_another_history_from_the_first_claim_on() {
    let (first, second) = (Redis::start().await, Redis::start().await);
    let before = up(&open_up(first.port).await).await;
    replicate(&second, &first).await;
    let store = open(&second.url());
    down(&store).await;
    second.tell("REPLICAOF NO ONE").await;
    let after = up(&store).await;
    assert_ne!(before.history, after.history);
    assert_ne!(before.run, after.run);
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_refuses_and_nothing_is_written() {
    let (first, second) = (Redis::start().await, Redis::start().await);
    let store = open_up(first.port).await;
    claim(&store, 1).await.unwrap();
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[]), None).await, Ok(WriteAnswer::Ok));
    replicate(&second, &first).await;
    second.tell("REPLICAOF NO ONE").await;
    replicate(&first, &second).await;
    // The heartbeat may have seen it already.
    for refused in [
        claim(&store, 2).await.map(drop),
        store.write(P, &adding(keeper(1, 1), 2, &[]), None).await.map(drop),
        store.write(P, &anew(keeper(1, 1), 3, &[]), None).await.map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::Refused(_) | StoreError::Away)), "{refused:?}");
    }
    let header = first.header(&partition_key(P)).await;
    assert_eq!((header["e"].as_str(), header["q"].as_str()), ("1", "1"));
}

#[tokio::test]
async fn a_write_to_another_life_than_the_connections_is_not_sent() {
    let mut redis = Redis::start().await;
    let store = open_up(redis.port).await;
    let before = up(&store).await;
    claim(&store, 1).await.unwrap();
    let (first, second) = (anew(keeper(1, 1), 1, &[kept(1, 1)]), adding(keeper(1, 1), 2, &[kept(2, 1)]));
    assert_eq!(store.write(P, &first, Some(before)).await, Ok(WriteAnswer::Ok));
    assert_eq!(store.write(P, &second, Some(before)).await, Ok(WriteAnswer::Ok));

    redis.restart().await;
    let restarted = until(&store, |standing| other_than(before, standing)).await;
    redis.tell("DEBUG CHANGE-REPL-ID").await;
    let now = until(&store, |standing| other_than(before, standing).filter(|life| *life != restarted)).await;
    claim(&store, 1).await.unwrap();
    let claimed = redis.header(&partition_key(P)).await;
    for other in [before, restarted] {
        for write in [&first, &second] {
            let answers = store.tally().durations(op_of(write)).count();
            assert_eq!(store.write(P, write, Some(other)).await, Err(StoreError::Away));
            assert_eq!(store.tally().durations(op_of(write)).count(), answers);
        }
    }
    assert_eq!(redis.header(&partition_key(P)).await, claimed);
    assert_eq!(store.write(P, &first, Some(now)).await, Ok(WriteAnswer::Ok));
    assert_eq!(store.write(P, &second, Some(now)).await, Ok(WriteAnswer::Ok));
}

#[tokio::test]
async fn only_so_many_calls_are_under_way_at_a_time() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    proxy.freeze();
    let calls: Vec<_> = (0..IN_FLIGHT_MAX)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { claim(&store, 1).await })
        })
        .collect();
    // Tasks of one thread run in turn, and each time this one stands back at least one other begins.
    for _ in 0..IN_FLIGHT_MAX {
        tokio::task::yield_now().await;
    }
    assert_eq!(claim(&store, 1).await, Err(StoreError::Full));
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(StoreError::Unknown));
    }
    down(&store).await;
    up(&store).await;
    assert!(claim(&store, 1).await.is_ok());
}

#[tokio::test]
async fn the_connection_ends_with_the_last_handle() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let store = open_up(proxy.port).await;
    let clone = store.clone();
    drop(store);
    assert!(claim(&clone, 1).await.is_ok());
    drop(clone);
    let ours = async {
        while redis.ask::<String>("CLIENT LIST").await.lines().count() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ours).await.expect("a connection is left");
    assert_eq!(proxy.made(), 1);
}

#[tokio::test]
async fn a_claim_waits_as_long_as_it_is_told_to() {
    let redis = Redis::start().await;
    let proxy = Proxy::to(redis.port).await;
    let config = StoreConfig {
        claim_timeout: Duration::from_millis(50),
        ..config(&format!("redis://127.0.0.1:{}", proxy.port))
    };
    let store = Store::open(&config, UUID).unwrap();
    up(&store).await;
    proxy.delay(Duration::from_millis(150));
    let asked = Instant::now();
    assert_eq!(claim(&store, 1).await, Err(StoreError::Unknown));
    assert!((50..150).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
}

fn op_of(write: &Write) -> Op {
    if write.anew { Op::Rewrite } else { Op::Write }
}

fn other_than(before: Incarnation, standing: &Standing) -> Option<Incarnation> {
    match standing {
        Standing::Up { incarnation, .. } => Some(*incarnation).filter(|incarnation| *incarnation != before),
        Standing::Connecting | Standing::Down { .. } | Standing::Refused { .. } => None,
    }
}

/// Makes one server the other's replica and waits until it has everything.
async fn replicate(replica: &Redis, primary: &Redis) {
    replica.tell(&format!("REPLICAOF 127.0.0.1 {}", primary.port)).await;
    let linked = async {
        while !replica.ask::<String>("INFO replication").await.contains("master_link_status:up") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, linked).await.expect("the replica is not in step");
}
