//! The calls beside a check, each through every door and several nodes: what one node charged another undoes, settles
//! or frees, exactly once, and nothing that only looks costs anything. Limits refill so slowly that no test sees it.

mod doors;
mod permissions;

use serde_json::{Value, json};

use crate::dev::Dev;
use crate::http;
use crate::operations::doors::{Answer, Door, Ran, arguments, run};
use crate::patience::until;

/// Two limits of a check in partitions of their own, and one that counts slots.
const POLICY: &str = "
ringfence: 1
domain: default
limits:
  user: { rate: 1/d burst 20, key: [client], fail: closed }
  org: { rate: 1/d burst 50, key: [org], fail: closed }
  pace: { rate: 20/s burst 1, key: [client], fail: closed }
  jobs: { algorithm: concurrency, slots: 2, ttl: 10min, max_hold: 1h, key: [client], fail: closed }
rules:
  - { name: pace, match: { kind: pace }, limits: [pace] }
  - { name: jobs, match: { kind: job }, limits: [jobs] }
  - { name: spend, limits: [user, org] }
";

fn cluster() -> Dev {
    Dev::start_with_policy(POLICY)
}

/// What a call says of a client in an organisation of its own, beside these fields. Its caller is patient: what is
/// compared here is what owners say.
fn about(client: &str, more: Value) -> Value {
    let attributes = json!({ "client": client, "org": format!("org-of-{client}") });
    with(json!({ "attributes": attributes, "deadline_ms": 1_000 }), own_id(client, more))
}

/// Ids that a test gives are of its client, since an id names one question in a domain; made ones stay as they are.
fn own_id(client: &str, mut more: Value) -> Value {
    if let Some(id) = more["id"].as_str().filter(|id| id.len() < 32) {
        more["id"] = json!(format!("{id} of {client}"));
    }
    more
}

/// The same of a client's jobs.
fn job(client: &str, more: Value) -> Value {
    with(json!({ "attributes": { "client": client, "kind": "job" }, "deadline_ms": 1_000 }), own_id(client, more))
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Tells a story at every door, with a client of the door's own.
fn at_every_door(dev: &Dev, story: impl Fn(&dyn Fn(usize, &str, Value) -> Answer, &str)) {
    for door in Door::ALL {
        let ask = |node: usize, call: &str, body: Value| door.ask(dev.api(node), call, &body);
        story(&ask, &format!("client-{door:?}").to_lowercase());
    }
}

/// What each limit has left.
fn left(answer: &Value) -> Vec<u64> {
    let limits = answer["limits"].as_array().unwrap_or_else(|| panic!("{answer}"));
    limits.iter().map(|limit| limit["remaining"].as_u64().unwrap_or_else(|| panic!("{answer}"))).collect()
}

fn err(word: &str) -> Answer {
    Err(word.to_owned())
}

#[test]
fn a_peek_tells_what_a_check_would_meet_and_spends_nothing() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        for node in 1..=3 {
            let peek = ask(node, "peek", about(client, json!({ "cost": 20 }))).unwrap();
            assert_eq!(peek["allowed"], true, "however often: {peek}");
        }
        let check = ask(1, "check", about(client, json!({ "cost": 15 }))).unwrap();
        assert_eq!((&check["allowed"], left(&check)), (&json!(true), vec![5, 35]), "{check}");
        let peek = ask(2, "peek", about(client, json!({ "cost": 6 }))).unwrap();
        assert_eq!((&peek["allowed"], &peek["limit"]), (&json!(false), &json!("user")), "{peek}");
        assert!(peek["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{peek}");
        let one = ask(3, "peek", about(client, json!({ "cost": 6, "limit": "org" }))).unwrap();
        assert_eq!((&one["allowed"], left(&one).len()), (&json!(true), 1), "only that limit was asked: {one}");
        assert_eq!(ask(3, "peek", about(client, json!({ "limit": "pace" }))), err("unknown-limit"));
        assert_eq!(ask(1, "check", about(client, json!({ "cost": 5 }))).unwrap()["allowed"], true);
    });
    let denied =
        http::post_text(dev.api(1), "/v1/peek", "application/json", &about("x", json!({ "cost": 21 })).to_string());
    assert_eq!(
        (denied.status, &denied.body["reason"]),
        (200, &json!("never")),
        "whoever looks is told: {}",
        denied.body
    );
    assert_eq!(denied.header("retry-after"), "");
    assert!(denied.header("ratelimit").contains("\"user\";r=20"), "{:?}", denied.headers);
}

