//! The last window of one calendar, for all who decide at once. Readers never wait: whoever comes while it is being
//! replaced reckons for himself. (A sequence lock: an odd turn says that somebody writes; the numbers count only if the
//! turn is the same before and after they were read.)

use std::sync::atomic::{AtomicU64, Ordering, fence};

use limits::{WallTime, WindowBounds};

/// A window that many read and few replace. Fresh, it holds the empty window at the epoch, in which no instant lies.
#[derive(Debug, Default)]
pub(super) struct LastWindow {
    turn: AtomicU64,
    index: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

impl LastWindow {
    /// The window, unless it is just being replaced.
    pub(super) fn get(&self) -> Option<WindowBounds> {
        let before = self.turn.load(Ordering::Acquire);
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (index, start, end) = (read(&self.index), read(&self.start), read(&self.end));
        fence(Ordering::Acquire);
        let after = self.turn.load(Ordering::Relaxed);
        let wall = WallTime::from_unix_nanos;
        (before == after && before.is_multiple_of(2)).then(|| WindowBounds {
            index,
            start: wall(start),
            end: wall(end),
        })
    }

    /// Replaces the window, unless somebody else is at it.
    pub(super) fn set(&self, window: WindowBounds) {
        let turn = self.turn.load(Ordering::Relaxed);
        let mine = turn.is_multiple_of(2)
            && self.turn.compare_exchange(turn, turn.wrapping_add(1), Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !mine {
            return;
        }
        fence(Ordering::Release);
        self.index.store(window.index, Ordering::Relaxed);
        self.start.store(window.start.as_unix_nanos(), Ordering::Relaxed);
        self.end.store(window.end.as_unix_nanos(), Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: u64 = 20_000_000;

    fn window(number: u64) -> WindowBounds {
        let at = WallTime::from_unix_nanos(number);
        WindowBounds { index: number, start: at, end: at }
    }

    #[test]
    fn what_is_set_is_there_and_a_fresh_one_holds_no_instant() {
        let last = LastWindow::default();
        assert_eq!(last.get(), Some(window(0)));
        last.set(window(7));
        assert_eq!(last.get(), Some(window(7)));
    }

    #[test]
    fn nobody_reads_half_of_one_window_and_half_of_another() {
        let last = LastWindow::default();
        let write = |seed: u64| (0..WRITES).for_each(|number| last.set(window(number * 2 + seed)));
        let read = || {
            let mut newest = 0;
            while newest < WRITES {
                let Some(seen) = last.get() else { continue };
                assert_eq!(seen, window(seen.index));
                newest = newest.max(seen.index);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            [0, 1].map(|seed| scope.spawn(move || write(seed))).into_iter().for_each(drop);
        });
        assert!(last.get().is_some(), "whoever began to write has ended");
    }
}
