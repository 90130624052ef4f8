//! What happened, line by line with its time, so that two runs of one seed can be held against each other.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

/// The lines of one run. Clones are the same story.
#[derive(Clone, Debug, Default)]
pub struct Story(Rc<RefCell<Vec<String>>>);

impl Story {
    /// Adds what happened at `now`.
    pub fn tell(&self, now: Duration, what: impl Display) {
        self.0.borrow_mut().push(format!("{:>6} ms  {what}", now.as_millis()));
    }

    /// All of it.
    pub fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

/// FNV-1a over the lines.
pub fn hash(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