#[test]
fn a_refund_undoes_one_charge_and_only_once() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        let check = |id: &str, cost: u64| about(client, json!({ "id": id, "cost": cost }));
        assert_eq!(left(&ask(1, "check", check("first", 5)).unwrap()), [15, 45]);
        assert_eq!(left(&ask(2, "check", check("second", 7)).unwrap()), [8, 38]);
        let refund = |node, id: &str| ask(node, "refund", about(client, json!({ "id": id }))).unwrap();
        let undone = refund(3, "first");
        assert_eq!((&undone["found"], &undone["refunded"]), (&json!(true), &json!(5)), "{undone}");
        assert_eq!(
            (left(&undone), &undone["id"]),
            (vec![13, 43], &json!(format!("first of {client}"))),
            "under both limits: {undone}"
        );
        for node in 1..=3 {
            refund(node, "first");
            let nothing = refund(node, "never-charged");
            assert_eq!((&nothing["found"], &nothing["refunded"]), (&json!(false), &json!(0)), "{nothing}");
            assert_eq!(left(&nothing), [13, 43], "however often it is asked for: {nothing}");
        }
        assert_eq!(left(&refund(2, "second")), [20, 50], "the other charge stood until now");
    });
}

#[test]
fn a_refund_that_is_asked_for_again_is_told_the_same_for_a_moment_and_then_that_there_is_nothing() {
    let dev = cluster();
    let ask =
        |node: usize, call: &str, more: Value| Door::Http.ask(dev.api(node), call, &about("again", more)).unwrap();
    ask(1, "check", json!({ "id": "mine", "cost": 5 }));
    let told = ask(2, "refund", json!({ "id": "mine" }));
    let again = ask(3, "refund", json!({ "id": "mine" }));
    for same in ["found", "refunded"] {
        assert_eq!(again[same], told[same], "{again}");
    }
    assert_eq!((told.get("replayed"), &again["replayed"]), (None, &json!(true)), "{again}");
    let nothing = until("the answer being forgotten", || match ask(1, "refund", json!({ "id": "mine" })) {
        answer if answer["found"] == false => Ok(answer),
        answer => Err(answer),
    });
    assert_eq!(left(&nothing), [20, 50]);
}

#[test]
fn a_charge_is_not_undone_by_the_id_that_the_node_made_or_for_another_key() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        let made = ask(1, "check", about(client, json!({ "cost": 5 }))).unwrap();
        let refund = ask(2, "refund", about(client, json!({ "id": made["id"] }))).unwrap();
        assert_eq!((&refund["found"], left(&refund)), (&json!(false), vec![15, 45]), "{refund}");
        ask(1, "check", about(client, json!({ "id": "mine", "cost": 5 }))).unwrap();
        let other = with(about(&format!("not-{client}"), json!({})), json!({ "id": format!("mine of {client}") }));
        let other = ask(2, "refund", other).unwrap();
        assert_eq!(left(&other), [20, 50], "nobody is given what another spent: {other}");
        let own = ask(2, "peek", about(client, json!({}))).unwrap();
        assert_eq!(left(&ask(2, "check", about(client, json!({ "cost": 0 }))).unwrap()), [10, 40], "{own}");
    });
}

#[test]
fn what_was_reserved_and_not_spent_comes_back_when_it_is_settled() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        let reserve = ask(1, "reserve", about(client, json!({ "cost": 15, "ttl_ms": 60_000 }))).unwrap();
        assert_eq!((&reserve["allowed"], left(&reserve)), (&json!(true), vec![5, 35]), "{reserve}");
        let id = reserve["id"].as_str().unwrap().to_owned();
        assert_eq!(
            (id.len(), &reserve["expires_after_ms"]),
            (32, &json!(60_000)),
            "it is told what to settle: {reserve}"
        );
        let settle = |node, cost: u64, debt: bool| {
            let more = if debt { json!({ "debt": true }) } else { json!({}) };
            ask(node, "settle", about(client, with(json!({ "id": id, "cost": cost }), more)))
        };
        assert_eq!(settle(2, 16, false), err("above-reservation"));
        let settled = settle(2, 4, false).unwrap();
        assert_eq!((&settled["settled"], &settled["refunded"]), (&json!(true), &json!(11)), "{settled}");
        assert_eq!(left(&settled), [16, 46], "{settled}");
        assert_eq!(settle(3, 5, false), err("unknown-reservation"), "it is closed");
        let denied = ask(1, "reserve", about(client, json!({ "cost": 17, "ttl_ms": 60_000 }))).unwrap();
        assert_eq!((&denied["allowed"], denied.get("expires_after_ms")), (&json!(false), None), "{denied}");
    });
}

