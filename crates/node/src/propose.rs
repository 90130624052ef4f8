//! Getting a command into the log from any node: here if this node leads, else by asking the one that does.

use std::time::Duration;

use control::{Applied, Command, Refusal};
use ownership::SessionId;
use parking_lot::Mutex;
use tonic::transport::Channel;
use wire::peer::committed_reply::Reply as Committed;
use wire::peer::control_client::ControlClient;
use wire::peer::followed_reply::Reply as Followed;
use wire::peer::propose_reply::Reply as Proposed;
use wire::peer::renewals_reply::Reply as Renewals;
use wire::peer::{CommittedRequest, FollowedRequest, ProposeReply, ProposeRequest, RenewalsRequest};

use crate::desk::Desk;
use crate::raft::{Dial, Peer, ProposeError, RaftNode};
use crate::transport::DialError;

/// How long one proposal at a leader may take, its transport included.
pub const PROPOSE_WITHIN: Duration = Duration::from_secs(6);

/// How long a proposal without a leader rests before it looks for one again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Why a command has no known outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProposed {
    /// The log took it and did nothing: it was not legal. Nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody is known to lead. Nothing was proposed; try again.
    #[error("no leader")]
    NoLeader,
    /// The command is too large for the log. Nothing was proposed.
    #[error("the command is too large")]
    TooLarge,
    /// It may or may not have been committed: look at the state before proposing again.
    #[error("the outcome is not known: {0}")]
    Undecided(String),
}

/// Proposes commands on behalf of one node.
pub struct Proposer {
    raft: RaftNode,
    dial: Dial,
    /// The channel to the leader that was asked last: renewals come twice a second, and a connection takes a handshake.
    last: Mutex<Option<(Peer, Channel)>>,
}

