//! A Redis that goes away for a minute under load: killed, and made to stand still so that it answers nothing and nobody is
//! told. Callers ask at their own pace all the while; what counts is whether any of them was failed, and whether any key was
//! let pass more than its limit.

use std::time::{Duration, Instant};

use crate::load::{Answers, Callers, Pace, Zipf};
use crate::redis::Redis;
use crate::{LIMIT, fleet, row, wait_until_durable};

const NODES: usize = 3;
const KEYS: usize = 100_000;
const EXPONENT: f64 = 1.1;

/// How long Redis is away.
const AWAY_FOR: Duration = Duration::from_secs(60);

/// How long callers ask before it goes, and after it is back.
const AROUND: Duration = Duration::from_secs(5);

const PER_SECOND: f64 = 4_000.0;

pub fn run() {
    let killed = away("killed", Redis::stop, Redis::run);
    let still = away("standing still", |redis| redis.signal("STOP"), |redis| redis.signal("CONT"));
    println!(
        "\na Redis away for {} s under {PER_SECOND} checks a second, {KEYS} keys, zipf {EXPONENT}, limits of 1000/h, {NODES} nodes",
        AWAY_FOR.as_secs()
    );
    for (how, answers) in [killed, still] {
        let most = answers.spent.values().max().copied().unwrap_or(0);
        row(&format!("{how}: checks"), &answers.all().to_string(), "");
        row(&format!("{how}: denied by their limit"), &answers.denied.to_string(), "");
        row(&format!("{how}: failed"), &answers.vain().to_string(), "0");
        row(&format!("{how}: the most that any key was let pass"), &most.to_string(), &format!("at most {LIMIT}"));
        row(
            &format!("{how}: the longest that a batch took"),
            &format!("{:.0} ms", answers.longest.as_secs_f64() * 1e3),
            "",
        );
    }
}

/// Callers ask while the Redis goes and comes back.
fn away(how: &'static str, go: fn(&mut Redis), come: fn(&mut Redis)) -> (&'static str, Answers) {
    let mut redis = Redis::start();
    let fleet = fleet(NODES, Some(&redis));
    let addresses: Vec<String> = (1..=NODES).map(|number| fleet.api(number)).collect();
    let seconds = (AROUND + AWAY_FOR + AROUND).as_secs_f64();
    let questions = Zipf::new(KEYS, EXPONENT, 2).questions("log", (seconds * PER_SECOND) as usize);
    let answers = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let pace = Pace { began: Instant::now(), per_second: PER_SECOND };
            Callers::new(&addresses).ask(&questions, Some(pace))
        });
        // How long it is away is what is measured, so time is what is waited for.
        std::thread::sleep(AROUND);
        go(&mut redis);
        std::thread::sleep(AWAY_FOR);
        come(&mut redis);
        asking.join().unwrap()
    });
    wait_until_durable(&fleet, NODES);
    (how, answers)
}
