//! Changes of membership, on the leader. A new member is a learner first and votes only once it holds the log; a voter
//! becomes a learner first and leaves only then, so that it hears of its own demotion if it can hear at all.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::ClientWriteResponse;
use ring::NodeId;
use tokio::time::timeout;

use super::node::RaftNode;
use super::standing::Standing;
use super::types::{Address, Peer, Types, raft_id};

/// How many may vote: no other count is accepted.
pub const VOTER_COUNTS: [usize; 3] = [1, 3, 5];

/// The members were not changed as asked. Only [`MembersError::Undecided`] leaves open whether they were. Each change may
/// be asked for again: one that is made already changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// This node does not lead; nothing was changed. Ask the leader.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, as far as this node knows.
        leader: Option<Peer>,
    },
    /// Another change is not committed yet; nothing was changed. Later.
    #[error("another change of members is under way")]
    InProgress,
    /// So many cannot vote: see [`VOTER_COUNTS`]. Nothing was changed.
    #[error("{count} voters; 1, 3 or 5 can vote")]
    VoterCount {
        /// How many it would have been.
        count: usize,
    },
    /// Only members can vote, leave or move; nothing was changed.
    #[error("not a member")]
    NotAMember,
    /// A voter has to become a learner before it leaves; nothing was changed.
    #[error("still votes")]
    StillVotes,
    /// The learner was added, but does not hold the log in time. It goes on catching up; ask again.
    #[error("the learner holds the log up to {matched:?}, not up to {wanted}")]
    Behind {
        /// The last entry it is known to hold.
        matched: Option<u64>,
        /// The entry it should hold.
        wanted: u64,
    },
    /// Leadership or patience ran out: the change may be made now, later, or never. Look at the members.
    #[error("the outcome is not known")]
    Undecided,
    /// Consensus has stopped here.
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

type Changed = Result<ClientWriteResponse<Types>, RaftError<u64, ClientWriteError<u64, Address>>>;

impl RaftNode {
    /// Adds `peer` as a learner and waits until it holds the whole log as of now; returns that log's last index.
    /// (openraft's own blocking variant returns as soon as the lag is below a threshold.) A member that is there already
    /// keeps its address: see [`RaftNode::move_peer`].
    pub async fn add_learner(&self, peer: &Peer) -> Result<u64, MembersError> {
        let added = self.admit(peer).await?;
        let last = self.inner.raft.metrics().borrow().last_log_index;
        let wanted = last.max(Some(added)).unwrap_or(added);
        self.caught_up(peer.id, wanted).await?;
        Ok(wanted)
    }

    /// Adds `peer` as a learner; returns once the entry that says so is committed, whatever the learner holds by then.
    pub async fn admit(&self, peer: &Peer) -> Result<u64, MembersError> {
        self.change(self.inner.raft.add_learner(raft_id(peer.id), peer.address(), false)).await
    }

    /// Makes exactly `voters` vote: through a joint configuration, one majority in each. Whoever voted before and does
    /// not any more stays as a learner. New voters have to be learners that caught up.
    pub async fn change_voters(&self, voters: BTreeSet<NodeId>) -> Result<(), MembersError> {
        if !VOTER_COUNTS.contains(&voters.len()) {
            return Err(MembersError::VoterCount { count: voters.len() });
        }
        let voters: BTreeSet<u64> = voters.into_iter().map(raft_id).collect();
        self.change(self.inner.raft.change_membership(voters, true)).await.map(drop)
    }

    /// Lets a learner go. Its id must never come back.
    pub async fn remove(&self, id: NodeId) -> Result<(), MembersError> {
        if self.inner.standing.borrow().members.voters.contains(&id) {
            return Err(MembersError::StillVotes);
        }
        let leaving = ChangeMembers::RemoveNodes(BTreeSet::from([raft_id(id)]));
        self.change(self.inner.raft.change_membership(leaving, false)).await.map(drop)
    }

    /// Tells the group that a member is reached elsewhere now. The same node, with the same log: a new address for
    /// another log would split the group.
    pub async fn move_peer(&self, peer: &Peer) -> Result<(), MembersError> {
        if !self.inner.standing.borrow().members.peers.contains_key(&peer.id) {
            return Err(MembersError::NotAMember);
        }
        let moved = ChangeMembers::SetNodes(BTreeMap::from([(raft_id(peer.id), peer.address())]));
        self.change(self.inner.raft.change_membership(moved, true)).await.map(drop)
    }

    /// The index of the change's entry, once it is committed.
    async fn change(&self, change: impl Future<Output = Changed>) -> Result<u64, MembersError> {
        if let Err(leader) = self.inner.leads() {
            return Err(MembersError::NotLeader { leader });
        }
        match timeout(self.inner.settings.members_within, change).await {
            Ok(Ok(changed)) => Ok(changed.log_id.index),
            Ok(Err(error)) => Err(refusal(error)),
            Err(_) => Err(MembersError::Undecided),
        }
    }

    async fn caught_up(&self, id: NodeId, wanted: u64) -> Result<(), MembersError> {
        let holds = |standing: &Standing| held(standing, id) >= Some(wanted);
        let settled = |standing: &Standing| {
            // The members lag behind the entry that added one; so only a newer membership can say that it left.
            let left = standing.members.index >= Some(wanted) && !standing.members.peers.contains_key(&id);
            holds(standing) || !standing.is_leader() || left
        };
        let mut watch = self.watch();
        let seen = timeout(self.inner.settings.members_within, watch.wait_for(settled)).await;
        let standing = self.inner.standing.borrow();
        match seen {
            Ok(Ok(seen)) if holds(&seen) => Ok(()),
            Ok(Ok(seen)) if seen.is_leader() => Err(MembersError::NotAMember),
            Ok(Ok(seen)) => Err(MembersError::NotLeader { leader: seen.leader_peer().cloned() }),
            Ok(Err(_)) => Err(MembersError::Stopped(standing.failure.clone().unwrap_or_default())),
            Err(_) => Err(MembersError::Behind { matched: held(&standing, id), wanted }),
        }
    }
}

fn held(standing: &Standing, id: NodeId) -> Option<u64> {
    standing.matched.get(&id).copied().flatten()
}

fn refusal(error: RaftError<u64, ClientWriteError<u64, Address>>) -> MembersError {
    let refused = match error {
        RaftError::Fatal(fatal) => return MembersError::Stopped(fatal.to_string()),
        // After it was proposed, like a command that was cut from the log.
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => return MembersError::Undecided,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(refused)) => refused,
    };
    match refused {
        ChangeMembershipError::InProgress(_) => MembersError::InProgress,
        ChangeMembershipError::LearnerNotFound(_) => MembersError::NotAMember,
        ChangeMembershipError::EmptyMembership(_) => MembersError::VoterCount { count: 0 },
    }
}