impl Proposer {
    /// A proposer that knows the leader from `raft` and reaches it by `dial`.
    pub fn new(raft: RaftNode, dial: Dial) -> Proposer {
        Proposer { raft, dial, last: Mutex::new(None) }
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<Peer> {
        self.raft.watch().borrow().leader_peer().cloned()
    }

    /// A lazy channel to a peer; the same one for as long as the same peer is asked.
    pub fn channel_to(&self, peer: &Peer) -> Option<Channel> {
        let mut last = self.last.lock();
        if let Some((_, channel)) = last.as_ref().filter(|(known, _)| known == peer) {
            return Some(channel.clone());
        }
        let channel = (self.dial)(peer).ok()?;
        *last = Some((peer.clone(), channel.clone()));
        Some(channel)
    }

    /// Proposes a command at the leader, once; returns what it did when it is applied there.
    pub async fn propose(&self, command: &Command) -> Result<Applied, NotProposed> {
        let leader = self.leader().ok_or(NotProposed::NoLeader)?;
        let payload = wire::control::command_to_bytes(command);
        if leader.id == self.raft.id() {
            return match self.raft.propose(payload).await {
                Ok(proposed) => outcome_of(&proposed.reply),
                Err(error) => Err(not_proposed(&error)),
            };
        }
        let channel = self.channel_to(&leader).ok_or(NotProposed::NoLeader)?;
        let request = ProposeRequest { command: payload };
        let mut client = ControlClient::new(channel);
        match tokio::time::timeout(PROPOSE_WITHIN, client.propose(request)).await {
            Ok(Ok(reply)) => proposed_there(reply.into_inner()),
            // Nobody was reached, so nothing was proposed.
            Ok(Err(status)) if DialError::behind(&status).is_some() => Err(NotProposed::NoLeader),
            Ok(Err(status)) => Err(NotProposed::Undecided(status.message().to_owned())),
            Err(_) => Err(NotProposed::Undecided("timed out".to_owned())),
        }
    }

    /// The number of the last renewal of `session` that reached whoever leads, 0 when none has since it leads; `None`
    /// when nobody can say, or no such session lives.
    pub async fn renewals_of(&self, session: SessionId, desk: &Desk) -> Option<u64> {
        let leader = self.leader()?;
        if leader.id == self.raft.id() {
            return desk.heard(session).flatten();
        }
        let request = RenewalsRequest { session: Some(wire::forward::session_to_proto(session)) };
        let mut client = ControlClient::new(self.channel_to(&leader)?);
        let reply = tokio::time::timeout(PROPOSE_WITHIN, client.renewals(request)).await.ok()?.ok()?;
        match reply.into_inner().reply? {
            Renewals::Heard(seq) => Some(seq),
            Renewals::NotLeader(_) | Renewals::Unknown(_) => None,
        }
    }

    /// The log index that every live session has applied, as whoever leads knows; `None` when nobody can say.
    pub async fn applied_by_all(&self, desk: &Desk) -> Option<u64> {
        let leader = self.leader()?;
        if leader.id == self.raft.id() {
            return desk.applied_by_all();
        }
        let mut client = ControlClient::new(self.channel_to(&leader)?);
        let asked = client.followed(FollowedRequest {});
        let reply = tokio::time::timeout(PROPOSE_WITHIN, asked).await.ok()?.ok()?;
        match reply.into_inner().reply? {
            Followed::Applied(index) => Some(index),
            Followed::NotLeader(_) => None,
        }
    }

    /// Returns once this node has applied everything that was committed when this was called, however long that takes.
    pub async fn caught_up(&self) {
        let index = loop {
            match self.committed().await {
                Some(index) => break index,
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        };
        // An error means that consensus has stopped here: nothing will be applied any more.
        if self.raft.watch().wait_for(|standing| standing.last_applied >= Some(index)).await.is_err() {
            std::future::pending().await
        }
    }

    /// The log index up to which everything was committed when this was called, as a leader says that was confirmed since;
    /// `None` when nobody can say.
    async fn committed(&self) -> Option<u64> {
        let leader = self.leader()?;
        if leader.id == self.raft.id() {
            return self.raft.confirm_leadership().await.ok().map(|confirmed| confirmed.index);
        }
        let mut client = ControlClient::new(self.channel_to(&leader)?);
        let asked = client.committed(CommittedRequest {});
        let reply = tokio::time::timeout(PROPOSE_WITHIN, asked).await.ok()?.ok()?;
        match reply.into_inner().reply? {
            Committed::Index(index) => Some(index),
            Committed::NotLeader(_) => None,
        }
    }

    /// Proposes a command, and again for as long as there was nobody to propose it to, until `within` has passed.
    pub async fn propose_within(&self, command: &Command, within: Duration) -> Result<Applied, NotProposed> {
        let until = tokio::time::Instant::now() + within;
        loop {
            let proposed = self.propose(command).await;
            if proposed != Err(NotProposed::NoLeader) || tokio::time::Instant::now() >= until {
                return proposed;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn proposed_there(reply: ProposeReply) -> Result<Applied, NotProposed> {
    match reply.reply {
        Some(Proposed::Outcome(outcome)) => outcome_of(&outcome),
        Some(Proposed::NotLeader(_)) => Err(NotProposed::NoLeader),
        Some(Proposed::TooLarge(_)) => Err(NotProposed::TooLarge),
        Some(Proposed::Undecided(why)) => Err(NotProposed::Undecided(why)),
        None => Err(NotProposed::Undecided("an empty answer".to_owned())),
    }
}

fn outcome_of(reply: &[u8]) -> Result<Applied, NotProposed> {
    match wire::control::outcome_from_bytes(reply) {
        Ok(outcome) => outcome.map_err(NotProposed::from),
        Err(error) => Err(NotProposed::Undecided(error.to_string())),
    }
}

fn not_proposed(error: &ProposeError) -> NotProposed {
    match error {
        ProposeError::NotLeader { .. } | ProposeError::Busy => NotProposed::NoLeader,
        ProposeError::TooLarge { .. } => NotProposed::TooLarge,
        ProposeError::Undecided | ProposeError::Stopped(_) => NotProposed::Undecided(error.to_string()),
    }
}
