//! What the handle and the task that keeps the connection have in common: the connection while there is one, how the store
//! stands, and the counts.

use std::sync::Arc;
use std::time::Duration;

use ownership::kept::Incarnation;
use parking_lot::RwLock;
use redis::{ErrorKind, RedisError, ScriptInvocation, Value};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::error::{NotUp, StoreError, words_of};
use crate::examine::Found;
use crate::link::Link;
use crate::names::Names;
use crate::scripts::Scripts;
use crate::standing::Standing;
use crate::tally::{Op, Tally};

/// How many calls of one store may be under way; one more is refused with [`StoreError::Full`].
pub const IN_FLIGHT_MAX: usize = 256;

/// See the module.
pub(crate) struct Shared {
    pub(crate) names: Names,
    pub(crate) scripts: Scripts,
    pub(crate) tally: Tally,
    pub(crate) standing: watch::Sender<Standing>,
    link: RwLock<Option<Arc<Link>>>,
    /// Which life of the store the connection leads to.
    life: RwLock<Option<Incarnation>>,
    in_flight: Semaphore,
}

impl Shared {
    pub(crate) fn new(names: Names) -> Shared {
        Shared {
            names,
            scripts: Scripts::new(),
            tally: Tally::default(),
            standing: watch::Sender::new(Standing::Connecting),
            link: RwLock::new(None),
            life: RwLock::new(None),
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
        }
    }

    /// Calls go over this connection from now on, to this server.
    pub(crate) fn handle_up(&self, link: Arc<Link>, found: Found) {
        // The life first: whoever finds the new connection finds whose it is.
        *self.life.write() = Some(found.incarnation);
        *self.link.write() = Some(link);
        self.tally.count_connected();
        self.handle_found(found);
    }

    /// The connection leads to this server.
    pub(crate) fn handle_found(&self, found: Found) {
        let Found { incarnation, version, warnings } = found;
        *self.life.write() = Some(incarnation);
        self.tell(|_| Standing::Up { incarnation, version, warnings });
    }

    /// There is no connection, and why.
    pub(crate) fn handle_fallen(&self, not_up: NotUp) {
        self.handle_closed();
        self.tell(|before| before.fallen(not_up, Instant::now()));
    }

    /// Nobody asks any more.
    pub(crate) fn handle_closed(&self) {
        if let Some(link) = self.link.write().take() {
            link.close();
        }
    }

    /// One call; only to that life of the store, if one is named.
    pub(crate) async fn ask(
        &self,
        op: Op,
        call: &ScriptInvocation<'_>,
        patience: Duration,
        life: Option<Incarnation>,
    ) -> Result<Value, StoreError> {
        let link = self.link.read().clone().filter(|link| link.serves()).ok_or(StoreError::Away)?;
        if life.is_some() && *self.life.read() != life {
            return Err(StoreError::Away);
        }
        let _place = self.in_flight.try_acquire().map_err(|_| StoreError::Full)?;
        let began = Instant::now();
        let mut connection = link.connection();
        match tokio::time::timeout(patience, call.invoke_async(&mut connection)).await {
            Err(_) => {
                link.handle_timeout(began, patience);
                Err(StoreError::Unknown)
            }
            Ok(Ok(answer)) => {
                link.handle_answer();
                self.tally.count_answer(op, began.elapsed());
                Ok(answer)
            }
            Ok(Err(error)) => Err(without_answer(&link, &error)),
        }
    }

    /// An answer showed that the server is not what it was.
    pub(crate) fn suspect(&self) {
        if let Some(link) = &*self.link.read() {
            link.suspect();
        }
    }

    fn tell(&self, next: impl FnOnce(&Standing) -> Standing) {
        self.standing.send_if_modified(|standing| {
            let next = next(standing);
            let changed = *standing != next;
            *standing = next;
            changed
        });
    }
}

fn without_answer(link: &Link, error: &RedisError) -> StoreError {
    if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) {
        link.handle_answer();
        link.suspect();
        return StoreError::Refused(words_of(error));
    }
    // Whatever else it is, the crate and the server do not understand each other on this connection any more.
    link.give_up(format!("the connection to Redis broke: {error}"));
    StoreError::Unknown
}
