//! Foca's messages as bytes. Fixed and by hand: every field big-endian, texts and addresses behind a length or kind byte,
//! so that whatever arrives is either decoded or refused, and costs no allocation before it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;

use bytes::{Buf, BufMut, TryGetError};
use foca::{Header, Member, Message, State};
use ring::NodeId;
use thiserror::Error;

use super::identity::{Identity, Incarnation, Party};
use crate::cluster::{NAME_MAX, NodeName};

/// Why bytes are no message, or a message no bytes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum CodecError {
    #[error("the message ends early")]
    Short,
    #[error("the message does not fit its datagram")]
    Full,
    #[error("a field holds a value it cannot have")]
    Value,
}

impl From<TryGetError> for CodecError {
    fn from(_: TryGetError) -> CodecError {
        CodecError::Short
    }
}

/// Encodes into `scratch` first: foca wants a buffer that is too small left untouched.
#[derive(Default)]
pub(super) struct Codec {
    scratch: Vec<u8>,
}

impl Codec {
    fn flush(&mut self, mut buf: impl BufMut) -> Result<(), CodecError> {
        if buf.remaining_mut() < self.scratch.len() {
            return Err(CodecError::Full);
        }
        buf.put_slice(&self.scratch);
        Ok(())
    }
}

impl foca::Codec<Party> for Codec {
    type Error = CodecError;

    fn encode_header(&mut self, header: &Header<Party>, buf: impl BufMut) -> Result<(), CodecError> {
        self.scratch.clear();
        let out = &mut self.scratch;
        put_known(out, &header.src)?;
        out.put_u16(header.src_incarnation);
        put_party(out, &header.dst);
        put_message(out, &header.message)?;
        self.flush(buf)
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Party>, CodecError> {
        let src = Party::Known(get_identity(&mut buf)?);
        let src_incarnation = buf.try_get_u16()?;
        let dst = get_party(&mut buf)?;
        let message = get_message(&mut buf)?;
        if dst.known().is_none() && message != Message::Announce {
            return Err(CodecError::Value);
        }
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn encode_member(&mut self, member: &Member<Party>, buf: impl BufMut) -> Result<(), CodecError> {
        self.scratch.clear();
        put_known(&mut self.scratch, member.id())?;
        self.scratch.put_u16(member.incarnation());
        self.scratch.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        self.flush(buf)
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<Party>, CodecError> {
        let id = Party::Known(get_identity(&mut buf)?);
        let incarnation = buf.try_get_u16()?;
        let state = match buf.try_get_u8()? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(CodecError::Value),
        };
        Ok(Member::new(id, incarnation, state))
    }
}

const PING: u8 = 0;
const ACK: u8 = 1;
const PING_REQ: u8 = 2;
const INDIRECT_PING: u8 = 3;
const INDIRECT_ACK: u8 = 4;
const FORWARDED_ACK: u8 = 5;
const ANNOUNCE: u8 = 6;
const FEED: u8 = 7;
const GOSSIP: u8 = 8;
const BROADCAST: u8 = 9;
const TURN_UNDEAD: u8 = 10;

fn put_message(out: &mut Vec<u8>, message: &Message<Party>) -> Result<(), CodecError> {
    let (kind, probe, third) = match message {
        Message::Ping(probe) => (PING, Some(probe), None),
        Message::Ack(probe) => (ACK, Some(probe), None),
        Message::PingReq { target, probe_number } => (PING_REQ, Some(probe_number), Some(target)),
        Message::IndirectPing { origin, probe_number } => (INDIRECT_PING, Some(probe_number), Some(origin)),
        Message::IndirectAck { target, probe_number } => (INDIRECT_ACK, Some(probe_number), Some(target)),
        Message::ForwardedAck { origin, probe_number } => (FORWARDED_ACK, Some(probe_number), Some(origin)),
        Message::Announce => (ANNOUNCE, None, None),
        Message::Feed => (FEED, None, None),
        Message::Gossip => (GOSSIP, None, None),
        Message::Broadcast => (BROADCAST, None, None),
        Message::TurnUndead => (TURN_UNDEAD, None, None),
    };
    out.put_u8(kind);
    out.extend(probe);
    third.map_or(Ok(()), |party| put_known(out, party))
}

fn get_message(buf: &mut impl Buf) -> Result<Message<Party>, CodecError> {
    let kind = buf.try_get_u8()?;
    let probe_number = if kind <= FORWARDED_ACK { buf.try_get_u8()? } else { 0 };
    Ok(match kind {
        PING => Message::Ping(probe_number),
        ACK => Message::Ack(probe_number),
        PING_REQ => Message::PingReq { target: Party::Known(get_identity(buf)?), probe_number },
        INDIRECT_PING => Message::IndirectPing { origin: Party::Known(get_identity(buf)?), probe_number },
        INDIRECT_ACK => Message::IndirectAck { target: Party::Known(get_identity(buf)?), probe_number },
        FORWARDED_ACK => Message::ForwardedAck { origin: Party::Known(get_identity(buf)?), probe_number },
        ANNOUNCE => Message::Announce,
        FEED => Message::Feed,
        GOSSIP => Message::Gossip,
        BROADCAST => Message::Broadcast,
        TURN_UNDEAD => Message::TurnUndead,
        _ => return Err(CodecError::Value),
    })
}

/// "Whoever" needs no address on the wire: the datagram has already found its reader.
fn put_party(out: &mut Vec<u8>, party: &Party) {
    match party {
        Party::Whoever(_) => out.put_u8(0),
        Party::Known(identity) => {
            out.put_u8(1);
            put_identity(out, identity);
        }
    }
}

fn get_party(buf: &mut impl Buf) -> Result<Party, CodecError> {
    match buf.try_get_u8()? {
        0 => Ok(Party::Whoever(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0))),
        1 => get_identity(buf).map(Party::Known),
        _ => Err(CodecError::Value),
    }
}

fn put_known(out: &mut Vec<u8>, party: &Party) -> Result<(), CodecError> {
    put_identity(out, party.known().ok_or(CodecError::Value)?);
    Ok(())
}

fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    out.put_u64(identity.id.0.get());
    out.put_u64(identity.incarnation.get());
    let name = identity.name.as_str();
    out.put_u8(u8::try_from(name.len()).expect("a NodeName has at most 63 bytes"));
    out.put_slice(name.as_bytes());
    put_address(out, Some(identity.peer));
    put_address(out, identity.api);
}

