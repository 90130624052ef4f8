//! What the scripts do with a partition's record: each answer of each, and that nothing is changed by a refusal.

use std::collections::BTreeMap;

use limits::Span;
use ownership::kept::{Claimed, Keeper, KeptKey, Record, WriteAnswer};
use ownership::{Epoch, Write};
use ring::PartitionId;
use store::{KEYS_MAX, NUMBER_MAX, Op, Outcome, Store, StoreConfig, StoreError};

use crate::support::*;

/// A server, and a store that is up.
async fn both() -> (Redis, Store) {
    let redis = Redis::start().await;
    let store = open_up(redis.port).await;
    (redis, store)
}

async fn claim(store: &Store, keeper: Keeper) -> Claimed {
    claim_under(store, keeper, 0).await
}

/// A claim of one who has written up to that number.
async fn claim_under(store: &Store, keeper: Keeper, number: u64) -> Claimed {
    store.claim(P, keeper, number).await.unwrap()
}

async fn write(store: &Store, keeper: Keeper, seq: u64, numbers: std::ops::Range<u64>) -> WriteAnswer {
    let keys: Vec<KeptKey> = numbers.map(|number| kept(number, 5)).collect();
    store.write(P, &adding(keeper, seq, &keys), None).await.unwrap()
}

async fn rewrite(store: &Store, keeper: Keeper, seq: u64, numbers: std::ops::Range<u64>) -> WriteAnswer {
    let keys: Vec<KeptKey> = numbers.map(|number| kept(number, 6)).collect();
    store.write(P, &anew(keeper, seq, &keys), None).await.unwrap()
}

fn record_of(claimed: Claimed) -> Record {
    let Claimed::Taken { mut record, .. } = claimed else { panic!("{claimed:?}") };
    record.keys.sort_by_key(|kept| kept.key);
    record
}

fn fields<const N: usize>(fields: [(&str, &str); N]) -> BTreeMap<String, String> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

const FIRST: &str = "0000000000000001.0000000000000007.1";
const SECOND: &str = "0000000000000002.0000000000000007.1";

#[tokio::test]
async fn the_first_claim_makes_an_empty_header_and_says_so_again_when_asked_again() {
    let (redis, store) = both().await;
    let by = up(&store).await;
    for _ in 0..2 {
        assert_eq!(claim(&store, keeper(4, 1)).await, Claimed::New { by, previous_cluster: false });
        let expected = fields([("f", "1"), ("e", "4"), ("s", FIRST), ("q", "0"), ("n", "0"), ("c", "0")]);
        assert_eq!(redis.header(&partition_key(P)).await, expected);
    }
    let name = fields([("uuid", &"ab".repeat(16)), ("previous", "")]);
    assert_eq!(redis.header("ringfence:prod").await, name);
}

#[tokio::test]
async fn a_successor_takes_what_its_predecessor_kept_and_is_told_the_same_until_it_writes() {
    let (redis, store) = both().await;
    let by = up(&store).await;
    claim(&store, keeper(4, 1)).await;
    assert_eq!(rewrite(&store, keeper(4, 1), 1, 0..3).await, WriteAnswer::Ok);
    let expected = Record {
        keeper: keeper(4, 1),
        complete: true,
        count: 3,
        keys: (0..3).map(|number| kept(number, 6)).collect(),
        assumed_full: None,
        unreadable: 0,
    };
    for _ in 0..2 {
        let claimed = claim(&store, keeper(5, 2)).await;
        assert!(matches!(claimed, Claimed::Taken { by: told, previous_cluster: false, .. } if told == by));
        assert_eq!(record_of(claimed), expected);
        let header = redis.header(&partition_key(P)).await;
        let claimed = [("f", "1"), ("e", "5"), ("s", SECOND), ("q", "0"), ("n", "3"), ("c", "0"), ("a", "")];
        let before = [("pe", "4"), ("ps", FIRST), ("pn", "3"), ("pc", "1")];
        assert_eq!(header, fields(claimed).into_iter().chain(fields(before)).collect());
    }
    assert_eq!(rewrite(&store, keeper(5, 2), 1, 0..4).await, WriteAnswer::Ok);
    let whole = fields([("f", "1"), ("e", "5"), ("s", SECOND), ("q", "1"), ("n", "4"), ("c", "1"), ("a", "")]);
    assert_eq!(redis.header(&partition_key(P)).await, whole);
    assert_eq!(claim(&store, keeper(5, 2)).await, Claimed::Held { by });
}

