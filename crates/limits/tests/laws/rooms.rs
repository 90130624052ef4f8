//! Law 4: state goes only when it equals a fresh key, a full domain answers so, and no flood reaches anybody else.

use limits::{Absent, Budgets, Decided, DomainId, Fingerprint, Leg, ShapeId, Shapes, Table, Undecided, WhyUndecided};

use crate::single::{Single, at, bucket, millis, secs};

/// Two domains with a limit each, on one table: 1/s, burst 10.
struct Shared {
    shapes: Shapes,
    budgets: Budgets,
    table: Table,
    ids: [ShapeId; 2],
    out: Decided,
}

impl Shared {
    fn new(max: [u64; 2]) -> Shared {
        let (mut shapes, budgets) = (Shapes::new(), Budgets::new());
        let ids = [0, 1].map(|domain| {
            budgets.set_max(DomainId(domain), max[usize::from(domain)]);
            shapes.intern(limits::Shape { domain: DomainId(domain), ..bucket(1, secs(1), 10) })
        });
        Shared { shapes, budgets, table: Table::new(), ids, out: Decided::default() }
    }

    fn leg(&self, domain: usize, key: u64, cost: u64) -> Leg {
        let key = Fingerprint([key.wrapping_mul(0x9e37_79b9_7f4a_7c15), (key << 1) | domain as u64]);
        Leg { shape: self.ids[domain], key, cost, absent: Absent::Fresh, shadow: false }
    }

    fn ask(&mut self, legs: &[Leg], nanos: u64) -> Result<bool, Undecided> {
        self.table.decide(legs, &self.shapes, &self.budgets, at(nanos), &mut self.out)
    }

    fn used(&self, domain: u16) -> u64 {
        self.budgets.used(DomainId(domain))
    }
}

#[test]
fn p26_a_flood_of_new_keys_never_frees_an_old_debt() {
    let mut shared = Shared::new([100, 100]);
    for key in 0..100 {
        assert_eq!(shared.ask(&[shared.leg(0, key, 10)], 0), Ok(true));
    }
    for key in 100..10_000 {
        let full = shared.ask(&[shared.leg(0, key, 1)], millis(5));
        assert_eq!(full, Err(Undecided { leg: 0, why: WhyUndecided::TableFull }));
    }
    for key in 0..100 {
        assert_eq!(shared.ask(&[shared.leg(0, key, 1)], millis(5)), Ok(false), "key {key} still owes");
    }
    assert_eq!((shared.used(0), shared.table.len()), (100, 100));
}

#[test]
fn p26_one_domains_flood_never_touches_anothers_keys() {
    let mut shared = Shared::new([50, 50]);
    for key in 0..50 {
        assert_eq!(shared.ask(&[shared.leg(1, key, 10)], 0), Ok(true));
    }
    for key in 0..5_000 {
        let admitted = shared.ask(&[shared.leg(0, key, 1)], millis(key / 50));
        assert_eq!(
            admitted.is_ok(),
            key < 50,
            "the first domain has room for 50 keys, and none lapses within a second"
        );
    }
    for key in 0..50 {
        assert_eq!(shared.ask(&[shared.leg(1, key, 1)], millis(100)), Ok(false), "key {key} of the other domain owes");
    }
    assert_eq!((shared.used(0), shared.used(1)), (50, 50));
}

#[test]
fn a_full_domain_makes_room_of_what_lapsed() {
    let mut shared = Shared::new([100, 100]);
    for key in 0..100 {
        assert_eq!(shared.ask(&[shared.leg(0, key, 1)], 0), Ok(true));
    }
    for key in 100..200 {
        assert_eq!(
            shared.ask(&[shared.leg(0, key, 1)], secs(1)),
            Ok(true),
            "key {key} takes the place of a lapsed one"
        );
    }
    assert_eq!(shared.used(0), shared.table.len() as u64);
}

#[test]
fn a_check_that_finds_no_room_for_one_key_charges_none() {
    let mut shared = Shared::new([10, 0]);
    let both = [shared.leg(0, 1, 1), shared.leg(1, 1, 1)];
    let full = shared.ask(&both, 0);
    assert_eq!(full, Err(Undecided { leg: 1, why: WhyUndecided::TableFull }));
    assert_eq!((shared.used(0), shared.used(1), shared.table.len()), (0, 0, 0));
    assert!(shared.out.legs.is_empty() && shared.out.charges.is_empty());
}

#[test]
fn a_denial_needs_no_room() {
    let mut shared = Shared::new([10, 0]);
    let both = [shared.leg(0, 1, 11), shared.leg(1, 1, 1)];
    assert_eq!(shared.ask(&both, 0), Ok(false), "the first leg can never fit, whatever room the second has");
}

