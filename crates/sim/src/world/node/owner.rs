//! The partitions of this process behind their gates, as `node::owner` has them: what is read inside a gate is read there,
//! and a thread that had to wait reads the clock again. Now and then one has to: before the gate, or on its way back.

use std::collections::BTreeSet;

use limits::{Book, Moment, Now, Span};
use ownership::kept::{Claim, FOUND_WITHIN, Keeper, Predecessor};
use ownership::{
    Answer, Bug, Cancelled, Check, CheckId, CheckLeg, Epoch, Floor, LeaseBound, Partition, SessionId, Unknown,
};
use ring::{PartitionCount, PartitionId};

use super::{Effect, Node};
use crate::world::packet::{Address, Asked, Call, Packet, Reply, Telling, Waited};
use crate::world::trace::{Decided, Event, LegSeen};

/// One thread in so many has to wait before a gate, and as many behind it.
const WAITS_ONE_IN: u64 = 40;

/// The longest of most such waits.
const WAIT_MILLIS: u64 = 30;

/// How a reign begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begins {
    /// With this known of what was used.
    With(Floor),
    /// With this, until the store has said what it has of whoever decided last.
    Claiming(Floor, Option<Predecessor>),
}

#[derive(Clone, Debug)]
pub(super) struct Owner {
    gates: Vec<Partition>,
    lease: LeaseBound,
    sealed: bool,
    /// Questions that were cancelled before they were decided: cancelled again, nothing of them is taken back.
    tombstones: BTreeSet<(PartitionId, CheckId)>,
}

impl Owner {
    pub(super) fn new(lease: LeaseBound) -> Owner {
        Owner { gates: Vec::new(), lease, sealed: false, tombstones: BTreeSet::new() }
    }

    pub(super) fn make(&mut self, partitions: PartitionCount) {
        self.gates = partitions.partitions().map(|_| Partition::vacant()).collect();
    }

    pub(super) fn lease(&self) -> LeaseBound {
        self.lease
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(super) fn gates(&self) -> usize {
        self.gates.len()
    }

    pub(super) fn gate(&self, partition: PartitionId) -> &Partition {
        &self.gates[usize::from(partition.0)]
    }

    pub(super) fn gate_mut(&mut self, partition: PartitionId) -> &mut Partition {
        &mut self.gates[usize::from(partition.0)]
    }

    pub(super) fn set_lease(&mut self, lease: LeaseBound) {
        self.lease = lease;
    }
}

impl Node {
    /// Sees to it that `session` reigns here at `epoch`: a reign of another session or epoch ends first, one that runs goes
    /// on, and where all was given up for good none begins. With a store, it is found out first what was used, `before` having
    /// been the last who decided, and checks wait.
    pub(super) fn reign(&mut self, partition: PartitionId, epoch: Epoch, session: SessionId, begins: Begins) {
        let gate = &self.owner.gates[usize::from(partition.0)];
        if self.owner.sealed || (gate.session() == Some(session) && gate.epoch() == epoch) {
            return;
        }
        if gate.is_active() {
            let known = gate.epoch();
            self.deactivate(partition, known, None);
        }
        let (gate, now) = (&mut self.owner.gates[usize::from(partition.0)], self.at.boot);
        let floor = match begins {
            Begins::With(floor) => {
                gate.activate(epoch, session, floor);
                floor
            }
            Begins::Claiming(floor, before) => {
                gate.activate_waiting(epoch, session, floor, now.saturating_add(FOUND_WITHIN));
                let keeper = Keeper { epoch, session };
                self.want_claim(Claim { partition, keeper, before, since: now, again: false });
                floor
            }
        };
        let full_as_of = floor.as_of();
        self.trace(Event::Reigns { node: self.machine, partition, epoch, session, full_as_of });
    }

    /// Ends a reign, or takes note of somebody else's.
    pub(super) fn deactivate(&mut self, partition: PartitionId, epoch: Epoch, hint: Option<SessionId>) {
        let gate = &mut self.owner.gates[usize::from(partition.0)];
        let ended = gate.is_active().then(|| gate.epoch());
        gate.deactivate(epoch, hint, &*self.catalogue);
        if let Some(epoch) = ended.filter(|_| !gate.is_active()) {
            self.trace(Event::Reigned { node: self.machine, partition, epoch });
        }
    }

