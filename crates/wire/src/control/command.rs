//! Entries of the log.

use std::collections::BTreeMap;

use bytes::Bytes;
use control::{
    Addresses, AppointedBy, ClusterId, Command, Expected, Genesis, HashIds, InlineProposal, LeaseTerms, LimitDigest,
    NodeSpec, PolicyProposal, Run, VersionRange,
};
use limits::{FingerprintKey, Span};
use ownership::SessionId;
use ring::{PartitionCount, PartitionId, RoutingSeed};

use super::{
    DecodeError, from_bytes, incarnation_from_bytes, incarnation_to_bytes, narrow, node_id, present,
    session_from_proto, session_to_proto, sixteen, to_bytes,
};
use crate::peer as proto;
use crate::peer::command::Command as Wire;

/// A command as the log holds it: the format byte, then `ringfence.peer.v1.Command`.
pub fn command_to_bytes(command: &Command) -> Bytes {
    let command = match command {
        Command::Found(genesis) => Wire::Found(genesis_to_proto(genesis)),
        Command::OpenSession { session, node } => Wire::OpenSession(proto::OpenSession {
            session: Some(session_to_proto(*session)),
            node: Some(node_spec_to_proto(node)),
        }),
        Command::Release { session, takeovers } => Wire::Release(proto::ReleaseSession {
            session: Some(session_to_proto(*session)),
            takeovers: Some(runs_to_proto(takeovers)),
        }),
        Command::Expire { sessions, takeovers } => Wire::Expire(proto::ExpireSessions {
            sessions: sessions.iter().copied().map(session_to_proto).collect(),
            takeovers: Some(runs_to_proto(takeovers)),
        }),
        Command::Appoint { runs, by } => Wire::Appoint(proto::AppointRuns {
            runs: Some(runs_to_proto(runs)),
            by_operator: *by == AppointedBy::Operator,
        }),
        Command::ApplyPolicy(proposal) => Wire::ApplyPolicy(policy_to_proto(proposal)),
        Command::DefineInline(proposal) => Wire::DefineInline(inline_to_proto(proposal)),
        Command::LowerNMax { to } => Wire::LowerNMax(*to),
        Command::SetTtl { ttl } => Wire::SetTtlNanos(ttl.as_nanos()),
        Command::SettleTtl { since } => Wire::SettleTtlSince(*since),
        Command::Keep { session, number, store } => Wire::Keep(proto::Keep {
            session: Some(session_to_proto(*session)),
            number: *number,
            store: store.as_ref().map(incarnation_to_bytes),
        }),
        Command::Trust { incarnation } => Wire::Trust(incarnation_to_bytes(incarnation)),
    };
    to_bytes(&proto::Command { command: Some(command) })
}

/// A command from the log, or from a peer that has one to propose.
///
/// # Errors
///
/// [`DecodeError`]: whether the command is legal is for `control` to say, here it is only read.
pub fn command_from_bytes(bytes: &[u8]) -> Result<Command, DecodeError> {
    let message: proto::Command = from_bytes(bytes)?;
    Ok(match message.command.ok_or(DecodeError::UnknownCommand)? {
        Wire::Found(genesis) => Command::Found(Box::new(genesis_from_proto(genesis)?)),
        Wire::OpenSession(open) => Command::OpenSession {
            session: session_from_proto(open.session)?,
            node: Box::new(node_spec_from_proto(present(open.node, "node")?)?),
        },
        Wire::Release(release) => Command::Release {
            session: session_from_proto(release.session)?,
            takeovers: runs_from_proto(release.takeovers)?,
        },
        Wire::Expire(expire) => Command::Expire {
            sessions: expire
                .sessions
                .into_iter()
                .map(|session| session_from_proto(Some(session)))
                .collect::<Result<_, _>>()?,
            takeovers: runs_from_proto(expire.takeovers)?,
        },
        Wire::Appoint(appoint) => Command::Appoint {
            runs: runs_from_proto(appoint.runs)?,
            by: if appoint.by_operator { AppointedBy::Operator } else { AppointedBy::Leader },
        },
        Wire::ApplyPolicy(proposal) => Command::ApplyPolicy(Box::new(policy_from_proto(proposal)?)),
        Wire::DefineInline(proposal) => Command::DefineInline(Box::new(inline_from_proto(proposal)?)),
        Wire::LowerNMax(to) => Command::LowerNMax { to },
        Wire::SetTtlNanos(nanos) => Command::SetTtl { ttl: Span::from_nanos(nanos) },
        Wire::SettleTtlSince(since) => Command::SettleTtl { since },
        Wire::Keep(keep) => Command::Keep {
            session: session_from_proto(keep.session)?,
            number: keep.number,
            store: keep.store.as_deref().map(incarnation_from_bytes).transpose()?,
        },
        Wire::Trust(incarnation) => Command::Trust { incarnation: incarnation_from_bytes(&incarnation)? },
    })
}

