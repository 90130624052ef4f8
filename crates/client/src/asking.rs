//! One check on its way to a decision: which node to ask next, under which attempt, and when to stop. A pure value: the
//! shell tells it the time, how the nodes stand and what went wrong, and carries out what it says.
//!
//! A node is given a share of what is left of the caller's time, and told a little less than that. A node that works
//! answers by then, if need be by the limit's failure mode, because an owner that is silent is its own business. So a
//! node that is still silent at the end of its share is taken to be held up, and the same question goes to another; two
//! nodes that work are never busy with one question, which would let one take back what the other was granted.

use std::time::{Duration, Instant};

use crate::error::{Trouble, TroubleKind};

/// How often one check is asked at most. Each attempt but the last is at a node that failed meanwhile or is silent, so
/// that a cluster which is coming down is not asked for ever.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// The least time that a node is given: deadlines travel in whole milliseconds.
pub(crate) const ANSWER_TIME_MIN: Duration = Duration::from_millis(1);

/// The most of a share that is kept back for the answer's way home.
const RETURN_TIME_MAX: Duration = Duration::from_millis(50);

/// How a node stands, as far as choosing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing speaks against asking it.
    Usable,
    /// It failed, and is tried again then; it may be usable some time after.
    Down { next_try: Instant },
}

/// A question to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The node's place in the list.
    pub(crate) node: usize,
    /// From 1.
    pub(crate) number: u32,
    /// When the node should have answered; it is told what is left until then.
    pub(crate) answer_by: Instant,
    /// When its silence begins to mean something.
    pub(crate) silent_at: Instant,
}

/// What the shell does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask this node.
    Ask(Attempt),
    /// Wait for an answer, and come back then at the latest; also when a node's standing changes, if so.
    Wait { until: Instant, or_change: bool },
    /// Give up.
    Fail(Why),
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Time is up.
    Deadline,
    /// Nobody can be asked.
    Unreachable,
    /// Too many checks wait already, and this one never left.
    Full,
}

/// One check under way.
#[derive(Debug)]
pub(crate) struct Asking {
    deadline: Instant,
    attempts: u32,
    /// One bit per node that has the question and has not answered.
    pending: u64,
    /// One bit per node for which too many checks wait already: it is not asked again by this one.
    full: u64,
    /// When the attempt that was made last counts as silent.
    silent_at: Instant,
    /// Whether some attempt that came to nothing had left.
    lost: bool,
    last: Option<Trouble>,
}

impl Asking {
    pub(crate) const fn new(deadline: Instant, now: Instant) -> Asking {
        Asking { deadline, attempts: 0, pending: 0, full: 0, silent_at: now, lost: false, last: None }
    }

    /// An attempt at this node came to nothing.
    pub(crate) fn handle_trouble(&mut self, node: usize, trouble: Trouble) {
        self.pending &= !(1 << node);
        self.lost |= trouble.what.may_have_spent();
        self.last = Some(trouble);
    }

    /// The last attempt could not even join the node's queue.
    pub(crate) fn handle_not_queued(&mut self, node: usize) {
        self.pending &= !(1 << node);
        self.full |= 1 << node;
    }

    /// What to do, given how the `nodes` nodes stand.
    pub(crate) fn poll_step(&mut self, now: Instant, nodes: usize, standing: impl Fn(usize) -> Standing) -> Step {
        if now >= self.deadline {
            return Step::Fail(self.why_late());
        }
        if self.pending != 0 && now < self.silent_at {
            return Step::Wait { until: self.silent_at, or_change: false };
        }
        let left_out = self.pending | self.full;
        let mut usable = (0..nodes).filter(|node| left_out & (1 << node) == 0 && standing(*node) == Standing::Usable);
        let (next, another) = (usable.next(), usable.next().is_some());
        if let Some(attempt) = next.and_then(|node| self.attempt(node, another, now)) {
            return Step::Ask(attempt);
        }
        let may_come_up = |node| match standing(node) {
            Standing::Usable => false,
            Standing::Down { next_try } => next_try < self.deadline,
        };
        match self.pending {
            0 if next.is_none() && self.full != 0 && !self.lost => Step::Fail(Why::Full),
            0 if self.attempts >= ATTEMPTS_MAX => Step::Fail(Why::Unreachable),
            0 if next.is_none() && !(0..nodes).any(may_come_up) => Step::Fail(Why::Unreachable),
            _ => Step::Wait { until: self.deadline, or_change: self.attempts < ATTEMPTS_MAX },
        }
    }

    /// Whether the check may have been charged, as far as is known now.
    pub(crate) const fn may_have_spent(&self) -> bool {
        self.lost || self.pending != 0
    }

    /// What went wrong last.
    pub(crate) fn into_last(self) -> Option<Trouble> {
        self.last
    }

    fn attempt(&mut self, node: usize, another: bool, now: Instant) -> Option<Attempt> {
        let left = self.deadline.saturating_duration_since(now);
        // With nobody else to ask there is nothing to keep time for.
        let share = if another { left * 3 / 5 } else { left };
        let return_time = (share / 5).min(RETURN_TIME_MAX);
        let given = share - return_time;
        if given < ANSWER_TIME_MIN || self.attempts >= ATTEMPTS_MAX {
            return None;
        }
        self.attempts += 1;
        self.pending |= 1 << node;
        self.silent_at = now + share;
        Some(Attempt { node, number: self.attempts, answer_by: now + given, silent_at: self.silent_at })
    }

