//! What is kept of a partition never says less than the truth. Owners spend, write, hear of their writes or do not, and die;
//! the store forgets; copies of writes arrive late. Whatever one owner after the other admits, a partition that never forgot
//! anything admits too.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../partition_rules/desk.rs"]
#[allow(dead_code, reason = "the desk of another suite")]
mod desk;
mod recovery;
mod world;

use desk::{LOG, bucket, secs, window};
use limits::{Algorithm, Align};
use proptest::prelude::*;
use world::{Op, World};

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(LOG),
        Just(Algorithm::SlidingLog { max_entries: 4 }),
        Just(bucket(30)),
        Just(window(Align::First)),
        Just(window(Align::Epoch)),
        Just(window(Align::Hashed)),
        Just(Algorithm::SlidingCounter),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0u64..3, 1u64..5).prop_map(|(key, cost)| Op::Spend { key, cost }),
        1 => (0u64..3, 5u64..30).prop_map(|(key, cost)| Op::Spend { key, cost }),
        3 => (1u64..400).prop_map(|millis| Op::Wait { millis }),
        1 => (1_000u64..40_000).prop_map(|millis| Op::Wait { millis }),
        6 => Just(Op::Write),
        6 => Just(Op::Arrive),
        1 => Just(Op::ArriveUnheard),
        2 => Just(Op::GiveUp),
        1 => Just(Op::Refuse),
        2 => Just(Op::ArriveLate),
        1 => Just(Op::Flush),
        1 => Just(Op::Free),
        2 => Just(Op::Bind),
        1 => any::<bool>().prop_map(|waits| Op::Die { waits }),
        3 => Just(Op::Hear),
        1 => Just(Op::ClaimUnheard),
        1 => any::<usize>().prop_map(|which| Op::ClaimLate { which }),
        1 => Just(Op::Sweep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_admitted_that_an_owner_who_never_forgot_would_refuse(
        algorithm in algorithm(),
        amount in prop_oneof![1u64..6, 20u64..60, Just(1_000)],
        ops in prop::collection::vec(op(), 1..160),
    ) {
        let mut world = World::new(algorithm, amount, secs(60));
        for op in ops {
            world.carry_out(op)?;
        }
    }
}
