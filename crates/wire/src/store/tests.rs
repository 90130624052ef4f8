//! What was kept comes back as it went, its bytes never change, and no bytes make a panic.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

const PARTITION: PartitionId = PartitionId(2_817);

/// What was written once, by name. A line is never changed, only added: stores hold such bytes.
const GOLDEN: &str = include_str!("tests/golden.txt");

fn exact(used: Used) -> KeptKey {
    KeptKey {
        limit: LimitId(77),
        key: Fingerprint([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]),
        form: Form(0x1122_3344_5566_7788),
        at: Some(WallTime::from_unix_nanos(1_700_000_000_000_000_000)),
        used,
        units: 1_000,
        allowance: 20,
    }
}

/// One of each kind.
fn one_of_each() -> [(&'static str, KeptKey); 9] {
    let lease = |id, slots| HeldLease {
        id: HoldId([id, u64::MAX]),
        slots,
        left: Span::from_secs(3),
        longest: Span::from_secs(60),
    };
    let leases = |ended| Used::Leases { held: vec![lease(1, 2), lease(2, 1)], unknown: (4, Span::from_secs(9)), ended };
    let window = |units| Used::Window { left: Span::from_millis(1_500), units };
    [
        ("bucket", exact(Used::Bucket { level: 5 << 64 | 7 })),
        ("window", exact(window(12))),
        ("aligned_window", exact(Used::AlignedWindow { end: WallTime::from_unix_nanos(1 << 60), units: 3 })),
        ("log", exact(Used::Log { groups: vec![(Span::from_secs(2), 5), (Span::from_nanos(1), 300)] })),
        ("counter", exact(Used::Counter { elapsed: Span::from_secs(1), earlier: 2, later: 3 })),
        ("calendar", exact(Used::Calendar { index: 20_000, earlier: 0, later: AMOUNT_MAX })),
        ("leases", exact(leases(Some(vec![HoldId([5, 6]), HoldId([7, 8])])))),
        ("leases_too_many_ended", exact(leases(None))),
        ("without_time", KeptKey { at: None, ..exact(window(0)) }),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn golden(name: &str) -> &'static str {
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("golden.txt has no line for {name}"))
}

fn read(kept: &KeptKey, value: &[u8]) -> Result<KeptKey, Unreadable> {
    kept_from_field(PARTITION, &field_of(kept.limit, kept.key), value)
}

#[test]
fn the_bytes_of_every_kind_of_use_never_change() {
    for (name, kept) in one_of_each() {
        let value = value_of(PARTITION, &kept);
        assert_eq!(hex(&value), golden(name), "{name}");
        assert_eq!(read(&kept, &value), Ok(kept), "{name}");
    }
    let (_, first) = &one_of_each()[0];
    assert_eq!(hex(&field_of(first.limit, first.key)), golden("field"));
}

#[test]
fn a_session_reads_as_it_is_written_and_nothing_else_is_one() {
    let session = SessionId { node: NodeId(NonZeroU64::new(0xab).unwrap()), nonce: u64::MAX, counter: 12 };
    let text = session_to_text(session);
    assert_eq!(text, "00000000000000ab.ffffffffffffffff.12");
    assert_eq!(session_from_text(&text), Ok(session));
    let (no_node, short) = ("0000000000000000.0000000000000001.1", "ab.ffffffffffffffff.12");
    let loud = text.to_uppercase();
    for not in ["", "a.b", no_node, short, &loud, &format!("{text}.1"), &text.replace(".12", ".+12")] {
        assert_eq!(session_from_text(not), Err(NotASession), "{not}");
    }
}

#[test]
fn a_value_of_another_key_or_partition_is_unreadable() {
    let (_, kept) = one_of_each()[0].clone();
    let value = value_of(PARTITION, &kept);
    let name = field_of(kept.limit, kept.key);
    assert_eq!(kept_from_field(PartitionId(2_818), &name, &value), Err(Unreadable));
    assert_eq!(kept_from_field(PARTITION, &field_of(LimitId(78), kept.key), &value), Err(Unreadable));
}

#[test]
fn a_value_with_any_bit_turned_or_byte_gone_is_unreadable() {
    for (name, kept) in one_of_each() {
        let value = value_of(PARTITION, &kept);
        for at in 0..value.len() {
            let mut turned = value.clone();
            turned[at] ^= 1 << (at % 8);
            assert_eq!(read(&kept, &turned), Err(Unreadable), "{name}, bit of byte {at}");
            assert_eq!(read(&kept, &value[..at]), Err(Unreadable), "{name}, cut at {at}");
        }
    }
}

/// The value with this payload, whole.
fn whole(kept: &KeptKey, payload: &proto::Kept) -> Vec<u8> {
    let payload = payload.encode_to_vec();
    let sum = checksum(PARTITION, &field_of(kept.limit, kept.key), &payload);
    [&[VALUE_FORMAT][..], &sum.to_le_bytes(), &payload].concat()
}

#[test]
fn a_value_that_nobody_writes_is_unreadable_though_it_is_whole() {
    use proto::used::Used as Wire;
    let (_, kept) = one_of_each()[0].clone();
    let changed = |change: &dyn Fn(&mut proto::Kept)| {
        let mut payload = kept_to_proto(&kept);
        change(&mut payload);
        read(&kept, &whole(&kept, &payload))
    };
    let with = |used: Wire| changed(&|payload| payload.used = Some(proto::Used { used: Some(used.clone()) }));
    assert_eq!(changed(&|_| ()), Ok(kept.clone()));
    assert_eq!(changed(&|payload| payload.used = None), Err(Unreadable));
    assert_eq!(changed(&|payload| payload.used = Some(proto::Used { used: None })), Err(Unreadable));
    assert_eq!(changed(&|payload| payload.allowance = AMOUNT_MAX + 1), Err(Unreadable));
    assert_eq!(with(Wire::Log(proto::Log { age_nanos: vec![1, 2], units: vec![1] })), Err(Unreadable));
    let ended = Some(proto::Ended { ids: vec![1, 2, 3] });
    assert_eq!(with(Wire::Leases(proto::Leases { ended, ..Default::default() })), Err(Unreadable));
    let held = vec![proto::Lease::default(); LEASES_MAX + 1];
    assert_eq!(with(Wire::Leases(proto::Leases { held, ..Default::default() })), Err(Unreadable));
}

#[test]
fn a_name_that_no_key_has_is_unreadable() {
    let (_, kept) = one_of_each()[0].clone();
    let value = value_of(PARTITION, &kept);
    for limit in [0, LIMIT_ID_MAX + 1] {
        let stray = KeptKey { limit: LimitId(limit), ..kept.clone() };
        assert_eq!(read(&stray, &value_of(PARTITION, &stray)), Err(Unreadable));
    }
    for name in [&b""[..], b"k", b"q", &[b'k'; FIELD_LEN + 1]] {
        assert_eq!(kept_from_field(PARTITION, name, &value), Err(Unreadable));
    }
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span::from_nanos)
}

