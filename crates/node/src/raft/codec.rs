//! openraft's values as protobuf and back. One set of messages serves the wire and the disk; on disk a format byte comes
//! first, so that a later build can tell what it reads. What comes in is checked: nothing here panics on bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use prost::Message;
use wire::peer::{self, raft_append_reply, raft_entry};

use super::types::{Address, Command, Entry, LogId, Membership, SnapshotMeta, StoredMembership, Types, Vote};

/// The first byte of every stored record. Raised when a record's meaning changes, never reused.
pub(crate) const FORMAT: u8 = 1;

/// Bytes that are no message of ours, or a message without a part that it cannot do without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed: {0}")]
pub(crate) struct Malformed(pub(crate) String);

/// A record for the disk: format byte, then the message.
pub(crate) fn record(message: &impl Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + message.encoded_len());
    out.push(FORMAT);
    message.encode(&mut out).expect("a Vec grows as far as it must");
    out
}

/// The message of a record, if its format is one that this build reads.
pub(crate) fn from_record<M: Message + Default>(record: &[u8]) -> Result<M, Malformed> {
    match record.split_first() {
        Some((&FORMAT, message)) => {
            M::decode(Bytes::copy_from_slice(message)).map_err(|error| Malformed(error.to_string()))
        }
        Some((format, _)) => Err(Malformed(format!("record format {format}; this build reads {FORMAT}"))),
        None => Err(Malformed("empty record".to_owned())),
    }
}

pub(crate) fn vote_out(vote: &Vote) -> peer::RaftVote {
    peer::RaftVote { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
}

pub(crate) fn vote_in(vote: Option<peer::RaftVote>) -> Result<Vote, Malformed> {
    let vote = vote.ok_or_else(|| missing("vote"))?;
    Ok(Vote { leader_id: openraft::LeaderId::new(vote.term, vote.node), committed: vote.committed })
}

pub(crate) fn log_id_out(id: &LogId) -> peer::RaftLogId {
    peer::RaftLogId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
}

pub(crate) fn log_id_in(id: peer::RaftLogId) -> LogId {
    LogId::new(openraft::LeaderId::new(id.term, id.node), id.index)
}

pub(crate) fn entry_out(entry: &Entry) -> peer::RaftEntry {
    let payload = match &entry.payload {
        EntryPayload::Blank => None,
        EntryPayload::Normal(Command(bytes)) => Some(raft_entry::Payload::Command(bytes.clone())),
        EntryPayload::Membership(members) => Some(raft_entry::Payload::Membership(membership_out(members))),
    };
    peer::RaftEntry { id: Some(log_id_out(&entry.log_id)), payload }
}

pub(crate) fn entry_in(entry: peer::RaftEntry) -> Result<Entry, Malformed> {
    let log_id = log_id_in(entry.id.ok_or_else(|| missing("entry id"))?);
    let payload = match entry.payload {
        None => EntryPayload::Blank,
        Some(raft_entry::Payload::Command(bytes)) => EntryPayload::Normal(Command(bytes)),
        Some(raft_entry::Payload::Membership(members)) => EntryPayload::Membership(membership_in(members)),
    };
    Ok(Entry { log_id, payload })
}

pub(crate) fn append_out(append: &AppendEntriesRequest<Types>) -> peer::RaftAppend {
    peer::RaftAppend {
        vote: Some(vote_out(&append.vote)),
        previous: append.prev_log_id.as_ref().map(log_id_out),
        entries: append.entries.iter().map(entry_out).collect(),
        committed: append.leader_commit.as_ref().map(log_id_out),
    }
}

pub(crate) fn append_in(append: peer::RaftAppend) -> Result<AppendEntriesRequest<Types>, Malformed> {
    let prev_log_id = append.previous.map(log_id_in);
    let entries = append.entries.into_iter().map(entry_in).collect::<Result<Vec<_>, _>>()?;
    consecutive(prev_log_id.as_ref(), &entries)?;
    let leader_commit = append.committed.map(log_id_in);
    Ok(AppendEntriesRequest { vote: vote_in(append.vote)?, prev_log_id, entries, leader_commit })
}

pub(crate) fn append_reply_out(reply: &AppendEntriesResponse<u64>) -> peer::RaftAppendReply {
    use raft_append_reply::Reply;
    let reply = match reply {
        AppendEntriesResponse::Success => Reply::Accepted(peer::RaftAccepted {}),
        AppendEntriesResponse::PartialSuccess(last) => {
            Reply::AcceptedUpTo(peer::RaftAcceptedUpTo { last: last.as_ref().map(log_id_out) })
        }
        AppendEntriesResponse::Conflict => Reply::Conflict(peer::RaftConflict {}),
        AppendEntriesResponse::HigherVote(vote) => Reply::HigherVote(vote_out(vote)),
    };
    peer::RaftAppendReply { reply: Some(reply) }
}

pub(crate) fn append_reply_in(reply: peer::RaftAppendReply) -> Result<AppendEntriesResponse<u64>, Malformed> {
    use raft_append_reply::Reply;
    Ok(match reply.reply.ok_or_else(|| missing("reply"))? {
        Reply::Accepted(_) => AppendEntriesResponse::Success,
        Reply::AcceptedUpTo(up_to) => AppendEntriesResponse::PartialSuccess(up_to.last.map(log_id_in)),
        Reply::Conflict(_) => AppendEntriesResponse::Conflict,
        Reply::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote_in(Some(vote))?),
    })
}

