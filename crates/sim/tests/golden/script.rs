//! Scripts: a few kinds of lines that say what is played, in words. Lines that begin with `#` are for the reader. Asks and
//! faults are numbered from 0 in the order in which they stand, since the transcript calls them by their numbers.
//!
//! ```text
//! seed 1, 3 nodes, 8 partitions
//! leases of 3000 ms, renewed every 500 ms, answers within 250 ms, clocks within 10 per mille
//! every message takes 1 ms
//! the clock of n2 shows 20 s at first
//! a store keeps what is used
//! policy 0
//!   ringfence: 1
//!   ...
//! ask 0 at 1200 ms: n1, calls of alice, cost 1, within 250 ms
//! ask 1 at 1300 ms: n1, calls of alice, cost 1, within 250 ms; after 150 ms n3
//! fault 0 at 2000 ms: leader dies for 1000 ms
//! fault 1 at 2000 ms: owner is cut off for 1000 ms
//! fault 2 at 2000 ms: owner leaves for 1000 ms
//! fault 3 at 2000 ms: policy 1 is applied
//! fault 4 at 2000 ms: n3 is not heard by n2 for 200 ms
//! fault 5 at 2000 ms: owner and the store hear nothing of each other for 900 ms
//! fault 6 at 2000 ms: the store is emptied
//! fault 7 at 2000 ms: the store fails over without the last 800 ms and back after 900 ms
//! fault 8 at 2000 ms: the store dies for 900 ms and an operator vouches
//! all is mended at 4000 ms, the end is at 6000 ms
//! renewals and single appointments are not told
//! ```

use limits::{Moment, Span};
use ownership::lease::Terms;
use sim::world::{Ask, ClockSpec, Fault, Has, Planned, Scenario, StoreFault, Weather, When, Who};

/// A script that was read.
pub struct Script {
    /// What is played.
    pub scenario: Scenario,
    /// Whether the transcript tells of every renewal of a lease, and of each partition that an entry of the log gives away.
    pub tells_all: bool,
}

impl Script {
    /// Reads a script; or tells which line is not understood.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script { scenario: empty(), tells_all: true };
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let understood = match line.strip_prefix("  ") {
                Some(of_policy) => script.policy_line(of_policy),
                None => script.line(&words(line)),
            };
            understood.ok_or_else(|| format!("not understood: {line}"))?;
        }
        Ok(script)
    }

    fn policy_line(&mut self, line: &str) -> Option<()> {
        let document = self.scenario.policies.last_mut()?;
        document.push_str(line);
        document.push('\n');
        Some(())
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        let scenario = &mut self.scenario;
        match words {
            ["seed", seed, nodes, "nodes", partitions, "partitions"] => {
                (scenario.seed, scenario.nodes) = (seed.parse().ok()?, nodes.parse().ok()?);
                scenario.partitions = partitions.parse().ok()?;
                scenario.clocks = vec![ClockSpec { boot: Moment::ZERO, ppm: 0, wall_ms: 0 }; scenario.nodes.into()];
            }
            [
                "leases",
                "of",
                ttl,
                "ms",
                "renewed",
                "every",
                renew,
                "ms",
                "answers",
                "within",
                d_max,
                "ms",
                "clocks",
                "within",
                rho,
                "per",
                "mille",
            ] => scenario.terms = Terms::new(ms(ttl)?, ms(renew)?, ms(d_max)?, rho.parse().ok()?).ok()?,
            ["every", "message", "takes", delay, "ms"] => {
                (scenario.weather.delay_min, scenario.weather.delay_max) = (ms(delay)?, ms(delay)?);
            }
            ["the", "clock", "of", of, "shows", secs, "s", "at", "first"] => {
                let clock = scenario.clocks.get_mut(usize::from(node(of)?))?;
                clock.boot = Moment::ZERO.saturating_add(Span::from_secs(secs.parse().ok()?));
            }
            ["a", "store", "keeps", "what", "is", "used"] => scenario.store = true,
            ["policy", number] if is_next(number, scenario.policies.len()) => scenario.policies.push(String::new()),
            ["ask", number, "at", at, "ms", ask @ ..] if is_next(number, scenario.asks.len()) => {
                scenario.asks.push(read_ask(moment(at)?, ask)?);
            }
            ["fault", number, "at", at, "ms", fault @ ..] if is_next(number, scenario.faults.len()) => {
                scenario.faults.push(Planned { when: When::At(moment(at)?), fault: read_fault(fault)? });
            }
            ["all", "is", "mended", "at", heal, "ms", "the", "end", "is", "at", end, "ms"] => {
                (scenario.heal_at, scenario.end_at) = (moment(heal)?, moment(end)?);
            }
            ["renewals", "and", "single", "appointments", "are", "not", "told"] => self.tells_all = false,
            _ => return None,
        }
        Some(())
    }
}

