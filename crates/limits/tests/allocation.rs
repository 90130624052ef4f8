//! Deciding about a known bucket or window allocates nothing, allowed or denied, swept or not, with one leg or several.
//! The global allocator counts for each thread by itself, since the test harness allocates on its own thread meanwhile.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use limits::{
    Absent, Algorithm, Align, Basis, Budgets, Decided, DomainId, Fingerprint, Leg, LimitId, Moment, Now, Rate, Shape,
    Shapes, Span, Table, WallTime,
};

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

#[test]
fn deciding_about_known_keys_allocates_nothing() {
    let mut shapes = Shapes::new();
    let algorithms = [
        Algorithm::TokenBucket { burst: 50 },
        Algorithm::FixedWindow { align: Align::First },
        Algorithm::FixedWindow { align: Align::Hashed },
    ];
    let ids = algorithms.map(|algorithm| {
        let rate = Some(Rate::new(50, Span::from_secs(3_600)).unwrap());
        shapes.intern(Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi })
    });
    let leg = |key: u64| {
        let key_bits = Fingerprint([key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key]);
        Leg { shape: ids[key as usize % 3], key: key_bits, cost: 1, absent: Absent::Fresh, shadow: false }
    };
    let (budgets, mut table, mut out) = (Budgets::new(), Table::new(), Decided::default());
    let at = |nanos| Now::with_wall(Moment::from_nanos(nanos), WallTime::from_unix_nanos(nanos));
    for key in 0..3_000 {
        table.decide(&[leg(key), leg(key + 1), leg(key + 2)], &shapes, &budgets, at(0), &mut out).unwrap();
    }

    assert!(ALLOCATIONS.get() > 10, "the counter counts");
    let (mut allowed, mut denied) = (0, 0);
    let before = ALLOCATIONS.get();
    for check in 0..200_000 {
        let key = check % 2_997;
        let legs = [leg(key), leg(key + 1), leg(key + 2)];
        let legs = if check % 2 == 0 { &legs[..1] } else { &legs[..] };
        match table.decide(legs, &shapes, &budgets, at(check), &mut out).unwrap() {
            true => allowed += 1,
            false => denied += 1,
        }
    }
    let allocations = ALLOCATIONS.get() - before;

    assert_eq!(allocations, 0, "in {allowed} allowed and {denied} denied checks");
    assert!(allowed > 10_000 && denied > 10_000, "{allowed} allowed, {denied} denied");
}