pub(super) fn genesis_to_proto(genesis: &Genesis) -> proto::Genesis {
    let HashIds { routing, fingerprint, placement } = genesis.hashes;
    let LeaseTerms { ttl, renew, rho_per_mille, d_max } = genesis.lease;
    proto::Genesis {
        cluster: Bytes::copy_from_slice(&genesis.cluster.0),
        format: genesis.format.into(),
        cluster_version: genesis.cluster_version,
        name: genesis.name.clone(),
        founders: genesis.founders.clone(),
        partitions: genesis.partitions.get().into(),
        routing_hash: routing.into(),
        fingerprint_hash: fingerprint.into(),
        placement_hash: placement.into(),
        key_encoding: genesis.key_encoding.into(),
        routing_seed: Bytes::copy_from_slice(&genesis.routing_seed.0),
        fingerprint_key: Bytes::copy_from_slice(&genesis.fingerprint_key.0),
        ttl_nanos: ttl.as_nanos(),
        renew_nanos: renew.as_nanos(),
        rho_per_mille: rho_per_mille.into(),
        d_max_nanos: d_max.as_nanos(),
    }
}

pub(super) fn genesis_from_proto(genesis: proto::Genesis) -> Result<Genesis, DecodeError> {
    let partitions = PartitionCount::new(narrow(genesis.partitions, "partitions")?);
    Ok(Genesis {
        cluster: ClusterId(sixteen(&genesis.cluster, "cluster")?),
        format: narrow(genesis.format, "format")?,
        cluster_version: genesis.cluster_version,
        name: genesis.name,
        founders: genesis.founders,
        partitions: partitions.ok_or(DecodeError::OutOfRange("partitions"))?,
        hashes: HashIds {
            routing: narrow(genesis.routing_hash, "routing_hash")?,
            fingerprint: narrow(genesis.fingerprint_hash, "fingerprint_hash")?,
            placement: narrow(genesis.placement_hash, "placement_hash")?,
        },
        key_encoding: narrow(genesis.key_encoding, "key_encoding")?,
        routing_seed: RoutingSeed(sixteen(&genesis.routing_seed, "routing_seed")?),
        fingerprint_key: FingerprintKey(sixteen(&genesis.fingerprint_key, "fingerprint_key")?),
        lease: LeaseTerms {
            ttl: Span::from_nanos(genesis.ttl_nanos),
            renew: Span::from_nanos(genesis.renew_nanos),
            rho_per_mille: narrow(genesis.rho_per_mille, "rho_per_mille")?,
            d_max: Span::from_nanos(genesis.d_max_nanos),
        },
    })
}

/// A node's description on the wire.
pub fn node_spec_to_proto(node: &NodeSpec) -> proto::NodeSpec {
    let Addresses { peer, api, admin } = node.addresses.clone();
    proto::NodeSpec {
        id: node.id.0.get(),
        name: node.name.clone(),
        peer,
        api,
        admin,
        oldest_version: node.versions.oldest,
        newest_version: node.versions.newest,
    }
}

