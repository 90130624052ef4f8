//! Callers: each puts its question to a node through the node's own ingress, to a second one when the first takes long, and
//! writes down what it was told and when, by the simulation's time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use limits::{Moment, Span};
use node::{AskedId, Decision, Node, Question, Wanted};
use policy::Attributes;
use ringfence_node as node;
use sim::{Answer, Outcome, Row};

use crate::machine::{name, now};
use crate::plan::Ask;
use crate::story::Story;

/// One limit for every failure mode; `wide` is for those who only want to see that somebody decides. Those that fail closed
/// have periods above a lease, so that a successor that forgot what was used would let too much through.
pub const POLICY: &str = "
ringfence: 1
domain: default
limits:
  bucket: { rate: 9/6s burst 9, key: [client], fail: closed }
  log: { rate: 9/6s, algorithm: sliding-log, key: [client], fail: closed }
  open: { rate: 5/2s, algorithm: sliding-log, key: [client], fail: open }
  share: { rate: 30/2s burst 30, key: [client], fail: { emergency: 30%, reserved: true } }
  wide: { rate: 1000/s, key: [client], fail: closed }
rules:
  - { name: bucket, match: { kind: bucket }, limits: [bucket] }
  - { name: log, match: { kind: log }, limits: [log] }
  - { name: open, match: { kind: open }, limits: [open] }
  - { name: share, match: { kind: share }, limits: [share] }
  - { name: wide, match: { kind: wide }, limits: [wide] }
";

/// All who ask, on every machine. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Callers {
    asks: Rc<RefCell<Vec<Ask>>>,
    rows: Rc<RefCell<BTreeMap<u128, Row>>>,
    story: Story,
}

impl Callers {
    /// Callers with these questions.
    pub fn new(asks: Vec<Ask>, story: Story) -> Callers {
        Callers { asks: Rc::new(RefCell::new(asks)), rows: Rc::default(), story }
    }

    /// What they wrote down, by the time they asked.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> = self.rows.borrow().values().cloned().collect();
        rows.sort_by_key(|row| row.invoked);
        rows
    }

    /// The question is on its way to `node`; how long its caller waits still, unless it has its answer already.
    fn put(&self, ask: &Ask, node: usize, now: Duration) -> Option<(u8, Duration)> {
        let mut rows = self.rows.borrow_mut();
        let row = rows.entry(ask.id).or_insert_with(|| Row {
            id: ask.id,
            limit: ask.limit.into(),
            key: ask.key.as_str().into(),
            cost: ask.cost,
            ingress: name(node).into(),
            attempts: 0,
            invoked: moment(now),
            returned: moment(now + ask.budget),
            deadline: ask.budget.into(),
            outcome: Outcome::Silent("nothing came back".to_owned()),
        });
        let left = row.returned.since(moment(now));
        if row.answer().is_some() || left < Span::from_millis(1) {
            return None;
        }
        row.attempts += 1;
        row.ingress = name(node).into();
        Some((u8::try_from(row.attempts).unwrap_or(u8::MAX), left.into()))
    }

    /// The first answer is the one that its caller goes by.
    fn hear(&self, ask: &Ask, node: usize, outcome: Outcome, now: Duration) {
        let mut rows = self.rows.borrow_mut();
        let row = rows.get_mut(&ask.id).expect("it was put");
        let said = match &outcome {
            Outcome::Answered(Answer { allowed, reason, source, .. }) => format!("{allowed} {reason} {source}"),
            Outcome::Silent(why) => why.clone(),
        };
        let late = row.answer().is_some();
        self.story.tell(now, format_args!("{} asked {} for {}: {said}", ask.key, name(node), ask.limit));
        if !late {
            row.ingress = name(node).into();
            row.returned = moment(now);
            row.outcome = outcome;
        }
    }
}

/// A time of the simulation as the judges read it.
pub fn moment(time: Duration) -> Moment {
    Moment::ZERO.saturating_add(Span::from(time))
}

/// Lets those in who ask this node, for as long as anybody will; `placed` is when the first placement was.
pub async fn open_door(node: Arc<Node>, number: usize, callers: &Callers, placed: Duration) {
    let mut mine: Vec<(Duration, Ask)> = Vec::new();
    for ask in callers.asks.borrow().iter() {
        let first = (ask.node == number).then_some(ask.at);
        let second = ask.again.filter(|(other, _)| *other == number).map(|(_, after)| ask.at + after);
        mine.extend(first.into_iter().chain(second).map(|at| (placed + at, ask.clone())));
    }
    mine.sort_by_key(|(at, ask)| (*at, ask.id));
    for (at, ask) in mine {
        // Who came while this process was not there found nobody.
        let Some(wait) = at.checked_sub(now()) else { continue };
        tokio::time::sleep(wait).await;
        tokio::task::spawn_local(put(Arc::clone(&node), number, ask, callers.clone()));
    }
}

async fn put(node: Arc<Node>, number: usize, ask: Ask, callers: Callers) {
    let Some((attempt, left)) = callers.put(&ask, number, now()) else { return };
    let question = Question {
        domain: "default",
        attributes: Attributes::new([("kind", ask.limit), ("client", ask.key.as_str())]).unwrap(),
        wanted: Wanted::Spend,
        cost: ask.cost,
        brought: &[],
        limit: None,
        id: AskedId::Binary { id: ask.id, attempt },
        budget: left.into(),
    };
    let answer = node.check(&[question]).await.decisions.remove(0).0;
    let outcome = answer.map_or_else(|why| Outcome::Silent(why.to_string()), |decision| answered(&node, &decision));
    callers.hear(&ask, number, outcome, now());
}

fn answered(node: &Node, decision: &Decision) -> Outcome {
    let leg = decision.named_leg().or(decision.legs.first());
    let source = leg.map_or("policy", |leg| leg.source.as_str());
    Outcome::Answered(Answer {
        allowed: decision.allowed,
        reason: decision.reason.as_str().parse().unwrap(),
        source: source.parse().unwrap(),
        degraded: decision.is_degraded(),
        replayed: decision.replayed,
        remaining: None,
        owner: leg.and_then(|leg| leg.owner).and_then(|owner| node.name_of(owner)).map(Into::into),
        epoch: leg.and_then(|leg| leg.epoch).map(|epoch| epoch.0),
        revision: decision.revision,
    })
}
