//! The path of an ordinary check through a partition, once everything has grown to its size: no allocation at all.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be written so; it hands everything on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use limits::{Basis, Fingerprint};
use ringfence_ownership::{Answer, Check, Floor};

#[path = "partition_rules/desk.rs"]
#[allow(dead_code, reason = "shared with the rules, which need more of it")]
mod desk;

use desk::*;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what the thread at hand allocates, so that the test harness's own threads do not disturb.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is handed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Ten thousand checks a second over a hundred keys, in batches of ten: some are allowed and some denied.
fn batch(number: u64, checks: &mut [Check]) -> limits::Now {
    for (place, check) in checks.iter_mut().enumerate() {
        let id = number * 10 + place as u64;
        check.id = ringfence_ownership::CheckId(u128::from(id) | 0xC1 << 64);
        check.legs[0].key = Fingerprint([id % 100, 5]);
    }
    at_nanos(number * 1_000_000)
}

#[test]
fn in_the_steady_state_a_check_with_one_bucket_allocates_nothing() {
    let desk = Desk::with(bucket(10), 50, secs(1), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let mut checks: Vec<Check> = (0..10).map(|_| first(0).spending(1, 1)).collect();
    let mut answers = Vec::with_capacity(10);
    let mut run = |batches: std::ops::Range<u64>| {
        let (mut allowed, mut denied) = (0, 0);
        for number in batches {
            let now = batch(number, &mut checks);
            answers.clear();
            partition.decide_batch(&checks, &desk, now, &forever(), &mut answers);
            partition.sweep(&desk, now, 4);
            for answer in &answers {
                let Answer::Decided(verdict) = answer else { panic!("{answer:?}") };
                *(if verdict.allowed { &mut allowed } else { &mut denied }) += 1;
            }
        }
        (allowed, denied)
    };

    run(0..5_000);
    let before = ALLOCATIONS.with(Cell::get);
    let (allowed, denied) = run(5_000..10_000);
    let after = ALLOCATIONS.with(Cell::get);
    assert!(allowed > 10_000 && denied > 10_000, "{allowed} allowed, {denied} denied: both ways are walked");
    assert_eq!(after - before, 0, "allocations in 50,000 checks");
}
