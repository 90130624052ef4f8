//! Where a table keeps its entries: segments of bounded size, so that no single call ever moves more than one of them. A
//! store begins as one segment, which is all that most partitions ever have. It grows by *linear hashing* (Litwin, VLDB
//! 1980): when segments are well filled, the next one in turn is split in two, and when they are sparse the last one is
//! merged back. A partition with a million keys therefore never pauses to rehash them.
//!
//! The fingerprint is a keyed hash already; its first half places an entry in a segment, its second half picks the
//! segment. Nothing is hashed twice.

use smallvec::SmallVec;

use crate::key::Fingerprint;
use crate::segment::{Entry, Segment};

/// Entries per segment, on average, above which a segment is split: a split or a growing segment moves at most about
/// twice as many, some tens of microseconds.
const SEGMENT_ENTRIES: usize = 1_024;

/// The next place that [`Store::visit`] looks at.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    segment: u32,
    place: u32,
}

/// Where an entry lies, until one is added or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    segment: u32,
    place: u32,
}

#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Store {
    segments: SmallVec<[Segment; 1]>,
    len: usize,
    cursor: Cursor,
}

impl Store {
    pub(crate) fn new() -> Store {
        let cursor = Cursor { segment: 0, place: 0 };
        Store { segments: SmallVec::from_buf([Segment::default()]), len: 0, cursor }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn find(&self, key: &Fingerprint) -> Option<&Entry> {
        self.segments[segment_of(key, self.segments.len())].find(key)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, key: &Fingerprint) -> Option<&mut Entry> {
        let segment = segment_of(key, self.segments.len());
        self.segments[segment].find_mut(key)
    }

    #[inline]
    pub(crate) fn place_of(&self, key: &Fingerprint) -> Option<Place> {
        let segment = segment_of(key, self.segments.len());
        let place = self.segments[segment].position(key)?;
        // A segment is of bounded size, and there are fewer than 2^32 of them.
        Some(Place { segment: segment as u32, place: place as u32 })
    }

    /// The entry at a place where one was just found.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: Place) -> &mut Entry {
        let entry = self.segments[place.segment as usize].at_mut(place.place as usize);
        entry.expect("nothing was added or removed since it was found")
    }

    /// Adds an entry whose key is not there. Splits at most one segment.
    pub(crate) fn insert(&mut self, entry: Entry) {
        if self.len >= self.segments.len() * SEGMENT_ENTRIES {
            self.split_next();
        }
        let segment = segment_of(&entry.key, self.segments.len());
        self.segments[segment].insert(entry);
        self.len += 1;
    }

    /// Removes the entry of `key`, if there is one.
    pub(crate) fn remove(&mut self, key: &Fingerprint) -> Option<Entry> {
        let segment = segment_of(key, self.segments.len());
        let removed = self.segments[segment].remove(key)?;
        self.len -= 1;
        Some(removed)
    }

    /// Looks at the next `places`, round and round over calls, and removes the entries that `goes` names. Answers how
    /// many were removed. Where one was, the entry that moved up is looked at next.
    pub(crate) fn visit(&mut self, places: usize, mut goes: impl FnMut(&Entry) -> bool) -> usize {
        let before = self.len;
        for _ in 0..places {
            let segments = self.segments.len() as u32;
            let Cursor { segment, place } = self.cursor;
            let (segment, place) = (segment.min(segments - 1), place as usize);
            let table = &mut self.segments[segment as usize];
            if table.at(place).is_some_and(&mut goes) {
                drop(table.take(place));
                self.len -= 1;
                continue;
            }
            let ends = place + 1 >= table.places();
            let (segment, place) = if ends { ((segment + 1) % segments, 0) } else { (segment, place as u32 + 1) };
            self.cursor = Cursor { segment, place };
        }
        before - self.len
    }

    /// Gives memory back that removals have left unused: merges at most one segment and shrinks at most one.
    pub(crate) fn tidy(&mut self) {
        let count = self.segments.len();
        if count > 1 && self.len < (count - 1) * SEGMENT_ENTRIES / 2 {
            self.merge_last();
        }
        let segment = (self.cursor.segment as usize).min(self.segments.len() - 1);
        self.segments[segment].shrink_if_sparse();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.segments.iter().flat_map(Segment::iter)
    }

    /// Bytes that the entries' places take; not what their states own elsewhere.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let spilled = if self.segments.spilled() { self.segments.capacity() * size_of::<Segment>() } else { 0 };
        spilled + self.segments.iter().map(Segment::allocated_bytes).sum::<usize>()
    }

    /// How many places there are to look at.
    pub(crate) fn places(&self) -> usize {
        self.segments.iter().map(Segment::places).sum()
    }

    fn split_next(&mut self) {
        let last = self.segments.len();
        let split = self.segments[buddy(last)].split_off(|key| segment_of(key, last + 1) == last);
        self.segments.push(split);
    }

    fn merge_last(&mut self) {
        let Some(last) = self.segments.pop() else { return };
        let target = buddy(self.segments.len());
        self.segments[target].absorb(last);
    }
}

