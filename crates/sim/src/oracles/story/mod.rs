//! The trace, put in order once for all judges: reigns with what was done in them, the lives of sessions, who ran where, and
//! what was broken when. Nothing is judged here.

mod account;
mod clock;
mod cluster_time;
mod extra;
mod lease;
mod reign;
mod well;

use std::collections::BTreeMap;

use limits::{Fingerprint, LimitId, Moment};
use ownership::{Epoch, Recovered, SessionId};
use ring::PartitionId;

use crate::world::trace::{Decided, Entry, Event, LegSeen, Told};
use crate::world::{Course, Fault, Scenario};

pub(super) use account::{Account, Touch, What};
pub(super) use clock::PartitionClock;
pub(super) use lease::Life;
pub(super) use reign::{Charge, REMEMBERED_AT_LEAST, Reign};
pub(super) use well::{Process, Spell};

/// A key under a limit.
pub(super) type Key = (LimitId, Fingerprint);

/// A trace in order.
pub(super) struct Story<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) trace: &'a [Entry],
    courses: &'a [Course],
    /// In the order in which they began.
    pub(super) reigns: Vec<Reign<'a>>,
    /// The reigns of each partition by epoch, copies after their originals.
    pub(super) chains: BTreeMap<PartitionId, Vec<usize>>,
    pub(super) clocks: BTreeMap<PartitionId, PartitionClock>,
    pub(super) accounts: BTreeMap<Key, Account>,
    pub(super) lives: BTreeMap<SessionId, Life>,
    pub(super) appointed: BTreeMap<(PartitionId, Epoch), (Moment, SessionId)>,
    pub(super) told: Vec<(Moment, &'a Told)>,
    pub(super) processes: BTreeMap<u8, Vec<Process>>,
    pub(super) spells: Vec<Spell>,
    /// Copies, with their originals and the moment.
    pub(super) copies: Vec<(u8, u8, Moment)>,
    pub(super) leads: Vec<(Moment, u8, u64)>,
    pub(super) healed: Option<Moment>,
    /// When a process first answered anybody, by node and nonce.
    ready: BTreeMap<(u8, u64), Moment>,
}

impl<'a> Story<'a> {
    /// Puts a trace in order.
    pub(super) fn read(scenario: &'a Scenario, trace: &'a [Entry], courses: &'a [Course]) -> Story<'a> {
        let mut story = Story {
            scenario,
            trace,
            courses,
            reigns: Vec::new(),
            chains: BTreeMap::new(),
            clocks: BTreeMap::new(),
            accounts: BTreeMap::new(),
            lives: BTreeMap::new(),
            appointed: BTreeMap::new(),
            told: Vec::new(),
            processes: BTreeMap::new(),
            spells: Vec::new(),
            copies: Vec::new(),
            leads: Vec::new(),
            healed: None,
            ready: BTreeMap::new(),
        };
        let mut ruling = BTreeMap::new();
        for (place, entry) in trace.iter().enumerate() {
            story.take_note(place, entry, &mut ruling);
        }
        story.chain_up();
        story
    }

    /// The course of a node's clock.
    pub(super) fn course(&self, node: u8) -> &'a Course {
        &self.courses[usize::from(node)]
    }