#[tokio::test]
async fn a_record_that_was_only_claimed_is_not_complete() {
    let (_redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..2).await;
    claim(&store, keeper(2, 2)).await;
    let record = record_of(claim(&store, keeper(3, 1)).await);
    assert_eq!((record.keeper, record.complete, record.count, record.keys.len()), (keeper(2, 2), false, 2, 2));
}

#[tokio::test]
async fn whoever_comes_earlier_is_fenced_off_and_so_is_another_session_of_the_same_epoch() {
    let (redis, store) = both().await;
    claim(&store, keeper(9, 2)).await;
    rewrite(&store, keeper(9, 2), 1, 0..2).await;
    let before = redis.header(&partition_key(P)).await;
    let later = Claimed::Fenced { keeper: keeper(9, 2) };
    for stranger in [keeper(8, 1), keeper(9, 1), keeper(8, 2)] {
        assert_eq!(claim(&store, stranger).await, later, "{stranger:?}");
        let lost = WriteAnswer::Lost { keeper: Some(keeper(9, 2)) };
        assert_eq!(write(&store, stranger, 7, 0..9).await, lost, "{stranger:?}");
        assert_eq!(rewrite(&store, stranger, 7, 0..9).await, lost, "{stranger:?}");
    }
    assert_eq!(redis.header(&partition_key(P)).await, before);
    assert_eq!(write(&store, keeper(9, 2), 2, 2..3).await, WriteAnswer::Ok);
}

#[tokio::test]
async fn a_keeper_is_fenced_off_by_its_successors_claim_before_that_writes_anything() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..1).await;
    claim(&store, keeper(2, 2)).await;
    let before = redis.header(&partition_key(P)).await;
    let lost = WriteAnswer::Lost { keeper: Some(keeper(2, 2)) };
    assert_eq!(write(&store, keeper(1, 1), 2, 1..2).await, lost);
    assert_eq!(rewrite(&store, keeper(1, 1), 3, 1..2).await, lost);
    assert_eq!(redis.header(&partition_key(P)).await, before);
}

#[tokio::test]
async fn a_later_keeper_writes_and_rewrites_only_what_it_claimed() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..5).await;
    let before = redis.header(&partition_key(P)).await;
    let lost = WriteAnswer::Lost { keeper: Some(keeper(1, 1)) };
    assert_eq!(write(&store, keeper(2, 2), 2, 0..1).await, lost);
    assert_eq!(rewrite(&store, keeper(2, 2), 2, 0..2).await, lost);
    assert_eq!(redis.header(&partition_key(P)).await, before);
    claim(&store, keeper(2, 2)).await;
    assert_eq!(rewrite(&store, keeper(2, 2), 1, 0..2).await, WriteAnswer::Ok);
    let whole = fields([("f", "1"), ("e", "2"), ("s", SECOND), ("q", "1"), ("n", "2"), ("c", "1"), ("a", "")]);
    assert_eq!(redis.header(&partition_key(P)).await, whole);
    assert_eq!(redis.keys_in(&partition_key(P)).await, 2);
}

#[tokio::test]
async fn a_rewrite_without_a_header_is_lost_and_makes_none() {
    let (redis, store) = both().await;
    assert_eq!(rewrite(&store, keeper(1, 1), 1, 0..3).await, WriteAnswer::Lost { keeper: None });
    assert_eq!(redis.ask::<i64>("DBSIZE").await, 0);
    redis.tell(&format!("HSET {} kstray 1", partition_key(P))).await;
    assert_eq!(rewrite(&store, keeper(1, 1), 1, 0..3).await, WriteAnswer::Lost { keeper: None });
    assert_eq!(redis.ask::<i64>(&format!("HLEN {}", partition_key(P))).await, 1);
}