/// The segment, out of `count`, that a key lives in: the hash modulo the next power of two, and for a segment that is
/// not there yet, the one that it will be split from.
#[inline]
fn segment_of(key: &Fingerprint, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let segment = key.0[1] as usize & mask;
    if segment < count { segment } else { segment & (mask >> 1) }
}

/// The segment that segment `last` is split from and merged into.
fn buddy(last: usize) -> usize {
    last - (1 << last.ilog2())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bucket::Tat;
    use crate::charge::Mark;
    use crate::shapes::ShapeId;
    use crate::state::State;

    fn key(number: u64) -> Fingerprint {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fingerprint([mixed ^ (mixed >> 31), mixed.rotate_left(23)])
    }

    fn entry(number: u64) -> Entry {
        let state = State::Bucket { mark: Mark::default(), shape: ShapeId(0), tat: Tat::new(u128::from(number)) };
        Entry { state, key: key(number) }
    }

    fn store_of(numbers: std::ops::Range<u64>) -> Store {
        let mut store = Store::new();
        numbers.for_each(|number| store.insert(entry(number)));
        store
    }

    fn assert_holds(store: &Store, numbers: std::ops::Range<u64>) {
        assert_eq!(store.len() as u64, numbers.end - numbers.start);
        assert_eq!(store.iter().count(), store.len());
        for number in numbers {
            assert_eq!(store.find(&key(number)).expect("it was inserted").key, key(number));
        }
    }

    #[test]
    fn an_entry_takes_40_bytes() {
        assert_eq!((size_of::<State>(), size_of::<Entry>(), size_of::<Option<Entry>>()), (24, 40, 40));
    }

    #[test]
    fn a_store_keeps_every_entry_while_it_grows_and_shrinks() {
        let mut store = store_of(0..30_000);
        assert_holds(&store, 0..30_000);
        assert!(store.segments.len() >= 29, "{} segments", store.segments.len());
        for number in (100..30_000).rev() {
            assert!(store.remove(&key(number)).is_some());
            store.tidy();
            if number % 1_000 == 0 {
                assert_holds(&store, 0..number);
            }
        }
        assert_holds(&store, 0..100);
        assert_eq!(store.segments.len(), 1);
        assert!(store.find(&key(100)).is_none() && store.remove(&key(100)).is_none());
    }

    #[test]
    fn no_segment_ever_outgrows_what_a_call_may_move() {
        let mut store = Store::new();
        let mut largest = 0;
        for number in 0..200_000 {
            store.insert(entry(number));
            if number % 512 == 0 {
                largest = store.segments.iter().map(Segment::len).fold(largest, usize::max);
            }
        }
        assert!(largest <= SEGMENT_ENTRIES * 5 / 2, "a segment had {largest} entries");
    }

    #[test]
    fn visiting_every_place_once_sees_every_entry_once() {
        for count in [0, 1, 7, 300, 10_000] {
            let mut store = store_of(0..count);
            let mut seen = BTreeSet::new();
            let removed = store.visit(store.places(), |entry| {
                assert!(seen.insert(entry.key), "seen twice");
                false
            });
            assert_eq!((seen.len() as u64, removed), (count, 0));
        }
    }

    #[test]
    fn visiting_removes_what_it_is_told_to_and_loses_nothing_else() {
        let mut store = store_of(0..10_000);
        let even: BTreeSet<Fingerprint> = (0..10_000).step_by(2).map(key).collect();
        // A place is looked at once more for each removal, and entries may move round the end of a segment.
        let removed = store.visit(store.places() + 5_100, |entry| even.contains(&entry.key));
        assert!(removed >= 4_990, "{removed} removed");
        let mut left: BTreeSet<Fingerprint> = store.iter().map(|entry| entry.key).collect();
        assert_eq!((left.len(), store.len()), (10_000 - removed, 10_000 - removed));
        for number in (1..10_000).step_by(2) {
            assert!(store.find(&key(number)).is_some() && left.remove(&key(number)));
        }
        assert!(left.is_subset(&even));
    }

    #[test]
    fn an_empty_store_owns_no_memory_and_gives_back_what_it_had() {
        let mut store = Store::new();
        assert_eq!(store.allocated_bytes(), 0);
        store = store_of(0..5_000);
        let full = store.allocated_bytes();
        while store.len() > 0 {
            store.visit(64, |_| true);
            store.tidy();
        }
        for _ in 0..1_000 {
            store.visit(64, |_| true);
            store.tidy();
        }
        assert!(store.allocated_bytes() < full / 100, "{} of {full} bytes", store.allocated_bytes());
    }
}
