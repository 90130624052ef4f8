//! The doors of a real node, a cluster of one in memory: who is let in, what is told, and what a caller may see.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::{SocketAddr, TcpListener as PeerListener, UdpSocket};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, IF_MATCH, WWW_AUTHENTICATE};
use node::config::{Advertise, Bounds, Config, Founding, Given, PeerSockets, Place};
use node::secret::{ClusterSecret, Secrets};
use ownership::lease::Terms;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tonic::transport::Channel;
use tower::ServiceExt as _;
use wire::v1 as proto;
use wire::v1::rate_limiter_client::RateLimiterClient;

use super::*;
use crate::access::{Domains, Scope, Token};
use crate::door::Peer;

/// How long anything may take that a node does by itself, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);

const POLICIES: [&str; 2] = [
    "ringfence: 1\ndomain: default\nlimits:\n  per-client: { rate: 2/h, algorithm: sliding-log, key: [client] }\n",
    "ringfence: 1\ndomain: payments\nlimits:\n  per-client: { rate: 2/h, algorithm: sliding-log, key: [client] }\n",
];

const NEAR: &str = "127.0.0.1:4000";
const FAR: &str = "192.0.2.7:4000";

async fn node() -> Arc<Node> {
    let tcp = PeerListener::bind("127.0.0.1:0").unwrap();
    let peer = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(peer).unwrap();
    let config = Config {
        name: "n1".to_owned(),
        data: Place::Memory,
        peer: PeerSockets { tcp, udp },
        advertise: Advertise { peer: peer.to_string(), api: "127.0.0.1:1".to_owned(), admin: "127.0.0.1:2".to_owned() },
        seeds: Vec::new(),
        secrets: Secrets::new(ClusterSecret::new(&[9; 32]).unwrap()),
        founding: Founding {
            name: "doors".to_owned(),
            founders: vec!["n1".to_owned()],
            terms: Terms::DEFAULT,
            partitions: Default::default(),
            given: Given::ALL,
            policies: POLICIES.map(str::to_owned).to_vec(),
        },
        bounds: Bounds::default(),
        store: None,
    };
    let node = Node::start(config).await.unwrap();
    tokio::time::timeout(PATIENCE, node.settled()).await.unwrap();
    node
}

fn token(name: &str, domains: Domains, scopes: &[Scope]) -> Token {
    let sha256 = Sha256::digest(format!("token-of-{name}")).into();
    Token { name: name.to_owned(), sha256, domains, scopes: scopes.iter().copied().collect() }
}

fn access() -> Access {
    let only_default = Domains::Only(vec!["default".to_owned()]);
    Access::of(vec![
        token("gateway", only_default.clone(), &[Scope::Check]),
        token("other", Domains::All, &[Scope::Check]),
        token("reader", only_default.clone(), &[Scope::Read]),
        token("operator", only_default, &[Scope::Read, Scope::Admin]),
    ])
}

async fn front(access: Access) -> Front {
    let (meter, access) = (Arc::new(Meter::default()), Arc::new(access));
    Front { node: node().await, meter, access, open_metrics: false, proxies: Arc::default() }
}

struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    text: String,
}

impl Answer {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn code(&self) -> (u16, String) {
        (self.status.as_u16(), self.body()["code"].as_str().unwrap_or("").to_owned())
    }
}

struct Call<'a> {
    method: &'a str,
    path: &'a str,
    token: Option<&'a str>,
    peer: &'a str,
    body: String,
}

fn get_of<'a>(path: &'a str, token: Option<&'a str>) -> Call<'a> {
    Call { method: "GET", path, token, peer: NEAR, body: String::new() }
}

fn post<'a>(path: &'a str, token: Option<&'a str>, body: &Value) -> Call<'a> {
    Call { method: "POST", path, token, peer: NEAR, body: body.to_string() }
}