#[tokio::test]
async fn a_claim_that_is_repeated_raises_the_number_and_never_lowers_it() {
    let (redis, store) = both().await;
    let q = async || redis.header(&partition_key(P)).await["q"].clone();
    for (number, expected) in [(2, "2"), (10, "10"), (9, "10"), (0, "10")] {
        assert!(matches!(claim_under(&store, keeper(1, 1), number).await, Claimed::New { .. }), "{number}");
        assert_eq!(q().await, expected);
    }
    assert_eq!(rewrite(&store, keeper(1, 1), 10, 0..1).await, WriteAnswer::Stale);
    assert_eq!(rewrite(&store, keeper(1, 1), 11, 0..1).await, WriteAnswer::Ok);
    for (number, expected) in [(2, "2"), (4, "4"), (3, "4")] {
        let record = record_of(claim_under(&store, keeper(2, 2), number).await);
        assert_eq!((record.keeper, record.complete, record.count), (keeper(1, 1), true, 1), "{number}");
        assert_eq!(q().await, expected, "a later keeper has numbers of its own");
    }
    assert_eq!(rewrite(&store, keeper(2, 2), 4, 0..1).await, WriteAnswer::Stale);
    assert_eq!(rewrite(&store, keeper(2, 2), 5, 0..1).await, WriteAnswer::Ok);
}

#[tokio::test]
async fn a_claim_after_a_write_is_held_and_leaves_the_number_as_it_is() {
    let (redis, store) = both().await;
    let by = up(&store).await;
    claim_under(&store, keeper(1, 1), 7).await;
    assert_eq!(rewrite(&store, keeper(1, 1), 8, 0..1).await, WriteAnswer::Ok);
    let before = redis.header(&partition_key(P)).await;
    for number in [0, 8, 20] {
        assert_eq!(claim_under(&store, keeper(1, 1), number).await, Claimed::Held { by });
    }
    assert_eq!(redis.header(&partition_key(P)).await, before);
}

#[tokio::test]
async fn how_long_ago_the_worst_was_assumed_comes_back_from_a_claim() {
    let (redis, store) = both().await;
    let mut epoch = 0;
    for (span, text) in [
        (Some(Span::ZERO), "0"),
        (None, ""),
        (Some(Span::from_secs(300)), "300000000000"),
        (Some(Span::MAX), "18446744073709551615"),
    ] {
        for make in [adding, anew] {
            epoch += 1;
            claim(&store, keeper(epoch, 1)).await;
            let first = Write { assumed_full: Some(Span::from_secs(1)), ..anew(keeper(epoch, 1), 1, &[]) };
            assert_eq!(store.write(P, &first, None).await, Ok(WriteAnswer::Ok));
            let write = Write { assumed_full: span, ..make(keeper(epoch, 1), 2, &[kept(1, 5)]) };
            assert_eq!(store.write(P, &write, None).await, Ok(WriteAnswer::Ok));
            epoch += 1;
            for _ in 0..2 {
                let record = record_of(claim(&store, keeper(epoch, 2)).await);
                assert_eq!((record.complete, record.assumed_full, record.unreadable), (true, span, 0));
                assert_eq!(redis.header(&partition_key(P)).await["a"], text);
            }
        }
    }
}

#[tokio::test]
async fn a_whole_record_that_does_not_tell_when_the_worst_was_assumed_is_damaged() {
    let (redis, store) = both().await;
    for damage in ["HSET a x", "HSET a -1", "HSET a +1", "HSET a 1.0", "HSET a 18446744073709551616", "HDEL a"] {
        redis.tell("FLUSHALL").await;
        claim(&store, keeper(1, 1)).await;
        rewrite(&store, keeper(1, 1), 1, 0..2).await;
        redis.tell(&damage.replace(" a", &format!(" {} a", partition_key(P)))).await;
        let record = record_of(claim(&store, keeper(2, 2)).await);
        assert_eq!((record.assumed_full, record.unreadable, record.keys.len()), (None, 1, 2), "{damage}");
    }
    redis.tell("FLUSHALL").await;
    claim(&store, keeper(1, 1)).await;
    let record = record_of(claim(&store, keeper(2, 2)).await);
    assert_eq!((record.complete, record.unreadable), (false, 0), "one that was only claimed has nothing to tell");
}

#[tokio::test]
async fn a_flush_under_a_running_keeper_loses_the_record_until_it_is_claimed_and_written_again() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..5).await;
    redis.tell("FLUSHALL").await;
    assert_eq!(write(&store, keeper(1, 1), 2, 0..1).await, WriteAnswer::Lost { keeper: None });
    assert_eq!(rewrite(&store, keeper(1, 1), 3, 0..1).await, WriteAnswer::Lost { keeper: None });
    assert_eq!(redis.ask::<Vec<String>>("KEYS *").await, [""; 0]);
    let by = up(&store).await;
    assert_eq!(claim_under(&store, keeper(1, 1), 3).await, Claimed::New { by, previous_cluster: false });
    assert_eq!(rewrite(&store, keeper(1, 1), 4, 0..4).await, WriteAnswer::Ok);
    assert_eq!(write(&store, keeper(1, 1), 5, 4..5).await, WriteAnswer::Ok);
    let record = record_of(claim(&store, keeper(2, 2)).await);
    assert_eq!((record.complete, record.count, record.keys.len()), (true, 5, 5));
}

