//! The handle to this node's consensus: start, propose, confirm, watch, stop. It turns openraft's many errors into the few
//! that a caller can act on, and gives every wait an end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::error::{CheckIsLeaderError, ClientWriteError, ForwardToLeader, InitializeError, RaftError};
use parking_lot::Mutex;
use ring::NodeId;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::confirm::{Confirmer, NoRound};
use super::journal::{Journal, JournalError};
use super::log::Log;
use super::machine::{Applier, Machine, RestoreError};
use super::network::{Dial, Links};
use super::service::Door;
use super::settings::Settings;
use super::standing::{Board, Leadership, Role, Standing};
use super::types::{Address, Command, Fatal, Metrics, Peer, Raft, raft_id};

/// The largest command, in bytes; a larger one is refused. One append of it fits into a heartbeat interval on a slow
/// link, and far into a peer message.
pub const PAYLOAD_BYTES_MAX: usize = 512 * 1024;
/// Proposals of this node that may wait for their outcome; one more is refused.
pub const PROPOSALS_MAX: usize = 1_024;

/// What consensus is made of.
pub struct Setup {
    /// Times and sizes.
    pub settings: Settings,
    /// What this node remembers, and who it is.
    pub journal: Journal,
    /// What the log drives, in its first state: it is brought up to date from the journal.
    pub machine: Box<dyn Machine>,
    /// How peers are reached.
    pub dial: Dial,
    /// Where peers knock; opened by the start.
    pub door: Door,
}

/// This node's consensus. Clones are the same one; dropping them stops nothing, [`RaftNode::shutdown`] does.
#[derive(Clone)]
pub struct RaftNode {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) id: NodeId,
    pub(super) settings: Settings,
    pub(super) raft: Raft,
    pub(super) standing: watch::Receiver<Standing>,
    leadership: watch::Receiver<Leadership>,
    confirmer: Confirmer<Result<Confirmed, ConfirmError>>,
    proposals: Semaphore,
    journal: Journal,
    tasks: Mutex<Option<Tasks>>,
}

struct Tasks {
    follow: JoinHandle<()>,
    confirm: JoinHandle<()>,
    compact: JoinHandle<()>,
}

/// Consensus did not start on this node; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The settings contradict each other. Whoever wrote them mends them.
    #[error("settings: {0}")]
    Settings(String),
    /// The door was opened before: one door per start.
    #[error("the door is open already")]
    DoorOpen,
    /// The journal does not give back what was put into it.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The machine does not understand the journal's snapshot.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A part of the log lives only in a snapshot that is not there. An empty directory makes the node a new one; the
    /// others have the state.
    #[error("{path}: the log was cut up to entry {purged}, and no snapshot holds what was cut")]
    SnapshotLost {
        /// Where the snapshot should be.
        path: String,
        /// The last entry that was cut.
        purged: u64,
    },
    /// openraft refused what it found.
    #[error("consensus: {0}")]
    Consensus(String),
}

/// A group was not founded here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// This node has a log or a vote already: it is part of a group. Nothing was changed.
    #[error("this node is part of a group already")]
    AlreadyMember,
    /// The voters named are others. Nothing was changed.
    #[error("this node is not among the voters")]
    NotNamed,
    /// It did not come to lead in time; its journal holds the first entry all the same.
    #[error("the first election takes too long")]
    NoElection,
    /// Consensus has stopped here.
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

/// A command that is committed and applied here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Its place in the log.
    pub index: u64,
    /// The term it was proposed in.
    pub term: u64,
    /// What the machine answered.
    pub reply: Bytes,
}

/// A command has no known outcome. Only [`ProposeError::Undecided`] leaves it open whether the state changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This node does not lead; nothing was proposed. Ask the leader.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<Peer>,
    },
    /// The command is larger than [`PAYLOAD_BYTES_MAX`]; nothing was proposed.
    #[error("a command of {len} bytes; at most {PAYLOAD_BYTES_MAX}")]
    TooLarge {
        /// Its length in bytes.
        len: usize,
    },
    /// [`PROPOSALS_MAX`] others wait; nothing was proposed. Later.
    #[error("too many proposals are waiting")]
    Busy,
    /// It was proposed, and then leadership or patience ran out: it may be committed now, later, or never. Look at the
    /// state before proposing again.
    #[error("the outcome is not known")]
    Undecided,
    /// Consensus has stopped here; whether this command was committed is not known either.
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

/// A majority followed this leader after it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The term it leads.
    pub term: u64,
    /// The machine had applied the log up to here: all that was committed when the confirmation began.
    pub index: u64,
}

