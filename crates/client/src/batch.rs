//! Checks on one stream: those that wait to leave, those that leave together, and those that are out. A batch is
//! answered whole, when its last check is; so checks leave together only if about the same time is left to them, and all
//! are told the least of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use wire::v1 as proto;

use crate::asking::ANSWER_TIME_MIN;
use crate::error::{Trouble, TroubleKind};

/// Batches without an answer on one stream at most: what a node decides at once for one stream. More wait here, where
/// they join larger batches.
pub(crate) const BATCHES_OUT_MAX: usize = 32;

/// From this many batches without an answer on, batches leave no closer together than lets the rest of them last until
/// the first is due. While an owner is silent, a node answers some checks only when their time is up; a few of them would
/// otherwise take all places within a moment, and everything behind them would be late.
pub(crate) const BATCHES_OUT_CROWDED: usize = 8;

/// How long a node may owe the answer to one batch while it answers others, before it is taken to have lost it.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// How much longer a silence must last once it was noticed: what has arrived meanwhile is read first, if it was this
/// process that was held up.
const SECOND_LOOK: Duration = Duration::from_millis(20);

/// A check that a node is asked.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The question, but for its deadline.
    pub(crate) request: proto::CheckRequest,
    pub(crate) answer_by: Instant,
    pub(crate) silent_at: Instant,
    pub(crate) reply: oneshot::Sender<Outcome>,
}

/// What became of it.
pub(crate) type Outcome = Result<proto::CheckResult, Fault>;

/// Why a node gave no answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The transport failed: another node may answer.
    Trouble(Trouble),
    /// The node does not take questions from this caller.
    Refused {
        /// The API's code.
        code: &'static str,
        /// In words.
        detail: std::sync::Arc<str>,
    },
}

/// Tells whoever waits; an asker that has given up meanwhile is nobody to tell.
pub(crate) fn settle(reply: oneshot::Sender<Outcome>, outcome: Outcome) {
    let _ = reply.send(outcome);
}

/// The checks that leave next, with who waits for them.
#[derive(Debug)]
pub(crate) struct Batch {
    checks: Vec<proto::CheckRequest>,
    waiting: Vec<oneshot::Sender<Outcome>>,
    /// What every check is told.
    given: Duration,
    silent_at: Instant,
}

impl Batch {
    /// Takes what can leave together, beginning with the check that has waited longest. Those that nobody waits for any
    /// more are dropped; those whose time is up are told so through `late`. `None` when nothing is left.
    pub(crate) fn take(ready: &mut VecDeque<Outgoing>, max: usize, now: Instant, late: &Trouble) -> Option<Batch> {
        debug_assert_eq!(late.what, TroubleKind::TooLate, "a check that is too late never left");
        let (mut batch, mut stays): (Option<Batch>, Vec<Outgoing>) = (None, Vec::new());
        while batch.as_ref().is_none_or(|batch| batch.checks.len() < max)
            && let Some(outgoing) = ready.pop_front()
        {
            let left = outgoing.answer_by.saturating_duration_since(now);
            match batch.as_mut() {
                _ if outgoing.reply.is_closed() => {}
                _ if left < ANSWER_TIME_MIN => settle(outgoing.reply, Err(Fault::Trouble(late.clone()))),
                None => batch = Some(Batch::of(outgoing, left)),
                Some(batch) if batch.fits(left) => batch.add(outgoing, left),
                Some(_) => stays.push(outgoing),
            }
        }
        stays.into_iter().rev().for_each(|outgoing| ready.push_front(outgoing));
        batch
    }

    fn of(outgoing: Outgoing, left: Duration) -> Batch {
        let mut batch = Batch { checks: Vec::new(), waiting: Vec::new(), given: left, silent_at: outgoing.silent_at };
        batch.add(outgoing, left);
        batch
    }

    /// Whether a check with so much time left loses at most half of it by going along, and costs the others no more.
    fn fits(&self, left: Duration) -> bool {
        left >= self.given / 2 && left <= self.given * 2
    }

    fn add(&mut self, outgoing: Outgoing, left: Duration) {
        self.given = self.given.min(left);
        self.silent_at = self.silent_at.max(outgoing.silent_at);
        self.checks.push(outgoing.request);
        self.waiting.push(outgoing.reply);
    }
}

/// Batches that left, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Out {
    batches: VecDeque<Sent>,
    number: u64,
    heard_at: Option<Instant>,
    /// While many are out, when the next may leave.
    next_departure: Option<Instant>,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    left_at: Instant,
    /// When to look whether the node is silent.
    look_at: Instant,
    looked: bool,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

