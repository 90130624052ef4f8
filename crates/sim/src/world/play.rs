//! The scheduler: it takes what is planned in the order of real time, gives each process what comes in at it with a reading
//! of that machine's clocks, and does what the process wants. All that chance decides while a story is played comes from
//! the scenario's seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::{Command, Effects as Followed, State};
use limits::{Moment, Span};
use ownership::SessionId;
use ownership::ingress::Delivery;
use ownership::kept::Incarnation;

use super::breaking::Broken;
use super::callers::Caller;
use super::consensus::Disk;
use super::machine::Machine;
use super::making::Chance;
use super::network::Network;
use super::node::{Effect, Node, Place};
use super::operators::Operator;
use super::packet::{Address, Call, Entry, Input, Packet};
use super::script::Script;
use super::store::{Answered, Sent, Stores};
use super::trace::{Entry as Traced, Event};
use super::transport::{Connections, Held, To};
use super::words::words_of;
use super::{Run, Scenario};

/// Events of one story at most; more is a story that goes round in circles.
const EVENTS_MAX: u64 = 4_000_000;

/// Chance while a story is played, and of its network.
const PLAY_STREAM: u64 = 0x706c;
const NETWORK_STREAM: u64 = 0x6e77;

/// Plays a scenario from beginning to end.
///
/// # Panics
///
/// If a machine does what it must never do, or if the scenario is none: see [`Scenario`].
pub fn play(scenario: &Scenario) -> Run {
    let mut world = World::new(scenario);
    world.begin();
    while let Some((at, happening)) = world.schedule.next(scenario.end_at) {
        world.now = at;
        world.run.events += 1;
        assert!(world.run.events < EVENTS_MAX, "the story of seed {} goes round in circles", scenario.seed);
        world.happen(happening);
        world.watch();
    }
    world.end()
}

/// A story while it is played.
#[derive(Debug)]
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) script: Arc<Script>,
    pub(super) now: Moment,
    pub(super) schedule: super::schedule::Schedule<Happening>,
    pub(super) machines: Vec<Machine>,
    pub(super) network: Network,
    pub(super) held: Vec<Held>,
    pub(super) held_so_far: u64,
    pub(super) connections: Connections,
    pub(super) store: Stores,
    pub(super) chance: Chance,
    pub(super) run: Run,
    /// What the log agreed on, as far as anybody applied it.
    pub(super) truth: State,
    entries: BTreeMap<u64, Option<Entry>>,
    pub(super) callers: Vec<Caller>,
    pub(super) next_ask: usize,
    pub(super) broken: Vec<Broken>,
    pub(super) operators: Vec<Operator>,
    pub(super) healed: bool,
    /// Until when each session's lease lasts, in real time.
    pub(super) leases: BTreeMap<SessionId, Moment>,
    /// The log index of the last takeover, and who took over.
    pub(super) takeover: Option<(u64, SessionId)>,
    /// Until when a floor of some successor matters.
    pub(super) recovering: Moment,
    /// Corrections under way.
    pub(super) corrections: u64,
}

