//! A hash table of bounded size for entries whose key is a hash already: open addressing with linear probing, and
//! nothing beside the entries. A key's fingerprint says where it belongs, and comparing fingerprints says whether it is
//! there; so a look-up costs one trip to memory, where a table with control bytes (hashbrown, say) pays a second one to
//! another page. At a million random keys those trips are nearly all that a decision costs.
//!
//! Removing an entry moves those behind it up (Knuth, The Art of Computer Programming 3, 6.4, Algorithm R), so there are
//! no tombstones and a table never needs cleaning.

use crate::key::Fingerprint;
use crate::state::State;

/// One key's entry: 40 bytes.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) state: State,
    pub(crate) key: Fingerprint,
}

/// Places of the smallest table that holds anything.
const PLACES_MIN: usize = 8;

/// At most seven places in ten are taken: a key that is there is found after 2.2 looks on average, one that is not is
/// missed after 6.
const FULL: (usize, usize) = (7, 10);

/// A table grows and shrinks to this load, four fifths of a full one.
const ROOMY: (usize, usize) = (56, 100);

/// Below this load a table shrinks.
const SPARSE: (usize, usize) = (28, 100);

#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    places: Box<[Option<Entry>]>,
    len: usize,
}

impl Segment {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// The entry at a place, if it is taken.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&Entry> {
        self.places.get(place)?.as_ref()
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut Entry> {
        self.places.get_mut(place)?.as_mut()
    }

    #[inline]
    pub(crate) fn find(&self, key: &Fingerprint) -> Option<&Entry> {
        self.places[self.position(key)?].as_ref()
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, key: &Fingerprint) -> Option<&mut Entry> {
        let position = self.position(key)?;
        self.places[position].as_mut()
    }

    /// Adds an entry whose key is not there.
    pub(crate) fn insert(&mut self, entry: Entry) {
        debug_assert!(self.find(&entry.key).is_none(), "a key has one entry");
        if (self.len + 1) * FULL.1 > self.places.len() * FULL.0 {
            self.resize(self.len + 1);
        }
        self.put(entry);
    }

    pub(crate) fn remove(&mut self, key: &Fingerprint) -> Option<Entry> {
        self.position(key).and_then(|position| self.take(position))
    }

    /// Removes the entry at a place and closes the gap. Entries behind it may move up, the next one into this very place.
    pub(crate) fn take(&mut self, position: usize) -> Option<Entry> {
        let taken = self.places.get_mut(position)?.take()?;
        self.len -= 1;
        let (mut gap, mut behind) = (position, position);
        loop {
            behind = self.after(behind);
            let Some(entry) = &self.places[behind] else { return Some(taken) };
            let home = self.home(&entry.key);
            // It may move up unless its home lies behind the gap; the table is a ring.
            let stays = if gap <= behind { gap < home && home <= behind } else { gap < home || home <= behind };
            if !stays {
                self.places.swap(gap, behind);
                gap = behind;
            }
        }
    }

    /// Gives memory back if much of it is unused.
    pub(crate) fn shrink_if_sparse(&mut self) {
        if self.len == 0 {
            self.places = Box::default();
        } else if self.places.len() > PLACES_MIN && self.len * SPARSE.1 < self.places.len() * SPARSE.0 {
            self.resize(self.len);
        }
    }

    /// Moves out the entries that `moves` names; in one pass, with no more than one new table.
    pub(crate) fn split_off(&mut self, moves: impl Fn(&Fingerprint) -> bool) -> Segment {
        let leaving = self.iter().filter(|entry| moves(&entry.key)).count();
        let (mut stay, mut left) = (Segment::with_room_for(self.len - leaving), Segment::with_room_for(leaving));
        for entry in std::mem::take(&mut self.places).into_iter().flatten() {
            if moves(&entry.key) { left.put(entry) } else { stay.put(entry) }
        }
        *self = stay;
        left
    }

