//! The handshake over a socket: carries [`hello`](super::hello)'s messages, and decides nothing. It reads not one byte more
//! than the handshake has, so that what follows is the other protocol's.

use std::io;

use ring::NodeId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::error::HandshakeError;
use super::hello::{Answerer, CLAIM_LEN, Caller, HELLO_LEN, Held, Met, Verdict, agreed};
use super::stream::{Peer, PeerStream, Until};
use crate::chance;
use crate::net::TcpStream;

/// Shakes hands with whoever was dialled.
pub(super) async fn call(
    mut stream: TcpStream,
    held: Held,
    meant: Option<NodeId>,
) -> Result<PeerStream, HandshakeError> {
    let caller = Caller::new(held, meant, chance::random());
    stream.write_all(&caller.hello()).await?;
    let theirs = read::<HELLO_LEN>(&mut stream).await?;
    let (claimed, claim) = caller.claim(theirs)?;
    stream.write_all(&claim).await?;
    let verdict = Verdict::read(stream.read_u8().await?)?;
    if !verdict.is_explained() {
        return Err(HandshakeError::WrongSecret);
    }
    let met = claimed.conclude(verdict, &read::<CLAIM_LEN>(&mut stream).await?)?;
    connected(stream, met)
}

/// Shakes hands with whoever dialled.
pub(super) async fn answer(mut stream: TcpStream, held: Held) -> Result<PeerStream, HandshakeError> {
    let answerer = Answerer::new(held, chance::random());
    let theirs = read::<HELLO_LEN>(&mut stream).await?;
    let agreed = agreed(&theirs);
    if agreed != Err(HandshakeError::NotAPeer) {
        // Also to a caller of other versions: our hello is how it learns ours.
        stream.write_all(&answerer.hello()).await?;
    }
    agreed?;
    let claim = read::<CLAIM_LEN>(&mut stream).await?;
    let (reply, met) = answerer.answer(&theirs, &claim);
    stream.write_all(&reply).await?;
    connected(stream, met?)
}

async fn read<const LENGTH: usize>(stream: &mut TcpStream) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn connected(stream: TcpStream, met: Met) -> Result<PeerStream, HandshakeError> {
    let address = stream.peer_addr()?;
    let peer = Peer { node: met.node, address, uuid: met.uuid, version: met.version };
    Ok(PeerStream { stream, peer, until: Until::default() })
}
