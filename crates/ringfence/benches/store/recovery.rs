//! A node that had a million keys is killed and comes back: how long until it knows all of them again from Redis, and what it
//! decided meanwhile. It is asked without a pause, each check about a key at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::load::{Answers, Callers, Question};
use crate::patience::until;
use crate::redis::Redis;
use crate::serve::Fleet;
use crate::{LIMIT, fleet, metrics, row};

const KEYS: usize = 1_000_000;

/// Keys that are used twice before the next ones are.
const BLOCK: usize = 32_768;

/// What is used of a key at first, so that it is written down, and then, so that more was than needs no writing down.
const USED: [u64; 2] = [16, 8];

/// Checks asked at a time while the node loads.
const ASKED: usize = 8;

/// Keys that are looked at afterwards.
const SAMPLES: usize = 1_000;

/// What a write allows for beyond what is used, and what may have been used of a key while the node loaded: more than enough.
const ALLOWED_FOR: u64 = 60;

pub fn run() {
    let redis = Redis::start();
    let mut fleet = fleet(1, Some(&redis));
    let address = [fleet.api(1)];
    let failed = fill(&mut Callers::new(&address));
    wait_until_written(&fleet);
    let before = fleet.cluster(1)["nodes"][0]["session"].clone();
    fleet.kill(1);
    let began = Instant::now();
    fleet.start(1);
    fleet.wait_until(1, "its next session having partitions", |cluster| {
        let node = &cluster["nodes"][0];
        node["state"] == "live" && node["session"] != before && node["partitions"].as_u64() > Some(0)
    });
    let (meanwhile, recovered) = ask_until_recovered(&fleet, &address);
    println!("\na node with {KEYS} keys under a closed limit, killed and started again; times since its start");
    row("checks of the filling, of two million, that came to no decision", &failed.to_string(), "");
    report(&meanwhile, &recovered, began);
    let (too_much, too_little) = misread(&mut Callers::new(&address));
    row(&format!("of {SAMPLES} keys: more left than there was"), &too_much.to_string(), "0");
    row(&format!("of {SAMPLES} keys: less left, by more than a write allows for"), &too_little.to_string(), "0");
}

fn report(meanwhile: &Answers, recovered: &Recovered, began: Instant) {
    let seconds = |span: Duration| format!("{:.2} s", span.as_secs_f64());
    let first = meanwhile.first.map_or("none".to_owned(), |at| seconds(at.duration_since(began)));
    row("its first decision", &first, "");
    row("everything recovered", &seconds(recovered.at.duration_since(began)), "");
    row("of that, from the first partition read to the last", &seconds(recovered.took), "");
    row("keys that it knows then", &recovered.keys.to_string(), &KEYS.to_string());
    row("partitions whose record counted", &recovered.counted.to_string(), "");
    row("checks decided meanwhile by what was used", &(meanwhile.allowed + meanwhile.denied).to_string(), "");
    row("checks denied as recovering, their partition not read yet", &meanwhile.recovering.to_string(), "");
    row("checks that came to no decision", &meanwhile.failed.to_string(), "");
    row("the longest that a batch of them took", &format!("{:.0} ms", meanwhile.longest.as_secs_f64() * 1e3), "");
}

/// How many keys would admit more than is left of them, and how many less than that without what a write allows for.
fn misread(callers: &mut Callers) -> (u64, u64) {
    let left = LIMIT - USED.iter().sum::<u64>();
    let mut ask = |cost| {
        let keys = (0..SAMPLES).map(|number| number * (KEYS / SAMPLES));
        callers.ask(&Arc::new(keys.map(|key| Question { kind: "log", key, cost }).collect()), None)
    };
    (ask(left + 1).allowed, SAMPLES as u64 - ask(left - ALLOWED_FOR).allowed)
}

/// Uses every key, in blocks. Returns how many checks came to no decision: those found what they need unwritten for too long.
fn fill(callers: &mut Callers) -> u64 {
    let mut failed = 0;
    for from in (0..KEYS).step_by(BLOCK) {
        for cost in USED {
            let keys = from..KEYS.min(from + BLOCK);
            let questions = keys.map(|key| Question { kind: "log", key, cost }).collect();
            let answers = callers.ask(&Arc::new(questions), None);
            assert_eq!(answers.denied, 0);
            failed += answers.vain();
        }
    }
    failed
}

/// Waits until nothing has been left to write for a while.
fn wait_until_written(fleet: &Fleet) {
    until("everything being written", || match metrics::sum(fleet, 1, "ringfence_store_unwritten_seconds", &[]) {
        0.0 => Ok(()),
        age => Err(age),
    });
}

struct Recovered {
    at: Instant,
    took: Duration,
    keys: f64,
    counted: u64,
}

/// Asks from one thread while another looks how far the node is.
fn ask_until_recovered(fleet: &Fleet, address: &[String]) -> (Answers, Recovered) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut callers, mut sum, mut chance) =
                (Callers::new(address), Answers::default(), StdRng::seed_from_u64(1));
            while !is_over.load(Ordering::Relaxed) {
                let question = |_| Question { kind: "log", key: chance.random_range(0..KEYS), cost: 1 };
                sum.add(callers.ask(&Arc::new((0..ASKED).map(question).collect()), None));
            }
            sum
        });
        let recovered = recovered(fleet);
        is_over.store(true, Ordering::Relaxed);
        (asking.join().unwrap(), recovered)
    })
}

fn recovered(fleet: &Fleet) -> Recovered {
    let mut first = None;
    let counted = until("every partition being recovered", || {
        let cluster = fleet.cluster(1);
        let claims = cluster["redis"]["claims"].as_object().expect("it was given a store").clone();
        let sum: u64 = claims.values().filter_map(serde_json::Value::as_u64).sum();
        if sum > 0 {
            first.get_or_insert_with(Instant::now);
        }
        let of = |state: &str| cluster["partitions"][state].as_u64().unwrap_or(0);
        let all = of("owned") + of("vacant");
        if all > 0 && sum >= all { Ok(claims["counted"].as_u64().unwrap_or(0)) } else { Err(cluster) }
    });
    let at = Instant::now();
    let took = first.map_or(Duration::ZERO, |first| at.duration_since(first));
    Recovered { at, took, keys: metrics::sum(fleet, 1, "ringfence_keys", &[]), counted }
}