    /// Gives up for good all that this process owns, and whatever it may be appointed to from now on.
    pub(super) fn seal(&mut self) {
        self.owner.sealed = true;
        for number in 0..self.owner.gates.len() {
            let gate = &self.owner.gates[number];
            if gate.is_active() {
                let epoch = gate.epoch();
                self.deactivate(PartitionId(number as u16), epoch, None);
            }
        }
    }

    pub(super) fn take_check(&mut self, from: Address, call: Call, partition: PartitionId, check: Box<Check>) {
        self.approach(Asked::There(from, call), partition, check);
    }

    /// A thread reads the clock and comes to the gate. Either it enters at once, or it has to wait there.
    pub(super) fn approach(&mut self, asked: Asked, partition: PartitionId, check: Box<Check>) {
        let read = self.at.boot;
        if self.is_kept_waiting() {
            self.wait(Waited::Gate(read, asked, partition, check));
        } else {
            self.enter(read, asked, partition, &check);
        }
    }

    /// A thread goes on. One that waited at a gate reads the clock again: the reading that it came with could outlive the
    /// lease it is compared with.
    pub(super) fn waited(&mut self, waited: Waited) {
        match waited {
            Waited::Gate(before, asked, partition, check) => {
                let read = if Bug::ClockBeforeGate.is_here() { before } else { self.at.boot };
                self.enter(read, asked, partition, &check);
            }
            Waited::Back(asked, reply) => self.go_back(asked, reply),
        }
    }

    /// From now on no thread is kept waiting.
    pub(crate) fn be_calm(&mut self) {
        self.calm = true;
    }

    fn is_kept_waiting(&mut self) -> bool {
        !self.calm && self.chance.one_in(WAITS_ONE_IN)
    }

    fn wait(&mut self, waited: Waited) {
        self.effect(Effect::Count("threads kept waiting"));
        let span = Span::from_micros(self.chance.between(10, WAIT_MILLIS * 1_000));
        self.effect(Effect::Wait(span, waited));
    }

    fn enter(&mut self, read: Moment, asked: Asked, partition: PartitionId, check: &Check) {
        let reply = Box::new(self.decide(read, partition, check));
        if self.is_kept_waiting() {
            self.wait(Waited::Back(asked, reply));
        } else {
            self.go_back(asked, reply);
        }
    }

    fn go_back(&mut self, asked: Asked, reply: Box<Reply>) {
        match asked {
            Asked::Here(question, group, attempt) => self.heard(question, group, attempt, *reply),
            Asked::There(to, call) => self.effect(Effect::Back(to, Packet::Answer(call, reply))),
        }
    }

    fn decide(&mut self, read: Moment, partition: PartitionId, check: &Check) -> Reply {
        let now = self.now_at(read);
        let Some(gate) = self.owner.gates.get_mut(usize::from(partition.0)) else {
            let answer = Answer::NotOwner { epoch: Epoch(0), hint: None };
            return Reply { epoch: Epoch(0), answer, session: None, legs: Vec::new() };
        };
        let mut answers = Vec::with_capacity(1);
        gate.decide_batch(std::slice::from_ref(check), &*self.catalogue, now, &self.owner.lease, &mut answers);
        let (epoch, session, last) = (gate.epoch(), gate.session(), gate.last());
        let answer = answers.pop().expect("one answer for one check");
        let legs = self.witness(partition, check, &answer, (epoch, session, last));
        self.note_wants(partition);
        Reply { epoch, answer, session, legs }
    }

