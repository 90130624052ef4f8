//! Closing the doors without cutting anybody off: nobody new is let in, what is in flight is answered, and connections end
//! after that. A caller that does not let go is cut after a named time.

use std::time::Duration;

use tokio::sync::watch;

/// How long connections may take to end once the doors close. Longer than the longest deadline of a check by default, so
/// that only those are cut who hold a stream open or read nothing.
pub const CLOSING_WITHIN: Duration = Duration::from_secs(2);

/// Whether the doors are closing. Every connection has one.
#[derive(Clone, Debug)]
pub(crate) struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Not yet; the sender says when, by `true`.
    pub(crate) fn later() -> (watch::Sender<bool>, Closing) {
        let (close, closing) = watch::channel(false);
        (close, Closing(closing))
    }

    /// Pends until the doors close. It may be dropped and called again.
    pub(crate) async fn begun(&mut self) {
        if self.0.wait_for(|closing| *closing).await.is_err() {
            // Whoever could close them is gone: they stay open.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::TcpStream as Caller;
    use std::sync::Arc;

    use axum::Router;
    use axum::routing::get;
    use tokio::sync::Notify;

    use super::*;
    use crate::door::{Door, receive};

    #[tokio::test]
    async fn what_is_in_flight_is_answered_and_nobody_else_is_let_in() {
        let (close, closing) = Closing::later();
        let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let slow = {
            let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
            move || async move {
                asked.notify_one();
                answer.notified().await;
                "answered"
            }
        };
        let door = Door::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = door.local_addr().unwrap();
        let router = Router::new().route("/", get(slow));
        let receiving = tokio::spawn(receive(door.open().unwrap(), router, "test", 4, closing));
        let silent = Caller::connect(address).unwrap();
        let caller = tokio::task::spawn_blocking(move || {
            let mut caller = Caller::connect(address).unwrap();
            caller.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
            let mut said = String::new();
            caller.read_to_string(&mut said).unwrap();
            said
        });
        asked.notified().await;
        close.send_replace(true);
        // The port is free before the last answer is out.
        while Caller::connect(address).map_err(|error| error.kind()).err() != Some(ErrorKind::ConnectionRefused) {
            tokio::task::yield_now().await;
        }
        answer.notify_one();
        let said = caller.await.unwrap();
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("answered"), "{said}");
        receiving.await.unwrap();
        drop(silent);
    }
}
