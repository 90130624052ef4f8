//! The sending half of the path between an ingress and one owner: a bounded queue, and a task that carries what waits in
//! it over one stream. A batch leaves as soon as the previous one has left; no timer delays it. A stream that breaks
//! fails what was in flight at once, so that the ingress's rules decide what to do next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use limits::Moment;
use ring::NodeId;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use wire::forward::{Forwarded, Reply, forwarded_to_proto, reply_from_proto};
use wire::peer as proto;
use wire::peer::peer_client::PeerClient;

use crate::clock;
use crate::peer::circuit::Circuit;
use crate::peer::tally::PeerTally;

/// Checks that may wait for one peer; one more is answered [`Unreachable::QueueFull`] at once.
pub const QUEUE_MAX: usize = 65_536;

/// Checks in one batch at most; what waits beyond it leaves with the next.
pub const BATCH_MAX: usize = 1_024;

/// Batches without an answer on one stream at most; more wait in the queue, where they join larger batches.
pub const BATCHES_IN_FLIGHT_MAX: usize = 32;

/// How long a stream may take to open.
pub const OPEN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long after a failed attempt to open a stream further checks fail at once, so that a dead peer costs nothing.
pub const OPEN_PAUSE: Duration = Duration::from_millis(100);

/// Why a peer gave no answer. Whether the check was charged is unknown after `StreamBroken`; in all other cases it never
/// left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// Too much waits for this peer already.
    #[error("queue full")]
    QueueFull,
    /// No stream could be opened.
    #[error("no connection")]
    NoConnection,
    /// The stream broke while the check was in flight.
    #[error("stream broken")]
    StreamBroken,
    /// The node is not known.
    #[error("unknown peer")]
    UnknownPeer,
    /// The node is silent to everybody, and is left alone for a moment.
    #[error("circuit open")]
    CircuitOpen,
}

impl Unreachable {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Unreachable; 5] = [
        Unreachable::QueueFull,
        Unreachable::NoConnection,
        Unreachable::StreamBroken,
        Unreachable::UnknownPeer,
        Unreachable::CircuitOpen,
    ];

    /// The word that the `reason` label of `forward_errors_total` uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Unreachable::QueueFull => "queue_full",
            Unreachable::NoConnection => "no_connection",
            Unreachable::StreamBroken => "stream_broken",
            Unreachable::UnknownPeer => "unknown_peer",
            Unreachable::CircuitOpen => "circuit_open",
        }
    }
}

/// What the waiting side gets.
pub type Outcome = Result<Reply, Unreachable>;

struct Outgoing {
    item: Forwarded,
    reply: Option<oneshot::Sender<Outcome>>,
}

/// The way to one peer. Dropping it ends its task.
#[derive(Debug)]
pub struct Link {
    queue: mpsc::Sender<Outgoing>,
    tally: Arc<PeerTally>,
    circuit: Arc<Circuit>,
}

impl Link {
    /// Starts the task that serves `node` over `channel`, which connects lazily and reconnects by itself.
    pub fn start(node: NodeId, channel: Channel, tally: Arc<PeerTally>) -> Link {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (client, circuit) = (PeerClient::new(channel), Arc::new(Circuit::new(Arc::clone(&tally))));
        tokio::spawn(Carrier { node, client, waiting, paused_until: None, circuit: Arc::clone(&circuit) }.run());
        Link { queue, tally, circuit }
    }

    /// Whether the peer may be asked now, or is left alone. Whoever may asks it.
    pub fn may_ask(&self) -> bool {
        self.circuit.may_ask(clock::now())
    }

    /// Whether the peer is left alone, to show.
    pub fn is_left_alone(&self) -> bool {
        self.circuit.is_open(clock::now())
    }

    /// Sends a check; the receiver resolves to its reply. Dropping the receiver abandons the answer, not the check.
    pub fn ask(&self, item: Forwarded) -> oneshot::Receiver<Outcome> {
        let (reply, answer) = oneshot::channel();
        if let Err(error) = self.queue.try_send(Outgoing { item, reply: Some(reply) }) {
            let outgoing = error.into_inner();
            settle(outgoing.reply, Err(Unreachable::QueueFull));
        }
        answer
    }

    /// Sends a cancel or a debt; nobody waits for it, and a full queue drops it.
    pub fn tell(&self, item: Forwarded) {
        if self.queue.try_send(Outgoing { item, reply: None }).is_err() {
            self.tally.count_untold();
        }
    }
}

fn settle(reply: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
    if let Some(reply) = reply {
        // The asker may have given up meanwhile; then nobody is left to tell.
        let _ = reply.send(outcome);
    }
}

struct Carrier {
    node: NodeId,
    client: PeerClient<Channel>,
    waiting: mpsc::Receiver<Outgoing>,
    paused_until: Option<tokio::time::Instant>,
    circuit: Arc<Circuit>,
}

