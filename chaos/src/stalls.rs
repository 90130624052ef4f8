//! What the machine itself kept from running. A thread sleeps a millisecond at a time; when it wakes up much later, so may
//! have everybody else, and an answer may be late by as much without anybody's fault.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use limits::{Moment, Span};

use crate::watch::Watch;

/// A sleep that is longer than asked by less than this is no stall.
const STALL_MIN: Span = Span::from_millis(5);

/// Stalls that are kept; a machine with more is no place to measure on.
const STALLS_MAX: usize = 100_000;

/// A stretch of time in which the sleeper did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When it should have run.
    pub from: Moment,
    /// When it did.
    pub until: Moment,
}

/// The sleeper.
#[derive(Debug)]
pub struct Sleeper {
    stalls: Arc<Mutex<Vec<Stall>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// Begins to sleep.
    pub fn start(watch: Watch) -> Sleeper {
        let (stalls, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (kept, told) = (Arc::clone(&stalls), Arc::clone(&stop));
        let thread = std::thread::spawn(move || sleep_on(watch, &kept, &told));
        Sleeper { stalls, stop, thread: Some(thread) }
    }

    /// Ends, and says what was seen.
    pub fn finish(mut self) -> Stalls {
        self.end();
        Stalls { all: std::mem::take(&mut *self.stalls.lock().expect("the sleeper does not panic")) }
    }

    /// What has been seen so far between two moments.
    pub fn so_far(&self, from: Moment, until: Moment) -> Span {
        within(&self.stalls.lock().expect("the sleeper does not panic"), from, until)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the sleeper does not panic");
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

fn sleep_on(watch: Watch, stalls: &Mutex<Vec<Stall>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let due = watch.now().saturating_add(Span::from_millis(1));
        std::thread::sleep(Duration::from_millis(1));
        let now = watch.now();
        if now.since(due) >= STALL_MIN {
            let mut stalls = stalls.lock().expect("nobody else panics");
            if stalls.len() < STALLS_MAX {
                stalls.push(Stall { from: due, until: now });
            }
        }
    }
}

/// Everything that was seen, in order.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    all: Vec<Stall>,
}

impl Stalls {
    /// How long the machine stood still between two moments.
    pub fn within(&self, from: Moment, until: Moment) -> Span {
        within(&self.all, from, until)
    }

    /// The longest.
    pub fn longest(&self) -> Span {
        self.all.iter().map(|stall| stall.until.since(stall.from)).max().unwrap_or(Span::ZERO)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}

fn within(stalls: &[Stall], from: Moment, until: Moment) -> Span {
    let first = stalls.partition_point(|stall| stall.until <= from);
    let overlapping = stalls[first..].iter().take_while(|stall| stall.from < until);
    overlapping.map(|stall| stall.until.min(until).since(stall.from.max(from))).fold(Span::ZERO, Span::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_of_a_stall_that_lies_inside_counts() {
        let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        let stall = |from, until| Stall { from: at(from), until: at(until) };
        let stalls = Stalls { all: vec![stall(10, 30), stall(50, 60), stall(90, 200)] };
        assert_eq!(stalls.within(at(0), at(10)), Span::ZERO);
        assert_eq!(stalls.within(at(20), at(55)), Span::from_millis(15));
        assert_eq!(stalls.within(at(0), at(1_000)), Span::from_millis(140));
        assert_eq!((stalls.longest(), stalls.count()), (Span::from_millis(110), 3));
    }

    #[test]
    fn the_sleeper_ends_when_it_is_told_to() {
        let watch = Watch::start();
        let sleeper = Sleeper::start(watch);
        let all = sleeper.finish();
        assert!(all.longest() < Span::from_secs(60));
    }
}
