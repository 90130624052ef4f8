//! The way to one node: a bounded queue, and a task that carries what waits in it over one stream. A batch leaves as soon
//! as the previous one has left; no timer holds it back. When the stream breaks, or the node falls silent, everybody who
//! waits is told at once, and the task tries to open another stream, after pauses that grow.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use wire::v1 as proto;
use wire::v1::rate_limiter_client::RateLimiterClient;

use crate::backoff::Backoff;
use crate::batch::{Batch, Fault, Looked, Out, Outgoing, settle};
use crate::builder::{Bounds, Target};
use crate::error::{Trouble, TroubleKind};
use crate::standing::Shared;

/// The largest answer to one batch, in bytes: 1,000 decisions over many limits with long names are smaller.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much of an answer a node may send ahead of what was read, in bytes: a full batch of short decisions.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// How often a connection is probed, and how long the probe may take, so that one whose other end is gone is noticed
/// although nobody asks.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));

/// How long after everything was looked at a task without anything out looks again.
const IDLE: Duration = Duration::from_secs(3_600);

/// Why a check did not even join the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotQueued {
    /// As many wait as may.
    Full,
    /// The client is shut down.
    ShutDown,
}

/// The sending side of a link.
#[derive(Debug)]
pub(crate) struct Link {
    queue: mpsc::Sender<Outgoing>,
}

/// The task of a link.
#[derive(Debug)]
pub(crate) struct Carrier {
    node: Arc<Shared>,
    endpoint: Endpoint,
    token: Option<MetadataValue<Ascii>>,
    connect_timeout: Duration,
    backoff: Backoff,
    batch_max: usize,
    waiting: mpsc::Receiver<Outgoing>,
    late: Trouble,
}

struct Stream {
    outbound: mpsc::Sender<proto::CheckBatchRequest>,
    inbound: Streaming<proto::CheckBatchResponse>,
    /// Dropping the last handle closes the connection.
    _channel: Channel,
}

/// How a stream ended.
struct Ended {
    fault: Fault,
    /// Whether anything was answered on it.
    worked: bool,
}

/// Makes a link and its task, which is to be spawned.
pub(crate) fn link(
    node: Arc<Shared>,
    target: Target,
    token: Option<MetadataValue<Ascii>>,
    bounds: Bounds,
) -> (Link, Carrier) {
    let (queue, waiting) = mpsc::channel(bounds.queue_max);
    let endpoint = target
        .endpoint
        .connect_timeout(bounds.connect_timeout)
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .keep_alive_while_idle(true);
    let late = trouble(&node, TroubleKind::TooLate, "its time was up in the queue");
    let Bounds { connect_timeout, backoff, batch_max, .. } = bounds;
    (Link { queue }, Carrier { node, endpoint, token, connect_timeout, backoff, batch_max, waiting, late })
}

impl Link {
    /// Puts a check into the queue.
    pub(crate) fn send(&self, outgoing: Outgoing) -> Result<(), NotQueued> {
        self.queue.try_send(outgoing).map_err(|error| match error {
            TrySendError::Full(_) => NotQueued::Full,
            TrySendError::Closed(_) => NotQueued::ShutDown,
        })
    }
}

fn trouble(node: &Shared, what: TroubleKind, detail: &str) -> Trouble {
    Trouble { node: Arc::clone(&node.address), what, detail: detail.into() }
}

impl Carrier {
    /// Serves the queue for as long as there is a client; aborting it closes the connection.
    pub(crate) async fn run(mut self) {
        let mut failures = 0;
        loop {
            let fault = match self.open().await {
                Ok(stream) => {
                    self.node.is_reachable();
                    let Some(ended) = self.carry(stream).await else { return };
                    failures = if ended.worked { 0 } else { failures + 1 };
                    ended.fault
                }
                Err(fault) => {
                    failures += 1;
                    fault
                }
            };
            let pause = self.backoff.pause(failures, rand::random());
            if !self.pause(fault, pause).await {
                return;
            }
        }
    }

    /// Opens a stream on a connection of its own: one that broke, or fell silent, is not used again.
    async fn open(&self) -> Result<Stream, Fault> {
        let opening = async {
            let no_connection = |error: tonic::transport::Error| {
                Fault::Trouble(trouble(&self.node, TroubleKind::NoConnection, &in_words(&error)))
            };
            let channel = self.endpoint.connect().await.map_err(no_connection)?;
            let mut client = RateLimiterClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
            let (outbound, batches) = mpsc::channel(1);
            let mut request = Request::new(ReceiverStream::new(batches));
            if let Some(token) = &self.token {
                request.metadata_mut().insert("authorization", token.clone());
            }
            let opened = client.check_stream(request).await;
            let inbound = opened.map_err(|status| self.fault_of(&status, TroubleKind::NoConnection))?.into_inner();
            Ok(Stream { outbound, inbound, _channel: channel })
        };
        let timed_out =
            |_| Fault::Trouble(trouble(&self.node, TroubleKind::NoConnection, "timed out while connecting"));
        tokio::time::timeout(self.connect_timeout, opening).await.map_err(timed_out)?
    }