    /// Tells the trace of a decision, and hands out its legs.
    fn witness(
        &mut self,
        partition: PartitionId,
        check: &Check,
        answer: &Answer,
        (epoch, session, last): (Epoch, Option<SessionId>, Now),
    ) -> Vec<LegSeen> {
        let verdict = match answer {
            Answer::Decided(verdict) => verdict,
            Answer::NotOwner { .. } => return self.not_decided("answers: not the owner"),
            Answer::Unknown(Unknown::Loading) => return self.not_decided("answers: loading"),
            Answer::Unknown(Unknown::Allowance) => return self.not_decided("answers: allowance"),
            Answer::Unknown(_) => return self.not_decided("answers: unknown"),
            Answer::IdReused => return self.not_decided("answers: id reused"),
            Answer::StaleRevision { .. } => return self.not_decided("answers: stale revision"),
        };
        let seen = check.legs.iter().zip(&verdict.legs).map(|(leg, said)| self.seen(leg, said.allowed));
        let legs: Vec<LegSeen> = seen.flatten().collect();
        let decided = Decided {
            node: self.machine,
            partition,
            epoch,
            session: session.expect("who decides does so in a session's name"),
            clock: last.moment,
            wall: last.wall,
            id: check.id,
            asker: check.asker,
            attempt: check.attempt,
            revision: check.revision,
            replayed: verdict.replayed,
            allowed: verdict.allowed,
            recovering: verdict.recovering,
            legs: legs.clone(),
        };
        self.owner.tombstones.remove(&(partition, check.id));
        self.trace(Event::Decided(decided));
        legs
    }

    fn not_decided(&mut self, what: &'static str) -> Vec<LegSeen> {
        self.effect(Effect::Count(what));
        Vec::new()
    }

    /// A leg by the numbers that this node's book has for it.
    pub(super) fn seen(&self, leg: &CheckLeg, allowed: bool) -> Option<LegSeen> {
        let entry = self.catalogue.limit(leg.limit, leg.variant)?;
        let shape = *self.catalogue.shapes().get(entry.shape);
        Some(LegSeen { limit: leg.limit, key: leg.key, cost: leg.cost, allowed, shadow: leg.shadow, shape })
    }

    /// An owner is told what became of a check.
    pub(super) fn be_told(&mut self, partition: PartitionId, told: Telling) {
        let now = self.now();
        let Some(gate) = self.owner.gates.get_mut(usize::from(partition.0)) else { return };
        let (node, epoch) = (self.machine, gate.epoch());
        match told {
            Telling::Cancel(id, asker) => match gate.cancel(id, asker, &*self.catalogue, now) {
                Cancelled::Undone if self.owner.tombstones.contains(&(partition, id)) => {}
                Cancelled::Undone => self.trace(Event::Undone { node, partition, epoch, id, asker }),
                Cancelled::Tombstone => {
                    self.owner.tombstones.insert((partition, id));
                    let clock = self.owner.gates[usize::from(partition.0)].last().moment;
                    self.trace(Event::Buried { node, partition, epoch, id, clock });
                    self.effect(Effect::Count("cancels before their check"));
                }
                Cancelled::Settled | Cancelled::Stands | Cancelled::NotOwner => {}
            },
            Telling::Trim(id, asker, units) => {
                if gate.trim(id, asker, units, &*self.catalogue, now) {
                    self.effect(Effect::Count("grants trimmed"));
                }
            }
            Telling::Debt(id, asker, legs) => {
                if gate.debt(id, asker, &legs, &*self.catalogue, now) {
                    let last = gate.last();
                    let legs = legs.iter().filter_map(|leg| self.seen(leg, true)).collect();
                    let (clock, wall) = (last.moment, last.wall);
                    self.trace(Event::Booked { node, partition, epoch, id, asker, clock, wall, legs });
                }
            }
        }
    }

    /// What this process decides for, and whether its lease covers an answer given now.
    pub(crate) fn reigns(&self) -> impl Iterator<Item = (PartitionId, Epoch, SessionId)> {
        let gates = (0..=u16::MAX).map(PartitionId).zip(&self.owner.gates);
        gates.filter_map(|(partition, gate)| Some((partition, gate.epoch(), gate.session()?)))
    }

    /// Until when this process may decide, on its machine's clock.
    pub(crate) fn lease(&self) -> LeaseBound {
        self.owner.lease()
    }
}
