//! What was used outlives its owner: nodes are killed, all of them at once, and Redis is killed, emptied, flushed and failed
//! over beside them. A closed limit of a thousand an hour never admits more than that, and mostly admits all of it; an open one
//! refuses nobody for it. Judged by what callers were told.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::patience::until;
use crate::redis::Redis;
use crate::relay::Relay;
use crate::serve::{Fleet, all_owned, live_nodes};

const POLICY: &str = "
ringfence: 1
domain: default
limits:
  closed: { rate: 1000/h, algorithm: sliding-log, key: [client], fail: closed }
  open: { rate: 1000/h, algorithm: sliding-log, key: [client], fail: open }
rules:
  - { name: closed, match: { kind: closed }, limits: [closed] }
  - { name: open, match: { kind: open }, limits: [open] }
";

const LIMIT: u64 = 1_000;

/// What one write allows beyond what is used, where little is asked for.
const CHUNK: u64 = 20;

/// How long a caller goes on who is told to come back: longer than a takeover takes.
const ASKED_FOR: Duration = Duration::from_secs(20);

/// Three nodes and a Redis, settled, and what they keep counts.
fn kept_fleet(redis: &Redis) -> Fleet {
    kept_fleet_at(&redis.toml())
}

/// The same, with what `redis.url` says as TOML.
fn kept_fleet_at(url: &str) -> Fleet {
    let mut fleet = Fleet::new(3);
    std::fs::write(fleet.path("policy.yaml"), POLICY).unwrap();
    fleet.tell(0, "redis.url", url);
    fleet.start_all(1..=3);
    fleet.wait_until_settled(1, 3);
    wait_until_durable(&fleet, 1, 3);
    fleet
}

/// Waits until what so many nodes keep counts, as this one sees it.
fn wait_until_durable(fleet: &Fleet, number: usize, live: usize) {
    fleet.wait_until(number, &format!("{live} nodes being durable"), |cluster| {
        live_nodes(cluster) == live && durable_nodes(cluster) == live && all_owned(cluster)
    });
}

fn durable_nodes(cluster: &Value) -> usize {
    let nodes = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter(|node| node["durable"].is_string()).count()
}

/// Asks for one unit at a time until `most` were admitted or the limit says that it is used up. Whoever is told to come back
/// does, for a while; an open limit that refuses for another reason than its use fails the test.
fn spend(fleet: &Fleet, number: usize, kind: &str, client: &str, most: u64) -> u64 {
    let (mut admitted, until) = (0, Instant::now() + ASKED_FOR);
    while admitted < most {
        let answer = fleet.check(number, kind, client);
        match (answer.status, answer.body["reason"].as_str()) {
            (200, _) => admitted += 1,
            (429, Some("limit")) => return admitted,
            (503, reason) if kind == "closed" => {
                if Instant::now() >= until {
                    return admitted;
                }
                assert!(matches!(reason, Some("recovering" | "unavailable")), "{answer:?}");
                if reason == Some("recovering") {
                    return admitted;
                }
            }
            _ => panic!("{answer:?}"),
        }
    }
    admitted
}

/// Spends most of it in a burst and the rest slowly, so that in the end a write allows for no more than a chunk. Returns who
/// owns the key.
fn spend_700(fleet: &Fleet, client: &str) -> String {
    assert_eq!(spend(fleet, 1, "closed", client, 600), 600);
    spend_slowly(fleet, client, 100)
}

/// Spends so much, one at a time, at a pace at which a write allows for no more than a chunk. Returns who owns the key.
fn spend_slowly(fleet: &Fleet, client: &str, units: u64) -> String {
    let mut owner = String::new();
    for _ in 0..units {
        // The pace of the load, not a wait: twenty-five a second.
        std::thread::sleep(Duration::from_millis(40));
        let answer = fleet.check(1, "closed", client);
        assert_eq!(answer.status, 200, "{answer:?}");
        owner = answer.body["owner"].as_str().unwrap().to_owned();
    }
    owner
}

fn number_of(name: &str) -> usize {
    name.trim_start_matches('n').parse().unwrap()
}

/// A node other than that.
fn other_than(number: usize) -> usize {
    number % 3 + 1
}

