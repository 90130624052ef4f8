//! The calling side between nodes: one lazy channel per peer for what is urgent, another for snapshots, so that a large
//! one never stands before a heartbeat. Making a client only clones a channel, since openraft makes one inside its core
//! loop for every leadership confirmation.

use std::collections::BTreeMap;
use std::future::Future;
use std::iter::repeat;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::error::{RPCError, RaftError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::storage::Snapshot;
use openraft::{OptionalSend, RPCTypes, RaftNetwork, RaftNetworkFactory};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use wire::peer::raft_client::RaftClient;
use wire::peer::{RaftSnapshotHead, RaftSnapshotPart, raft_snapshot_part::Part};

use super::codec::{self, Malformed};
use super::types::{Address, Fatal, LogId, Peer, Types, Vote};

/// The largest message a node takes or sends, in bytes; more is refused by the transport.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// One part of a snapshot on the wire, in bytes.
const PART_BYTES: usize = 256 * 1024;
/// How long replication to a peer that cannot be reached rests before the next attempt. Short: a follower that comes
/// back and hears nothing for an election timeout stands for election.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(50);

/// Makes a channel to a peer, without connecting: tonic's lazy channels connect when first used and again after every
/// loss. Give them a connect timeout and HTTP/2 keep-alive, or a silent peer holds calls until their deadline.
pub type Dial = Arc<dyn Fn(&Peer) -> Result<Channel, tonic::transport::Error> + Send + Sync>;

/// Every channel this node has, and what peers let it know in passing.
#[derive(Clone)]
pub(crate) struct Links {
    me: u64,
    dial: Dial,
    channels: Arc<Mutex<Channels>>,
    /// The membership that leaves this node out, as a peer told it.
    left_out_by: Arc<watch::Sender<Option<LogId>>>,
}

type Channels = BTreeMap<(u64, Lane), (Address, Channel)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Urgent,
    Bulk,
}

impl Links {
    pub(crate) fn new(me: u64, dial: Dial) -> Links {
        Links { me, dial, channels: Arc::default(), left_out_by: Arc::new(watch::channel(None).0) }
    }

    /// Who told this node that it is a member no more.
    pub(crate) fn left_out_by(&self) -> watch::Receiver<Option<LogId>> {
        self.left_out_by.subscribe()
    }

    /// Forgets the channels to whoever is no member any more.
    pub(crate) fn keep(&self, is_member: impl Fn(u64) -> bool) {
        self.channels.lock().retain(|(id, _), _| is_member(*id));
    }

    fn channel(&self, target: u64, at: &Address, lane: Lane) -> Result<Channel, Status> {
        let mut channels = self.channels.lock();
        if let Some((known, channel)) = channels.get(&(target, lane))
            && known == at
        {
            return Ok(channel.clone());
        }
        let peer = Peer::of(target, at).ok_or_else(|| Status::unavailable("no node has the id 0"))?;
        let channel = (self.dial)(&peer).map_err(|error| Status::unavailable(format!("{}: {error}", at.address)))?;
        channels.insert((target, lane), (at.clone(), channel.clone()));
        Ok(channel)
    }

    fn client(&self, target: u64, at: &Address, lane: Lane) -> Result<RaftClient<Channel>, Status> {
        let client = RaftClient::new(self.channel(target, at, lane)?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX))
    }
}

impl RaftNetworkFactory<Types> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: u64, node: &Address) -> Link {
        Link { links: self.clone(), target, at: node.clone() }
    }
}

/// The calls to one peer.
pub(crate) struct Link {
    links: Links,
    target: u64,
    at: Address,
}

type CallError = RPCError<u64, Address, RaftError<u64>>;
type SendError = StreamingError<Types, Fatal>;

