//! The Rust SDK of ringfence, in its first form: ask any node of a cluster whether a key may spend, and go on asking when
//! nodes fail. Batches, deadlines, and the same question at another node, charged once.
//!
//! ```no_run
//! use ringfence_client::{Check, CheckError, Client};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Once per process; clones share its connections.
//! let client = Client::builder().nodes(["10.0.0.1:7600", "10.0.0.2:7600", "10.0.0.3:7600"]).build()?;
//!
//! // Once per request.
//! match client.check(Check::new("default").attribute("client", "alice")).await {
//!     Ok(decision) if decision.allowed => println!("go ahead, {:?} left", decision.remaining),
//!     Ok(decision) => println!("{:?} says no, come back in {:?}", decision.limit, decision.retry_after),
//!     Err(CheckError::Rejected { code, field, detail }) => panic!("our own mistake: {code} {field} {detail}"),
//!     Err(no_decision) => println!("decide without ringfence: {no_decision}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Decisions and errors
//!
//! A denial is a [`Decision`]. So is what a limit's failure mode says when the owner of its key does not answer in time:
//! `degraded` is set then, `source` names the mode, and the policy has chosen what that means. A [`CheckError`] means that
//! there is no decision at all: the question could not be put, or nobody could be asked in time. What to do then is up to
//! the caller; this client neither lets through nor refuses on its own.
//!
//! ```
//! use ringfence_client::{Check, CheckError, Client, Source};
//!
//! # use wire::v1::{self as proto, check_result::Result as Kind, rate_limiter_server as server};
//! # struct Node;
//! # fn decide(check: proto::CheckRequest) -> proto::CheckResult {
//! #     let word = String::from;
//! #     let result = match check.domain.as_str() {
//! #         "default" => Kind::Decision(proto::Decision {
//! #             allowed: true, cost: check.cost(), source: word("owner"), owner: word("n1"), ..Default::default()
//! #         }),
//! #         _ => Kind::Error(proto::CheckError { code: word("unknown-domain"), ..Default::default() }),
//! #     };
//! #     proto::CheckResult { result: Some(result) }
//! # }
//! # type Answers = std::pin::Pin<Box<
//! #     dyn tokio_stream::Stream<Item = Result<proto::CheckBatchResponse, tonic::Status>> + Send
//! # >>;
//! # type Asked<T> = tonic::Request<T>;
//! # type Said<T> = Result<tonic::Response<T>, tonic::Status>;
//! # #[tonic::async_trait]
//! # impl server::RateLimiter for Node {
//! #     type CheckStreamStream = Answers;
//! #     async fn check_stream(
//! #         &self, request: tonic::Request<tonic::Streaming<proto::CheckBatchRequest>>,
//! #     ) -> Result<tonic::Response<Answers>, tonic::Status> {
//! #         Ok(tonic::Response::new(Box::pin(tokio_stream::StreamExt::map(request.into_inner(), |batch| {
//! #             let proto::CheckBatchRequest { number, checks } = batch?;
//! #             Ok(proto::CheckBatchResponse { number, results: checks.into_iter().map(decide).collect() })
//! #         }))))
//! #     }
//! #     // The client asks on streams.
//! #     async fn check(&self, _: Asked<proto::CheckRequest>) -> Said<proto::Decision> { unimplemented!() }
//! #     async fn check_batch(&self, _: Asked<proto::CheckBatchRequest>) -> Said<proto::CheckBatchResponse> { unimplemented!() }
//! #     async fn peek(&self, _: Asked<proto::PeekRequest>) -> Said<proto::Decision> { unimplemented!() }
//! #     async fn reserve(&self, _: Asked<proto::ReserveRequest>) -> Said<proto::Decision> { unimplemented!() }
//! #     async fn settle(&self, _: Asked<proto::SettleRequest>) -> Said<proto::SettleResponse> { unimplemented!() }
//! #     async fn acquire(&self, _: Asked<proto::AcquireRequest>) -> Said<proto::Decision> { unimplemented!() }
//! #     async fn renew(&self, _: Asked<proto::RenewRequest>) -> Said<proto::RenewResponse> { unimplemented!() }
//! #     async fn release(&self, _: Asked<proto::ReleaseRequest>) -> Said<proto::ReleaseResponse> { unimplemented!() }
//! #     async fn refund(&self, _: Asked<proto::RefundRequest>) -> Said<proto::RefundResponse> { unimplemented!() }
//! #     async fn reset(&self, _: Asked<proto::ResetRequest>) -> Said<proto::ResetResponse> { unimplemented!() }
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let address = socket.local_addr()?.to_string();
//! # let node = tonic::transport::Server::builder().add_service(server::RateLimiterServer::new(Node));
//! # tokio::spawn(node.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(socket)));
//! let client = Client::builder().nodes([address]).build()?;
//!
//! let checks = [Check::new("default").attribute("client", "alice").cost(3), Check::new("nowhere")];
//! let mut results = client.check_all(checks).await.into_iter();
//!
//! let decision = results.next().unwrap()?;
//! assert!(decision.allowed && !decision.degraded);
//! assert_eq!((decision.cost, decision.source, decision.owner.as_deref()), (3, Source::Owner, Some("n1")));
//!
//! let error = results.next().unwrap().unwrap_err();
//! assert!(matches!(&error, CheckError::Rejected { code, .. } if code == "unknown-domain"));
//! assert!(!error.may_have_spent());
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! - **One stream per node.** What is asked while the previous batch is being written leaves together as the next one; no
//!   timer holds a check back. (Only while a node owes many answers, as it does when an owner is silent, are batches spaced
//!   out, so that they do not take all places on the stream within a moment.)
//! - **A deadline for every check**, 250 ms unless given. Nodes are told what is left of it, less the answer's way home.
//! - **The same question elsewhere.** When a stream breaks, a connection is refused, or a node says nothing at all while
//!   its share of the time passes, the check goes to the next node of the list, under the same id and a higher attempt, so
//!   that it is charged once. Only transport errors are retried: a decision is an answer whatever it says, and what could
//!   not be put is the same mistake everywhere.
//! - **Nodes that failed are left alone** for pauses that grow, and tried again in the background, where no check pays for
//!   it. [`Client::nodes`] tells how they stand.
//! - **Everything has a bound**: checks under way, checks in a batch, batches without an answer, attempts, the time to
//!   connect. Each is a constant of this crate or a method of [`Builder`].
//!
//! # What it does not do yet
//!
//! It does not know which node owns which key, so two of three checks take one hop more than they need. It has no cache of
//! denials, no failure mode of its own for when no node answers, no layer for `tower`, no TLS, and it finds no nodes that
//! it was not given.

mod asking;
mod backoff;
mod batch;
mod builder;
mod check;
mod client;
mod decision;
mod error;
mod link;
mod standing;

pub use builder::{
    BATCH_DEFAULT, BATCH_MAX, Builder, CONNECT_TIMEOUT_DEFAULT, DEADLINE_DEFAULT, DEADLINE_MAX, NODES_MAX,
    QUEUE_DEFAULT, QUEUE_MAX,
};
pub use check::Check;
pub use client::{CHECK_BYTES_MAX, Client};
pub use decision::{Decision, LimitDecision, Mode, Reason, Source};
pub use error::{CheckError, ConfigError, Trouble, TroubleKind};
pub use standing::{NodeStanding, NodeState};
