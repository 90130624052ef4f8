//! The sketch of heavy keys against exact counts: who is heavy is in it, every count is right within its error, mergers
//! keep both, and a hit allocates nothing once the sketch is full.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;

use limits::Fingerprint;
use limits::top::{Summary, Top};
use proptest::collection::vec;
use proptest::prelude::*;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A stream: keys, few of them often, with their weights; and whether the sketch was passed by.
type Stream = Vec<(u64, u64, bool)>;

/// What one stream really holds.
type Exact = BTreeMap<Fingerprint, u64>;

/// A key whose bytes are as mixed as those of a hash, and whose number can be read off.
fn key(number: u64) -> Fingerprint {
    Fingerprint([number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number])
}

fn streams(missing: bool) -> impl Strategy<Value = Stream> {
    let number = prop_oneof![3 => 0..4u64, 2 => 0..20u64, 2 => 0..500u64];
    let weight = prop_oneof![4 => Just(1u64), 2 => 0..20u64, 1 => 0..2_000u64];
    vec((number, weight, prop::bool::weighted(if missing { 0.1 } else { 0.0 })), 0..400)
}

fn sketched(stream: &Stream, capacity: usize) -> (Summary, Exact) {
    let (mut top, mut exact, mut missed) = (Top::new(capacity), Exact::new(), 0);
    for (number, weight, passed_by) in stream {
        *exact.entry(key(*number)).or_default() += weight;
        if *passed_by {
            missed += weight;
        } else {
            top.add(key(*number), *weight, |text| text.push_part("client", &number.to_string()));
        }
    }
    (top.summary(missed), exact)
}

fn together(all: &[Exact]) -> Exact {
    let mut sum = Exact::new();
    for (key, weight) in all.iter().flatten() {
        *sum.entry(*key).or_default() += weight;
    }
    sum
}

fn holds(summary: &Summary, exact: &Exact) -> Result<(), TestCaseError> {
    prop_assert_eq!(summary.total, exact.values().sum::<u64>());
    for told in &summary.keys {
        let truly = exact.get(&told.key).copied().unwrap_or(0);
        prop_assert!(truly <= told.count, "{told:?} has {truly}");
        prop_assert!(told.count.saturating_sub(told.error) <= truly, "{told:?} has {truly}");
        prop_assert_eq!(&*told.text, format!("client={}", told.key.0[1]), "the text is that of its key");
    }
    for (key, truly) in exact {
        let told = summary.keys.iter().filter(|told| told.key == *key).count();
        prop_assert!(told == 1 || told == 0 && *truly <= summary.absent, "{key:?}: {truly}, told {told} times");
    }
    prop_assert!(summary.keys.windows(2).all(|pair| pair[0].count >= pair[1].count), "the heaviest first");
    Ok(())
}

/// The promise in the paper's words: whoever has more than one part in `capacity` is told.
fn heavy_are_told(summary: &Summary, exact: &Exact, capacity: usize) -> Result<(), TestCaseError> {
    for (key, truly) in exact {
        let heavy = truly * capacity as u64 > summary.total;
        prop_assert!(!heavy || summary.keys.iter().any(|told| told.key == *key), "{key:?} has {truly}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_sketch_is_right_within_its_errors(stream in streams(true), capacity in 1..40usize) {
        let (summary, exact) = sketched(&stream, capacity);
        prop_assert!(summary.keys.len() <= capacity);
        holds(&summary, &exact)?;
    }

    #[test]
    fn whoever_has_more_than_one_part_in_k_is_told(stream in streams(false), capacity in 1..40usize) {
        let (summary, exact) = sketched(&stream, capacity);
        prop_assert!(summary.absent * capacity as u64 <= summary.total);
        heavy_are_told(&summary, &exact, capacity)?;
    }

    #[test]
    fn few_keys_are_counted_exactly(stream in streams(false)) {
        let (summary, exact) = sketched(&stream, 500);
        prop_assert_eq!(summary.absent, 0);
        prop_assert!(summary.keys.iter().all(|told| told.error == 0));
        let told: Exact = summary.keys.iter().map(|told| (told.key, told.count)).collect();
        prop_assert_eq!(told, exact);
    }

    #[test]
    fn a_merger_is_right_within_its_errors(all in vec(streams(true), 0..5), capacity in 1..20usize, kept in 0..20usize) {
        let (mut summaries, exact): (Vec<_>, Vec<_>) = all.iter().map(|stream| sketched(stream, capacity)).unzip();
        let exact = together(&exact);
        let mut merged = Summary::merge(&summaries);
        holds(&merged, &exact)?;
        // Whether the parts are cut before they are merged, or what was merged, or both.
        merged.truncate(kept);
        holds(&merged, &exact)?;
        summaries.iter_mut().for_each(|summary| summary.truncate(kept));
        holds(&Summary::merge(&[Summary::merge(&summaries)]), &exact)?;
    }

    #[test]
    fn a_merger_tells_whoever_has_more_than_one_part_in_k(all in vec(streams(false), 1..5), capacity in 1..20usize) {
        let (summaries, exact): (Vec<_>, Vec<_>) = all.iter().map(|stream| sketched(stream, capacity)).unzip();
        let merged = Summary::merge(&summaries);
        prop_assert!(merged.absent * capacity as u64 <= merged.total);
        heavy_are_told(&merged, &together(&exact), capacity)?;
    }
}

#[test]
fn sums_stop_at_the_end_of_numbers() {
    let mut top = Top::new(1);
    top.add(key(1), u64::MAX, |_| {});
    top.add(key(1), 5, |_| {});
    top.add(key(2), 5, |_| {});
    let summary = top.summary(7);
    assert_eq!((summary.total, summary.absent, summary.keys[0].count), (u64::MAX, u64::MAX, u64::MAX));
    let merged = Summary::merge(&[summary.clone(), summary]);
    assert_eq!((merged.total, merged.keys[0].count), (u64::MAX, u64::MAX));
}

#[test]
fn a_hit_allocates_nothing() {
    let mut top = Top::new(8);
    let texts: Vec<String> = (0..100).map(|number| "x".repeat(number * 3)).collect();
    let before = ALLOCATIONS.get();
    for round in 0..3u64 {
        for (number, text) in (0..).zip(&texts) {
            top.add(key(number + round), 1, |written| written.push_part("client", text));
        }
    }
    assert_eq!(ALLOCATIONS.get(), before);
}
