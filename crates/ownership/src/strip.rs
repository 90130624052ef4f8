//! A ring that grows at the back, is forgotten at the front, and keeps its positions: an item's position is the number
//! of items pushed before it, modulo 2^32, and stays valid until the item is forgotten. A full-grown strip allocates
//! nothing.

use std::collections::VecDeque;

/// What holds no more than this many items is never shrunk: it is not worth an allocation.
pub(crate) const SHRINK_ABOVE: usize = 256;

/// Items in the order they came; see the module. Holds fewer than 2^31 items, so that a position says which is older.
#[derive(Clone, Debug)]
pub(crate) struct Strip<T> {
    items: VecDeque<T>,
    /// Position of the front.
    first: u32,
}

impl<T> Strip<T> {
    pub(crate) const fn new() -> Strip<T> {
        Strip { items: VecDeque::new(), first: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The position of the oldest item, or the one that the next item will get when there is none.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The position that the next item will get.
    pub(crate) fn next(&self) -> u32 {
        self.first.wrapping_add(self.items.len() as u32)
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.items.front()
    }

    pub(crate) fn push(&mut self, item: T) {
        debug_assert!(self.items.len() < 1 << 31, "a position says which of two items is older");
        self.items.push_back(item);
    }

    /// Forgets the oldest item and hands it out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.first = self.first.wrapping_add(1);
        Some(item)
    }

    /// Forgets the `count` oldest items.
    pub(crate) fn drop_front(&mut self, count: usize) {
        debug_assert!(count <= self.items.len(), "only what is held can be forgotten");
        self.items.drain(..count);
        self.first = self.first.wrapping_add(count as u32);
    }

    pub(crate) fn get(&self, position: u32) -> Option<&T> {
        self.items.get(self.offset(position))
    }

    pub(crate) fn get_mut(&mut self, position: u32) -> Option<&mut T> {
        let offset = self.offset(position);
        self.items.get_mut(offset)
    }

    /// The `count` items from `position` on, all of which must still be held.
    pub(crate) fn run(&self, position: u32, count: usize) -> impl Iterator<Item = &T> {
        let offset = self.offset(position);
        self.items.range(offset..offset + count)
    }

    /// Gives memory back when less than a quarter of it is in use.
    pub(crate) fn shrink(&mut self) {
        if self.items.capacity() > SHRINK_ABOVE && self.items.len() * 4 < self.items.capacity() {
            self.items.shrink_to(self.items.len() * 2);
        }
    }

    /// Where a position lies from the front; far beyond the end when it was forgotten.
    fn offset(&self, position: u32) -> usize {
        position.wrapping_sub(self.first) as usize
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_position_stays_valid_until_its_item_is_forgotten_even_across_the_wrap() {
        let mut strip = Strip { items: VecDeque::new(), first: u32::MAX - 1 };
        let positions: Vec<u32> = (0..4)
            .map(|item| {
                let position = strip.next();
                strip.push(item);
                position
            })
            .collect();
        assert_eq!(positions, [u32::MAX - 1, u32::MAX, 0, 1]);
        assert_eq!(strip.pop(), Some(0));
        assert_eq!(strip.get(positions[0]), None);
        assert_eq!(positions[1..].iter().map(|position| *strip.get(*position).unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(strip.run(positions[1], 2).copied().collect::<Vec<_>>(), [1, 2]);
        strip.drop_front(2);
        assert_eq!(strip.first(), positions[3]);
        *strip.get_mut(positions[3]).unwrap() = 30;
        assert_eq!((strip.front(), strip.len()), (Some(&30), 1));
    }

    #[test]
    fn a_strip_that_was_long_once_gives_its_memory_back() {
        let mut strip = Strip::new();
        (0..10_000).for_each(|item| strip.push(item));
        strip.drop_front(9_990);
        strip.shrink();
        assert!(strip.items.capacity() < 100);
        assert_eq!(strip.get(9_990), Some(&9_990));
    }
}
