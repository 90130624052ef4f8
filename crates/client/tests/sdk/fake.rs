//! A node that says what a test wants: the real protocol over a real connection, with scripted answers. Each runs on
//! threads of its own, so that killing one ends everything it does, as the end of a process would.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use wire::v1 as proto;
use wire::v1::check_result::Result as ResultKind;
use wire::v1::rate_limiter_server::{RateLimiter, RateLimiterServer};
use wire::v1::{CheckBatchRequest, CheckBatchResponse, CheckError, CheckRequest, CheckResult, Decision};

/// What a fake node does about one check.
#[derive(Clone, Debug)]
pub enum Act {
    /// Answers with this decision.
    Decide(Box<Decision>),
    /// Says that it cannot be put.
    Reject(CheckError),
    /// Answers when the check's time is up, as a node does whose owner is silent.
    DecideLate(Box<Decision>),
    /// Never answers the batch.
    Ignore,
    /// Answers the batch after the next one.
    Swap(Box<Decision>),
    /// Breaks the stream.
    Break,
}

/// What it does about each check.
pub type Script = Arc<dyn Fn(&CheckRequest) -> Act + Send + Sync>;

/// A batch that came in.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the stream's caller showed.
    pub authorization: Option<String>,
    /// What it asked.
    pub checks: Vec<CheckRequest>,
}

/// A running fake node.
pub struct Fake {
    pub address: String,
    runtime: Option<Runtime>,
    service: Service,
}

#[derive(Clone)]
struct Service {
    script: Script,
    /// The only token that it accepts, if it asks for one.
    token: Option<String>,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Streams that are open; changes on every batch too.
    streams: watch::Sender<usize>,
}

/// An allowed decision that repeats the check's cost and names `owner`.
pub fn allowed(check: &CheckRequest, owner: &str) -> Box<Decision> {
    Box::new(Decision {
        allowed: true,
        cost: check.cost.unwrap_or(1),
        reason: "ok".to_owned(),
        source: "owner".to_owned(),
        owner: owner.to_owned(),
        ..Decision::default()
    })
}

impl Fake {
    /// A node that allows everything and calls itself `name`.
    pub fn allowing(name: &'static str) -> Fake {
        Fake::start(move |check| Act::Decide(allowed(check, name)))
    }

    pub fn start(script: impl Fn(&CheckRequest) -> Act + Send + Sync + 'static) -> Fake {
        Fake::start_at("127.0.0.1:0", None, script)
    }

    /// A node that accepts one token only.
    pub fn with_token(token: &str) -> Fake {
        Fake::start_at("127.0.0.1:0", Some(token.to_owned()), |check| Act::Decide(allowed(check, "guarded")))
    }

    pub fn start_at(
        address: &str,
        token: Option<String>,
        script: impl Fn(&CheckRequest) -> Act + Send + Sync + 'static,
    ) -> Fake {
        let (streams, seen) = (watch::Sender::new(0), Arc::default());
        let service = Service { script: Arc::new(script), token, seen, streams };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let socket = listening(address.parse().unwrap());
        let address = socket.local_addr().unwrap().to_string();
        let server = tonic::transport::Server::builder()
            .tcp_nodelay(true)
            .add_service(RateLimiterServer::new(service.clone()).max_decoding_message_size(16 * 1024 * 1024));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(socket).unwrap();
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Fake { address, runtime: Some(runtime), service }
    }

