//! Which rule is the first that matches a check, at a cost that does not grow with the number of rules.
//!
//! Every value that a rule mentions gets a number, so a check's attributes are compared as text once each and are small
//! integers from then on. Rules that match on the same set of attributes form one [`Set`]; a set is a path of steps from
//! its root, one per attribute, and all steps of all sets stand in one hash table. So a check costs one look-up per
//! attribute, one per segment of a path that is matched by prefix, and one walk per set of attributes, of which there
//! are at most [`MATCH_SETS_MAX`](crate::bounds::MATCH_SETS_MAX); of the walks that arrive, the lowest rule wins.
//!
//! The tables are made from the operator's document and only read afterwards, so a fixed hash is no way in for whoever
//! chooses the values of a check.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::attributes::VALUE_MAX;
use crate::bounds::{ATTRIBUTES_NAMED_MAX, PREFIX_SEGMENTS_MAX};
use crate::document::{Pattern, RuleSpec};

/// No rule, no number.
const NONE: u32 = u32::MAX;

/// The rules of one domain, compiled for matching. Slots are the places of attributes in the domain's list of names.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Ascending by their first rule, since they are added with it.
    sets: Vec<Set>,
    steps: HashTable<Step>,
    values: HashTable<Known>,
    /// The bytes of all known values, one after the other.
    text: Vec<u8>,
    /// Slots that are compared with whole values, and slots that are compared with prefixes.
    whole: u64,
    under: u64,
    /// The lengths of the prefixes there are, one bit each.
    lengths: [u64; VALUE_MAX / 64 + 1],
    /// The first rule that matches on nothing.
    catch_all: u32,
}

/// The rules that match on one set of attributes.
#[derive(Debug)]
struct Set {
    root: u32,
    /// The slots compared with whole values, ascending, as a mask.
    whole: u64,
    /// The slot compared by prefix: the last step.
    under: Option<u8>,
    /// The first rule of the set.
    first: u32,
}

/// From a state, over a value, to the next state; the last step leads to the number of the rule.
#[derive(Debug)]
struct Step {
    from: u32,
    value: u32,
    to: u32,
}

/// A value that some rule mentions for a slot.
#[derive(Debug)]
struct Known {
    start: u32,
    len: u16,
    slot: u8,
    under: bool,
    number: u32,
}

/// The bytes of a check's attributes by slot.
pub(crate) trait Seated {
    fn bytes(&self, slot: u8) -> Option<&[u8]>;
}

impl Index {
    /// Compiles rules; `slot` gives the slot of an attribute's name.
    pub(crate) fn build(rules: &[RuleSpec], slot: &dyn Fn(&str) -> u8) -> Index {
        let mut index = Index { catch_all: NONE, ..Index::default() };
        let mut states = 0;
        for (number, rule) in (0..).zip(rules) {
            index.add(number, rule, slot, &mut states);
        }
        index
    }

    /// The number of the first rule that matches.
    pub(crate) fn first(&self, seated: &impl Seated) -> Option<u32> {
        let numbers = self.numbers(seated);
        let mut best = self.catch_all;
        for set in &self.sets {
            if set.first >= best {
                break;
            }
            if let Some(state) = self.walk(set, &numbers) {
                best = best.min(match set.under {
                    None => state,
                    Some(slot) => self.lowest_under(state, slot, &numbers),
                });
            }
        }
        (best != NONE).then_some(best)
    }

    fn walk(&self, set: &Set, numbers: &Numbers) -> Option<u32> {
        // Most sets that do not match are told apart here, without a look-up.
        if set.whole & !numbers.known != 0 {
            return None;
        }
        slots(set.whole).try_fold(set.root, |state, slot| self.step(state, numbers.whole[usize::from(slot)]))
    }

    fn lowest_under(&self, state: u32, slot: u8, numbers: &Numbers) -> u32 {
        let of_slot = numbers.under.iter().filter(|(of, _)| *of == slot);
        of_slot.filter_map(|(_, value)| self.step(state, *value)).min().unwrap_or(NONE)
    }

    /// The check's values as numbers; values that no rule mentions have none.
    fn numbers(&self, seated: &impl Seated) -> Numbers {
        let mut numbers = Numbers { known: 0, whole: [NONE; ATTRIBUTES_NAMED_MAX], under: SmallVec::new() };
        for slot in slots(self.whole) {
            if let Some(number) = seated.bytes(slot).and_then(|bytes| self.number(slot, false, bytes)) {
                numbers.known |= 1 << slot;
                numbers.whole[usize::from(slot)] = number;
            }
        }
        for slot in slots(self.under) {
            let Some(bytes) = seated.bytes(slot) else { continue };
            let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
            let likely = ends.take(PREFIX_SEGMENTS_MAX).filter(|&end| self.has_length(end));
            let known = likely.filter_map(|end| self.number(slot, true, &bytes[..end]));
            numbers.under.extend(known.map(|number| (slot, number)));
        }
        numbers
    }

    fn has_length(&self, bytes: usize) -> bool {
        self.lengths[bytes / 64] >> (bytes % 64) & 1 == 1
    }

    fn number(&self, slot: u8, under: bool, bytes: &[u8]) -> Option<u32> {
        let same = |known: &Known| known.slot == slot && known.under == under && self.text_of(known) == bytes;
        self.values.find(hash_value(slot, under, bytes), same).map(|known| known.number)
    }

    fn step(&self, from: u32, value: u32) -> Option<u32> {
        let same = |step: &Step| step.from == from && step.value == value;
        self.steps.find(hash_step(from, value), same).map(|step| step.to)
    }

