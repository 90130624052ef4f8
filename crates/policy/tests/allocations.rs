//! Nothing is allocated between the strings of a check and the parts of its keys: counted by the allocator itself.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]
#![allow(unsafe_code, reason = "only an allocator can count allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use limits::{Algorithm, CalendarId, Fingerprint, FingerprintKey, LimitId, Variant, WallTime};
use ringfence_policy::{Attributes, Catalogue, Document, Matched};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn catalogue() -> Catalogue {
    let text = "ringfence: 1\ndomain: d\nplans: { default: { b: 2/s }, pro: { b: 3/s } }\nlimits:\n  \
                a: { rate: 1/s, key: [ip], ipv4_prefix: 24 }\n  b: { rate: $plan, key: [org, user], route: [org] }\n  \
                c: { rate: 9/day calendar Europe/Berlin, key: [org] }\n\
                overrides: [{ limit: c, key: { org: acme }, rate: 1/s, until: 2027-01-31 }]\n\
                rules:\n- { name: r, match: { method: [GET, POST], path: /v1/* }, limits: [a, b, c] }\n";
    let document = Document::parse(text).unwrap();
    let id = |name: &str| Some((LimitId(u32::from(name.as_bytes()[0])), 0));
    Catalogue::empty().with_domain(&document, 1, &id, 1_000).unwrap()
}

#[test]
fn a_check_with_the_most_attributes_allocates_nothing() {
    let catalogue = catalogue();
    let names: Vec<String> = (0..26).map(|n| format!("other_{n}")).collect();
    let mut pairs = vec![
        ("ip", "192.0.2.1"),
        ("method", "POST"),
        ("path", "/v1/x/y/z?q=1"),
        ("org", "acme"),
        ("user", "u1"),
        ("plan", "pro"),
    ];
    pairs.extend(names.iter().map(|name| (name.as_str(), "value")));
    assert_eq!(pairs.len(), 32);
    let key = FingerprintKey([7; 16]);
    let (mut fingerprints, mut varied) = (0, 0);
    let counted = allocations(|| {
        let attributes = Attributes::new(pairs.iter().copied()).unwrap();
        let matched =
            catalogue.domain("d").unwrap().matching(&attributes, 1, Some(WallTime::from_unix_nanos(1))).unwrap();
        let Matched::Limits(limits) = matched else { panic!("the rule matches") };
        for applied in limits.iter() {
            let fingerprint = Fingerprint::of(&key, applied.id(), applied.key());
            fingerprints += usize::from(fingerprint != Fingerprint([0; 2]));
            varied += usize::from(applied.variant() != Variant::OWN && applied.whole() == applied.shape());
            assert!(applied.route().is_none_or(|parts| parts.count() == 1));
        }
    });
    assert_eq!((fingerprints, varied, counted), (3, 2, 0), "by itself, by its plan and by its override");
}

#[test]
fn a_window_of_a_calendar_whose_zone_is_open_is_found_without_allocating() {
    let catalogue = catalogue();
    let Algorithm::Calendar { calendar } = catalogue.domain("d").unwrap().limits()[2].algorithm() else {
        panic!("it is")
    };
    let calendars = catalogue.calendars();
    let mut indexes = 0;
    let counted = allocations(|| {
        for hour in 0..100_000 {
            let at = WallTime::from_unix_nanos(1_800_000_000_000_000_000 + hour * 3_600_000_000_000);
            indexes = calendars.window(calendar, at).unwrap().index - indexes.min(1);
        }
    });
    assert_eq!(counted, 0);
    assert!(indexes > 0 && calendars.window(CalendarId(u32::MAX), WallTime::from_unix_nanos(0)).is_none());
}

#[test]
fn the_count_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1u64)))), 1);
}
