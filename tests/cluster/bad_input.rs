//! Whatever is wrong with a request is answered with a code that names what and where; nothing changes and nothing breaks.

use serde_json::json;

use crate::dev::Dev;
use crate::http;

#[test]
fn every_mistake_in_a_check_is_told_by_code_and_field() {
    let dev = Dev::start();
    let long = format!(r#"{{"attributes":{{"client":"{}"}}}}"#, "x".repeat(10_240));
    let many: serde_json::Map<_, _> = (0..33).map(|number| (format!("a{number}"), json!("x"))).collect();
    let many = json!({ "attributes": many }).to_string();
    for (body, status, code, field) in [
        ("{", 400, "malformed-body", ""),
        ("[]", 400, "malformed-body", ""),
        ("", 400, "malformed-body", ""),
        (r#"{"atributes":{}}"#, 400, "unknown-field", "atributes"),
        (r#"{"attributes":{"client":"a"},"cost":-1}"#, 400, "out-of-range", "cost"),
        (r#"{"attributes":{"client":"a"},"cost":1000000000000000}"#, 400, "out-of-range", "cost"),
        (r#"{"attributes":{"client":"a"},"cost":1.5}"#, 400, "out-of-range", "cost"),
        (r#"{"attributes":{"client":""}}"#, 400, "out-of-range", "attributes.client"),
        (&long, 400, "value-too-long", "attributes.client"),
        (&many, 400, "too-many-attributes", "attributes"),
        (r#"{"domain":"nowhere","attributes":{"client":"a"}}"#, 404, "unknown-domain", "domain"),
    ] {
        let answer = http::post_text(dev.api(1), "/v1/check", "application/json", body);
        let told =
            (answer.status, answer.body["code"].as_str().unwrap_or(""), answer.body["field"].as_str().unwrap_or(""));
        assert_eq!(told, (status, code, field), "{body}: {}", answer.body);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert!(!answer.body["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_cost_of_zero_looks_and_spends_nothing() {
    let dev = Dev::start();
    for _ in 0..100 {
        let answer = http::check_with(dev.api(2), &json!({ "attributes": { "client": "looker" }, "cost": 0 }));
        assert_eq!((answer.status, &answer.body["remaining"]), (200, &json!(20)), "{}", answer.body);
    }
}

#[test]
fn a_missing_attribute_is_denied_by_the_limit_that_counts_by_it() {
    let dev = Dev::start();
    let answer = http::check_with(dev.api(1), &json!({ "attributes": { "user": "u1" } }));
    assert_eq!((answer.status, &answer.body["reason"]), (429, &json!("missing_attribute")), "{}", answer.body);
    assert_eq!(answer.body["limit"], "per-client");
    assert_eq!(answer.header("retry-after"), "", "waiting does not help");
}

#[test]
fn a_cost_that_can_never_fit_says_so_without_a_wait() {
    let dev = Dev::start();
    let answer = http::check_with(dev.api(1), &json!({ "attributes": { "client": "big" }, "cost": 21 }));
    assert_eq!((answer.status, &answer.body["reason"]), (429, &json!("never")), "{}", answer.body);
    assert!(answer.body["type"].as_str().unwrap().ends_with("cost-exceeds-limit"), "{}", answer.body);
    assert_eq!(answer.header("retry-after"), "");
    assert_eq!(http::check(dev.api(1), "big").body["remaining"], 19, "the refusal cost nothing");
}

#[test]
fn a_batch_of_a_thousand_and_one_is_refused_and_a_bad_item_spoils_only_its_place() {
    let dev = Dev::start();
    let batch = |count: usize| json!({ "checks": vec![json!({ "attributes": { "client": "b" }, "cost": 0 }); count] });
    let send = |body: &serde_json::Value| {
        http::post_text(dev.api(1), "/v1/check/batch", "application/json", &body.to_string())
    };
    let answer = send(&batch(1_001));
    assert_eq!((answer.status, &answer.body["code"]), (413, &json!("batch-too-large")));
    assert_eq!(send(&batch(1_000)).body["decisions"].as_array().unwrap().len(), 1_000);
    let mixed = json!({ "checks": [{ "attributes": { "client": "c" } }, { "cost": -1 }, { "domain": "nowhere" }] });
    let answer = send(&mixed);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["decisions"][0]["allowed"], true);
    assert_eq!(answer.body["decisions"][1]["error"]["field"], "checks[1].cost");
    assert_eq!(answer.body["decisions"][2]["error"]["code"], "unknown-domain");
}

#[test]
fn other_paths_methods_and_content_types_are_told_apart() {
    let dev = Dev::start();
    assert_eq!(http::get(dev.api(1), "/v1/nothing").body["code"], "not-found");
    assert_eq!(http::get(dev.api(1), "/v1/check").status, 404);
    let answer = http::post_text(dev.api(1), "/v1/check", "text/plain", "{}");
    assert_eq!((answer.status, &answer.body["code"]), (415, &json!("unsupported-media-type")));
    let large = http::put_policy(dev.admin(1), "default", "*", &"#".repeat(300 * 1024));
    assert_eq!((large.status, &large.body["code"]), (413, &json!("body-too-large")), "{}", large.body);
}

#[test]
fn an_id_answers_again_and_belongs_to_one_question() {
    let dev = Dev::start();
    let ask = |node: usize, cost: u64| {
        let body = json!({ "attributes": { "client": "again" }, "id": "order-17", "cost": cost });
        http::check_with(dev.api(node), &body)
    };
    let first = ask(1, 3);
    assert_eq!((first.status, &first.body["remaining"], &first.body["id"]), (200, &json!(17), &json!("order-17")));
    let second = ask(2, 3);
    assert_eq!((second.status, &second.body["replayed"], &second.body["remaining"]), (200, &json!(true), &json!(17)));
    let other = ask(3, 4);
    assert_eq!((other.status, &other.body["code"]), (400, &json!("id-reused")), "{}", other.body);
}