#[tokio::test]
async fn what_was_sent_before_a_flush_changes_nothing_after_a_new_claim_however_late_it_comes() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..5).await;
    redis.tell("FLUSHALL").await;
    claim_under(&store, keeper(1, 1), 3).await;
    let claimed = redis.header(&partition_key(P)).await;
    for late in [1, 2, 3] {
        assert_eq!(rewrite(&store, keeper(1, 1), late, 0..1).await, WriteAnswer::Stale, "{late}");
        let lost = WriteAnswer::Lost { keeper: Some(keeper(1, 1)) };
        assert_eq!(write(&store, keeper(1, 1), late, 0..1).await, lost, "{late}");
    }
    assert_eq!(redis.header(&partition_key(P)).await, claimed);
    assert_eq!(redis.keys_in(&partition_key(P)).await, 0);
    assert_eq!(rewrite(&store, keeper(1, 1), 4, 0..0).await, WriteAnswer::Ok);
    for late in [1, 2, 3] {
        assert_eq!(rewrite(&store, keeper(1, 1), late, 0..1).await, WriteAnswer::Stale, "{late}");
        assert_eq!(write(&store, keeper(1, 1), late, 0..1).await, WriteAnswer::Stale, "{late}");
    }
    assert_eq!(redis.keys_in(&partition_key(P)).await, 0);
}

#[tokio::test]
async fn a_write_of_some_keys_right_after_a_claim_is_lost_and_changes_nothing() {
    let (redis, store) = both().await;
    let some_are_lost = async |by: Keeper| {
        let claimed = redis.header(&partition_key(P)).await;
        let keys = redis.keys_in(&partition_key(P)).await;
        let lost = WriteAnswer::Lost { keeper: Some(by) };
        assert_eq!(write(&store, by, 9, 7..9).await, lost);
        assert_eq!(redis.header(&partition_key(P)).await, claimed);
        assert_eq!(redis.keys_in(&partition_key(P)).await, keys);
    };
    claim(&store, keeper(1, 1)).await;
    some_are_lost(keeper(1, 1)).await;
    claim(&store, keeper(1, 1)).await;
    some_are_lost(keeper(1, 1)).await;
    assert_eq!(rewrite(&store, keeper(1, 1), 1, 0..3).await, WriteAnswer::Ok);

    // What its predecessor kept is not its own.
    claim(&store, keeper(2, 2)).await;
    some_are_lost(keeper(2, 2)).await;
    assert_eq!(rewrite(&store, keeper(2, 2), 1, 0..3).await, WriteAnswer::Ok);
    assert_eq!(write(&store, keeper(2, 2), 2, 3..4).await, WriteAnswer::Ok);

    // The copy of its first claim comes after a flush.
    redis.tell("FLUSHALL").await;
    assert!(matches!(claim(&store, keeper(2, 2)).await, Claimed::New { .. }));
    some_are_lost(keeper(2, 2)).await;
    let record = record_of(claim(&store, keeper(3, 1)).await);
    assert_eq!((record.complete, record.count), (false, 0));
}

#[tokio::test]
async fn the_count_is_exact_whatever_is_set_twice() {
    let (redis, store) = both().await;
    let by = keeper(1, 1);
    claim(&store, by).await;
    let count = async || {
        let header = redis.header(&partition_key(P)).await;
        assert_eq!(header["n"], redis.keys_in(&partition_key(P)).await.to_string());
        header["n"].clone()
    };
    rewrite(&store, by, 1, 0..0).await;
    write(&store, by, 2, 0..3_700).await;
    assert_eq!(count().await, "3700");
    write(&store, by, 3, 3_690..3_710).await;
    assert_eq!(count().await, "3710");
    let twice = [kept(9_000, 1), kept(9_000, 2)];
    assert_eq!(store.write(P, &adding(by, 4, &twice), None).await, Ok(WriteAnswer::Ok));
    assert_eq!(count().await, "3711");
    assert_eq!(store.write(P, &adding(by, 5, &[]), None).await, Ok(WriteAnswer::Ok));
    assert_eq!(count().await, "3711");
    rewrite(&store, by, 6, 0..2_600).await;
    assert_eq!(count().await, "2600");
    assert_eq!(store.write(P, &anew(by, 7, &twice), None).await, Ok(WriteAnswer::Ok));
    assert_eq!(count().await, "1");
}