#[test]
fn what_was_spent_above_a_reserve_is_a_debt_for_whoever_says_so() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        ask(1, "reserve", about(client, json!({ "id": "call", "cost": 10, "ttl_ms": 60_000 }))).unwrap();
        let settled = ask(2, "settle", about(client, json!({ "id": "call", "cost": 25, "debt": true }))).unwrap();
        assert_eq!((&settled["settled"], &settled["refunded"]), (&json!(true), &json!(0)), "{settled}");
        assert_eq!(left(&settled), [0, 25], "{settled}");
        let denied = ask(3, "check", about(client, json!({}))).unwrap();
        assert_eq!((&denied["allowed"], &denied["limit"]), (&json!(false), &json!("user")), "{denied}");
    });
}

/// Lets time pass at an owner: a limit that admits one in a twentieth of a second admits the next.
fn let_a_moment_pass(dev: &Dev, client: &str) {
    let pace = json!({ "attributes": { "client": client, "kind": "pace" }, "deadline_ms": 1_000 });
    for _ in 0..2 {
        until("the pace admitting another", || match http::check_with(dev.api(1), &pace).body {
            body if body["allowed"] == true => Ok(()),
            body => Err(body),
        });
    }
}

#[test]
fn a_reserve_that_nobody_settles_stays_spent() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        ask(1, "reserve", about(client, json!({ "id": "crashed", "cost": 15, "ttl_ms": 1 }))).unwrap();
        let_a_moment_pass(&dev, client);
        let late = ask(2, "settle", about(client, json!({ "id": "crashed", "cost": 0 })));
        assert_eq!(late, err("unknown-reservation"));
        let check = ask(3, "check", about(client, json!({ "cost": 0 }))).unwrap();
        assert_eq!(left(&check), [5, 35], "whoever crashed may have spent it all: {check}");
    });
}

#[test]
fn slots_are_held_until_they_are_released() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        let acquire =
            |node, id: &str| ask(node, "acquire", job(client, json!({ "id": id, "ttl_ms": 600_000 }))).unwrap();
        let first = acquire(1, "first");
        assert_eq!(
            (&first["allowed"], left(&first), &first["expires_after_ms"]),
            (&json!(true), vec![1], &json!(600_000))
        );
        assert_eq!(
            (acquire(2, "second")["allowed"].clone(), acquire(3, "third")["allowed"].clone()),
            (json!(true), json!(false))
        );
        assert_eq!(acquire(2, "first")["allowed"], true, "who holds a slot is told so again");
        let release =
            |node, id: &str| ask(node, "release", job(client, json!({ "id": id }))).unwrap()["released"].clone();
        assert_eq!((release(3, "first"), release(2, "nobody")), (json!(true), json!(false)));
        assert_eq!(acquire(1, "fourth")["allowed"], true, "the slot is free");
        assert_eq!(release(2, "second"), true);
        let made = ask(1, "acquire", job(client, json!({}))).unwrap();
        assert_eq!(made["allowed"], true, "{made}");
        assert_eq!(release(3, made["id"].as_str().unwrap()), true, "by the name that it was given");
    });
}

