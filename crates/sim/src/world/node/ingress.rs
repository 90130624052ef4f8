//! The path of a question from its caller to its decision, as `node::ingress` goes it: match the policy, decide at once what
//! is owned here, ask the owners of the rest, and conclude. The rules of asking and concluding are machines of `ownership`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use control::Genesis;
use limits::{Moment, Now, Span};
use ownership::ingress::{Asking, Delivery, Outcome, Patience, Step, WhyFailed};
use ownership::{Answer, Asker, Emergency, Owner as Appointed, Unknown};
use policy::Catalogue;

use super::calls::What;
use super::plan::{Group, Keys, Name, Plan, Question, Settled, plan};
use super::{Effect, Node};
use crate::history::Source;
use crate::world::packet::{Asked, Call, Packet, Put, Reply, Telling};
use crate::world::script::number_of;
use crate::world::trace::{Correction, Decision, Event};

/// How often a question is matched anew because an owner knew a newer policy than the one it was matched with.
const REMATCHES_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Ingress {
    keys: Option<Keys>,
    pub(super) emergency: Option<Emergency>,
    gave_up_lending: bool,
    nonce: u64,
    asked: u64,
    open: BTreeMap<u64, Question>,
    /// When a group of a question is to be woken; some of these are over.
    wakes: BinaryHeap<Reverse<(Moment, u64, u8)>>,
}

impl Ingress {
    /// An ingress that can decide nothing until it knows the keys.
    pub(super) fn new(nonce: u64) -> Ingress {
        Ingress {
            keys: None,
            emergency: None,
            gave_up_lending: false,
            nonce,
            asked: 0,
            open: BTreeMap::new(),
            wakes: BinaryHeap::new(),
        }
    }

    /// In a copy, questions that were matched with one catalogue go by its copy.
    pub(super) fn go_by(&mut self, before: &Arc<Catalogue>, copied: &Arc<Catalogue>) {
        for question in self.open.values_mut().filter(|question| Arc::ptr_eq(&question.matched, before)) {
            question.matched = Arc::clone(copied);
        }
    }

    pub(super) fn set_keys(&mut self, genesis: &Genesis) {
        self.keys = Some(Keys::of(genesis));
    }

    /// Tells among how many sessions emergency shares are divided. The limiter is made when that is first known, with
    /// everything used.
    pub(super) fn set_n_max(&mut self, n_max: u32, now: Now) {
        if self.gave_up_lending {
            return;
        }
        let emergency = self.emergency.get_or_insert_with(|| Emergency::new(now));
        emergency.handle_n_max(n_max, now.moment);
    }

    /// On a planned exit: nothing is lent any more, and no number is taken.
    pub(super) fn give_up_lending(&mut self) {
        (self.gave_up_lending, self.emergency) = (true, None);
    }

    /// The session ended: without one, emergency limits answer as closed.
    pub(super) fn end_emergency(&mut self) {
        self.emergency = None;
    }

    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        self.wakes.peek().map(|Reverse((at, _, _))| *at)
    }
}

impl Node {
    /// Whether any question is being asked here for the second time or later.
    pub(crate) fn is_retrying(&self) -> bool {
        let again = |group: &Group| group.settled.is_none() && group.sent.len() > 1;
        self.ingress.open.values().any(|question| question.put.nth > 0 || question.groups.iter().any(again))
    }

    /// A caller puts a question.
    pub(super) fn put(&mut self, put: Put) {
        self.ingress.asked += 1;
        let (number, asker) = (self.ingress.asked, Asker(self.ingress.nonce.wrapping_add(self.ingress.asked)));
        let (legs, groups) = match self.plan(&put, asker, put.attempt, put.budget) {
            Plan::Asks(legs, groups) => (legs, groups),
            Plan::NoLimit => {
                return self.effect(Effect::Tell(put, Some(Decision { allowed: true, legs: Vec::new() })));
            }
            Plan::NotPut => return self.effect(Effect::Tell(put, None)),
        };
        let (started, matched) = (self.at.boot, Arc::clone(&self.catalogue));
        let question = Question { put, asker, started, matched, rematches: 0, legs, groups };
        self.begin(number, question);
    }

