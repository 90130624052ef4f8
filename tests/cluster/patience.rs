//! Waiting: for something to be so, as long as a machine that does much else may need for it, and never for time to pass.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything that a cluster does by itself may take, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How soon is looked again. Nothing announces a change to a process outside.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks until there is something, and returns it; fails with what was seen last.
pub fn until<T, Seen: Debug>(what: &str, mut look: impl FnMut() -> Result<T, Seen>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < end, "{what} did not come about; last seen: {seen:#?}"),
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
