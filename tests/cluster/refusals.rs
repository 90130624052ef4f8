//! What cannot go together is told apart by name, and the cluster that stands is not touched by it: a second node of one
//! name, a wrong secret, another cluster, other founders, other settings than genesis has. And what has no quorum says no
//! more than it knows.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http;
use crate::patience::until;
use crate::serve::{Fleet, SECRET, of, question};

/// Exit code of what is mended in the configuration.
const BAD_CONFIG: i32 = 78;

/// What a healthy cluster keeps while others are refused: who is who, and who owns what.
fn standing(fleet: &Fleet) -> (Vec<Value>, Value) {
    let cluster = fleet.cluster(1);
    let nodes = cluster["nodes"].as_array().unwrap().iter();
    let sessions = nodes.map(|node| json!([node["name"], node["id"], node["session"], node["state"]]));
    (sessions.collect(), http::get(&fleet.admin(1), "/v1/cluster/map").body)
}

/// The reasons for which a node has refused peers, or was refused by them, as its events have it.
fn refused_peers(fleet: &Fleet, number: usize) -> Vec<String> {
    let events = http::get(&fleet.admin(number), "/v1/cluster/events?limit=1000").body;
    let events = events["events"].as_array().unwrap_or_else(|| panic!("{events}")).iter();
    let refused = events.filter(|event| event["event"] == "peer_refused");
    refused.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

fn wait_for_refused_peer(fleet: &Fleet, number: usize, reason: &str) {
    until(&format!("n{number} telling of a peer refused for {reason}"), || {
        let seen = refused_peers(fleet, number);
        if seen.iter().any(|seen| seen == reason) { Ok(()) } else { Err(seen) }
    });
}

/// Waits until a node that cannot join says why, and lets nobody in meanwhile.
fn wait_until_unready_for(fleet: &Fleet, number: usize, reason: &str) {
    until(&format!("n{number} being unready for {reason}"), || match fleet.readiness(number) {
        Some((503, why)) if why.contains(reason) => Ok(()),
        seen => Err((seen, fleet.log(number))),
    });
    assert!(TcpStream::connect(fleet.api(number)).is_err(), "nobody is let in");
}

#[test]
fn the_second_node_of_a_name_is_refused_with_the_address_of_the_first() {
    let mut fleet = Fleet::of_three();
    let before = standing(&fleet);
    fleet.tell(4, "node.name", "\"n2\"");
    fleet.start(4);
    assert_eq!(fleet.ended(4), BAD_CONFIG, "{}", fleet.log(4));
    fleet.wait_for_log(4, &["name-in-use", "n2", &fleet.peer(2)]);
    assert_eq!(standing(&fleet), before);
}

#[test]
fn a_node_with_another_secret_stays_outside_and_says_why_on_both_sides() {
    let mut fleet = Fleet::of_three();
    let before = standing(&fleet);
    fleet.write_secret("other", "a secret of somebody else");
    fleet.tell(4, "cluster.secret_file", &format!("{:?}", fleet.path("other")));
    fleet.start(4);
    wait_until_unready_for(&fleet, 4, "wrong-secret");
    wait_for_refused_peer(&fleet, 4, "wrong-secret");
    until("somebody inside telling of it", || {
        let seen: Vec<_> = (1..=3).flat_map(|number| refused_peers(&fleet, number)).collect();
        if seen.iter().any(|reason| reason == "wrong-secret") { Ok(()) } else { Err(seen) }
    });
    assert_eq!(standing(&fleet), before);
    let text = [1, 2, 3, 4].map(|number| fleet.log(number)).concat();
    assert!(!text.contains(SECRET) && !text.contains("somebody else"), "secrets are in no log");
    // With the right one it is let in, as it is.
    fleet.write_secret("other", SECRET);
    fleet.signal(4, "HUP");
    fleet.wait_until_settled(4, 4);
}

#[test]
fn a_secret_that_cannot_be_read_anew_leaves_the_old_one_in_force() {
    let mut fleet = Fleet::of_three();
    fleet.write_secret("secret", "short");
    fleet.signal(2, "HUP");
    let said = fleet.wait_for_log(2, &["cluster.secret_file", "stay in force"]);
    assert!(!said.contains("`short`"), "{said}");
    fleet.kill(3);
    fleet.wait_until(2, "n1 and n2 agreeing on what becomes of n3's partitions", |cluster| {
        of(cluster, "n3", "state") == "expired" && cluster["partitions"]["vacant"] == 0
    });
    // Who starts with it does not start at all.
    fleet.start(3);
    assert_eq!(fleet.ended(3), BAD_CONFIG);
    fleet.wait_for_log(3, &["bad-config", "cluster.secret_file"]);
}

#[test]
fn two_processes_never_share_a_data_directory() {
    let mut fleet = Fleet::of_three();
    let before = standing(&fleet);
    let directory = fleet.path("n1");
    fleet.tell(4, "node.data_dir", &format!("{directory:?}"));
    fleet.start(4);
    let code = fleet.ended(4);
    let log = fleet.log(4);
    assert!(code != 0 && log.contains(&directory.display().to_string()), "{code}: {log}");
    assert_eq!(standing(&fleet), before);
}

#[test]
fn a_node_of_another_cluster_is_refused_whatever_else_is_equal() {
    let mut ours = Fleet::of_three();
    let mut theirs = Fleet::new(1);
    theirs.start(1);
    let other = theirs.wait_until_settled(1, 1)["uuid"].clone();
    theirs.kill(1);
    let before = standing(&ours);
    // The same names and the same secret; only the uuid on its disk is another.
    let seeds = [1, 2, 3].map(|number| ours.peer(number));
    theirs.tell(1, "cluster.seeds", &format!("{seeds:?}"));
    theirs.start(1);
    theirs.wait_for_log(1, &["peer_refused", "wrong-cluster"]);
    wait_for_refused_peer(&theirs, 1, "wrong-cluster");
    until("somebody of the other cluster telling of it", || {
        let seen: Vec<_> = (1..=3).flat_map(|number| refused_peers(&ours, number)).collect();
        if seen.iter().any(|reason| reason == "wrong-cluster") { Ok(()) } else { Err(seen) }
    });
    assert_eq!(standing(&ours), before);
    assert_eq!(theirs.wait_until_settled(1, 1)["uuid"], other, "and goes on as what it was");
    ours.kill(3);
}

#[test]
fn a_node_with_other_founders_is_refused_by_a_cluster_that_stands() {
    let mut fleet = Fleet::of_three();
    let before = standing(&fleet);
    fleet.tell(4, "cluster.founders", r#"["n1", "n2", "n9"]"#);
    fleet.start(4);
    assert_eq!(fleet.ended(4), BAD_CONFIG, "{}", fleet.log(4));
    fleet.wait_for_log(4, &["wrong-founders", "n9"]);
    assert_eq!(standing(&fleet), before);
}

#[test]
fn blank_nodes_with_different_founders_found_nothing_together() {
    let mut fleet = Fleet::new(3);
    // n3 was given another list: n1 can never have all promises, and says by name who stands in the way.
    fleet.tell(3, "cluster.founders", r#"["n1", "n3"]"#);
    fleet.start_all([1, 2, 3]);
    fleet.wait_for_log(1, &["wrong-founders"]);
    for number in 1..=3 {
        if let Some(seen) = http::try_get(&fleet.admin(number), "/v1/cluster") {
            assert_eq!(seen.body["uuid"], "", "nobody has founded anything");
        }
        assert!(TcpStream::connect(fleet.api(number)).is_err(), "nobody is let in");
    }
}

#[test]
fn a_node_that_was_told_another_ttl_than_genesis_holds_does_not_run() {
    let mut fleet = Fleet::of_three();
    let before = fleet.cluster(1);
    fleet.signal(3, "TERM");
    assert_eq!(fleet.ended(3), 0, "{}", fleet.log(3));
    fleet.tell(3, "lease.ttl", "\"5s\"");
    fleet.start(3);
    assert_eq!(fleet.ended(3), BAD_CONFIG, "{}", fleet.log(3));
    fleet.wait_for_log(3, &["bad-config", "lease.ttl is 5s here and 3s in genesis"]);
    let after = fleet.wait_until_settled(1, 2);
    for name in ["n1", "n2"] {
        assert_eq!(of(&after, name, "session"), of(&before, name, "session"), "the others did not notice");
    }
    // As genesis has it, said or unsaid, it runs.
    fleet.tell(3, "lease.ttl", "\"3s\"");
    fleet.start(3);
    fleet.wait_until_settled(3, 3);
}

#[test]
fn a_wiped_node_without_a_quorum_lets_nobody_in_and_so_says_of_no_domain_that_it_is_unknown() {
    let mut fleet = Fleet::of_three();
    (1..=3).for_each(|number| fleet.kill(number));
    fleet.wipe(1);
    fleet.start(1);
    until("n1 saying that it is not ready", || match fleet.readiness(1) {
        Some((503, why)) => Ok(why),
        seen => Err(seen),
    });
    // Nothing happens, and nothing announces that: it is watched for longer than founding three nodes takes.
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let refused = TcpStream::connect(fleet.api(1)).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        std::thread::sleep(Duration::from_millis(10));
    }
    // With the others it joins what there was; from its first answer on it knows the domain.
    fleet.start_all([2, 3]);
    let first = until("an answer of n1", || {
        http::try_post(&fleet.api(1), "/v1/check", &question("open", "first")).ok_or_else(|| fleet.log(1))
    });
    assert_eq!(first.status, 200, "{}", first.body);
    fleet.wait_until_settled(1, 3);
}

#[test]
fn a_node_restarted_without_a_quorum_answers_by_failure_mode() {
    let mut fleet = Fleet::of_three();
    (1..=3).for_each(|number| fleet.kill(number));
    fleet.start(1);
    let ask = |kind: &str| {
        until("an answer of n1", || {
            http::try_post(&fleet.api(1), "/v1/check", &question(kind, "alone")).ok_or_else(|| fleet.log(1))
        })
    };
    let open = ask("open");
    assert_eq!((open.status, &open.body["source"]), (200, &json!("open")), "{}", open.body);
    assert_eq!((&open.body["degraded"], &open.body["revision"]), (&json!(true), &json!(1)));
    let closed = ask("closed");
    assert_eq!((closed.status, &closed.body["reason"]), (503, &json!("unavailable")), "{}", closed.body);
    let nowhere = http::check_with(&fleet.api(1), &json!({ "domain": "nowhere", "attributes": {} }));
    assert_eq!(nowhere.status, 404, "what it does know it says");
}

/// Checks at all nodes in turn, until told to stop: how many, and those that were not answered by an owner.
fn ask_until_told(fleet: &Fleet, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<(usize, Vec<String>)> {
    let (nodes, stop) = ([1, 2, 3].map(|number| fleet.api(number)), Arc::clone(stop));
    std::thread::spawn(move || {
        let (mut asked, mut failed) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let body = question("closed", &format!("client-{}", asked % 50));
            let answer = http::try_post(&nodes[asked % 3], "/v1/check", &body);
            match answer {
                Some(answer) if answer.status == 200 && answer.body["degraded"] == false => {}
                other => failed.push(format!("{other:?}")),
            }
            asked += 1;
        }
        (asked, failed)
    })
}

#[test]
fn the_secret_is_changed_under_checks_and_none_of_them_fails() {
    let mut fleet = Fleet::new(3);
    let second = "the second secret of this fleet";
    for number in 1..=4 {
        fleet.write_secret(&format!("secret-{number}"), SECRET);
        fleet.write_secret(&format!("accept-{number}"), second);
        fleet.tell(number, "cluster.secret_file", &format!("{:?}", fleet.path(&format!("secret-{number}"))));
        fleet.tell(number, "cluster.secret_accept_file", &format!("{:?}", fleet.path(&format!("accept-{number}"))));
    }
    fleet.start_all(1..=3);
    for number in 1..=3 {
        fleet.wait_until_settled(number, 3);
    }

    let stop = Arc::new(AtomicBool::new(false));
    let asking = ask_until_told(&fleet, &stop);
    let mut told = [0; 4];
    let mut tell = |fleet: &Fleet, number: usize, secret: &str, accepted: &str| {
        fleet.write_secret(&format!("secret-{number}"), secret);
        fleet.write_secret(&format!("accept-{number}"), accepted);
        fleet.signal(number, "HUP");
        told[number] += 1;
        let read = |log: &str| log.matches("read anew").count();
        until("the secrets being in force", || {
            let log = fleet.log(number);
            if read(&log) >= told[number] { Ok(()) } else { Err(log) }
        });
    };
    // Every node accepts the second by now; one after the other uses it, and then accepts nothing else.
    for number in 1..=3 {
        tell(&fleet, number, second, SECRET);
    }
    for number in 1..=3 {
        tell(&fleet, number, second, second);
    }
    let before = standing(&fleet);
    // Nothing announces that all goes on: it is watched for longer than any lease lives without being renewed.
    std::thread::sleep(Duration::from_secs(4));
    stop.store(true, Ordering::Relaxed);
    let (asked, failed) = asking.join().unwrap();
    assert!(asked > 100, "the load was there: {asked}");
    assert!(failed.is_empty(), "{} of {asked} checks, the first: {}", failed.len(), failed[0]);
    assert_eq!(standing(&fleet), before);
    for number in 1..=3 {
        assert_eq!(refused_peers(&fleet, number), [""; 0], "nobody was refused by n{number} on the way");
    }

    // The first secret is worth nothing now.
    fleet.tell(4, "cluster.secret_file", &format!("{:?}", fleet.path("secret")));
    fleet.tell(4, "cluster.secret_accept_file", &format!("{:?}", fleet.path("secret")));
    fleet.start(4);
    wait_until_unready_for(&fleet, 4, "wrong-secret");
}

/// Midway, some nodes use the new secret and some the old one. Connections that were there before prove nothing about that,
/// so this makes new ones: of three nodes one is dead, and the other two can only go on together.
#[test]
fn a_node_that_restarts_midway_through_a_change_of_secrets_comes_back() {
    let mut fleet = Fleet::new(3);
    let second = "the second secret of this fleet";
    fleet.write_secret("second", second);
    fleet.tell(0, "cluster.secret_accept_file", &format!("{:?}", fleet.path("second")));
    fleet.start_all(1..=3);
    fleet.wait_until_settled(1, 3);
    (1..=3).for_each(|number| fleet.kill(number));
    // n1 is one step ahead of n3.
    let (ahead, behind) = (format!("{:?}", fleet.path("second")), format!("{:?}", fleet.path("secret")));
    fleet.tell(1, "cluster.secret_file", &ahead);
    fleet.tell(1, "cluster.secret_accept_file", &behind);
    fleet.start_all([1, 3]);
    for number in [1, 3] {
        fleet.wait_until_settled(number, 2);
        assert_eq!(refused_peers(&fleet, number), [""; 0]);
    }
}
