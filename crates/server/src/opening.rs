//! A connection whose first bytes must come in time. HTTP/1 and HTTP/2 share a port and are told apart by what a caller
//! says first; while that is open neither protocol's own timer runs, so a caller that says nothing, or stops in the middle
//! of the first line, would stay for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a new connection may take to say which protocol it speaks.
pub const OPENING_WITHIN: Duration = Duration::from_secs(10);

/// After so many bytes the protocol is known: it is the length of the words that HTTP/2 begins with, and no request of
/// HTTP/1.1 is shorter.
const OPENING_BYTES: usize = 24;

/// A connection that has still to say what it speaks, or has.
#[derive(Debug)]
pub struct Opening<Stream> {
    stream: Stream,
    patience: Option<Patience>,
}

#[derive(Debug)]
struct Patience {
    until: Pin<Box<Sleep>>,
    missing: usize,
}

impl<Stream> Opening<Stream> {
    /// A connection that was just accepted.
    pub fn of(stream: Stream) -> Opening<Stream> {
        Opening::within(OPENING_WITHIN, stream)
    }

    fn within(within: Duration, stream: Stream) -> Opening<Stream> {
        let until = Box::pin(tokio::time::sleep(within));
        Opening { stream, patience: Some(Patience { until, missing: OPENING_BYTES }) }
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for Opening<Stream> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(patience) = &mut self.patience else { return read };
        if read.is_pending() {
            return patience.until.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        patience.missing = patience.missing.saturating_sub(buffer.filled().len() - before);
        if patience.missing == 0 {
            self.patience = None;
        }
        read
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for Opening<Stream> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_caller_that_says_nothing_or_stops_early_is_let_go() {
        for said in ["", "P", "PRI * HTTP/2.0"] {
            let (mut caller, ours) = tokio::io::duplex(64);
            caller.write_all(said.as_bytes()).await.unwrap();
            let mut read = Vec::new();
            let error = Opening::within(SHORT, ours).read_to_end(&mut read).await.unwrap_err();
            assert_eq!((error.kind(), read.as_slice()), (io::ErrorKind::TimedOut, said.as_bytes()));
        }
    }

    #[tokio::test]
    async fn whoever_has_said_what_it_speaks_may_rest() {
        let (mut caller, ours) = tokio::io::duplex(64);
        caller.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut opening = Opening::within(SHORT, ours);
        let mut read = [0; 64];
        let length = opening.read(&mut read).await.unwrap();
        assert!(length >= OPENING_BYTES);
        // Nothing comes for longer than an opening may take, and that is no error.
        tokio::time::timeout(5 * SHORT, opening.read(&mut read)).await.unwrap_err();
        caller.write_all(b"more").await.unwrap();
        assert_eq!(opening.read(&mut read).await.unwrap(), 4);
    }
}