pub(crate) fn vote_request_out(request: &VoteRequest<u64>) -> peer::RaftVoteRequest {
    peer::RaftVoteRequest { vote: Some(vote_out(&request.vote)), last: request.last_log_id.as_ref().map(log_id_out) }
}

pub(crate) fn vote_request_in(request: peer::RaftVoteRequest) -> Result<VoteRequest<u64>, Malformed> {
    Ok(VoteRequest::new(vote_in(request.vote)?, request.last.map(log_id_in)))
}

pub(crate) fn vote_reply_out(reply: &VoteResponse<u64>, left_out_by: Option<LogId>) -> peer::RaftVoteReply {
    peer::RaftVoteReply {
        vote: Some(vote_out(&reply.vote)),
        granted: reply.vote_granted,
        last: reply.last_log_id.as_ref().map(log_id_out),
        left_out_by: left_out_by.as_ref().map(log_id_out),
    }
}

pub(crate) fn vote_reply_in(reply: peer::RaftVoteReply) -> Result<(VoteResponse<u64>, Option<LogId>), Malformed> {
    let response = VoteResponse::new(vote_in(reply.vote)?, reply.last.map(log_id_in), reply.granted);
    Ok((response, reply.left_out_by.map(log_id_in)))
}

pub(crate) fn snapshot_meta_out(meta: &SnapshotMeta) -> peer::RaftSnapshotMeta {
    peer::RaftSnapshotMeta {
        last: meta.last_log_id.as_ref().map(log_id_out),
        membership_id: meta.last_membership.log_id().as_ref().map(log_id_out),
        membership: Some(membership_out(meta.last_membership.membership())),
        id: meta.snapshot_id.clone(),
    }
}

pub(crate) fn snapshot_meta_in(meta: peer::RaftSnapshotMeta) -> Result<SnapshotMeta, Malformed> {
    let membership = membership_in(meta.membership.ok_or_else(|| missing("membership"))?);
    Ok(SnapshotMeta {
        last_log_id: meta.last.map(log_id_in),
        last_membership: StoredMembership::new(meta.membership_id.map(log_id_in), membership),
        snapshot_id: meta.id,
    })
}

fn membership_out(members: &Membership) -> peer::RaftMembership {
    let voters =
        members.get_joint_config().iter().map(|set| peer::RaftVoters { ids: set.iter().copied().collect() }).collect();
    let peers = members
        .nodes()
        .map(|(id, at)| peer::RaftPeer { id: *id, address: at.address.clone(), name: at.name.clone() })
        .collect();
    peer::RaftMembership { voters, peers }
}

fn membership_in(members: peer::RaftMembership) -> Membership {
    let voters: Vec<BTreeSet<u64>> = members.voters.into_iter().map(|set| set.ids.into_iter().collect()).collect();
    let peers: BTreeMap<u64, Address> =
        members.peers.into_iter().map(|peer| (peer.id, Address { address: peer.address, name: peer.name })).collect();
    Membership::new(voters, peers)
}

