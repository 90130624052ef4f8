//! The receiving half of the path between nodes: batches of checks are decided here or answered with the reason why not,
//! and renewals are handed to the lease desk of the leader. Nothing is forwarded from here: a second hop cannot happen.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use ownership::{Answer, Check, Epoch};
use ring::PartitionId;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use wire::forward::{Forwarded, Reply, forwarded_from_proto, reply_to_proto};
use wire::lease::{renewal_from_proto, renewed_to_proto};
use wire::peer as proto;
use wire::peer::peer_server::Peer;

use crate::desk::Desk;
use crate::ingress::Ingress;
use crate::owner::{Owner, Reading};
use crate::replica::Followers;

/// Items in one batch at most; a peer that sends more does not keep to the protocol.
pub const ITEMS_MAX: usize = 4_096;

/// The reply to [`Forwarded::Forget`], of which only that it came matters.
const FORGOTTEN: Reply = Reply {
    session: None,
    epoch: Epoch(0),
    clock_nanos: 0,
    revision: 0,
    answer: Answer::NotOwner { epoch: Epoch(0), hint: None },
};

/// The service that peers call.
#[derive(Clone, Debug)]
pub struct PeerService {
    /// Decides.
    pub owner: Arc<Owner>,
    /// Where renewals wait, on a leader.
    pub desk: Arc<Desk>,
    /// Remembers denials, and is told of resets.
    pub ingress: Arc<Ingress>,
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn renew(&self, request: Request<proto::RenewRequest>) -> Result<Response<proto::RenewReply>, Status> {
        let renewal = renewal_from_proto(request.get_ref())
            .map_err(|malformed| Status::invalid_argument(malformed.to_string()))?;
        Ok(Response::new(renewed_to_proto(&self.desk.renew(&renewal).await)))
    }

    type ForwardStream = Pin<Box<dyn Stream<Item = Result<proto::ForwardReplies, Status>> + Send>>;

    async fn forward(
        &self,
        request: Request<Streaming<proto::ForwardBatch>>,
    ) -> Result<Response<Self::ForwardStream>, Status> {
        let service = self.clone();
        Ok(Response::new(Box::pin(request.into_inner().map(move |batch| service.decide(batch?)))))
    }
}

impl PeerService {
    /// The service of a node with these parts.
    pub fn of(parts: &Followers) -> PeerService {
        let Followers { owner, desk, ingress, .. } = parts.clone();
        PeerService { owner, desk, ingress }
    }

    fn decide(&self, batch: proto::ForwardBatch) -> Result<proto::ForwardReplies, Status> {
        if batch.items.len() > ITEMS_MAX {
            return Err(Status::invalid_argument(format!("a batch has at most {ITEMS_MAX} items")));
        }
        let mut waiting = Waiting::default();
        for item in batch.items {
            let item =
                forwarded_from_proto(item).map_err(|malformed| Status::invalid_argument(malformed.to_string()))?;
            match item {
                Forwarded::Check(partition, check) => waiting.push(partition, check),
                Forwarded::Forget => {
                    self.ingress.forget_denials();
                    waiting.replies.push(Some(FORGOTTEN));
                }
                // What is told about a check never overtakes the checks that came before it.
                Forwarded::Cancel(partition, id, asker) => {
                    waiting.decide(self);
                    self.owner.cancel(partition, id, asker);
                }
                Forwarded::Trim(partition, id, asker, units) => {
                    waiting.decide(self);
                    self.owner.trim(partition, id, asker, units);
                }
                Forwarded::Debt(partition, id, asker, legs) => {
                    waiting.decide(self);
                    self.owner.debt(partition, id, asker, &legs);
                }
            }
        }
        waiting.decide(self);
        let replies = waiting.replies.iter().flatten().map(reply_to_proto).collect();
        Ok(proto::ForwardReplies { number: batch.number, replies })
    }
}

/// Checks of one batch that are still to be decided, by partition, and the replies, in the order of the checks.
#[derive(Default)]
struct Waiting {
    partitions: BTreeMap<PartitionId, (Vec<usize>, Vec<Check>)>,
    replies: Vec<Option<Reply>>,
}

impl Waiting {
    fn push(&mut self, partition: PartitionId, check: Check) {
        let (places, checks) = self.partitions.entry(partition).or_default();
        places.push(self.replies.len());
        checks.push(check);
        self.replies.push(None);
    }

    fn decide(&mut self, service: &PeerService) {
        let mut reading = Reading::new();
        let mut answers = Vec::new();
        for (partition, (places, checks)) in std::mem::take(&mut self.partitions) {
            answers.clear();
            let witness = service.owner.decide(partition, &checks, &mut reading, &mut answers);
            for ((place, check), answer) in places.into_iter().zip(&checks).zip(answers.drain(..)) {
                let revision = match (&answer, check.legs.first()) {
                    (Answer::Decided(_), Some(leg)) => witness.policies.revision_of(leg.limit),
                    _ => 0,
                };
                self.replies[place] = Some(Reply {
                    session: witness.session,
                    epoch: witness.epoch,
                    clock_nanos: witness.clock.as_nanos(),
                    revision,
                    answer,
                });
            }
        }
    }
}
