//! Those who want something in the log: each hands its command to some node that is up, which proposes it at the leader as
//! real nodes do, and tries elsewhere until it hears that it was applied.

use control::Command;
use limits::Span;

use super::Fault;
use super::packet::{Entry, Input};
use super::play::{Happening, World};

/// How long an operator waits for an answer before it tries elsewhere.
const OPERATE_AGAIN: Span = Span::from_millis(700);

/// Somebody who wants a command applied, for as long as it takes.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    fault: usize,
    command: Entry,
    done: bool,
}

impl World<'_> {
    /// From now on somebody wants this command applied.
    pub(super) fn engage(&mut self, fault: usize, command: Command) {
        self.operators.push(Operator { fault, command: command.into(), done: false });
        self.operate(self.operators.len() - 1);
    }

    pub(super) fn operate(&mut self, operator: usize) {
        let Operator { command, done, .. } = self.operators[operator].clone();
        if done {
            return;
        }
        self.plan_after(OPERATE_AGAIN, Happening::Operate(operator));
        let up: Vec<u8> =
            (0..self.scenario.nodes).filter(|node| self.machines[usize::from(*node)].node.is_some()).collect();
        if !up.is_empty() {
            let machine = *self.chance.pick(&up);
            self.input(machine, Input::Operate(operator, command));
        }
    }

    /// What came of an operator's command at the node that it was handed to.
    pub(super) fn operated(&mut self, operator: usize, done: bool) {
        if let Some(operator) = self.operators.get_mut(operator).filter(|operator| done && !operator.done) {
            operator.done = true;
            let fault = operator.fault;
            self.mend(fault);
        }
    }

    /// Whether somebody is about to apply a policy.
    pub(super) fn is_applying_a_policy(&self) -> bool {
        let of_policy = |fault: usize| matches!(self.scenario.faults[fault].fault, Fault::Policy { .. });
        self.operators.iter().any(|operator| !operator.done && of_policy(operator.fault))
    }
}