#[test]
fn whoever_crashes_gives_its_slots_back_in_time_and_whoever_renews_keeps_them() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        let acquire = |id: &str| ask(1, "acquire", job(client, json!({ "id": id, "ttl_ms": 300 }))).unwrap();
        let crashed = acquire("crashes");
        assert_eq!((&crashed["allowed"], &crashed["expires_after_ms"]), (&json!(true), &json!(300)), "{crashed}");
        let kept = ask(2, "acquire", job(client, json!({ "id": "renews", "ttl_ms": 500_000 }))).unwrap();
        assert_eq!(kept["allowed"], true);
        until("the slot of who crashed being free", || match acquire("waits") {
            answer if answer["allowed"] == true => Ok(()),
            answer => Err(answer),
        });
        let renew = |id: &str| ask(3, "renew", job(client, json!({ "id": id, "ttl_ms": 600_000 })));
        let renewed = renew("renews").unwrap();
        assert_eq!((&renewed["renewed"], &renewed["expires_after_ms"]), (&json!(true), &json!(600_000)), "{renewed}");
        assert_eq!(renew("crashes"), err("unknown-reservation"), "it has to acquire anew");
    });
}

#[test]
fn what_is_held_no_more_is_not_promised_again() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        let acquire = |id: &str| ask(1, "acquire", job(client, json!({ "id": id, "ttl_ms": 600_000 }))).unwrap();
        acquire("worker");
        assert_eq!(ask(2, "release", job(client, json!({ "id": "worker" }))).unwrap()["released"], true);
        let again = acquire("worker");
        assert_eq!((&again["allowed"], &again["expires_after_ms"]), (&json!(true), &json!(600_000)), "{again}");
        let others = ["second", "third"].map(|id| acquire(id)["allowed"].clone());
        assert_eq!(others, [true, false], "a slot is held by the one who was told so");

        let reserve =
            || ask(3, "reserve", about(client, json!({ "id": "call", "cost": 6, "ttl_ms": 600_000 }))).unwrap();
        reserve();
        ask(1, "settle", about(client, json!({ "id": "call", "cost": 4 }))).unwrap();
        assert_eq!(left(&reserve()), [10, 40], "it is reserved for whoever was told so");
    });
}

#[test]
fn a_reset_makes_a_key_as_one_that_was_never_used() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        ask(1, "check", about(client, json!({ "id": "old", "cost": 20 }))).unwrap();
        let one = ask(2, "reset", about(client, json!({ "limit": "user" }))).unwrap();
        assert_eq!((&one["reset"], left(&one)), (&json!(1), vec![20]), "only that limit: {one}");
        assert_eq!(left(&ask(3, "check", about(client, json!({ "cost": 10 }))).unwrap()), [10, 20]);
        let all = ask(3, "reset", about(client, json!({}))).unwrap();
        assert_eq!((&all["reset"], left(&all)), (&json!(2), vec![20, 50]), "{all}");
        assert_eq!(ask(1, "reset", about(client, json!({}))).unwrap()["reset"], 0, "there is nothing more to forget");
        ask(1, "refund", about(client, json!({ "id": "old" }))).unwrap();
        let after = ask(1, "check", about(client, json!({ "cost": 20 }))).unwrap();
        assert_eq!(left(&after), [0, 30], "what was forgotten is not given back on top: {after}");
        assert_eq!(ask(1, "reset", about(client, json!({ "limit": "jobs" }))), err("unknown-limit"));
    });
}

