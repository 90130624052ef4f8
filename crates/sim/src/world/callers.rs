//! Those who ask. A caller puts its question to a node, and where it hears nothing puts it to others under the same id, as
//! the scenario has it. It takes the first answer. After its last asking it waits for its budget and a little more, since
//! the node that it asked may use the budget to the end; then it gives up.

use limits::{Moment, Span};
use ownership::CheckId;

use super::making::Chance;
use super::packet::{Input, Put};
use super::play::{Happening, World};
use super::trace::{Decision, Event, Told};

/// How long beyond its budget a caller waits for the answer to its last asking.
pub const CALLER_SLACK: Span = Span::from_millis(100);

/// Chance for the ids of questions.
const IDS_STREAM: u64 = 0x6964;

/// One caller, with its one question.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    id: CheckId,
    /// Each asking: when, and which node.
    puts: Vec<(Moment, u8)>,
    done: bool,
}

impl Caller {
    pub(super) fn new(seed: u64, number: usize) -> Caller {
        let mut chance = Chance::of(seed, IDS_STREAM << 32 | number as u64);
        let id = CheckId(u128::from(chance.next()) << 64 | u128::from(chance.next()));
        Caller { id, puts: Vec::new(), done: false }
    }
}

impl World<'_> {
    pub(super) fn put(&mut self, number: usize, nth: u8) {
        if nth == 0 {
            self.next_ask = number + 1;
        }
        let (now, ask) = (self.now, &self.scenario.asks[number]);
        let caller = &mut self.callers[number];
        if caller.done {
            return;
        }
        let node = nth.checked_sub(1).map_or(ask.node, |again| ask.again[usize::from(again)].1);
        caller.puts.push((now, node));
        let attempt = if ask.own_id { 1 } else { nth + 1 };
        let put = Put { ask: number, nth, id: caller.id, attempt, budget: ask.budget };
        match ask.again.get(usize::from(nth)) {
            Some((after, _)) => self.plan_after(*after, Happening::Put(number, nth + 1)),
            None => self.plan_after(ask.budget.saturating_add(CALLER_SLACK), Happening::GiveUp(number)),
        }
        match self.behind(node) {
            Some(machine) => self.input(machine, Input::Put(put)),
            None => self.count("callers turned away"),
        }
    }

    pub(super) fn told(&mut self, machine: u8, put: Put, decision: Option<Decision>) {
        let Some(decision) = decision else { return self.count("questions not put") };
        let (now, node) = (self.now, self.machine(machine).node_number);
        let caller = &mut self.callers[put.ask];
        if caller.done {
            return self.count("answers too late for their caller");
        }
        caller.done = true;
        let (invoked, id) = (caller.puts[0].0, caller.id);
        let asked = caller.puts[usize::from(put.nth)].0;
        let told = Told { ask: put.ask, id, node, invoked, put: asked, returned: now, decision: Some(decision) };
        self.trace(Event::Told(told));
    }

    pub(super) fn give_up(&mut self, number: usize) {
        let now = self.now;
        let caller = &mut self.callers[number];
        if caller.done {
            return;
        }
        caller.done = true;
        let Some((&(invoked, _), &(put, node))) = caller.puts.first().zip(caller.puts.last()) else { return };
        let told = Told { ask: number, id: caller.id, node, invoked, put, returned: now, decision: None };
        self.trace(Event::Told(told));
    }

    /// The story ends: whoever still waits has heard nothing.
    pub(super) fn give_everybody_up(&mut self) {
        (0..self.callers.len()).for_each(|caller| self.give_up(caller));
    }
}
