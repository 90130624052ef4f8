//! What a live token-bucket key costs: at most 72 bytes, averaged over 0.7, 1.0 and 1.4 million keys on the 4,096
//! partition tables of a node. The spread of keys over tables is that of random fingerprints, so table sizes vary as
//! they do in production. `cargo test -p ringfence-limits --test memory -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the figures are the point")]

use limits::{
    Absent, Algorithm, Basis, Budgets, Decided, DomainId, Fingerprint, FingerprintKey, Leg, LimitId, Moment, Now, Part,
    Rate, Shape, Shapes, Span, Table,
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
    let mut tables = vec![Table::new(); TABLES as usize];
    let secret = FingerprintKey([7; 16]);
    for key in 0..keys {
        let parts = |limit| Fingerprint::of(&secret, LimitId(limit), [Part::text(&key.to_string())]);
        let leg = Leg { shape, key: parts(1), cost: 1, absent: Absent::Fresh, shadow: false };
        let table = &mut tables[(parts(2).0[0] % TABLES) as usize];
        assert_eq!(table.decide(&[leg], &shapes, &budgets, Now::at(Moment::ZERO), &mut out), Ok(true));
    }
    let live: usize = tables.iter().map(Table::len).sum();
    assert_eq!(live as u64, keys);
    tables.iter().map(|table| table.allocated_bytes() + size_of::<Table>()).sum()
}
