//! The path of a check from its front door to its decision: match the policy, find the partitions, decide at once what is
//! owned here, ask the owners of the rest, and combine what they say. The rules of asking and combining are machines of
//! `ownership`; this file feeds them.

mod conclude;
mod denials;
pub(crate) mod plan;
mod rematch;
mod unanswered;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use limits::{FingerprintKey, Moment, Span};
use ownership::Emergency;
use ownership::ingress::{Asking, Delivery, Outcome, Patience, Step, WhyFailed};
use ownership::{Answer, Check, Epoch, Owner as Appointed, Route, Unknown};
use parking_lot::Mutex;
use ring::{NodeId, PartitionCount, RoutingSeed};
use wire::forward::Forwarded;

use crate::clock;
use crate::decision::{Checked, Concluded, Question, Source};
use crate::ingress::denials::Remembered;
use crate::ingress::plan::{Group, Made, Plan};
use crate::ingress::unanswered::Unanswered;
use crate::owner::{Owner, Reading};
use crate::peer::{Links, Unreachable};
use crate::views::{Policies, Views};

/// What a check needs to know that genesis fixed.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Seeds the hash that routes.
    pub routing_seed: RoutingSeed,
    /// Keys the hash that identifies.
    pub fingerprint_key: FingerprintKey,
    /// How many partitions there are.
    pub partitions: PartitionCount,
    /// How old an owner's answer may be.
    pub d_max: Span,
}

/// The ingress of one node.
#[derive(Debug)]
pub struct Ingress {
    me: NodeId,
    owner: Arc<Owner>,
    views: Arc<Views>,
    links: Arc<Links>,
    keys: OnceLock<Keys>,
    made: Made,
    emergency: Mutex<Option<Emergency>>,
    /// Whether this node has said, or is about to, that it lends nothing any more.
    gave_up_lending: AtomicBool,
    denials: Remembered,
    cancelled: AtomicU64,
    unanswered: Unanswered,
}

/// What came of one group of legs.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    outcome: Outcome,
    /// Who decided, or was asked last.
    owner: Option<Appointed>,
    /// The epoch that the answer came from.
    epoch: Option<Epoch>,
    source: Source,
    revision: u64,
    may_have_spent: bool,
    /// When the question that was answered was sent.
    sent: Moment,
}

/// Everything that is decided here in one go, partition by partition; the buffers serve them all.
struct Turn {
    /// No later than any reading of the clock that a decision rests on, so that a pause anywhere in between shows.
    sent: Moment,
    d_max: Span,
    reading: Reading,
    checks: Vec<Check>,
    answers: Vec<Answer>,
}

/// A group on its way.
struct Under<'g> {
    group: &'g mut Group,
    asking: Asking,
    revision: u64,
    answered_by: Option<(Appointed, Epoch)>,
    /// When the last attempt was sent, or the one that was answered.
    sent: Moment,
    /// An owner did not know a limit: its policies and ours differ.
    differs: bool,
}

impl Ingress {
    /// An ingress that can decide nothing until it knows the keys.
    pub fn new(me: NodeId, owner: Arc<Owner>, views: Arc<Views>, links: Arc<Links>, nonce: u64) -> Ingress {
        Ingress {
            me,
            owner,
            views,
            links,
            keys: OnceLock::new(),
            made: Made::new(nonce),
            emergency: Mutex::new(None),
            gave_up_lending: AtomicBool::new(false),
            denials: Remembered::default(),
            cancelled: AtomicU64::new(0),
            unanswered: Unanswered::default(),
        }
    }

    /// Tells what genesis fixed; once.
    pub fn set_keys(&self, keys: Keys) {
        // Genesis never changes, so a second telling says the same.
        let _ = self.keys.set(keys);
    }

    /// The session ended: without one, emergency limits answer as closed.
    pub fn end_emergency(&self) {
        *self.emergency.lock() = None;
    }

    /// This node is about to say that its session is over: from now on it lends nothing, whatever it is told (S8).
    pub fn give_up_lending(&self) {
        let mut emergency = self.emergency.lock();
        self.gave_up_lending.store(true, Ordering::Relaxed);
        *emergency = None;
    }

    /// Tells among how many sessions emergency shares are divided. With the first number of a session its limiter begins,
    /// with everything used: what it could have given before, the others gave.
    pub fn set_n_max(&self, n_max: u32) {
        let mut emergency = self.emergency.lock();
        if !self.gave_up_lending.load(Ordering::Relaxed) {
            let now = self.owner.now();
            emergency.get_or_insert_with(|| Emergency::new(now)).handle_n_max(n_max, now.moment);
        }
    }

