//! The handshake's messages and its two parts as values: what to say next, and what to make of what was heard. Nothing here
//! reads a socket, so every refusal can be shown in a test.
//!
//! ```text
//! caller:   Hello    magic 4 | oldest 2 | newest 2 | nonce 32
//! answerer: Hello    the same
//! caller:   Claim    node 8 | meant 8 | uuid 16 | name length 1, name 63 | HMAC-SHA256 32
//! answerer: verdict 1, then its own Claim, or nothing if the caller's tag did not verify
//! ```
//!
//! A tag covers a label for its side and every byte of both sides before it, so that neither side's words can be given back
//! to it, said again later, or moved to other versions. The answerer says nothing of itself, and makes no tag, before the
//! caller has proved that it knows a secret.

use std::num::NonZeroU64;

use bytes::{Buf, BufMut};
use ring::NodeId;

use super::error::HandshakeError;
use crate::cluster::{ClusterId, ClusterName, ClusterUuid, NAME_MAX, uuid_bytes};
use crate::secret::{Secrets, TAG_LEN};

/// The versions of the peer protocol that this build speaks.
pub const SPOKEN: Versions = Versions { oldest: 1, newest: 1 };

/// A range of versions of the peer protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest spoken.
    pub oldest: u16,
    /// The newest spoken.
    pub newest: u16,
}

impl Versions {
    /// The newest version that both speak.
    pub fn agree(self, other: Versions) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

pub(super) const NONCE_LEN: usize = 32;
pub(super) const HELLO_LEN: usize = 4 + 2 + 2 + NONCE_LEN;
pub(super) const CLAIM_LEN: usize = 8 + 8 + 16 + 1 + NAME_MAX + TAG_LEN;

const MAGIC: [u8; 4] = *b"RFPC";
const CALLER: &[u8] = b"ringfence peer caller";
const ANSWERER: &[u8] = b"ringfence peer answerer";

/// What one side knows of itself when a handshake begins.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) node: NodeId,
    pub(super) cluster: ClusterId,
    pub(super) secrets: Secrets,
}

/// Whom a handshake was completed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) node: NodeId,
    pub(super) uuid: Option<ClusterUuid>,
    pub(super) version: u16,
}

/// The answerer's one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    WrongSecret,
    WrongCluster,
    WrongNode,
}

impl Verdict {
    pub(super) fn read(byte: u8) -> Result<Verdict, HandshakeError> {
        match byte {
            0 => Ok(Verdict::Granted),
            1 => Ok(Verdict::WrongSecret),
            2 => Ok(Verdict::WrongCluster),
            3 => Ok(Verdict::WrongNode),
            _ => Err(HandshakeError::NotAPeer),
        }
    }

    pub(super) fn byte(self) -> u8 {
        match self {
            Verdict::Granted => 0,
            Verdict::WrongSecret => 1,
            Verdict::WrongCluster => 2,
            Verdict::WrongNode => 3,
        }
    }

    /// Whether the answerer's claim follows.
    pub(super) fn is_explained(self) -> bool {
        self != Verdict::WrongSecret
    }
}

/// The side that connects.
pub(super) struct Caller {
    held: Held,
    meant: Option<NodeId>,
    hello: [u8; HELLO_LEN],
}

impl Caller {
    /// `meant` is whom it wants to reach; `None` takes whoever answers. `nonce` must never have been used before.
    pub(super) fn new(held: Held, meant: Option<NodeId>, nonce: [u8; NONCE_LEN]) -> Caller {
        Caller { held, meant, hello: hello(SPOKEN, &nonce) }
    }

    pub(super) fn hello(&self) -> [u8; HELLO_LEN] {
        self.hello
    }

    /// What to claim, after the answerer's hello.
    pub(super) fn claim(self, theirs: [u8; HELLO_LEN]) -> Result<(Claimed, [u8; CLAIM_LEN]), HandshakeError> {
        let version = agreed(&theirs)?;
        let body = claim(&self.held, self.meant);
        let tag = self.held.secrets.sign(&[CALLER, &self.hello, &theirs, &body]);
        let signed = signed(&body, &tag);
        Ok((Claimed { caller: self, theirs, version, signed }, signed))
    }
}

/// A caller that waits for the verdict.
pub(super) struct Claimed {
    caller: Caller,
    theirs: [u8; HELLO_LEN],
    version: u16,
    signed: [u8; CLAIM_LEN],
}

impl Claimed {
    /// What the verdict and the claim after it come to. The answerer is believed nothing before its tag verifies.
    pub(super) fn conclude(&self, verdict: Verdict, reply: &[u8; CLAIM_LEN]) -> Result<Met, HandshakeError> {
        let Caller { held, meant, hello } = &self.caller;
        let (body, tag) = unsigned(reply);
        let parts = [ANSWERER, hello, &self.theirs, &self.signed, &[verdict.byte()], body];
        if !held.secrets.verify(&parts, tag) {
            return Err(HandshakeError::WrongSecret);
        }
        let claim = Claim::read(body)?;
        match judge(&held.cluster, *meant, &claim, claim.node) {
            Some((_, error)) => Err(error),
            None if verdict == Verdict::Granted => Ok(claim.met(self.version)),
            // It refused us for what we cannot see: it has learnt its uuid, or taken another id, in this very moment.
            None => Err(HandshakeError::Closed),
        }
    }
}

/// The side that was connected to.
pub(super) struct Answerer {
    held: Held,
    hello: [u8; HELLO_LEN],
}

