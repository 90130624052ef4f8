//! What an entry did, or why it did nothing: the reply of the log to whoever proposed it.

use bytes::Bytes;
use control::{Applied, ClusterId, GenesisError, Refusal};
use ring::PartitionId;

use super::{DecodeError, from_bytes, narrow, present, session_from_proto, session_to_proto, sixteen, to_bytes};
use crate::peer as proto;
use crate::peer::RefusalCode as Code;
use crate::peer::applied::Applied as Wire;
use crate::peer::outcome::Outcome;

/// An outcome: the format byte, then `ringfence.peer.v1.Outcome`.
pub fn outcome_to_bytes(outcome: &Result<Applied, Refusal>) -> Bytes {
    let outcome = match outcome {
        Ok(applied) => Outcome::Applied(proto::Applied { applied: Some(applied_to_proto(*applied)) }),
        Err(refusal) => Outcome::Refusal(refusal_to_proto(refusal)),
    };
    to_bytes(&proto::Outcome { outcome: Some(outcome) })
}

/// An outcome from the leader.
///
/// # Errors
///
/// [`DecodeError`]: then what the entry did is unknown here, and the state says it.
pub fn outcome_from_bytes(bytes: &[u8]) -> Result<Result<Applied, Refusal>, DecodeError> {
    let message: proto::Outcome = from_bytes(bytes)?;
    match present(message.outcome, "outcome")? {
        Outcome::Applied(applied) => Ok(Ok(applied_from_proto(present(applied.applied, "applied")?)?)),
        Outcome::Refusal(refusal) => Ok(Err(refusal_from_proto(refusal)?)),
    }
}

fn applied_to_proto(applied: Applied) -> Wire {
    match applied {
        Applied::Founded => Wire::Founded(proto::Nothing {}),
        Applied::SessionOpened { n_max } => Wire::SessionOpened(n_max),
        Applied::MapChanged { version, appointed } => {
            Wire::MapChanged(proto::MapChanged { version, appointed: appointed.into() })
        }
        Applied::PolicyApplied { revision } => Wire::PolicyRevision(revision),
        Applied::NMaxLowered => Wire::NMaxLowered(proto::Nothing {}),
        Applied::InlineDefined => Wire::InlineDefined(proto::Nothing {}),
        Applied::LeaseChanged => Wire::LeaseChanged(proto::Nothing {}),
        Applied::StoreNoted => Wire::StoreNoted(proto::Nothing {}),
    }
}

fn applied_from_proto(applied: Wire) -> Result<Applied, DecodeError> {
    Ok(match applied {
        Wire::Founded(_) => Applied::Founded,
        Wire::SessionOpened(n_max) => Applied::SessionOpened { n_max },
        Wire::MapChanged(proto::MapChanged { version, appointed }) => {
            Applied::MapChanged { version, appointed: narrow(appointed, "appointed")? }
        }
        Wire::PolicyRevision(revision) => Applied::PolicyApplied { revision },
        Wire::NMaxLowered(_) => Applied::NMaxLowered,
        Wire::InlineDefined(_) => Applied::InlineDefined,
        Wire::LeaseChanged(_) => Applied::LeaseChanged,
        Wire::StoreNoted(_) => Applied::StoreNoted,
    })
}

/// A refusal with its code and nothing else.
fn plain(code: Code) -> proto::Refusal {
    proto::Refusal { code: code.into(), ..Default::default() }
}

fn with_text(code: Code, text: &str) -> proto::Refusal {
    proto::Refusal { text: text.to_owned(), ..plain(code) }
}

fn with_number(code: Code, number: impl Into<u64>) -> proto::Refusal {
    proto::Refusal { number: number.into(), ..plain(code) }
}

