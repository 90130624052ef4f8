//! Deciding about a known bucket, window, counter or calendar allocates nothing, allowed or denied, swept or not, with one leg or several.
//! The global allocator counts for each thread by itself, since the test harness allocates on its own thread meanwhile.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use limits::{
    Absent, Algorithm, Align, Basis, Budgets, CalendarId, Calendars, Decided, DomainId, Fingerprint, Hold, HoldId, Leg,
    LimitId, Moment, Now, Rate, Shape, Shapes, Span, Table, WallTime, WindowBounds,
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

/// Windows of a second each.
#[derive(Debug)]
struct Seconds;

impl Calendars for Seconds {
    fn window(&self, _calendar: CalendarId, at: WallTime) -> Option<WindowBounds> {
        let (second, index) = (Span::from_secs(1), at.as_unix_nanos() / 1_000_000_000 + 1);
        let start = WallTime::from_unix_nanos((index - 1) * second.as_nanos());
        Some(WindowBounds { index, start, end: start.saturating_add(second) })
    }

    fn name(&self, calendar: CalendarId) -> String {
        format!("{calendar:?}")
    }
}

#[test]
fn deciding_about_known_keys_allocates_nothing() {
    let mut shapes = Shapes::new();
    let algorithms = [
        Algorithm::TokenBucket { burst: 50 },
        Algorithm::FixedWindow { align: Align::First },
        Algorithm::FixedWindow { align: Align::Hashed },
        Algorithm::SlidingCounter,
        Algorithm::Calendar { calendar: CalendarId(1) },
    ];
    shapes.set_calendars(Arc::new(Seconds));
    let ids = algorithms.map(|algorithm| {
        let rate = Some(Rate::new(50, Span::from_secs(3_600)).unwrap());
        shapes.intern(Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi })
    });
    let leg = |key: u64| {
        let key_bits = Fingerprint([key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key]);
        Leg { shape: ids[key as usize % 5], key: key_bits, cost: 1, absent: Absent::Fresh, shadow: false }
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

#[test]
fn taking_prolonging_and_giving_back_slots_of_a_known_key_allocates_nothing() {
    let mut shapes = Shapes::new();
    let rate = Some(Rate::new(8, Span::from_secs(30)).unwrap());
    let algorithm = Algorithm::Concurrency { max_hold: Span::from_secs(3_600) };
    let shape = shapes.intern(Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi });
    let leg = Leg { shape, key: Fingerprint([1, 2]), cost: 1, absent: Absent::Fresh, shadow: false };
    let (budgets, mut table, mut out) = (Budgets::new(), Table::new(), Decided::default());
    let hold = |id: u64| Hold { id: HoldId::from(u128::from(id)), ttl: None };
    let (mut taken, mut refused, mut before) = (0, 0, 0);
    for step in 0..100_000u64 {
        if step == 100 {
            before = ALLOCATIONS.get();
        }
        let now = Now::at(Moment::from_nanos(step * 1_000_000));
        match table.acquire(&[leg], &hold(step), &shapes, &budgets, now, &mut out).unwrap() {
            true => taken += 1,
            false => refused += 1,
        }
        table.renew(&leg, &hold(step / 2), &shapes, &budgets, now).unwrap();
        if step % 10 == 0 {
            table.release(&leg, hold(step.saturating_sub(10)).id, &shapes, &budgets, now);
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0, "in {taken} taken and {refused} refused");
    assert!(taken > 10 && refused > 10_000, "{taken} taken, {refused} refused");
}