#[test]
fn who_takes_what_there_is_is_granted_the_rest() {
    let dev = cluster();
    at_every_door(&dev, |ask, client| {
        ask(1, "check", about(client, json!({ "cost": 12 }))).unwrap();
        let rest = ask(2, "check", about(client, json!({ "cost": 30, "up_to": true }))).unwrap();
        assert_eq!((&rest["allowed"], &rest["granted"]), (&json!(true), &json!(8)), "{rest}");
        assert_eq!(
            left(&ask(2, "check", about(client, json!({ "cost": 0 }))).unwrap()),
            [0, 30],
            "no limit is charged for more"
        );
        let none = ask(3, "check", about(client, json!({ "cost": 30, "up_to": true }))).unwrap();
        assert_eq!((&none["allowed"], &none["granted"]), (&json!(false), &json!(0)), "{none}");
        assert!(none["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "until there is one again: {none}");
    });
}

/// A domain in which calls may bring limits, but few of them.
const BRINGS: &str = "
ringfence: 1
domain: brings
inline: { max_rate: 100/d, max_limits: 4, fail: closed }
limits:
  all: { rate: 1/d burst 1_000, key: [] }
";

/// A call in that domain with a limit of its own, which waits for the cluster to learn of it.
fn bringing(client: &str, limit: &str, rate: &str, more: Value) -> Value {
    let inline = json!([{ "name": limit, "rate": rate, "key": ["client"] }]);
    with(
        json!({ "domain": "brings", "attributes": { "client": client }, "inline": inline, "deadline_ms": 1_000 }),
        own_id(client, more),
    )
}

/// Whether a call was put, when a leader that is busy elsewhere may let a new limit's deadline pass.
fn put(ask: &dyn Fn(usize, &str, Value) -> Answer, node: usize, call: &str, body: &Value) -> Answer {
    until("a leader that defines a limit", || match ask(node, call, body.clone()) {
        Err(word) if word == "no-leader" => Err(word),
        answer => Ok(answer),
    })
}

#[test]
fn a_limit_that_comes_with_a_call_is_one_for_the_whole_cluster_until_the_next_revision() {
    let dev = Dev::start_with_policies(&[POLICY.to_owned(), BRINGS.to_owned()]);
    at_every_door(&dev, |ask, client| {
        let own = format!("of-{client}").replace("client-", "");
        let check = |node, rate: &str, more: Value| put(ask, node, "check", &bringing(client, &own, rate, more));
        let first = check(1, "5/d", json!({ "cost": 3, "id": "mine" })).unwrap();
        assert_eq!(
            (&first["allowed"], &first["limit"], &left(&first)[1..]),
            (&json!(true), &json!(own), &[2][..]),
            "{first}"
        );
        let denied = check(2, "5/d", json!({ "cost": 3 })).unwrap();
        assert_eq!(
            (&denied["allowed"], &denied["limit"]),
            (&json!(false), &json!(own)),
            "counted in one place: {denied}"
        );
        let refund = put(ask, 3, "refund", &bringing(client, &own, "5/d", json!({ "id": "mine" }))).unwrap();
        assert_eq!((&refund["refunded"], &left(&refund)[1..]), (&json!(3), &[5][..]), "{refund}");
        for node in 1..=3 {
            assert_eq!(check(node, "6/d", json!({})), err("inline-conflict"), "what came first holds");
            assert_eq!(check(node, "101/d", json!({})), err("out-of-range"), "more than the domain allows");
        }
        let elsewhere = with(bringing(client, &own, "5/d", json!({})), json!({ "domain": "default" }));
        assert_eq!(ask(1, "check", elsewhere), err("inline-not-allowed"));
    });
    // Three doors have defined three limits; the fourth fits, the fifth does not.
    let ask = |node: usize, call: &str, body: Value| Door::Http.ask(dev.api(node), call, &body);
    let check = |node, limit: &str, rate: &str| put(&ask, node, "check", &bringing("anybody", limit, rate, json!({})));
    assert_eq!(check(2, "fourth", "5/d").unwrap()["allowed"], true);
    assert_eq!(check(3, "fifth", "5/d"), err("inline-not-allowed"));
    // The next revision forgets them all, and who comes first defines them anew.
    let answer = http::put_policy(dev.admin(1), "brings", "1", &BRINGS.replace("1_000", "2_000"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let anew = until("the revision binding at n2", || match check(2, "fourth", "6/d") {
        Err(word) if word == "inline-conflict" => Err(word),
        answer => Ok(answer),
    });
    assert_eq!(anew.unwrap()["revision"], 2);
    assert_eq!(check(3, "fourth", "5/d"), err("inline-conflict"));
}

/// A client whose key, under the limit of this kind, the node named `owner` decides.
fn client_of(dev: &Dev, owner: &str) -> String {
    let mut clients = (0..1_000).map(|number| format!("client-{number}"));
    let owned = |client: &String| {
        let peek = Door::Http.ask(dev.api(1), "peek", &about(client, json!({ "limit": "user" }))).unwrap();
        peek["owner"] == owner
    };
    clients.find(owned).expect("each node owns a third")
}

#[test]
fn nobody_answers_for_a_dead_owner_what_only_it_can_know() {
    let mut dev = cluster();
    let client = client_of(&dev, "n2");
    // Two of three dead: nobody can take over, so what follows is not a race against a takeover.
    dev.kill("n2");
    dev.kill("n3");
    let ask = |call: &str, more: Value| {
        http::post_text(dev.api(1), &format!("/v1/{call}"), "application/json", &about(&client, more).to_string())
    };
    for (call, more) in [
        ("settle", json!({ "id": "x", "cost": 1 })),
        ("renew", json!({ "id": "x" })),
        ("release", json!({ "id": "x" })),
        ("refund", json!({ "id": "x" })),
        ("reset", json!({ "limit": "user" })),
        ("reserve", json!({ "cost": 1, "ttl_ms": 1_000 })),
        ("acquire", json!({})),
    ] {
        let answer = ask(call, more.clone());
        assert_eq!((answer.status, &answer.body["reason"]), (503, &json!("unavailable")), "{call}: {}", answer.body);
        assert_eq!(answer.header("retry-after"), "3", "{call}");
        assert!(
            answer.body["type"].as_str().unwrap().ends_with("#temporary-reduced-capacity"),
            "{call}: {}",
            answer.body
        );
        let decides = ["reserve", "acquire"].contains(&call);
        let Ran { exit, out, err } = run(dev.api(1), &arguments(call, &about(&client, more.clone())));
        assert_eq!((exit, out.is_empty()), (if decides { 3 } else { 1 }, !decides), "{call}: {out}{err}");
        let answer = Door::Grpc.ask(dev.api(1), call, &about(&client, more));
        let answer = answer.unwrap_or_else(|word| panic!("{call}: {word}"));
        assert_eq!(answer["reason"], "unavailable", "{call}: {answer}");
    }
    let peek = ask("peek", json!({ "limit": "user" }));
    assert_eq!((peek.status, &peek.body["allowed"]), (200, &json!(false)), "{}", peek.body);
    assert_eq!(
        (&peek.body["reason"], &peek.body["source"]),
        (&json!("unavailable"), &json!("closed")),
        "{}",
        peek.body
    );
}

#[test]
fn commands_say_what_they_did_in_words() {
    let dev = cluster();
    let say = |node: usize, line: &str| run(dev.api(node), &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let story = [
        ("check client=words org=o --cost 8 --id a", 0, "allowed  user: ok, 12 of 20 left, "),
        ("check client=words org=o --cost 30 --up-to", 0, "granted 12 of 30\n"),
        ("peek client=words org=o", 3, "denied  user: limit, 0 of 20 left, again in "),
        ("refund client=words org=o --id a", 0, "refunded: 8 came back\n  user: ok, 8 of 20 left, "),
        ("refund client=words org=o --id a", 0, "refunded: 8 came back, as was told a moment ago\n"),
        ("refund client=words org=o --id b", 1, "no charge to undo under b\n"),
        ("reserve client=words org=o --cost 6 --ttl 2min --id r", 0, "expires in 120000 ms\n"),
        ("settle client=words org=o --id r --cost 4", 0, "settled: 2 came back\n"),
        ("reset client=words org=o --limit user", 0, "reset: 1 limit had anything to forget\n"),
        ("acquire client=words kind=job --id j", 0, "expires in 600000 ms\n"),
        ("renew client=words kind=job --id j --ttl 20min", 0, "renewed: expires in 1200000 ms\n"),
        ("release client=words kind=job --id j", 0, "released\n"),
        ("release client=words kind=job --id k", 1, "nothing is held under k\n"),
    ];
    for ((line, exit, words), node) in story.into_iter().zip([1, 2, 3].into_iter().cycle()) {
        let ran = say(node, line);
        assert_eq!(ran.exit, exit, "{line}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(words), "{line}: {}{}", ran.out, ran.err);
    }
    for (line, word) in [
        ("settle client=words org=o --id none --cost 4", "(unknown-reservation)"),
        ("peek client=words org=o --limit jobs", "(unknown-limit)"),
        ("refund client=words org=o --id a --domain nowhere", "(unknown-domain)"),
    ] {
        let ran = say(1, line);
        assert_eq!((ran.exit, ran.out.as_str()), (1, ""), "{line}");
        assert!(ran.err.contains(word), "{line}: {}", ran.err);
    }
    assert_eq!(say(1, "refund client=words").exit, 2, "a refund is of something");
    assert_eq!(say(1, "reserve client=words --cost 1").exit, 2, "a reserve ends");
}
