//! Foca's timers, in the order they come due. Time here is the core's own: it stands still while the process did.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use foca::Timer;
use limits::Moment;

use super::identity::Party;

/// A heap of what comes due, earliest first; of two due together, the one submitted first.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Entry>,
    submitted: u64,
}

impl Timers {
    pub(super) fn submit(&mut self, due: Moment, timer: Timer<Party>) {
        self.heap.push(Entry { due, number: self.submitted, timer });
        self.submitted += 1;
    }

    pub(super) fn next_due(&self) -> Option<Moment> {
        self.heap.peek().map(|entry| entry.due)
    }

    /// The next timer that is due by `now`.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer<Party>> {
        if self.next_due()? > now {
            return None;
        }
        self.heap.pop().map(|entry| entry.timer)
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}

struct Entry {
    due: Moment,
    number: u64,
    timer: Timer<Party>,
}

impl Ord for Entry {
    /// Reversed, since the heap hands out its greatest.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_by_time_and_then_by_age() {
        let mut timers = Timers::default();
        for (due, token) in [(30, 0), (10, 1), (10, 2), (20, 3)] {
            timers.submit(Moment::from_nanos(due), Timer::PeriodicGossip(token));
        }
        assert_eq!(timers.next_due(), Some(Moment::from_nanos(10)));
        let due: Vec<_> = std::iter::from_fn(|| timers.pop_due(Moment::from_nanos(20))).collect();
        assert_eq!(due, [1, 2, 3].map(Timer::PeriodicGossip));
        assert_eq!(timers.next_due(), Some(Moment::from_nanos(30)));
    }
}
