//! What is agreed on, as bytes: entries of the log, their outcomes, snapshots, and what founding wrote down, each
//! behind a format byte; and the messages of the control plane. Bytes from a disk or a peer are checked here, once:
//! whatever is malformed is refused with the field's name, and nothing panics.

mod command;
mod founding;
mod outcome;
mod state;

use std::num::NonZeroU64;

use bytes::{BufMut as _, Bytes, BytesMut};
use control::Corrupt;
use ownership::SessionId;
use ownership::kept::Incarnation;
use prost::Message;
use ring::NodeId;

pub use command::{command_from_bytes, command_to_bytes, node_spec_from_proto, node_spec_to_proto};
pub use founding::{
    cluster_id_from_bytes, hello_from_proto, hello_to_proto, promise_reply_from_proto, promise_reply_to_proto,
    promise_request_from_proto, promise_request_to_proto, standing_from_bytes, standing_to_bytes,
};
pub use outcome::{outcome_from_bytes, outcome_to_bytes};
pub use state::{state_from_bytes, state_to_bytes};

use crate::peer as proto;

/// The first byte of everything stored here.
pub const FORMAT: u8 = 1;

/// Why bytes are none of ours. The writer's or the disk's doing; nothing changed. A node that finds this in its own log
/// or snapshot stops: an entry is never skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There are no bytes at all.
    #[error("there is nothing")]
    Empty,
    /// A format that this build does not know: written by a newer one.
    #[error("format {0} is not known to this build")]
    Format(u8),
    /// The bytes behind the format are no such message.
    #[error(transparent)]
    Protobuf(#[from] prost::DecodeError),
    /// A command that this build does not know: proposed by a newer one.
    #[error("the command is not known to this build")]
    UnknownCommand,
    /// A field that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A value is outside its range.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// The parts of a snapshot contradict each other.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

fn to_bytes(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + message.encoded_len());
    bytes.put_u8(FORMAT);
    message.encode(&mut bytes).expect("a buffer that grows has room");
    bytes.freeze()
}

fn from_bytes<M: Message + Default>(bytes: &[u8]) -> Result<M, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Empty),
        Some((&FORMAT, message)) => Ok(M::decode(message)?),
        Some((&format, _)) => Err(DecodeError::Format(format)),
    }
}

fn present<T>(field: Option<T>, name: &'static str) -> Result<T, DecodeError> {
    field.ok_or(DecodeError::Missing(name))
}

fn narrow<N: TryFrom<u64>>(number: impl Into<u64>, name: &'static str) -> Result<N, DecodeError> {
    N::try_from(number.into()).map_err(|_| DecodeError::OutOfRange(name))
}

fn sixteen(bytes: &[u8], name: &'static str) -> Result<[u8; 16], DecodeError> {
    <[u8; 16]>::try_from(bytes).map_err(|_| DecodeError::OutOfRange(name))
}

/// A life of a store: run and history, one after the other.
fn incarnation_to_bytes(incarnation: &Incarnation) -> Bytes {
    Bytes::from([incarnation.run, incarnation.history].concat())
}

fn incarnation_from_bytes(bytes: &[u8]) -> Result<Incarnation, DecodeError> {
    match bytes.as_chunks::<20>() {
        ([run, history], []) => Ok(Incarnation { run: *run, history: *history }),
        _ => Err(DecodeError::OutOfRange("incarnation")),
    }
}

fn node_id(id: u64, name: &'static str) -> Result<NodeId, DecodeError> {
    NonZeroU64::new(id).map(NodeId).ok_or(DecodeError::OutOfRange(name))
}

fn session_to_proto(session: SessionId) -> proto::Session {
    crate::forward::session_to_proto(session)
}

fn session_from_proto(session: Option<proto::Session>) -> Result<SessionId, DecodeError> {
    let session = present(session, "session")?;
    Ok(SessionId { node: node_id(session.node, "session.node")?, nonce: session.nonce, counter: session.counter })
}

#[cfg(test)]
mod tests;