fn get_identity(buf: &mut impl Buf) -> Result<Identity, CodecError> {
    let id = NodeId(NonZeroU64::new(buf.try_get_u64()?).ok_or(CodecError::Value)?);
    let incarnation = Incarnation::from_wire(buf.try_get_u64()?);
    let name = get_name(buf)?;
    let peer = get_address(buf)?.ok_or(CodecError::Value)?;
    let identity = Identity { id, incarnation, name, peer, api: get_address(buf)? };
    identity.check().map_err(|_| CodecError::Value)?;
    Ok(identity)
}

fn get_name(buf: &mut impl Buf) -> Result<NodeName, CodecError> {
    let mut bytes = [0; NAME_MAX];
    let length = usize::from(buf.try_get_u8()?);
    let name = bytes.get_mut(..length).ok_or(CodecError::Value)?;
    buf.try_copy_to_slice(name)?;
    let text = std::str::from_utf8(name).map_err(|_| CodecError::Value)?;
    NodeName::new(text).map_err(|_| CodecError::Value)
}

fn put_address(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    match address.map(|address| (address.ip(), address.port())) {
        None => out.put_u8(0),
        Some((IpAddr::V4(ip), port)) => {
            out.put_u8(4);
            out.put_slice(&ip.octets());
            out.put_u16(port);
        }
        Some((IpAddr::V6(ip), port)) => {
            out.put_u8(6);
            out.put_slice(&ip.octets());
            out.put_u16(port);
        }
    }
}

fn get_address(buf: &mut impl Buf) -> Result<Option<SocketAddr>, CodecError> {
    let ip = match buf.try_get_u8()? {
        0 => return Ok(None),
        4 => IpAddr::V4(Ipv4Addr::from(buf.try_get_u32()?)),
        6 => IpAddr::V6(Ipv6Addr::from(buf.try_get_u128()?)),
        _ => return Err(CodecError::Value),
    };
    Ok(Some(SocketAddr::new(ip, buf.try_get_u16()?)))
}

