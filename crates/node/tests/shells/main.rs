//! The real shells on a simulated network: whole nodes from [`Node::start`](ringfence_node::Node::start) on, with openraft,
//! foca, tonic and the peer protocol, on turmoil's sockets and on clocks of their own, through faults that a seed says.
//! What callers were told is judged as the simulator's runs are.
//!
//! `RINGFENCE_SHELL_SEEDS=n` plays n seeds instead of [`SEEDS`], `RINGFENCE_SHELL_SEED=n` plays that one and tells all of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod asking;
mod machine;
mod plan;
mod play;
mod story;
mod verdict;
mod weather;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ownership::Bug;
use parking_lot::Mutex;

use plan::{Ask, Fault, HEAL, Plan, Timed};
use play::play;
use verdict::Findings;

/// How many seeds are played where nobody says otherwise.
const SEEDS: u64 = 40;

/// Within how many seeds a mistake must be seen.
const TEETH: u64 = 10;

/// What plays them.
const COMMAND: &str = "cargo test -p ringfence-node --features simulated --test shells -- --nocapture every_promise";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_promise_is_kept_whatever_a_seed_says() {
    if let Some(seed) = number("RINGFENCE_SHELL_SEED") {
        let plan = Plan::of(seed);
        let played = play(&plan);
        println!("{:#?}\n{}", plan.faults, played.story.join("\n"));
        return assert_kept(&verdict::of(&played));
    }
    let seeds = number("RINGFENCE_SHELL_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let all = Mutex::new(Findings::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds) {
                    let findings = found(seed);
                    println!("seed {seed}: live {:?} after the heal", findings.live_after);
                    let mut all = all.lock();
                    *all = std::mem::take(&mut *all).and(findings);
                }
            });
        }
    });
    let all = all.into_inner();
    println!("{all}");
    assert_eq!(all.seeds, seeds, "every seed was played to its end");
    assert_kept(&all);
    assert!(all.takeovers > seeds / 2, "the faults took nodes away for long enough: {all}");
}

/// What a seed shows, and how to see it again if that is wrong.
fn found(seed: u64) -> Findings {
    let plan = Plan::of(seed);
    let played = std::panic::catch_unwind(|| play(&plan));
    let mut findings = match played {
        Ok(played) => verdict::of(&played),
        Err(panic) => Findings { seeds: 1, broken: vec![said(&*panic)], ..Findings::default() },
    };
    if !findings.broken.is_empty() {
        let faults: String =
            plan.faults.iter().map(|timed| format!("\n  {:?} {:?}", timed.time, timed.fault)).collect();
        findings.broken.insert(0, format!("seed {seed}; all of it: RINGFENCE_SHELL_SEED={seed} {COMMAND}{faults}"));
    }
    findings
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic: {}", text.unwrap_or("of no words"))
}

fn assert_kept(findings: &Findings) {
    assert!(findings.broken.is_empty(), "{}", findings.broken.join("\n"));
}

/// Lines of one millisecond may change places: which of several branches that are ready goes first, tokio draws by lot.
#[test]
fn one_seed_has_one_story() {
    for seed in [1, 2, 3] {
        let [first, second] = [(); 2].map(|()| {
            let mut story = play(&Plan::of(seed)).story;
            story.sort();
            story
        });
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("seed {seed}, line {at}: {:#?}\n{:#?}", &first[at.saturating_sub(3)..=at], &second[at]);
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
        println!("seed {seed}: {} lines, {:016x}", first.len(), story::hash(&first));
    }
}

/// Its peers make attempts to reach it that lead nowhere, and then nobody asks for a while: the first who does must not be
/// told what came of those.
#[test]
fn a_node_that_was_mute_is_asked_at_once_when_it_is_well_again() {
    let ask = |number: u32| Ask {
        id: u128::from(number) + 1,
        at: Duration::from_millis(2_000 + 75 * u64::from(number)),
        node: 2,
        again: None,
        limit: "wide",
        key: format!("m{number}"),
        cost: 1,
        budget: Duration::from_millis(200),
    };
    let mute = Timed { fault: Fault::Mute(0), time: Duration::from_secs(2)..HEAL };
    let plan = Plan { faults: vec![mute], asks: (0..106).map(ask).collect(), ..Plan::of(0) };
    assert_kept(&verdict::of(&play(&plan)));
}

/// Plays seeds until what they show is `wanted`; how many it took.
fn seen_by(wanted: impl Fn(&Findings) -> bool) -> Option<u64> {
    (0..TEETH).find(|seed| wanted(&found(*seed))).map(|seed| seed + 1)
}

fn is_over(findings: &Findings) -> bool {
    findings.broken.iter().any(|broken| broken.starts_with("bucket: key") || broken.starts_with("log: key"))
}

#[test]
fn a_limit_that_failed_open_would_be_seen_to_be_exceeded() {
    let as_if_closed = |seed| verdict::open_as_if_closed(&play(&Plan::of(seed)));
    let seen = (0..TEETH).find(|seed| !as_if_closed(*seed).is_empty());
    println!("seen after {:?} seeds", seen.map(|seed| seed + 1));
    assert!(seen.is_some(), "none of {TEETH} seeds");
}

#[test]
fn a_successor_that_takes_keys_for_fresh_is_seen_to_exceed_a_closed_limit() {
    Bug::carry(Some(Bug::SuccessorFresh));
    let seen = seen_by(is_over);
    Bug::carry(None);
    println!("seen after {seen:?} seeds");
    assert!(seen.is_some(), "none of {TEETH} seeds");
}