    /// Charges that were taken back because the check was refused elsewhere or answered too late.
    pub fn cancelled(&self) -> u64 {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Questions to owners that came to no decision, by the last that was heard.
    pub fn unanswered(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.unanswered.counts()
    }

    /// Denials that are remembered here.
    pub fn denials(&self) -> usize {
        self.denials.len()
    }

    /// Decides these questions, each for itself, and returns when the last is decided.
    pub async fn check(&self, questions: &[Question<'_>]) -> Checked {
        let policies = self.views.policies.load_full();
        let mut plans: Vec<_> = questions.iter().map(|question| self.plan(&policies, question)).collect();
        self.repeat_denials(&mut plans);
        self.decide_here(&mut plans);
        let settled = plans.iter().zip(questions);
        let mut decisions: Vec<_> =
            settled.map(|(plan, question)| self.conclude_if_settled(plan, question, &policies)).collect();
        let open = decisions.iter_mut().zip(&mut plans).zip(questions).filter(|((decision, _), _)| decision.is_none());
        let asked = open.map(async |((decision, plan), question)| {
            let (decided, under) = self.ask_until_settled(plan, question, &policies).await;
            let rematched = (!Arc::ptr_eq(&under, &policies)).then_some(under);
            *decision = Some((decided, rematched));
        });
        join_all(asked).await;
        Checked { decisions: decisions.into_iter().flatten().collect(), policies }
    }

    fn conclude_if_settled(&self, plan: &Plan, question: &Question<'_>, policies: &Policies) -> Option<Concluded> {
        match plan {
            Plan::Settled(decision) => Some((decision.clone(), None)),
            Plan::Asks(asks) => asks.is_decided().then(|| (self.conclude(asks, question, policies), None)),
        }
    }

    /// Decides every group whose owner is this node. All groups of one partition enter its gate together.
    fn decide_here(&self, plans: &mut [Plan]) {
        let Some(keys) = self.keys.get() else { return };
        let routes = self.views.routes.load();
        let mut here: Vec<&mut Group> = plans
            .iter_mut()
            .flat_map(Plan::groups)
            .filter(|group| group.settled.is_none())
            .filter(|group| routes.owner_of(group.partition).is_some_and(|owner| owner.session.node == self.me))
            .collect();
        here.sort_by_key(|group| group.partition);
        let mut turn = Turn {
            sent: clock::now(),
            d_max: keys.d_max,
            reading: Reading::new(),
            checks: Vec::new(),
            answers: Vec::new(),
        };
        for groups in here.chunk_by_mut(|one, other| one.partition == other.partition) {
            let route = routes.route_of(groups[0].partition);
            turn.decide(&self.owner, groups, route);
        }
    }

    /// Puts one group's question until it is settled, or an owner turns out to have other policies than `matched` and
    /// this node has them by now too; then true.
    async fn drive(&self, group: &mut Group, matched: &Arc<Policies>) -> bool {
        let (Some(keys), None) = (self.keys.get(), &group.settled) else { return false };
        let patience = Patience { budget: group.budget, d_max: keys.d_max };
        let asking = group.asking.take().map_or_else(
            || {
                let route = self.views.routes.load().route_of(group.partition);
                Asking::new(group.check.id, group.check.attempt, patience, route, clock::now())
            },
            |asking| *asking,
        );
        // Subscribed before the route is read again: what is published in between is not missed.
        let mut changes = self.views.changes();
        let differs = group.differs;
        let mut under = Under { group, asking, revision: 0, answered_by: None, sent: clock::now(), differs };
        self.refresh(&mut under);
        let mut on_their_way = FuturesUnordered::new();
        loop {
            while let Some(step) = under.asking.poll_step() {
                match step {
                    Step::Refresh => self.refresh(&mut under),
                    Step::Send { attempt, owner, .. } if owner.session.node == self.me => {
                        self.answer_here(&mut under, attempt, owner);
                    }
                    Step::Send { attempt, owner, .. } if !self.links.may_ask(owner.session.node) => {
                        self.links.count_error(owner.session.node, Unreachable::CircuitOpen);
                        under.asking.handle_barred(attempt, clock::now());
                    }
                    Step::Send { attempt, owner, .. } => {
                        let sent = clock::now();
                        let answer = self.links.ask(owner.session.node, under.forwarded(attempt));
                        on_their_way.push(async move { (attempt, owner, sent, answer.await) });
                    }
                    Step::Done(outcome) => {
                        under.settle(outcome, self.me);
                        return false;
                    }
                }
            }
            if under.differs && !Arc::ptr_eq(&*self.views.policies.load(), matched) {
                under.settle(Outcome::Failed(WhyFailed::Unknown(Unknown::Policy)), self.me);
                return true;
            }
            let Some(timeout) = under.asking.poll_timeout() else { return false };
            tokio::select! {
                biased;
                Some((attempt, owner, sent, answer)) = on_their_way.next(), if !on_their_way.is_empty() => {
                    // An answer of an epoch that is known to be over counts no more.
                    self.refresh(&mut under);
                    let answer = answer.unwrap_or(Err(Unreachable::StreamBroken));
                    match answer {
                        Ok(reply) => {
                            self.links.count_answer(owner.session.node, clock::now().since(sent));
                            under.heard((attempt, sent), owner, reply.epoch, reply.revision, reply.answer);
                        }
                        Err(why) => {
                            self.links.count_error(owner.session.node, why);
                            under.asking.handle_unreachable(attempt, delivery_of(why), clock::now());
                        }
                    }
                }
                changed = changes.changed() => match changed {
                    Ok(()) => self.refresh(&mut under),
                    Err(_) => return false,
                },
                () = tokio::time::sleep(timeout.since(clock::now()).into()) => {
                    under.asking.handle_timeout(clock::now());
                }
            }
        }
    }

    fn refresh(&self, under: &mut Under<'_>) {
        let route = self.views.routes.load().route_of(under.group.partition);
        under.asking.handle_route(route, clock::now());
    }

    fn answer_here(&self, under: &mut Under<'_>, attempt: u8, owner: Appointed) {
        under.group.check.attempt = attempt;
        let sent = clock::now();
        let mut answers = Vec::with_capacity(1);
        let check = std::slice::from_ref(&under.group.check);
        let witness = self.owner.decide(under.group.partition, check, &mut Reading::new(), &mut answers);
        let revision = under.group.check.legs.first().map_or(0, |leg| witness.policies.revision_of(leg.limit));
        for answer in answers {
            under.heard((attempt, sent), owner, witness.epoch, revision, answer);
        }
    }

    /// Sends what a settled question still owes an owner; no answer is awaited.
    pub(crate) fn tell(&self, owner: Appointed, item: Forwarded) {
        if owner.session.node != self.me {
            self.links.tell(owner.session.node, item);
            return;
        }
        match item {
            Forwarded::Cancel(partition, id, asker) => {
                self.owner.cancel(partition, id, asker);
            }
            Forwarded::Trim(partition, id, asker, units) => {
                self.owner.trim(partition, id, asker, units);
            }
            Forwarded::Debt(partition, id, asker, legs) => {
                self.owner.debt(partition, id, asker, &legs);
            }
            Forwarded::Check(..) | Forwarded::Forget => {}
        }
    }
}

impl Turn {
    /// Decides these groups of one partition. A question that its answer does not settle is left under way.
    fn decide(&mut self, here: &Owner, groups: &mut [&mut Group], route: Route) {
        self.checks.clear();
        self.checks.extend(groups.iter().map(|group| group.check.clone()));
        let witness = here.decide(groups[0].partition, &self.checks, &mut self.reading, &mut self.answers);
        // A thread that was stopped in between acts on nothing that is older than anybody else would act on.
        let answered = clock::now();
        for (group, answer) in groups.iter_mut().zip(self.answers.drain(..)) {
            let patience = Patience { budget: group.budget, d_max: self.d_max };
            let mut asking = Asking::new(group.check.id, group.check.attempt, patience, route, self.sent);
            let Some(Step::Send { attempt, owner, .. }) = asking.poll_step() else { continue };
            group.differs = answer == Answer::Unknown(Unknown::Policy);
            asking.handle_answer(attempt, witness.epoch, answer, answered);
            let Some(Step::Done(outcome)) = asking.poll_step() else {
                group.asking = Some(Box::new(asking));
                continue;
            };
            group.settled = Some(Settled {
                may_have_spent: asking.may_have_spent(),
                sent: self.sent,
                outcome,
                owner: Some(owner),
                epoch: Some(witness.epoch),
                source: Source::Owner,
                revision: group.check.legs.first().map_or(0, |leg| witness.policies.revision_of(leg.limit)),
            });
        }
    }
}

impl Under<'_> {
    fn forwarded(&self, attempt: u8) -> Forwarded {
        let mut check = self.group.check.clone();
        check.attempt = attempt;
        Forwarded::Check(self.group.partition, check)
    }

    fn heard(&mut self, (attempt, sent): (u8, Moment), owner: Appointed, epoch: Epoch, revision: u64, answer: Answer) {
        self.differs |= answer == Answer::Unknown(Unknown::Policy);
        if matches!(answer, Answer::Decided(_)) {
            self.revision = revision;
            self.answered_by = Some((owner, epoch));
            self.sent = sent;
        }
        self.asking.handle_answer(attempt, epoch, answer, clock::now());
    }

    fn settle(&mut self, outcome: Outcome, me: NodeId) {
        let decided = matches!(outcome, Outcome::Decided(_));
        let answered_by = self.answered_by.filter(|_| decided);
        let local = answered_by.is_some_and(|(owner, _)| owner.session.node == me);
        self.group.settled = Some(Settled {
            outcome,
            owner: answered_by.map(|(owner, _)| owner).or_else(|| self.asking.last_asked()),
            epoch: answered_by.map(|(_, epoch)| epoch),
            source: if local { Source::Owner } else { Source::Forwarded },
            revision: self.revision,
            may_have_spent: self.asking.may_have_spent(),
            sent: self.sent,
        });
    }
}

const fn delivery_of(why: Unreachable) -> Delivery {
    match why {
        Unreachable::QueueFull | Unreachable::NoConnection | Unreachable::UnknownPeer | Unreachable::CircuitOpen => {
            Delivery::NeverSent
        }
        Unreachable::StreamBroken => Delivery::Lost,
    }
}
