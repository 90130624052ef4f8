//! A policy applied through one node decides on all; a broken one changes nothing.

use serde_json::json;

use crate::dev::Dev;
use crate::http;

fn policy(rate: &str) -> String {
    format!("ringfence: 1\ndomain: default\nlimits: {{ per-client: {{ rate: {rate}, key: [client] }} }}\n")
}

#[test]
fn a_policy_applied_through_one_node_decides_on_all_three_with_its_revision() {
    let dev = Dev::start();
    let applied = http::put_policy(dev.admin(2), "default", "1", &policy("100/min burst 7"));
    assert_eq!((applied.status, &applied.body["revision"]), (200, &json!(2)), "{}", applied.body);
    assert_eq!(applied.body["changes"], json!([{ "limit": "per-client", "change": "keeps" }]));
    for node in 1..=3 {
        let client = format!("client-of-n{node}");
        dev.wait_until(node, "the policy", |_| http::check(dev.api(node), &client).body["revision"] == 2);
        let answer = http::check(dev.api(node), &format!("another-client-of-n{node}"));
        assert_eq!((&answer.body["limits"][0]["capacity"], &answer.body["remaining"]), (&json!(7), &json!(6)));
    }
}

#[test]
fn a_changed_limit_keeps_what_was_used() {
    let dev = Dev::start();
    let spend = json!({ "attributes": { "client": "spender" }, "cost": 20 });
    assert_eq!(http::check_with(dev.api(1), &spend).status, 200);
    // Slow enough that the refill during the test is nothing.
    http::put_policy(dev.admin(1), "default", "*", &policy("30/h burst 30"));
    dev.wait_until(3, "the policy", |_| http::check(dev.api(3), "somebody").body["revision"] == 2);
    let peek = json!({ "attributes": { "client": "spender" }, "cost": 0 });
    let remaining = http::check_with(dev.api(3), &peek).body["remaining"].as_u64().unwrap();
    // The old bucket refilled ten a second until the new revision came; what it still lacked is still used.
    assert!((10..30).contains(&remaining), "{remaining}");
}

#[test]
fn a_broken_policy_is_refused_with_line_and_column_and_the_old_one_stays() {
    let dev = Dev::start();
    let broken =
        "ringfence: 1\ndomain: default\nlimits:\n  per-client: { rate: 10/m, key: [client] }\n  other: { rat: 5/s }\n";
    let refused = http::put_policy(dev.admin(3), "default", "*", broken);
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("policy-invalid")), "{}", refused.body);
    let errors = refused.body["errors"].as_array().unwrap();
    assert_eq!(errors[0]["line"], 4, "{errors:#?}");
    assert!(errors[0]["column"].as_u64().unwrap() > 1);
    assert!(errors.iter().any(|error| error["line"] == 5 && error["suggestion"] == "`rate`"), "{errors:#?}");
    assert_eq!(http::get(dev.admin(1), "/v1/policies/default").body["revision"], 1);
    assert_eq!(http::check(dev.api(1), "unharmed").body["remaining"], 19);
}

#[test]
fn nobody_overwrites_a_revision_unseen() {
    let dev = Dev::start();
    assert_eq!(http::put_policy(dev.admin(1), "default", "1", &policy("11/s")).body["revision"], 2);
    let late = http::put_policy(dev.admin(2), "default", "1", &policy("12/s"));
    assert_eq!((late.status, &late.body["code"]), (412, &json!("revision-conflict")), "{}", late.body);
    let other = http::put_policy(dev.admin(2), "payments", "*", &policy("12/s"));
    assert_eq!((other.status, &other.body["field"]), (400, &json!("domain")), "{}", other.body);
    let history = http::get(dev.admin(1), "/v1/policies/default/history").body;
    let revisions: Vec<_> =
        history["revisions"].as_array().unwrap().iter().map(|one| one["revision"].clone()).collect();
    assert_eq!(revisions, [json!(2), json!(1)]);
}

#[test]
fn a_second_domain_is_a_name_space_of_its_own() {
    let dev = Dev::start();
    let document = policy("1/h").replace("domain: default", "domain: payments");
    assert_eq!(http::put_policy(dev.admin(1), "payments", "0", &document).body["revision"], 1);
    let ask = |domain: &str| {
        let body = json!({ "domain": domain, "attributes": { "client": "both" } });
        http::check_with(dev.api(2), &body)
    };
    dev.wait_until(2, "the domain", |_| ask("payments").status != 404);
    assert_eq!(ask("payments").status, 429, "one an hour, and that was spent above");
    assert_eq!(ask("default").body["remaining"], 19);
}
