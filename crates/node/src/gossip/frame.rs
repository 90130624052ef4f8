//! The envelope of every datagram: who sends it, for which cluster, what the sender knows, and a tag over all of it. Only
//! what verifies is looked into; everything else is dropped for a [`Dropped`] reason.
//!
//! ```text
//! version 1 | name digest 16 | uuid 16 | sender 8 | incarnation 8 | map version 8 | body | HMAC-SHA256 32
//! ```
//!
//! Integers are big-endian; a uuid of zeros says "none yet". The tag covers a label and every byte before it, so nothing
//! signed for another purpose passes here.

use std::num::NonZeroU64;

use bytes::{Buf, BufMut};
use ring::NodeId;

use super::identity::Incarnation;
use crate::cluster::{ClusterId, ClusterUuid, uuid_bytes};
use crate::secret::{Secrets, TAG_LEN};

/// The largest datagram sent or read, in bytes: below every usual MTU with room for headers (RFC 8085). A longer one is
/// dropped.
pub const DATAGRAM_MAX: usize = 1_400;

const VERSION: u8 = 1;
const HEAD_LEN: usize = 1 + 16 + 16 + 8 + 8 + 8;
const LABEL: &[u8] = b"ringfence gossip";

/// The room for a body in a datagram, in bytes.
pub(super) const BODY_MAX: usize = DATAGRAM_MAX - HEAD_LEN - TAG_LEN;

/// Why a datagram was dropped. In every case whoever sent it did it, and nothing here changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// Longer than [`DATAGRAM_MAX`], or shorter than an empty frame.
    Length,
    /// Of another version of this format.
    Version,
    /// The tag was made with none of our secrets, or the datagram was altered.
    WrongSecret,
    /// Of a cluster with another name, or with the same name and another uuid.
    WrongCluster,
    /// Sent under this node's own id: its own echo, an earlier life's straggler, or a copied data directory.
    OwnId,
    /// Authentic, and yet no message.
    Malformed,
}

impl Dropped {
    /// Every reason, in the order of the checks.
    pub const ALL: [Dropped; 6] = [
        Dropped::Length,
        Dropped::Version,
        Dropped::WrongSecret,
        Dropped::WrongCluster,
        Dropped::OwnId,
        Dropped::Malformed,
    ];

    /// The reason as a word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dropped::Length => "length",
            Dropped::Version => "version",
            Dropped::WrongSecret => "wrong-secret",
            Dropped::WrongCluster => "wrong-cluster",
            Dropped::OwnId => "own-id",
            Dropped::Malformed => "malformed",
        }
    }
}

/// What a sender says of itself outside foca's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) sender: NodeId,
    pub(super) incarnation: Incarnation,
    /// The cluster that the sender belongs to, if it has founded or joined one.
    pub(super) uuid: Option<ClusterUuid>,
    /// The newest map that the sender has applied.
    pub(super) map_version: u64,
}

/// One datagram with `body` (at most [`BODY_MAX`] bytes) inside.
pub(super) fn seal(envelope: &Envelope, cluster: &ClusterId, secrets: &Secrets, body: &[u8]) -> Vec<u8> {
    debug_assert!(body.len() <= BODY_MAX, "foca was told how long a message may be");
    let mut bytes = Vec::with_capacity(HEAD_LEN + body.len() + TAG_LEN);
    bytes.put_u8(VERSION);
    bytes.put_slice(&cluster.name.digest());
    bytes.put_slice(&uuid_bytes(envelope.uuid));
    bytes.put_u64(envelope.sender.0.get());
    bytes.put_u64(envelope.incarnation.get());
    bytes.put_u64(envelope.map_version);
    bytes.put_slice(body);
    let tag = secrets.sign(&[LABEL, &bytes]);
    bytes.put_slice(&tag);
    bytes
}

