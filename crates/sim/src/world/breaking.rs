//! What breaks, and how it is mended: each fault begins at its moment or in its phase, befalls whom the scenario says, and is
//! over after its time. One that finds nobody to befall, or would do nothing, waits until it does. At the healing everything
//! is mended for good.

use control::Command;
use limits::Span;
use ownership::Bug;

use super::machine::Machine;
use super::node::LEAVE_WITHIN;
use super::packet::{Address, Input};
use super::play::{Happening, World};
use super::trace::Event;
use super::{Fault, Has, StoreFault, When};

/// A fault as it is played.
#[derive(Clone, Debug, Default)]
pub(super) struct Broken {
    /// What has been done to whom, and is still to be mended.
    done: Vec<Done>,
    begun: bool,
    /// Its moment came, and there was nobody to befall.
    waits: bool,
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
    /// The store does not run; it has what it had so long ago when it does again.
    StoreDown(Has),
    /// Something about the store, or between it and a node.
    Store,
    /// A process of the store that nobody answers for any more may still be connected with; or gets its place back, with what
    /// was so long ago.
    StoreAside(Option<Span>),
}

/// Whom a fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Victims {
    /// A bit each.
    nodes: u8,
    /// Between whom the network's faults cut, a bit each.
    cut: (u8, u8),
}

impl Victims {
    /// The first of them, where there is but one.
    fn node(self) -> u8 {
        self.nodes.trailing_zeros() as u8
    }

    /// Whether the cut is one: somebody stands on each side, and nobody on both.
    fn is_a_cut(&self) -> bool {
        let (one, other) = self.cut;
        one != 0 && other != 0 && one & other == 0
    }
}

impl Done {
    /// The same of a copy, if it was done to its original.
    fn of_copy(self, original: u8, copy: u8) -> Option<Done> {
        let (of, done) = match self {
            Done::Halted(of) => (of, Done::Halted(copy)),
            Done::Frozen(of) => (of, Done::Frozen(copy)),
            Done::Rate(of) => (of, Done::Rate(copy)),
            Done::Slow(of) => (of, Done::Slow(copy)),
            // A copy has no disk of its own, and the network knows nodes only.
            Done::DiskStuck(_) | Done::Network | Done::StoreDown(_) | Done::Store | Done::StoreAside(_) => return None,
        };
        (of == original).then_some(done)
    }
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

    /// Begins the faults whose phase holds now, and those that had nobody to befall when their time came.
    pub(super) fn watch(&mut self) {
        if self.healed {
            return;
        }
        for number in 0..self.scenario.faults.len() {
            if !self.broken[number].begun && self.is_time_for(number) {
                self.begin_fault(number);
            }
        }
    }

    fn is_time_for(&self, number: usize) -> bool {
        match self.scenario.faults[number].when {
            When::At(_) => self.broken[number].waits,
            When::In(phase, from) => from <= self.now && self.holds(phase),
        }
    }

    pub(super) fn begin_fault(&mut self, number: usize) {
        if self.healed || self.broken[number].begun {
            return;
        }
        let fault = self.scenario.faults[number].fault.clone();
        let Some(victims) = self.befall(&fault) else {
            self.broken[number].waits = true;
            return;
        };
        self.broken[number].begun = true;
        self.run.phases[number] = Some(self.phases());
        self.trace(Event::Broke { fault: number, nodes: victims.nodes });
        self.bring_about(number, &fault, victims);
    }

    /// Whom a fault befalls now; nobody, where whoever it is meant for is not there, or where it would do nothing.
    fn befall(&self, fault: &Fault) -> Option<Victims> {
        let all = self.everybody();
        let one = |who| self.who(who).map(|node| Victims { nodes: 1 << node, cut: (1 << node, all & !(1 << node)) });
        match *fault {
            Fault::Crash { who, .. }
            | Fault::Stop { who, .. }
            | Fault::Freeze { who, .. }
            | Fault::WallStep { who, .. }
            | Fault::Isolate { who, .. }
            | Fault::SlowDisk { who, .. }
            | Fault::Overload { who, .. }
            | Fault::Suspect { who } => one(who),
            Fault::Clone { who } => one(who).filter(|one| self.copies_of(one.node()).is_empty()),
            Fault::Rate { who, ppm, .. } => one(who).filter(|one| self.place(one.node()).ppm() != ppm),
            Fault::Leave { who, .. } => one(who).filter(|one| self.place(one.node()).leaves.is_none()),
            Fault::OneWay { from, to, .. } => {
                let one = one(from)?;
                let to = match to {
                    Some(to) => 1 << self.who(to)?,
                    None => one.cut.1,
                };
                Some(Victims { cut: (one.cut.0, to), ..one }).filter(Victims::is_a_cut)
            }
            Fault::Split { side, bridge, .. } => {
                let apart = all & !bridge.map_or(0, |bridge| 1 << bridge);
                Some(Victims { nodes: all, cut: (side & apart, apart & !side) }).filter(Victims::is_a_cut)
            }
            Fault::Storm { .. } | Fault::Policy { .. } | Fault::Ttl { .. } => Some(Victims { nodes: all, cut: (0, 0) }),
            Fault::Store(_) if !self.scenario.store => None,
            Fault::Store(StoreFault::Cut { who, .. }) => one(who),
            Fault::Store(_) => self.store.is_up().then_some(Victims { nodes: 0, cut: (0, 0) }),
        }
    }

