//! A history as it happens: callers ask, messages travel as the weather has it, an owner is lost and its partitions are
//! taken over. Time is a number of milliseconds and moves from event to event; all chance comes from the seed, so a seed
//! tells the same story every time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use limits::{Budgets, Moment};
use ringfence_ownership::ingress::{After, Delivery, Said, Step};
use ringfence_ownership::{Answer, Asker, Check, CheckId, CheckLeg, Epoch, Floor, Partition, Route};

use crate::asking::{Correction, Errand, Group};
use crate::bug::Bug;
use crate::chance::Chance;
use crate::leases::is_hold;
use crate::ledger::{Ledger, Reign, Violation};
use crate::node::{LEASE_MS, Node, first_owner, node_of, session};
use crate::scene::{Caller, NODES, Pages, Scene, Then};

/// Separates what happens from what it happens to: both come from one seed.
const EVENTS_SEED: u64 = 0x0DD5_EED5;

/// What a world draws its messages' times from, in milliseconds.
const QUICK_MS: u64 = 12;
const SLOW_MS: u64 = 260;
const VERY_SLOW_MS: u64 = 2_600;

pub struct World<'a> {
    pub now: u64,
    pub scene: &'a Scene,
    pub nodes: Vec<Node>,
    /// Who owns each partition, and under which epoch.
    pub reigns: Vec<(usize, Reign)>,
    /// Who asks: those of the scene, and then those who come back to what they asked.
    pub callers: Vec<Caller>,
    /// By caller.
    pub errands: Vec<Option<Errand>>,
    pub ledger: Ledger,
    book: Pages<'a>,
    bug: Bug,
    chance: Chance,
    events: Vec<Option<Event>>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    /// What happened, in words, where somebody wants to read it.
    pub story: Option<Vec<String>>,
}

/// Which asking of which caller.
#[derive(Clone, Copy, Debug)]
struct Place {
    caller: usize,
    group: usize,
}

#[derive(Clone, Debug)]
enum Event {
    Begin { caller: usize },
    Wake { place: Place },
    Ask { node: usize, place: Place, check: Check },
    Answer { place: Place, attempt: u8, epoch: Epoch, answer: Answer, entry: Option<usize> },
    Unreachable { place: Place, attempt: u8, delivery: Delivery },
    Cancel { node: usize, place: Place, id: CheckId, asker: Asker },
    Debt { node: usize, place: Place, id: CheckId, asker: Asker, legs: Vec<CheckLeg> },
    Trim { node: usize, place: Place, id: CheckId, asker: Asker, units: u64 },
    TakeOver { partition: usize },
    Learn { ingress: usize, partition: usize, route: Route },
    Stop { node: usize, partition: usize, epoch: Epoch },
}

