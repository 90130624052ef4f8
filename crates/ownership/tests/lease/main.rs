//! Leases in a world of lying clocks, lost messages and deposed leaders: nobody decides once its partitions may be given
//! away (S4), in any of the seeded runs; and each of the bugs that would break this is caught by the same runs, so that
//! they are known to be able to fail.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests; a seed that caught a bug is worth telling")]

mod chance;
mod node;
mod terms;
mod world;

use node::Bug;
use world::{NODES, Weather, World};

const SEEDS: u64 = 300;
/// Within how many of them each bug must be caught.
const SEEDS_PER_BUG: u64 = 150;
const STORM_MS: u64 = 20_000;

#[test]
fn s4_nobody_decides_after_its_grantors_deadline_in_any_weather() {
    let (mut expiries, mut elections, mut deciding_ms) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed, Weather::STORM, Bug::None);
        if let Err(violation) = world.run(STORM_MS) {
            panic!("seed {seed}: {violation}");
        }
        expiries += world.expiries;
        elections += world.elections;
        deciding_ms += world.deciding_ms;
    }
    let share = deciding_ms * 100 / (SEEDS * STORM_MS * NODES as u64);
    println!(
        "{SEEDS} storms: {expiries} sessions expired, {elections} elections, {share} % of the time somebody decides"
    );
    assert!(expiries > SEEDS && elections > 3 * SEEDS && (10..95).contains(&share), "the storm is no storm");
}

#[test]
fn a_lease_counted_from_the_acknowledgement_is_caught() {
    assert_caught(Bug::CountsFromAck);
}

#[test]
fn s6_an_acknowledgement_without_confirmation_is_caught() {
    assert_caught(Bug::AcksUnconfirmed);
}

#[test]
fn s6_a_confirmation_that_began_before_the_receipt_is_caught() {
    assert_caught(Bug::OldConfirmation);
}

#[test]
fn s6_a_new_leader_that_does_not_wait_is_caught() {
    assert_caught(Bug::NewLeaderDoesNotWait);
}

#[test]
fn leases_that_do_not_allow_for_clocks_that_differ_are_caught() {
    assert_caught(Bug::PerfectClocks);
}

#[test]
fn s4_holds_while_the_ttl_rises_and_falls_in_any_weather() {
    let (mut changes, mut settled, mut expiries) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed, Weather::STORM_OF_TERMS, Bug::None);
        if let Err(violation) = world.run(STORM_MS) {
            panic!("seed {seed}: {violation}");
        }
        changes += world.ttl_changes;
        settled += world.settled;
        expiries += world.expiries;
    }
    println!("{SEEDS} storms: {changes} changes of the ttl, {settled} settled, {expiries} sessions expired");
    assert!(changes > SEEDS && settled > SEEDS / 10, "nothing changes");
}

#[test]
fn a_shorter_ttl_that_binds_leaders_first_is_caught() {
    assert_caught_in(Weather::STORM_OF_TERMS, Bug::LeadersFallFirst);
}

#[test]
fn a_shorter_ttl_that_is_settled_too_early_is_caught() {
    assert_caught_in(Weather::STORM_OF_TERMS, Bug::SettlesAtOnce);
}

#[test]
fn a_longer_ttl_that_binds_holders_first_is_caught() {
    assert_caught_in(Weather::STORM_OF_TERMS, Bug::HoldersRiseFirst);
}

#[test]
fn a_shorter_ttl_is_settled_in_fine_weather_within_the_longer_one_and_a_little() {
    for seed in 0..30 {
        let mut world = World::new(seed, Weather { ttl_changes: true, ..Weather::FINE }, Bug::None);
        while world.agreed.waited == world.agreed.ttl && world.now < 100_000 {
            world.run(1).unwrap();
        }
        let (change, waited) = (world.agreed.change, world.agreed.waited);
        let until = world.now + waited.as_nanos() / 1_000_000 * 102 / 100 + 200;
        while world.agreed.change == change && world.now < until {
            world.run(1).unwrap();
        }
        assert!(world.agreed.change != change || world.agreed.waited == world.agreed.ttl, "seed {seed}");
        let lapses: u64 = world.nodes.iter().map(|node| node.lapses).sum();
        assert_eq!((lapses, world.expiries), (0, 0), "seed {seed}: nobody loses anything by it");
    }
}

fn assert_caught(bug: Bug) {
    assert_caught_in(Weather::STORM, bug);
}

fn assert_caught_in(weather: Weather, bug: Bug) {
    let caught = |seed| Some((seed, World::new(seed, weather, bug).run(STORM_MS).err()?));
    let (seed, violation) =
        (0..SEEDS_PER_BUG).find_map(caught).unwrap_or_else(|| panic!("{bug:?} is not caught in {SEEDS_PER_BUG} runs"));
    println!("{bug:?} is caught by seed {seed}: {violation}");
}

#[test]
fn in_fine_weather_everybody_decides_all_the_time_through_any_number_of_elections() {
    for seed in 0..60 {
        let mut world = World::new(seed, Weather::CHANGEABLE, Bug::None);
        world.run(1_500).unwrap();
        assert!(world.all_may_decide(), "seed {seed}: one round trip is enough to begin");
        world.run(30_000).unwrap();
        let lapses: u64 = world.nodes.iter().map(|node| node.lapses).sum();
        assert_eq!((lapses, world.expiries), (0, 0), "seed {seed}, {} elections", world.elections);
    }
}

#[test]
fn after_any_storm_everybody_decides_again_within_seconds() {
    for seed in 0..100 {
        let mut world = World::new(seed, Weather::STORM, Bug::None);
        world.run(10_000).unwrap();
        world.calm_down();
        // A failover, a ttl until the dead are ended, 3 s until they learn it, and a new session's first round trip.
        world.run(8_000).unwrap();
        assert!(world.all_may_decide(), "seed {seed}");
        let lapses: u64 = world.nodes.iter().map(|node| node.lapses).sum();
        world.run(10_000).unwrap();
        assert_eq!(lapses, world.nodes.iter().map(|node| node.lapses).sum(), "seed {seed}: and goes on deciding");
    }
}

/// The same mistakes, made inside the machines.
#[cfg(feature = "seeded-bugs")]
#[test]
fn mistakes_in_the_machines_are_caught_as_well() {
    use ringfence_ownership::Bug as Seeded;
    for seeded in [Seeded::LeaseFromAck, Seeded::UnconfirmedRenewals, Seeded::NewLeaderDoesNotWait] {
        Seeded::carry(Some(seeded));
        let caught =
            (0..SEEDS_PER_BUG).find(|seed| World::new(*seed, Weather::STORM, Bug::None).run(STORM_MS).is_err());
        Seeded::carry(None);
        println!("{seeded:?} is caught by seed {caught:?}");
        assert!(caught.is_some(), "{seeded:?} is not caught in {SEEDS_PER_BUG} runs");
    }
}