    /// All courses, by node.
    pub(super) fn courses(&self) -> &'a [Course] {
        self.courses
    }

    /// The last moment of the story.
    pub(super) fn end(&self) -> Moment {
        self.trace.last().map_or(Moment::ZERO, |entry| entry.at)
    }

    /// Whether a node ran one process all the while.
    pub(super) fn was_up(&self, node: u8, from: Moment, until: Moment) -> bool {
        let processes = self.processes.get(&node).into_iter().flatten();
        let through = |process: &Process| process.started <= from && process.died.is_none_or(|died| died > until);
        processes.into_iter().any(through)
    }

    /// Whether the process at a node had given an answer by then: one that has just started knows no policy, and says so.
    pub(super) fn is_ready(&self, node: u8, at: Moment) -> bool {
        let processes = self.processes.get(&node).into_iter().flatten();
        let Some(process) = processes.rev().find(|process| process.started <= at) else { return false };
        let answered = self.ready.get(&(node, process.nonce)).copied();
        answered.is_some_and(|answered| answered <= at)
    }

    /// Whether a copy answered under a node's address too.
    pub(super) fn had_a_copy(&self, node: u8, from: Moment, until: Moment) -> bool {
        let lived = |copy: u8| {
            let processes = self.processes.get(&copy).into_iter().flatten();
            processes.into_iter().any(|process| process.died.is_none_or(|died| died >= from))
        };
        self.copies.iter().any(|(copy, original, at)| *original == node && *at <= until && lived(*copy))
    }

    /// The node whose address a machine answers under: its own, or that of which it is a copy.
    pub(super) fn original(&self, machine: u8) -> u8 {
        self.copies.iter().find(|(copy, _, _)| *copy == machine).map_or(machine, |(_, original, _)| *original)
    }

    /// What broke.
    pub(super) fn fault(&self, spell: &Spell) -> Option<&'a Fault> {
        self.scenario.faults.get(spell.fault).map(|planned| &planned.fault)
    }

    fn take_note(&mut self, place: usize, entry: &'a Entry, ruling: &mut Ruling) {
        let at = entry.at;
        match &entry.event {
            Event::Broke { fault, nodes } => {
                self.spells.push(Spell { fault: *fault, nodes: *nodes, began: at, ended: None });
            }
            Event::Mended { fault } => {
                let spell = self.spells.iter_mut().rev().find(|spell| spell.fault == *fault && spell.ended.is_none());
                spell.into_iter().for_each(|spell| spell.ended = Some(at));
            }
            Event::Healed => self.healed(at),
            Event::Started { node, nonce } => self.started(*node, *nonce, at),
            Event::Died { node } => self.died(*node, at, ruling),
            Event::Cloned { node, copy } => self.copied(*node, *copy, at, ruling),
            Event::Leads { node, term } => self.leads.push((at, *node, *term)),
            Event::Appointed { partition, epoch, session, .. } => {
                self.appointed.entry((*partition, *epoch)).or_insert((at, *session));
            }
            Event::Granted { node, session, deadline, .. } => {
                self.lives.entry(*session).or_default().granted.push((*node, at, *deadline));
            }
            Event::Extended { node, session, sent, end, .. } => {
                let life = self.lives.entry(*session).or_default();
                life.extend(lease::Extension { node: *node, at, sent: *sent, end: *end });
            }
            Event::Ended { session, ending, .. } => {
                self.lives.entry(*session).or_default().ended.get_or_insert((at, *ending));
            }
            Event::Reigns { .. }
            | Event::Reigned { .. }
            | Event::Recovered { .. }
            | Event::Decided(_)
            | Event::Undone { .. }
            | Event::Buried { .. }
            | Event::Booked { .. } => self.take_note_of_reign(place, entry, ruling),
            Event::Told(told) => self.told(told, at),
            Event::Committed { .. }
            | Event::Lapsed { .. }
            | Event::Corrected { .. }
            | Event::Acted { .. }
            | Event::Lent { .. }
            | Event::Counts { .. }
            | Event::Claimed { .. }
            | Event::Kept { .. }
            | Event::Flushed { .. }
            | Event::Vouched { .. }
            | Event::TookIn { .. }
            | Event::Note(_) => {}
        }
    }

    fn take_note_of_reign(&mut self, place: usize, entry: &'a Entry, ruling: &mut Ruling) {
        let at = entry.at;
        match &entry.event {
            Event::Reigns { node, partition, epoch, session, full_as_of } => {
                let mut reign = Reign::begun(*node, (*partition, *epoch, *session), at, *full_as_of);
                let beside = |other: &Reign<'_>| {
                    let same = (other.partition, other.epoch, other.session) == (*partition, *epoch, *session);
                    same && other.node != *node && self.original(other.node) == self.original(*node)
                };
                reign.beside = self.reigns.iter().position(beside);
                ruling.insert((*node, *partition, *epoch), self.reigns.len());
                self.reigns.push(reign);
            }
            Event::Reigned { node, partition, epoch } => {
                if let Some(reign) = ruling.get(&(*node, *partition, *epoch)) {
                    self.reigns[*reign].ended.get_or_insert(at);
                }
            }
            Event::Recovered { node, partition, epoch, recovered } => {
                self.recovered(ruling.get(&(*node, *partition, *epoch)), at, *recovered);
            }
            Event::Decided(decided) => self.decided(place, at, decided, ruling),
            Event::Undone { node, partition, epoch, id, asker } => {
                if let Some(&reign) = ruling.get(&(*node, *partition, *epoch)) {
                    let charge = self.reigns[reign].undo(at, *id, *asker);
                    self.off_the_account(reign, charge, at);
                }
            }
            Event::Buried { node, partition, epoch, id, clock } => {
                if let Some(&reign) = ruling.get(&(*node, *partition, *epoch)) {
                    self.reigns[reign].buried.insert(*id, *clock);
                }
            }
            Event::Booked { node, partition, epoch, id, clock, wall, legs, .. } => {
                if let Some(&reign) = ruling.get(&(*node, *partition, *epoch)) {
                    let charge = self.reigns[reign].book(at, *clock, *id);
                    self.off_the_account(reign, charge, at);
                    let (clock, wall) = (*clock, *wall);
                    for leg in legs {
                        let (cost, shape, what) = (leg.cost, leg.shape, What::Owed);
                        self.touch(leg, Touch { reign, at, clock, wall, cost, shape, what });
                    }
                }
            }
            Event::Broke { .. }
            | Event::Mended { .. }
            | Event::Healed
            | Event::Started { .. }
            | Event::Died { .. }
            | Event::Cloned { .. }
            | Event::Leads { .. }
            | Event::Committed { .. }
            | Event::Appointed { .. }
            | Event::Granted { .. }
            | Event::Extended { .. }
            | Event::Lapsed { .. }
            | Event::Ended { .. }
            | Event::Corrected { .. }
            | Event::Acted { .. }
            | Event::Lent { .. }
            | Event::Counts { .. }
            | Event::Claimed { .. }
            | Event::Kept { .. }
            | Event::Flushed { .. }
            | Event::Vouched { .. }
            | Event::TookIn { .. }
            | Event::Told(_)
            | Event::Note(_) => {}
        }
    }

    fn recovered(&mut self, reign: Option<&usize>, at: Moment, recovered: Recovered) {
        if let Some(&reign) = reign {
            self.reigns[reign].recovered = Some((at, recovered));
        }
    }

    fn started(&mut self, node: u8, nonce: u64, at: Moment) {
        self.is_back(node, at);
        self.processes.entry(node).or_default().push(Process { nonce, started: at, died: None });
    }

    fn told(&mut self, told: &'a Told, at: Moment) {
        self.told.push((at, told));
        let process = self.processes.get(&told.node).and_then(|processes| processes.last());
        if let Some(process) = process.filter(|_| told.decision.is_some()) {
            self.ready.entry((told.node, process.nonce)).or_insert(at);
        }
    }

    /// Whoever was down, for whatever reason, is so no more.
    fn is_back(&mut self, node: u8, at: Moment) {
        for spell in 0..self.spells.len() {
            let Spell { ended, .. } = self.spells[spell];
            let takes_down = matches!(self.fault(&self.spells[spell]), Some(Fault::Crash { .. } | Fault::Leave { .. }));
            if takes_down && ended.is_none() && self.spells[spell].befell(node) {
                self.spells[spell].ended = Some(at);
            }
        }
    }

    fn healed(&mut self, at: Moment) {
        self.healed = self.healed.or(Some(at));
        self.spells.iter_mut().for_each(|spell| spell.ended = spell.ended.or(Some(at)));
    }

    fn died(&mut self, node: u8, at: Moment, ruling: &Ruling) {
        let process = self.processes.get_mut(&node).and_then(|processes| processes.last_mut());
        process.into_iter().for_each(|process| process.died = process.died.or(Some(at)));
        for reign in of_node(ruling, node) {
            self.reigns[reign].ended.get_or_insert(at);
        }
    }

    /// The copy goes on with everything that its original has.
    fn copied(&mut self, node: u8, copy: u8, at: Moment, ruling: &mut Ruling) {
        self.copies.push((copy, node, at));
        let running = self.processes.get(&node).and_then(|processes| processes.last()).copied();
        self.processes.entry(copy).or_default().extend(running);
        for life in self.lives.values_mut() {
            life.copy(node, copy, at);
        }
        for original in of_node(ruling, node) {
            let Reign { partition, epoch, session, full_as_of, ended, .. } = self.reigns[original];
            if ended.is_none() {
                let reign = Reign::begun(copy, (partition, epoch, session), at, full_as_of);
                ruling.insert((copy, partition, epoch), self.reigns.len());
                self.reigns.push(Reign { copy_of: Some(original), ..reign });
            }
        }
    }

    fn decided(&mut self, place: usize, at: Moment, decided: &'a Decided, ruling: &mut Ruling) {
        let whose = (decided.node, decided.partition, decided.epoch);
        let reign = *ruling.entry(whose).or_insert_with(|| {
            let told = (decided.partition, decided.epoch, decided.session);
            self.reigns.push(Reign { announced: false, ..Reign::begun(decided.node, told, at, None) });
            self.reigns.len() - 1
        });
        let charge = self.reigns[reign].decide(place, at, decided);
        if decided.replayed {
            return;
        }
        let alone = decided.legs.iter().filter(|leg| !leg.allowed && !leg.shadow).count() == 1;
        for leg in &decided.legs {
            let what = match charge {
                Some(charge) if leg.allowed && leg.cost > 0 => What::Charged(charge),
                None if !leg.allowed && !leg.shadow => What::Refused { recovering: decided.recovering, alone },
                Some(_) | None => continue,
            };
            let Decided { clock, wall, .. } = *decided;
            self.touch(leg, Touch { reign, at, clock, wall, cost: leg.cost, shape: leg.shape, what });
        }
    }

    fn off_the_account(&mut self, reign: usize, charge: Option<usize>, at: Moment) {
        let Some(charge) = charge else { return };
        let decided = self.reigns[reign].charges[charge].decided;
        for leg in decided.legs.iter().filter(|leg| leg.allowed && leg.cost > 0) {
            let Decided { clock, wall, .. } = *decided;
            let what = What::Undone(charge);
            self.touch(leg, Touch { reign, at, clock, wall, cost: leg.cost, shape: leg.shape, what });
        }
    }

    fn touch(&mut self, leg: &LegSeen, touch: Touch) {
        let partition = self.reigns[touch.reign].partition;
        let account = self.accounts.entry((leg.limit, leg.key));
        account.or_insert_with(|| Account::new(partition)).touch(touch);
    }

    fn chain_up(&mut self) {
        for (number, reign) in self.reigns.iter().enumerate() {
            self.chains.entry(reign.partition).or_default().push(number);
        }
        for (partition, chain) in &mut self.chains {
            chain.sort_by_key(|number| (self.reigns[*number].epoch, self.reigns[*number].is_beside(), *number));
            self.clocks.insert(*partition, PartitionClock::new(chain, &self.reigns, self.courses));
        }
    }
}

/// Which reign a node has where under which epoch.
type Ruling = BTreeMap<(u8, PartitionId, Epoch), usize>;

fn of_node(ruling: &Ruling, node: u8) -> Vec<usize> {
    ruling.iter().filter(|((of, _, _), _)| *of == node).map(|(_, reign)| *reign).collect()
}
