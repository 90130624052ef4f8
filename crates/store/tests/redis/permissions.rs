//! What must be permitted: exactly what the documented line grants, and each part of it by name when it is missing.

use ownership::kept::{Claimed, WriteAnswer};
use store::{ACL_LINE, Store};

use crate::support::*;

const PASSWORD: &str = "correct-horse";

/// A server with a user made by this line, and a store of that user.
async fn under(line: &str) -> (Redis, Store) {
    let redis = Redis::start().await;
    redis.tell(&line.replace("PASSWORD", PASSWORD)).await;
    let store = open(&format!("redis://ringfence:{PASSWORD}@127.0.0.1:{}", redis.port));
    (redis, store)
}

#[tokio::test]
async fn the_documented_line_suffices_for_all_that_is_asked() {
    let (redis, store) = under(ACL_LINE).await;
    let by = up(&store).await;
    assert_eq!(store.claim(P, keeper(1, 1), 0).await, Ok(Claimed::New { by, previous_cluster: false }));
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[kept(1, 1)]), None).await, Ok(WriteAnswer::Ok));
    assert_eq!(store.write(P, &adding(keeper(1, 1), 2, &[kept(2, 1)]), None).await, Ok(WriteAnswer::Ok));
    assert!(matches!(store.claim(P, keeper(2, 1), 0).await, Ok(Claimed::Taken { .. })));
    assert_eq!(store.write(P, &anew(keeper(2, 1), 1, &[kept(1, 1)]), None).await, Ok(WriteAnswer::Ok));
    redis.tell("SCRIPT FLUSH").await;
    assert_eq!(store.write(P, &adding(keeper(2, 1), 2, &[]), None).await, Ok(WriteAnswer::Ok));
    assert_eq!(redis.ask::<Vec<String>>("ACL LOG").await, [""; 0], "nothing was asked that is not granted");
}

#[tokio::test]
async fn each_permission_that_is_missing_is_named() {
    let granted: Vec<&str> = ACL_LINE.split(' ').filter(|word| word.starts_with('+')).collect();
    assert_eq!(granted.len(), 7);
    for word in granted {
        let (_redis, store) = under(&ACL_LINE.replace(&format!(" {word}"), "")).await;
        let why = refused(&store).await;
        let (sentence, remedy) = why.split_once("; the line that grants it is: ").unwrap();
        assert!(sentence.starts_with("Redis does not permit what is needed: "), "{word}: {why}");
        assert!(sentence.contains(&word[1..]), "{word}: {why}");
        assert_eq!(remedy, ACL_LINE);
    }
}

#[tokio::test]
async fn keys_that_may_not_be_touched_are_a_missing_permission_too() {
    for keys in ["~other:*", "~ringfence:prod:*"] {
        let (_redis, store) = under(&ACL_LINE.replace("~ringfence:*", keys)).await;
        let why = refused(&store).await;
        assert!(why.contains("key"), "{keys}: {why}");
    }
}

#[tokio::test]
async fn the_keys_of_one_cluster_are_enough() {
    let (_redis, store) = under(&ACL_LINE.replace("~ringfence:*", "~ringfence:prod ~ringfence:prod:*")).await;
    up(&store).await;
    assert!(store.claim(P, keeper(1, 1), 0).await.is_ok());
}

#[tokio::test]
async fn another_database_wants_one_permission_more() {
    let (redis, store) = under(&format!("{ACL_LINE} +select")).await;
    up(&store).await;
    let url = format!("redis://ringfence:{PASSWORD}@127.0.0.1:{}/1", redis.port);
    up(&open(&url)).await;
    redis.tell("ACL SETUSER ringfence -select").await;
    let why = refused(&open(&url)).await;
    assert!(why.contains("select"), "{why}");
}

#[tokio::test]
async fn a_permission_that_is_taken_away_later_is_told_by_the_call_that_misses_it() {
    let (redis, store) = under(ACL_LINE).await;
    up(&store).await;
    store.claim(P, keeper(1, 1), 0).await.unwrap();
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &[]), None).await, Ok(WriteAnswer::Ok));
    redis.tell("ACL SETUSER ringfence -hset").await;
    let outcome = store.write(P, &adding(keeper(1, 1), 2, &[]), None).await;
    assert!(matches!(&outcome, Err(store::StoreError::Refused(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_repeated_nowhere() {
    let redis = Redis::start().await;
    redis.tell(&ACL_LINE.replace("PASSWORD", "another")).await;
    let store = open(&format!("redis://ringfence:{PASSWORD}@127.0.0.1:{}", redis.port));
    let why = refused(&store).await;
    assert!(why.contains("no login"), "{why}");
    assert!(!why.contains(PASSWORD), "{why}");
    assert!(!format!("{store:?} {:?}", store.standing()).contains(PASSWORD));
}

#[tokio::test]
async fn a_password_that_is_missing_is_refused() {
    let redis = Redis::start().await;
    redis.tell("CONFIG SET requirepass secret").await;
    let why = refused(&open(&redis.url())).await;
    assert!(why.contains("NOAUTH"), "{why}");
    up(&open(&format!("redis://:secret@127.0.0.1:{}", redis.port))).await;
}

#[test]
fn the_page_for_operators_has_the_line_word_for_word() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/redis.md")).unwrap();
    assert!(page.lines().any(|line| line == ACL_LINE), "docs/redis.md must hold this line:\n{ACL_LINE}");
}
