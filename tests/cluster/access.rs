//! Who may ask what, on every door: tokens with scopes and domains over HTTP, gRPC and the admin API, and by the
//! program's own commands. Without tokens no other machine reaches the admin port.

use std::path::Path;

use serde_json::{Value, json};
use tonic::{Code, Request, Status};
use wire::v1::rate_limiter_client::RateLimiterClient;
use wire::v1::{CheckBatchRequest, CheckRequest};

use crate::dev::program;
use crate::grpc::channel;
use crate::http::{self, Answer};
use crate::serve::{Fleet, POLICY, question};

/// The tokens, and what the node is told of them: printf %s TOKEN | sha256sum.
const CHECKS: &str = "tester-of-checks";
const READS: &str = "reader-of-everything";
const OPERATES: &str = "admin-of-payments";
const TOKENS: &str = r#"[
  { name = "checks", sha256 = "54421f05638d369774b44eb0c0dfbc021525b19225c2bfd20a1e725e6cbe0e5e", domains = ["default"], scopes = ["check"] },
  { name = "reads", sha256 = "34f02d9b63f3a814adbc14edc59f520c2790703b54f20ab49c1045e70dac7916", scopes = ["read"] },
  { name = "operates", sha256 = "a213976baf6090395b660981fbce07f6c7b46ed55dc68f839c665101efe5181e", domains = ["payments"], scopes = ["check", "read", "admin"] },
]"#;

/// One node that knows these tokens.
fn guarded() -> Fleet {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "auth.tokens", TOKENS);
    fleet.start(1);
    fleet.wait_until_ready(1);
    fleet
}

fn told(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.body["code"].as_str().unwrap_or(""))
}

fn payments() -> String {
    POLICY.replace("domain: default", "domain: payments")
}

#[test]
fn a_public_admin_port_without_tokens_is_refused() {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "admin.listen", "\"0.0.0.0:7602\"");
    fleet.tell(1, "admin.advertise", "\"n1:7602\"");
    fleet.start(1);
    assert_eq!(fleet.ended(1), 78, "{}", fleet.log(1));
    let log = fleet.log(1);
    assert!(log.contains("bad-config") && log.contains("admin.listen") && log.contains("auth.tokens"), "{log}");
}

#[test]
fn without_tokens_everybody_may_check_and_this_machine_may_operate() {
    let mut fleet = Fleet::new(1);
    fleet.start(1);
    fleet.wait_until_ready(1);
    assert_eq!(fleet.check(1, "closed", "anybody").status, 200);
    assert_eq!(http::put_policy(&fleet.admin(1), "payments", "0", &payments()).status, 200);
    assert_eq!(http::get(&fleet.admin(1), "/metrics").status, 200);
    // A token that nobody asked for does no harm.
    assert_eq!(http::check_as("whatever", &fleet.api(1), &question("closed", "anybody")).status, 200);
}

#[test]
fn checks_over_http_need_a_token_with_the_scope_and_the_domain() {
    let fleet = guarded();
    assert_eq!(http::put_policy_as(OPERATES, &fleet.admin(1), "payments", &payments()).status, 200);
    let (here, elsewhere) = (question("closed", "client"), {
        let mut elsewhere = question("closed", "client");
        elsewhere["domain"] = json!("payments");
        elsewhere
    });
    let unknown = fleet.check(1, "closed", "client");
    assert_eq!(told(&unknown), (401, "unauthorised"), "{}", unknown.body);
    assert!(unknown.header("www-authenticate").starts_with("Bearer"), "{:?}", unknown.headers);
    for (token, body, expected) in [
        ("guessed", &here, (401, "unauthorised")),
        (READS, &here, (403, "forbidden")),
        (CHECKS, &elsewhere, (403, "forbidden")),
        (OPERATES, &here, (403, "forbidden")),
        (CHECKS, &here, (200, "")),
        (OPERATES, &elsewhere, (200, "")),
    ] {
        let answer = http::check_as(token, &fleet.api(1), body);
        assert_eq!(told(&answer), expected, "{token}: {}", answer.body);
    }
    // What was refused was not counted.
    assert_eq!(http::check_as(CHECKS, &fleet.api(1), &here).body["remaining"], 99_998);
    let log = fleet.log(1);
    assert!([CHECKS, READS, OPERATES, "guessed"].iter().all(|token| !log.contains(token)), "tokens are in no log");
}

