//! What a node remembers through a crash: its term, whom it voted for in it, and the log. How far the log was known to be
//! committed is kept as well, so that a node that starts anew without the others knows as much as before.

/// The disk of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk<P> {
    pub(super) term: u64,
    pub(super) vote: Option<u8>,
    /// The entry of index 1 comes first.
    pub(super) log: Vec<Entry<P>>,
    pub(super) committed: u64,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// The term of the leader who made it.
    pub term: u64,
    /// What it says; nothing, where it is the first of its leader's term.
    pub payload: Option<P>,
}

/// A place in a log, and the term of the entry there. The later of two is the one with the higher term, and in one term
/// the one further on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The term; zero before the first entry.
    pub term: u64,
    /// The index; zero before the first entry.
    pub index: u64,
}

impl<P> Default for Disk<P> {
    fn default() -> Disk<P> {
        Disk { term: 0, vote: None, log: Vec::new(), committed: 0 }
    }
}

impl<P> Disk<P> {
    /// The newest term that its node has seen.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The log, the entry of index 1 first.
    pub fn log(&self) -> &[Entry<P>] {
        &self.log
    }

    /// Up to where the log was known to be committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    pub(super) fn end(&self) -> Position {
        let index = self.log.len() as u64;
        Position { index, term: self.term_at(index).unwrap_or_default() }
    }

    /// The term of the entry there, zero at the very beginning; `None` beyond the end.
    pub(super) fn term_at(&self, index: u64) -> Option<u64> {
        match index.checked_sub(1) {
            None => Some(0),
            Some(before) => self.log.get(usize::try_from(before).ok()?).map(|entry| entry.term),
        }
    }

    /// The entries after that index, `most` of them at most.
    pub(super) fn after(&self, index: u64, most: usize) -> &[Entry<P>] {
        let from = usize::try_from(index).unwrap_or(usize::MAX).min(self.log.len());
        &self.log[from..self.log.len().min(from.saturating_add(most))]
    }
}
