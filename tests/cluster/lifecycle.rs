//! How clusters come into being, lose nodes and get them back: real processes that found, crash, lose their disks, leave
//! and return, and always one cluster.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::dev::node;
use crate::http;
use crate::patience::until;
use crate::serve::{Fleet, all_owned, live_nodes, of, question};

/// The roles of all nodes, sorted.
fn roles(cluster: &Value) -> Vec<String> {
    let mut roles: Vec<_> =
        cluster["nodes"].as_array().unwrap().iter().map(|node| node["role"].as_str().unwrap().to_owned()).collect();
    roles.sort();
    roles
}

/// Whether three nodes vote, and no change of that is under way: until one is done, the old voters are needed too.
fn three_vote(cluster: &Value) -> bool {
    roles(cluster) == ["voter"; 3] && cluster["voters"] == json!({ "count": 3, "changing": false })
}

/// The uuids that these nodes see; one, unless something went badly wrong.
fn uuids(fleet: &Fleet, numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    numbers.into_iter().map(|number| fleet.cluster(number)["uuid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_founders_found_one_cluster_that_counts_as_one() {
    let fleet = Fleet::of_three();
    for number in 1..=3 {
        let seen = fleet.wait_until_settled(number, 3);
        assert_eq!((seen["name"].as_str(), seen["this_node"].as_str()), (Some("fleet"), Some(&*format!("n{number}"))));
        assert_eq!(of(&seen, &format!("n{number}"), "api"), fleet.api(number), "where callers reach it");
    }
    assert_eq!(uuids(&fleet, 1..=3).len(), 1);
    let seen = fleet.wait_until(1, "three voters", three_vote);
    assert_eq!(seen["partitions"], json!({ "owned": 4096, "vacant": 0 }));
    let remaining: Vec<_> =
        (1..=3).map(|number| fleet.check(number, "closed", "one").body["remaining"].clone()).collect();
    assert_eq!(remaining, [json!(99_999), json!(99_998), json!(99_997)], "three nodes count one key");
}

#[test]
fn four_blank_nodes_at_once_of_which_three_are_founders_are_one_cluster() {
    let mut fleet = Fleet::new(3);
    // The one that is no founder first: it has nobody to join, and must wait.
    fleet.start_all([4, 3, 2, 1]);
    for number in 1..=4 {
        fleet.wait_until(number, "four nodes that live", |cluster| live_nodes(cluster) == 4 && all_owned(cluster));
        fleet.wait_until_ready(number);
    }
    assert_eq!(uuids(&fleet, 1..=4).len(), 1, "one cluster");
    fleet
        .wait_until(4, "three voters and one more", |cluster| roles(cluster) == ["learner", "voter", "voter", "voter"]);
    assert_eq!(fleet.check(4, "closed", "joined").body["remaining"], 99_999);
    assert_eq!(fleet.check(1, "closed", "joined").body["remaining"], 99_998);
}

#[test]
fn a_node_that_lost_its_disk_comes_back_as_another_and_replaces_the_old_one() {
    let mut fleet = Fleet::of_three();
    let before = fleet.wait_until(1, "three voters", three_vote);
    // The lowest founder, of all nodes: the one that would found a second cluster if anyone did.
    fleet.kill(1);
    fleet.wipe(1);
    fleet.start(1);
    let after = fleet.wait_until(2, "n1 living again, as another", |cluster| {
        node(cluster, "n1").is_some_and(|n1| n1["state"] == "live" && n1["id"] != node(&before, "n1").unwrap()["id"])
    });
    assert_eq!(after["uuid"], before["uuid"]);
    fleet.wait_until(2, "three voters again, the new n1 among them", |cluster| {
        three_vote(cluster) && all_owned(cluster)
    });
    fleet.wait_until_settled(1, 3);
    assert_eq!(uuids(&fleet, 1..=3).len(), 1, "no second cluster");
    // It votes in truth: without n3, n1 and n2 are the majority that takes over.
    fleet.kill(3);
    fleet.wait_until(1, "n3's partitions owned by others", |cluster| {
        node(cluster, "n3").is_some_and(|n3| n3["state"] == "expired") && all_owned(cluster)
    });
}

#[test]
fn two_of_three_restarted_without_the_third_own_everything() {
    let mut fleet = Fleet::of_three();
    let before = fleet.cluster(1);
    (1..=3).for_each(|number| fleet.kill(number));
    fleet.start_all([1, 2]);
    for number in 1..=2 {
        let seen = fleet.wait_until_settled(number, 2);
        assert_eq!((&seen["uuid"], &seen["partitions"]["owned"]), (&before["uuid"], &json!(4096)));
        assert_eq!(of(&seen, "n3", "state"), "expired");
    }
    let answer = fleet.check(1, "open", "after");
    assert_eq!((answer.status, &answer.body["degraded"]), (200, &json!(false)), "{}", answer.body);
}

#[test]
fn a_node_killed_and_restarted_in_place_is_the_same_node_in_another_session() {
    let mut fleet = Fleet::of_three();
    let before = fleet.cluster(1);
    fleet.kill(2);
    fleet.start(2);
    let after = fleet.wait_until(1, "n2 living in another session", |cluster| {
        node(cluster, "n2")
            .is_some_and(|n2| n2["state"] == "live" && n2["session"] != node(&before, "n2").unwrap()["session"])
            && all_owned(cluster)
    });
    assert_eq!(of(&after, "n2", "id"), of(&before, "n2", "id"), "its disk says who it is");
    fleet.wait_until_settled(2, 3);
    let answer = fleet.check(2, "open", "after");
    assert_eq!((answer.status, &answer.body["degraded"]), (200, &json!(false)), "{}", answer.body);
}

#[test]
fn a_node_that_is_asked_to_end_gives_its_partitions_away_and_nobody_waits_for_its_lease() {
    let mut fleet = Fleet::new(3);
    // Long enough that "sooner than a lease" is no matter of a busy machine.
    fleet.tell(0, "lease.ttl", "\"20s\"");
    fleet.start_all(1..=3);
    fleet.wait_until_settled(1, 3);
    let asked = Instant::now();
    fleet.signal(2, "TERM");
    assert_eq!(fleet.ended(2), 0, "{}", fleet.log(2));
    for number in [1, 3] {
        let seen = fleet.wait_until(number, "n2 released and everything owned", |cluster| {
            node(cluster, "n2").is_some_and(|n2| n2["state"] == "released") && all_owned(cluster)
        });
        assert_eq!(live_nodes(&seen), 2);
    }
    assert!(asked.elapsed().as_secs() < 20, "sooner than a lease: {:?}", asked.elapsed());
    fleet.wait_for_log(2, &["released"]);
    // It comes back as who it was.
    fleet.start(2);
    fleet.wait_until_settled(2, 3);
}

/// Whoever asks another node, or the leaving node itself while it still answers, does not notice: no failure mode answers.
#[test]
fn a_planned_exit_fails_no_check_of_an_open_limit() {
    let mut fleet = Fleet::of_three();
    for number in 1..=3 {
        fleet.wait_until_settled(number, 3);
    }
    let stop = AtomicBool::new(false);
    let (nodes, leaves) = ([1, 2, 3].map(|number| fleet.api(number)), 2);
    let asked = [const { AtomicUsize::new(0) }; 3];
    std::thread::scope(|scope| {
        let askers = nodes.iter().zip(&asked).enumerate().map(|(at, (node, asked))| {
            let stop = &stop;
            scope.spawn(move || {
                for client in (0..100).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match http::try_post(node, "/v1/check", &question("open", &format!("client-{client}"))) {
                        Some(answer) => {
                            assert_eq!(
                                (answer.status, &answer.body["degraded"]),
                                (200, &json!(false)),
                                "{}",
                                answer.body
                            );
                            asked.fetch_add(1, Ordering::Relaxed);
                        }
                        // A caller of the node that left asks another.
                        None => assert_eq!(at + 1, leaves, "only n{leaves} goes away"),
                    }
                }
            })
        });
        let askers: Vec<_> = askers.collect();
        let answered = |more: usize| {
            let before = asked.each_ref().map(|asked| asked.load(Ordering::Relaxed));
            until("answers from those that stay", || {
                let now = asked.each_ref().map(|asked| asked.load(Ordering::Relaxed));
                if [0, 2].iter().all(|at| now[*at] >= before[*at] + more) { Ok(()) } else { Err(now) }
            });
        };
        answered(10);
        fleet.signal(leaves, "TERM");
        assert_eq!(fleet.ended(leaves), 0, "{}", fleet.log(leaves));
        fleet.wait_until(1, "everything owned", |cluster| live_nodes(cluster) == 2 && all_owned(cluster));
        answered(10);
        stop.store(true, Ordering::Relaxed);
        askers.into_iter().for_each(|asker| asker.join().unwrap());
    });
}

#[test]
fn a_leader_that_is_asked_to_end_leaves_as_well() {
    let mut fleet = Fleet::of_three();
    let leader = fleet.wait_until(1, "a leader", |cluster| cluster["leader"].is_string())["leader"].clone();
    let leader: usize = leader.as_str().unwrap().trim_start_matches('n').parse().unwrap();
    let other = leader % 3 + 1;
    fleet.signal(leader, "INT");
    assert_eq!(fleet.ended(leader), 0, "{}", fleet.log(leader));
    let name = format!("n{leader}");
    fleet.wait_until(other, "the leader released, another leading, everything owned", |cluster| {
        node(cluster, &name).is_some_and(|node| node["state"] == "released")
            && all_owned(cluster)
            && cluster["leader"].as_str().is_some_and(|leader| leader != name)
    });
}

#[test]
fn a_second_signal_ends_a_node_that_cannot_leave() {
    let mut fleet = Fleet::new(3);
    // Longer than anything here is waited for: what ends before has not waited for it.
    fleet.tell(0, "node.drain_timeout", "\"10min\"");
    fleet.start_all(1..=3);
    fleet.wait_until_settled(2, 3);
    fleet.kill(1);
    fleet.kill(3);
    fleet.signal(2, "TERM");
    fleet.wait_for_log(2, &["asked to end"]);
    until("n2 saying that it leaves", || match fleet.readiness(2) {
        Some((503, why)) if why.contains("leaving") => Ok(()),
        seen => Err(seen),
    });
    fleet.signal(2, "TERM");
    assert_eq!(fleet.ended(2), 128 + 15, "as shells say that a signal ended it: {}", fleet.log(2));
}

#[test]
fn a_cluster_of_which_every_node_is_restarted_is_the_same_cluster_with_its_policies() {
    let mut fleet = Fleet::new(3);
    // With a majority gone, leaving cannot be agreed on; nobody here needs to wait long for that.
    fleet.tell(0, "node.drain_timeout", "\"1s\"");
    fleet.start_all(1..=3);
    let before = fleet.wait_until_settled(1, 3);
    let policy = "ringfence: 1\ndomain: default\nlimits: { closed: { rate: 7/d, key: [client], fail: closed } }\n";
    let applied = http::put_policy(&fleet.admin(2), "default", "1", policy);
    assert_eq!((applied.status, &applied.body["revision"]), (200, &json!(2)), "{}", applied.body);
    // Two are asked to end at the same time, and one crashes.
    fleet.signal(1, "TERM");
    fleet.signal(2, "TERM");
    fleet.kill(3);
    let codes = [fleet.ended(1), fleet.ended(2)];
    assert_eq!(codes, [0; 2], "{}{}", fleet.log(1), fleet.log(2));
    fleet.start_all([3, 2, 1]);
    for number in 1..=3 {
        let seen = fleet.wait_until_settled(number, 3);
        assert_eq!(seen["uuid"], before["uuid"]);
        let policy = http::get(&fleet.admin(number), "/v1/policies/default").body;
        assert_eq!((&policy["revision"], policy["document"].as_str().unwrap().contains("7/d")), (&json!(2), true));
        assert_eq!(fleet.check(number, "any", &format!("by-n{number}")).body["revision"], 2);
    }
}
