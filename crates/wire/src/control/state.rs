//! Snapshots of the replicated state. The map is stored as columns, and owners as positions among the live sessions:
//! 4,096 partitions take some 20 kB.

use std::collections::BTreeMap;

use bytes::Bytes;
use control::{
    Assignment, Cluster, DomainPolicies, EndedSession, Ending, InlineLimit, InlineLimits, KeptIn, Lease, LimitEntry,
    LiveSession, Map, Policies, PolicyRevision, RetiredLimit, Sessions, State,
};
use limits::{LimitId, Span};
use ownership::kept::{Keeper, Predecessor, Trust};
use ownership::{Epoch, SessionId};

use super::command::{genesis_from_proto, genesis_to_proto, node_spec_from_proto, node_spec_to_proto};
use super::{
    DecodeError, from_bytes, incarnation_from_bytes, incarnation_to_bytes, present, session_from_proto,
    session_to_proto, sixteen, to_bytes,
};
use crate::peer as proto;

/// A snapshot: the format byte, then `ringfence.peer.v1.State`.
pub fn state_to_bytes(state: &State) -> Bytes {
    to_bytes(&proto::State { applied: state.applied(), cluster: state.cluster().map(cluster_to_proto) })
}

/// The state that a snapshot holds.
///
/// # Errors
///
/// [`DecodeError`], also when the parts contradict each other.
pub fn state_from_bytes(bytes: &[u8]) -> Result<State, DecodeError> {
    let message: proto::State = from_bytes(bytes)?;
    let cluster = message.cluster.map(cluster_from_proto).transpose()?;
    Ok(State::restore(message.applied, cluster)?)
}

fn cluster_to_proto(cluster: &Cluster) -> proto::Cluster {
    let Cluster { genesis, lease, sessions, map, policies, trust } = cluster;
    proto::Cluster {
        genesis: Some(genesis_to_proto(genesis)),
        live: sessions.live.iter().map(|(session, live)| live_to_proto(*session, live)).collect(),
        ended: sessions.ended.iter().map(ended_to_proto).collect(),
        n_max: sessions.n_max,
        map: Some(map_to_proto(map, sessions)),
        domains: policies.domains.iter().map(|(name, domain)| domain_to_proto(name, domain)).collect(),
        last_limit: policies.last_limit,
        lease: (lease.changed_at > 0).then(|| proto::Lease {
            ttl_nanos: lease.ttl.as_nanos(),
            waited_nanos: lease.waited.as_nanos(),
            changed_at: lease.changed_at,
        }),
        forgotten_lenders: sessions.forgotten_lenders,
        trust: trust
            .map(|trust| proto::Trust { incarnation: incarnation_to_bytes(&trust.incarnation), since: trust.since }),
    }
}

fn cluster_from_proto(cluster: proto::Cluster) -> Result<Cluster, DecodeError> {
    let live = distinct(cluster.live.into_iter().map(live_from_proto), "live")?;
    let ended = cluster.ended.into_iter().map(ended_from_proto).collect::<Result<_, _>>()?;
    let domains = distinct(cluster.domains.into_iter().map(domain_from_proto), "domains")?;
    let sessions = Sessions { live, ended, n_max: cluster.n_max, forgotten_lenders: cluster.forgotten_lenders };
    let genesis = genesis_from_proto(present(cluster.genesis, "genesis")?)?;
    let founded = Lease::founded(&genesis.lease);
    Ok(Cluster {
        lease: cluster.lease.map_or(founded, lease_from_proto),
        genesis,
        map: map_from_proto(present(cluster.map, "map")?, &sessions)?,
        sessions,
        policies: Policies { domains, last_limit: cluster.last_limit },
        trust: cluster.trust.map(trust_from_proto).transpose()?,
    })
}

fn trust_from_proto(trust: proto::Trust) -> Result<Trust, DecodeError> {
    Ok(Trust { incarnation: incarnation_from_bytes(&trust.incarnation)?, since: trust.since })
}

fn lease_from_proto(lease: proto::Lease) -> Lease {
    let proto::Lease { ttl_nanos, waited_nanos, changed_at } = lease;
    Lease { ttl: Span::from_nanos(ttl_nanos), waited: Span::from_nanos(waited_nanos), changed_at }
}