/// What is inside a datagram, if it is whole, authentic and of this cluster.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    cluster: &ClusterId,
    secrets: &Secrets,
) -> Result<(Envelope, &'a [u8]), Dropped> {
    if !(HEAD_LEN + TAG_LEN..=DATAGRAM_MAX).contains(&bytes.len()) {
        return Err(Dropped::Length);
    }
    if bytes[0] != VERSION {
        return Err(Dropped::Version);
    }
    let (signed, tag) = bytes.split_last_chunk::<TAG_LEN>().ok_or(Dropped::Length)?;
    if !secrets.verify(&[LABEL, signed], tag) {
        return Err(Dropped::WrongSecret);
    }
    let (head, body) = signed.split_at(HEAD_LEN);
    let (name_digest, envelope) = read_head(head)?;
    if !cluster.admits(&name_digest, envelope.uuid) {
        return Err(Dropped::WrongCluster);
    }
    Ok((envelope, body))
}

/// `head` is exactly [`HEAD_LEN`] bytes.
fn read_head(mut head: &[u8]) -> Result<([u8; 16], Envelope), Dropped> {
    head.advance(1);
    let (mut name_digest, mut uuid) = ([0; 16], [0; 16]);
    head.copy_to_slice(&mut name_digest);
    head.copy_to_slice(&mut uuid);
    let sender = NodeId(NonZeroU64::new(head.get_u64()).ok_or(Dropped::Malformed)?);
    let incarnation = Incarnation::from_wire(head.get_u64());
    let uuid = ClusterUuid::from_bytes(uuid);
    Ok((name_digest, Envelope { sender, incarnation, uuid, map_version: head.get_u64() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterName;
    use crate::secret::ClusterSecret;

    fn cluster(name: &str) -> ClusterId {
        ClusterId { name: ClusterName::new(name).unwrap(), uuid: None }
    }

    fn secrets(byte: u8) -> Secrets {
        Secrets::new(ClusterSecret::new(&[byte; 16]).unwrap())
    }

    fn envelope(uuid: u8) -> Envelope {
        Envelope {
            sender: NodeId(NonZeroU64::new(42).unwrap()),
            incarnation: Incarnation::of_boot(3),
            uuid: ClusterUuid::from_bytes([uuid; 16]),
            map_version: 17,
        }
    }

    #[test]
    fn a_sealed_frame_opens_to_what_was_put_in() {
        let bytes = seal(&envelope(5), &cluster("main"), &secrets(1), b"body");
        assert_eq!(open(&bytes, &cluster("main"), &secrets(1)), Ok((envelope(5), &b"body"[..])));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let bytes = seal(&envelope(5), &cluster("main"), &secrets(1), b"body");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            let expected = if at == 0 { Dropped::Version } else { Dropped::WrongSecret };
            assert_eq!(open(&changed, &cluster("main"), &secrets(1)), Err(expected), "byte {at}");
        }
    }

    #[test]
    fn a_frame_is_refused_for_the_first_thing_wrong_with_it() {
        let bytes = seal(&envelope(5), &cluster("main"), &secrets(1), b"");
        assert_eq!(open(&bytes, &cluster("main"), &secrets(2)), Err(Dropped::WrongSecret));
        assert_eq!(open(&bytes, &cluster("other"), &secrets(1)), Err(Dropped::WrongCluster));
        let founded = ClusterId { uuid: ClusterUuid::from_bytes([6; 16]), ..cluster("main") };
        assert_eq!(open(&bytes, &founded, &secrets(1)), Err(Dropped::WrongCluster));
        assert_eq!(open(&bytes[..bytes.len() - 1], &cluster("main"), &secrets(1)), Err(Dropped::Length));
        assert_eq!(open(&[1; DATAGRAM_MAX + 1], &cluster("main"), &secrets(1)), Err(Dropped::Length));
    }

    #[test]
    fn the_longest_body_makes_the_longest_datagram() {
        let bytes = seal(&envelope(0), &cluster("main"), &secrets(1), &[9; BODY_MAX]);
        assert_eq!(bytes.len(), DATAGRAM_MAX);
        assert!(open(&bytes, &cluster("main"), &secrets(1)).is_ok());
    }
}
