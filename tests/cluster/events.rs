//! What happened to a cluster, as its nodes tell it: over the admin API and by `ringfence cluster events`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::dev::{node, program};
use crate::http;
use crate::patience::until;
use crate::serve::{Fleet, POLICY, all_owned};

/// The events of a node after a number, by its admin API.
fn events(fleet: &Fleet, number: usize, after: u64) -> Vec<Value> {
    let body = http::get(&fleet.admin(number), &format!("/v1/cluster/events?after={after}&limit=1000")).body;
    body["events"].as_array().unwrap_or_else(|| panic!("{body}")).clone()
}

/// The place of the first event with this word whose fields are these.
fn place(events: &[Value], word: &str, fields: &[(&str, &str)]) -> usize {
    let fits = |event: &Value| event["event"] == word && fields.iter().all(|(name, value)| event[*name] == **value);
    events.iter().position(fits).unwrap_or_else(|| panic!("no {word} with {fields:?} in {events:#?}"))
}

#[test]
fn a_death_is_told_in_its_order_and_so_is_a_policy() {
    let mut fleet = Fleet::of_three();
    let applied = http::put_policy(&fleet.admin(2), "default", "1", POLICY);
    assert_eq!((applied.status, &applied.body["revision"]), (200, &json!(2)), "{}", applied.body);
    fleet.kill(3);
    fleet.wait_until(1, "n3's partitions owned by others", |cluster| {
        node(cluster, "n3").is_some_and(|n3| n3["state"] == "expired") && all_owned(cluster)
    });
    let seen = events(&fleet, 1, 0);
    let numbers: Vec<_> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "numbered without gaps: {numbers:?}");
    assert!(seen.iter().all(|event| event["at"].as_str().is_some_and(|at| at.ends_with('Z'))), "{seen:#?}");

    let opened = place(&seen, "session_opened", &[("node", "n3")]);
    let policy = place(&seen, "policy_applied", &[("domain", "default"), ("revision", "2")]);
    let expired = place(&seen, "session_expired", &[("node", "n3")]);
    let takeover = place(&seen, "takeover", &[]);
    assert!(opened < policy && policy < expired && expired < takeover, "{seen:#?}");
    let taken = seen.iter().filter(|event| event["event"] == "takeover").map(|event| {
        event["partitions"].as_str().and_then(|count| count.parse::<u32>().ok()).unwrap_or_else(|| panic!("{event}"))
    });
    assert!((1_000..1_700).contains(&taken.sum::<u32>()), "all that was n3's, a third: {seen:#?}");

    // A reader goes on where it was.
    let rest = events(&fleet, 1, seen[expired]["seq"].as_u64().unwrap());
    assert_eq!(rest[0], seen[expired + 1]);
    let first = http::get(&fleet.admin(1), "/v1/cluster/events?limit=2").body;
    assert_eq!((first["events"].as_array().unwrap().len(), &first["next"]), (2, &json!(2)), "{first}");
    for wrong in ["?after=x", "?limit=-1", "?since=3"] {
        let answer = http::get(&fleet.admin(1), &format!("/v1/cluster/events{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.body);
    }
}

#[test]
fn the_command_prints_events_and_follows_them() {
    let mut fleet = Fleet::of_three();
    let admin = fleet.admin(1);
    let run = |words: &[&str]| {
        let output = program().args(["--admin", &admin, "cluster", "events"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (text, json) = (run(&[]), run(&["--output", "json"]));
    assert!(text.contains("session_opened") && text.contains("n3"), "{text}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["events"].as_array().unwrap_or_else(|| panic!("{json}")).len(), text.lines().count(), "{text}");

    let mut follower =
        program().args(["--admin", &admin, "cluster", "events", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    let stdout = BufReader::new(follower.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    fleet.kill(3);
    until("the follower telling of n3's end", || {
        let line = lines.try_iter().find(|line| line.contains("session_expired"));
        line.filter(|line| line.contains("n3")).ok_or("not yet")
    });
    follower.kill().unwrap();
    follower.wait().unwrap();
}
