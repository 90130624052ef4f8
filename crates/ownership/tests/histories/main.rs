//! Random histories of checks with several limits, whose keys live in the partitions of three owners. Limits count in every
//! way and fail in every way; answers, cancels and debts are lost, late, doubled and overtaken; callers put their questions
//! again elsewhere; an owner is lost and another takes over. The rules of asking, of combining and of owning are the real
//! ones, under virtual time. Held against each history: no window of a limit that is not open holds more than it says, a
//! check is admitted by all its limits or by none, every denial is justified, and what is charged beyond what was admitted
//! is what could not be taken back, each for a reason.
//!
//! `RINGFENCE_HISTORIES` asks for another number of them, `RINGFENCE_HISTORY` for one by its seed, told event by event.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests; a story is there to be read")]

mod acts;
mod asking;
mod bug;
mod certain;
#[path = "../lease/chance.rs"]
mod chance;
mod judge;
mod leases;
mod ledger;
mod node;
mod scene;
mod used;
mod world;

use std::io::Write as _;

use bug::Bug;
use judge::{Balance, judge};
use ledger::Violation;
use limits::Budgets;
use scene::{Scene, Theme};
use world::World;

/// Histories of one run, all themes together.
const HISTORIES: u64 = 100_000;

/// Within how many histories each bug must be found.
const HISTORIES_PER_BUG: u64 = 400;

#[derive(Debug, Default)]
struct Tally {
    histories: u64,
    decided: u64,
    denied: u64,
    recovering: u64,
    replayed: u64,
    refunded: u64,
    settled: u64,
    renewed: u64,
    released: u64,
    trimmed: u64,
    sure: u64,
    balance: Balance,
}

/// Plays one history and judges it.
fn play(seed: u64, budgets: &Budgets, bug: Bug, tally: &mut Tally) -> Result<(), Violation> {
    let scene = Scene::of(seed);
    let mut world = World::new(seed, &scene, budgets, bug);
    let judged = world.run().and_then(|()| judge(&world));
    world.clear();
    let ledger = &world.ledger;
    tally.histories += 1;
    tally.decided += ledger.fresh;
    tally.denied += ledger.denied;
    tally.recovering += ledger.recovering;
    tally.replayed += ledger.replayed;
    tally.refunded += ledger.refunded;
    tally.settled += ledger.settled;
    tally.renewed += ledger.renewed;
    tally.released += ledger.released;
    tally.trimmed += ledger.trimmed;
    tally.sure += ledger.sure;
    tally.balance += judged?;
    Ok(())
}

fn play_all(theme: Theme) {
    let budgets = Budgets::new();
    if let Some(seed) = setting("RINGFENCE_HISTORY") {
        return tell(seed, theme, &budgets);
    }
    let mut tally = Tally::default();
    let histories = setting("RINGFENCE_HISTORIES").unwrap_or(HISTORIES);
    for seed in (0..histories).filter(|seed| Theme::of(*seed) == theme) {
        if let Err(violation) = play(seed, &budgets, Bug::None, &mut tally) {
            panic!("history {seed}: {violation}\n{}", replay(seed));
        }
    }
    assert_eq!(budgets.used(limits::DomainId(0)), 0, "room that was taken was given back");
    // Past the harness that swallows what passing tests print: how many were played is part of the result.
    let _ = writeln!(std::io::stdout(), "{theme:?}: {tally:?}");
    assert!(tally.denied * 20 > tally.decided && tally.denied * 2 < tally.decided, "a mix: {tally:?}");
    if theme == Theme::Everything && histories >= HISTORIES {
        let Tally { recovering, replayed, refunded, settled, renewed, released, trimmed, .. } = tally;
        let acts = [recovering, replayed, refunded, settled, renewed, released, trimmed];
        assert!(acts.iter().all(|count| *count > 1_000), "every act is there: {tally:?}");
        assert!(tally.sure > 50, "histories are short, and so few denials are certain, but some are: {tally:?}");
    }
}

/// The one command that plays a history again, and tells it.
fn replay(seed: u64) -> String {
    format!("RINGFENCE_HISTORY={seed} cargo test -p ringfence-ownership --test histories -- --nocapture histories_")
}

fn tell(seed: u64, theme: Theme, budgets: &Budgets) {
    if Theme::of(seed) != theme {
        return;
    }
    let scene = Scene::of(seed);
    println!("{scene:#?}");
    let mut world = World::new(seed, &scene, budgets, Bug::None);
    world.story = Some(Vec::new());
    let judged = world.run().and_then(|()| judge(&world));
    world.story.iter().flatten().for_each(|line| println!("{line}"));
    world.clear();
    println!("{:?}", judged.unwrap());
}

#[allow(clippy::disallowed_methods, reason = "which histories are played is whoever runs the tests to say")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn histories_with_lost_messages_are_never_over_and_their_ledger_balances() {
    play_all(Theme::Lost);
}

#[test]
fn histories_of_questions_asked_twice_are_never_over_and_their_ledger_balances() {
    play_all(Theme::AskedTwice);
}

#[test]
fn histories_with_a_takeover_are_never_over_and_their_ledger_balances() {
    play_all(Theme::Takeover);
}

#[test]
fn histories_of_everything_at_once_are_never_over_and_their_ledger_balances() {
    play_all(Theme::Everything);
}

fn assert_found(bug: Bug) {
    let budgets = Budgets::new();
    let caught = |seed| Some((seed, play(seed, &budgets, bug, &mut Tally::default()).err()?));
    let (seed, violation) = (0..HISTORIES_PER_BUG)
        .find_map(caught)
        .unwrap_or_else(|| panic!("{bug:?} is not found in {HISTORIES_PER_BUG}"));
    println!("{bug:?} is found by history {seed}: {violation}");
}

#[test]
fn a_cancel_that_is_not_sent_is_found() {
    assert_found(Bug::CancelNotSent);
}

#[test]
fn a_grant_that_is_not_cut_to_the_least_is_found() {
    assert_found(Bug::TrimNotSent);
}

#[test]
fn a_debt_that_is_booked_twice_is_found() {
    assert_found(Bug::DebtBookedTwice);
}

#[test]
fn a_leg_that_is_asked_for_under_another_id_is_found() {
    assert_found(Bug::LegUnderAnotherId);
}

#[test]
fn askers_that_all_bear_one_name_are_found() {
    assert_found(Bug::OneNameForAll);
}

#[test]
fn a_takeover_that_forgets_the_floor_is_found() {
    assert_found(Bug::FloorForgotten);
}

#[test]
fn an_emergency_share_that_every_ingress_gives_whole_is_found() {
    assert_found(Bug::EmergencyUndivided);
}