fn refusal_to_proto(refusal: &Refusal) -> proto::Refusal {
    match refusal {
        Refusal::NotFounded => plain(Code::NotFounded),
        Refusal::AlreadyFounded { cluster } => {
            proto::Refusal { cluster: Bytes::copy_from_slice(&cluster.0), ..plain(Code::AlreadyFounded) }
        }
        Refusal::BadGenesis(error) => genesis_error_to_proto(error),
        Refusal::NameInUse { name, held_by } => {
            proto::Refusal { held_by: held_by.clone(), ..with_text(Code::NameInUse, name) }
        }
        Refusal::AlreadyLive { session } => {
            proto::Refusal { session: Some(session_to_proto(*session)), ..plain(Code::AlreadyLive) }
        }
        Refusal::SessionEnded => plain(Code::SessionEnded),
        Refusal::TooManySessions => plain(Code::TooManySessions),
        Refusal::BadNode => plain(Code::BadNode),
        Refusal::VersionUnsupported { cluster_version } => with_number(Code::VersionUnsupported, *cluster_version),
        Refusal::NotLive { session } => {
            proto::Refusal { session: Some(session_to_proto(*session)), ..plain(Code::NotLive) }
        }
        Refusal::Empty => plain(Code::Empty),
        Refusal::RunOutside => plain(Code::RunOutside),
        Refusal::PartitionTwice { partition } => with_number(Code::PartitionTwice, partition.0),
        Refusal::OwnerLives { partition } => with_number(Code::OwnerLives, partition.0),
        Refusal::FounderMissing { missing } => with_text(Code::FounderMissing, missing),
        Refusal::FirstPlacementPartial => plain(Code::FirstPlacementPartial),
        Refusal::NMax { n_max, lending } => {
            proto::Refusal { other_number: u64::from(*lending), ..with_number(Code::NMax, *n_max) }
        }
        Refusal::NothingToSettle => plain(Code::NothingToSettle),
        Refusal::StoreOutdated { taken } => with_number(Code::StoreOutdated, *taken),
        Refusal::RevisionConflict { current } => with_number(Code::RevisionConflict, *current),
        Refusal::BadText => plain(Code::BadText),
        Refusal::DocumentTooLarge => plain(Code::DocumentTooLarge),
        Refusal::DocumentsFull => plain(Code::DocumentsFull),
        Refusal::TooManyDomains => plain(Code::TooManyDomains),
        Refusal::TooManyLimits => plain(Code::TooManyLimits),
        Refusal::LimitTwice { name } => with_text(Code::LimitTwice, name),
        Refusal::RenameTaken { name } => with_text(Code::RenameTaken, name),
        Refusal::LimitIdsExhausted => plain(Code::LimitIdsExhausted),
        Refusal::InlineConflict { definition } => with_text(Code::InlineConflict, definition),
        Refusal::InlineFull { most } => with_number(Code::InlineFull, *most),
    }
}

fn genesis_error_to_proto(error: &GenesisError) -> proto::Refusal {
    match error {
        GenesisError::Name { name } => with_text(Code::GenesisName, name),
        GenesisError::Founders => plain(Code::GenesisFounders),
        GenesisError::Unknown { format } => with_number(Code::GenesisUnknown, *format),
        GenesisError::Lease => plain(Code::GenesisLease),
    }
}

fn refusal_from_proto(refusal: proto::Refusal) -> Result<Refusal, DecodeError> {
    let code = Code::try_from(refusal.code).map_err(|_| DecodeError::OutOfRange("refusal.code"))?;
    let proto::Refusal { cluster, text, held_by, session, number, other_number, .. } = refusal;
    let partition = || Ok::<_, DecodeError>(PartitionId(narrow(number, "refusal.partition")?));
    Ok(match code {
        Code::Unspecified => return Err(DecodeError::Missing("refusal.code")),
        Code::NotFounded => Refusal::NotFounded,
        Code::AlreadyFounded => Refusal::AlreadyFounded { cluster: ClusterId(sixteen(&cluster, "refusal.cluster")?) },
        Code::GenesisName => GenesisError::Name { name: text }.into(),
        Code::GenesisFounders => GenesisError::Founders.into(),
        Code::GenesisUnknown => GenesisError::Unknown { format: narrow(number, "refusal.format")? }.into(),
        Code::GenesisLease => GenesisError::Lease.into(),
        Code::NameInUse => Refusal::NameInUse { name: text, held_by },
        Code::AlreadyLive => Refusal::AlreadyLive { session: session_from_proto(session)? },
        Code::SessionEnded => Refusal::SessionEnded,
        Code::TooManySessions => Refusal::TooManySessions,
        Code::BadNode => Refusal::BadNode,
        Code::VersionUnsupported => {
            Refusal::VersionUnsupported { cluster_version: narrow(number, "refusal.cluster_version")? }
        }
        Code::NotLive => Refusal::NotLive { session: session_from_proto(session)? },
        Code::Empty => Refusal::Empty,
        Code::RunOutside => Refusal::RunOutside,
        Code::PartitionTwice => Refusal::PartitionTwice { partition: partition()? },
        Code::OwnerLives => Refusal::OwnerLives { partition: partition()? },
        Code::FounderMissing => Refusal::FounderMissing { missing: text },
        Code::FirstPlacementPartial => Refusal::FirstPlacementPartial,
        Code::NMax => {
            Refusal::NMax { n_max: narrow(number, "refusal.n_max")?, lending: narrow(other_number, "refusal.lending")? }
        }
        Code::NothingToSettle => Refusal::NothingToSettle,
        Code::StoreOutdated => Refusal::StoreOutdated { taken: number },
        Code::RevisionConflict => Refusal::RevisionConflict { current: number },
        Code::BadText => Refusal::BadText,
        Code::DocumentTooLarge => Refusal::DocumentTooLarge,
        Code::DocumentsFull => Refusal::DocumentsFull,
        Code::TooManyDomains => Refusal::TooManyDomains,
        Code::TooManyLimits => Refusal::TooManyLimits,
        Code::LimitTwice => Refusal::LimitTwice { name: text },
        Code::RenameTaken => Refusal::RenameTaken { name: text },
        Code::LimitIdsExhausted => Refusal::LimitIdsExhausted,
        Code::InlineConflict => Refusal::InlineConflict { definition: text },
        Code::InlineFull => Refusal::InlineFull { most: narrow(number, "refusal.most")? },
    })
}