/// Collects what is named once each.
fn distinct<K: Ord, V>(
    entries: impl Iterator<Item = Result<(K, V), DecodeError>>,
    name: &'static str,
) -> Result<BTreeMap<K, V>, DecodeError> {
    let mut map = BTreeMap::new();
    for entry in entries {
        let (key, value) = entry?;
        if map.insert(key, value).is_some() {
            return Err(DecodeError::OutOfRange(name));
        }
    }
    Ok(map)
}

fn live_to_proto(session: SessionId, live: &LiveSession) -> proto::LiveSession {
    proto::LiveSession {
        session: Some(session_to_proto(session)),
        node: Some(node_spec_to_proto(&live.node)),
        opened_at: live.opened_at,
        kept_number: live.kept.number,
        kept_in: live.kept.store.as_ref().map(incarnation_to_bytes),
    }
}

fn live_from_proto(live: proto::LiveSession) -> Result<(SessionId, LiveSession), DecodeError> {
    let node = node_spec_from_proto(present(live.node, "node")?)?;
    let store = live.kept_in.as_deref().map(incarnation_from_bytes).transpose()?;
    let kept = KeptIn { number: live.kept_number, store };
    Ok((session_from_proto(live.session)?, LiveSession { node, opened_at: live.opened_at, kept }))
}

fn ended_to_proto(ended: &EndedSession) -> proto::EndedSession {
    proto::EndedSession {
        session: Some(session_to_proto(ended.session)),
        name: ended.name.clone(),
        opened_at: ended.opened_at,
        ended_at: ended.ended_at,
        released: ended.ending == Ending::Released,
    }
}

fn ended_from_proto(ended: proto::EndedSession) -> Result<EndedSession, DecodeError> {
    Ok(EndedSession {
        session: session_from_proto(ended.session)?,
        name: ended.name,
        opened_at: ended.opened_at,
        ended_at: ended.ended_at,
        ending: if ended.released { Ending::Released } else { Ending::Expired },
    })
}

fn map_to_proto(map: &Map, sessions: &Sessions) -> proto::Map {
    let positions: BTreeMap<SessionId, u32> = sessions.live.keys().copied().zip(1..).collect();
    let owner = |assignment: &Assignment| assignment.owner.map_or(0, |owner| positions[&owner]);
    let mut predecessors = Vec::new();
    let before = map.assignments.iter().map(|assignment| position_of(assignment.before, &mut predecessors)).collect();
    proto::Map {
        version: map.version,
        epoch: map.assignments.iter().map(|assignment| assignment.epoch.0).collect(),
        owner: map.assignments.iter().map(owner).collect(),
        since: map.assignments.iter().map(|assignment| assignment.since).collect(),
        before: if predecessors.is_empty() { Vec::new() } else { before },
        predecessors: predecessors.iter().map(predecessor_to_proto).collect(),
    }
}

/// 0 for nobody, else one more than the place among those that were named so far. Neighbours mostly have the same.
fn position_of(before: Option<Predecessor>, named: &mut Vec<Predecessor>) -> u32 {
    let Some(before) = before else { return 0 };
    let place = named.iter().rposition(|known| *known == before).unwrap_or_else(|| {
        named.push(before);
        named.len() - 1
    });
    place as u32 + 1
}

fn predecessor_to_proto(before: &Predecessor) -> proto::Predecessor {
    proto::Predecessor {
        session: Some(session_to_proto(before.keeper.session)),
        epoch: before.keeper.epoch.0,
        store: before.store.as_ref().map(incarnation_to_bytes),
        ended_at: before.ended_at,
    }
}

fn predecessor_from_proto(before: proto::Predecessor) -> Result<Predecessor, DecodeError> {
    let keeper = Keeper { epoch: Epoch(before.epoch), session: session_from_proto(before.session)? };
    let store = before.store.as_deref().map(incarnation_from_bytes).transpose()?;
    Ok(Predecessor { keeper, store, ended_at: before.ended_at })
}