    fn plan(&self, put: &Put, asker: Asker, attempt: u8, budget: Span) -> Plan {
        let Some(keys) = &self.ingress.keys else { return Plan::NotPut };
        let ask = &self.script.asks[put.ask];
        let name = Name { id: put.id, asker, attempt, indexed: ask.own_id, budget };
        plan(keys, &self.catalogue, self.script.domain(), ask, name, self.now().wall)
    }

    /// The partition that decides the first limit of an ask, as this node sees it.
    pub(crate) fn partition_of(&self, ask: usize) -> Option<ring::PartitionId> {
        let (id, budget) = (ownership::CheckId(0), Span::ZERO);
        match self.plan(&Put { ask, nth: 0, id, attempt: 1, budget }, Asker(0), 1, budget) {
            Plan::Asks(_, groups) => groups.first().map(|group| group.partition),
            Plan::NoLimit | Plan::NotPut => None,
        }
    }

    fn begin(&mut self, number: u64, mut question: Question) {
        let Some(d_max) = self.ingress.keys.as_ref().map(|keys| keys.d_max) else { return };
        for group in &mut question.groups {
            let patience = Patience { budget: group.budget, d_max };
            let route = self.routes.route_of(group.partition);
            group.asking = Some(Asking::new(group.check.id, group.check.attempt, patience, route, self.at.boot));
        }
        let groups = question.groups.len();
        self.ingress.open.insert(number, question);
        (0..groups).for_each(|group| self.drive(number, group as u8));
        self.conclude_if_settled(number);
    }

    fn group(&mut self, question: u64, group: u8) -> Option<&mut Group> {
        let group = self.ingress.open.get_mut(&question)?.groups.get_mut(usize::from(group))?;
        group.asking.is_some().then_some(group)
    }

    /// Carries out what an asking wants, until it wants nothing more.
    fn drive(&mut self, question: u64, number: u8) {
        let now = self.at.boot;
        loop {
            let Some(group) = self.group(question, number) else { return };
            let step = group.asking.as_mut().and_then(Asking::poll_step);
            match step {
                Some(Step::Refresh) => self.refresh(question, number),
                Some(Step::Send { attempt, owner, .. }) => self.send(question, number, attempt, owner),
                Some(Step::Done(outcome)) => return self.settle(question, number, outcome, false),
                None => break,
            }
        }
        let newest = Arc::clone(&self.catalogue);
        let Some(asked) = self.ingress.open.get_mut(&question) else { return };
        let behind = !Arc::ptr_eq(&newest, &asked.matched);
        let group = &mut asked.groups[usize::from(number)];
        if group.settled.is_none() && group.differs && behind {
            return self.settle(question, number, Outcome::Failed(WhyFailed::Unknown(Unknown::Policy)), true);
        }
        if let Some(at) = group.asking.as_ref().filter(|_| group.settled.is_none()).and_then(Asking::poll_timeout) {
            self.ingress.wakes.push(Reverse((at.max(now), question, number)));
        }
    }

    fn refresh(&mut self, question: u64, number: u8) {
        let (now, routes) = (self.at.boot, Arc::clone(&self.routes));
        if let Some(group) = self.group(question, number) {
            let route = routes.route_of(group.partition);
            group.asking.iter_mut().for_each(|asking| asking.handle_route(route, now));
        }
    }

