//! The words of founding, between nodes and on disk. Only the cluster's secret speaks for a peer, so texts are cut to
//! size here as anywhere: names of 1 to 253 bytes, and no more voters than a birth has.

use bytes::Bytes;
use control::founding::{Birth, Hello, PromiseAnswer, PromiseReply, PromiseRequest, Standing, VOTERS_MAX, Voter};
use control::{ClusterId, FoundersDigest, NAME_MAX};

use super::{DecodeError, from_bytes, node_id, present, sixteen, to_bytes};
use crate::peer as proto;
use crate::peer::promise_reply::Answer as Wire;
use crate::peer::standing::Standing as WireStanding;

/// What founding wrote down: the format byte, then `ringfence.peer.v1.Standing`.
pub fn standing_to_bytes(standing: &Standing) -> Bytes {
    let standing = match standing {
        Standing::Free => None,
        Standing::Promised { name, founder, founders } => Some(WireStanding::Promised(proto::StandingPromised {
            name: name.clone(),
            founder: founder.0.get(),
            founders_digest: Bytes::copy_from_slice(&founders.0),
        })),
        Standing::Member(birth) => Some(WireStanding::Member(birth_to_proto(birth))),
    };
    to_bytes(&proto::Standing { standing })
}

/// What founding wrote down.
///
/// # Errors
///
/// [`DecodeError`]: a node that cannot read what it promised does not start.
pub fn standing_from_bytes(bytes: &[u8]) -> Result<Standing, DecodeError> {
    let message: proto::Standing = from_bytes(bytes)?;
    Ok(match message.standing {
        None => Standing::Free,
        Some(WireStanding::Promised(promised)) => Standing::Promised {
            name: name_from_proto(promised.name)?,
            founder: node_id(promised.founder, "founder")?,
            founders: digest_from_proto(&promised.founders_digest)?,
        },
        Some(WireStanding::Member(birth)) => Standing::Member(birth_from_proto(birth)?),
    })
}

/// A hello on the wire.
pub fn hello_to_proto(hello: &Hello) -> proto::Hello {
    proto::Hello {
        from: Some(voter_to_proto(&hello.from)),
        founders_digest: Bytes::copy_from_slice(&hello.founders.0),
        cluster: hello.cluster.as_ref().map(birth_to_proto),
        challenge: hello.challenge,
        echo: hello.echo,
    }
}

/// A hello from the wire.
///
/// # Errors
///
/// [`DecodeError`] names the field.
pub fn hello_from_proto(hello: proto::Hello) -> Result<Hello, DecodeError> {
    Ok(Hello {
        from: voter_from_proto(present(hello.from, "from")?)?,
        founders: digest_from_proto(&hello.founders_digest)?,
        cluster: hello.cluster.map(birth_from_proto).transpose()?,
        challenge: hello.challenge,
        echo: hello.echo,
    })
}

/// The founder's question on the wire.
pub fn promise_request_to_proto(request: &PromiseRequest) -> proto::PromiseRequest {
    proto::PromiseRequest {
        from: Some(voter_to_proto(&request.from)),
        founders_digest: Bytes::copy_from_slice(&request.founders.0),
        nonce: request.nonce,
        proof: request.proof,
    }
}

/// The founder's question from the wire.
///
/// # Errors
///
/// [`DecodeError`] names the field.
pub fn promise_request_from_proto(request: proto::PromiseRequest) -> Result<PromiseRequest, DecodeError> {
    Ok(PromiseRequest {
        from: voter_from_proto(present(request.from, "from")?)?,
        founders: digest_from_proto(&request.founders_digest)?,
        nonce: request.nonce,
        proof: request.proof,
    })
}

/// The answer to the founder on the wire.
pub fn promise_reply_to_proto(reply: &PromiseReply) -> proto::PromiseReply {
    let answer = match &reply.answer {
        PromiseAnswer::Promised => Wire::Promised(proto::Nothing {}),
        PromiseAnswer::Member(birth) => Wire::Member(birth_to_proto(birth)),
        PromiseAnswer::Prove { challenge } => Wire::Prove(*challenge),
        PromiseAnswer::WrongFounders => Wire::WrongFounders(proto::Nothing {}),
        PromiseAnswer::NotYours => Wire::NotYours(proto::Nothing {}),
        PromiseAnswer::PromisedTo { founder } => Wire::PromisedTo(founder.clone()),
    };
    proto::PromiseReply { from: Some(voter_to_proto(&reply.from)), nonce: reply.nonce, answer: Some(answer) }
}

/// The answer to the founder from the wire.
///
/// # Errors
///
/// [`DecodeError`] names the field.
pub fn promise_reply_from_proto(reply: proto::PromiseReply) -> Result<PromiseReply, DecodeError> {
    let answer = match present(reply.answer, "answer")? {
        Wire::Promised(_) => PromiseAnswer::Promised,
        Wire::Member(birth) => PromiseAnswer::Member(birth_from_proto(birth)?),
        Wire::Prove(challenge) => PromiseAnswer::Prove { challenge },
        Wire::WrongFounders(_) => PromiseAnswer::WrongFounders,
        Wire::NotYours(_) => PromiseAnswer::NotYours,
        Wire::PromisedTo(founder) => PromiseAnswer::PromisedTo { founder: name_from_proto(founder)? },
    };
    Ok(PromiseReply { from: voter_from_proto(present(reply.from, "from")?)?, nonce: reply.nonce, answer })
}

/// A cluster's uuid from its 16 bytes.
///
/// # Errors
///
/// Any other length is out of range.
pub fn cluster_id_from_bytes(bytes: &[u8]) -> Result<ClusterId, DecodeError> {
    Ok(ClusterId(sixteen(bytes, "cluster")?))
}

fn birth_to_proto(birth: &Birth) -> proto::Birth {
    proto::Birth {
        cluster: Bytes::copy_from_slice(&birth.cluster.0),
        founder: birth.founder.0.get(),
        voters: birth.voters.iter().map(voter_to_proto).collect(),
    }
}

fn birth_from_proto(birth: proto::Birth) -> Result<Birth, DecodeError> {
    if !(1..=VOTERS_MAX).contains(&birth.voters.len()) {
        return Err(DecodeError::OutOfRange("voters"));
    }
    Ok(Birth {
        cluster: cluster_id_from_bytes(&birth.cluster)?,
        founder: node_id(birth.founder, "founder")?,
        voters: birth.voters.into_iter().map(voter_from_proto).collect::<Result<_, _>>()?,
    })
}

fn voter_to_proto(voter: &Voter) -> proto::FoundingNode {
    proto::FoundingNode { name: voter.name.clone(), id: voter.id.0.get(), peer: voter.peer.clone() }
}

fn voter_from_proto(node: proto::FoundingNode) -> Result<Voter, DecodeError> {
    if node.peer.len() > NAME_MAX {
        return Err(DecodeError::OutOfRange("peer"));
    }
    Ok(Voter { name: name_from_proto(node.name)?, id: node_id(node.id, "node.id")?, peer: node.peer })
}

fn name_from_proto(name: String) -> Result<String, DecodeError> {
    if (1..=NAME_MAX).contains(&name.len()) { Ok(name) } else { Err(DecodeError::OutOfRange("name")) }
}

fn digest_from_proto(digest: &[u8]) -> Result<FoundersDigest, DecodeError> {
    Ok(FoundersDigest(sixteen(digest, "founders_digest")?))
}
