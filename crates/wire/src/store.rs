//! What is kept of a partition in a store: names of fields, their values, and the text of its header. What comes from a store
//! may be anything: a value that is not whole, or not of this partition and key, is unreadable and never a panic.

use std::hash::Hasher as _;
use std::num::NonZeroU64;

use limits::{
    AMOUNT_MAX, Fingerprint, Form, HeldLease, HoldId, LEASES_MAX, LIMIT_ID_MAX, LimitId, Span, Used, WallTime,
};
use ownership::SessionId;
use ownership::kept::KeptKey;
use prost::Message as _;
use ring::{NodeId, PartitionId};
use siphasher::sip::SipHasher24;

use crate::kept as proto;

/// How values are written; the first byte of each.
pub const VALUE_FORMAT: u8 = 1;

/// The first byte of the name of every field that holds a key; no other field's name begins with it.
pub const FIELD_MARK: u8 = b'k';

/// The length of such a name, in bytes: the mark, the limit, the fingerprint.
pub const FIELD_LEN: usize = 1 + 4 + 16;

/// The format byte and the checksum before the payload, in bytes.
const HEAD_LEN: usize = 1 + 8;

/// What lies in a store under a key and cannot be read: another format, another key's, cut short or damaged. Whoever reads it
/// knows that something was kept there, and nothing of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is kept of this key cannot be read")]
pub struct Unreadable;

/// Not a session: that is the node and the nonce in hexadecimal digits and the counter in decimal ones, with dots between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session is written as node.nonce.counter")]
pub struct NotASession;

/// The name of the field that holds this key.
pub fn field_of(limit: LimitId, key: Fingerprint) -> [u8; FIELD_LEN] {
    let mut name = [FIELD_MARK; FIELD_LEN];
    name[1..5].copy_from_slice(&limit.0.to_be_bytes());
    name[5..13].copy_from_slice(&key.0[0].to_be_bytes());
    name[13..].copy_from_slice(&key.0[1].to_be_bytes());
    name
}

/// The value of the field that holds this key: `format u8 | checksum u64 LE | payload`. The checksum is SipHash-2-4 with a key
/// of zeros over `partition u16 LE | name of the field | payload`, so that a value that strayed is not read either.
pub fn value_of(partition: PartitionId, kept: &KeptKey) -> Vec<u8> {
    let payload = kept_to_proto(kept);
    let mut value = Vec::with_capacity(HEAD_LEN + payload.encoded_len());
    value.push(VALUE_FORMAT);
    value.extend([0; 8]);
    payload.encode_raw(&mut value);
    let sum = checksum(partition, &field_of(kept.limit, kept.key), &value[HEAD_LEN..]);
    value[1..HEAD_LEN].copy_from_slice(&sum.to_le_bytes());
    value
}

/// Reads a field of a partition's hash.
///
/// # Errors
///
/// [`Unreadable`].
pub fn kept_from_field(partition: PartitionId, name: &[u8], value: &[u8]) -> Result<KeptKey, Unreadable> {
    let (limit, key) = key_from_field(name)?;
    let (&format, rest) = value.split_first().ok_or(Unreadable)?;
    let (sum, payload) = rest.split_first_chunk().ok_or(Unreadable)?;
    if format != VALUE_FORMAT || u64::from_le_bytes(*sum) != checksum(partition, name, payload) {
        return Err(Unreadable);
    }
    kept_from_proto(limit, key, proto::Kept::decode(payload).map_err(|_| Unreadable)?)
}

/// A session as a header holds it: always the same text for the same session.
pub fn session_to_text(session: SessionId) -> String {
    format!("{:016x}.{:016x}.{}", session.node.0, session.nonce, session.counter)
}

/// A session from a header.
///
/// # Errors
///
/// [`NotASession`] for anything but what [`session_to_text`] writes.
pub fn session_from_text(text: &str) -> Result<SessionId, NotASession> {
    let read = || {
        let mut parts = text.split('.');
        let node = NodeId(NonZeroU64::new(u64::from_str_radix(parts.next()?, 16).ok()?)?);
        let nonce = u64::from_str_radix(parts.next()?, 16).ok()?;
        let counter = parts.next()?.parse().ok()?;
        Some(SessionId { node, nonce, counter })
    };
    read().filter(|session| session_to_text(*session) == text).ok_or(NotASession)
}

fn key_from_field(name: &[u8]) -> Result<(LimitId, Fingerprint), Unreadable> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    if name.len() != FIELD_LEN || name[0] != FIELD_MARK {
        return Err(Unreadable);
    }
    let limit = u32::try_from(number(&name[1..5])).ok().filter(|limit| (1..=LIMIT_ID_MAX).contains(limit));
    Ok((LimitId(limit.ok_or(Unreadable)?), Fingerprint([number(&name[5..13]), number(&name[13..])])))
}

fn checksum(partition: PartitionId, name: &[u8], payload: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(0, 0);
    hasher.write(&partition.0.to_le_bytes());
    hasher.write(name);
    hasher.write(payload);
    hasher.finish()
}

