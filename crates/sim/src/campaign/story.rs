//! A scenario in words: what is played, what breaks and what is asked, for whoever reads the report of a failure. Nodes
//! are n1, n2 and so on; all times are real time since the story began.

use std::fmt::{self, Write as _};

use limits::Moment;

use crate::world::{Ask, Fault, Has, Planned, Scenario, StoreFault, Weather, When, Who};

/// A moment of a story as people read it.
#[derive(Clone, Copy, Debug)]
pub struct At(pub Moment);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_nanos() / 1_000;
        write!(f, "{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
    }
}

/// The scenario, line by line, without its asks where there are more than `asks_max`.
pub fn told(scenario: &Scenario, asks_max: usize) -> String {
    let mut text = String::new();
    let Scenario { nodes, partitions, terms, weather, heal_at, end_at, .. } = scenario;
    let _ =
        writeln!(text, "  {nodes} nodes, {partitions} partitions, healed at {}, over at {}", At(*heal_at), At(*end_at));
    let (ttl, renew, d_max, rho) = (terms.ttl(), terms.renew(), terms.d_max(), terms.rho_per_mille());
    let _ =
        writeln!(text, "  ttl {ttl}, renewed every {renew}, answers up to {d_max} old, clocks within {rho} per mille");
    let _ = writeln!(text, "  weather: {}", Sky(weather));
    for (node, clock) in scenario.clocks.iter().enumerate() {
        let _ = writeln!(
            text,
            "  clock of n{}: {} ppm, wall {} ms, boot {}",
            node + 1,
            clock.ppm,
            clock.wall_ms,
            At(clock.boot)
        );
    }
    for (number, fault) in scenario.faults.iter().enumerate() {
        let _ = writeln!(text, "  fault {number}: {}", Said(fault));
    }
    if scenario.asks.len() > asks_max {
        let _ = writeln!(text, "  {} asks", scenario.asks.len());
    } else {
        scenario.asks.iter().enumerate().for_each(|(number, ask)| {
            let _ = writeln!(text, "  ask {number}: {}", Asked(ask));
        });
    }
    text
}

/// A fault and its time.
struct Said<'a>(&'a Planned);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.when {
            When::At(at) => write!(f, "at {}: ", At(at))?,
            When::In(phase, from) => write!(f, "the first time after {} that it is `{}`: ", At(from), phase.as_str())?,
        }
        match &self.0.fault {
            Fault::Crash { who, down } => write!(f, "{who} dies, and starts anew after {down}"),
            Fault::Stop { who, lasts } => write!(f, "the process of {who} stands still for {lasts}"),
            Fault::Freeze { who, lasts } => write!(f, "the machine of {who} stands still with its clocks for {lasts}"),
            Fault::Clone { who } => write!(f, "the machine of {who} is copied, and both go on"),
            Fault::Rate { who, ppm, lasts } => write!(f, "the clock of {who} runs at {ppm} ppm for {lasts}"),
            Fault::WallStep { who, millis } => write!(f, "the wall clock of {who} is set by {millis} ms"),
            Fault::OneWay { from, to: Some(to), lasts } => write!(f, "{to} does not hear {from} for {lasts}"),
            Fault::OneWay { from, to: None, lasts } => write!(f, "nobody hears {from} for {lasts}"),
            Fault::Isolate { who, lasts } => write!(f, "{who} is cut off for {lasts}"),
            Fault::Split { side, bridge, lasts } => {
                write!(f, "{} and the others hear nothing of each other", Side(*side))?;
                if let Some(bridge) = bridge {
                    write!(f, " but through n{}", bridge + 1)?;
                }
                write!(f, ", for {lasts}")
            }
            Fault::Storm { weather, lasts } => write!(f, "a storm for {lasts}: {}", Sky(weather)),
            Fault::SlowDisk { who, lasts } => write!(f, "the disk of {who} is stuck for {lasts}"),
            Fault::Overload { who, each, lasts } => write!(f, "{who} takes {each} for each thing it does, for {lasts}"),
            Fault::Suspect { who } => write!(f, "gossip says that {who} is dead, and it is not"),
            Fault::Policy { number } => write!(f, "document {number} is applied"),
            Fault::Ttl { ttl } => write!(f, "leases are made to last {ttl}"),
            Fault::Leave { who, down } => write!(f, "{who} leaves as planned, and starts anew after {down}"),
            Fault::Store(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreFault::Down { down, has } => write!(f, "the store dies, and is back after {down} {has}"),
            StoreFault::Slow { each, lasts } => write!(f, "the store takes {each} for each thing it does, for {lasts}"),
            StoreFault::Failover { lost, lingers, lasts, back } => {
                write!(f, "a replica without the last {lost} takes the store's place")?;
                if *lingers {
                    write!(f, ", while whoever is connected goes on with the old one")?;
                }
                let then = if *back { "the old one has its place back" } else { "the old one is gone" };
                write!(f, "; after {lasts} {then}")
            }
            StoreFault::Flushed => f.write_str("somebody deletes all that the store has"),
            StoreFault::Cut { who, lasts } => write!(f, "{who} and the store hear nothing of each other for {lasts}"),
        }
    }
}

