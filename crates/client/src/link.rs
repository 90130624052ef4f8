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
    /// What was taken from the queue and could not leave yet, the oldest first.
    ready: VecDeque<Outgoing>,
    /// From so many on, those that nobody waits for any more are thrown out. Fewer are still wanted: callers give up
    /// their places when they go.
    ready_max: usize,
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
    let Bounds { connect_timeout, backoff, batch_max, queue_max, .. } = bounds;
    let (ready, ready_max) = (VecDeque::new(), 2 * queue_max);
    let carrier =
        Carrier { node, endpoint, token, connect_timeout, backoff, batch_max, waiting, ready, ready_max, late };
    (Link { queue }, carrier)
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
            let Some(opened) = self.open().await else { return };
            let fault = match opened {
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

    /// Opens a stream, and takes in what comes meanwhile. `None` when there is no client any more.
    async fn open(&mut self) -> Option<Result<Stream, Fault>> {
        let opening = stream(self.endpoint.clone(), self.token.clone(), Arc::clone(&self.node));
        let mut opening = pin!(tokio::time::timeout(self.connect_timeout, opening));
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => {
                    let timed_out = || trouble(&self.node, TroubleKind::NoConnection, "timed out while connecting");
                    return Some(opened.unwrap_or_else(|_| Err(Fault::Trouble(timed_out()))));
                }
                outgoing = self.waiting.recv() => self.take_in(outgoing?),
            }
        }
    }

    fn take_in(&mut self, outgoing: Outgoing) {
        if self.ready.len() >= self.ready_max {
            self.ready.retain(|outgoing| !outgoing.reply.is_closed());
        }
        self.ready.push_back(outgoing);
    }

    /// Serves one stream until it breaks. `None` when there is no client any more.
    async fn carry(&mut self, stream: Stream) -> Option<Ended> {
        let Stream { outbound, mut inbound, _channel } = stream;
        let mut out = Out::default();
        let mut arrived = Vec::with_capacity(self.batch_max);
        let mut wake = pin!(tokio::time::sleep(IDLE));
        let fault = loop {
            let now = Instant::now();
            if out.look(now) == Looked::Silent {
                break Fault::Trouble(trouble(&self.node, TroubleKind::Silent, "no answer while its time passed"));
            }
            let leaves_at = out.may_leave_at(now).filter(|_| !self.ready.is_empty());
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
                    Ok(None) => break ended_by_node(&self.node),
                    Err(status) => break fault_of(&status, &self.node, TroubleKind::StreamBroken),
                },
                permit = outbound.reserve(), if leaves_at.is_some_and(|at| at <= now) => match permit {
                    Ok(permit) => if let Some(batch) = self.next_batch() {
                        permit.send(out.depart(batch, Instant::now()));
                    },
                    // The other half of the stream says why.
                    Err(_) => break match inbound.message().await {
                        Err(status) => fault_of(&status, &self.node, TroubleKind::StreamBroken),
                        Ok(_) => ended_by_node(&self.node),
                    },
                },
                received = self.waiting.recv_many(&mut arrived, self.batch_max) => {
                    if received == 0 {
                        return None;
                    }
                    arrived.drain(..).for_each(|outgoing| self.take_in(outgoing));
                }
                () = &mut wake => {}
            }
        };
        let worked = out.has_heard();
        out.fail(&fault);
        Some(Ended { fault, worked })
    }

    /// What came in while the previous batch was leaving goes along.
    fn next_batch(&mut self) -> Option<Batch> {
        while self.ready.len() < self.batch_max
            && let Ok(outgoing) = self.waiting.try_recv()
        {
            self.take_in(outgoing);
        }
        Batch::take(&mut self.ready, self.batch_max, Instant::now(), &self.late)
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
        self.ready.drain(..).for_each(|outgoing| settle(outgoing.reply, Err(fault.clone())));
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
}

/// Opens a stream on a connection of its own: one that broke, or fell silent, is not used again.
async fn stream(endpoint: Endpoint, token: Option<MetadataValue<Ascii>>, node: Arc<Shared>) -> Result<Stream, Fault> {
    let no_connection =
        |error: tonic::transport::Error| Fault::Trouble(trouble(&node, TroubleKind::NoConnection, &in_words(&error)));
    let channel = endpoint.connect().await.map_err(no_connection)?;
    let mut client = RateLimiterClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
    let (outbound, batches) = mpsc::channel(1);
    let mut request = Request::new(ReceiverStream::new(batches));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    let opened = client.check_stream(request).await;
    let inbound = opened.map_err(|status| fault_of(&status, &node, TroubleKind::NoConnection))?.into_inner();
    Ok(Stream { outbound, inbound, _channel: channel })
}

fn ended_by_node(node: &Shared) -> Fault {
    Fault::Trouble(trouble(node, TroubleKind::StreamBroken, "the node ended it"))
}

/// What a failed call means: most statuses say that the node, or the way to it, is not fit to answer; two say that
/// it does not answer to this caller.
fn fault_of(status: &Status, node: &Shared, what: TroubleKind) -> Fault {
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
            Fault::Trouble(trouble(node, what, &detail))
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

#[cfg(test)]
mod tests {
    use tokio::sync::{oneshot, watch};

    use super::*;
    use crate::builder::DEADLINE_DEFAULT;

    /// A link to nowhere, whose task is not running.
    fn idle(queue_max: usize) -> (Link, Carrier) {
        let node = Arc::new(Shared::new("a:1".into(), Instant::now(), watch::Sender::new(())));
        let target = Target { address: "a:1".into(), endpoint: Endpoint::from_static("http://a:1") };
        let bounds = Bounds {
            deadline: DEADLINE_DEFAULT,
            batch_max: 10,
            queue_max,
            connect_timeout: DEADLINE_DEFAULT,
            backoff: Backoff::DEFAULT,
        };
        link(node, target, None, bounds)
    }

    fn outgoing(reply: oneshot::Sender<crate::batch::Outcome>) -> Outgoing {
        let soon = Instant::now() + DEADLINE_DEFAULT;
        Outgoing { request: proto::CheckRequest::default(), answer_by: soon, silent_at: soon, reply }
    }

    #[test]
    fn checks_that_nobody_waits_for_do_not_pile_up_while_the_node_cannot_take_any() {
        let (_link, mut carrier) = idle(10);
        let (kept, _waiting) = oneshot::channel();
        carrier.take_in(outgoing(kept));
        for _ in 0..1_000 {
            carrier.take_in(outgoing(oneshot::channel().0));
        }
        assert!(carrier.ready.len() <= 20, "{}", carrier.ready.len());
        assert!(!carrier.ready[0].reply.is_closed(), "who still waits is kept, and first");
    }

    #[test]
    fn a_queue_that_is_full_says_so_and_so_does_one_whose_task_is_gone() {
        let (link, carrier) = idle(1);
        assert_eq!(link.send(outgoing(oneshot::channel().0)), Ok(()));
        assert_eq!(link.send(outgoing(oneshot::channel().0)), Err(NotQueued::Full));
        drop(carrier);
        assert_eq!(link.send(outgoing(oneshot::channel().0)), Err(NotQueued::ShutDown));
    }
}