fn map_from_proto(map: proto::Map, sessions: &Sessions) -> Result<Map, DecodeError> {
    let proto::Map { version, epoch, owner, since, predecessors, mut before } = map;
    if predecessors.is_empty() && before.is_empty() {
        before.resize(epoch.len(), 0);
    }
    if [owner.len(), since.len(), before.len()].iter().any(|len| *len != epoch.len()) {
        return Err(DecodeError::OutOfRange("map"));
    }
    let predecessors: Vec<_> = predecessors.into_iter().map(predecessor_from_proto).collect::<Result<_, _>>()?;
    let live: Vec<SessionId> = sessions.live.keys().copied().collect();
    let columns = epoch.into_iter().zip(owner).zip(since).zip(before);
    let assignments = columns.map(|(((epoch, owner), since), before)| {
        let (owner, before) = (named(&live, owner, "map.owner")?, named(&predecessors, before, "map.before")?);
        Ok(Assignment { epoch: Epoch(epoch), owner, since, before })
    });
    Ok(Map { assignments: assignments.collect::<Result<_, DecodeError>>()?, version })
}

/// What a column means by this number: nothing by 0.
fn named<T: Copy>(named: &[T], number: u32, column: &'static str) -> Result<Option<T>, DecodeError> {
    let place = number.checked_sub(1).map(|place| named.get(place as usize).copied());
    place.map(|found| found.ok_or(DecodeError::OutOfRange(column))).transpose()
}

fn domain_to_proto(name: &str, domain: &DomainPolicies) -> proto::Domain {
    proto::Domain {
        name: name.to_owned(),
        revisions: domain.revisions.iter().map(revision_to_proto).collect(),
        limits: domain.limits.iter().map(|(name, entry)| limit_to_proto(name, entry)).collect(),
        retired: domain.retired.iter().map(|gone| limit_to_proto(&gone.name, &gone.entry)).collect(),
        inline: domain.inline.limits.iter().map(|(name, limit)| inline_to_proto(name, limit)).collect(),
    }
}

fn domain_from_proto(domain: proto::Domain) -> Result<(String, DomainPolicies), DecodeError> {
    let retired = |limit| limit_from_proto(limit).map(|(name, entry)| RetiredLimit { name, entry });
    let policies = DomainPolicies {
        revisions: domain.revisions.into_iter().map(revision_from_proto).collect(),
        limits: distinct(domain.limits.into_iter().map(limit_from_proto), "limits")?,
        retired: domain.retired.into_iter().map(retired).collect::<Result<_, _>>()?,
        inline: InlineLimits { limits: distinct(domain.inline.into_iter().map(inline_from_proto), "inline")? },
    };
    Ok((domain.name, policies))
}

fn inline_to_proto(name: &str, limit: &InlineLimit) -> proto::InlineLimit {
    proto::InlineLimit {
        limit: Some(limit_to_proto(name, &limit.entry)),
        definition: limit.definition.to_string(),
        revision: limit.revision,
    }
}

fn inline_from_proto(limit: proto::InlineLimit) -> Result<(String, InlineLimit), DecodeError> {
    let proto::InlineLimit { limit, definition, revision } = limit;
    let (name, entry) = limit_from_proto(present(limit, "inline.limit")?)?;
    Ok((name, InlineLimit { entry, definition: definition.into(), revision }))
}

fn revision_to_proto(revision: &PolicyRevision) -> proto::PolicyRevision {
    proto::PolicyRevision {
        revision: revision.revision,
        document: revision.document.to_string(),
        author: revision.author.clone(),
        reason: revision.reason.clone(),
        at_unix_ms: revision.at_unix_ms,
        index: revision.index,
    }
}

fn revision_from_proto(revision: proto::PolicyRevision) -> PolicyRevision {
    let proto::PolicyRevision { revision, document, author, reason, at_unix_ms, index } = revision;
    PolicyRevision { revision, document: document.into(), author, reason, at_unix_ms, index }
}

fn limit_to_proto(name: &str, entry: &LimitEntry) -> proto::LimitEntry {
    proto::LimitEntry {
        name: name.to_owned(),
        id: entry.id.0,
        digest: Bytes::copy_from_slice(&entry.digest),
        allotted_at: entry.allotted_at,
    }
}

fn limit_from_proto(limit: proto::LimitEntry) -> Result<(String, LimitEntry), DecodeError> {
    let digest = sixteen(&limit.digest, "limits.digest")?;
    Ok((limit.name, LimitEntry { id: LimitId(limit.id), digest, allotted_at: limit.allotted_at }))
}
