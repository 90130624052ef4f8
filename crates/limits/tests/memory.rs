//! What a live token-bucket key costs: at most 72 bytes, averaged over 0.7, 1.0 and 1.4 million keys on the 4,096
//! partition tables of a node. The spread of keys over tables is that of random fingerprints, so table sizes vary as
//! they do in production. What a key of each other algorithm costs is held to its own bound. `cargo test -p ringfence-limits --test memory -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the figures are the point")]

use std::sync::Arc;

use limits::{
    Absent, Algorithm, Align, Basis, Budgets, CalendarId, Calendars, Decided, DomainId, Fingerprint, Hold, HoldId, Leg,
    LimitId, Moment, Now, Rate, Shape, Shapes, Span, Table, WallTime, WindowBounds,
};

const TABLES: u64 = 4_096;

#[test]
fn a_live_bucket_key_takes_at_most_72_bytes() {
    let per_key = [700_000, 1_000_000, 1_400_000].map(|keys| {
        let bytes = bytes_for(Algorithm::TokenBucket { burst: 20 }, 10, keys, 1);
        println!("{keys} live keys: {bytes} bytes, {:.1} per key", bytes as f64 / keys as f64);
        bytes as f64 / keys as f64
    });
    let average = per_key.iter().sum::<f64>() / per_key.len() as f64;
    println!("average: {average:.1} bytes per key");
    assert!(average <= 72.0, "{average:.1} bytes per key");
}

#[test]
fn a_live_key_of_every_algorithm_takes_no_more_than_its_bound() {
    let calendar = Algorithm::Calendar { calendar: CalendarId(1) };
    let log = Algorithm::SlidingLog { max_entries: 4_096 };
    let slots = Algorithm::Concurrency { max_hold: Span::from_secs(3_600) };
    let wide = 1 << 40;
    let cases = [
        ("fixed window, by epoch", Algorithm::FixedWindow { align: Align::Epoch }, 100, 1, 80),
        ("sliding counter", Algorithm::SlidingCounter, 100, 1, 80),
        ("sliding counter, amounts from 2^31 on", Algorithm::SlidingCounter, wide, 1, 104),
        ("calendar", calendar, 100, 1, 80),
        ("calendar, amounts from 2^31 on", calendar, wide, 1, 104),
        ("sliding log, 1 admission", log, 100, 1, 192),
        ("sliding log, 10 admissions", log, 100, 10, 384),
        ("concurrency, 1 lease", slots, 100, 1, 208),
        ("concurrency, 10 leases", slots, 100, 10, 832),
    ];
    for (name, algorithm, amount, charges, most) in cases {
        let keys = 100_000;
        let per_key = bytes_for(algorithm, amount, keys, charges) as f64 / keys as f64;
        println!("{name}: {per_key:.1} bytes per key");
        assert!(per_key <= f64::from(most), "{name}: {per_key:.1} bytes per key, at most {most}");
    }
}

/// One endless window.
#[derive(Debug)]
struct Always;

impl Calendars for Always {
    fn window(&self, _calendar: CalendarId, _at: WallTime) -> Option<WindowBounds> {
        Some(WindowBounds { index: 1, start: WallTime::default(), end: WallTime::from_unix_nanos(u64::MAX) })
    }

    fn name(&self, calendar: CalendarId) -> String {
        format!("{calendar:?}")
    }
}

/// Bytes of all tables once `keys` keys have been charged so many times: places and states on the heap, and the tables
/// themselves. There are as many tables for a key as a node with a million keys has.
fn bytes_for(algorithm: Algorithm, amount: u64, keys: u64, charges: u64) -> usize {
    let mut shapes = Shapes::new();
    shapes.set_calendars(Arc::new(Always));
    let shape = shapes.intern(Shape {
        limit: LimitId(1),
        domain: DomainId(0),
        rate: Some(Rate::new(amount, Span::from_secs(1)).unwrap()),
        algorithm,
        basis: Basis::Hi,
    });
    let (budgets, mut out) = (Budgets::new(), Decided::default());
    budgets.set_max(DomainId(0), keys);
    let count = if keys < 500_000 { TABLES / 10 } else { TABLES };
    let mut tables: Vec<Table> = (0..count).map(|_| Table::new()).collect();
    let mut seed = 7;
    for number in 0..keys {
        let key = Fingerprint([random(&mut seed), random(&mut seed)]);
        let leg = Leg { shape, key, cost: 1, absent: Absent::Fresh, shadow: false };
        let table = &mut tables[(random(&mut seed) % count) as usize];
        for nanos in 0..charges {
            let moment = Moment::from_nanos(number * charges + nanos);
            let now = Now::with_wall(moment, WallTime::from_unix_nanos(1 << 60));
            let hold = Hold { id: HoldId::from(u128::from(nanos)), ttl: None };
            assert_eq!(table.acquire(&[leg], &hold, &shapes, &budgets, now, &mut out), Ok(true));
        }
    }
    let live: usize = tables.iter().map(Table::len).sum();
    assert_eq!(live as u64, keys);
    tables.iter().map(|table| table.allocated_bytes() + size_of::<Table>()).sum()
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
