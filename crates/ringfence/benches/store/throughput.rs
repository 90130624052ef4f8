//! Closed limits with a Redis and without. Two fleets take turns at the same questions, so that whatever else the machine does
//! meets both; it ends when half of all checks were denied. Writes are counted by the nodes themselves.

use std::time::Instant;

use crate::load::{Answers, Callers, Zipf};
use crate::redis::Redis;
use crate::serve::Fleet;
use crate::{fleet, metrics, row};

const NODES: usize = 3;
const KEYS: usize = 100_000;
const EXPONENT: f64 = 1.1;

/// Checks that a fleet answers before the other has its turn.
const TURN: usize = 65_536;

/// Turns of each fleet at most.
const TURNS_MAX: usize = 32;

/// A fleet, and what it has answered.
struct Side {
    fleet: Fleet,
    callers: Callers,
    answers: Answers,
    seconds: f64,
}

impl Side {
    fn new(fleet: Fleet) -> Side {
        let addresses: Vec<String> = (1..=NODES).map(|number| fleet.api(number)).collect();
        Side { fleet, callers: Callers::new(&addresses), answers: Answers::default(), seconds: 0.0 }
    }

    fn take_turn(&mut self, questions: &std::sync::Arc<Vec<crate::load::Question>>) {
        let began = Instant::now();
        let answers = self.callers.ask(questions, None);
        self.seconds += began.elapsed().as_secs_f64();
        self.answers.add(answers);
    }

    fn per_second(&self) -> f64 {
        self.answers.all() as f64 / self.seconds
    }

    fn denied(&self) -> f64 {
        self.answers.denied as f64 / self.answers.all() as f64
    }
}

pub fn run() {
    let redis = Redis::start();
    let (mut durable, mut volatile) = (Side::new(fleet(NODES, Some(&redis))), Side::new(fleet(NODES, None)));
    let mut zipf = Zipf::new(KEYS, EXPONENT, 1);
    let calls_before = calls(&durable.fleet);
    let keys_before = keys(&durable.fleet);
    for turn in 0..TURNS_MAX {
        let questions = zipf.questions("bucket", TURN);
        let (first, second) = if turn % 2 == 0 { (&mut durable, &mut volatile) } else { (&mut volatile, &mut durable) };
        first.take_turn(&questions);
        second.take_turn(&questions);
        if volatile.denied() >= 0.5 {
            break;
        }
    }
    let per_100 = |count: f64| format!("{:.2}", 100.0 * count / durable.answers.all() as f64);
    println!(
        "\nclosed limits of 1000/h, {KEYS} keys, zipf {EXPONENT}, {NODES} nodes, from empty until half was denied"
    );
    row("checks of each fleet", &durable.answers.all().to_string(), "");
    row("denied: with Redis, without", &format!("{:.2}, {:.2}", durable.denied(), volatile.denied()), "");
    row(
        "no decision: with Redis, without",
        &format!("{}, {}", durable.answers.vain(), volatile.answers.vain()),
        "0, 0",
    );
    row(
        "throughput: with Redis / without",
        &format!("{:.2}", durable.per_second() / volatile.per_second()),
        "at least 0.9",
    );
    let put_off = metrics::sum(&durable.fleet, NODES, "ringfence_store_put_off_total", &["allowance"]);
    row("times that a check waited for a write, per 100 decisions", &per_100(put_off), "");
    row("keys written to Redis per 100 decisions", &per_100(keys(&durable.fleet) - keys_before), "below 2");
    row("calls to Redis that wrote, per 100 decisions", &per_100(calls(&durable.fleet) - calls_before), "below 2");
}

fn calls(fleet: &Fleet) -> f64 {
    let requests = |op| metrics::sum(fleet, NODES, "ringfence_store_requests_total", &[op]);
    requests("op=\"write\"") + requests("op=\"rewrite\"")
}

fn keys(fleet: &Fleet) -> f64 {
    metrics::sum(fleet, NODES, "ringfence_store_keys_written_total", &[])
}