    fn text_of(&self, known: &Known) -> &[u8] {
        &self.text[known.start as usize..][..usize::from(known.len)]
    }
}

/// A check's values as numbers.
struct Numbers {
    /// The slots whose whole value has a number.
    known: u64,
    whole: [u32; ATTRIBUTES_NAMED_MAX],
    /// Slot and number of each known prefix of a value.
    under: SmallVec<[(u8, u32); PREFIX_SEGMENTS_MAX]>,
}

/// Building.
impl Index {
    fn add(&mut self, rule_number: u32, rule: &RuleSpec, slot: &dyn Fn(&str) -> u8, states: &mut u32) {
        let mut wanted: Vec<(u8, &[Pattern])> =
            rule.matches.iter().map(|it| (slot(&it.attribute), &*it.patterns)).collect();
        wanted.sort_unstable_by_key(|(slot, _)| *slot);
        for combination in combinations(&wanted) {
            self.add_combination(rule_number, &combination, states);
        }
    }

    fn add_combination(&mut self, rule: u32, combination: &[(u8, &Pattern)], states: &mut u32) {
        let mut path: Vec<u32> = Vec::with_capacity(combination.len());
        let (mut whole, mut under) = (0, None);
        for &(slot, pattern) in combination {
            match pattern {
                Pattern::Equals(bytes) => {
                    whole |= 1 << slot;
                    path.push(self.intern(slot, false, bytes));
                }
                Pattern::Under(_) => {}
            }
        }
        for &(slot, pattern) in combination {
            if let Pattern::Under(bytes) = pattern {
                under = Some(slot);
                self.lengths[bytes.len() / 64] |= 1 << (bytes.len() % 64);
                path.push(self.intern(slot, true, bytes));
            }
        }
        match path.split_last() {
            None => self.catch_all = self.catch_all.min(rule),
            Some((last, before)) => {
                let root = self.root(rule, whole, under, states);
                let state = before.iter().fold(root, |state, value| self.link(state, *value, states));
                self.arrive(state, *last, rule);
            }
        }
    }

    fn root(&mut self, rule: u32, whole: u64, under: Option<u8>, states: &mut u32) -> u32 {
        if let Some(set) = self.sets.iter().find(|set| set.whole == whole && set.under == under) {
            return set.root;
        }
        self.whole |= whole;
        self.under |= under.map_or(0, |slot| 1 << slot);
        let root = next(states);
        self.sets.push(Set { root, whole, under, first: rule });
        root
    }

    /// The state after a step that is not the last.
    fn link(&mut self, from: u32, value: u32, states: &mut u32) -> u32 {
        if let Some(to) = self.step(from, value) {
            return to;
        }
        let to = next(states);
        self.insert_step(Step { from, value, to });
        to
    }

    /// The last step; a rule that came before keeps it.
    fn arrive(&mut self, from: u32, value: u32, rule: u32) {
        if self.step(from, value).is_none() {
            self.insert_step(Step { from, value, to: rule });
        }
    }

    fn insert_step(&mut self, step: Step) {
        let hash = hash_step(step.from, step.value);
        self.steps.insert_unique(hash, step, |step| hash_step(step.from, step.value));
    }

    fn intern(&mut self, slot: u8, under: bool, bytes: &[u8]) -> u32 {
        if let Some(number) = self.number(slot, under, bytes) {
            return number;
        }
        let number = u32::try_from(self.values.len()).expect("a document has fewer bytes than that");
        let start = u32::try_from(self.text.len()).expect("a document has fewer bytes than that");
        let len = u16::try_from(bytes.len()).expect("a pattern is at most VALUE_MAX bytes");
        self.text.extend_from_slice(bytes);
        let (text, hash) = (&self.text, hash_value(slot, under, bytes));
        let rehash = |it: &Known| hash_value(it.slot, it.under, &text[it.start as usize..][..usize::from(it.len)]);
        self.values.insert_unique(hash, Known { start, len, slot, under, number }, rehash);
        number
    }
}

fn next(states: &mut u32) -> u32 {
    *states += 1;
    *states
}

/// All ways to take one pattern of each list.
fn combinations<'r>(wanted: &[(u8, &'r [Pattern])]) -> Vec<Vec<(u8, &'r Pattern)>> {
    wanted.iter().fold(vec![Vec::new()], |sets, (slot, patterns)| {
        let longer = |set: &Vec<(u8, &'r Pattern)>| {
            let set = set.clone();
            patterns.iter().map(move |pattern| set.iter().copied().chain([(*slot, pattern)]).collect())
        };
        sets.iter().flat_map(longer).collect()
    })
}

/// The slots of a mask, ascending.
fn slots(mut mask: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let slot = (mask != 0).then(|| mask.trailing_zeros() as u8)?;
        mask &= mask - 1;
        Some(slot)
    })
}

/// The seed is fixed, so that every run takes the same time.
const HASH: FixedState = FixedState::with_seed(0);

fn hash_value(slot: u8, under: bool, bytes: &[u8]) -> u64 {
    let mut hasher = HASH.build_hasher();
    hasher.write_u16(u16::from_le_bytes([slot, u8::from(under)]));
    hasher.write(bytes);
    hasher.finish()
}

fn hash_step(from: u32, value: u32) -> u64 {
    let mut hasher = HASH.build_hasher();
    hasher.write_u64(u64::from(from) << 32 | u64::from(value));
    hasher.finish()
}