/// Leadership is not confirmed. It may still exist; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// This node does not lead. Ask the leader.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<Peer>,
    },
    /// No majority answered in time: this node may be cut off.
    #[error("no quorum answered")]
    NoQuorum,
    /// Too many wait for the next confirmation. Later.
    #[error("too many wait for a confirmation")]
    Busy,
    /// Consensus has stopped here.
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

impl RaftNode {
    /// Starts consensus from what the journal holds, and opens the door. The machine is restored from the last snapshot
    /// and has applied all that the journal knows to be committed when this returns.
    pub async fn start(setup: Setup) -> Result<RaftNode, StartError> {
        let Setup { settings, journal, machine, dial, door } = setup;
        let config = Arc::new(settings.config().map_err(StartError::Settings)?);
        let id = journal.identity();
        let due = Arc::new(Notify::new());
        let applier = Applier::load(machine, journal.clone(), settings.snapshot_bytes, Arc::clone(&due)).await?;
        let links = Links::new(raft_id(id), dial);
        let raft = Raft::new(raft_id(id), config, links.clone(), Log::new(journal.clone()), applier)
            .await
            .map_err(|error| StartError::Consensus(error.to_string()))?;
        if door.open(raft.clone()).is_err() {
            // openraft reports a failed shutdown as a panic of its core; then there is nothing left to stop.
            let _ = raft.shutdown().await;
            return Err(StartError::DoorOpen);
        }
        // The first report says what the journal held; an error means that the core is gone, which the watch will say.
        let before = Instant::now();
        let mut metrics = raft.metrics();
        let _ = metrics.changed().await;
        let board = Board::new(id, metrics.borrow_and_update().clone(), before);
        Ok(RaftNode { inner: Arc::new(Inner::new(settings, raft, journal, board, (metrics, links), due)) })
    }

    /// Founds a group of one: this node, reached at `address`. Returns once it leads.
    pub async fn bootstrap(&self, address: &str, name: &str) -> Result<(), BootstrapError> {
        self.found(&[Peer { id: self.id(), address: address.to_owned(), name: name.to_owned() }]).await?;
        let mut standing = self.watch();
        let elected = timeout(self.inner.settings.members_within, standing.wait_for(Standing::is_leader)).await;
        match elected {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(BootstrapError::Stopped(self.failure())),
            Err(_) => Err(BootstrapError::NoElection),
        }
    }

    /// Begins the log of a new group, whose first voters are `voters`, this node among them. Every one of them may do so,
    /// in any order, as long as all name the same voters: then their first entries are equal.
    pub async fn found(&self, voters: &[Peer]) -> Result<(), BootstrapError> {
        let members: BTreeMap<u64, Address> = voters.iter().map(|peer| (raft_id(peer.id), peer.address())).collect();
        self.inner.raft.initialize(members).await.map_err(|error| match error {
            RaftError::APIError(InitializeError::NotAllowed(_)) => BootstrapError::AlreadyMember,
            RaftError::APIError(InitializeError::NotInMembers(_)) => BootstrapError::NotNamed,
            RaftError::Fatal(fatal) => BootstrapError::Stopped(fatal.to_string()),
        })
    }

    /// Who this node is.
    pub fn id(&self) -> NodeId {
        self.inner.id
    }