    fn place(&self, node: u8) -> &Machine {
        &self.machines[usize::from(node)]
    }

    pub(super) fn everybody(&self) -> u8 {
        ((1_u16 << self.scenario.nodes) - 1) as u8
    }

    fn bring_about(&mut self, number: usize, fault: &Fault, victims: Victims) {
        let (node, now) = (victims.node(), self.now);
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
                self.machine(node).set_rate(now, number, ppm);
                self.lasts(number, Done::Rate(node), lasts);
                self.rewake(node);
            }
            Fault::WallStep { millis, .. } => self.machine(node).step_wall(millis),
            Fault::OneWay { .. } | Fault::Isolate { .. } | Fault::Split { .. } | Fault::Storm { .. } => {
                self.disturb(number, fault, victims);
            }
            Fault::SlowDisk { lasts, .. } => {
                self.machine(node).stuck.lay(number, ());
                self.input(node, Input::Disk(true));
                self.lasts(number, Done::DiskStuck(node), lasts);
            }
            Fault::Overload { each, lasts, .. } => {
                self.machine(node).slow.lay(number, each);
                self.lasts(number, Done::Slow(node), lasts);
            }
            Fault::Suspect { .. } => self.suspect(node),
            Fault::Policy { number: policy } => {
                let command = self.script.proposal(usize::from(policy));
                command.into_iter().for_each(|command| self.engage(number, command));
            }
            Fault::Ttl { ttl } => self.engage(number, Command::SetTtl { ttl }),
            Fault::Leave { down, .. } => {
                self.machine(node).leaves = Some(down);
                self.input(node, Input::Leave);
                let life = self.machine(node).life;
                self.plan_after(LEAVE_WITHIN, Happening::Kill(Address { machine: node, life }));
            }
            Fault::Store(fault) => self.afflict_store(number, fault, node),
        }
    }

    /// The network's faults.
    fn disturb(&mut self, number: usize, fault: &Fault, victims: Victims) {
        let (one, other) = victims.cut;
        let lasts = match *fault {
            Fault::OneWay { lasts, .. } => {
                self.network.cut(number, one, other);
                lasts
            }
            Fault::Isolate { lasts, .. } | Fault::Split { lasts, .. } => {
                self.network.cut_apart(number, one, other);
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
            | Fault::Ttl { .. }
            | Fault::Leave { .. }
            | Fault::Store(_) => return,
        };
        self.lasts(number, Done::Network, lasts);
    }

    /// The store's faults.
    fn afflict_store(&mut self, number: usize, fault: StoreFault, node: u8) {
        match fault {
            StoreFault::Down { down, has } => {
                self.store_dies();
                self.lasts(number, Done::StoreDown(has), down);
            }
            StoreFault::Slow { each, lasts } => {
                self.store.slow_down(number, each);
                self.lasts(number, Done::Store, lasts);
            }
            StoreFault::Failover { lost, lingers, lasts, back } => {
                self.store_fails_over(lost, lingers);
                self.lasts(number, Done::StoreAside(back.then_some(lost)), lasts);
            }
            StoreFault::Flushed => self.store_is_flushed(),
            StoreFault::Cut { lasts, .. } => {
                self.store.cut_off(number, node);
                self.lasts(number, Done::Store, lasts);
            }
        }
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
        let copy = u8::try_from(self.machines.len()).expect("a story has few machines");
        let chance = super::making::Chance::new(self.chance.next());
        let original = self.place(node);
        let Some(running) = &original.node else { return };
        let mut machine = original.copied();
        machine.life = 1;
        machine.node = Some(Box::new(running.copied(copy, chance)));
        self.machines.push(machine);
        // What ails the original ails the copy, and for as long.
        for broken in &mut self.broken {
            let both: Vec<Done> = broken.done.iter().filter_map(|done| done.of_copy(node, copy)).collect();
            broken.done.extend(both);
        }
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
                    self.machine(machine).lift_rate(now, number);
                    self.rewake(machine);
                }
                Done::DiskStuck(machine) => {
                    self.machine(machine).stuck.lift(number);
                    if !self.machine(machine).is_disk_stuck() {
                        self.input(machine, Input::Disk(false));
                    }
                }
                Done::Slow(machine) => self.machine(machine).slow.lift(number),
                Done::Network => {
                    self.network.mend(number);
                    self.release_held();
                }
                Done::StoreDown(has) => self.store_starts(number, has),
                Done::Store => self.store.mend(number),
                Done::StoreAside(None) => self.those_that_linger_are_gone(),
                Done::StoreAside(Some(lost)) => self.store_fails_back(lost),
            }
        }
    }

    /// A clock that runs otherwise now shows the moment for which a process waits at another time.
    fn rewake(&mut self, machine: u8) {
        self.input(machine, Input::Wake);
    }

    /// A process has left as planned.
    pub(super) fn left(&mut self, who: Address) {
        // Not within the process's own turn.
        self.plan_after(Span::ZERO, Happening::Kill(who));
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
            // Whoever was about to leave has left, and is back like all others.
            if self.place(node).leaves.is_some() {
                self.kill(node, true);
            }
            self.start(node);
        }
        self.machines.iter_mut().filter_map(|machine| machine.node.as_mut()).for_each(|node| node.be_calm());
        self.trace(Event::Healed);
    }
}
