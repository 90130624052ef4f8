//! What a successor gets back, in numbers that an operator can add up.

use limits::{Algorithm, Align};
use ringfence_ownership::kept::{Keeper, Record};
use ringfence_ownership::{Epoch, Found, Recovered};

use crate::desk::{LOG, SESSION, at_millis, at_nanos, bucket, secs, window};
use crate::world::{Op, World};

/// A thousand an hour.
fn hourly(algorithm: Algorithm) -> World {
    World::new(algorithm, 1_000, secs(3_600))
}

/// Spends ten units a second, one at a time, until the owner admits no more, writing whenever it asks for it. Returns how many
/// were admitted.
fn spend_all(world: &mut World, key: u64, most: u64) -> u64 {
    let (mut admitted, mut refused) = (0, 0);
    while admitted < most && refused < 4 {
        match world.spend(key, 1).unwrap() {
            true => (admitted, refused) = (admitted + 1, 0),
            false => refused += 1,
        }
        world.write();
        world.arrive(true);
        world.carry_out(Op::Wait { millis: 100 }).unwrap();
    }
    admitted
}

#[test]
fn a_crash_costs_a_chunk_at_most_and_never_gives_anything_back() {
    let chunk = 20;
    for algorithm in [LOG, window(Align::First), window(Align::Epoch), bucket(1_000)] {
        let mut world = hourly(algorithm);
        world.bind();
        assert_eq!(spend_all(&mut world, 0, 700), 700);
        world.die(true);
        world.hear_claim();
        let left = spend_all(&mut world, 0, u64::MAX);
        // A bucket fills meanwhile: one unit in 3.6 s, and so much as passed while it was spent.
        let refilled = if algorithm == bucket(1_000) { 30 } else { 0 };
        assert!((300 - chunk..=300 + refilled).contains(&left), "{algorithm:?}: {left} more");
    }
}

#[test]
fn a_key_that_nothing_was_kept_of_has_used_its_implicit_part() {
    let mut world = hourly(LOG);
    world.bind();
    assert_eq!(spend_all(&mut world, 0, 700), 700);
    world.die(true);
    world.hear_claim();
    assert_eq!(spend_all(&mut world, 2, u64::MAX), 980);
}

#[test]
fn a_session_whose_records_do_not_count_leaves_the_worst_case() {
    let mut world = hourly(LOG);
    assert_eq!(spend_all(&mut world, 0, 700), 700);
    world.die(true);
    assert_eq!(world.hear_claim(), Some(Recovered::WorstCase));
    assert_eq!(spend_all(&mut world, 0, u64::MAX), 0);
}

/// An answer to the claim of a reign that is over says nothing of what was used since.
#[test]
fn what_the_claim_of_another_reign_was_told_is_not_taken_in() {
    let mut world = hourly(LOG);
    world.bind();
    assert_eq!(spend_all(&mut world, 0, 700), 700);
    world.die(true);
    world.die(true);
    let keeper = Keeper { epoch: Epoch(1), session: SESSION };
    let record = Record { keeper, complete: true, count: 0, keys: Vec::new(), assumed_full: None, unreadable: 0 };
    let found = Found::Record(&record);
    assert_eq!(world.owner.handle_found(Epoch(2), found, true, &world.desk, at_nanos(0)), None);
    world.carry_out(Op::Wait { millis: 200 }).unwrap();
    assert_eq!(spend_all(&mut world, 0, u64::MAX), 0);
}

#[test]
fn what_is_found_late_is_read_from_then_on() {
    let mut world = hourly(LOG);
    world.bind();
    assert_eq!(spend_all(&mut world, 0, 700), 700);
    world.die(false);
    assert!(!world.spend(0, 1).unwrap(), "a window under the worst case is full");
    assert_eq!(world.hear_claim(), Some(Recovered::Allowance { keys: 1 }));
    let left = spend_all(&mut world, 0, u64::MAX);
    assert!((280..=300).contains(&left), "{left}");
}

#[test]
fn crash_after_crash_costs_a_chunk_each() {
    let mut world = hourly(LOG);
    world.bind();
    let mut admitted = 0;
    for _ in 0..5 {
        admitted += spend_all(&mut world, 0, 100);
        world.die(true);
        world.hear_claim();
    }
    admitted += spend_all(&mut world, 0, u64::MAX);
    assert!((1_000 - 6 * 20..=1_000).contains(&admitted), "{admitted}");
}