fn kept_to_proto(kept: &KeptKey) -> proto::Kept {
    proto::Kept {
        form: kept.form.0,
        at_nanos: kept.at.map(WallTime::as_unix_nanos),
        used: Some(used_to_proto(&kept.used)),
        units: kept.units,
        allowance: kept.allowance,
    }
}

fn kept_from_proto(limit: LimitId, key: Fingerprint, kept: proto::Kept) -> Result<KeptKey, Unreadable> {
    let used = used_from_proto(kept.used.ok_or(Unreadable)?)?;
    if kept.allowance > AMOUNT_MAX {
        return Err(Unreadable);
    }
    Ok(KeptKey {
        limit,
        key,
        form: Form(kept.form),
        at: kept.at_nanos.map(WallTime::from_unix_nanos),
        used,
        units: kept.units,
        allowance: kept.allowance,
    })
}

fn used_to_proto(used: &Used) -> proto::Used {
    use proto::used::Used as Wire;
    let used = match used {
        Used::Bucket { level } => {
            Wire::Bucket(proto::Bucket { level_high: (level >> 64) as u64, level_low: *level as u64 })
        }
        Used::Window { left, units } => Wire::Window(proto::Window { left_nanos: left.as_nanos(), units: *units }),
        Used::AlignedWindow { end, units } => {
            Wire::AlignedWindow(proto::AlignedWindow { end_nanos: end.as_unix_nanos(), units: *units })
        }
        Used::Log { groups } => Wire::Log(proto::Log {
            age_nanos: groups.iter().map(|(age, _)| age.as_nanos()).collect(),
            units: groups.iter().map(|(_, units)| *units).collect(),
        }),
        Used::Counter { elapsed, earlier, later } => {
            Wire::Counter(proto::Counter { elapsed_nanos: elapsed.as_nanos(), earlier: *earlier, later: *later })
        }
        Used::Calendar { index, earlier, later } => {
            Wire::Calendar(proto::Calendar { index: *index, earlier: *earlier, later: *later })
        }
        Used::Leases { held, unknown, ended } => Wire::Leases(proto::Leases {
            held: held.iter().map(lease_to_proto).collect(),
            unknown_slots: unknown.0,
            unknown_left_nanos: unknown.1.as_nanos(),
            ended: ended.as_ref().map(|ids| proto::Ended { ids: ids.iter().flat_map(|id| id.0).collect() }),
        }),
    };
    proto::Used { used: Some(used) }
}

fn used_from_proto(used: proto::Used) -> Result<Used, Unreadable> {
    use proto::used::Used as Wire;
    Ok(match used.used.ok_or(Unreadable)? {
        Wire::Bucket(bucket) => {
            Used::Bucket { level: u128::from(bucket.level_high) << 64 | u128::from(bucket.level_low) }
        }
        Wire::Window(window) => Used::Window { left: Span::from_nanos(window.left_nanos), units: window.units },
        Wire::AlignedWindow(window) => {
            Used::AlignedWindow { end: WallTime::from_unix_nanos(window.end_nanos), units: window.units }
        }
        Wire::Log(log) if log.age_nanos.len() == log.units.len() => {
            Used::Log { groups: log.age_nanos.into_iter().map(Span::from_nanos).zip(log.units).collect() }
        }
        Wire::Log(_) => return Err(Unreadable),
        Wire::Counter(counter) => Used::Counter {
            elapsed: Span::from_nanos(counter.elapsed_nanos),
            earlier: counter.earlier,
            later: counter.later,
        },
        Wire::Calendar(calendar) => {
            Used::Calendar { index: calendar.index, earlier: calendar.earlier, later: calendar.later }
        }
        Wire::Leases(leases) if leases.held.len() <= LEASES_MAX => Used::Leases {
            held: leases.held.iter().map(lease_from_proto).collect(),
            unknown: (leases.unknown_slots, Span::from_nanos(leases.unknown_left_nanos)),
            ended: leases.ended.map(|ended| ids_from_proto(&ended)).transpose()?,
        },
        Wire::Leases(_) => return Err(Unreadable),
    })
}

fn lease_to_proto(lease: &HeldLease) -> proto::Lease {
    proto::Lease {
        id_high: lease.id.0[0],
        id_low: lease.id.0[1],
        slots: lease.slots,
        left_nanos: lease.left.as_nanos(),
        longest_nanos: lease.longest.as_nanos(),
    }
}

fn lease_from_proto(lease: &proto::Lease) -> HeldLease {
    HeldLease {
        id: HoldId([lease.id_high, lease.id_low]),
        slots: lease.slots,
        left: Span::from_nanos(lease.left_nanos),
        longest: Span::from_nanos(lease.longest_nanos),
    }
}

fn ids_from_proto(ended: &proto::Ended) -> Result<Vec<HoldId>, Unreadable> {
    let (pairs, odd) = ended.ids.as_chunks();
    if odd.is_empty() { Ok(pairs.iter().copied().map(HoldId).collect()) } else { Err(Unreadable) }
}

#[cfg(test)]
mod tests;
