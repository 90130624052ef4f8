//! Keeps one connection up: connects, looks the server over, asks for its health twice a second, and begins anew when it is
//! gone or no longer what it was. The client's own reconnecting does not do: it takes a connection that passes nothing on for
//! alive.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::dial::Dialler;
use crate::error::{NotUp, words_of};
use crate::examine::{Found, examine};
use crate::link::Link;
use crate::scripts::ACL_LINE;
use crate::shared::Shared;

/// So often the server is asked for its health, and who it is.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);
/// So long its answer may take.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long looking a new connection over may take, in all.
const LOOK_OVER_TIMEOUT: Duration = Duration::from_secs(1);
/// The wait before the first attempt to connect anew; it doubles with each.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest such wait.
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Runs until it is dropped.
pub(crate) async fn run(shared: Arc<Shared>, dialler: Dialler) {
    let mut wait = BACKOFF_MIN;
    loop {
        match connect(&shared, &dialler).await {
            Ok((link, found)) => {
                wait = BACKOFF_MIN;
                let link = Arc::new(link);
                shared.handle_up(Arc::clone(&link), found.clone());
                let why = attend(&shared, &link, found).await;
                shared.handle_fallen(why);
            }
            Err(why) => {
                shared.tally.count_failed();
                shared.handle_fallen(why);
            }
        }
        sleep(wait).await;
        wait = (wait * 2).min(BACKOFF_MAX);
    }
}

/// A connection to a server that will do, and that permits what we need.
async fn connect(shared: &Shared, dialler: &Dialler) -> Result<(Link, Found), NotUp> {
    let link = dialler.dial().await?;
    let look_over = async {
        let mut connection = link.connection();
        let found = look(&mut connection).await?;
        try_permissions(shared, &mut connection).await?;
        Ok(found)
    };
    let late = |_| NotUp::Down(format!("Redis connects and does not answer within {LOOK_OVER_TIMEOUT:?}"));
    let found = timeout(LOOK_OVER_TIMEOUT, look_over).await.map_err(late)??;
    Ok((link, found))
}

/// Stays with a connection while it serves, and says why it does not any more.
async fn attend(shared: &Shared, link: &Link, mut found: Found) -> NotUp {
    let mut beat = interval_at(Instant::now() + HEARTBEAT_EVERY, HEARTBEAT_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let looking = async {
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = link.suspected() => {}
            }
            let began = Instant::now();
            match timeout(HEARTBEAT_TIMEOUT, look(&mut link.connection())).await {
                Err(_) => link.handle_timeout(began, HEARTBEAT_TIMEOUT),
                Ok(Err(why)) => return why,
                Ok(Ok(now)) => {
                    link.handle_answer();
                    if now != found {
                        found = now.clone();
                        shared.handle_found(now);
                    }
                }
            }
        }
    };
    tokio::select! {
        why = link.broken() => NotUp::Down(why),
        why = looking => why,
    }
}

async fn look(connection: &mut MultiplexedConnection) -> Result<Found, NotUp> {
    let info: Vec<u8> = redis::cmd("INFO").query_async(connection).await.map_err(|error| not_permitted(&error))?;
    examine(&String::from_utf8_lossy(&info))
}

/// Loads the scripts, and tries each command that they call.
async fn try_permissions(shared: &Shared, connection: &mut MultiplexedConnection) -> Result<(), NotUp> {
    for script in shared.scripts.all() {
        script.load_async(connection).await.map_err(|error| not_permitted(&error))?;
    }
    let mut call = shared.scripts.probe.prepare_invoke();
    call.key(shared.names.probe()).key(&shared.names.cluster);
    let refused: RedisResult<Vec<String>> = call.invoke_async(connection).await;
    match refused.map_err(|error| not_permitted(&error))?.as_slice() {
        [] => Ok(()),
        [command, error, ..] => Err(lacking(&format!("{command} on keys of this cluster: {error}"))),
        [other] => Err(NotUp::Down(format!("Redis answers a probe with {other}"))),
    }
}

fn not_permitted(error: &RedisError) -> NotUp {
    let lacks = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm);
    if lacks { lacking(&words_of(error)) } else { NotUp::of(error) }
}

fn lacking(what: &str) -> NotUp {
    NotUp::Refused(format!("Redis does not permit what is needed: {what}; the line that grants it is: {ACL_LINE}"))
}
