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
use crate::state::State;

/// Entries per segment, on average, above which a segment is split: a split or a growing segment moves at most about
/// twice as many, some tens of microseconds.
const SEGMENT_ENTRIES: usize = 1_024;

/// One key's entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Fingerprint,
    pub(crate) state: State,
}

/// Where an entry is; good until the next insertion or [`Store::tidy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    segment: usize,
    bucket: usize,
}

#[derive(Clone, Debug)]
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
        Some(Slot { segment, bucket })
    }

    /// The entry at a slot that is still good.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Entry {
        self.segments[slot.segment].get_bucket(slot.bucket).expect("a slot is used before anything moves")
    }

    /// The entry at a slot that is still good.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        self.segments[slot.segment].get_bucket_mut(slot.bucket).expect("a slot is used before anything moves")
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
            let segment = &mut self.segments[at.segment];
            if segment.get_bucket(at.bucket).is_some_and(&mut goes)
                && let Ok(found) = segment.get_bucket_entry(at.bucket)
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
        let segment = self.cursor.segment.min(self.segments.len() - 1);
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

    fn advance(&mut self) -> Slot {
        let at = self.cursor;
        let (mut segment, mut bucket) = (at.segment, at.bucket + 1);
        if self.segments.get(segment).is_none_or(|table| bucket >= table.num_buckets()) {
            (segment, bucket) = (segment + 1, 0);
        }
        if segment >= self.segments.len() {
            segment = 0;
        }
        self.cursor = Slot { segment, bucket };
        if at.segment < self.segments.len() { at } else { self.cursor }
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