impl RaftNetwork<Types> for Link {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, CallError> {
        let (links, target, at, limit) = (&self.links, self.target, &self.at, option.hard_ttl());
        let call = async move {
            let mut client = links.client(target, at, Lane::Urgent)?;
            client.append(within(codec::append_out(&rpc), limit)).await
        };
        let reply = self.limited(RPCTypes::AppendEntries, limit, call).await?;
        codec::append_reply_in(reply).map_err(unintelligible)
    }

    async fn vote(&mut self, rpc: VoteRequest<u64>, option: RPCOption) -> Result<VoteResponse<u64>, CallError> {
        let (links, target, at, limit) = (&self.links, self.target, &self.at, option.hard_ttl());
        let call = async move {
            let mut client = links.client(target, at, Lane::Urgent)?;
            client.vote(within(codec::vote_request_out(&rpc), limit)).await
        };
        let reply = self.limited(RPCTypes::Vote, limit, call).await?;
        let (response, left_out_by) = codec::vote_reply_in(reply).map_err(unintelligible)?;
        if left_out_by.is_some() {
            self.links.left_out_by.send_if_modified(|known| {
                *known < left_out_by && {
                    *known = left_out_by;
                    true
                }
            });
        }
        Ok(response)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Types>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, SendError> {
        let (links, target, at, limit) = (&self.links, self.target, &self.at, option.hard_ttl());
        let call = async move {
            let mut client = links.client(target, at, Lane::Bulk)?;
            client.install_snapshot(within(tokio_stream::iter(parts(&vote, snapshot)), limit)).await
        };
        let sent = self.limited(RPCTypes::InstallSnapshot, limit, call);
        let reply = tokio::select! {
            biased;
            closed = cancel => return Err(closed.into()),
            reply = sent => reply.map_err(streaming)?,
        };
        let vote = codec::vote_in(reply.vote).map_err(|error| SendError::Unreachable(Unreachable::new(&error)))?;
        Ok(SnapshotResponse::new(vote))
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(repeat(UNREACHABLE_PAUSE))
    }
}

impl Link {
    /// A call's answer within `limit`, or why there is none.
    async fn limited<R>(
        &self,
        action: RPCTypes,
        limit: Duration,
        call: impl Future<Output = Result<tonic::Response<R>, Status>>,
    ) -> Result<R, CallError> {
        let late = || CallError::Timeout(Timeout { action, id: self.links.me, target: self.target, timeout: limit });
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(reply)) => Ok(reply.into_inner()),
            Ok(Err(status)) if status.code() == Code::DeadlineExceeded => Err(late()),
            // Whatever a peer answers instead: openraft would ask again at once, and for ever.
            Ok(Err(status)) => Err(Unreachable::new(&status).into()),
            Err(_) => Err(late()),
        }
    }
}

/// The deadline travels too, so that the other side gives up when this one does.
fn within<M>(message: M, limit: Duration) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

fn parts(vote: &Vote, snapshot: Snapshot<Types>) -> impl Iterator<Item = RaftSnapshotPart> + Send + 'static {
    let mut state: Bytes = *snapshot.snapshot;
    let head = RaftSnapshotHead {
        vote: Some(codec::vote_out(vote)),
        meta: Some(codec::snapshot_meta_out(&snapshot.meta)),
        length: state.len() as u64,
    };
    let data = std::iter::from_fn(move || {
        let part = state.split_to(state.len().min(PART_BYTES));
        (!part.is_empty()).then_some(Part::Data(part))
    });
    std::iter::once(Part::Head(head)).chain(data).map(|part| RaftSnapshotPart { part: Some(part) })
}

fn unintelligible(error: Malformed) -> CallError {
    Unreachable::new(&error).into()
}

fn streaming(error: CallError) -> SendError {
    match error {
        RPCError::Timeout(timeout) => timeout.into(),
        RPCError::Unreachable(unreachable) => unreachable.into(),
        RPCError::Network(network) => network.into(),
        other @ (RPCError::PayloadTooLarge(_) | RPCError::RemoteError(_)) => Unreachable::new(&other).into(),
    }
}