/// openraft takes it for granted that entries follow each other without a hole; whoever sends others is refused here.
fn consecutive(previous: Option<&LogId>, entries: &[Entry]) -> Result<(), Malformed> {
    let first = previous.map_or(Some(0), |id| id.index.checked_add(1));
    let due = |nth: usize| first.and_then(|first| first.checked_add(nth as u64));
    let fits = entries.iter().enumerate().all(|(nth, entry)| due(nth) == Some(entry.log_id.index));
    if fits { Ok(()) } else { Err(Malformed("entries do not follow each other".to_owned())) }
}

fn missing(what: &str) -> Malformed {
    Malformed(format!("no {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn log_id(term: u64, index: u64) -> LogId {
        LogId::new(openraft::LeaderId::new(term, 7), index)
    }

    fn members() -> Membership {
        let at = |n: u64| Address { address: format!("10.0.0.{n}:7601"), name: format!("n{n}") };
        let peers: BTreeMap<u64, Address> = (1..=4).map(|n| (n, at(n))).collect();
        Membership::new(vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2])], peers)
    }

    #[test]
    fn every_kind_of_entry_survives_a_round_trip_through_its_record() {
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Normal(Command(Bytes::new())),
            EntryPayload::Normal(Command(Bytes::from_static(b"bytes"))),
            EntryPayload::Membership(members()),
        ];
        for payload in payloads {
            let entry = Entry { log_id: log_id(3, 9), payload };
            let stored = record(&entry_out(&entry));
            assert_eq!(stored[0], FORMAT);
            assert_eq!(entry_in(from_record(&stored).unwrap()).unwrap(), entry);
        }
    }

    #[test]
    fn a_learner_stays_a_learner_and_a_joint_change_stays_joint() {
        let back = membership_in(membership_out(&members()));
        assert_eq!(back, members());
        assert_eq!(back.learner_ids().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_record_of_another_format_is_refused_by_number() {
        let refusal = from_record::<peer::RaftVote>(&[9, 8, 1]).unwrap_err();
        assert_eq!(refusal.0, "record format 9; this build reads 1");
        assert!(from_record::<peer::RaftVote>(&[]).is_err());
        assert!(from_record::<peer::RaftEntry>(&[FORMAT, 0xff]).is_err());
    }

    #[test]
    fn an_append_with_a_hole_in_it_is_refused() {
        let append = |indices: &[u64]| peer::RaftAppend {
            vote: Some(peer::RaftVote { term: 1, node: 7, committed: true }),
            previous: Some(log_id_out(&log_id(1, 4))),
            entries: indices
                .iter()
                .map(|&index| peer::RaftEntry { id: Some(log_id_out(&log_id(1, index))), payload: None })
                .collect(),
            committed: None,
        };
        assert_eq!(append_in(append(&[5, 6])).unwrap().entries.len(), 2);
        assert!(append_in(append(&[6])).is_err());
        assert!(append_in(append(&[5, 7])).is_err());
        assert!(append_in(peer::RaftAppend { vote: None, ..append(&[]) }).is_err());
    }

    #[test]
    fn every_answer_to_an_append_survives_a_round_trip() {
        let vote = Vote { leader_id: openraft::LeaderId::new(4, 2), committed: true };
        let answers = [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::PartialSuccess(None),
            AppendEntriesResponse::PartialSuccess(Some(log_id(1, 2))),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(vote),
        ];
        for answer in answers {
            assert_eq!(append_reply_in(append_reply_out(&answer)).unwrap(), answer);
        }
        assert!(append_reply_in(peer::RaftAppendReply { reply: None }).is_err());
    }

    #[test]
    fn a_snapshots_head_survives_a_round_trip() {
        let meta = SnapshotMeta {
            last_log_id: Some(log_id(2, 40)),
            last_membership: StoredMembership::new(Some(log_id(2, 3)), members()),
            snapshot_id: "2-40".to_owned(),
        };
        let stored = record(&snapshot_meta_out(&meta));
        assert_eq!(snapshot_meta_in(from_record(&stored).unwrap()).unwrap(), meta);
    }
}