    const fn why_late(&self) -> Why {
        match &self.last {
            Some(Trouble { what: TroubleKind::NoConnection | TroubleKind::StreamBroken, .. }) if self.pending == 0 => {
                Why::Unreachable
            }
            Some(_) => Why::Deadline,
            None if self.attempts == 0 => Why::Unreachable,
            None => Why::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A check of 250 ms among nodes that a test makes fail.
    struct Scene {
        start: Instant,
        asking: Asking,
        standings: Vec<Standing>,
    }

    impl Scene {
        fn among(nodes: usize) -> Scene {
            let start = Instant::now();
            let asking = Asking::new(start + 250 * MS, start);
            Scene { start, asking, standings: vec![Standing::Usable; nodes] }
        }

        fn at(&mut self, millis: u32) -> Step {
            let standings = self.standings.clone();
            self.asking.poll_step(self.start + millis * MS, standings.len(), |node| standings[node])
        }

        /// Node and number of the attempt that is made now.
        fn asked_at(&mut self, millis: u32) -> (usize, u32) {
            let Step::Ask(Attempt { node, number, .. }) = self.at(millis) else {
                panic!("nobody is asked at {millis} ms")
            };
            (node, number)
        }

        fn trouble(&mut self, node: usize, what: TroubleKind) {
            self.asking.handle_trouble(node, Trouble { node: "a:1".into(), what, detail: "test".into() });
        }

        fn down(&mut self, node: usize, next_try: u32) {
            self.standings[node] = Standing::Down { next_try: self.start + next_try * MS };
        }

        fn wait(&self, until: u32, or_change: bool) -> Step {
            Step::Wait { until: self.start + until * MS, or_change }
        }
    }

    #[test]
    fn the_first_node_of_the_list_gets_three_fifths_and_is_told_a_little_less() {
        let mut scene = Scene::among(3);
        let (answer_by, silent_at) = (scene.start + 120 * MS, scene.start + 150 * MS);
        assert_eq!(scene.at(0), Step::Ask(Attempt { node: 0, number: 1, answer_by, silent_at }));
        assert_eq!(scene.at(0), scene.wait(150, false));
    }

    #[test]
    fn an_only_node_gets_it_all() {
        let mut scene = Scene::among(1);
        let (answer_by, silent_at) = (scene.start + 200 * MS, scene.start + 250 * MS);
        assert_eq!(scene.at(0), Step::Ask(Attempt { node: 0, number: 1, answer_by, silent_at }));
    }

    #[test]
    fn after_a_broken_stream_the_next_node_is_asked_at_once() {
        let mut scene = Scene::among(3);
        assert_eq!(scene.asked_at(0), (0, 1));
        scene.down(0, 50);
        scene.trouble(0, TroubleKind::StreamBroken);
        assert!(scene.asking.may_have_spent());
        assert_eq!(scene.asked_at(3), (1, 2));
    }

    #[test]
    fn a_silent_node_keeps_the_question_and_another_gets_it_too() {
        let mut scene = Scene::among(3);
        assert_eq!(scene.asked_at(0), (0, 1));
        assert_eq!(scene.at(149), scene.wait(150, false));
        assert_eq!(scene.asked_at(150), (1, 2));
        assert_eq!(scene.at(150), scene.wait(210, false));
        assert_eq!(scene.asked_at(210), (2, 3));
        assert_eq!(scene.at(249), scene.wait(250, false), "nobody is left, and the three may still answer");
        assert_eq!(scene.at(250), Step::Fail(Why::Deadline));
    }

    #[test]
    fn nodes_that_are_down_are_passed_over() {
        let mut scene = Scene::among(3);
        scene.down(0, 1_000);
        scene.down(1, 1_000);
        assert_eq!(scene.asked_at(0), (2, 1));
    }

    #[test]
    fn with_everybody_down_for_longer_than_the_deadline_it_fails_at_once() {
        let mut scene = Scene::among(2);
        scene.down(0, 1_000);
        scene.down(1, 2_000);
        assert_eq!(scene.at(0), Step::Fail(Why::Unreachable));
        assert!(!scene.asking.may_have_spent());
    }

    #[test]
    fn a_node_that_may_come_back_in_time_is_waited_for() {
        let mut scene = Scene::among(2);
        scene.down(0, 1_000);
        scene.down(1, 100);
        assert_eq!(scene.at(0), scene.wait(250, true));
        scene.standings[1] = Standing::Usable;
        assert_eq!(scene.asked_at(120), (1, 1));
        scene.down(1, 900);
        scene.trouble(1, TroubleKind::NoConnection);
        assert_eq!(scene.at(130), Step::Fail(Why::Unreachable));
        assert!(!scene.asking.may_have_spent(), "it never left");
    }

    #[test]
    fn a_node_that_keeps_breaking_is_not_asked_for_ever() {
        let mut scene = Scene::among(1);
        for number in 1..=ATTEMPTS_MAX {
            assert_eq!(scene.asked_at(number), (0, number));
            scene.trouble(0, TroubleKind::StreamBroken);
        }
        assert_eq!(scene.at(20), Step::Fail(Why::Unreachable));
    }

    #[test]
    fn a_node_whose_queue_is_full_is_passed_over_and_with_all_of_them_full_it_fails_at_once() {
        let mut scene = Scene::among(2);
        assert_eq!(scene.asked_at(0), (0, 1));
        scene.asking.handle_not_queued(0);
        assert_eq!(scene.asked_at(0), (1, 2));
        scene.asking.handle_not_queued(1);
        assert_eq!(scene.at(0), Step::Fail(Why::Full));
    }

    #[test]
    fn with_too_little_left_nobody_is_asked_any_more() {
        let mut scene = Scene::among(2);
        assert_eq!(scene.asked_at(0), (0, 1));
        scene.trouble(0, TroubleKind::Silent);
        assert_eq!(scene.at(249), scene.wait(250, true));
        assert_eq!(scene.at(250), Step::Fail(Why::Deadline));
    }
}
