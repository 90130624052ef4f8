//! What breaks, and how it is mended: each fault begins at its moment or in its phase, befalls whom the scenario says, and is
//! over after its time. At the healing everything is mended for good.

use limits::Span;
use ownership::Bug;

use super::node::LEAVE_WITHIN;
use super::packet::{Address, Input};
use super::play::{Happening, World};
use super::trace::Event;
use super::{Fault, When};

/// How long an operator waits for an answer before it tries elsewhere.
const OPERATE_AGAIN: Span = Span::from_millis(700);

/// A fault as it is played.
#[derive(Clone, Debug, Default)]
pub(super) struct Broken {
    /// What has been done to whom, and is still to be mended.
    done: Vec<Done>,
    begun: bool,
    over: bool,
}

/// What a fault did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Halted(u8),
    Frozen(u8),
    Rate(u8),
    DiskStuck(u8),
    Slow(u8),
    Network,
}

/// Somebody who applies a policy, for as long as it takes.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    fault: usize,
    number: u8,
    done: bool,
}

impl World<'_> {
    pub(super) fn plan_faults(&mut self) {
        for (number, planned) in self.scenario.faults.iter().enumerate() {
            match planned.when {
                When::At(at) => self.schedule.plan(at, Happening::Break(number)),
                When::In(..) => {}
            }
        }
    }

    /// Begins the faults whose phase holds now.
    pub(super) fn watch(&mut self) {
        if self.healed {
            return;
        }
        for number in 0..self.scenario.faults.len() {
            if let When::In(phase, from) = self.scenario.faults[number].when
                && !self.broken[number].begun
                && from <= self.now
                && self.holds(phase)
            {
                self.begin_fault(number);
            }
        }
    }

    pub(super) fn begin_fault(&mut self, number: usize) {
        if self.healed || self.broken[number].begun {
            return;
        }
        self.broken[number].begun = true;
        let fault = self.scenario.faults[number].fault.clone();
        let phases = self.phases();
        let nodes = self.befall(&fault);
        if let Some(nodes) = nodes {
            self.run.phases[number] = phases;
            self.trace(Event::Broke { fault: number, nodes });
        }
        self.bring_about(number, &fault, nodes);
    }

    /// The nodes that a fault befalls, a bit each; nobody, where whoever it is meant for is down.
    fn befall(&mut self, fault: &Fault) -> Option<u8> {
        let all = self.everybody();
        let who = match *fault {
            Fault::Crash { who, .. }
            | Fault::Stop { who, .. }
            | Fault::Freeze { who, .. }
            | Fault::Clone { who }
            | Fault::Rate { who, .. }
            | Fault::WallStep { who, .. }
            | Fault::Isolate { who, .. }
            | Fault::SlowDisk { who, .. }
            | Fault::Overload { who, .. }
            | Fault::Suspect { who }
            | Fault::Leave { who, .. } => who,
            Fault::OneWay { from, .. } => from,
            Fault::Split { .. } | Fault::Storm { .. } | Fault::Policy { .. } => return Some(all),
        };
        let node = self.who(who);
        self.machine(node).node.is_some().then(|| 1 << node)
    }

    pub(super) fn everybody(&self) -> u8 {
        ((1_u16 << self.scenario.nodes) - 1) as u8
    }

    fn bring_about(&mut self, number: usize, fault: &Fault, nodes: Option<u8>) {
        let Some(nodes) = nodes else { return };
        let node = nodes.trailing_zeros() as u8;
        let now = self.now;
        match *fault {
            Fault::Crash { down, .. } => {
                let loud = self.chance.one_in(2);
                self.kill(node, loud);
                self.plan_after(down, Happening::Start(node));
            }
            Fault::Stop { lasts, .. } => {
                // A seeded bug: what does not see the machine sleep.
                if Bug::SleepingClock.is_here() {
                    self.freeze(number, node);
                }
                self.halt(number, node, lasts);
            }
            Fault::Freeze { lasts, .. } => {
                self.freeze(number, node);
                self.halt(number, node, lasts);
            }
            Fault::Clone { .. } => self.copy(node),
            Fault::Rate { ppm, lasts, .. } => {
                self.machine(node).set_rate(now, ppm);
                self.lasts(number, Done::Rate(node), lasts);
                self.rewake(node);
            }
            Fault::WallStep { millis, .. } => self.machine(node).step_wall(millis),
            Fault::OneWay { .. } | Fault::Isolate { .. } | Fault::Split { .. } | Fault::Storm { .. } => {
                self.disturb(number, fault, nodes);
            }
            Fault::SlowDisk { lasts, .. } => {
                self.machine(node).is_disk_stuck = true;
                self.input(node, Input::Disk(true));
                self.lasts(number, Done::DiskStuck(node), lasts);
            }
            Fault::Overload { each, lasts, .. } => {
                self.machine(node).each = each;
                self.lasts(number, Done::Slow(node), lasts);
            }
            Fault::Suspect { .. } => self.suspect(node),
            Fault::Policy { number: policy } => {
                self.operators.push(Operator { fault: number, number: policy, done: false });
                self.operate(self.operators.len() - 1);
            }
            Fault::Leave { down, .. } => {
                self.input(node, Input::Leave);
                let life = self.machine(node).life;
                self.plan_after(LEAVE_WITHIN, Happening::Kill(Address { machine: node, life }, down));
            }
        }
    }

    /// The network's faults.
    fn disturb(&mut self, number: usize, fault: &Fault, nodes: u8) {
        let all = self.everybody();
        let lasts = match *fault {
            Fault::OneWay { to, lasts, .. } => {
                let to = to.map_or(all & !nodes, |to| 1 << self.who(to));
                self.network.cut(number, nodes, to);
                lasts
            }
            Fault::Isolate { lasts, .. } => {
                self.network.cut_apart(number, nodes, all & !nodes);
                lasts
            }
            Fault::Split { side, bridge, lasts } => {
                let bridge = bridge.map_or(0, |bridge| 1 << bridge);
                self.network.cut_apart(number, side & all & !bridge, all & !side & !bridge);
                lasts
            }
            Fault::Storm { weather, lasts } => {
                self.network.begin_storm(number, weather);
                lasts
            }
            Fault::Crash { .. }
            | Fault::Stop { .. }
            | Fault::Freeze { .. }
            | Fault::Clone { .. }
            | Fault::Rate { .. }
            | Fault::WallStep { .. }
            | Fault::SlowDisk { .. }
            | Fault::Overload { .. }
            | Fault::Suspect { .. }
            | Fault::Policy { .. }
            | Fault::Leave { .. } => return,
        };
        self.lasts(number, Done::Network, lasts);
    }

    fn freeze(&mut self, number: usize, node: u8) {
        let now = self.now;
        self.machine(node).freeze(now);
        self.broken[number].done.push(Done::Frozen(node));
    }

    fn suspect(&mut self, node: u8) {
        let others: Vec<u8> = (0..self.scenario.nodes).filter(|other| *other != node).collect();
        others.into_iter().for_each(|other| self.input(other, Input::Suspect(node)));
    }

    fn lasts(&mut self, number: usize, done: Done, span: Span) {
        self.broken[number].done.push(done);
        self.plan_after(span, Happening::Mend(number));
    }

    fn halt(&mut self, number: usize, node: u8, span: Span) {
        self.machine(node).halted += 1;
        self.lasts(number, Done::Halted(node), span);
    }

    fn copy(&mut self, node: u8) {
        if !self.copies_of(node).is_empty() {
            return;
        }
        let copy = u8::try_from(self.machines.len()).expect("a story has few machines");
        let chance = super::making::Chance::new(self.chance.next());
        let original = &self.machines[usize::from(node)];
        let Some(running) = &original.node else { return };
        let mut machine = original.copied();
        machine.life = 1;
        machine.node = Some(Box::new(running.copied(copy, chance)));
        self.machines.push(machine);
        self.trace(Event::Cloned { node, copy });
        self.input(copy, Input::Wake);
    }

    pub(super) fn mend(&mut self, number: usize) {
        if self.broken[number].over {
            return;
        }
        self.broken[number].over = true;
        self.trace(Event::Mended { fault: number });
        let now = self.now;
        for done in std::mem::take(&mut self.broken[number].done) {
            match done {
                Done::Frozen(machine) => self.machine(machine).thaw(now),
                Done::Halted(machine) => {
                    let place = self.machine(machine);
                    place.halted = place.halted.saturating_sub(1);
                    self.resume(machine);
                }
                Done::Rate(machine) => {
                    self.machine(machine).reset_rate(now);
                    self.rewake(machine);
                }
                Done::DiskStuck(machine) => {
                    self.machine(machine).is_disk_stuck = false;
                    self.input(machine, Input::Disk(false));
                }
                Done::Slow(machine) => self.machine(machine).each = Span::ZERO,
                Done::Network => {
                    self.network.mend(number);
                    self.release_held();
                }
            }
        }
    }

    /// A clock that runs otherwise now shows the moment for which a process waits at another time.
    fn rewake(&mut self, machine: u8) {
        self.input(machine, Input::Wake);
    }

    pub(super) fn operate(&mut self, operator: usize) {
        let Operator { number, done, .. } = self.operators[operator];
        if done {
            return;
        }
        self.plan_after(OPERATE_AGAIN, Happening::Operate(operator));
        let up: Vec<u8> =
            (0..self.scenario.nodes).filter(|node| self.machines[usize::from(*node)].node.is_some()).collect();
        let Some(command) = self.script.proposal(usize::from(number)) else { return };
        if !up.is_empty() {
            let machine = *self.chance.pick(&up);
            self.input(machine, Input::Operate(number, command.into()));
        }
    }

    pub(super) fn operated(&mut self, number: u8, done: bool) {
        let waits = |operator: &&mut Operator| operator.number == number && !operator.done;
        if let Some(operator) = self.operators.iter_mut().find(waits).filter(|_| done) {
            operator.done = true;
            let fault = operator.fault;
            self.mend(fault);
        }
    }

    pub(super) fn is_operating(&self) -> bool {
        self.operators.iter().any(|operator| !operator.done)
    }

    /// A process has left as planned.
    pub(super) fn left(&mut self, Address { machine, .. }: Address) {
        let leaves = |planned: &super::Planned| match planned.fault {
            Fault::Leave { down, .. } => Some(down),
            Fault::Crash { .. }
            | Fault::Stop { .. }
            | Fault::Freeze { .. }
            | Fault::Clone { .. }
            | Fault::Rate { .. }
            | Fault::WallStep { .. }
            | Fault::OneWay { .. }
            | Fault::Isolate { .. }
            | Fault::Split { .. }
            | Fault::Storm { .. }
            | Fault::SlowDisk { .. }
            | Fault::Overload { .. }
            | Fault::Suspect { .. }
            | Fault::Policy { .. } => None,
        };
        let mut begun = self.scenario.faults.iter().zip(&self.broken).filter(|(_, broken)| broken.begun);
        let down = begun.find_map(|(planned, _)| leaves(planned));
        // Not within the process's own turn.
        let life = self.machine(machine).life;
        self.plan_after(Span::ZERO, Happening::Kill(Address { machine, life }, down.unwrap_or(Span::ZERO)));
    }

    /// Everything is mended for good.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.network.be_fine();
        for number in 0..self.broken.len() {
            if self.broken[number].begun && !self.broken[number].over && !self.broken[number].done.is_empty() {
                self.mend(number);
            }
        }
        for copy in self.scenario.nodes..self.machines.len() as u8 {
            self.kill(copy, true);
        }
        for (node, spec) in (0..).zip(&self.scenario.clocks) {
            self.machine(node).set_wall(spec.wall_ms);
            self.start(node);
        }
        self.machines.iter_mut().filter_map(|machine| machine.node.as_mut()).for_each(|node| node.be_calm());
        self.trace(Event::Healed);
    }
}
