//! What the plan's faults do to machines and links, and how it is all undone. Several may be at work on one link: what a
//! link carries follows from all of them together.

use std::time::Duration;

use limits::WallTime;
use turmoil::Sim;

use crate::machine::{Machine, name};
use crate::plan::{Fault, NODES};

/// How long messages take on a link that was slow once.
const ORDINARY: Duration = Duration::from_millis(2);

/// What is at work at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// How many faults keep what the first sends from the second.
    cut: [[u8; NODES]; NODES],
    /// How many hold what two send each other, the lower number first.
    held: [[u8; NODES]; NODES],
}

impl Weather {
    /// `fault` begins.
    pub fn begin(&mut self, fault: Fault, sim: &mut Sim<'_>, machines: &[Machine]) {
        let now = sim.elapsed();
        match fault {
            Fault::Crash(_) => {}
            Fault::Slow(a, b, millis) => sim.set_link_latency(name(a), name(b), Duration::from_millis(millis)),
            Fault::Lossy(one_in) => sim.set_fail_rate(1.0 / f64::from(one_in)),
            Fault::Rate(node, millionths) => machines[node].host.set_rate(millionths, now),
            Fault::Wall(node, millis) => {
                let read = machines[node].host.wall(now).as_unix_nanos();
                let step = millis.unsigned_abs() * 1_000_000;
                let read = if millis < 0 { read - step } else { read + step };
                machines[node].host.set_wall(WallTime::from_unix_nanos(read), now);
            }
            Fault::Disk(node, millis) => machines[node].host.set_disk(Duration::from_millis(millis)),
            Fault::Cut(..)
            | Fault::OneWay(..)
            | Fault::Alone(_)
            | Fault::Mute(_)
            | Fault::Deaf(_)
            | Fault::Hold(..) => {
                self.change(fault, sim, |faults| faults + 1);
            }
        }
    }

    /// `fault` is over. A clock goes on as it is, since nothing calls for putting it right.
    pub fn end(&mut self, fault: Fault, sim: &mut Sim<'_>, machines: &[Machine]) {
        match fault {
            Fault::Crash(_) | Fault::Rate(..) | Fault::Wall(..) => {}
            Fault::Slow(a, b, _) => sim.set_link_latency(name(a), name(b), ORDINARY),
            Fault::Lossy(_) => {
                sim.set_fail_rate(0.0);
                pairs().for_each(|(a, b)| self.apply(a, b, sim));
            }
            Fault::Disk(node, _) => machines[node].host.set_disk(Duration::ZERO),
            Fault::Cut(..)
            | Fault::OneWay(..)
            | Fault::Alone(_)
            | Fault::Mute(_)
            | Fault::Deaf(_)
            | Fault::Hold(..) => {
                self.change(fault, sim, |faults| faults - 1);
            }
        }
    }

    fn change(&mut self, fault: Fault, sim: &Sim<'_>, change: impl Fn(u8) -> u8) {
        let before = *self;
        for (from, to) in pairs().flat_map(|(a, b)| [(a, b), (b, a)]) {
            if keeps_from(fault, from, to) {
                self.cut[from][to] = change(self.cut[from][to]);
            }
        }
        if let Fault::Hold(a, b) = fault {
            let held = &mut self.held[a.min(b)][a.max(b)];
            *held = change(*held);
        }
        for (a, b) in pairs() {
            if self.link(a, b) != before.link(a, b) {
                self.apply(a, b, sim);
            }
        }
    }

    /// Whether a link is cut there, cut back, and held.
    fn link(&self, a: usize, b: usize) -> [bool; 3] {
        [self.cut[a][b] > 0, self.cut[b][a] > 0, self.held[a][b] > 0]
    }

    fn apply(&self, a: usize, b: usize, sim: &Sim<'_>) {
        let [there, back, held] = self.link(a, b);
        if held {
            return sim.hold(name(a), name(b));
        }
        sim.release(name(a), name(b));
        if there {
            sim.partition_oneway(name(a), name(b));
        }
        if back {
            sim.partition_oneway(name(b), name(a));
        }
    }
}

/// Whether `fault` keeps what `from` sends from `to`.
fn keeps_from(fault: Fault, from: usize, to: usize) -> bool {
    match fault {
        Fault::Cut(a, b) => (from, to) == (a, b) || (from, to) == (b, a),
        Fault::OneWay(a, b) => (from, to) == (a, b),
        Fault::Alone(node) => from == node || to == node,
        Fault::Mute(node) => from == node,
        Fault::Deaf(node) => to == node,
        Fault::Crash(_)
        | Fault::Hold(..)
        | Fault::Slow(..)
        | Fault::Lossy(_)
        | Fault::Rate(..)
        | Fault::Wall(..)
        | Fault::Disk(..) => false,
    }
}

/// Every two nodes, the lower number first.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..NODES).flat_map(|a| (a + 1..NODES).map(move |b| (a, b)))
}