/// What a look at the batches that are out shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nothing is wrong so far.
    Fine,
    /// The node has said nothing since a batch left whose time is up, or has lost a batch.
    Silent,
}

impl Out {
    /// When the next batch may leave: `None` while as many are out as may be.
    pub(crate) fn may_leave_at(&self, now: Instant) -> Option<Instant> {
        match self.batches.len() {
            BATCHES_OUT_MAX.. => None,
            BATCHES_OUT_CROWDED.. => Some(self.next_departure.unwrap_or(now)),
            _ => Some(now),
        }
    }

    /// Sends a batch off; returns it as it goes over the wire.
    pub(crate) fn depart(&mut self, batch: Batch, now: Instant) -> proto::CheckBatchRequest {
        let Batch { mut checks, waiting, given, silent_at } = batch;
        let deadline_ms = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
        checks.iter_mut().for_each(|check| check.deadline_ms = Some(deadline_ms));
        self.number += 1;
        self.next_departure = Some(now + given / (BATCHES_OUT_MAX - BATCHES_OUT_CROWDED) as u32);
        let sent = Sent { number: self.number, left_at: now, look_at: silent_at, looked: false, waiting };
        self.batches.push_back(sent);
        proto::CheckBatchRequest { number: self.number, checks }
    }

    /// Hands the answers of one batch to those who wait.
    ///
    /// # Errors
    ///
    /// What the node did that the protocol does not have.
    pub(crate) fn deliver(&mut self, answer: proto::CheckBatchResponse, now: Instant) -> Result<(), &'static str> {
        self.heard_at = Some(now);
        let place = self.batches.iter().position(|sent| sent.number == answer.number);
        let sent = place.and_then(|place| self.batches.remove(place)).ok_or("it answers a batch that is not out")?;
        if sent.waiting.len() != answer.results.len() {
            return Err("it answers a batch with another number of results");
        }
        sent.waiting.into_iter().zip(answer.results).for_each(|(reply, result)| settle(reply, Ok(result)));
        Ok(())
    }

    /// When [`look`](Out::look) is next worth calling; `None` when nothing is out.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.batches.iter().map(|sent| sent.look_at).min()
    }

    /// Looks whether the node still says anything.
    pub(crate) fn look(&mut self, now: Instant) -> Looked {
        for sent in self.batches.iter_mut().filter(|sent| sent.look_at <= now) {
            let heard_since = self.heard_at.is_some_and(|heard| heard >= sent.left_at);
            match (heard_since, std::mem::replace(&mut sent.looked, true)) {
                (true, false) => sent.look_at += LOST_AFTER,
                (false, false) => sent.look_at = now + SECOND_LOOK,
                (_, true) => return Looked::Silent,
            }
        }
        Looked::Fine
    }

    /// Whether the node answered anything.
    pub(crate) const fn has_heard(&self) -> bool {
        self.heard_at.is_some()
    }

    /// Nothing that is out will be answered.
    pub(crate) fn fail(self, fault: &Fault) {
        let waiting = self.batches.into_iter().flat_map(|sent| sent.waiting);
        waiting.for_each(|reply| settle(reply, Err(fault.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn late() -> Trouble {
        Trouble { node: "a:1".into(), what: TroubleKind::TooLate, detail: "test".into() }
    }

    /// A check with so much time left, and where its outcome comes in.
    fn check(cost: u64, now: Instant, left: Duration) -> (Outgoing, oneshot::Receiver<Outcome>) {
        let (reply, outcome) = oneshot::channel();
        let request = proto::CheckRequest { cost: Some(cost), ..proto::CheckRequest::default() };
        (Outgoing { request, answer_by: now + left, silent_at: now + left + 20 * MS, reply }, outcome)
    }

    fn costs(batch: &Batch) -> Vec<u64> {
        batch.checks.iter().filter_map(|check| check.cost).collect()
    }

    fn batch_of(now: Instant, left: Duration) -> Batch {
        let (outgoing, outcome) = check(1, now, left);
        // Whoever waits is not what these tests are about.
        std::mem::forget(outcome);
        Batch::of(outgoing, left)
    }

    fn answer(number: u64, results: usize) -> proto::CheckBatchResponse {
        proto::CheckBatchResponse { number, results: vec![proto::CheckResult::default(); results] }
    }

    #[test]
    fn checks_leave_in_order_up_to_the_bound() {
        let now = Instant::now();
        let (mut ready, _outcomes): (VecDeque<_>, Vec<_>) = (0..5).map(|cost| check(cost, now, 100 * MS)).unzip();
        let first = Batch::take(&mut ready, 3, now, &late()).unwrap();
        let second = Batch::take(&mut ready, 3, now, &late()).unwrap();
        assert_eq!((costs(&first), costs(&second)), (vec![0, 1, 2], vec![3, 4]));
        assert!(Batch::take(&mut ready, 3, now, &late()).is_none());
    }

    #[test]
    fn all_of_a_batch_are_told_the_least_time_and_other_times_wait_for_another_batch() {
        let now = Instant::now();
        let lefts = [100, 80, 1_000, 10, 60].map(|millis| millis * MS);
        let (mut ready, _outcomes): (VecDeque<_>, Vec<_>) =
            (0..5).zip(lefts).map(|(cost, left)| check(cost, now, left)).unzip();
        let batch = Batch::take(&mut ready, 9, now, &late()).unwrap();
        assert_eq!(costs(&batch), [0, 1, 4]);
        let mut out = Out::default();
        let told: Vec<_> = out.depart(batch, now).checks.iter().map(|check| check.deadline_ms).collect();
        assert_eq!(told, [Some(60); 3]);
        assert_eq!(costs(&Batch::take(&mut ready, 9, now, &late()).unwrap()), [2], "the rest keeps its order");
        assert_eq!(costs(&Batch::take(&mut ready, 9, now, &late()).unwrap()), [3]);
    }

    #[test]
    fn nobody_is_asked_for_those_who_are_gone_or_late() {
        let now = Instant::now();
        let (gone, outcome) = check(1, now, 100 * MS);
        drop(outcome);
        let (too_late, mut told) = check(2, now, MS / 2);
        let (kept, _outcome) = check(3, now, 100 * MS);
        let mut ready = VecDeque::from([gone, too_late, kept]);
        assert_eq!(costs(&Batch::take(&mut ready, 9, now, &late()).unwrap()), [3]);
        let Ok(Err(Fault::Trouble(trouble))) = told.try_recv() else { panic!("told at once") };
        assert_eq!(trouble.what, TroubleKind::TooLate);
    }

    #[test]
    fn answers_find_their_batch_in_any_order_and_others_are_refused() {
        let now = Instant::now();
        let mut out = Out::default();
        for _ in 0..3 {
            out.depart(batch_of(now, 100 * MS), now);
        }
        assert_eq!(out.deliver(answer(2, 1), now), Ok(()));
        assert_eq!(out.deliver(answer(1, 1), now), Ok(()));
        assert!(out.deliver(answer(1, 1), now).is_err(), "it was answered before");
        assert!(out.deliver(answer(3, 2), now).is_err(), "one check has one result");
    }

    #[test]
    fn when_many_are_out_the_places_left_last_until_the_first_is_due() {
        let now = Instant::now();
        let mut out = Out::default();
        for _ in 0..BATCHES_OUT_CROWDED {
            assert_eq!(out.may_leave_at(now), Some(now), "few are out, so nothing waits");
            out.depart(batch_of(now, 240 * MS), now);
        }
        let mut leaves = now;
        while let Some(next) = out.may_leave_at(leaves) {
            assert_eq!(next, leaves + 10 * MS);
            leaves = next;
            out.depart(batch_of(leaves, 240 * MS), leaves);
        }
        assert_eq!(leaves, now + 240 * MS, "by then the first is answered, be it by a failure mode");
        assert_eq!(out.batches.len(), BATCHES_OUT_MAX);
    }

    #[test]
    fn a_node_that_says_nothing_is_silent_at_the_second_look() {
        let now = Instant::now();
        let mut out = Out::default();
        out.depart(batch_of(now, 100 * MS), now);
        assert_eq!(out.look_at(), Some(now + 120 * MS));
        assert_eq!(out.look(now + 120 * MS), Looked::Fine);
        assert_eq!(out.look_at(), Some(now + 140 * MS));
        assert_eq!(out.look(now + 140 * MS), Looked::Silent);
    }

    #[test]
    fn a_node_that_answers_other_batches_is_given_time_but_not_for_ever() {
        let now = Instant::now();
        let mut out = Out::default();
        out.depart(batch_of(now, 100 * MS), now);
        out.depart(batch_of(now, 100 * MS), now);
        assert_eq!(out.deliver(answer(2, 1), now + MS), Ok(()));
        assert_eq!(out.look(now + 120 * MS), Looked::Fine);
        assert_eq!(out.look_at(), Some(now + 2_120 * MS));
        assert_eq!(out.look(now + 2_120 * MS), Looked::Silent);
    }
}