    /// Ends it: its connections break, and its address is free when this returns.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime may not be waited for on a thread of another one.
            std::thread::spawn(|| runtime.shutdown_timeout(std::time::Duration::from_secs(10))).join().unwrap();
        }
    }

    /// The batches that came in so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.service.seen.lock().unwrap().clone()
    }

    /// The checks that came in so far.
    pub fn checks(&self) -> Vec<CheckRequest> {
        self.seen().into_iter().flat_map(|seen| seen.checks).collect()
    }

    /// Waits until this many checks came in.
    pub async fn wait_for_checks(&self, count: usize) {
        let mut changes = self.service.streams.subscribe();
        while self.checks().len() < count {
            changes.changed().await.unwrap();
        }
    }

    /// Waits until this many streams are open.
    pub async fn wait_for_streams(&self, count: usize) {
        let mut streams = self.service.streams.subscribe();
        streams.wait_for(|open| *open == count).await.unwrap();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A node that comes back takes the address of its former life, whose connections may still linger.
fn listening(address: SocketAddr) -> std::net::TcpListener {
    let socket = std::net::TcpListener::bind(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Counts a stream for as long as it lives.
struct Open(watch::Sender<usize>);

impl Open {
    fn count(streams: &watch::Sender<usize>) -> Open {
        streams.send_modify(|open| *open += 1);
        Open(streams.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

type Answers = mpsc::Sender<Result<CheckBatchResponse, Status>>;

impl Service {
    async fn serve(self, authorization: Option<String>, mut batches: Streaming<CheckBatchRequest>, answers: Answers) {
        let _open = Open::count(&self.streams);
        let mut held = None;
        while let Ok(Some(CheckBatchRequest { number, checks })) = batches.message().await {
            let acts: Vec<_> = checks.iter().map(|check| (self.script)(check)).collect();
            let patience = checks.iter().filter_map(|check| check.deadline_ms).max().unwrap_or_default();
            self.seen.lock().unwrap().push(Seen { authorization: authorization.clone(), checks });
            self.streams.send_modify(|_| {});
            if acts.iter().any(|act| matches!(act, Act::Ignore)) {
                continue;
            }
            if acts.iter().any(|act| matches!(act, Act::Break)) {
                let _ = answers.send(Err(Status::internal("scripted"))).await;
                return;
            }
            let late = acts.iter().any(|act| matches!(act, Act::DecideLate(_)));
            let swap = acts.iter().any(|act| matches!(act, Act::Swap(_)));
            let answer = Ok(CheckBatchResponse { number, results: acts.into_iter().map(result).collect() });
            if late {
                let answers = answers.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(patience)).await;
                    let _ = answers.send(answer).await;
                });
            } else if swap && held.is_none() {
                held = Some(answer);
            } else {
                let _ = answers.send(answer).await;
                if let Some(held) = held.take() {
                    let _ = answers.send(held).await;
                }
            }
        }
    }
}

fn result(act: Act) -> CheckResult {
    let result = match act {
        Act::Decide(decision) | Act::DecideLate(decision) | Act::Swap(decision) => ResultKind::Decision(*decision),
        Act::Reject(error) => ResultKind::Error(error),
        Act::Ignore | Act::Break => unreachable!("they have no result"),
    };
    CheckResult { result: Some(result) }
}

#[tonic::async_trait]
impl RateLimiter for Service {
    async fn check(&self, _: Request<CheckRequest>) -> Result<Response<Decision>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn check_batch(&self, _: Request<CheckBatchRequest>) -> Result<Response<CheckBatchResponse>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn peek(&self, _: Request<proto::PeekRequest>) -> Result<Response<Decision>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn reserve(&self, _: Request<proto::ReserveRequest>) -> Result<Response<Decision>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn acquire(&self, _: Request<proto::AcquireRequest>) -> Result<Response<Decision>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn settle(&self, _: Request<proto::SettleRequest>) -> Result<Response<proto::SettleResponse>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn renew(&self, _: Request<proto::RenewRequest>) -> Result<Response<proto::RenewResponse>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn release(&self, _: Request<proto::ReleaseRequest>) -> Result<Response<proto::ReleaseResponse>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn refund(&self, _: Request<proto::RefundRequest>) -> Result<Response<proto::RefundResponse>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    async fn reset(&self, _: Request<proto::ResetRequest>) -> Result<Response<proto::ResetResponse>, Status> {
        Err(Status::unimplemented("fakes answer on streams"))
    }

    type CheckStreamStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<CheckBatchResponse, Status>> + Send + 'static>>;

    async fn check_stream(
        &self,
        request: Request<Streaming<CheckBatchRequest>>,
    ) -> Result<Response<Self::CheckStreamStream>, Status> {
        let shown = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        if let Some(token) = &self.token
            && shown.as_deref() != Some(&format!("Bearer {token}"))
        {
            return Err(Status::unauthenticated("no such token"));
        }
        let (answers, stream) = mpsc::channel(64);
        tokio::spawn(self.clone().serve(shown, request.into_inner(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
