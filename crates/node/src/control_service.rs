//! What other nodes ask of this one about the cluster itself: hellos and promises while it is being founded, to be added
//! to the log, and to have a command proposed.

use std::sync::Arc;

use control::NodeSpec;
use tonic::{Request, Response, Status};
use wire::peer as proto;
use wire::peer::committed_reply::Reply as Committed;
use wire::peer::control_server::Control;
use wire::peer::followed_reply::Reply as Followed;
use wire::peer::join_reply::Reply as Joined;
use wire::peer::propose_reply::Reply as Proposed;
use wire::peer::renewals_reply::Reply as Renewals;

use crate::desk::Desk;
use crate::founding::Founder;
use crate::raft::{ConfirmError, MembersError, Peer, ProposeError, RaftNode};
use crate::top;
use crate::views::Views;

/// The service that peers call.
#[derive(Clone)]
pub struct ControlService {
    /// Answers while the cluster is founded, and after.
    pub founder: Arc<Founder>,
    /// Takes commands and members, where this node leads.
    pub raft: RaftNode,
    /// Knows who renews, where this node leads.
    pub desk: Arc<Desk>,
    /// What the top keys are read from.
    pub views: Arc<Views>,
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn hello(&self, request: Request<proto::Hello>) -> Result<Response<proto::Hello>, Status> {
        let hello = wire::control::hello_from_proto(request.into_inner()).map_err(malformed)?;
        Ok(Response::new(wire::control::hello_to_proto(&self.founder.hear(hello))))
    }

    async fn promise(&self, request: Request<proto::PromiseRequest>) -> Result<Response<proto::PromiseReply>, Status> {
        let request = wire::control::promise_request_from_proto(request.into_inner()).map_err(malformed)?;
        match self.founder.promise(request).await {
            Some(reply) => Ok(Response::new(wire::control::promise_reply_to_proto(&reply))),
            None => Err(Status::unavailable("not answered; ask again")),
        }
    }

    async fn join(&self, request: Request<proto::JoinRequest>) -> Result<Response<proto::JoinReply>, Status> {
        let proto::JoinRequest { node, cluster } = request.into_inner();
        let node = node.ok_or_else(|| Status::invalid_argument("node is missing"))?;
        let node = wire::control::node_spec_from_proto(node).map_err(malformed)?;
        let ours = self.founder.uuid().is_some_and(|uuid| uuid.bytes()[..] == cluster[..]);
        let reply = if ours { self.add(&node).await? } else { Joined::WrongCluster(proto::Nothing {}) };
        Ok(Response::new(proto::JoinReply { reply: Some(reply) }))
    }

    async fn propose(&self, request: Request<proto::ProposeRequest>) -> Result<Response<proto::ProposeReply>, Status> {
        let reply = match self.raft.propose(request.into_inner().command).await {
            Ok(done) => Proposed::Outcome(done.reply),
            Err(ProposeError::NotLeader { leader }) => Proposed::NotLeader(hint_of(leader)),
            // The leader has too much to do; nothing was proposed, so asking again is right.
            Err(ProposeError::Busy) => Proposed::NotLeader(hint_of(None)),
            Err(ProposeError::TooLarge { .. }) => Proposed::TooLarge(proto::Nothing {}),
            Err(error @ (ProposeError::Undecided | ProposeError::Stopped(_))) => Proposed::Undecided(error.to_string()),
        };
        Ok(Response::new(proto::ProposeReply { reply: Some(reply) }))
    }

    async fn renewals(
        &self,
        request: Request<proto::RenewalsRequest>,
    ) -> Result<Response<proto::RenewalsReply>, Status> {
        let session = request.into_inner().session.ok_or_else(|| Status::invalid_argument("session is missing"))?;
        let session = wire::forward::session_from_proto(&session).map_err(malformed)?;
        let reply = match self.desk.heard(session) {
            Some(Some(seq)) => Renewals::Heard(seq),
            Some(None) => Renewals::Unknown(proto::Nothing {}),
            None => Renewals::NotLeader(hint_of(self.raft.watch().borrow().leader_peer().cloned())),
        };
        Ok(Response::new(proto::RenewalsReply { reply: Some(reply) }))
    }

    async fn followed(&self, _: Request<proto::FollowedRequest>) -> Result<Response<proto::FollowedReply>, Status> {
        let reply = match self.desk.applied_by_all() {
            Some(applied) => Followed::Applied(applied),
            None => Followed::NotLeader(hint_of(self.raft.watch().borrow().leader_peer().cloned())),
        };
        Ok(Response::new(proto::FollowedReply { reply: Some(reply) }))
    }

    async fn committed(&self, _: Request<proto::CommittedRequest>) -> Result<Response<proto::CommittedReply>, Status> {
        let reply = match self.raft.confirm_leadership().await {
            Ok(confirmed) => Committed::Index(confirmed.index),
            Err(ConfirmError::NotLeader { leader }) => Committed::NotLeader(hint_of(leader)),
            // It may lead, and cannot say so: asking again is right.
            Err(ConfirmError::NoQuorum | ConfirmError::Busy | ConfirmError::Stopped(_)) => {
                Committed::NotLeader(hint_of(None))
            }
        };
        Ok(Response::new(proto::CommittedReply { reply: Some(reply) }))
    }

    async fn top(&self, request: Request<proto::TopRequest>) -> Result<Response<proto::TopReply>, Status> {
        let asked = wire::top::top_asked_from_proto(request.into_inner()).map_err(malformed)?;
        let told = top::told_here(self.views.policies.load_full(), asked).await;
        Ok(Response::new(wire::top::top_told_to_proto(told)))
    }
}

impl ControlService {
    async fn add(&self, node: &NodeSpec) -> Result<Joined, Status> {
        let peer = Peer { id: node.id, address: node.addresses.peer.clone(), name: node.name.clone() };
        // Not until it has caught up: its log is shut until it knows that it was added.
        match self.raft.admit(&peer).await {
            Ok(_) => Ok(Joined::Accepted(proto::Nothing {})),
            Err(MembersError::NotLeader { leader }) => Ok(Joined::NotLeader(hint_of(leader))),
            // Another change is under way, or its outcome is not known: the node asks again.
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}

fn hint_of(leader: Option<Peer>) -> proto::LeaderHint {
    leader.map_or_else(proto::LeaderHint::default, |peer| proto::LeaderHint { id: peer.id.0.get(), peer: peer.address })
}

fn malformed(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(error.to_string())
}
