//! Strangers: what they say is refused, and while they say nothing they keep nobody out.

use ringfence_node::transport::{HANDSHAKES_MAX, Reason, listen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::parties::*;

const HELLO_LEN: usize = 40;
const CLAIM_LEN: usize = 128;

#[tokio::test]
async fn a_recorded_handshake_opens_no_door() {
    let server = serve(credentials(2)).await;
    let proxy = Proxy::to(&server.address).await;
    dialler(credentials(1)).dial(&proxy.address.to_string(), None).await.unwrap();
    let recorded = proxy.heard.lock().unwrap().clone();
    assert_eq!(recorded.len(), HELLO_LEN + CLAIM_LEN);

    let mut stranger = TcpStream::connect(&server.address).await.unwrap();
    stranger.write_all(&recorded).await.unwrap();
    let mut answer = Vec::new();
    patiently(stranger.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer.len(), HELLO_LEN + 1, "a hello, a refusal, and nothing of the node itself");
    until(|| server.counters.failed(Reason::WrongSecret) == 1).await;
    assert_eq!(server.counters.made(), 1);
}

#[tokio::test]
async fn a_mirror_is_no_peer() {
    let mirror = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = mirror.local_addr().unwrap().to_string();
    let reflecting = tokio::spawn(async move {
        let (mut stream, _) = mirror.accept().await.unwrap();
        let (mut hello, mut claim) = ([0; HELLO_LEN], [0; CLAIM_LEN]);
        stream.read_exact(&mut hello).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        stream.read_exact(&mut claim).await.unwrap();
        // "Granted", and the caller's own claim.
        stream.write_u8(0).await.unwrap();
        stream.write_all(&claim).await.unwrap();
        stream
    });
    let refused = patiently(dialler(credentials(1)).dial(&address, None)).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::WrongSecret);
    reflecting.await.unwrap();
}

#[tokio::test]
async fn the_silent_and_the_noisy_keep_nobody_out() {
    let server = serve(credentials(2)).await;
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX + 10 {
        silent.push(TcpStream::connect(&server.address).await.unwrap());
    }
    let mut noisy = TcpStream::connect(&server.address).await.unwrap();
    noisy.write_all(b"GET / HTTP/1.1\r\nhost: ringfence.example\r\n\r\n").await.unwrap();

    let dialler = dialler(credentials(1));
    let channel = dialler.channel(&server.address, Some(node(2)));
    ask(&channel).await.unwrap();
    assert!(server.counters.failed(Reason::Crowded) >= 11, "the oldest made room");
    until(|| server.counters.failed(Reason::NotAPeer) == 1).await;

    for mut stream in silent {
        let end = patiently(stream.read(&mut [0])).await;
        assert!(matches!(end, Ok(0) | Err(_)), "who says nothing is hung up on");
    }
    until(|| server.counters.failed(Reason::Timeout) > 0).await;
    ask(&channel).await.unwrap();
}

#[tokio::test]
async fn who_hangs_up_within_the_handshake_is_counted() {
    let server = serve(credentials(2)).await;
    let mut stranger = TcpStream::connect(&server.address).await.unwrap();
    stranger.write_all(b"RFPC").await.unwrap();
    drop(stranger);
    until(|| server.counters.failed(Reason::Closed) == 1).await;
}

#[tokio::test]
async fn a_door_that_is_closed_leaves_standing_connections_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (mut incoming, counters) = listen(listener, credentials(2));
    let mut ours = dialler(credentials(1)).dial(&address, None).await.unwrap();
    let next = std::future::poll_fn(|cx| {
        let incoming = std::pin::Pin::new(&mut incoming);
        tokio_stream::Stream::poll_next(incoming, cx)
    });
    let mut theirs = patiently(next).await.unwrap().unwrap();
    drop(incoming);
    theirs.write_all(b"still here").await.unwrap();
    let mut heard = [0; 10];
    patiently(ours.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"still here");
    assert_eq!((theirs.peer().node, ours.peer().node, counters.made()), (node(1), node(2), 1));
}