struct Stream {
    outbound: mpsc::Sender<proto::ForwardBatch>,
    inbound: Streaming<proto::ForwardReplies>,
}

impl Carrier {
    async fn run(mut self) {
        let mut ready = Vec::with_capacity(BATCH_MAX);
        while self.waiting.recv_many(&mut ready, BATCH_MAX).await > 0 {
            match self.open().await {
                Some(stream) => self.carry(stream, &mut ready).await,
                None => fail_all(&mut ready, Unreachable::NoConnection),
            }
        }
    }

    async fn open(&mut self) -> Option<Stream> {
        if self.paused_until.is_some_and(|until| tokio::time::Instant::now() < until) {
            return None;
        }
        let (outbound, batches) = mpsc::channel(1);
        let opening = self.client.forward(ReceiverStream::new(batches));
        match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
            Ok(Ok(response)) => {
                self.paused_until = None;
                Some(Stream { outbound, inbound: response.into_inner() })
            }
            Ok(Err(status)) => self.pause(status.message()),
            Err(_) => self.pause("timed out"),
        }
    }

    fn pause(&mut self, why: &str) -> Option<Stream> {
        self.circuit.handle_failure(clock::now());
        tracing::debug!(node = self.node.0, why, "no stream to peer");
        self.paused_until = Some(tokio::time::Instant::now() + OPEN_PAUSE);
        None
    }

    /// Serves one stream until it breaks or nothing can be sent any more.
    async fn carry(&mut self, stream: Stream, ready: &mut Vec<Outgoing>) {
        let Stream { outbound, mut inbound } = stream;
        let mut in_flight = InFlight::default();
        loop {
            let may_send = in_flight.batches.len() < BATCHES_IN_FLIGHT_MAX;
            tokio::select! {
                biased;
                replies = inbound.message() => {
                    let Ok(Some(replies)) = replies else { break };
                    match in_flight.deliver(replies) {
                        Some(sent) => self.circuit.handle_answer(sent),
                        None => break,
                    }
                }
                permit = outbound.reserve(), if may_send && !ready.is_empty() => match permit {
                    Ok(permit) => {
                        // What came in while the previous batch was leaving goes along.
                        while ready.len() < BATCH_MAX && let Ok(outgoing) = self.waiting.try_recv() {
                            ready.push(outgoing);
                        }
                        let now = clock::now();
                        self.circuit.handle_sent(now);
                        permit.send(in_flight.depart(ready, now));
                    }
                    Err(_) => break,
                },
                received = self.waiting.recv_many(ready, BATCH_MAX), if ready.is_empty() => {
                    if received == 0 { break }
                }
            }
        }
        self.circuit.handle_failure(clock::now());
        fail_all(ready, Unreachable::StreamBroken);
        in_flight.fail();
    }
}

/// One batch: its number, when it was sent, and who waits for its answers.
struct Batch {
    number: u64,
    sent: Moment,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

/// Batches that were sent, the oldest first, and who waits for their answers.
#[derive(Default)]
struct InFlight {
    batches: VecDeque<Batch>,
    number: u64,
}

impl InFlight {
    /// Makes a batch of everything that is ready.
    fn depart(&mut self, ready: &mut Vec<Outgoing>, now: Moment) -> proto::ForwardBatch {
        self.number += 1;
        let items = ready.iter().map(|outgoing| forwarded_to_proto(&outgoing.item)).collect();
        let waiting = ready.drain(..).filter_map(|outgoing| outgoing.reply).collect();
        self.batches.push_back(Batch { number: self.number, sent: now, waiting });
        proto::ForwardBatch { number: self.number, items }
    }

    /// Hands the replies of one batch to those who wait, and says when the batch was sent; `None` when the peer does not keep
    /// to the protocol.
    fn deliver(&mut self, replies: proto::ForwardReplies) -> Option<Moment> {
        let is_it = |batch: &mut Batch| batch.number == replies.number && batch.waiting.len() == replies.replies.len();
        let Batch { sent, waiting, .. } = self.batches.pop_front_if(is_it)?;
        for (reply, wire) in waiting.into_iter().zip(replies.replies) {
            settle(Some(reply), reply_from_proto(wire).map_err(|_| Unreachable::StreamBroken));
        }
        Some(sent)
    }

    fn fail(self) {
        for reply in self.batches.into_iter().flat_map(|batch| batch.waiting) {
            settle(Some(reply), Err(Unreachable::StreamBroken));
        }
    }
}

fn fail_all(ready: &mut Vec<Outgoing>, why: Unreachable) {
    for outgoing in ready.drain(..) {
        settle(outgoing.reply, Err(why));
    }
}
