//! One connection in use. It hears how its calls fared, and says when it should be given up: when it broke, or when it was
//! silent twice in a row. A connection that passes nothing on may look alive to the system for minutes.

use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::dial::Driver;

/// After so many timeouts in a row, each of a call that began after the one before had ended, a connection is given up.
pub const TIMEOUTS_MAX: u32 = 2;

/// A connection, and what is known of its health.
#[derive(Debug)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    driver: Driver,
    silence: Mutex<Silence>,
    broken: watch::Sender<Option<String>>,
    suspect: Notify,
}

/// How long nothing has been heard. Calls that wait at the same time are one silence, however many they are.
#[derive(Debug)]
struct Silence {
    timeouts: u32,
    /// A timeout of a call that began before this is part of a silence that was counted.
    counted_until: Instant,
}

impl Link {
    pub(crate) fn new(connection: MultiplexedConnection, driver: Driver) -> Link {
        let silence = Mutex::new(Silence { timeouts: 0, counted_until: Instant::now() });
        Link { connection, driver, silence, broken: watch::Sender::new(None), suspect: Notify::new() }
    }

    /// The connection, to ask on.
    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Something came back.
    pub(crate) fn handle_answer(&self) {
        self.silence.lock().timeouts = 0;
    }

    /// A call that began then was given up.
    pub(crate) fn handle_timeout(&self, began: Instant, waited: Duration) {
        let mut silence = self.silence.lock();
        if began < silence.counted_until {
            return;
        }
        silence.timeouts += 1;
        silence.counted_until = Instant::now();
        if silence.timeouts >= TIMEOUTS_MAX {
            self.give_up(format!(
                "Redis does not answer: {TIMEOUTS_MAX} calls in a row timed out, the last after {waited:?}"
            ));
        }
    }

    /// The connection is of no further use.
    pub(crate) fn give_up(&self, why: String) {
        self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            first.then(|| *broken = Some(why));
            first
        });
    }

    /// Whether it may still be asked on.
    pub(crate) fn serves(&self) -> bool {
        self.broken.borrow().is_none() && !self.driver.has_ended()
    }

    /// An answer was such that the server should be looked at.
    pub(crate) fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// Waits until somebody suspects something.
    pub(crate) async fn suspected(&self) {
        self.suspect.notified().await;
    }

    /// Waits until the connection is of no further use, and says why.
    pub(crate) async fn broken(&self) -> String {
        let mut broken = self.broken.subscribe();
        let given_up = async {
            let why = broken.wait_for(Option::is_some).await;
            why.ok().and_then(|why| why.clone()).unwrap_or_default()
        };
        tokio::select! {
            why = given_up => why,
            () = self.driver.ended() => "the connection to Redis was closed".to_owned(),
        }
    }

    /// Ends the connection; whoever waits for an answer on it waits no longer.
    pub(crate) fn close(&self) {
        self.driver.abort();
    }
}
