//! Where a table keeps its entries: hash tables of bounded size, so that no single call ever moves more than one of
//! them. A store begins as one segment, which is all that most partitions ever have. It grows by *linear hashing*
//! (Litwin, VLDB 1980): when segments are well filled, the next one in turn is split in two, and when they are sparse
//! the last one is merged back. A partition with a million keys therefore never pauses to rehash them.
//!
//! The fingerprint is a keyed hash already; its first half places an entry in a segment, its second half picks the
//! segment. Nothing is hashed twice.

use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::key::Fingerprint;
use crate::shapes::ShapeId;
use crate::state::State;

/// Entries per segment, on average, above which a segment is split: a split or a growing segment moves at most about
/// twice as many, some tens of microseconds.
const SEGMENT_ENTRIES: usize = 1_024;

/// One key's entry.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) state: State,
    pub(crate) key: Fingerprint,
}

/// Where an entry is; good until the next insertion or [`Store::tidy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    segment: u32,
    bucket: u32,
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Store {
    segments: SmallVec<[HashTable<Entry>; 1]>,
    len: usize,
    /// The next bucket that [`Store::visit`] looks at.
    cursor: Slot,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store { segments: SmallVec::from_buf([HashTable::new()]), len: 0, cursor: Slot { segment: 0, bucket: 0 } }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn find(&self, key: &Fingerprint) -> Option<Slot> {
        let segment = segment_of(key, self.segments.len());
        let bucket = self.segments[segment].find_bucket_index(place(key), |entry| entry.key == *key)?;
        Some(Slot { segment: segment as u32, bucket: bucket as u32 })
    }

    /// Whether there is an entry; reads it from end to end, for half of all entries lie across two cache lines.
    #[inline]
    pub(crate) fn touch(&self, key: &Fingerprint) -> bool {
        let segment = segment_of(key, self.segments.len());
        let whole = |entry: &Entry| (entry.key == *key) & (entry.state.shape() != ShapeId::NONE);
        self.segments[segment].find(place(key), whole).is_some()
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, key: &Fingerprint) -> Option<&mut Entry> {
        let segment = segment_of(key, self.segments.len());
        self.segments[segment].find_mut(place(key), |entry| entry.key == *key)
    }

    /// The entry at a slot that is still good.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Entry {
        self.segments[slot.segment as usize]
            .get_bucket(slot.bucket as usize)
            .expect("a slot is used before anything moves")
    }

    /// The entry at a slot that is still good.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        self.segments[slot.segment as usize]
            .get_bucket_mut(slot.bucket as usize)
            .expect("a slot is used before anything moves")
    }

    /// Adds an entry whose key is not there. Splits at most one segment.
    pub(crate) fn insert(&mut self, entry: Entry) {
        if self.len >= self.segments.len() * SEGMENT_ENTRIES {
            self.split_next();
        }
        let segment = segment_of(&entry.key, self.segments.len());
        self.segments[segment].insert_unique(place(&entry.key), entry, |entry| place(&entry.key));
        self.len += 1;
    }

    /// Removes the entry of `key`, if there is one.
    pub(crate) fn remove(&mut self, key: &Fingerprint) -> Option<Entry> {
        let segment = segment_of(key, self.segments.len());
        let found = self.segments[segment].find_entry(place(key), |entry| entry.key == *key).ok()?;
        self.len -= 1;
        Some(found.remove().0)
    }

    /// Looks at the next `buckets` places, round and round over calls, and removes the entries that `goes` names. Other
    /// entries keep their slots. Answers how many were removed.
    pub(crate) fn visit(&mut self, buckets: usize, mut goes: impl FnMut(&Entry) -> bool) -> usize {
        let before = self.len;
        for _ in 0..buckets {
            let at = self.advance();
            let (segment, bucket) = (&mut self.segments[at.segment as usize], at.bucket as usize);
            if segment.get_bucket(bucket).is_some_and(&mut goes)
                && let Ok(found) = segment.get_bucket_entry(bucket)
            {
                drop(found.remove());
                self.len -= 1;
            }
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
        let (used, buckets) = (self.segments[segment].len(), self.segments[segment].num_buckets());
        if used * 8 < buckets && buckets > 16 || used == 0 && buckets > 1 {
            self.segments[segment].shrink_to(used * 2, |entry| place(&entry.key));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.segments.iter().flat_map(HashTable::iter)
    }

    /// Bytes that the entries' places take; not what their states own elsewhere.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let spilled =
            if self.segments.spilled() { self.segments.capacity() * size_of::<HashTable<Entry>>() } else { 0 };
        spilled + self.segments.iter().map(HashTable::allocation_size).sum::<usize>()
    }

    /// How many buckets there are to look at.
    pub(crate) fn buckets(&self) -> usize {
        self.segments.iter().map(HashTable::num_buckets).sum()
    }

    /// Where the cursor stands, which may be past the end of a segment that shrank; it then moves on.
    fn advance(&mut self) -> Slot {
        let segments = self.segments.len() as u32;
        let at = Slot { segment: self.cursor.segment.min(segments - 1), ..self.cursor };
        let more = at.bucket as usize + 1 < self.segments[at.segment as usize].num_buckets();
        self.cursor = if more {
            Slot { bucket: at.bucket + 1, ..at }
        } else {
            Slot { segment: (at.segment + 1) % segments, bucket: 0 }
        };
        at
    }

    fn split_next(&mut self) {
        let last = self.segments.len();
        let source = buddy(last);
        let moves = self.segments[source].extract_if(|entry| segment_of(&entry.key, last + 1) == last);
        let moved: Vec<Entry> = moves.collect();
        let mut segment = HashTable::with_capacity(moved.len());
        for entry in moved {
            segment.insert_unique(place(&entry.key), entry, |entry| place(&entry.key));
        }
        self.segments.push(segment);
    }

    fn merge_last(&mut self) {
        let Some(last) = self.segments.pop() else { return };
        let target = buddy(self.segments.len());
        for entry in last {
            self.segments[target].insert_unique(place(&entry.key), entry, |entry| place(&entry.key));
        }
    }
}