#[test]
fn a_shadow_key_without_room_refuses_nobody() {
    let mut shared = Shared::new([10, 0]);
    let shadow = Leg { shadow: true, ..shared.leg(1, 1, 1) };
    assert_eq!(shared.ask(&[shadow, shared.leg(0, 1, 1)], 0), Ok(true));
    assert_eq!((shared.out.charges.len(), shared.table.len()), (1, 1));
}

#[test]
fn a_search_for_room_leaves_the_checks_own_entries_alone() {
    let mut shared = Shared::new([1, 10]);
    assert_eq!(shared.ask(&[shared.leg(0, 1, 1)], 0), Ok(true));
    let lapsed_and_new = [shared.leg(0, 1, 1), shared.leg(0, 2, 1)];
    let full = shared.ask(&lapsed_and_new, secs(9));
    assert_eq!(full, Err(Undecided { leg: 1, why: WhyUndecided::TableFull }));
    assert_eq!(shared.ask(&lapsed_and_new[1..], secs(9)), Ok(true), "alone it takes the lapsed key's place");
}

#[test]
fn a_domain_beyond_the_last_finds_no_room() {
    let mut single = Single::new(limits::Shape { domain: DomainId(u16::MAX), ..bucket(1, secs(1), 1) });
    let full = single.try_ask(1, at(0));
    assert_eq!(full, Err(Undecided { leg: 0, why: WhyUndecided::TableFull }));
}

#[test]
fn p10_keys_that_lapsed_leave_nothing_behind() {
    let mut shared = Shared::new([1_000_000, 1_000_000]);
    for key in 0..20_000 {
        assert_eq!(shared.ask(&[shared.leg(0, key, 1)], 0), Ok(true));
    }
    let full = shared.table.allocated_bytes();
    let mut gone = 0;
    while !shared.table.is_empty() {
        gone += shared.table.sweep(&shared.shapes, &shared.budgets, at(secs(1)), 512);
    }
    assert_eq!((gone, shared.used(0)), (20_000, 0));
    for _ in 0..100 {
        shared.table.sweep(&shared.shapes, &shared.budgets, at(secs(1)), 512);
    }
    assert!(shared.table.allocated_bytes() < full / 50, "{} of {full} bytes kept", shared.table.allocated_bytes());
}

#[test]
fn p24_a_decision_never_sweeps_more_than_a_few_places() {
    let mut shared = Shared::new([1_000_000, 1_000_000]);
    for key in 0..50_000 {
        assert_eq!(shared.ask(&[shared.leg(0, key, 1)], 0), Ok(true));
    }
    let (mut most, mut total) = (0, 0);
    for check in 0..700_000u64 {
        let before = shared.table.len();
        assert_eq!(shared.ask(&[shared.leg(1, check % 10, 0)], secs(1)), Ok(true), "a peek makes no entry");
        most = most.max(before - shared.table.len());
        total += before - shared.table.len();
    }
    assert!((1..=32).contains(&most), "a decision removed {most} entries");
    assert_eq!(total, 50_000, "and still, decisions alone clear the table in the end");
}

#[test]
fn lapsed_entries_never_fill_more_than_a_part_of_a_busy_table() {
    let mut shared = Shared::new([1_000_000, 1_000_000]);
    let live = 1_000;
    let mut most = 0;
    for key in 0..100_000 {
        // One new key a millisecond, each lapsed after a second.
        assert_eq!(shared.ask(&[shared.leg(0, key, 1)], millis(key)), Ok(true));
        most = most.max(shared.table.len());
    }
    assert!((live..live * 3 / 2).contains(&most), "{most} entries for {live} live keys");
}

#[test]
fn clearing_a_table_gives_all_room_back() {
    let mut shared = Shared::new([1_000, 1_000]);
    for key in 0..500 {
        assert_eq!(shared.ask(&[shared.leg(0, key, 1), shared.leg(1, key, 1)], 0), Ok(true));
    }
    assert_eq!((shared.used(0), shared.used(1)), (500, 500));
    shared.table.clear(&shared.shapes, &shared.budgets);
    assert_eq!((shared.used(0), shared.used(1), shared.table.len(), shared.table.allocated_bytes()), (0, 0, 0, 0));
}

#[test]
fn a_key_whose_limit_moves_to_another_domain_counts_there() {
    let mut single = Single::new(bucket(1, secs(1), 10));
    single.ask(5, at(0));
    single.change(limits::Shape { domain: DomainId(7), ..bucket(1, secs(1), 10) });
    assert_eq!(single.ask(1, at(0)).remaining, 4);
    assert_eq!((single.budgets.used(DomainId(0)), single.budgets.used(DomainId(7))), (0, 1));
}
