//! Calls over gRPC, and the load that the cluster tests put on a cluster: batches on streams, many in flight.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Channel;
use wire::v1::check_result::Result as ResultKind;
use wire::v1::rate_limiter_client::RateLimiterClient;
use wire::v1::{CheckBatchRequest, CheckRequest, CheckResult, Decision};

use crate::dev::Dev;

/// A check of `key` under the limits of `kind`.
pub fn request(kind: &str, key: &str) -> CheckRequest {
    let attributes = [("kind".to_owned(), kind.to_owned()), ("client".to_owned(), key.to_owned())];
    CheckRequest { domain: "test".to_owned(), attributes: attributes.into(), ..CheckRequest::default() }
}

/// The same, by a caller who waits as long as it may: a machine that is busy with other tests answers late, and a late
/// answer is asked for again under the same id.
pub fn patient_request(kind: &str, key: &str) -> CheckRequest {
    CheckRequest { deadline_ms: Some(1_000), ..request(kind, key) }
}

/// A lazy connection to a node's API.
pub fn channel(address: &str) -> Channel {
    Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .connect_lazy()
}

/// The decision of a result; panics on an error.
pub fn decision(result: CheckResult) -> Decision {
    match result.result.unwrap() {
        ResultKind::Decision(decision) => decision,
        ResultKind::Error(error) => panic!("{error:?}"),
    }
}

/// Sends these batches on one stream, `in_flight` at a time, and returns every decision in the order of the questions.
/// Panics if the stream breaks.
pub async fn stream(address: &str, batches: Vec<Vec<CheckRequest>>, in_flight: usize) -> Vec<Decision> {
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    let mut waiting = (0..).zip(batches).map(|(number, checks)| CheckBatchRequest { number, checks });
    let (send, requests) = mpsc::channel(in_flight);
    for batch in waiting.by_ref().take(in_flight) {
        send.send(batch).await.unwrap();
    }
    let mut client = RateLimiterClient::new(channel(address));
    let mut answers = client.check_stream(ReceiverStream::new(requests)).await.unwrap().into_inner();
    let mut decisions = vec![Vec::new(); sizes.len()];
    for _ in 0..sizes.len() {
        let answer = answers.message().await.unwrap().expect("every batch is answered");
        assert_eq!(answer.results.len(), sizes[answer.number as usize], "each batch is answered whole");
        decisions[answer.number as usize] = answer.results.into_iter().map(decision).collect();
        if let Some(batch) = waiting.next() {
            send.send(batch).await.unwrap();
        }
    }
    decisions.concat()
}

#[tokio::test]
async fn a_single_check_over_grpc_has_the_fields_of_json() {
    let dev = Dev::start();
    let mut client = RateLimiterClient::new(channel(dev.api(2)));
    let attributes = [("client".to_owned(), "grpc".to_owned())];
    let check = CheckRequest { attributes: attributes.into(), ..CheckRequest::default() };
    let decision = client.check(check.clone()).await.unwrap().into_inner();
    assert!(decision.allowed);
    assert_eq!((decision.limit.as_str(), decision.remaining), ("per-client", Some(19)));
    assert_eq!((decision.revision, decision.epoch, decision.reason.as_str()), (1, 1, "ok"));
    assert!(["n1", "n2", "n3"].contains(&decision.owner.as_str()), "{decision:?}");
    let denied = client.check(CheckRequest { cost: Some(20), ..check }).await.unwrap().into_inner();
    assert!(!denied.allowed, "a denial is an answer");
    assert!(denied.retry_after_ms.is_some_and(|wait| (1..=100).contains(&wait)), "{denied:?}");
}

#[tokio::test]
async fn a_check_that_cannot_be_put_is_an_error_that_names_the_field() {
    let dev = Dev::start();
    let mut client = RateLimiterClient::new(channel(dev.api(1)));
    let status = client.check(CheckRequest { domain: "nowhere".to_owned(), ..Default::default() }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().starts_with("unknown-domain: domain:"), "{}", status.message());
    let large = CheckRequest { cost: Some(u64::MAX), ..Default::default() };
    let status = client.check(large).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("out-of-range: cost:"), "{}", status.message());
    let many = CheckBatchRequest { number: 1, checks: vec![CheckRequest::default(); 1_001] };
    assert_eq!(client.check_batch(many).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn health_and_reflection_answer_on_the_same_port() {
    let dev = Dev::start();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel(dev.api(3)));
    let request = tonic_health::pb::HealthCheckRequest { service: "ringfence.v1.RateLimiter".to_owned() };
    let answer = health.check(request).await.unwrap().into_inner();
    assert_eq!(answer.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
    assert!(services(dev.api(3)).await.contains(&"ringfence.v1.RateLimiter".to_owned()));
}

async fn services(address: &str) -> Vec<String> {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel(address));
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let response = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = response else { panic!("{response:?}") };
    list.service.into_iter().map(|service| service.name).collect()
}