    /// Serves one stream until it breaks. `None` when there is no client any more.
    async fn carry(&mut self, stream: Stream) -> Option<Ended> {
        let Stream { outbound, mut inbound, _channel } = stream;
        let mut ready: VecDeque<Outgoing> = VecDeque::new();
        let mut arrived = Vec::with_capacity(self.batch_max);
        let mut out = Out::default();
        let mut wake = pin!(tokio::time::sleep(IDLE));
        let fault = loop {
            let now = Instant::now();
            if out.look(now) == Looked::Silent {
                break Fault::Trouble(trouble(&self.node, TroubleKind::Silent, "no answer while its time passed"));
            }
            let leaves_at = out.may_leave_at(now).filter(|_| !ready.is_empty());
            let next = [out.look_at(), leaves_at.filter(|at| *at > now)].into_iter().flatten().min();
            let next = tokio::time::Instant::from_std(next.unwrap_or(now + IDLE));
            // Setting a timer takes a lock, so one that is early enough is left as it is.
            if next < wake.deadline() || wake.is_elapsed() {
                wake.as_mut().reset(next);
            }
            tokio::select! {
                biased;
                answer = inbound.message() => match answer {
                    Ok(Some(answer)) => if let Err(breach) = out.deliver(answer, Instant::now()) {
                        break Fault::Trouble(trouble(&self.node, TroubleKind::StreamBroken, breach));
                    },
                    Ok(None) => {
                        break Fault::Trouble(trouble(&self.node, TroubleKind::StreamBroken, "the node ended it"));
                    }
                    Err(status) => break self.fault_of(&status, TroubleKind::StreamBroken),
                },
                permit = outbound.reserve(), if leaves_at.is_some_and(|at| at <= now) => match permit {
                    Ok(permit) => {
                        self.fill(&mut ready);
                        let now = Instant::now();
                        if let Some(batch) = Batch::take(&mut ready, self.batch_max, now, &self.late) {
                            permit.send(out.depart(batch, now));
                        }
                    }
                    // The stream's own end says why.
                    Err(_) => break match inbound.message().await {
                        Err(status) => self.fault_of(&status, TroubleKind::StreamBroken),
                        Ok(_) => Fault::Trouble(trouble(&self.node, TroubleKind::StreamBroken, "the node ended it")),
                    },
                },
                received = self.waiting.recv_many(&mut arrived, self.batch_max), if ready.is_empty() => {
                    if received == 0 {
                        return None;
                    }
                    ready.extend(arrived.drain(..));
                }
                () = &mut wake => {}
            }
        };
        let worked = out.has_heard();
        ready.into_iter().for_each(|outgoing| settle(outgoing.reply, Err(never_left(&fault))));
        out.fail(&fault);
        Some(Ended { fault, worked })
    }

    /// What came in while the previous batch was leaving goes along.
    fn fill(&mut self, ready: &mut VecDeque<Outgoing>) {
        while ready.len() < self.batch_max
            && let Ok(outgoing) = self.waiting.try_recv()
        {
            ready.push_back(outgoing);
        }
    }

    /// Leaves the node alone for a while, and tells everybody who comes why. False when there is no client any more.
    async fn pause(&mut self, fault: Fault, pause: Duration) -> bool {
        match &fault {
            Fault::Trouble(trouble) => {
                tracing::debug!(%trouble, ?pause, "a node is left alone");
                self.node.is_unreachable(trouble.clone(), Instant::now() + pause);
            }
            Fault::Refused { code, detail } => {
                tracing::debug!(node = &*self.node.address, code, %detail, "a node refuses this caller");
                self.node.is_refusing();
            }
        }
        let fault = never_left(&fault);
        let mut over = pin!(tokio::time::sleep(pause));
        loop {
            tokio::select! {
                biased;
                () = &mut over => return true,
                outgoing = self.waiting.recv() => match outgoing {
                    Some(outgoing) => settle(outgoing.reply, Err(fault.clone())),
                    None => return false,
                },
            }
        }
    }

    /// What a failed call means: most statuses say that the node, or the way to it, is not fit to answer; two say that
    /// it does not answer to this caller.
    fn fault_of(&self, status: &Status, what: TroubleKind) -> Fault {
        let refused = |code| Fault::Refused { code, detail: status.message().into() };
        match status.code() {
            Code::Unauthenticated => refused("unauthorised"),
            Code::PermissionDenied => refused("forbidden"),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::InvalidArgument
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => {
                let detail = match status.source() {
                    Some(source) => format!("{}: {}", status.message(), in_words(source)),
                    None => status.message().to_owned(),
                };
                Fault::Trouble(trouble(&self.node, what, &detail))
            }
        }
    }
}

/// The same fault, as it is for a check that was still in the queue.
fn never_left(fault: &Fault) -> Fault {
    match fault {
        Fault::Trouble(trouble) => Fault::Trouble(Trouble { what: TroubleKind::NoConnection, ..trouble.clone() }),
        Fault::Refused { .. } => fault.clone(),
    }
}

/// An error with what caused it: a transport's own words hardly ever say anything.
fn in_words(error: &dyn Error) -> String {
    let (mut words, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
