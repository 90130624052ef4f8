//! A small story to break one thing in: three nodes, good weather, and callers who ask through every node all the time.

use limits::{Moment, Span};
use ownership::lease::Terms;
use sim::world::trace::{Decided, Event, Told};
use sim::world::{Ask, ClockSpec, Fault, Planned, Run, Scenario, Weather, When, play};

/// Every caller's key is one of these many.
const KEYS: usize = 8;

/// How often somebody asks, in milliseconds.
const EVERY_MS: usize = 20;

/// When the first asks, the last does, and the story ends.
const ASKS_MS: std::ops::Range<usize> = 1_200..8_000;
const END_MS: u64 = 9_000;

pub fn ms(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// A policy of one bucket that closes, wide enough for everybody.
pub fn policy(amount: u64) -> String {
    format!(
        "ringfence: 1\ndomain: story\nlimits:\n  calls:\n    key: [caller]\n    rate: {amount}/s\n    algorithm: token-bucket\n    fail: closed\n"
    )
}

/// The story without anything that breaks.
pub fn quiet() -> Scenario {
    let ask = |number: usize| Ask {
        at: ms((ASKS_MS.start + EVERY_MS * number) as u64),
        node: (number % 3) as u8,
        attributes: vec![("caller".to_owned(), format!("c{}", number * 7 % KEYS))],
        cost: 1,
        budget: Span::from_millis(250),
        own_id: false,
        again: Vec::new(),
    };
    let delay = Span::from_millis(1);
    Scenario {
        seed: 7,
        nodes: 3,
        partitions: 8,
        store: false,
        terms: Terms::DEFAULT,
        clocks: (1..=3).map(|node| ClockSpec { boot: ms(1_000 * node), ppm: 0, wall_ms: 0 }).collect(),
        weather: Weather { delay_min: delay, delay_max: delay, lost_per_mille: 0, doubled_per_mille: 0 },
        policies: vec![policy(100), policy(50)],
        asks: (0..ASKS_MS.len() / EVERY_MS).map(ask).collect(),
        faults: Vec::new(),
        heal_at: ms(END_MS - 500),
        end_at: ms(END_MS),
    }
}

/// The story in which this breaks at two seconds.
pub fn broken(fault: Fault) -> (Scenario, Run) {
    let scenario = Scenario { faults: vec![Planned { when: When::At(ms(2_000)), fault }], ..quiet() };
    let run = play(&scenario);
    assert!(run.phases[0].is_some(), "it happened");
    (scenario, run)
}

/// What the trace says of something, with the moments.
pub fn all<T>(run: &Run, of: impl Fn(&Event) -> Option<T>) -> Vec<(Moment, T)> {
    run.trace.iter().filter_map(|entry| Some((entry.at, of(&entry.event)?))).collect()
}

pub fn told(run: &Run) -> Vec<Told> {
    let told = |event: &Event| if let Event::Told(told) = event { Some(told.clone()) } else { None };
    all(run, told).into_iter().map(|(_, told)| told).collect()
}

/// The decisions of a machine from one moment to another.
pub fn decided(run: &Run, machine: u8, from: u64, to: u64) -> Vec<Decided> {
    let decided = |event: &Event| if let Event::Decided(decided) = event { Some(decided.clone()) } else { None };
    let all = all(run, decided).into_iter();
    all.filter(|(at, decided)| decided.node == machine && (ms(from)..ms(to)).contains(at)).map(|(_, it)| it).collect()
}

/// The first moment at which the trace says so.
pub fn first(run: &Run, is_it: impl Fn(&Event) -> bool) -> Option<Moment> {
    run.trace.iter().find(|entry| is_it(&entry.event)).map(|entry| entry.at)
}

/// Whether a moment lies within so many milliseconds of the story.
pub fn within(at: Option<Moment>, from: u64, to: u64) -> bool {
    at.is_some_and(|at| (ms(from)..=ms(to)).contains(&at))
}

/// Who leads first in the quiet story, and so in every story that is the same until something breaks.
pub fn first_leader() -> u8 {
    let leads = |event: &Event| if let Event::Leads { node, .. } = event { Some(*node) } else { None };
    all(&play(&quiet()), leads)[0].1
}