impl Call<'_> {
    async fn at(self, router: Router) -> Answer {
        let mut request =
            Request::builder().method(self.method).uri(self.path).header(CONTENT_TYPE, "application/json");
        if let Some(token) = self.token {
            request = request.header(AUTHORIZATION, format!("Bearer token-of-{token}"));
        }
        if self.method == "PUT" {
            request = request.header(IF_MATCH, "*");
        }
        let peer: SocketAddr = self.peer.parse().unwrap();
        let request = request.extension(Peer(peer)).body(Body::from(self.body)).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    async fn at_api(self, front: &Front) -> Answer {
        self.at(api_router(front.clone()).0).await
    }

    async fn at_admin(self, front: &Front) -> Answer {
        self.at(admin_router(front.clone())).await
    }
}

fn alice(domain: &str) -> Value {
    json!({ "domain": domain, "attributes": { "client": "alice" } })
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_the_api_answers_all_and_the_admin_port_its_own_host() {
    let front = front(Access::open()).await;
    let far = |call: Call<'static>| Call { peer: FAR, ..call };
    let answer = far(post("/v1/check", None, &alice("default"))).at_api(&front).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    for path in ["/v1/cluster", "/v1/cluster/map", "/v1/cluster/events", "/v1/policies/default", "/metrics"] {
        assert_eq!(get_of(path, None).at_admin(&front).await.status, StatusCode::OK, "{path}");
        assert_eq!(far(get_of(path, None)).at_admin(&front).await.code(), (403, "forbidden".to_owned()), "{path}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(far(get_of(path, None)).at_admin(&front).await.status, StatusCode::OK, "{path}");
    }
    let open = Front { open_metrics: true, ..front };
    assert_eq!(far(get_of("/metrics", None)).at_admin(&open).await.status, StatusCode::OK);
    open.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_each_call_needs_its_scope_and_its_domain() {
    let front = front(access()).await;
    for (token, domain, expected) in [
        (None, "default", (401, "unauthorised")),
        (Some("nobody"), "default", (401, "unauthorised")),
        (Some("reader"), "default", (403, "forbidden")),
        (Some("gateway"), "payments", (403, "forbidden")),
        (Some("gateway"), "no-such-domain", (403, "forbidden")),
        (Some("other"), "no-such-domain", (404, "unknown-domain")),
        (Some("gateway"), "default", (200, "")),
    ] {
        let answer = post("/v1/check", token, &alice(domain)).at_api(&front).await;
        let (status, code) = answer.code();
        assert_eq!((status, code.as_str()), expected, "{token:?} {domain}: {}", answer.text);
        let challenge = answer.headers.get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
        assert_eq!(challenge, (status == 401).then_some("Bearer"), "{token:?} {domain}");
    }
    let put = |token, domain: &'static str| Call {
        method: "PUT",
        path: if domain == "default" { "/v1/policies/default" } else { "/v1/policies/payments" },
        token,
        peer: NEAR,
        body: POLICIES[usize::from(domain != "default")].to_owned(),
    };
    for (call, expected) in [
        (get_of("/v1/policies/default", Some("reader")), 200),
        (get_of("/v1/policies/payments", Some("reader")), 403),
        (get_of("/v1/policies/default/history", Some("gateway")), 403),
        (get_of("/v1/cluster", Some("reader")), 200),
        (get_of("/v1/cluster/events", Some("gateway")), 403),
        (get_of("/v1/cluster/map", None), 401),
        (get_of("/metrics", None), 401),
        (get_of("/metrics", Some("reader")), 200),
        (get_of("/livez", None), 200),
        (get_of("/readyz", None), 200),
        (put(Some("reader"), "default"), 403),
        (put(Some("operator"), "payments"), 403),
        (put(Some("operator"), "default"), 200),
    ] {
        let (path, token) = (call.path.to_owned(), call.token.map(str::to_owned));
        let answer = call.at_admin(&front).await;
        assert_eq!(answer.status.as_u16(), expected, "{path} {token:?}: {}", answer.text);
    }
    let policy = front.node.policy("default").unwrap();
    assert_eq!((policy.revision, policy.author.as_str()), (2, "operator"), "the token's name stands for an author");
    let metrics = get_of("/metrics", Some("reader")).at_admin(&front).await.text;
    for line in [
        r#"ringfence_auth_total{token="gateway",result="ok"} 3"#,
        r#"ringfence_auth_total{token="gateway",result="forbidden"} 4"#,
        r#"ringfence_auth_total{token="_none",result="unknown"} 1"#,
        r#"ringfence_policy_apply_total{result="applied"} 1"#,
        r#"ringfence_policy_apply_total{result="refused"} 2"#,
        r#"ringfence_checks_total{api="http_check",code="401"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    front.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_only_the_checks_of_foreign_domains_are_refused() {
    let front = front(access()).await;
    let body = json!({ "checks": [alice("default"), alice("payments"), alice("default")] });
    let answer = post("/v1/check/batch", Some("gateway"), &body).at_api(&front).await;
    assert_eq!(answer.status, StatusCode::OK);
    let decisions = &answer.body()["decisions"];
    assert_eq!(decisions[0]["allowed"], true);
    assert_eq!(decisions[1]["error"]["code"], "forbidden");
    assert_eq!(decisions[1]["error"]["field"], "checks[1].domain");
    assert_eq!(decisions[2]["allowed"], true);
    front.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_a_caller_s_own_is_its_token_s_own() {
    let front = front(access()).await;
    let body = json!({ "attributes": { "client": "ann" }, "id": "order-7" });
    let ask = async |token| post("/v1/check", Some(token), &body).at_api(&front).await.body();
    assert_eq!(ask("gateway").await["remaining"], 1);
    assert_eq!(ask("gateway").await["replayed"], true);
    let other = ask("other").await;
    assert_eq!((other.get("replayed"), &other["remaining"]), (None, &json!(0)), "another caller's is another id");
    front.node.stop().await;
}

/// A call about a charge that there is not.
fn about(path: &str) -> Value {
    let attributes = json!({ "client": "alice" });
    match path {
        "/v1/reset" => json!({ "attributes": attributes }),
        _ => json!({ "attributes": attributes, "id": "none" }),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_refunds_and_resets_are_for_this_host() {
    let front = front(Access::open()).await;
    for (path, near, far) in [("/v1/refund", 200, 403), ("/v1/reset", 200, 403), ("/v1/release", 200, 200)] {
        let body = about(path);
        let answer = post(path, None, &body).at_api(&front).await;
        assert_eq!(answer.status.as_u16(), near, "{path}: {}", answer.text);
        let answer = Call { peer: FAR, ..post(path, None, &body) }.at_api(&front).await;
        assert_eq!(answer.status.as_u16(), far, "{path}: {}", answer.text);
    }
    let peek = json!({ "attributes": { "client": "alice" } });
    assert_eq!(Call { peer: FAR, ..post("/v1/peek", None, &peek) }.at_api(&front).await.status, StatusCode::OK);
    let metrics = get_of("/metrics", None).at_admin(&front).await.text;
    for line in [
        r#"ringfence_checks_total{api="http_refund",code="403"} 1"#,
        r#"ringfence_checks_total{api="http_peek",code="200"} 1"#,
        r#"ringfence_call_results_total{call="refund",result="nothing"} 1"#,
        r#"ringfence_call_results_total{call="release",result="nothing"} 2"#,
        r#"ringfence_call_results_total{call="refund",result="done"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    front.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_scope_implies_another() {
    let tokens = [("checks", Scope::Check), ("refunds", Scope::Refund), ("resets", Scope::Reset)];
    let front = front(Access::of(tokens.map(|(name, scope)| token(name, Domains::All, &[scope])).to_vec())).await;
    for (path, good) in
        [("/v1/peek", "checks"), ("/v1/release", "checks"), ("/v1/refund", "refunds"), ("/v1/reset", "resets")]
    {
        let body = if path == "/v1/peek" { json!({}) } else { about(path) };
        for (token, _) in tokens {
            let answer = post(path, Some(token), &body).at_api(&front).await;
            let expected = if token == good { 200 } else { 403 };
            assert_eq!(answer.status.as_u16(), expected, "{path} by {token}: {}", answer.text);
        }
        assert_eq!(post(path, None, &body).at_api(&front).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    front.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_read_page_by_page_and_from_the_start_after_a_restart() {
    let front = front(Access::open()).await;
    let read = async |query: &str| {
        let path = format!("/v1/cluster/events{query}");
        let answer = Call { method: "GET", path: &path, token: None, peer: NEAR, body: String::new() };
        answer.at_admin(&front).await
    };
    let all = read("").await.body();
    let events = all["events"].as_array().unwrap();
    let words: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    for word in ["cluster_founded", "session_opened", "map_published", "policy_applied"] {
        assert!(words.contains(&word), "{word} is not among {words:?}");
    }
    let last = events.last().unwrap()["seq"].as_u64().unwrap();
    assert_eq!((events[0]["seq"].as_u64(), all["next"].as_u64()), (Some(1), Some(last)));
    assert!(events[0]["at"].as_str().unwrap().ends_with('Z'));
    let page = read("?after=1&limit=2").await.body();
    let seqs: Vec<_> = page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!((seqs, page["next"].as_u64()), (vec![2, 3], Some(3)));
    let none = read(&format!("?after={last}")).await.body();
    assert_eq!((none["events"].as_array().unwrap().len(), none["next"].as_u64()), (0, Some(last)));
    // Whoever has read further than there is read another life of this node.
    assert_eq!(read(&format!("?after={}", last + 1_000)).await.body()["events"][0]["seq"], 1);
    for (query, code) in [("?after=-1", "out-of-range"), ("?limit=x", "out-of-range"), ("?since=1", "unknown-field")] {
        assert_eq!(read(query).await.code(), (400, code.to_owned()), "{query}");
    }
    front.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ttl_is_set_by_operators_and_refused_where_no_lease_can_be_so_short() {
    let front = front(access()).await;
    let put = |token, body: Value| {
        let path = "/v1/cluster/lease";
        Call { method: "PUT", path, token: Some(token), peer: NEAR, body: body.to_string() }
    };
    assert_eq!(put("reader", json!({"ttl_ms": 4_000})).at_admin(&front).await.code().0, 403);
    let wrong = [json!({"ttl_ms": 1_000}), json!({"ttl_ms": 61_000})];
    for body in wrong {
        assert_eq!(put("operator", body).at_admin(&front).await.code(), (400, "out-of-range".to_owned()));
    }
    for body in [json!({"ttl": "4s"}), json!({}), json!(4)] {
        assert_eq!(put("operator", body).at_admin(&front).await.code(), (400, "malformed-body".to_owned()));
    }
    let set = put("operator", json!({"ttl_ms": 4_000})).at_admin(&front).await;
    assert_eq!((set.status, &set.body()["ttl_ms"]), (StatusCode::OK, &json!(4_000)));
    let cluster = get_of("/v1/cluster", Some("operator")).at_admin(&front).await.body();
    let lease = json!({"ttl_ms": 4_000, "waited_ms": 4_000, "renew_ms": 500, "d_max_ms": 250, "rho_per_mille": 10});
    assert_eq!(cluster["lease"], lease);
    front.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_tells_its_clock_and_who_leaves() {
    let front = front(Access::open()).await;
    let before = get_of("/v1/cluster", None).at_admin(&front).await.body();
    assert_eq!((&before["draining"], &before["unready"]), (&json!(false), &Value::Null));
    let later = get_of("/v1/cluster", None).at_admin(&front).await.body();
    let boot = |body: &Value| body["clock"]["boot_ns"].as_u64().unwrap();
    assert!(boot(&later) > boot(&before));
    assert!(before["clock"]["wall_unix_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert!(["trusted", "weak"].contains(&before["clock"]["trust"].as_str().unwrap()));
    assert!(!before["clock"]["source"].as_str().unwrap().is_empty());
    assert_eq!((&before["n_max"], &before["lenders"]), (&json!(1), &json!([])));
    front.node.leave(Duration::from_secs(5)).await;
    let leaving = get_of("/v1/cluster", None).at_admin(&front).await.body();
    assert_eq!((&leaving["draining"], &leaving["unready"]), (&json!(true), &json!("this node is leaving")));
    assert_eq!(get_of("/readyz", None).at_admin(&front).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get_of("/livez", None).at_admin(&front).await.status, StatusCode::OK);
    front.node.stop().await;
}

fn any_door() -> Door {
    Door::bind("127.0.0.1:0".parse().unwrap()).unwrap()
}

fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer token-of-{token}").parse().unwrap());
    request
}

fn check_of(domain: &str) -> proto::CheckRequest {
    let attributes = [("client".to_owned(), "alice".to_owned())].into();
    proto::CheckRequest { domain: domain.to_owned(), attributes, ..proto::CheckRequest::default() }
}

fn batch_of(domains: &[&str]) -> proto::CheckBatchRequest {
    proto::CheckBatchRequest { number: 7, checks: domains.iter().map(|domain| check_of(domain)).collect() }
}

fn codes(response: &proto::CheckBatchResponse) -> Vec<&str> {
    let results = response.results.iter().map(|result| match result.result.as_ref().unwrap() {
        proto::check_result::Result::Decision(_) => "decided",
        proto::check_result::Result::Error(error) => error.code.as_str(),
    });
    results.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc_the_same_tokens_open_the_same_doors() {
    let node = node().await;
    let sockets = Sockets { api: any_door(), admin: any_door() };
    let address = sockets.api.local_addr().unwrap();
    let settings = Settings { access: access(), open_metrics: false, proxies: Proxies::default() };
    let serving = tokio::spawn(serve(Arc::clone(&node), sockets, settings));
    let channel = tokio::time::timeout(PATIENCE, async {
        loop {
            match Channel::from_shared(format!("http://{address}")).unwrap().connect().await {
                Ok(channel) => break channel,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    let channel = channel.await.unwrap();
    let mut client = RateLimiterClient::new(channel.clone());

    let refused = client.check(check_of("default")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    assert!(refused.message().starts_with("unauthorised: "), "{}", refused.message());
    let refused = client.check(with_token(check_of("payments"), "gateway")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(refused.message().starts_with("forbidden: domain: "), "{}", refused.message());
    let refused = client.check(with_token(check_of("default"), "reader")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(client.check(with_token(check_of("default"), "gateway")).await.unwrap().into_inner().allowed);

    let mixed = ["default", "payments"];
    let batch = client.check_batch(with_token(batch_of(&mixed), "gateway")).await.unwrap().into_inner();
    assert_eq!(codes(&batch), ["decided", "forbidden"]);
    assert_eq!(client.check_batch(batch_of(&mixed)).await.unwrap_err().code(), tonic::Code::Unauthenticated);

    let stream = tokio_stream::once(batch_of(&mixed));
    let mut answers = client.check_stream(with_token(stream, "gateway")).await.unwrap().into_inner();
    assert_eq!(codes(&answers.message().await.unwrap().unwrap()), ["decided", "forbidden"]);
    let refused = client.check_stream(tokio_stream::once(batch_of(&mixed))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);

    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    let service = <RateLimiterServer<Grpc> as NamedService>::NAME.to_owned();
    let request = tonic_health::pb::HealthCheckRequest { service };
    let mut watched = health.watch(request).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status, ServingStatus::Serving as i32, "it needs no token");
    let leaving = Arc::clone(&node);
    let left = tokio::spawn(async move { leaving.leave(Duration::from_secs(5)).await });
    let told = tokio::time::timeout(PATIENCE, watched.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(told.status, ServingStatus::NotServing as i32, "whoever leaves says so");
    left.await.unwrap();
    serving.abort();
    node.stop().await;
}