fn hold() -> impl Strategy<Value = HoldId> {
    any::<[u64; 2]>().prop_map(HoldId)
}

fn used() -> impl Strategy<Value = Used> {
    let lease = (hold(), any::<u64>(), span(), span());
    let lease = lease.prop_map(|(id, slots, left, longest)| HeldLease { id, slots, left, longest });
    let held = prop::collection::vec(lease, 0..5);
    let ended = prop::option::of(prop::collection::vec(hold(), 0..5));
    let groups = prop::collection::vec((span(), any::<u64>()), 0..9);
    prop_oneof![
        any::<u128>().prop_map(|level| Used::Bucket { level }),
        (span(), any::<u64>()).prop_map(|(left, units)| Used::Window { left, units }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(end, units)| Used::AlignedWindow { end: WallTime::from_unix_nanos(end), units }),
        groups.prop_map(|groups| Used::Log { groups }),
        (span(), any::<u64>(), any::<u64>()).prop_map(|(elapsed, earlier, later)| Used::Counter {
            elapsed,
            earlier,
            later
        }),
        any::<[u64; 3]>().prop_map(|[index, earlier, later]| Used::Calendar { index, earlier, later }),
        (held, any::<u64>(), span(), ended).prop_map(|(held, slots, left, ended)| Used::Leases {
            held,
            unknown: (slots, left),
            ended
        }),
    ]
}

fn any_kept() -> impl Strategy<Value = KeptKey> {
    let at = prop::option::of(any::<u64>().prop_map(WallTime::from_unix_nanos));
    let numbers = (any::<u64>(), any::<u64>(), 0..=AMOUNT_MAX);
    (1..=LIMIT_ID_MAX, any::<[u64; 2]>(), numbers, at, used()).prop_map(
        |(limit, key, (form, units, allowance), at, used)| {
            let (limit, key, form) = (LimitId(limit), Fingerprint(key), Form(form));
            KeptKey { limit, key, form, at, used, units, allowance }
        },
    )
}

proptest! {
    #[test]
    fn every_key_comes_back_as_it_went(kept in any_kept(), partition in 0_u16..4_096) {
        let name = field_of(kept.limit, kept.key);
        let value = value_of(PartitionId(partition), &kept);
        prop_assert_eq!(kept_from_field(PartitionId(partition), &name, &value), Ok(kept));
    }

    #[test]
    fn any_bytes_are_read_or_refused(name in any::<Vec<u8>>(), value in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = kept_from_field(PARTITION, &name, &value);
        let _ = session_from_text(&text);
    }

    #[test]
    fn any_payload_behind_a_right_checksum_is_read_or_refused(payload in any::<Vec<u8>>()) {
        let name = field_of(LimitId(1), Fingerprint([2, 3]));
        let sum = checksum(PARTITION, &name, &payload).to_le_bytes();
        let _ = kept_from_field(PARTITION, &name, &[&[VALUE_FORMAT][..], &sum, &payload].concat());
    }
}
