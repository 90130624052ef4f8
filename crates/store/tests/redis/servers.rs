//! Which servers will do, and what the operator of another is told.

use store::{BadConfig, CLUSTER_NAME_MAX, Standing, Store, StoreConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::*;

#[tokio::test]
async fn one_that_may_drop_keys_is_refused_until_it_is_set_right_and_when_it_is_set_wrong() {
    let redis = Redis::start_with(&["--maxmemory-policy", "allkeys-lru"]).await;
    let store = open(&redis.url());
    for _ in 0..2 {
        let why = refused(&store).await;
        assert_eq!(
            why,
            "maxmemory-policy is allkeys-lru: Redis may drop what it acknowledged; set `maxmemory-policy noeviction`, and \
             `CONFIG SET maxmemory-policy noeviction` on the running server"
        );
        redis.tell("CONFIG SET maxmemory-policy noeviction").await;
        up(&store).await;
        redis.tell("CONFIG SET maxmemory-policy allkeys-lru").await;
    }
}

#[tokio::test]
async fn a_member_of_a_cluster_is_refused() {
    let bus = free_port().to_string();
    let redis = Redis::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]).await;
    let why = refused(&open(&redis.url())).await;
    assert_eq!(
        why,
        "Redis Cluster and Sentinel are not supported: this server is part of a Redis Cluster; give the address of one Redis \
         server that stands alone or is a primary"
    );
}

#[tokio::test]
async fn a_sentinel_is_refused() {
    let sentinel = Redis::start_sentinel().await;
    let why = refused(&open(&sentinel.url())).await;
    assert!(why.starts_with("Redis Cluster and Sentinel are not supported: this server is a sentinel"), "{why}");
}

#[tokio::test]
async fn a_replica_will_not_do_until_it_is_promoted() {
    let primary = Redis::start().await;
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]).await;
    let store = open(&replica.url());
    let why = down(&store).await;
    assert_eq!(why, "this Redis is a replica: writes go to its primary; promote it, or give the primary's address");
    replica.tell("REPLICAOF NO ONE").await;
    up(&store).await;
}

#[tokio::test]
async fn one_that_is_too_old_is_refused() {
    let store = open(&format!("redis://127.0.0.1:{}", answering("# Server\r\nredis_version:6.2.14\r\n").await));
    assert_eq!(refused(&store).await, "Redis 6.2.14 is too old: 7.0 or later is needed");
}

#[tokio::test]
async fn something_else_that_answers_is_no_server_and_no_panic() {
    for answer in ["", "HTTP/1.1 400 Bad Request", "\u{0}\u{1}"] {
        let store = open(&format!("redis://127.0.0.1:{}", answering(answer).await));
        refused(&store).await;
    }
}

#[tokio::test]
async fn one_that_keeps_nothing_on_disk_is_used_with_a_warning() {
    let redis = Redis::start().await;
    let store = open_up(redis.port).await;
    let Standing::Up { version, warnings, .. } = store.standing().borrow().clone() else { panic!() };
    assert!(redis.ask::<String>("INFO server").await.contains(&format!("redis_version:{version}\r\n")));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("nothing to disk"), "{warnings:?}");
}

#[tokio::test]
async fn one_that_keeps_a_file_is_used_without_one() {
    let redis = Redis::start_with(&["--appendonly", "yes"]).await;
    let store = open_up(redis.port).await;
    let Standing::Up { warnings, .. } = store.standing().borrow().clone() else { panic!() };
    assert_eq!(warnings, [""; 0]);
}

#[tokio::test]
async fn a_name_that_no_key_can_have_is_refused_at_once() {
    for name in [String::new(), "n".repeat(CLUSTER_NAME_MAX + 1)] {
        let config = StoreConfig { cluster: name, ..config("redis://localhost") };
        assert_eq!(config.check(), Err(BadConfig::Name));
        assert_eq!(Store::open(&config, UUID).err(), Some(BadConfig::Name));
    }
}

#[tokio::test]
async fn another_database_is_used_where_the_url_says_so() {
    let redis = Redis::start().await;
    let store = open(&format!("{}/3", redis.url()));
    up(&store).await;
    store.claim(P, keeper(1, 1), 0).await.unwrap();
    assert!(redis.ask::<String>("INFO keyspace").await.contains("db3:keys=2"));
}

#[tokio::test]
async fn a_database_that_there_is_not_is_refused() {
    let redis = Redis::start().await;
    let why = refused(&open(&format!("{}/99", redis.url()))).await;
    assert!(why.contains("no login"), "{why}");
}

/// A port at which everything that is asked is answered with this text.
async fn answering(text: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 1024];
                while stream.read(&mut asked).await.is_ok_and(|length| length > 0) {
                    let answer = format!("${}\r\n{text}\r\n", text.len());
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}
