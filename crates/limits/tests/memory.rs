//! What a live token-bucket key costs: at most 72 bytes, averaged over 0.7, 1.0 and 1.4 million keys on the 4,096
//! partition tables of a node. The spread of keys over tables is that of random fingerprints, so table sizes vary as
//! they do in production. `cargo test -p ringfence-limits --test memory -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the figures are the point")]

use limits::{
    Absent, Algorithm, Basis, Budgets, Decided, DomainId, Fingerprint, Leg, LimitId, Moment, Now, Rate, Shape, Shapes,
    Span, Table,
};

const TABLES: u64 = 4_096;

#[test]
fn a_live_bucket_key_takes_at_most_72_bytes() {
    let per_key = [700_000, 1_000_000, 1_400_000].map(|keys| {
        let bytes = bytes_for(keys);
        println!("{keys} live keys: {bytes} bytes, {:.1} per key", bytes as f64 / keys as f64);
        bytes as f64 / keys as f64
    });
    let average = per_key.iter().sum::<f64>() / per_key.len() as f64;
    println!("average: {average:.1} bytes per key");
    assert!(average <= 72.0, "{average:.1} bytes per key");
}

/// Bytes of all tables once `keys` keys have been charged: places and states on the heap, and the tables themselves.
fn bytes_for(keys: u64) -> usize {
    let mut shapes = Shapes::new();
    let shape = shapes.intern(Shape {
        limit: LimitId(1),
        domain: DomainId(0),
        rate: Some(Rate::new(10, Span::from_secs(1)).unwrap()),
        algorithm: Algorithm::TokenBucket { burst: 20 },
        basis: Basis::Hi,
    });
    let (budgets, mut out) = (Budgets::new(), Decided::default());
    budgets.set_max(DomainId(0), keys);
    let mut tables: Vec<Table> = (0..TABLES).map(|_| Table::new()).collect();
    let mut seed = 7;
    for _ in 0..keys {
        let key = Fingerprint([random(&mut seed), random(&mut seed)]);
        let leg = Leg { shape, key, cost: 1, absent: Absent::Fresh, shadow: false };
        let table = &mut tables[(random(&mut seed) % TABLES) as usize];
        assert_eq!(table.decide(&[leg], &shapes, &budgets, Now::at(Moment::ZERO), &mut out), Ok(true));
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