#[test]
fn an_id_belongs_to_the_token_that_brought_it() {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "auth.tokens", &TOKENS.replace(r#"["payments"]"#, r#"["default"]"#));
    fleet.start(1);
    fleet.wait_until_ready(1);
    let mut body = question("closed", "client");
    body["id"] = json!("order-1");
    let remaining = |token: &str| http::check_as(token, &fleet.api(1), &body).body["remaining"].clone();
    let answers = [CHECKS, CHECKS, OPERATES].map(remaining);
    assert_eq!(answers, [json!(99_999), json!(99_999), json!(99_998)], "another caller's id is another id");
}

#[tokio::test]
async fn checks_over_grpc_need_the_same() {
    let fleet = guarded();
    let mut asks = RateLimiterClient::new(channel(&fleet.api(1)));
    let check = CheckRequest {
        attributes: [("kind", "closed"), ("client", "grpc")].map(|(name, value)| (name.into(), value.into())).into(),
        ..CheckRequest::default()
    };
    let shown = |token: &str, check: &CheckRequest| {
        let mut request = Request::new(check.clone());
        if !token.is_empty() {
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        request
    };
    let word = |status: Status| (status.code(), status.message().split(':').next().unwrap().to_owned());
    let elsewhere = CheckRequest { domain: "payments".to_owned(), ..check.clone() };
    for (token, check, code, expected) in [
        ("", &check, Code::Unauthenticated, "unauthorised"),
        ("guessed", &check, Code::Unauthenticated, "unauthorised"),
        (READS, &check, Code::PermissionDenied, "forbidden"),
        (CHECKS, &elsewhere, Code::PermissionDenied, "forbidden"),
    ] {
        let status = asks.check(shown(token, check)).await.unwrap_err();
        assert_eq!(word(status), (code, expected.to_owned()), "{token}");
    }
    assert_eq!(asks.check(shown(CHECKS, &check)).await.unwrap().into_inner().remaining, Some(99_999));

    // A stream is let in once; each of its checks must be of the token's domains all the same.
    let batch = CheckBatchRequest { number: 7, checks: vec![check.clone(), elsewhere] };
    let refused = asks.check_stream(tokio_stream::once(batch.clone())).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    let mut request = Request::new(tokio_stream::once(batch));
    request.metadata_mut().insert("authorization", format!("Bearer {CHECKS}").parse().unwrap());
    let answer = asks.check_stream(request).await.unwrap().into_inner().message().await.unwrap().unwrap();
    let codes: Vec<_> = answer
        .results
        .into_iter()
        .map(|result| match result.result.unwrap() {
            wire::v1::check_result::Result::Decision(decision) => decision.reason,
            wire::v1::check_result::Result::Error(error) => error.code,
        })
        .collect();
    assert_eq!(codes, ["ok", "forbidden"]);

    // Whoever asks for health shows nothing: load balancers have no tokens.
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel(&fleet.api(1)));
    health.check(tonic_health::pb::HealthCheckRequest { service: String::new() }).await.unwrap();
}

#[test]
fn the_admin_api_tells_readers_from_operators() {
    let fleet = guarded();
    let admin = fleet.admin(1);
    for open in ["/livez", "/readyz"] {
        assert_eq!(http::get(&admin, open).status, 200, "{open} needs no token");
    }
    for path in ["/v1/cluster", "/v1/cluster/map", "/v1/cluster/events", "/v1/policies/default", "/metrics"] {
        assert_eq!(told(&http::get(&admin, path)), (401, "unauthorised"), "{path}");
        assert_eq!(told(&http::get_as(CHECKS, &admin, path)), (403, "forbidden"), "{path}");
        assert_eq!(http::get_as(READS, &admin, path).status, 200, "{path}");
    }
    for (token, domain, expected) in [
        (READS, "payments", (403, "forbidden")),
        (CHECKS, "payments", (403, "forbidden")),
        ("guessed", "payments", (401, "unauthorised")),
        (OPERATES, "default", (403, "forbidden")),
        (OPERATES, "payments", (200, "")),
    ] {
        let document = POLICY.replace("domain: default", &format!("domain: {domain}"));
        let answer = http::put_policy_as(token, &admin, domain, &document);
        assert_eq!(told(&answer), expected, "{token} for {domain}: {}", answer.body);
    }
    assert_eq!(told(&http::get_as(OPERATES, &admin, "/v1/policies/default")), (403, "forbidden"), "not its domain");
    let history = http::get_as(READS, &admin, "/v1/policies/payments/history").body;
    assert_eq!(history["revisions"][0]["author"], "operates", "who did it, by the token's name: {history}");
}

#[test]
fn metrics_may_be_left_open() {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "auth.tokens", TOKENS);
    fleet.tell(1, "admin.open_metrics", "true");
    fleet.start(1);
    fleet.wait_until_ready(1);
    assert_eq!(http::get(&fleet.admin(1), "/metrics").status, 200);
    assert_eq!(http::get(&fleet.admin(1), "/v1/cluster").status, 401, "and nothing else is");
}

#[test]
fn the_commands_show_the_token_of_a_file() {
    let fleet = guarded();
    let run = |token: Option<&Path>, words: &[&str]| {
        let mut command = program();
        command.args(["--api", &fleet.api(1), "--admin", &fleet.admin(1)]);
        if let Some(token) = token {
            command.arg("--token-file").arg(token);
        }
        let output = command.args(words).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (checks, reads) = (fleet.path("checks.token"), fleet.path("reads.token"));
    // An editor ends a file with a line end that is no part of the token.
    std::fs::write(&checks, format!("{CHECKS}\n")).unwrap();
    std::fs::write(&reads, READS).unwrap();
    let check = ["check", "kind=closed", "client=cli", "--output", "json"];
    let (code, out, err) = run(Some(&checks), &check);
    assert_eq!(code, 0, "{out}{err}");
    let decision: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(decision["decision"]["remaining"], 99_999);
    for (token, words, word) in [
        (None, &check[..], "unauthorised"),
        (Some(reads.as_path()), &check[..], "forbidden"),
        (Some(checks.as_path()), &["cluster", "status"][..], "forbidden"),
        (None, &["policy", "show"][..], "unauthorised"),
    ] {
        let (code, out, err) = run(token, words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        assert!(err.contains(word), "{words:?}: {err}");
    }
    for words in [
        &["cluster", "status"][..],
        &["cluster", "map"],
        &["cluster", "events"],
        &["policy", "show"],
        &["policy", "history"],
    ] {
        let (code, out, err) = run(Some(&reads), words);
        assert_eq!(code, 0, "{words:?}: {out}{err}");
    }
    assert_eq!(run(None, &["healthcheck"]).0, 0, "which needs none");
    let (code, _, err) = run(Some(&fleet.path("nowhere")), &check);
    assert!(code != 0 && err.contains("nowhere"), "{code}: {err}");
}