/// A burst, so that a write allows for much, and then nothing for a while, so that the next one allows for little.
fn much_then_little(world: &mut World) {
    world.bind();
    for _ in 0..300 {
        world.spend(0, 1).unwrap();
        world.write();
        world.arrive(true);
    }
    world.carry_out(Op::Wait { millis: 2_000 }).unwrap();
    world.carry_out(Op::Sweep).unwrap();
    world.write();
}

/// Spends all there is without writing, dies, and has the successor spend the rest: the truth is the judge.
fn spend_and_die(world: &mut World) {
    for _ in 0..300 {
        world.spend(0, 1).unwrap();
    }
    world.die(true);
    world.hear_claim();
    spend_all(world, 0, u64::MAX);
}

#[test]
fn a_write_that_is_under_way_is_obeyed_before_it_is_heard_of() {
    let mut world = hourly(LOG);
    much_then_little(&mut world);
    let written = world.arrives_unnoticed();
    assert!(written, "there was something to lower");
    spend_and_die(&mut world);
}

#[test]
fn a_write_that_was_given_up_and_may_have_arrived_is_obeyed() {
    let mut world = hourly(LOG);
    much_then_little(&mut world);
    world.carry_out(Op::ArriveUnheard).unwrap();
    spend_and_die(&mut world);
}

#[test]
fn what_wore_off_since_it_was_written_does_not_hide_what_was_spent_without_writing() {
    let mut world = hourly(LOG);
    assert_eq!(spend_all(&mut world, 0, 25), 25);
    world.carry_out(Op::Wait { millis: 3_590_000 }).unwrap();
    world.bind();
    world.carry_out(Op::Wait { millis: 11_000 }).unwrap();
    world.carry_out(Op::Sweep).unwrap();
    assert!((0..20).all(|_| world.spend(0, 1).unwrap()), "the implicit part");
    world.die(true);
    world.hear_claim();
    world.carry_out(Op::Wait { millis: 10_000 }).unwrap();
    assert_eq!(spend_all(&mut world, 0, u64::MAX), 980);
}

/// Found by the histories: the store forgets which numbers it has seen, so a claim tells it.
#[test]
fn a_write_that_was_given_up_before_everything_was_lost_does_not_count_after() {
    let mut world = World::new(LOG, 33, secs(60));
    world.bind();
    world.spend(0, 1).unwrap();
    for op in [Op::Flush, Op::Write, Op::Arrive, Op::Write, Op::GiveUp, Op::Free] {
        world.carry_out(op).unwrap();
    }
    world.spend(0, 27).unwrap();
    world.bind();
    world.carry_out(Op::Flush).unwrap();
    assert!(!world.spend(0, 2).unwrap(), "nothing is allowed for");
    for op in [Op::Write, Op::Arrive, Op::ArriveLate, Op::Die { waits: true }, Op::Hear] {
        world.carry_out(op).unwrap();
    }
    spend_all(&mut world, 0, u64::MAX);
}

#[test]
fn what_is_kept_and_what_waits_to_be_is_as_old_as_its_oldest_part() {
    let mut world = hourly(LOG);
    let at = |millis: u64| Some(at_millis(5_000 + millis).moment);
    world.bind();
    assert_eq!((world.owner.kept_since(), world.owner.unwritten_since()), (None, None), "no key is kept");
    (0..15).for_each(|_| assert!(world.spend(0, 1).unwrap()));
    world.carry_out(Op::Wait { millis: 10 }).unwrap();
    assert!(world.spend(1, 15).unwrap());
    assert_eq!(world.owner.unwritten_since(), at(0), "the first key waits longest");
    world.write();
    world.carry_out(Op::Wait { millis: 10 }).unwrap();
    assert!(world.spend(2, 15).unwrap());
    assert_eq!(world.owner.unwritten_since(), at(0), "nobody has heard of the write");
    world.arrive(true);
    assert_eq!(world.owner.unwritten_since(), at(20), "what became due while it was under way");
    assert_eq!(world.owner.kept_since(), at(0), "the record was written as a whole when it was bound");
    world.write();
    world.carry_out(Op::GiveUp).unwrap();
    assert_eq!(world.owner.unwritten_since(), at(20), "a write that was given up is still to be made");
    world.write();
    world.arrive(true);
    assert_eq!((world.owner.kept_since(), world.owner.unwritten_since()), (at(0), None));
}