/// Something that is planned.
#[derive(Debug)]
pub(super) enum Happening {
    /// A process has something to do by itself.
    Wake(u8, u64),
    /// A thread of a process goes on.
    GoOn(Address, Input),
    /// A process takes the next thing that piled up.
    Drain(u8),
    /// A packet arrives.
    Arrive { from: Address, to: To, packet: Packet, sent: Moment },
    /// A packet has waited too long behind a cut.
    GivenUp(u64),
    /// A call has come to nothing.
    Fail(Address, Call, Delivery),
    /// A machine notices that its connections with that node are gone.
    Broken(u8, u8),
    /// A caller puts its question, or puts it again.
    Put(usize, u8),
    /// A caller has waited long enough.
    GiveUp(usize),
    /// A fault begins.
    Break(usize),
    /// It is over.
    Mend(usize),
    /// A process starts.
    Start(u8),
    /// A process that wanted to leave has had its time.
    Kill(Address),
    /// An operator tries again.
    Operate(usize),
    /// Everything is mended.
    Heal,
    /// A process looks for the store.
    Dial(Address),
    /// A connection with it stands, under this number.
    Connected(Address, u64, Incarnation),
    /// A question arrives at the store.
    AtStore(Sent),
    /// The store has done what it was asked.
    DoneByStore(Sent),
    /// Its answer arrives.
    FromStore(Answered),
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> World<'a> {
        assert_eq!(scenario.clocks.len(), usize::from(scenario.nodes), "every node has a clock");
        World {
            scenario,
            script: Arc::new(Script::of(scenario)),
            now: Moment::ZERO,
            schedule: super::schedule::Schedule::new(),
            machines: scenario.clocks.iter().zip(0..).map(|(spec, number)| Machine::new(number, *spec)).collect(),
            network: Network::new(scenario.weather, Chance::of(scenario.seed, NETWORK_STREAM)),
            held: Vec::new(),
            held_so_far: 0,
            connections: Connections::default(),
            store: Stores::new(scenario.seed),
            chance: Chance::of(scenario.seed, PLAY_STREAM),
            run: Run { phases: vec![None; scenario.faults.len()], ..Run::default() },
            truth: State::new(),
            entries: BTreeMap::new(),
            callers: scenario.asks.iter().enumerate().map(|(number, _)| Caller::new(scenario.seed, number)).collect(),
            next_ask: 0,
            broken: scenario.faults.iter().map(|_| Broken::default()).collect(),
            operators: Vec::new(),
            healed: false,
            leases: BTreeMap::new(),
            takeover: None,
            recovering: Moment::ZERO,
            corrections: 0,
        }
    }

    fn begin(&mut self) {
        for machine in 0..self.scenario.nodes {
            let late = self.chance.millis(0, 20);
            self.plan_after(late, Happening::Start(machine));
        }
        for (ask, what) in self.scenario.asks.iter().enumerate() {
            self.schedule.plan(what.at, Happening::Put(ask, 0));
        }
        self.plan_faults();
        self.schedule.plan(self.scenario.heal_at, Happening::Heal);
    }

    fn end(mut self) -> Run {
        self.now = self.scenario.end_at;
        self.give_everybody_up();
        self.run.courses = self.machines.into_iter().map(|machine| machine.course).collect();
        self.run.cluster = self.truth.cluster().cloned();
        self.run
    }

    pub(super) fn plan_after(&mut self, span: Span, happening: Happening) {
        self.schedule.plan(self.now.saturating_add(span), happening);
    }

    pub(super) fn trace(&mut self, event: Event) {
        self.run.trace.push(Traced { at: self.now, event });
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.run.counters.entry(what).or_default() += 1;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(machine, life) => self.wake(machine, life),
            Happening::GoOn(Address { machine, life }, input) => {
                if self.machine(machine).life == life {
                    self.input(machine, input);
                }
            }
            Happening::Drain(machine) => self.drain(machine),
            Happening::Arrive { from, to, packet, sent } => self.arrive(from, to, packet, sent),
            Happening::GivenUp(number) => self.give_up_held(number),
            Happening::Fail(Address { machine, life }, call, delivery) => {
                if self.machine(machine).life == life {
                    self.input(machine, Input::Failed(call, delivery));
                }
            }
            Happening::Broken(machine, node) => self.notice_broken(machine, node),
            Happening::Put(ask, nth) => self.put(ask, nth),
            Happening::GiveUp(ask) => self.give_up(ask),
            Happening::Break(fault) => self.begin_fault(fault),
            Happening::Mend(fault) => self.mend(fault),
            Happening::Start(machine) => self.start(machine),
            Happening::Kill(Address { machine, life }) => {
                if self.machine(machine).life == life && self.machine(machine).node.is_some() {
                    let down = self.machine(machine).leaves.unwrap_or(Span::ZERO);
                    self.kill(machine, true);
                    self.plan_after(down, Happening::Start(machine));
                }
            }
            Happening::Operate(operator) => self.operate(operator),
            Happening::Heal => self.heal(),
            Happening::Dial(who) => self.dial(who),
            Happening::Connected(who, link, life) => self.connected(who, link, life),
            Happening::AtStore(sent) => self.at_store(sent),
            Happening::DoneByStore(sent) => self.done_by_store(sent),
            Happening::FromStore(answered) => self.answer_of_store(answered),
        }
    }

    pub(super) fn machine(&mut self, machine: u8) -> &mut Machine {
        &mut self.machines[usize::from(machine)]
    }

    /// Something comes in at a process. If it stands still or is busy, it waits there.
    pub(super) fn input(&mut self, machine: u8, input: Input) {
        let now = self.now;
        let place = self.machine(machine);
        if place.node.is_none() {
            return;
        }
        if place.is_free(now) {
            return self.give(machine, input);
        }
        place.keep(input);
        self.plan_drain(machine);
    }

    fn plan_drain(&mut self, machine: u8) {
        let now = self.now;
        let place = self.machine(machine);
        if place.halted > 0 || place.draining || place.inbox.is_empty() {
            return;
        }
        place.draining = true;
        let at = place.busy_until.max(now);
        self.schedule.plan(at, Happening::Drain(machine));
    }

    fn drain(&mut self, machine: u8) {
        self.machine(machine).draining = false;
        loop {
            let now = self.now;
            let place = self.machine(machine);
            if place.halted > 0 || place.busy_until > now || place.node.is_none() {
                break;
            }
            let Some(input) = place.inbox.pop_front() else { break };
            self.give(machine, input);
        }
        self.plan_drain(machine);
    }

    /// A process goes on where it stood still.
    pub(super) fn resume(&mut self, machine: u8) {
        let first = self.chance.one_in(2);
        let place = self.machine(machine);
        if place.halted > 0 || place.node.is_none() {
            return;
        }
        if first {
            place.inbox.push_front(Input::Wake)
        } else {
            place.inbox.push_back(Input::Wake)
        }
        self.plan_drain(machine);
    }

    fn wake(&mut self, machine: u8, life: u64) {
        let now = self.now;
        let place = self.machine(machine);
        if place.life != life || place.wake != now {
            return;
        }
        place.wake = Moment::MAX;
        // A process that stands still looks at its timers when it goes on.
        if place.halted == 0 {
            self.input(machine, Input::Wake);
        }
    }

    /// Gives a process something to do now.
    fn give(&mut self, machine: u8, input: Input) {
        let now = self.now;
        let place = self.machine(machine);
        let Some(mut node) = place.node.take() else { return };
        let at = place.at(now);
        place.busy_until = now.saturating_add(place.each());
        node.handle(input, at);
        self.put_back(machine, node);
    }

    /// Does what a process wants, and plans when it is to be woken.
    fn put_back(&mut self, machine: u8, mut node: Box<Node>) {
        let mut effects = node.effects();
        let timeout = node.poll_timeout();
        let place = self.machine(machine);
        place.node = Some(node);
        if let Some(timeout) = timeout {
            let now = self.now;
            let place = self.machine(machine);
            let at = place.course.first(timeout).max(now);
            if at != place.wake && at < Moment::MAX {
                place.wake = at;
                let life = place.life;
                self.schedule.plan(at, Happening::Wake(machine, life));
            }
        }
        let life = self.machine(machine).life;
        for effect in effects.drain(..) {
            self.carry_out(Address { machine, life }, effect);
        }
        if let Some(node) = &mut self.machine(machine).node {
            node.recycle(effects);
        }
    }

    fn carry_out(&mut self, who: Address, effect: Effect) {
        match effect {
            Effect::Log(to, packet) => self.send_log(who, to, packet),
            Effect::Call(to, packet) => self.send_call(who, To::Node(to), packet),
            Effect::Reply(to, packet) => self.send_call(who, To::Process(to), packet),
            Effect::Forward(to, packet) => self.send_stream(who, To::Node(to), packet),
            Effect::Back(to, packet) => self.send_stream(who, To::Process(to), packet),
            Effect::Wait(span, waited) => self.plan_after(span, Happening::GoOn(who, Input::GoOn(waited))),
            Effect::Tell(put, decision) => self.told(who.machine, put, decision),
            Effect::Applied(index, entry) => self.applied(who.machine, index, entry),
            Effect::Believes(leadership) => {
                self.copies_of(who.machine).into_iter().for_each(|copy| self.input(copy, Input::Believe(leadership)));
            }
            Effect::Operated(operator, done) => self.operated(operator, done),
            Effect::Left => self.left(who),
            Effect::Trace(event) => self.note(who.machine, event),
            Effect::Extended { session, sent, end } => {
                let until = self.machine(who.machine).course.first(end);
                let known = self.leases.entry(session).or_insert(Moment::ZERO);
                *known = until.max(*known);
                self.trace(Event::Extended { node: who.machine, session, sent, end, until });
            }
            Effect::Dial => self.dial(who),
            Effect::HangUp => self.hang_up(who),
            Effect::AskStore(number, asking) => self.ask_store(who, number, asking),
            Effect::Count(what) => self.count(what),
        }
    }

    fn note(&mut self, machine: u8, event: Event) {
        if let Event::Reigns { full_as_of: Some(_), .. } = event {
            let matters = self.machine(machine).node.as_ref().map_or(Span::ZERO, |node| node.floor_matters());
            self.recovering = self.recovering.max(self.now.saturating_add(matters));
        }
        self.trace(event);
    }

    pub(super) fn copies_of(&self, machine: u8) -> Vec<u8> {
        let number = self.machines[usize::from(machine)].node_number;
        if number != machine {
            return Vec::new();
        }
        let is_copy = |(other, copy): &(u8, &Machine)| *other != machine && copy.node_number == number;
        (0..).zip(&self.machines).filter(is_copy).map(|(other, _)| other).collect()
    }

    /// An entry of the log was applied somewhere: it is told once, and every node has the same.
    fn applied(&mut self, machine: u8, index: u64, entry: Option<Entry>) {
        for copy in self.copies_of(machine) {
            self.input(copy, Input::Follow(index, entry.clone()));
        }
        if let Some(known) = self.entries.get(&index) {
            assert_eq!(*known, entry, "entry {index} of the log is the same everywhere");
            return;
        }
        self.entries.insert(index, entry.clone());
        let Some(command) = entry else { return };
        if index <= self.truth.applied() {
            return;
        }
        let mut followed = Followed::default();
        let counted = self.counts();
        let result = self.truth.apply(index, &command, &mut followed);
        let words = match result {
            Ok(_) => words_of(&command),
            Err(why) => format!("{}, refused: {why}", words_of(&command)),
        };
        self.trace(Event::Committed { index, words });
        if let Command::Trust { incarnation: life } = *command {
            self.trace(Event::Vouched { life, index });
        }
        let ended =
            self.truth.cluster().map(|cluster| cluster.sessions.ended.iter().filter(|ended| ended.ended_at == index));
        let ended: Vec<Event> = ended
            .into_iter()
            .flatten()
            .map(|ended| Event::Ended { session: ended.session, ending: ended.ending, index })
            .collect();
        ended.into_iter().for_each(|event| self.trace(event));
        for (session, store) in self.counts() {
            if counted.get(&session).copied().flatten() != store {
                self.trace(Event::Counts { session, store });
            }
        }
        for appointment in followed.appointments {
            if appointment.has_predecessor() {
                self.takeover = Some((index, appointment.session));
            }
            let control::Appointment { partition, epoch, session, index, before } = appointment;
            self.trace(Event::Appointed { partition, epoch, session, index, before });
        }
    }

    /// In which life of the store each session's records count, as the log says.
    fn counts(&self) -> BTreeMap<SessionId, Option<Incarnation>> {
        let Some(cluster) = self.truth.cluster().filter(|_| self.scenario.store) else { return BTreeMap::new() };
        cluster.sessions.live.iter().map(|(session, live)| (*session, live.kept.store)).collect()
    }

    /// A process starts where none runs. A copy whose process died stays down: as a voter it would be one of two.
    pub(super) fn start(&mut self, machine: u8) {
        if machine >= self.scenario.nodes {
            return;
        }
        let (now, script) = (self.now, Arc::clone(&self.script));
        let chance = Chance::new(self.chance.next());
        let place = self.machine(machine);
        if place.node.is_some() {
            return;
        }
        place.life += 1;
        let disk = std::mem::take(&mut place.disk);
        let remains = place.remains.take();
        let (me, at, stuck) = (place.node_number, place.at(now), place.is_disk_stuck());
        let node = Node::start(Place { me, script, disk, remains }, chance, at);
        let mut node = Box::new(node);
        if self.healed {
            node.be_calm();
        }
        self.put_back(machine, node);
        if stuck {
            self.input(machine, Input::Disk(true));
        }
    }

    /// A process dies. Whoever is connected with it hears so at once, if the machine still tells; else in time.
    pub(super) fn kill(&mut self, machine: u8, loud: bool) {
        let now = self.now;
        let place = self.machine(machine);
        let Some(node) = place.node.take() else { return };
        let (disk, remains) = node.into_remains();
        place.disk = disk.unwrap_or_else(Disk::default);
        place.remains = remains;
        place.died = Some((now, loud));
        place.leaves = None;
        place.inbox.clear();
        (place.wake, place.busy_until) = (Moment::MAX, Moment::ZERO);
        let number = place.node_number;
        self.unlink(machine);
        self.trace(Event::Died { node: machine });
        self.break_connections(machine, number, loud);
    }
}