/// A node's description from the wire.
///
/// # Errors
///
/// An id of zero is out of range.
pub fn node_spec_from_proto(node: proto::NodeSpec) -> Result<NodeSpec, DecodeError> {
    Ok(NodeSpec {
        id: node_id(node.id, "node.id")?,
        name: node.name,
        addresses: Addresses { peer: node.peer, api: node.api, admin: node.admin },
        versions: VersionRange { oldest: node.oldest_version, newest: node.newest_version },
    })
}

fn runs_to_proto(runs: &[Run]) -> proto::Runs {
    let mut message = proto::Runs::default();
    let mut positions: BTreeMap<SessionId, u32> = BTreeMap::new();
    for run in runs {
        let next = positions.len() as u32;
        let to = *positions.entry(run.to).or_insert_with(|| {
            message.sessions.push(session_to_proto(run.to));
            next
        });
        message.first.push(run.first.0.into());
        message.len.push(run.len.into());
        message.to.push(to);
    }
    message
}

fn runs_from_proto(runs: Option<proto::Runs>) -> Result<Vec<Run>, DecodeError> {
    let proto::Runs { sessions, first, len, to } = present(runs, "runs")?;
    if first.len() != len.len() || first.len() != to.len() {
        return Err(DecodeError::OutOfRange("runs"));
    }
    let sessions: Vec<SessionId> =
        sessions.into_iter().map(|session| session_from_proto(Some(session))).collect::<Result<_, _>>()?;
    let columns = first.into_iter().zip(len).zip(to);
    columns
        .map(|((first, len), to)| {
            let to = sessions.get(to as usize).copied().ok_or(DecodeError::OutOfRange("runs.to"))?;
            Ok(Run { first: PartitionId(narrow(first, "runs.first")?), len: narrow(len, "runs.len")?, to })
        })
        .collect()
}

fn policy_to_proto(proposal: &PolicyProposal) -> proto::ApplyPolicy {
    let limit = |limit: &LimitDigest| proto::LimitDigest {
        name: limit.name.clone(),
        digest: Bytes::copy_from_slice(&limit.digest),
        renamed_from: limit.renamed_from.clone(),
    };
    proto::ApplyPolicy {
        domain: proposal.domain.clone(),
        expected_revision: match proposal.expected {
            Expected::Any => None,
            Expected::Revision(revision) => Some(revision),
        },
        document: proposal.document.to_string(),
        limits: proposal.limits.iter().map(limit).collect(),
        author: proposal.author.clone(),
        reason: proposal.reason.clone(),
        at_unix_ms: proposal.at_unix_ms,
    }
}

fn inline_to_proto(proposal: &InlineProposal) -> proto::DefineInline {
    let InlineProposal { domain, revision, name, digest, definition, most } = proposal;
    proto::DefineInline {
        domain: domain.clone(),
        revision: *revision,
        name: name.clone(),
        digest: Bytes::copy_from_slice(digest),
        definition: definition.to_string(),
        most: *most,
    }
}

fn inline_from_proto(proposal: proto::DefineInline) -> Result<InlineProposal, DecodeError> {
    let proto::DefineInline { domain, revision, name, digest, definition, most } = proposal;
    let digest = sixteen(&digest, "digest")?;
    Ok(InlineProposal { domain, revision, name, digest, definition: definition.into(), most })
}

fn policy_from_proto(proposal: proto::ApplyPolicy) -> Result<PolicyProposal, DecodeError> {
    let limit = |limit: proto::LimitDigest| {
        let digest = sixteen(&limit.digest, "limits.digest")?;
        Ok(LimitDigest { name: limit.name, digest, renamed_from: limit.renamed_from })
    };
    Ok(PolicyProposal {
        domain: proposal.domain,
        expected: proposal.expected_revision.map_or(Expected::Any, Expected::Revision),
        document: proposal.document.into(),
        limits: proposal.limits.into_iter().map(limit).collect::<Result<_, DecodeError>>()?,
        author: proposal.author,
        reason: proposal.reason,
        at_unix_ms: proposal.at_unix_ms,
    })
}
