//! The keys that are hit and denied most, of the whole cluster, asked of any node: right within the error that is told,
//! denials apart from hits, and whoever is not in the numbers is named.

use serde_json::{Value, json};

use crate::dev::{Dev, node, program};
use crate::http;
use crate::patience::until;
use crate::serve::{Fleet, all_owned};

/// Two limits of the same checks, one that only watches, and one of another kind; nothing of it comes back within a test.
const POLICY: &str = "
ringfence: 1
domain: default
limits:
  clients: { rate: 50/d, algorithm: fixed-window, align: first, key: [client], fail: closed }
  watched: { rate: 3/d, algorithm: fixed-window, align: first, key: [org, client], mode: shadow }
  pairs: { rate: 1000/d, algorithm: fixed-window, align: first, key: [org, user], fail: closed }
rules:
  - { name: pairs, match: { kind: pair }, limits: [pairs] }
  - { name: rest, limits: [clients, watched] }
";

/// Who asks seldom.
const CROWD: usize = 900;

fn check(address: &str, attributes: Value, cost: u64) -> u16 {
    // A caller who waits: what is counted here is what owners say.
    let body = json!({ "attributes": attributes, "cost": cost, "deadline_ms": 1_000 });
    http::check_with(address, &body).status
}

fn top(admin: &str, query: &str) -> Value {
    let answer = http::get(admin, &format!("/v1/keys/top{query}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn keys(told: &Value) -> Vec<(&str, &str, u64, u64)> {
    let number = |key: &Value, name: &str| key[name].as_u64().unwrap_or_else(|| panic!("{key}"));
    let of = told["keys"].as_array().unwrap_or_else(|| panic!("{told}")).iter().map(|key| {
        (key["limit"].as_str().unwrap(), key["key"].as_str().unwrap(), number(key, "count"), number(key, "error"))
    });
    of.collect()
}

/// Whether a key's true count is within what was told of it.
fn is_right(told: &Value, limit: &str, key: &str, truly: u64) {
    let found = keys(told).into_iter().find(|(of, text, ..)| (*of, *text) == (limit, key));
    let (.., count, error) = found.unwrap_or_else(|| panic!("{key} is not told: {told:#}"));
    assert!(truly <= count && count - error <= truly, "{key} has {truly}: {told:#}");
}

#[test]
fn a_heavy_key_among_many_comes_first_from_any_node_with_its_count_within_its_error() {
    let dev = Dev::start_with_policy(POLICY);
    let ask = |number: usize, client: &str, cost| {
        check(dev.api(1 + number % 3), json!({ "client": client, "org": "acme" }), cost)
    };
    // More keys than a sketch has places, so that the sketches must choose; and one of which each node sees a third.
    for number in 0..CROWD {
        assert_eq!(ask(number, &format!("one-of-many-{number}"), 1), 200);
        if number % 30 == 0 {
            assert_eq!(ask(number / 30, "heavy", 1), 200);
        }
    }
    assert_eq!(ask(0, "heavy", 15), 200, "a cost counts as much as it is");
    let heavy = CROWD as u64 / 30 + 15;
    let refused = (0..7).filter(|number| ask(*number, "heavy", 6) == 429).count();
    assert_eq!(refused, 7, "50 a day, and {heavy} are spent");
    assert_eq!(ask(1, "other", 1_000_000_000), 429, "refused once, whatever it would have cost");

    for number in 1..=3 {
        let told = top(dev.admin(number), "?limit=clients&count=5");
        assert_eq!(keys(&told)[0].1, "client=heavy", "{told:#}");
        is_right(&told, "clients", "client=heavy", heavy);
        assert_eq!(told["nodes"], json!(["n1", "n2", "n3"]));
        assert_eq!(told["silent"], json!([]));
        let total = told["limits"][0]["total"].as_u64().unwrap();
        assert_eq!(total, CROWD as u64 + heavy, "of everything, told or not: {told:#}");

        let denied = top(dev.admin(number), "?by=denials&limit=clients");
        assert_eq!(keys(&denied), [("clients", "client=heavy", 7, 0), ("clients", "client=other", 1, 0)]);
    }
    // A limit that only watches tells whom it would have refused, by all its attributes.
    let watched = top(dev.admin(2), "?by=denials&limit=watched");
    assert_eq!(keys(&watched)[0].1, "org=acme client=heavy", "{watched:#}");
}

#[test]
fn keys_of_all_limits_are_told_in_one_order_and_text_does_nothing_odd() {
    let dev = Dev::start_with_policy(POLICY);
    let pair = |number, org: &str, user: &str, cost| {
        check(dev.api(number), json!({ "kind": "pair", "org": org, "user": user }), cost)
    };
    assert_eq!(pair(1, "acme", "u1", 500), 200);
    assert_eq!(pair(2, "acme", "u1", 100), 200);
    assert_eq!(pair(3, "acme user=u1", "\u{1b}[2J", 300), 200);
    assert_eq!(check(dev.api(2), json!({ "client": "alice", "org": "acme" }), 20), 200);
    assert_eq!(pair(2, "acme", "u2", 0), 200, "who only looks hits nothing");
    let peek = json!({ "attributes": { "kind": "pair", "org": "acme", "user": "u3" }, "cost": 9 });
    assert_eq!(http::post_text(dev.api(1), "/v1/peek", "application/json", &peek.to_string()).status, 200);

    let told = top(dev.admin(1), "?domain=default&by=hits");
    let expected = [
        ("pairs", "org=acme user=u1", 600, 0),
        ("pairs", r#"org="acme user=u1" user="\u{1b}[2J""#, 300, 0),
        ("clients", "client=alice", 20, 0),
        ("watched", "org=acme client=alice", 20, 0),
    ];
    assert_eq!(keys(&told)[..3], expected[..3], "{told:#}");
    assert_eq!(keys(&told).len(), 3, "the watcher refused it, and counts a denial: {told:#}");
    assert_eq!(
        told["limits"],
        json!([
            { "limit": "pairs", "total": 900, "absent": 0 }, { "limit": "clients", "total": 20, "absent": 0 },
        ])
    );
    assert!(told["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{told}");

    let first = top(dev.admin(3), "?count=1");
    assert_eq!(keys(&first), expected[..1]);
    assert_eq!(first["limits"][0], json!({ "limit": "pairs", "total": 900, "absent": 300 }), "{first:#}");
}

#[test]
fn a_limit_that_a_new_revision_drops_is_told_no_more_and_the_others_go_on() {
    let dev = Dev::start_with_policy(POLICY);
    assert_eq!(check(dev.api(1), json!({ "client": "alice", "org": "acme" }), 2), 200);
    let without = POLICY
        .lines()
        .filter(|line| !line.contains("pairs"))
        .map(|line| line.replace("[clients, watched]", "[clients]") + "\n")
        .filter(|line| !line.contains("watched"))
        .collect::<String>();
    let applied = http::put_policy(dev.admin(1), "default", "1", &without);
    assert_eq!(applied.status, 200, "{}", applied.body);
    assert_eq!(check(dev.api(1), json!({ "client": "alice", "org": "acme" }), 3), 200);
    until("the new revision's numbers at every node", || {
        let told = top(dev.admin(1), "");
        (keys(&told) == [("clients", "client=alice", 5, 0)]).then_some(()).ok_or(told)
    });
    let gone = http::get(dev.admin(1), "/v1/keys/top?limit=watched");
    assert_eq!((gone.status, &gone.body["code"]), (404, &json!("unknown-limit")), "{}", gone.body);
}

#[test]
fn a_dead_node_is_named_and_so_is_one_whose_end_is_not_known_yet() {
    let mut fleet = Fleet::of_three();
    let admin = fleet.admin(1);
    assert_eq!(fleet.check(3, "closed", "alice").status, 200);
    assert_eq!(fleet.check(1, "closed", "alice").status, 200);
    let told = top(&admin, "");
    assert_eq!(keys(&told), [("closed", "client=alice", 2, 0)], "{told:#}");
    fleet.kill(3);
    let told = top(&admin, "");
    assert_eq!(keys(&told), [("closed", "client=alice", 1, 0)], "what n3 counted is gone with it: {told:#}");
    assert_eq!((&told["nodes"], &told["silent"][0]["node"]), (&json!(["n1", "n2"]), &json!("n3")), "{told:#}");
    fleet.wait_until(1, "n3's end", |cluster| {
        node(cluster, "n3").is_some_and(|n3| n3["state"] == "expired") && all_owned(cluster)
    });
    let told = top(&admin, "");
    assert_eq!(told["silent"], json!([{ "node": "n3", "why": "expired" }]), "{told:#}");

    let output = program().args(["--admin", &admin, "top", "--limit", "closed"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("client=alice") && text.contains("not counted: n3 (expired)"), "{text}");
}

#[test]
fn the_command_prints_a_table_or_json_and_every_parameter_is_checked() {
    let dev = Dev::start_with_policy(POLICY);
    assert_eq!(check(dev.api(2), json!({ "client": "alice", "org": "acme" }), 2), 200);
    let run = |words: &[&str]| program().args(["--admin", dev.admin(1), "top"]).args(words).output().unwrap();
    let told = |words: &[&str]| String::from_utf8(run(words).stdout).unwrap();
    let text = told(&[]);
    assert!(text.lines().any(|line| line.contains("clients") && line.ends_with("client=alice")), "{text}");
    let json: Value = serde_json::from_str(&told(&["--output", "json"])).unwrap();
    assert_eq!((&json["version"], keys(&json["top"])[0].1), (&json!(1), "client=alice"), "{json}");
    assert_eq!(run(&["--limit", "nobody"]).status.code(), Some(1));
    assert_eq!(run(&["--count", "0"]).status.code(), Some(2));

    for (query, status, field) in [
        ("?by=most", 400, "by"),
        ("?count=0", 400, "count"),
        ("?count=257", 400, "count"),
        ("?limit=nobody", 404, "limit"),
        ("?domain=nowhere", 404, "domain"),
        ("?limits=clients", 400, "limits"),
    ] {
        let answer = http::get(dev.admin(1), &format!("/v1/keys/top{query}"));
        assert_eq!((answer.status, &answer.body["field"]), (status, &json!(field)), "{query}: {}", answer.body);
    }
}