#[tokio::test]
async fn a_write_that_comes_late_is_stale_and_changes_nothing() {
    let (redis, store) = both().await;
    let by = keeper(1, 1);
    claim(&store, by).await;
    rewrite(&store, by, 5, 0..1).await;
    for late in [1, 4, 5] {
        assert_eq!(write(&store, by, late, 1..3).await, WriteAnswer::Stale);
        assert_eq!(rewrite(&store, by, late, 1..3).await, WriteAnswer::Stale);
    }
    let header = redis.header(&partition_key(P)).await;
    assert_eq!((header["q"].as_str(), header["n"].as_str()), ("5", "1"));
    assert_eq!(rewrite(&store, by, 6, 1..3).await, WriteAnswer::Ok);
    assert_eq!(write(&store, by, 6, 1..9).await, WriteAnswer::Stale);
    assert_eq!(redis.header(&partition_key(P)).await["n"], "2");
}

#[tokio::test]
async fn a_value_that_is_not_whole_is_counted_as_unreadable_and_the_others_are_read() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..4).await;
    let mut connection = redis.connect().await.unwrap();
    for (number, value) in [(0, &b"\x01nonsense and more"[..]), (1, b""), (2, b"\x02")] {
        let kept = kept(number, 5);
        let name = wire::store::field_of(kept.limit, kept.key);
        let mut set = redis::cmd("HSET");
        set.arg(partition_key(P)).arg(&name).arg(value);
        set.query_async::<i64>(&mut connection).await.unwrap();
    }
    let record = record_of(claim(&store, keeper(2, 2)).await);
    assert_eq!((record.complete, record.count, record.unreadable), (true, 4, 3));
    assert_eq!(record.keys, [kept(3, 6)]);
}

#[tokio::test]
async fn a_record_of_another_partition_is_unreadable_in_this_one() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..2).await;
    let other = PartitionId(5);
    redis.tell(&format!("COPY {} {}", partition_key(P), partition_key(other))).await;
    let record = record_of(store.claim(other, keeper(2, 2), 0).await.unwrap());
    assert_eq!((record.unreadable, record.keys.len()), (2, 0));
}

#[tokio::test]
async fn a_header_of_another_format_or_none_that_can_be_read_is_left_alone() {
    let (redis, store) = both().await;
    for (field, value) in [("f", "2"), ("e", "x"), ("q", "x"), ("n", ""), ("s", "somebody"), ("s", "1.2.x")] {
        redis.tell("FLUSHALL").await;
        claim(&store, keeper(1, 1)).await;
        rewrite(&store, keeper(1, 1), 1, 0..2).await;
        redis.tell(&format!("HSET {} {field} {value}", partition_key(P))).await;
        let before = redis.header(&partition_key(P)).await;
        assert_eq!(claim(&store, keeper(2, 2)).await, Claimed::UnknownFormat, "{field} {value}");
        assert!(matches!(write(&store, keeper(2, 2), 2, 0..1).await, WriteAnswer::Lost { .. }), "{field} {value}");
        assert!(matches!(rewrite(&store, keeper(2, 2), 2, 0..1).await, WriteAnswer::Lost { .. }), "{field} {value}");
        assert_eq!(redis.header(&partition_key(P)).await, before, "{field} {value}");
    }
    redis.tell(&format!("HSET {} f 2", partition_key(P))).await;
    assert_eq!(rewrite(&store, keeper(1, 1), 9, 0..1).await, WriteAnswer::Lost { keeper: None });
    assert_eq!(write(&store, keeper(1, 1), 9, 0..1).await, WriteAnswer::Lost { keeper: None });
}

#[tokio::test]
async fn fields_without_a_header_are_nobodys_and_do_not_count() {
    let (redis, store) = both().await;
    redis.tell(&format!("HSET {} kstray 1 pe 3", partition_key(P))).await;
    assert!(matches!(claim(&store, keeper(1, 1)).await, Claimed::New { .. }));
    assert_eq!(redis.keys_in(&partition_key(P)).await, 0);
    rewrite(&store, keeper(1, 1), 1, 0..2).await;
    assert_eq!(record_of(claim(&store, keeper(2, 2)).await).count, 2);
}