    /// Takes in all entries of `other`, none of whose keys is there.
    pub(crate) fn absorb(&mut self, other: Segment) {
        self.resize(self.len + other.len);
        other.places.into_iter().flatten().for_each(|entry| self.put(entry));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().flatten()
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    fn with_room_for(len: usize) -> Segment {
        let places = if len == 0 { 0 } else { (len * ROOMY.1).div_ceil(ROOMY.0).max(PLACES_MIN) };
        Segment { places: (0..places).map(|_| None).collect(), len: 0 }
    }

    fn resize(&mut self, len: usize) {
        let old = std::mem::replace(self, Segment::with_room_for(len));
        old.places.into_iter().flatten().for_each(|entry| self.put(entry));
    }

    /// Puts an entry into the first free place; there is one.
    fn put(&mut self, entry: Entry) {
        let mut place = self.home(&entry.key);
        while self.places[place].is_some() {
            place = self.after(place);
        }
        self.places[place] = Some(entry);
        self.len += 1;
    }

    /// Where `key` is. A table is never full, so the search ends.
    #[inline]
    pub(crate) fn position(&self, key: &Fingerprint) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(key);
        loop {
            match &self.places[place] {
                None => return None,
                Some(entry) if entry.key == *key => return Some(place),
                Some(_) => place = self.after(place),
            }
        }
    }

    /// Where a key belongs: its first half, scaled to the number of places.
    #[inline]
    fn home(&self, key: &Fingerprint) -> usize {
        ((u128::from(key.0[0]) * self.places.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        let next = place + 1;
        if next == self.places.len() { 0 } else { next }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::bucket::Tat;
    use crate::charge::Mark;
    use crate::shapes::ShapeId;

    /// Keys that collide as they please: few homes, and the ends of the ring among them.
    fn crowded() -> impl Strategy<Value = Fingerprint> {
        (prop::sample::select(vec![0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX]), 0..6u64)
            .prop_map(|(home, number)| Fingerprint([home, number]))
    }

    fn entry(key: Fingerprint, number: u128) -> Entry {
        Entry { state: State::Bucket { mark: Mark::default(), shape: ShapeId(0), tat: Tat::new(number) }, key }
    }

    fn number(entry: &Entry) -> u128 {
        let State::Bucket { tat, .. } = &entry.state else { unreachable!("a test puts buckets in") };
        tat.scaled()
    }

    proptest! {
        #[test]
        fn a_segment_holds_what_a_map_holds(ops in prop::collection::vec((crowded(), 0..6u8), 1..120)) {
            let (mut segment, mut map) = (Segment::default(), BTreeMap::new());
            for (step, (key, op)) in ops.into_iter().enumerate() {
                match op {
                    0..=3 if !map.contains_key(&key) => {
                        segment.insert(entry(key, step as u128));
                        map.insert(key, step as u128);
                    }
                    4 => prop_assert_eq!(segment.remove(&key).map(|entry| number(&entry)), map.remove(&key)),
                    5 => segment.shrink_if_sparse(),
                    _ => {}
                }
                prop_assert_eq!(segment.len(), map.len());
                for (key, expected) in &map {
                    prop_assert_eq!(segment.find(key).map(number), Some(*expected));
                }
                prop_assert_eq!(segment.iter().count(), map.len());
            }
        }

        #[test]
        fn a_split_segment_and_the_one_it_absorbs_are_the_whole(keys in prop::collection::btree_set(crowded(), 0..25)) {
            let mut segment = Segment::default();
            keys.iter().for_each(|key| segment.insert(entry(*key, u128::from(key.0[1]))));
            let odd = segment.split_off(|key| key.0[1] % 2 == 1);
            prop_assert!(odd.iter().all(|entry| entry.key.0[1] % 2 == 1));
            prop_assert!(segment.iter().all(|entry| entry.key.0[1] % 2 == 0));
            prop_assert_eq!(odd.len() + segment.len(), keys.len());
            segment.absorb(odd);
            prop_assert!(keys.iter().all(|key| segment.find(key).is_some()) && segment.len() == keys.len());
        }
    }

    #[test]
    fn a_segment_keeps_its_load_between_sparse_and_full() {
        let key = |number: u64| Fingerprint([number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number]);
        let mut segment = Segment::default();
        for count in 1..3_000 {
            segment.insert(entry(key(count), 0));
            assert!(segment.len() * 10 <= segment.places() * 7, "{count} entries in {} places", segment.places());
            assert!(count < 20 || segment.len() * 100 >= segment.places() * 55, "{count} in {}", segment.places());
        }
        for count in (1..3_000).rev() {
            segment.remove(&key(count));
            segment.shrink_if_sparse();
            assert!(segment.places() <= PLACES_MIN || segment.len() * 100 >= segment.places() * 27);
        }
        assert_eq!(segment.allocated_bytes(), 0);
    }
}