    /// Puts a command into the log; returns once it is committed and applied here.
    pub async fn propose(&self, payload: Bytes) -> Result<Proposed, ProposeError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(ProposeError::TooLarge { len: payload.len() });
        }
        if let Err(leader) = self.inner.leads() {
            return Err(ProposeError::NotLeader { leader });
        }
        let _slot = self.inner.proposals.try_acquire().map_err(|_| ProposeError::Busy)?;
        let written = self.inner.raft.client_write(Command(payload));
        match timeout(self.inner.settings.propose_within, written).await {
            Ok(Ok(written)) => {
                let (index, term) = (written.log_id.index, written.log_id.leader_id.term);
                Ok(Proposed { index, term, reply: written.data.0 })
            }
            Ok(Err(RaftError::Fatal(fatal))) => Err(ProposeError::Stopped(fatal.to_string())),
            // Not only before the entry was appended: also when a later leader cut it from this log. Another node may
            // have it still and commit it.
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) | Err(_) => Err(ProposeError::Undecided),
            Ok(Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(_)))) => {
                unreachable!("a command changes no membership")
            }
        }
    }

    /// Confirms that this node leads, by an answer of a majority to messages sent after this call. One confirmation is in
    /// flight at a time; callers that come meanwhile share the next.
    pub async fn confirm_leadership(&self) -> Result<Confirmed, ConfirmError> {
        self.inner.confirmer.confirm().await.unwrap_or_else(|none| {
            Err(match none {
                NoRound::Busy => ConfirmError::Busy,
                NoRound::Ended => ConfirmError::Stopped(self.failure()),
            })
        })
    }

    /// Where this node stands, now and as it changes: several times a second, since it carries the quorum's last answer.
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.inner.standing.clone()
    }

    /// Who leads, now and as it changes.
    pub fn leader_watch(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Makes a snapshot soon, whatever the settings say, unless one is being made.
    pub async fn compact(&self) {
        // The only failure is that consensus has stopped, and then there is nothing to compact.
        let _ = self.inner.raft.trigger().snapshot().await;
    }

    /// Returns when consensus has stopped on this node, asked to or not, with the failure if there was one.
    pub async fn stopped(&self) -> String {
        // An error means that the watch's writer is gone: stopped as well.
        let _ = self.watch().wait_for(|standing| standing.role == Role::Stopped).await;
        self.failure()
    }

    /// Stops consensus, waits for everything it started, and closes the journal: afterwards its files can be opened
    /// again. Calling it twice is the same as once.
    pub async fn shutdown(&self) {
        // An error is a panic of openraft's core: it has stopped then, too.
        let _ = self.inner.raft.shutdown().await;
        let tasks = self.inner.tasks.lock().take();
        if let Some(Tasks { follow, confirm, compact }) = tasks {
            confirm.abort();
            compact.abort();
            // `follow` ends by itself and says that this node has stopped.
            for task in [follow, confirm, compact] {
                let _ = task.await;
            }
        }
        self.inner.journal.close().await;
    }

    fn failure(&self) -> String {
        self.inner.standing.borrow().failure.clone().unwrap_or_else(|| "stopped".to_owned())
    }
}

impl Inner {
    fn new(
        settings: Settings,
        raft: Raft,
        journal: Journal,
        board: Board,
        feeds: (watch::Receiver<Metrics>, Links),
        due: Arc<Notify>,
    ) -> Inner {
        let (metrics, links) = feeds;
        let (standing, leadership) = (board.standing(), board.leadership());
        let (asked, within) = (raft.clone(), settings.confirm_within);
        let (confirmer, rounds) = Confirmer::new(move || confirm(asked.clone(), within));
        let tasks = Tasks {
            follow: tokio::spawn(board.follow(metrics, links)),
            confirm: tokio::spawn(rounds),
            compact: tokio::spawn(compact(raft.clone(), due)),
        };
        let (proposals, tasks) = (Semaphore::new(PROPOSALS_MAX), Mutex::new(Some(tasks)));
        Inner { id: journal.identity(), settings, raft, standing, leadership, confirmer, proposals, journal, tasks }
    }

    /// Whether openraft itself believes that this node leads; if not, who does.
    pub(super) fn leads(&self) -> Result<(), Option<Peer>> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        if metrics.state == openraft::ServerState::Leader {
            return Ok(());
        }
        let known = metrics.current_leader.and_then(|leader| {
            let at = metrics.membership_config.membership().get_node(&leader)?;
            Peer::of(leader, at)
        });
        Err(known)
    }
}

/// The leader that openraft points to.
fn pointed_to(forward: &ForwardToLeader<u64, Address>) -> Option<Peer> {
    Peer::of(forward.leader_id?, forward.leader_node.as_ref()?)
}

async fn confirm(raft: Raft, within: Duration) -> Result<Confirmed, ConfirmError> {
    match timeout(within, raft.ensure_linearizable()).await {
        Ok(Ok(Some(read))) => Ok(Confirmed { term: read.leader_id.term, index: read.index }),
        // A leader has an entry of its own: without one it is none.
        Ok(Ok(None)) | Err(_) => Err(ConfirmError::NoQuorum),
        Ok(Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(forward)))) => {
            Err(ConfirmError::NotLeader { leader: pointed_to(&forward) })
        }
        Ok(Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_)))) => Err(ConfirmError::NoQuorum),
        Ok(Err(RaftError::Fatal(fatal))) => Err(ConfirmError::Stopped(fatal.to_string())),
    }
}

/// openraft counts entries; this counts bytes.
async fn compact(raft: Raft, due: Arc<Notify>) {
    loop {
        due.notified().await;
        let asked: Result<(), Fatal> = raft.trigger().snapshot().await;
        if asked.is_err() {
            return;
        }
    }
}