impl fmt::Display for Has {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Has::Nothing => f.write_str("with nothing"),
            Has::AllBut(lost) => write!(f, "without the last {lost}"),
            Has::All => f.write_str("with everything, for which an operator vouches"),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Node(node) => write!(f, "n{}", node + 1),
            Who::Leader => f.write_str("the leader"),
            Who::Owner => f.write_str("the owner of what is asked next"),
            Who::Successor => f.write_str("the successor"),
            Who::Ingress => f.write_str("the node that is asked next"),
        }
    }
}

struct Side(u8);

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut and = "";
        for node in (0..8).filter(|node| self.0 >> node & 1 == 1) {
            write!(f, "{and}n{}", node + 1)?;
            and = ", ";
        }
        Ok(())
    }
}

struct Sky<'a>(&'a Weather);

impl fmt::Display for Sky<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Weather { delay_min, delay_max, lost_per_mille, doubled_per_mille } = self.0;
        write!(f, "{delay_min} to {delay_max}, {lost_per_mille} of 1000 lost, {doubled_per_mille} doubled")
    }
}

struct Asked<'a>(&'a Ask);

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ask { at, node, attributes, cost, budget, own_id, again } = self.0;
        write!(f, "{} n{}", At(*at), node + 1)?;
        attributes.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
        write!(f, " cost {cost}, waits {budget}")?;
        if *own_id {
            f.write_str(", under an id of its own")?;
        }
        again.iter().try_for_each(|(after, node)| write!(f, "; again n{} after {after}", node + 1))
    }
}

#[cfg(test)]
mod tests {
    use limits::Span;

    use super::*;

    #[test]
    fn a_story_is_told_line_by_line() {
        let mut scenario = Scenario::of(1);
        scenario.faults = vec![
            Planned {
                when: When::At(Moment::from_nanos(2_500_000_000)),
                fault: Fault::Crash { who: Who::Leader, down: Span::from_millis(20) },
            },
            Planned {
                when: When::In(crate::world::Phase::Electing, Moment::ZERO),
                fault: Fault::Split { side: 0b101, bridge: Some(1), lasts: Span::from_secs(2) },
            },
        ];
        let told = told(&scenario, 10);
        assert!(told.contains("  fault 0: at 2.500000 s: the leader dies, and starts anew after 20ms\n"), "{told}");
        let split = "`electing`: n1, n3 and the others hear nothing of each other but through n2, for 2s\n";
        assert!(told.contains(split), "{told}");
        assert!(told.contains(&format!("  {} asks\n", scenario.asks.len())), "{told}");
    }

    #[test]
    fn few_asks_are_told_one_by_one() {
        let mut scenario = Scenario::of(1);
        scenario.asks.truncate(2);
        let told = told(&scenario, 10);
        assert!(told.contains("  ask 1: ") && told.contains(" rule="), "{told}");
    }
}