#[cfg(test)]
mod tests {
    use foca::Codec as _;

    use super::*;

    fn identity(id: u64, name: &str, peer: &str, api: Option<&str>) -> Party {
        Party::Known(Identity {
            id: NodeId(NonZeroU64::new(id).unwrap()),
            incarnation: Incarnation::of_boot(7).renewed(),
            name: NodeName::new(name).unwrap(),
            peer: peer.parse().unwrap(),
            api: api.map(|api| api.parse().unwrap()),
        })
    }

    fn every_message() -> Vec<Message<Party>> {
        let third = || identity(3, "n3", "10.0.0.3:7601", None);
        vec![
            Message::Ping(1),
            Message::Ack(2),
            Message::PingReq { target: third(), probe_number: 3 },
            Message::IndirectPing { origin: third(), probe_number: 4 },
            Message::IndirectAck { target: third(), probe_number: 5 },
            Message::ForwardedAck { origin: third(), probe_number: 6 },
            Message::Announce,
            Message::Feed,
            Message::Gossip,
            Message::Broadcast,
            Message::TurnUndead,
        ]
    }

    #[test]
    fn every_message_comes_back_as_it_was() {
        let src = identity(1, "n1", "127.0.0.1:7601", Some("192.0.2.1:7600"));
        let dst = identity(u64::MAX, &"x".repeat(NAME_MAX), "[2001:db8::1]:7601", Some("[::1]:1"));
        for message in every_message() {
            let header = Header { src: src.clone(), src_incarnation: 9, dst: dst.clone(), message };
            let mut bytes = Vec::new();
            Codec::default().encode_header(&header, &mut bytes).unwrap();
            let mut rest = &bytes[..];
            assert_eq!(Codec::default().decode_header(&mut rest).unwrap(), header);
            assert!(rest.is_empty());
            for cut in 0..bytes.len() {
                assert!(Codec::default().decode_header(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn members_come_back_as_they_were() {
        for state in [State::Alive, State::Suspect, State::Down] {
            let member = Member::new(identity(5, "n5", "10.0.0.5:1", None), 65_535, state);
            let mut bytes = Vec::new();
            Codec::default().encode_member(&member, &mut bytes).unwrap();
            assert_eq!(Codec::default().decode_member(&bytes[..]).unwrap(), member);
        }
    }

    #[test]
    fn only_an_announce_may_be_addressed_to_whoever() {
        let whoever = Party::Whoever("10.0.0.9:7601".parse().unwrap());
        for message in every_message() {
            let announces = message == Message::Announce;
            let src = identity(1, "n1", "127.0.0.1:7601", None);
            let header = Header { src, src_incarnation: 0, dst: whoever.clone(), message };
            let mut bytes = Vec::new();
            Codec::default().encode_header(&header, &mut bytes).unwrap();
            assert_eq!(Codec::default().decode_header(&bytes[..]).is_ok(), announces, "{:?}", header.message);
        }
    }

    #[test]
    fn what_does_not_fit_leaves_no_byte_behind() {
        let member = Member::alive(identity(5, "n5", "10.0.0.5:1", None));
        let mut whole = Vec::new();
        Codec::default().encode_member(&member, &mut whole).unwrap();
        let mut small = Vec::new().limit(whole.len() - 1);
        assert_eq!(Codec::default().encode_member(&member, &mut small), Err(CodecError::Full));
        assert!(small.get_ref().is_empty());
    }

    #[test]
    fn an_identity_nobody_could_answer_is_refused() {
        for (at, peer) in ["10.0.0.1:0", "0.0.0.0:7601", "[::]:7601"].into_iter().enumerate() {
            let member = Member::alive(identity(5, "n5", peer, None));
            let mut bytes = Vec::new();
            Codec::default().encode_member(&member, &mut bytes).unwrap();
            assert_eq!(Codec::default().decode_member(&bytes[..]), Err(CodecError::Value), "case {at}");
        }
    }
}
