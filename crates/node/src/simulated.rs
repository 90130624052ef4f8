//! What a node lives on in a simulation instead of a machine: clocks, chance, a disk and sockets that a test holds in its
//! hand. Only in builds with the feature `simulated`, which decide for nobody. There a node runs inside a host of turmoil,
//! whose runtime tells the simulation's time: timers go by that, and what is read goes by the [`Host`]'s own clocks.

mod host;
pub mod net;

use std::cell::RefCell;
use std::time::Duration;

use rand::distr::{Distribution, StandardUniform};
use tokio::runtime::{self, Handle};

pub use self::host::Host;

thread_local! {
    /// Which runtime is on which host. A process that starts anew has another runtime, and registers again.
    static HOSTS: RefCell<Vec<(runtime::Id, Host)>> = const { RefCell::new(Vec::new()) };
}

/// Whatever runs on the current runtime runs on `host` from now on.
pub(crate) fn inhabit(host: &Host) {
    let here = Handle::current().id();
    HOSTS.with_borrow_mut(|hosts| {
        hosts.retain(|(_, known)| !known.is(host));
        hosts.push((here, host.clone()));
    });
}

/// The host that the current runtime is on.
fn here() -> Host {
    let here = Handle::current().id();
    let found = HOSTS.with_borrow(|hosts| hosts.iter().find(|(known, _)| *known == here).map(|(_, host)| host.clone()));
    found.expect("a node in a simulation runs on a runtime that inhabits a host")
}

/// The simulation's time since it began, by which nobody goes but the test.
fn true_time() -> Duration {
    turmoil::sim_elapsed().expect("a node in a simulation asks for the time while a host of it runs")
}

/// What the boot-time clock of the current host reads, in nanoseconds.
pub(crate) fn boot() -> u64 {
    here().boot(true_time()).as_nanos()
}

/// What its wall clock reads, in nanoseconds since 1970.
pub(crate) fn wall() -> u64 {
    here().wall(true_time()).as_unix_nanos()
}

/// What its chance has next.
pub(crate) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    here().random()
}

/// Waits for as long as a write to its disk takes.
pub(crate) async fn disk() {
    let pause = here().disk();
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}
