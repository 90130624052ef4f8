//! Who may undo what: a charge is its caller's own, and refunds, resets and limits that come along take scopes of their
//! own, at every door.

use serde_json::{Value, json};
use tonic::{Code, Request};
use wire::v1 as proto;
use wire::v1::rate_limiter_client::RateLimiterClient;

use crate::dev::program;
use crate::grpc::channel;
use crate::http;
use crate::serve::{Fleet, question};

/// The tokens, and what the node is told of them: printf %s TOKEN | sha256sum.
const ONE: &str = "one-that-refunds";
const TWO: &str = "two-that-refunds";
const RESETS: &str = "one-that-resets";
const BRINGS: &str = "one-that-brings";
const TOKENS: &str = r#"[
  { name = "one", sha256 = "9508b65e05174c0b00ddeaee104c4aadd8c5bb16ae2c479937566b866a649128", scopes = ["check", "refund"] },
  { name = "two", sha256 = "978c87bede58e0562845ede24c58001d02a65f1e757cc4fec6e226a7ad0f027b", scopes = ["check", "refund"] },
  { name = "resets", sha256 = "124a766a3af72cdc8702e575fea905f0db9decd4739589e9e11d2d4fa6607504", scopes = ["reset"] },
  { name = "brings", sha256 = "1ead6dedd5f039f2b2b130d715538521b31be8a878143c679e2f7310f1b03a13", scopes = ["check", "inline"] },
]"#;

/// One node that knows these tokens.
fn guarded() -> Fleet {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "auth.tokens", TOKENS);
    fleet.start(1);
    fleet.wait_until_ready(1);
    fleet
}

/// A call about a client of the fleet's closed limit.
fn about(client: &str, more: &Value) -> Value {
    let mut body = question("closed", client);
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn a_charge_can_be_undone_by_nobody_but_its_caller() {
    let fleet = guarded();
    let call =
        |token: &str, path: &str, more: Value| http::post_as(token, &fleet.api(1), path, &about("shared", &more));
    assert_eq!(call(ONE, "/v1/check", json!({ "id": "mine", "cost": 5 })).body["remaining"], 99_995);
    let other = call(TWO, "/v1/refund", json!({ "id": "mine" }));
    assert_eq!((other.status, &other.body["found"]), (200, &json!(false)), "{}", other.body);
    assert_eq!(call(TWO, "/v1/check", json!({ "cost": 0 })).body["remaining"], 99_995, "nothing came back");
    let own = call(ONE, "/v1/refund", json!({ "id": "mine" }));
    assert_eq!((&own.body["found"], &own.body["refunded"]), (&json!(true), &json!(5)), "{}", own.body);
    let reserve = call(ONE, "/v1/reserve", json!({ "id": "call", "cost": 5, "ttl_ms": 60_000 }));
    assert_eq!(reserve.status, 200, "{}", reserve.body);
    let other = call(TWO, "/v1/settle", json!({ "id": "call", "cost": 0 }));
    assert_eq!((other.status, &other.body["code"]), (404, &json!("unknown-reservation")), "{}", other.body);
    assert_eq!(call(ONE, "/v1/settle", json!({ "id": "call", "cost": 0 })).body["refunded"], 5);
}

#[test]
fn refunds_resets_and_limits_that_come_along_take_scopes_of_their_own() {
    let fleet = guarded();
    let inline = json!({ "inline": [{ "name": "own", "rate": "5/s", "key": ["client"] }] });
    for (token, path, more, expected) in [
        (ONE, "/v1/refund", json!({ "id": "x" }), (200, "")),
        (RESETS, "/v1/refund", json!({ "id": "x" }), (403, "forbidden")),
        (BRINGS, "/v1/refund", json!({ "id": "x" }), (403, "forbidden")),
        (RESETS, "/v1/reset", json!({}), (200, "")),
        (ONE, "/v1/reset", json!({}), (403, "forbidden")),
        (RESETS, "/v1/check", json!({}), (403, "forbidden")),
        (RESETS, "/v1/peek", json!({}), (403, "forbidden")),
        (ONE, "/v1/check", inline.clone(), (403, "forbidden")),
        (BRINGS, "/v1/check", inline.clone(), (403, "inline-not-allowed")),
    ] {
        let answer = http::post_as(token, &fleet.api(1), path, &about("scopes", &more));
        let code = answer.body["code"].as_str().unwrap_or("");
        assert_eq!((answer.status, code), expected, "{token} {path}: {}", answer.body);
    }
    // In a batch only the check that brings limits is refused.
    let batch = json!({ "checks": [about("scopes", &inline), about("scopes", &json!({}))] });
    let decisions = http::post_as(ONE, &fleet.api(1), "/v1/check/batch", &batch).body["decisions"].clone();
    assert_eq!(decisions[0]["error"]["code"], "forbidden", "{decisions}");
    assert_eq!(decisions[1]["allowed"], true, "{decisions}");
}

#[tokio::test]
async fn the_same_scopes_are_asked_for_over_grpc() {
    let fleet = guarded();
    let mut client = RateLimiterClient::new(channel(&fleet.api(1)));
    let attributes = [("kind", "closed"), ("client", "grpc")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let refund =
        proto::RefundRequest { attributes: attributes.clone().into(), id: "x".to_owned(), ..Default::default() };
    let reset = proto::ResetRequest { attributes: attributes.into(), ..Default::default() };
    assert_eq!(client.refund(refund.clone()).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(client.refund(by(RESETS, refund.clone())).await.unwrap_err().code(), Code::PermissionDenied);
    assert!(!client.refund(by(ONE, refund)).await.unwrap().into_inner().found);
    assert_eq!(client.reset(by(ONE, reset.clone())).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(client.reset(by(RESETS, reset)).await.unwrap().into_inner().reset, 0);
}

fn by<Message>(token: &str, message: Message) -> Request<Message> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

#[test]
fn commands_show_their_token_for_every_call() {
    let fleet = guarded();
    let run = |token: &str, words: &[&str]| {
        let file = fleet.path("token");
        std::fs::write(&file, token).unwrap();
        let mut command = program();
        let output = command.args(["--api", &fleet.api(1), "--token-file"]).arg(file).args(words).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let reset = ["reset", "kind=closed", "client=cli"];
    assert_eq!(run(RESETS, &reset).0, 0);
    let (code, said) = run(ONE, &reset);
    assert_eq!(code, 1);
    assert!(said.contains("no scope `reset`") && said.contains("ringfence errors forbidden"), "{said}");
    assert_eq!(run(ONE, &["check", "kind=closed", "client=cli", "--id", "a"]).0, 0);
    assert_eq!(run(TWO, &["refund", "kind=closed", "client=cli", "--id", "a"]).0, 1, "another's");
    assert_eq!(run(ONE, &["refund", "kind=closed", "client=cli", "--id", "a"]).0, 0);
}