impl Answerer {
    /// `nonce` must never have been used before.
    pub(super) fn new(held: Held, nonce: [u8; NONCE_LEN]) -> Answerer {
        Answerer { held, hello: hello(SPOKEN, &nonce) }
    }

    pub(super) fn hello(&self) -> [u8; HELLO_LEN] {
        self.hello
    }

    /// The verdict on a caller, and the bytes that tell it.
    pub(super) fn answer(
        &self,
        theirs: &[u8; HELLO_LEN],
        signed_claim: &[u8; CLAIM_LEN],
    ) -> (Vec<u8>, Result<Met, HandshakeError>) {
        let refused_silently = |error| (Vec::new(), Err(error));
        let version = match agreed(theirs) {
            Ok(version) => version,
            Err(error) => return refused_silently(error),
        };
        let (body, tag) = unsigned(signed_claim);
        if !self.held.secrets.verify(&[CALLER, theirs, &self.hello, body], tag) {
            return (vec![Verdict::WrongSecret.byte()], Err(HandshakeError::WrongSecret));
        }
        let claim = match Claim::read(body) {
            Ok(claim) => claim,
            Err(error) => return refused_silently(error),
        };
        match judge(&self.held.cluster, claim.meant, &claim, self.held.node) {
            Some((verdict, error)) => (self.reply(theirs, signed_claim, verdict), Err(error)),
            None => (self.reply(theirs, signed_claim, Verdict::Granted), Ok(claim.met(version))),
        }
    }

    fn reply(&self, theirs: &[u8; HELLO_LEN], signed_claim: &[u8; CLAIM_LEN], verdict: Verdict) -> Vec<u8> {
        let body = claim(&self.held, None);
        let parts = [ANSWERER, theirs, &self.hello, signed_claim, &[verdict.byte()], &body];
        let tag = self.held.secrets.sign(&parts);
        let mut reply = vec![verdict.byte()];
        reply.extend(signed(&body, &tag));
        reply
    }
}

/// What both sides check once the other is authentic: the same cluster, and the node that was `meant` is the one `met`.
fn judge(ours: &ClusterId, meant: Option<NodeId>, claim: &Claim, met: NodeId) -> Option<(Verdict, HandshakeError)> {
    if !ours.admits(&claim.cluster.name.digest(), claim.cluster.uuid) {
        let error = HandshakeError::WrongCluster { theirs: claim.cluster.clone() };
        return Some((Verdict::WrongCluster, error));
    }
    let meant = meant.filter(|meant| *meant != met)?;
    Some((Verdict::WrongNode, HandshakeError::WrongNode { meant, met }))
}

/// The newest version that both speak, from the other's hello.
pub(super) fn agreed(theirs: &[u8; HELLO_LEN]) -> Result<u16, HandshakeError> {
    let mut bytes = &theirs[..];
    let mut magic = [0; 4];
    bytes.copy_to_slice(&mut magic);
    if magic != MAGIC {
        return Err(HandshakeError::NotAPeer);
    }
    let theirs = Versions { oldest: bytes.get_u16(), newest: bytes.get_u16() };
    SPOKEN.agree(theirs).ok_or(HandshakeError::Version { ours: SPOKEN, theirs })
}

fn hello(versions: Versions, nonce: &[u8; NONCE_LEN]) -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    let mut out = &mut bytes[..];
    out.put_slice(&MAGIC);
    out.put_u16(versions.oldest);
    out.put_u16(versions.newest);
    out.put_slice(nonce);
    bytes
}

type Body = [u8; CLAIM_LEN - TAG_LEN];

fn claim(held: &Held, meant: Option<NodeId>) -> Body {
    let mut bytes = [0; CLAIM_LEN - TAG_LEN];
    let mut out = &mut bytes[..];
    out.put_u64(held.node.0.get());
    out.put_u64(meant.map_or(0, |meant| meant.0.get()));
    out.put_slice(&uuid_bytes(held.cluster.uuid));
    let name = held.cluster.name.as_str();
    out.put_u8(u8::try_from(name.len()).expect("a ClusterName has at most 63 bytes"));
    out.put_slice(name.as_bytes());
    bytes
}

fn signed(body: &Body, tag: &[u8; TAG_LEN]) -> [u8; CLAIM_LEN] {
    let mut bytes = [0; CLAIM_LEN];
    bytes[..body.len()].copy_from_slice(body);
    bytes[body.len()..].copy_from_slice(tag);
    bytes
}

fn unsigned(signed: &[u8; CLAIM_LEN]) -> (&[u8], &[u8; TAG_LEN]) {
    signed.split_last_chunk().expect("a claim is longer than its tag")
}

struct Claim {
    node: NodeId,
    meant: Option<NodeId>,
    cluster: ClusterId,
}

impl Claim {
    /// `bytes` is a whole body.
    fn read(mut bytes: &[u8]) -> Result<Claim, HandshakeError> {
        let node = NonZeroU64::new(bytes.get_u64()).map(NodeId).ok_or(HandshakeError::NotAPeer)?;
        let meant = NonZeroU64::new(bytes.get_u64()).map(NodeId);
        let mut uuid = [0; 16];
        bytes.copy_to_slice(&mut uuid);
        let length = usize::from(bytes.get_u8());
        let name = bytes.get(..length).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.and_then(|name| ClusterName::new(name).ok()).ok_or(HandshakeError::NotAPeer)?;
        Ok(Claim { node, meant, cluster: ClusterId { name, uuid: ClusterUuid::from_bytes(uuid) } })
    }

    fn met(&self, version: u16) -> Met {
        Met { node: self.node, uuid: self.cluster.uuid, version }
    }
}

#[cfg(test)]
mod tests;
