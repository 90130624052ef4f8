//! A simulated machine: what stays with it when the process on it is killed and started anew.

use std::sync::Arc;
use std::time::Duration;

use limits::{Moment, WallTime};
use parking_lot::Mutex;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// A machine of the simulation. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Host(Arc<Mutex<Parts>>);

#[derive(Debug)]
struct Parts {
    boot: Clock,
    wall: Clock,
    chance: StdRng,
    disk: Duration,
}

/// A clock that runs at a rate of its own: where it stood when it was last touched, and how fast it has run since.
#[derive(Clone, Copy, Debug)]
struct Clock {
    touched: Duration,
    read: u64,
    millionths: i32,
}

impl Clock {
    fn starting_at(read: u64) -> Clock {
        Clock { touched: Duration::ZERO, read, millionths: 0 }
    }

    fn at(self, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.touched).as_nanos();
        let rate = u128::try_from(1_000_000 + i64::from(self.millionths)).unwrap_or(0);
        self.read.saturating_add(u64::try_from(passed * rate / 1_000_000).unwrap_or(u64::MAX))
    }

    fn touch(&mut self, now: Duration) -> &mut Clock {
        *self = Clock { touched: now, read: self.at(now), ..*self };
        self
    }
}

impl Host {
    /// A machine whose clocks read this when the simulation begins; its chance follows from `seed`.
    pub fn new(seed: u64, boot: Moment, wall: WallTime) -> Host {
        Host(Arc::new(Mutex::new(Parts {
            boot: Clock::starting_at(boot.as_nanos()),
            wall: Clock::starting_at(wall.as_unix_nanos()),
            chance: StdRng::seed_from_u64(seed),
            disk: Duration::ZERO,
        })))
    }

    /// To be called first thing by what runs on this machine: from then on the current runtime is a process of it.
    pub fn enter(&self) {
        super::inhabit(self);
    }

    /// Both clocks run by so many millionths faster than the simulation's time, from `now` in that time on.
    pub fn set_rate(&self, millionths: i32, now: Duration) {
        let mut parts = self.0.lock();
        parts.boot.touch(now).millionths = millionths;
        parts.wall.touch(now).millionths = millionths;
    }

    /// The wall clock is set to this.
    pub fn set_wall(&self, wall: WallTime, now: Duration) {
        self.0.lock().wall.touch(now).read = wall.as_unix_nanos();
    }

    /// How long a write to the disk takes from now on.
    pub fn set_disk(&self, pause: Duration) {
        self.0.lock().disk = pause;
    }

    /// What the boot-time clock reads at `now` in the simulation's time.
    pub fn boot(&self, now: Duration) -> Moment {
        Moment::from_nanos(self.0.lock().boot.at(now))
    }

    /// What the wall clock reads then.
    pub fn wall(&self, now: Duration) -> WallTime {
        WallTime::from_unix_nanos(self.0.lock().wall.at(now))
    }

    pub(super) fn disk(&self) -> Duration {
        self.0.lock().disk
    }

    pub(super) fn random<T>(&self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        self.0.lock().chance.random()
    }

    pub(super) fn is(&self, other: &Host) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