fn empty() -> Scenario {
    Scenario {
        seed: 0,
        nodes: 0,
        partitions: 0,
        store: false,
        terms: Terms::DEFAULT,
        clocks: Vec::new(),
        weather: Weather { delay_min: Span::ZERO, delay_max: Span::ZERO, lost_per_mille: 0, doubled_per_mille: 0 },
        policies: Vec::new(),
        asks: Vec::new(),
        faults: Vec::new(),
        heal_at: Moment::ZERO,
        end_at: Moment::ZERO,
    }
}

/// The words of a line; commas and the like only help to read it.
fn words(line: &str) -> Vec<&str> {
    line.split([' ', ',', ':', ';']).filter(|word| !word.is_empty()).collect()
}

fn is_next(number: &str, next: usize) -> bool {
    number.parse() == Ok(next)
}

fn ms(text: &str) -> Option<Span> {
    text.parse().ok().map(Span::from_millis)
}

fn moment(text: &str) -> Option<Moment> {
    Some(Moment::ZERO.saturating_add(ms(text)?))
}

/// The number of the node of that name.
fn node(name: &str) -> Option<u8> {
    name.strip_prefix('n')?.parse::<u8>().ok()?.checked_sub(1)
}

fn read_ask(at: Moment, words: &[&str]) -> Option<Ask> {
    let [first, what, "of", user, "cost", cost, "within", budget, "ms", again @ ..] = words else { return None };
    let attribute = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Some(Ask {
        at,
        node: node(first)?,
        attributes: vec![attribute("what", what), attribute("user", user)],
        cost: cost.parse().ok()?,
        budget: ms(budget)?,
        own_id: false,
        again: read_again(again)?,
    })
}

fn read_again(words: &[&str]) -> Option<Vec<(Span, u8)>> {
    let one = |words: &[&str]| match words {
        ["after", later, "ms", at] => Some((ms(later)?, node(at)?)),
        _ => None,
    };
    words.chunks(4).map(one).collect()
}

fn read_fault(words: &[&str]) -> Option<Fault> {
    Some(match words {
        [who, "dies", "for", down, "ms"] => Fault::Crash { who: read_who(who)?, down: ms(down)? },
        [who, "leaves", "for", down, "ms"] => Fault::Leave { who: read_who(who)?, down: ms(down)? },
        [who, "is", "cut", "off", "for", lasts, "ms"] => Fault::Isolate { who: read_who(who)?, lasts: ms(lasts)? },
        [from, "is", "not", "heard", "by", to, "for", lasts, "ms"] => {
            Fault::OneWay { from: read_who(from)?, to: Some(read_who(to)?), lasts: ms(lasts)? }
        }
        [who, "and", "the", "store", "hear", "nothing", "of", "each", "other", "for", lasts, "ms"] => {
            Fault::Store(StoreFault::Cut { who: read_who(who)?, lasts: ms(lasts)? })
        }
        ["the", "store", "is", "emptied"] => Fault::Store(StoreFault::Flushed),
        [
            "the",
            "store",
            "fails",
            "over",
            "without",
            "the",
            "last",
            lost,
            "ms",
            "and",
            "back",
            "after",
            lasts,
            "ms",
        ] => Fault::Store(StoreFault::Failover { lost: ms(lost)?, lingers: false, lasts: ms(lasts)?, back: true }),
        ["the", "store", "dies", "for", down, "ms", "and", "an", "operator", "vouches"] => {
            Fault::Store(StoreFault::Down { down: ms(down)?, has: Has::All })
        }
        ["policy", number, "is", "applied"] => Fault::Policy { number: number.parse().ok()? },
        _ => return None,
    })
}

fn read_who(word: &str) -> Option<Who> {
    match word {
        "leader" => Some(Who::Leader),
        "owner" => Some(Who::Owner),
        name => node(name).map(Who::Node),
    }
}

#[test]
fn a_line_that_says_something_else_is_refused() {
    let script =
        |line: &str| Script::parse(&format!("seed 1, 3 nodes, 8 partitions\n{line}\n")).map(|script| script.scenario);
    assert!(script("fault 0 at 5 ms: owner dies for 7 ms").is_ok());
    for bad in
        ["fault 1 at 5 ms: owner dies for 7 ms", "fault 0 at 5 ms: owner lives", "the clock of n4 shows 1 s at first"]
    {
        assert_eq!(script(bad).err(), Some(format!("not understood: {bad}")));
    }
}
