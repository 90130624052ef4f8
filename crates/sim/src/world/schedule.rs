//! What is to happen, by real time: a heap, and a number that keeps what falls on one moment in the order in which it was
//! planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use limits::Moment;

/// Everything that is planned.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    /// When, in which order, and where it lies: small, since a heap moves its entries about.
    heap: BinaryHeap<Reverse<(Moment, u64, u32)>>,
    planned: Vec<Option<T>>,
    free: Vec<u32>,
    number: u64,
}

impl<T> Schedule<T> {
    pub(crate) fn new() -> Schedule<T> {
        Schedule { heap: BinaryHeap::with_capacity(1_024), planned: Vec::new(), free: Vec::new(), number: 0 }
    }

    pub(crate) fn plan(&mut self, at: Moment, what: T) {
        self.number += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.planned.push(None);
            u32::try_from(self.planned.len() - 1).expect("a story is bounded")
        });
        self.planned[place as usize] = Some(what);
        self.heap.push(Reverse((at, self.number, place)));
    }

    /// What comes next, unless it comes after `until`.
    pub(crate) fn next(&mut self, until: Moment) -> Option<(Moment, T)> {
        let Reverse((at, _, place)) = *self.heap.peek()?;
        if at > until {
            return None;
        }
        self.heap.pop();
        self.free.push(place);
        self.planned[place as usize].take().map(|what| (at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_on_one_moment_comes_in_the_order_in_which_it_was_planned() {
        let at = Moment::from_nanos;
        let mut schedule = Schedule::new();
        for (time, what) in [(5, "c"), (1, "a"), (5, "d"), (9, "f"), (1, "b")] {
            schedule.plan(at(time), what);
        }
        assert_eq!([schedule.next(at(8)), schedule.next(at(8))], [Some((at(1), "a")), Some((at(1), "b"))]);
        schedule.plan(at(5), "e");
        let rest: Vec<_> = std::iter::from_fn(|| schedule.next(at(8))).map(|(_, what)| what).collect();
        assert_eq!(rest, ["c", "d", "e"], "and nothing after the end");
    }
}