    fn send(&mut self, question: u64, number: u8, attempt: u8, owner: Appointed) {
        let (now, me) = (self.at.boot, self.me);
        let Some(group) = self.group(question, number) else { return };
        group.sent.push((attempt, owner, now));
        group.check.attempt = attempt;
        let (partition, check) = (group.partition, Box::new(group.check.clone()));
        let (to, within) = (number_of(owner.session.node), group.budget);
        if to == me {
            return self.approach(Asked::Here(question, number, attempt), partition, check);
        }
        let call = self.call(to, What::Check(question, number, attempt), within.saturating_add(within));
        self.effect(Effect::Forward(to, Packet::Check(call, partition, check)));
    }

    pub(super) fn answered(&mut self, call: Call, reply: Reply) {
        if let Some(What::Check(question, group, attempt)) = self.return_of(call) {
            self.heard(question, group, attempt, reply);
        }
    }

    /// An answer came, from another node or from this one.
    pub(super) fn heard(&mut self, question: u64, number: u8, attempt: u8, reply: Reply) {
        // An answer of an epoch that is known to be over counts no more.
        self.refresh(question, number);
        let (now, machine) = (self.at.boot, self.machine);
        let known =
            self.group(question, number).map(|group| group.partition).map(|partition| self.route_of(partition).epoch);
        let (Some(known), Some(group)) = (known, self.group(question, number)) else { return };
        let Some((_, owner, sent)) = group.sent.iter().copied().find(|(sent, ..)| *sent == attempt) else { return };
        group.differs |= reply.answer == Answer::Unknown(Unknown::Policy);
        let decided = matches!(reply.answer, Answer::Decided(_));
        if decided {
            group.answered_by = Some((owner, reply.epoch));
            group.witness = reply.session.map(|session| (session, reply.legs));
        }
        let Some(asking) = group.asking.as_mut() else { return };
        let was_open = asking.poll_timeout().is_some();
        asking.handle_answer(attempt, reply.epoch, reply.answer, now);
        if decided && was_open && asking.poll_timeout().is_none() && now < asking.deadline() {
            let (id, asker, partition, epoch) = (group.check.id, group.check.asker, group.partition, reply.epoch);
            let age = now.since(sent);
            self.trace(Event::Acted { node: machine, asker, id, partition, epoch, known, age });
        }
        self.drive(question, number);
        self.conclude_if_settled(question);
    }

    pub(super) fn unreachable(&mut self, question: u64, number: u8, attempt: u8, delivery: Delivery) {
        let now = self.at.boot;
        if let Some(group) = self.group(question, number) {
            group.asking.iter_mut().for_each(|asking| asking.handle_unreachable(attempt, delivery, now));
            self.drive(question, number);
            self.conclude_if_settled(question);
        }
    }

    /// Wakes the questions whose time has come, and all of them where something changed that they may wait for.
    pub(super) fn go_on_asking(&mut self) -> bool {
        let now = self.at.boot;
        let mut busy = false;
        while let Some(&Reverse((at, question, number))) = self.ingress.wakes.peek() {
            if at > now {
                break;
            }
            self.ingress.wakes.pop();
            let Some(group) = self.group(question, number) else {
                // It may have waited for this node's log, and has no more time to.
                self.conclude_if_settled(question);
                continue;
            };
            let asking = group.asking.as_mut().filter(|asking| asking.poll_timeout() == Some(at));
            if let Some(asking) = asking {
                asking.handle_timeout(now);
                busy = true;
                self.drive(question, number);
                self.conclude_if_settled(question);
            }
        }
        if std::mem::take(&mut self.announced) {
            busy = true;
            let open: Vec<(u64, usize)> =
                self.ingress.open.iter().map(|(number, question)| (*number, question.groups.len())).collect();
            for (question, groups) in open {
                for group in 0..groups {
                    self.refresh(question, group as u8);
                    self.drive(question, group as u8);
                }
                self.conclude_if_settled(question);
            }
        }
        busy
    }

