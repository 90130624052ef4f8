//! Plans, overrides, calendars and prefixes, as callers of any node meet them: which numbers a check goes by, and what its
//! answer says of them.

use serde_json::{Value, json};

use crate::dev::Dev;
use crate::http::{self, Answer};

/// Periods so long that nothing comes back during a test.
const POLICY: &str = r#"
ringfence: 1
domain: default
plans:
  default: { quota: 5/year calendar }
  pro: { quota: 50/300d, by-plan: 7/300d }
limits:
  quota: { rate: $plan, key: [org] }
  by-plan: { rate: $plan, key: [client], missing: deny }
  network: { rate: 3/300d, key: [ip], ipv6_prefix: 56 }
rules:
  - { name: network, match: { kind: network }, limits: [network] }
  - { name: by-plan, match: { kind: strict }, limits: [by-plan] }
  - { name: quota, limits: [quota] }
overrides:
  - { limit: quota, key: { org: acme }, rate: 900/300d, until: 2400-01-01, reason: "launch week" }
  - { limit: quota, key: { org: umbrella }, rate: 900/300d, until: 2001-01-01, reason: "long over" }
"#;

fn start() -> Dev {
    let dev = Dev::start_with_policy(POLICY);
    for node in 1..=3 {
        dev.wait_until(node, "the policy", |_| ask(&dev, node, json!({ "org": "warm-up" })).body["revision"] == 1);
    }
    dev
}

fn ask(dev: &Dev, node: usize, attributes: Value) -> Answer {
    http::check_with(dev.api(node), &json!({ "attributes": attributes, "deadline_ms": 1_000 }))
}

fn capacity(answer: &Answer) -> u64 {
    answer.body["limits"][0]["capacity"].as_u64().unwrap_or_else(|| panic!("{}", answer.body))
}

#[test]
fn every_node_goes_by_the_plan_of_the_check_and_advertises_its_numbers() {
    let dev = start();
    for node in 1..=3 {
        let org = format!("org-{node}");
        let pro = ask(&dev, node, json!({ "org": org, "plan": "pro" }));
        assert_eq!((capacity(&pro), &pro.body["remaining"]), (50, &json!(49)), "{}", pro.body);
        let window = 300 * 86_400;
        assert_eq!(pro.header("ratelimit-policy"), format!(r#""quota";q=50;w={window}"#));
        let other = ask(&dev, node, json!({ "org": format!("other-{node}"), "plan": "gold" }));
        assert_eq!((capacity(&other), &other.body["remaining"]), (5, &json!(4)), "by default: {}", other.body);
        assert_eq!(other.header("ratelimit-policy"), r#""quota";q=5"#, "a year of the calendar has no one length");
    }
}

#[test]
fn a_key_keeps_what_it_used_when_its_plan_changes() {
    let dev = start();
    let spend = |node, plan: &str| ask(&dev, node, json!({ "org": "mover", "plan": plan })).body["remaining"].clone();
    assert_eq!([spend(1, "pro"), spend(2, "pro"), spend(3, "pro")], [json!(49), json!(48), json!(47)]);
    assert_eq!(spend(1, "none"), json!(1), "three of five, and this one");
    assert_eq!(spend(2, "pro"), json!(45));
}

#[test]
fn an_override_holds_for_its_key_until_its_time_is_up() {
    let dev = start();
    for node in 1..=3 {
        assert_eq!(capacity(&ask(&dev, node, json!({ "org": "acme" }))), 900, "n{node}");
        let over = |_: &Value| capacity(&ask(&dev, node, json!({ "org": "umbrella" }))) == 5;
        dev.wait_until(node, "cluster time, by which the other override is over", over);
    }
}

#[test]
fn without_a_default_a_check_lacks_its_plan() {
    let dev = start();
    let known = ask(&dev, 1, json!({ "kind": "strict", "client": "c", "plan": "pro" }));
    assert_eq!((known.status, capacity(&known)), (200, 7));
    for attributes in
        [json!({ "kind": "strict", "client": "c" }), json!({ "kind": "strict", "client": "c", "plan": "Pro" })]
    {
        let answer = ask(&dev, 2, attributes);
        assert_eq!((answer.status, &answer.body["reason"]), (429, &json!("missing_attribute")), "{}", answer.body);
        assert_eq!(answer.header("ratelimit-policy"), "", "nobody knows which numbers it would be");
    }
}

#[test]
fn addresses_of_one_prefix_share_a_count_whichever_node_is_asked() {
    let dev = start();
    let from = |node, ip: &str| ask(&dev, node, json!({ "kind": "network", "ip": ip })).status;
    let one_56 = [(1, "2001:db8:0:10::1"), (2, "2001:db8:0:11::1"), (3, "2001:db8:0:1f::9"), (1, "2001:db8:0:12::1")];
    assert_eq!(one_56.map(|(node, ip)| from(node, ip)), [200, 200, 200, 429]);
    assert_eq!(from(2, "2001:db8:0:100::1"), 200, "the next /56");
    let one_ipv4 = [(1, "192.0.2.1"), (2, "::ffff:192.0.2.1"), (3, "::ffff:c000:201"), (1, "192.0.2.1")];
    assert_eq!(one_ipv4.map(|(node, ip)| from(node, ip)), [200, 200, 200, 429]);
    assert_eq!(from(2, "192.0.2.2"), 200);
}