#[inline]
fn place(key: &Fingerprint) -> u64 {
    key.0[0]
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
            let slot = store.find(&key(number)).expect("it was inserted");
            assert_eq!(store.get(slot).key, key(number));
        }
    }

    #[test]
    fn an_entry_takes_40_bytes() {
        assert_eq!((size_of::<State>(), size_of::<Entry>()), (24, 40));
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
                largest = store.segments.iter().map(HashTable::len).fold(largest, usize::max);
            }
        }
        assert!(largest <= SEGMENT_ENTRIES * 5 / 2, "a segment had {largest} entries");
    }

    #[test]
    fn visiting_every_bucket_once_sees_every_entry_once() {
        for count in [0, 1, 7, 300, 10_000] {
            let mut store = store_of(0..count);
            let mut seen = BTreeSet::new();
            let removed = store.visit(store.buckets(), |entry| {
                assert!(seen.insert(entry.key), "seen twice");
                false
            });
            assert_eq!((seen.len() as u64, removed), (count, 0));
        }
    }

    #[test]
    fn visiting_removes_what_it_is_told_to_and_moves_nothing_else() {
        let mut store = store_of(0..10_000);
        let odd: Vec<Slot> = (1..10_000).step_by(2).filter_map(|number| store.find(&key(number))).collect();
        let even: BTreeSet<Fingerprint> = (0..10_000).step_by(2).map(key).collect();
        let removed = store.visit(store.buckets(), |entry| even.contains(&entry.key));
        assert_eq!((removed, store.len()), (5_000, 5_000));
        for (slot, number) in odd.into_iter().zip((1..10_000).step_by(2)) {
            assert_eq!(store.get(slot).key, key(number));
        }
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