    fn settle(&mut self, question: u64, number: u8, outcome: Outcome, is_behind: bool) {
        let me = self.me;
        let Some(group) = self.group(question, number) else { return };
        let Some(asking) = group.asking.take() else { return };
        let decided = matches!(outcome, Outcome::Decided(_));
        let answered_by = group.answered_by.filter(|_| decided);
        let local = answered_by.is_some_and(|(owner, _)| number_of(owner.session.node) == me);
        group.is_behind = is_behind;
        group.settled = Some(Settled {
            outcome,
            owner: answered_by.map(|(owner, _)| owner).or_else(|| asking.last_asked()),
            epoch: answered_by.map(|(_, epoch)| epoch),
            source: if local { Source::Owner } else { Source::Forwarded },
            may_have_spent: asking.may_have_spent(),
        });
    }

    fn conclude_if_settled(&mut self, number: u64) {
        let settled = |question: &Question| question.groups.iter().all(|group| group.settled.is_some());
        if !self.ingress.open.get(&number).is_some_and(settled) || self.waits_for_log(number) {
            return;
        }
        let Some(question) = self.ingress.open.remove(&number) else { return };
        self.forget_calls(|what| matches!(what, What::Check(asked, ..) if *asked == number));
        match self.matched_anew(&question) {
            Some(next) => self.begin(number, next),
            None => self.conclude(question),
        }
    }

    /// Whether an owner goes by a revision that this node's log has not brought yet, and there is time to wait for it.
    fn waits_for_log(&mut self, number: u64) -> bool {
        let (now, known) = (self.at.boot, self.revision);
        let Some(question) = self.ingress.open.get(&number) else { return false };
        let deadline = question.started.saturating_add(question.put.budget);
        let waits = question.stale_for().is_some_and(|revision| revision > known)
            && question.rematches < REMATCHES_MAX
            && now < deadline;
        if waits {
            self.ingress.wakes.push(Reverse((deadline, number, 0)));
        }
        waits
    }

    /// The question under this node's newest policy, where an owner knew that and this node did not when it asked.
    fn matched_anew(&mut self, question: &Question) -> Option<Question> {
        let differs = question.stale_for().is_some() || question.groups.iter().any(|group| group.is_behind);
        let spent = self.at.boot.since(question.started);
        let enough = question.rematches == REMATCHES_MAX || spent >= question.put.budget;
        if !differs || enough || Arc::ptr_eq(&self.catalogue, &question.matched) {
            return None;
        }
        let attempt = question.groups.iter().map(|group| group.check.attempt).max().unwrap_or(1).saturating_add(1);
        let budget = question.put.budget.saturating_sub(spent);
        let Plan::Asks(legs, mut groups) = self.plan(&question.put, question.asker, attempt, budget) else {
            return None;
        };
        self.effect(Effect::Count("questions matched anew"));
        for group in &question.groups {
            let spent =
                group.settled.as_ref().filter(|settled| settled.may_have_spent).and_then(|settled| settled.owner);
            let Some(owner) = spent.or(group.spent_at) else { continue };
            let is_it = |next: &&mut Group| next.partition == group.partition && next.check.legs == group.check.legs;
            match groups.iter_mut().find(is_it) {
                Some(next) => next.spent_at = Some(owner),
                None => {
                    let told = Telling::Cancel(group.check.id, group.check.asker);
                    self.tell(group, owner, Correction::Cancel, told);
                }
            }
        }
        let (matched, rematches) = (Arc::clone(&self.catalogue), question.rematches + 1);
        Some(Question { matched, rematches, legs, groups, ..question.clone() })
    }
}

impl Question {
    /// The latest revision that an owner turned out to go by instead of the one that this was matched with.
    fn stale_for(&self) -> Option<u64> {
        let revision = |group: &Group| match group.settled.as_ref()?.outcome {
            Outcome::Stale { revision } => Some(revision),
            Outcome::Decided(_) | Outcome::TableFull { .. } | Outcome::IdReused | Outcome::Failed(_) => None,
        };
        self.groups.iter().filter_map(revision).max()
    }
}