fn assert_costs_a_chunk(left: u64) {
    assert_costs_a_chunk_of(left, 300);
}

/// What the successor admits is what was left, but for a chunk at most.
fn assert_costs_a_chunk_of(admitted: u64, left: u64) {
    assert!((left - CHUNK..=left).contains(&admitted), "{admitted} more, where {left} were left");
}

#[test]
fn a_killed_owner_costs_a_chunk_at_most_and_gives_nothing_back() {
    let redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    let owner = number_of(&spend_700(&fleet, "alice"));
    assert_eq!(spend(&fleet, 1, "open", "bob", 100), 100);
    fleet.kill(owner);
    let asked = other_than(owner);
    assert_eq!(spend(&fleet, asked, "open", "bob", 50), 50, "an open limit refuses nobody for it");
    fleet.wait_until(asked, "the others owning everything", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
    let left = spend(&fleet, asked, "closed", "alice", LIMIT);
    assert_costs_a_chunk(left);
    let cluster = fleet.cluster(asked);
    assert!(cluster["redis"]["claims"]["counted"].as_u64().unwrap() > 0, "{cluster:#}");
}

#[test]
fn operators_see_what_is_kept_how_old_it_is_and_whose_records_count() {
    let redis = Redis::start();
    let fleet = kept_fleet(&redis);
    let owner = number_of(&spend_700(&fleet, "alice"));
    let cluster = fleet.wait_until(owner, "all being written", |cluster| cluster["redis"]["unwritten_ms"].is_null());
    let seen = &cluster["redis"];
    assert_eq!((&seen["up"], &seen["role"], &seen["obeyed"]), (&true.into(), &"primary".into(), &true.into()));
    assert!(seen["snapshot_age_ms"].is_u64(), "{seen:#}");

    let admin = fleet.admin(owner);
    let output = crate::dev::program().args(["cluster", "status", "--admin", &admin]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let life = seen["incarnation"].as_str().unwrap();
    for words in
        ["up, primary, ".to_owned(), format!("log: n1, n2, n3 durable in {life}\n"), "oldest snapshot".to_owned()]
    {
        assert!(text.contains(&words), "{words:?} is not in {text}");
    }

    let metrics = crate::http::get(&admin, "/metrics").body;
    let value = |name: &str| {
        let line = metrics.as_str().unwrap().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no {name}")).parse::<f64>().unwrap()
    };
    assert_eq!((value("ringfence_store_up"), value("ringfence_store_durable")), (1.0, 1.0));
    assert!(value("ringfence_store_snapshot_age_seconds") > 0.0);
    // Seven hundred units, of which each write allowed for twenty or more.
    assert!((2.0..=60.0).contains(&value("ringfence_store_keys_written_total")), "{metrics}");
}

#[test]
fn a_cluster_that_was_killed_as_a_whole_knows_what_was_used() {
    let redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    spend_700(&fleet, "alice");
    (1..=3).for_each(|number| fleet.kill(number));
    fleet.start_all(1..=3);
    fleet.wait_until_settled(1, 3);
    assert_costs_a_chunk(spend(&fleet, 1, "closed", "alice", LIMIT));
}

#[test]
fn a_redis_that_restarted_with_the_cluster_is_the_worst_case_until_an_operator_vouches_for_it() {
    let mut redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    spend_700(&fleet, "alice");
    (1..=3).for_each(|number| fleet.kill(number));
    redis.stop();
    redis.run();
    fleet.start_all(1..=3);
    fleet.wait_until_settled(1, 3);
    let voids = |number| {
        let seen = crate::http::try_get(&fleet.admin(number), "/v1/cluster").map(|answer| answer.body);
        seen.and_then(|cluster| cluster["redis"]["claims"]["other_life"].as_u64()).unwrap_or(0)
    };
    until("a record of another life", || match (1..=3).map(voids).sum::<u64>() {
        0 => Err(fleet.cluster(1)),
        _ => Ok(()),
    });
    assert_eq!(spend(&fleet, 1, "closed", "alice", LIMIT), 0);
    let cluster = fleet.cluster(1);
    let incarnation = cluster["redis"]["incarnation"].as_str().unwrap().to_owned();
    let mut command = crate::dev::program();
    let admin = fleet.admin(1);
    command.args(["cluster", "trust-store", "--admin", &admin, "--incarnation", &incarnation]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let left = until("what was kept being read", || match spend(&fleet, 1, "closed", "alice", LIMIT) {
        0 => Err(fleet.cluster(1)["redis"].clone()),
        left => Ok(left),
    });
    assert_costs_a_chunk(left);
    assert_eq!(fleet.cluster(1)["trusted"], Value::String(incarnation));
}

#[test]
fn a_redis_that_goes_costs_nothing_and_a_crash_meanwhile_is_the_worst_case() {
    let mut redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    let owner = number_of(&spend_700(&fleet, "alice"));
    redis.stop();
    assert_eq!(spend(&fleet, 1, "open", "bob", 50), 50);
    assert_eq!(spend(&fleet, 1, "closed", "alice", 100), 100, "an outage costs nothing");
    fleet.wait_until(1, "every node being volatile", |cluster| durable_nodes(cluster) == 0);
    fleet.kill(owner);
    let asked = other_than(owner);
    fleet.wait_until(asked, "the others owning everything", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
    assert_eq!(spend(&fleet, asked, "closed", "alice", LIMIT), 0, "nobody knows, so nothing is admitted");
    assert_eq!(spend(&fleet, asked, "open", "bob", 50), 50);
}

/// Found by the simulator: the process that is back speaks for itself alone, though the session of the one before still lives.
/// What Redis has of that one lacks what was spent while nothing was written.
#[test]
fn a_process_that_is_back_within_its_lease_vouches_for_nothing_that_the_one_before_kept() {
    let redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    let owner = number_of(&spend_700(&fleet, "alice"));
    redis.signal("STOP");
    fleet.wait_until(owner, "every node being volatile", |cluster| durable_nodes(cluster) == 0);
    assert_eq!(spend(&fleet, owner, "closed", "alice", 100), 100, "an outage costs nothing");
    fleet.kill(owner);
    redis.signal("CONT");
    fleet.start(owner);
    let asked = other_than(owner);
    fleet.wait_until(asked, "the new process being one of three", |cluster| {
        live_nodes(cluster) == 3 && all_owned(cluster) && durable_nodes(cluster) > 0
    });
    assert_eq!(spend(&fleet, asked, "closed", "alice", LIMIT), 0, "nobody knows, so nothing is admitted");
}

#[test]
fn a_redis_that_comes_back_empty_has_everything_again_before_it_counts() {
    let mut redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    let before = redis.info("server", "run_id");
    let owner = number_of(&spend_700(&fleet, "alice"));
    redis.wipe();
    redis.run();
    assert_ne!(redis.info("server", "run_id"), before);
    wait_until_durable_in(&fleet, &redis);
    fleet.kill(owner);
    let asked = other_than(owner);
    fleet.wait_until(asked, "the others owning everything", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
    assert_costs_a_chunk(spend(&fleet, asked, "closed", "alice", LIMIT));
}

#[test]
fn a_flush_under_a_running_cluster_gives_nothing_back() {
    let redis = Redis::start();
    let mut fleet = kept_fleet(&redis);
    let owner = number_of(&spend_700(&fleet, "alice"));
    assert_eq!(redis.ask(&["FLUSHALL"]), "OK");
    // Enough for one raise, which finds out.
    spend_slowly(&fleet, "alice", 50);
    fleet.wait_until(owner, "the flush being noticed, and everything written anew", |cluster| {
        let redis = &cluster["redis"];
        redis["fenced_writes"].as_u64().is_some_and(|writes| writes > 0) && redis["unwritten_ms"].is_null()
    });
    fleet.kill(owner);
    let asked = other_than(owner);
    fleet.wait_until(asked, "the others owning everything", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
    assert_costs_a_chunk_of(spend(&fleet, asked, "closed", "alice", LIMIT), 250);
}

/// Waits until what every node keeps counts in the life of that server.
fn wait_until_durable_in(fleet: &Fleet, redis: &Redis) {
    let life = format!("{}.{}", redis.info("server", "run_id"), redis.info("replication", "master_replid"));
    fleet.wait_until(1, &format!("every node being durable in {life}"), |cluster| {
        let nodes = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        nodes.iter().all(|node| node["state"] != "live" || node["durable"] == life.as_str())
    });
}

/// Makes one follow the other, and waits until it has all of the other's data.
fn follow(replica: &Redis, primary: &Redis) {
    assert_eq!(replica.ask(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]), "OK");
    until("the replica being in step", || match replica.info("replication", "master_link_status").as_str() {
        "up" => Ok(()),
        other => Err(other.to_owned()),
    });
}

/// Makes a replica a primary, and leads nodes there.
fn promote(replica: &Redis, relay: &Relay) {
    assert_eq!(replica.ask(&["REPLICAOF", "NO", "ONE"]), "OK");
    relay.lead_to(replica.port);
}

/// A failover while the primary stands still: what only that one had acknowledged is lost.
fn fail_over(primary: &Redis, replica: &Redis, relay: &Relay) {
    primary.signal("STOP");
    replica.signal("CONT");
    promote(replica, relay);
}

/// A fleet whose primary's replica has stopped listening while alice spent 400 of her 700, and the number of her owner.
fn fleet_with_deaf_replica(primary: &Redis, replica: &Redis, relay: &Relay) -> (Fleet, usize) {
    follow(replica, primary);
    let fleet = kept_fleet_at(&relay.toml());
    assert_eq!(spend(&fleet, 1, "closed", "alice", 300), 300);
    replica.signal("STOP");
    // Acknowledged by the primary alone.
    assert_eq!(spend(&fleet, 1, "closed", "alice", 400), 400);
    let owner = number_of(fleet.check(1, "closed", "alice").body["owner"].as_str().unwrap());
    (fleet, owner)
}

#[test]
fn a_failover_that_loses_what_was_acknowledged_and_the_way_back_give_nothing_back() {
    let (primary, replica) = (Redis::start(), Redis::start());
    let relay = Relay::to(primary.port);
    let (mut fleet, owner) = fleet_with_deaf_replica(&primary, &replica, &relay);
    fail_over(&primary, &replica, &relay);
    wait_until_durable_in(&fleet, &replica);
    // And back: the old primary follows, takes the replica's data, and is promoted again. Its run is the one that it was.
    primary.signal("CONT");
    follow(&primary, &replica);
    promote(&primary, &relay);
    wait_until_durable_in(&fleet, &primary);
    fleet.kill(owner);
    let asked = other_than(owner);
    fleet.wait_until(asked, "the others owning everything", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
    assert_costs_a_chunk_of(spend(&fleet, asked, "closed", "alice", LIMIT), 299);
    assert_eq!(spend(&fleet, asked, "open", "bob", 50), 50);
}

#[test]
fn an_owner_that_dies_right_after_a_failover_leaves_the_worst_case() {
    let (primary, replica) = (Redis::start(), Redis::start());
    let relay = Relay::to(primary.port);
    let (mut fleet, owner) = fleet_with_deaf_replica(&primary, &replica, &relay);
    fleet.kill(owner);
    fail_over(&primary, &replica, &relay);
    let asked = other_than(owner);
    fleet.wait_until(asked, "the others owning everything", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
    // What the replica has says that more was left than there was, and is not believed.
    assert_eq!(spend(&fleet, asked, "closed", "alice", LIMIT), 0);
    primary.signal("CONT");
}

#[test]
fn a_link_that_passes_nothing_is_left_behind_and_refuses_nobody() {
    let redis = Redis::start();
    let relay = Relay::to(redis.port);
    let fleet = kept_fleet_at(&relay.toml());
    assert_eq!(spend(&fleet, 1, "closed", "alice", 100), 100);
    relay.freeze();
    let began = Instant::now();
    fleet.wait_until(1, "the silence being noticed", |cluster| cluster["redis"]["up"] == false);
    assert_eq!(spend(&fleet, 1, "open", "bob", 50), 50);
    fleet.wait_until(1, "a new link", |cluster| cluster["redis"]["up"] == true);
    // On this machine, at this load; what is promised is 2 s from when it was asked in vain.
    println!("a new link {:?} after the old one fell silent", began.elapsed());
    assert_eq!(spend(&fleet, 1, "closed", "alice", 500), 500);
    wait_until_durable(&fleet, 1, 3);
}
