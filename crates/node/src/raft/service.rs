//! The answering side between nodes. The peer port opens before consensus runs, so the service asks a [`Door`] that is
//! opened later; until then, and after consensus stopped, callers are told that this node is not available.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use openraft::storage::Snapshot;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};
use wire::peer::raft_server::{Raft as RaftRpc, RaftServer};
use wire::peer::{
    RaftAppend, RaftAppendReply, RaftSnapshotHead, RaftSnapshotPart, RaftSnapshotReply, RaftVoteReply, RaftVoteRequest,
    raft_snapshot_part::Part,
};

use super::codec::{self, Malformed};
use super::network::MESSAGE_BYTES_MAX;
use super::types::{LogId, Raft};

/// The largest snapshot a node takes, in bytes; a larger one is refused before any of it is kept.
pub const SNAPSHOT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// How long a snapshot's sender may be silent before it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Stands between the peer port and consensus: closed until consensus runs. Clones are the same door.
#[derive(Clone, Default)]
pub struct Door {
    raft: Arc<OnceLock<Raft>>,
    held: Arc<AtomicBool>,
}

impl Door {
    /// A closed door.
    pub fn new() -> Door {
        Door::default()
    }

    /// A door that stays shut, even when consensus runs, until [`Door::admit`]: for a node that does not belong to a cluster
    /// yet, whose log nobody may write.
    pub fn held() -> Door {
        Door { held: Arc::new(AtomicBool::new(true)), ..Door::default() }
    }

    /// Lets callers in from now on; returns whether they were kept out until now.
    pub fn admit(&self) -> bool {
        self.held.swap(false, Ordering::AcqRel)
    }

    /// The tonic service behind this door, to be added to the peer port's router.
    pub fn service(&self) -> RaftServer<RaftService> {
        let service = RaftService { door: self.clone(), incoming: Arc::new(Semaphore::new(1)) };
        RaftServer::new(service)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Opens it; a door opens once.
    pub(crate) fn open(&self, raft: Raft) -> Result<(), Raft> {
        self.raft.set(raft)
    }

    fn raft(&self) -> Result<&Raft, Status> {
        if self.held.load(Ordering::Acquire) {
            return Err(Status::unavailable("this node belongs to no cluster yet"));
        }
        self.raft.get().ok_or_else(|| Status::unavailable("consensus does not run here yet"))
    }
}

/// Answers other nodes' calls.
pub struct RaftService {
    door: Door,
    /// One snapshot at a time: each is held in memory until it is whole.
    incoming: Arc<Semaphore>,
}

#[tonic::async_trait]
impl RaftRpc for RaftService {
    async fn append(&self, request: Request<RaftAppend>) -> Result<Response<RaftAppendReply>, Status> {
        let raft = self.door.raft()?;
        let append = codec::append_in(request.into_inner()).map_err(malformed)?;
        let reply = raft.append_entries(append).await.map_err(stopped)?;
        Ok(Response::new(codec::append_reply_out(&reply)))
    }

    async fn vote(&self, request: Request<RaftVoteRequest>) -> Result<Response<RaftVoteReply>, Status> {
        let raft = self.door.raft()?;
        let request = codec::vote_request_in(request.into_inner()).map_err(malformed)?;
        let left_out_by = left_out_by(raft, request.vote.leader_id.node_id).await?;
        // Asked for a vote all the same: a member that lags behind may not know the candidate that it has to elect.
        let reply = raft.vote(request).await.map_err(stopped)?;
        Ok(Response::new(codec::vote_reply_out(&reply, left_out_by)))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<RaftSnapshotPart>>,
    ) -> Result<Response<RaftSnapshotReply>, Status> {
        let raft = self.door.raft()?;
        let _turn =
            self.incoming.try_acquire().map_err(|_| Status::resource_exhausted("busy with another snapshot"))?;
        let mut parts = request.into_inner();
        let head = head(&mut parts).await?;
        let vote = codec::vote_in(head.vote).map_err(malformed)?;
        let meta = head.meta.ok_or_else(|| Status::invalid_argument("no meta"))?;
        let meta = codec::snapshot_meta_in(meta).map_err(malformed)?;
        let state = body(&mut parts, head.length).await?;
        let snapshot = Snapshot { meta, snapshot: Box::new(state) };
        let reply = raft.install_full_snapshot(vote, snapshot).await.map_err(stopped)?;
        Ok(Response::new(RaftSnapshotReply { vote: Some(codec::vote_out(&reply.vote)) }))
    }
}

/// The committed membership that does not know `candidate`, if there is one that knows anybody.
async fn left_out_by(raft: &Raft, candidate: u64) -> Result<Option<LogId>, Status> {
    let committed = raft.with_raft_state(|state| state.membership_state.committed().clone()).await.map_err(stopped)?;
    let known = committed.membership().get_node(&candidate).is_some();
    Ok(if known { None } else { *committed.log_id() })
}

async fn head(parts: &mut Streaming<RaftSnapshotPart>) -> Result<RaftSnapshotHead, Status> {
    match next(parts).await? {
        Some(Part::Head(head)) if head.length <= SNAPSHOT_BYTES_MAX => Ok(head),
        Some(Part::Head(head)) => {
            Err(Status::resource_exhausted(format!("{} bytes are more than {SNAPSHOT_BYTES_MAX}", head.length)))
        }
        Some(Part::Data(_)) | None => Err(Status::invalid_argument("a snapshot begins with its head")),
    }
}

async fn body(parts: &mut Streaming<RaftSnapshotPart>, length: u64) -> Result<Bytes, Status> {
    let wrong = || Status::invalid_argument(format!("the data is not the {length} bytes that the head promised"));
    let mut state = BytesMut::new();
    while let Some(part) = next(parts).await? {
        let Part::Data(data) = part else { return Err(Status::invalid_argument("a second head")) };
        state.extend_from_slice(&data);
        if state.len() as u64 > length {
            return Err(wrong());
        }
    }
    if state.len() as u64 == length { Ok(state.freeze()) } else { Err(wrong()) }
}

async fn next(parts: &mut Streaming<RaftSnapshotPart>) -> Result<Option<Part>, Status> {
    let part = tokio::time::timeout(SILENCE_MAX, parts.next())
        .await
        .map_err(|_| Status::deadline_exceeded("the sender of the snapshot went silent"))?;
    match part {
        None => Ok(None),
        Some(part) => part?.part.map(Some).ok_or_else(|| Status::invalid_argument("an empty part")),
    }
}

fn malformed(error: Malformed) -> Status {
    Status::invalid_argument(error.0)
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("consensus stopped here: {error}"))
}