impl<'a> World<'a> {
    pub fn new(seed: u64, scene: &'a Scene, budgets: &'a Budgets, bug: Bug) -> World<'a> {
        let reign = |partition| (first_owner(partition), Reign { partition, epoch: 1, taken_over: None });
        let mut world = World {
            now: 0,
            scene,
            nodes: (0..NODES).map(|node| Node::new(node, scene, bug)).collect(),
            reigns: (0..scene.partitions).map(reign).collect(),
            callers: scene.callers.clone(),
            errands: scene.callers.iter().map(|_| None).collect(),
            ledger: Ledger::default(),
            book: Pages::of(scene, budgets),
            bug,
            chance: Chance::new(seed ^ EVENTS_SEED),
            events: Vec::new(),
            queue: BinaryHeap::new(),
            story: None,
        };
        for (caller, who) in scene.callers.iter().enumerate() {
            world.at(who.at, Event::Begin { caller });
        }
        world.lose_an_owner();
        world
    }

    /// Lets everything happen, until all is quiet.
    pub fn run(&mut self) -> Result<(), Violation> {
        while let Some(Reverse((at, event))) = self.queue.pop() {
            self.now = at;
            let event = self.events[event].take().expect("an event happens once");
            if let Some(story) = &mut self.story {
                story.push(format!("{at:>6} ms  {event:?}"));
            }
            self.happen(event)?;
        }
        Ok(())
    }

    /// The partition that a reign is of.
    pub fn partition(&self, partition: usize) -> &Partition {
        &self.nodes[self.reigns[partition].0].partitions[partition]
    }

    pub fn book(&self) -> &Pages<'a> {
        &self.book
    }

    /// Gives all room back.
    pub fn clear(&mut self) {
        for partition in self.nodes.iter_mut().flat_map(|node| &mut node.partitions) {
            partition.deactivate(Epoch(u64::MAX), None, &self.book);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.queue.push(Reverse((at.max(self.now), self.events.len())));
        self.events.push(Some(event));
    }

    fn lose_an_owner(&mut self) {
        let Some(loss) = &self.scene.loss else { return };
        for partition in (0..self.scene.partitions).filter(|partition| first_owner(*partition) == loss.node) {
            let late = self.chance.between(0, 80);
            self.at(loss.at + LEASE_MS + late, Event::TakeOver { partition });
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Begin { caller } => self.begin(caller),
            Event::Wake { place } => self.wake(place),
            Event::Ask { node, place, check } => return self.ask(node, place, &check),
            Event::Answer { place, attempt, epoch, answer, entry } => {
                let now = self.clock_of(place);
                self.group(place).asking.handle_answer(attempt, epoch, answer, now);
                self.drain(place, entry);
            }
            Event::Unreachable { place, attempt, delivery } => {
                let now = self.clock_of(place);
                self.group(place).asking.handle_unreachable(attempt, delivery, now);
                self.drain(place, None);
            }
            Event::Cancel { node, place, id, asker } => return self.cancel(node, place, id, asker),
            Event::Debt { node, place, id, asker, legs } => return self.debt(node, place, (id, asker), &legs),
            Event::Trim { node, place, id, asker, units } => return self.trim(node, place, (id, asker), units),
            Event::TakeOver { partition } => self.take_over(partition),
            Event::Learn { ingress, partition, route } => self.learn(ingress, partition, route),
            Event::Stop { node, partition, epoch } => {
                self.nodes[node].partitions[partition].deactivate(epoch, None, &self.book);
            }
        }
        Ok(())
    }

    fn begin(&mut self, caller: usize) {
        let who = &self.callers[caller];
        // Whoever renews vouches that it holds. A release may be said again.
        let id = self.scene.questions[who.question].id;
        let may = match who.then {
            Some(Then::Renew { .. }) => self.ledger.believes_to_hold(id, true, self.now),
            Some(Then::Release) => self.ledger.believes_to_hold(id, false, self.now),
            Some(Then::Refund | Then::Settle { .. }) | None => true,
        };
        if !may {
            return;
        }
        let errand = Errand::new(self.scene, who, &self.nodes[who.ingress], self.now, self.bug);
        let groups = errand.groups.len();
        self.errands[caller] = Some(errand);
        for group in 0..groups {
            self.drain(Place { caller, group }, None);
        }
    }

    /// Whether a caller does what it may: whoever renews or releases vouches that it holds.
    fn may(&self, caller: usize, then: Then) -> bool {
        let errand = self.errands[caller].as_ref().expect("it was just told");
        let Some(told) = &errand.told else { return false };
        let slots = errand.legs.iter().zip(&told.said).filter(|(leg, _)| self.scene.limit_of(leg.key).counts_slots());
        match then {
            Then::Refund | Then::Settle { .. } => true,
            Then::Renew { .. } | Then::Release => {
                told.allowed
                    && slots.map(|(_, said)| said).all(|said| matches!(said, Said::Owner(said) if said.allowed))
            }
        }
    }

    fn wake(&mut self, place: Place) {
        let now = self.clock_of(place);
        let group = self.group(place);
        group.wake = None;
        if group.asking.poll_timeout().is_some_and(|at| at <= now) {
            group.asking.handle_timeout(now);
        }
        self.drain(place, None);
    }

    /// Carries out what an asking wants. `entry` is the decision that the last answer told of.
    fn drain(&mut self, place: Place, entry: Option<usize>) {
        let now = self.clock_of(place);
        let ingress = self.callers[place.caller].ingress;
        while let Some(step) = self.group(place).asking.poll_step() {
            match step {
                Step::Refresh => {
                    let partition = self.group(place).partition;
                    let route = self.nodes[ingress].routes[partition];
                    self.group(place).asking.handle_route(route, now);
                }
                Step::Send { attempt, owner, .. } => self.send(place, attempt, node_of(owner.session)),
                Step::Done(outcome) => {
                    let group = self.group(place);
                    (group.outcome, group.entry) = (Some(outcome), entry);
                    self.conclude(place.caller);
                }
            }
        }
        self.be_woken(place);
    }

    fn be_woken(&mut self, place: Place) {
        let boot = self.clock_of(place).as_nanos() - self.now * 1_000_000;
        let group = self.group(place);
        let at = group.asking.poll_timeout().map(|at| (at.as_nanos() - boot).div_ceil(1_000_000));
        if let Some(at) = at.filter(|at| group.wake != Some(*at)) {
            group.wake = Some(at);
            self.at(at, Event::Wake { place });
        }
    }

    fn send(&mut self, place: Place, attempt: u8, node: usize) {
        let check = Check { attempt, ..self.group(place).check.clone() };
        if self.nodes[node].is_dead(self.now) || self.chance.percent(self.scene.weather.lost) {
            return self.fail(place, attempt);
        }
        // What brings an attempt is a stream, so it comes once. Where it is looked up and always answered alike, it may as
        // well come twice.
        let alike = (check.attempt > 1 || check.indexed) && !is_hold(check.act);
        let doubled = alike && self.chance.percent(self.scene.weather.doubled);
        for _ in 0..=u64::from(doubled) {
            let delay = self.delay();
            self.at(self.now + delay, Event::Ask { node, place, check: check.clone() });
        }
    }

    /// A question that did not arrive: nobody says anything, or the connection breaks.
    fn fail(&mut self, place: Place, attempt: u8) {
        if self.chance.percent(50) {
            let delay = self.delay();
            self.at(self.now + delay, Event::Unreachable { place, attempt, delivery: Delivery::Lost });
        }
    }

    fn ask(&mut self, node: usize, place: Place, check: &Check) -> Result<(), Violation> {
        if self.nodes[node].is_dead(self.now) {
            return Ok(());
        }
        let partition = self.group(place).partition;
        let (clock, lease) = (self.nodes[node].clock(self.now), self.nodes[node].lease(self.now));
        let owner = &mut self.nodes[node].partitions[partition];
        let mut answers = Vec::with_capacity(1);
        owner.decide_batch(std::slice::from_ref(check), &self.book, clock, &lease, &mut answers);
        let (answer, epoch) = (answers.remove(0), owner.epoch());
        let reign = self.reign(partition, epoch);
        let entry = self.ledger.asked(self.scene, reign, check, &answer, self.now)?;
        if let Some(story) = &mut self.story {
            story.push(format!("           n{node} says {answer:?}"));
        }
        let doubled = self.chance.percent(self.scene.weather.doubled);
        for _ in 0..=u64::from(doubled) {
            if !self.chance.percent(self.scene.weather.lost) {
                let delay = self.delay();
                let (attempt, answer) = (check.attempt, answer.clone());
                self.at(self.now + delay, Event::Answer { place, attempt, epoch, answer, entry });
            }
        }
        Ok(())
    }

    fn conclude(&mut self, caller: usize) {
        let Some(errand) = self.errands[caller].as_mut().filter(|errand| errand.is_settled()) else { return };
        let node = &mut self.nodes[self.callers[caller].ingress];
        for Correction { group, after, unseen } in errand.conclude(self.scene, node, self.now, self.bug) {
            self.correct(Place { caller, group }, after, unseen);
        }
        self.come_back(caller);
    }

    /// Whoever was let pass comes back to what it asked, once for each thing it has in mind; of the others, a few do.
    fn come_back(&mut self, caller: usize) {
        let errand = self.errands[caller].as_ref().expect("it was just told");
        let allowed = errand.told.as_ref().is_some_and(|told| told.allowed);
        let who = self.callers[caller].clone();
        let came_before = self.callers.iter().any(|other| other.question == who.question && other.then.is_some());
        if errand.is_about_earlier || came_before || !(allowed || self.chance.percent(10)) {
            return;
        }
        for (after, then) in &self.scene.questions[who.question].then {
            if !self.may(caller, *then) {
                continue;
            }
            let number = self.callers.len();
            let (asker, ingress) = (Asker(1_000 + number as u64), self.chance.between(0, NODES as u64 - 1) as usize);
            let at = self.now + after;
            self.callers.push(Caller { then: Some(*then), asker, ingress, attempt: 1, at, ..who.clone() });
            self.errands.push(None);
            self.at(at, Event::Begin { caller: number });
        }
    }

    fn correct(&mut self, place: Place, after: After, legs: Vec<CheckLeg>) {
        let Some(owner) = self.group(place).asking.last_asked() else { return };
        let node = node_of(owner.session);
        let (id, asker) = (self.scene.questions[self.callers[place.caller].question].id, self.group(place).check.asker);
        let event = match after {
            After::Nothing => return,
            After::Trim(units) => Event::Trim { node, place, id, asker, units },
            After::Cancel => Event::Cancel { node, place, id, asker },
            After::Debt => Event::Debt { node, place, id, asker, legs },
        };
        let doubled = self.chance.percent(self.scene.weather.doubled);
        for _ in 0..=u64::from(doubled) {
            if !self.chance.percent(self.scene.weather.lost) {
                let delay = self.delay();
                self.at(self.now + delay, event.clone());
            }
        }
    }

    fn cancel(&mut self, node: usize, place: Place, id: CheckId, asker: Asker) -> Result<(), Violation> {
        let (now, partition) = (self.now, self.group(place).partition);
        if self.nodes[node].is_dead(now) {
            return Ok(());
        }
        let clock = self.nodes[node].clock(now);
        let owner = &mut self.nodes[node].partitions[partition];
        let (active, epoch) = (owner.is_active(), owner.epoch());
        let found = owner.cancel(id, asker, &self.book, clock);
        if !active {
            return Ok(());
        }
        self.group(place).cancel.arrived.push(now);
        let reign = self.reign(partition, epoch);
        self.ledger.cancelled(reign, id, asker, found, now)
    }

    fn debt(&mut self, node: usize, place: Place, name: (CheckId, Asker), legs: &[CheckLeg]) -> Result<(), Violation> {
        let (now, partition) = (self.now, self.group(place).partition);
        let clock = self.nodes[node].clock(now);
        let dead = self.nodes[node].is_dead(now);
        let owner = &mut self.nodes[node].partitions[partition];
        if dead || !owner.is_active() {
            return Ok(());
        }
        let (id, asker) = name;
        let booked = owner.debt(id, asker, legs, &self.book, clock);
        if self.bug == Bug::DebtBookedTwice {
            owner.debt(CheckId(id.0 | 1 << 99), asker, legs, &self.book, clock);
        }
        let epoch = owner.epoch();
        let reign = self.reign(partition, epoch);
        self.group(place).debt.arrived.push(now);
        self.ledger.debt(self.scene, reign, name, legs, booked, now)
    }

    fn trim(&mut self, node: usize, place: Place, name: (CheckId, Asker), units: u64) -> Result<(), Violation> {
        let (now, partition) = (self.now, self.group(place).partition);
        let (clock, dead) = (self.nodes[node].clock(now), self.nodes[node].is_dead(now));
        let owner = &mut self.nodes[node].partitions[partition];
        if dead || !owner.is_active() {
            return Ok(());
        }
        let cut = owner.trim(name.0, name.1, units, &self.book, clock);
        let epoch = owner.epoch();
        let reign = self.reign(partition, epoch);
        self.group(place).trim.arrived.push(now);
        self.ledger.trim(reign, name, units, cut, now)
    }

    fn take_over(&mut self, partition: usize) {
        let (before, reign) = self.reigns[partition];
        let heir = (before + self.chance.between(1, NODES as u64 - 1) as usize) % NODES;
        let epoch = Epoch(reign.epoch + 1);
        let at = self.nodes[heir].clock(self.now);
        let forgotten = self.bug == Bug::FloorForgotten;
        let floor = if forgotten { Floor::Fresh } else { Floor::FullAsOf { at, takeover_index: 20 } };
        self.nodes[heir].partitions[partition].activate(epoch, session(heir), floor);
        self.reigns[partition] = (heir, Reign { partition, epoch: epoch.0, taken_over: Some(self.now) });
        let route = Route { epoch, session: Some(session(heir)) };
        for ingress in 0..NODES {
            let delay = self.chance.between(0, 150);
            self.at(self.now + delay, Event::Learn { ingress, partition, route });
        }
        let delay = self.chance.between(0, 400);
        self.at(self.now + delay, Event::Stop { node: before, partition, epoch });
    }

    fn learn(&mut self, ingress: usize, partition: usize, route: Route) {
        self.nodes[ingress].routes[partition] = route;
        for caller in 0..self.errands.len() {
            if self.callers[caller].ingress != ingress {
                continue;
            }
            let groups = self.errands[caller].as_ref().map_or(0, |errand| errand.groups.len());
            for group in 0..groups {
                self.tell_route(Place { caller, group }, partition, route);
            }
        }
    }

    fn tell_route(&mut self, place: Place, partition: usize, route: Route) {
        let now = self.clock_of(place);
        let group = self.group(place);
        if group.partition == partition && group.outcome.is_none() {
            group.asking.handle_route(route, now);
            self.drain(place, None);
        }
    }

    fn reign(&self, partition: usize, epoch: Epoch) -> Reign {
        let (_, newest) = self.reigns[partition];
        if newest.epoch == epoch.0 { newest } else { Reign { partition, epoch: epoch.0, taken_over: None } }
    }

    fn group(&mut self, Place { caller, group }: Place) -> &mut Group {
        &mut self.errands[caller].as_mut().expect("what began can be spoken of").groups[group]
    }

    /// What the caller's ingress reads on its clock.
    fn clock_of(&self, Place { caller, .. }: Place) -> Moment {
        self.nodes[self.callers[caller].ingress].clock(self.now).moment
    }

    /// How long a message is on its way.
    fn delay(&mut self) -> u64 {
        let slow = self.scene.weather.slow;
        match self.chance.between(0, 99) {
            99 if self.scene.weather.forgetful => self.chance.between(0, VERY_SLOW_MS),
            luck if luck < slow => self.chance.between(0, SLOW_MS),
            _ => self.chance.between(0, QUICK_MS),
        }
    }
}