#[tokio::test]
async fn a_cluster_is_told_of_another_of_its_name_that_lived_before() {
    let (redis, first) = both().await;
    assert!(matches!(claim(&first, keeper(1, 1)).await, Claimed::New { previous_cluster: false, .. }));
    let second = Store::open(&config(&redis.url()), [0xcd; 16]).unwrap();
    up(&second).await;
    for _ in 0..2 {
        assert!(matches!(claim(&second, keeper(1, 1)).await, Claimed::New { previous_cluster: true, .. }));
        let expected = fields([("uuid", &"cd".repeat(16)), ("previous", &"ab".repeat(16))]);
        assert_eq!(redis.header("ringfence:prod").await, expected);
    }
    assert!(matches!(claim(&second, keeper(2, 2)).await, Claimed::Taken { previous_cluster: true, .. }));
    assert!(matches!(claim(&first, keeper(2, 2)).await, Claimed::Taken { .. }), "records lie apart");
}

#[tokio::test]
async fn a_clusters_name_goes_into_keys_as_it_is() {
    let redis = Redis::start().await;
    for name in ["a b", "zurück", "a\r\nSET x y\r\n", "*", "a:b", &"n".repeat(255)] {
        let config = StoreConfig { cluster: name.to_owned(), ..config(&redis.url()) };
        let store = Store::open(&config, UUID).unwrap();
        up(&store).await;
        assert!(matches!(claim(&store, keeper(1, 1)).await, Claimed::New { .. }), "{name:?}");
        let mut names: Vec<String> = redis.ask("KEYS *").await;
        names.sort();
        let whole = format!("ringfence:{name}");
        assert_eq!(names, [whole.clone(), format!("{whole}:{}:p:2817", "ab".repeat(16))]);
        redis.tell("FLUSHALL").await;
    }
}

#[tokio::test]
async fn what_is_too_large_is_not_sent() {
    let (redis, store) = both().await;
    let far = Keeper { epoch: Epoch(NUMBER_MAX + 1), ..keeper(1, 1) };
    assert_eq!(store.claim(P, far, 0).await, Err(StoreError::TooLarge("epoch")));
    assert_eq!(store.claim(P, keeper(1, 1), NUMBER_MAX + 1).await, Err(StoreError::TooLarge("sequence number")));
    assert_eq!(store.write(P, &adding(far, 1, &[]), None).await, Err(StoreError::TooLarge("epoch")));
    for seq in [0, NUMBER_MAX + 1] {
        let refused = Err(StoreError::TooLarge("sequence number"));
        assert_eq!(store.write(P, &adding(keeper(1, 1), seq, &[]), None).await, refused);
        assert_eq!(store.write(P, &anew(keeper(1, 1), seq, &[]), None).await, refused);
    }
    let many = vec![kept(1, 1); KEYS_MAX + 1];
    let refused = Err(StoreError::TooLarge("number of keys"));
    assert_eq!(store.write(P, &adding(keeper(1, 1), 1, &many), None).await, refused);
    assert_eq!(store.write(P, &anew(keeper(1, 1), 1, &many), None).await, refused);
    assert_eq!(redis.ask::<i64>("DBSIZE").await, 0);
    let latest = Keeper { epoch: Epoch(NUMBER_MAX), ..keeper(1, 1) };
    claim(&store, Keeper { epoch: Epoch(NUMBER_MAX - 1), ..keeper(1, 2) }).await;
    for number in [NUMBER_MAX - 3, NUMBER_MAX - 2] {
        assert!(matches!(claim_under(&store, latest, number).await, Claimed::Taken { .. }));
    }
    assert_eq!(rewrite(&store, latest, NUMBER_MAX - 2, 0..1).await, WriteAnswer::Stale);
    assert_eq!(rewrite(&store, latest, NUMBER_MAX - 1, 0..1).await, WriteAnswer::Ok);
    assert_eq!(write(&store, latest, NUMBER_MAX, 0..1).await, WriteAnswer::Ok);
    assert_eq!(write(&store, latest, NUMBER_MAX - 1, 0..1).await, WriteAnswer::Stale);
}

#[tokio::test]
async fn as_many_keys_as_a_call_may_have_are_written_and_taken() {
    let redis = Redis::start().await;
    let patient = std::time::Duration::from_secs(20);
    let config = StoreConfig { claim_timeout: patient, write_timeout: patient, ..config(&redis.url()) };
    let store = Store::open(&config, UUID).unwrap();
    up(&store).await;
    claim(&store, keeper(1, 1)).await;
    assert_eq!(rewrite(&store, keeper(1, 1), 1, 0..KEYS_MAX as u64).await, WriteAnswer::Ok);
    let record = record_of(claim(&store, keeper(2, 2)).await);
    assert_eq!((record.count, record.keys.len()), (KEYS_MAX as u64, KEYS_MAX));
}

#[tokio::test]
async fn a_key_of_another_kind_and_a_full_server_are_refusals_in_rediss_words() {
    let (redis, store) = both().await;
    let refusal = |outcome: Result<WriteAnswer, StoreError>| match outcome {
        Err(StoreError::Refused(words)) => words,
        other => panic!("{other:?}"),
    };
    redis.tell(&format!("SET {} text", partition_key(PartitionId(1)))).await;
    let words = refusal(store.write(PartitionId(1), &adding(keeper(1, 1), 1, &[]), None).await);
    assert!(words.contains("WRONGTYPE"), "{words}");

    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..0).await;
    redis.tell("CONFIG SET maxmemory 1").await;
    let words = refusal(store.write(P, &adding(keeper(1, 1), 2, &[kept(1, 1)]), None).await);
    assert!(words.contains("OOM"), "{words}");
    assert_eq!(redis.header(&partition_key(P)).await["q"], "1");
}

#[tokio::test]
async fn a_claim_at_a_replica_says_so_and_changes_nothing() {
    let primary = Redis::start().await;
    let port = primary.port.to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port, "--replica-read-only", "no"]).await;
    let mut claim = redis::cmd("EVAL");
    claim.arg(include_str!("../../src/scripts/claim.lua")).arg(2).arg("partition").arg("name");
    claim.arg("1").arg("4").arg(FIRST).arg("uuid").arg("0");
    let answer: Vec<String> = claim.query_async(&mut replica.connect().await.unwrap()).await.unwrap();
    assert_eq!(answer[0], "replica");
    assert_eq!(replica.ask::<i64>("DBSIZE").await, 0);
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_told_again() {
    let (redis, store) = both().await;
    redis.tell("SCRIPT FLUSH").await;
    assert!(matches!(claim(&store, keeper(1, 1)).await, Claimed::New { .. }));
    assert_eq!(rewrite(&store, keeper(1, 1), 1, 0..1).await, WriteAnswer::Ok);
    assert_eq!(write(&store, keeper(1, 1), 2, 0..1).await, WriteAnswer::Ok);
}

#[tokio::test]
async fn nothing_that_is_kept_expires() {
    let (redis, store) = both().await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(1, 1), 1, 0..1).await;
    write(&store, keeper(1, 1), 2, 1..2).await;
    for key in redis.ask::<Vec<String>>("KEYS *").await {
        assert_eq!(redis.ask::<i64>(&format!("TTL {key}")).await, -1, "{key}");
    }
}

#[tokio::test]
async fn every_question_is_counted_by_its_end() {
    let (_redis, store) = both().await;
    claim(&store, keeper(2, 1)).await;
    claim(&store, keeper(1, 1)).await;
    rewrite(&store, keeper(2, 1), 1, 0..1).await;
    write(&store, keeper(2, 1), 2, 0..1).await;
    write(&store, keeper(2, 1), 2, 0..1).await;
    rewrite(&store, keeper(1, 1), 1, 0..1).await;
    let _ = store.write(P, &adding(keeper(1, 1), 0, &[]), None).await;
    let counted: Vec<_> = store.tally().asked().filter(|(_, _, count)| *count > 0).collect();
    let expected = [
        (Op::Claim, Outcome::Done, 1),
        (Op::Claim, Outcome::Lost, 1),
        (Op::Write, Outcome::Done, 1),
        (Op::Write, Outcome::Stale, 1),
        (Op::Write, Outcome::TooLarge, 1),
        (Op::Rewrite, Outcome::Done, 1),
        (Op::Rewrite, Outcome::Lost, 1),
    ];
    assert_eq!(counted, expected);
    let answers: Vec<u64> = Op::ALL.into_iter().map(|op| store.tally().durations(op).count()).collect();
    assert_eq!(answers, [2, 2, 2]);
    assert_eq!(store.tally().connected(), 1);
}
