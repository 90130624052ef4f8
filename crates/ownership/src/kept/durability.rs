//! Whether what one session keeps counts. The log holds for each session in which life of the store its records are, if in
//! any: a successor believes no other. While the log says so, or may come to, this node spends nothing that is not allowed
//! for in the store; once the log says that nothing counts, memory alone decides, and a successor reads the worst case.
//!
//! The order is everything. Records are written anew and obeyed *before* the log may come to say that they count, and are
//! obeyed until it *has said* that they do not. Of several proposals the one with the highest number stands, so one whose
//! outcome nobody knows cannot come true later than the next.

use limits::{Moment, Span};

use crate::bug::Bug;
use crate::kept::Incarnation;

/// A store that has not answered a write for so long is in trouble. One whose connection broke is at once: whoever waits for
/// it to come back waits in vain for the next write.
pub const SILENT_AFTER: Span = Span::from_millis(200);

/// How long a store is not relied on after it was given up: one that fails again and again would cost every time what it costs to
/// write everything anew.
pub const SHUNNED_FOR: Span = Span::from_secs(5);

/// A proposal of which nothing is heard for so long is made anew.
pub const PROPOSE_AGAIN: Span = Span::from_secs(1);

/// What this node sees of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Nothing, or nothing that can be used.
    Away,
    /// It answers, in this life.
    Up(Incarnation),
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Every partition's record is to be written anew, and obeyed.
    Bind,
    /// Memory alone decides from now on.
    Free,
    /// To be proposed to the log.
    Propose {
        /// Its number among this session's; higher than any before.
        number: u64,
        /// In which life of the store this session's records count; `None`: they do not.
        store: Option<Incarnation>,
    },
}

/// The machine of one session; a new session begins with a new one, and with partitions that keep nothing.
///
/// Inlets: [`handle_store`](Durability::handle_store), [`handle_slow`](Durability::handle_slow),
/// [`handle_settled`](Durability::handle_settled), [`handle_log`](Durability::handle_log),
/// [`handle_timeout`](Durability::handle_timeout). After each, carry out [`poll_step`](Durability::poll_step) until there is
/// none, then wait until [`poll_timeout`](Durability::poll_timeout).
#[derive(Clone, Debug)]
pub struct Durability {
    store: Store,
    /// Until when a store that was in trouble is not relied on.
    not_before: Moment,
    /// A write is taking too long, or the store is not the one that it was.
    in_trouble: bool,
    /// What the log says, and the number of the proposal that it took last.
    held: Option<Incarnation>,
    taken: u64,
    /// The last proposal, and when it was made.
    proposed: Option<(u64, Option<Incarnation>, Moment)>,
    number: u64,
    /// Whether some proposal that was made, and that the log may still take, says that records count.
    may_count: bool,
    bound: Option<Incarnation>,
    is_settled: bool,
    step: Option<Step>,
}

impl Durability {
    /// A session of which the log says nothing yet.
    pub fn new(now: Moment) -> Durability {
        Durability {
            store: Store::Away,
            not_before: now,
            in_trouble: false,
            held: None,
            taken: 0,
            proposed: None,
            number: 0,
            may_count: false,
            bound: None,
            is_settled: false,
            step: None,
        }
    }

    /// Whether records are obeyed: they count, or may come to.
    pub const fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// The life of the store that records are written to.
    pub const fn bound(&self) -> Option<Incarnation> {
        self.bound
    }

    /// In which life of the store this session's records count, as the log says.
    pub const fn held(&self) -> Option<Incarnation> {
        self.held
    }

    /// What is seen of the store now.
    pub fn handle_store(&mut self, store: Store, now: Moment) {
        if !self.is_bound() && self.store != Store::Away && store != self.store {
            self.not_before = now.saturating_add(SHUNNED_FOR);
        }
        self.store = store;
        self.go_on(now);
    }

    /// A write has been under way for too long.
    pub fn handle_slow(&mut self, now: Moment) {
        self.in_trouble |= self.is_bound();
        self.go_on(now);
    }

    /// Whether every partition's record says no less than the truth.
    pub fn handle_settled(&mut self, is_settled: bool, now: Moment) {
        self.is_settled = is_settled;
        self.go_on(now);
    }

    /// The log, as this node has applied it, says this of the session, by the proposal with this number.
    pub fn handle_log(&mut self, number: u64, held: Option<Incarnation>, now: Moment) {
        if number < self.taken {
            return;
        }
        (self.taken, self.held) = (number, held);
        if self.proposed.is_some_and(|(proposed, ..)| proposed <= number) {
            self.proposed = None;
            self.may_count = false;
        }
        self.go_on(now);
    }

    /// Time has come to `now`.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.go_on(now);
    }

    /// When [`handle_timeout`](Durability::handle_timeout) is next worth calling.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let proposes = self.is_bound() && (self.in_trouble || self.is_settled);
        let again = self.proposed.filter(|_| proposes).map(|(_, _, at)| at.saturating_add(PROPOSE_AGAIN));
        let well = (self.store != Store::Away && !self.is_bound()).then_some(self.not_before);
        again.into_iter().chain(well).min()
    }

    /// The next thing to do, until there is none.
    pub fn poll_step(&mut self) -> Option<Step> {
        self.step.take()
    }

    fn go_on(&mut self, now: Moment) {
        if self.step.is_some() {
            return;
        }
        let bound = self.bound;
        self.step = match bound {
            None => self.begin(now),
            Some(incarnation) if self.is_in_trouble(incarnation) => self.give_up(now),
            Some(incarnation) => self.rely_on(incarnation, now),
        };
    }

    fn is_in_trouble(&mut self, bound: Incarnation) -> bool {
        self.in_trouble |= self.store != Store::Up(bound);
        self.in_trouble
    }

    /// Nothing counts. Once the store is well, everything is written.
    fn begin(&mut self, now: Moment) -> Option<Step> {
        let Store::Up(incarnation) = self.store else { return None };
        if now < self.not_before {
            return None;
        }
        self.bound = Some(incarnation);
        self.is_settled = false;
        self.in_trouble = false;
        Some(Step::Bind)
    }

    /// The store is well. Once everything is written, the log is to say that it counts.
    fn rely_on(&mut self, incarnation: Incarnation, now: Moment) -> Option<Step> {
        if self.held == Some(incarnation) && self.proposed.is_none() || !self.is_settled {
            return None;
        }
        self.propose(Some(incarnation), now)
    }

    /// The store is not to be relied on. Where the log may say that records count, it has to unsay it first.
    fn give_up(&mut self, now: Moment) -> Option<Step> {
        if (self.held.is_some() || self.may_count) && !Bug::FreeBeforeTheLog.is_here() {
            return self.propose(None, now);
        }
        self.bound = None;
        self.in_trouble = false;
        self.not_before = now.saturating_add(SHUNNED_FOR);
        Some(Step::Free)
    }

    /// Proposes, unless the same was proposed a short while ago.
    fn propose(&mut self, store: Option<Incarnation>, now: Moment) -> Option<Step> {
        let is_under_way = |(_, proposed, at): (u64, Option<Incarnation>, Moment)| {
            proposed == store && now < at.saturating_add(PROPOSE_AGAIN)
        };
        if self.proposed.is_some_and(is_under_way) {
            return None;
        }
        self.number = self.number.max(self.taken) + 1;
        self.proposed = Some((self.number, store, now));
        self.may_count |= store.is_some();
        Some(Step::Propose { number: self.number, store })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Incarnation = Incarnation { run: [1; 20], history: [1; 20] };
    const Y: Incarnation = Incarnation { run: [2; 20], history: [1; 20] };

    fn at(millis: u64) -> Moment {
        Moment::ZERO.saturating_add(Span::from_millis(millis))
    }

    /// A session whose records count in X.
    fn durable() -> Durability {
        let mut session = Durability::new(at(0));
        session.handle_store(Store::Up(X), at(0));
        assert_eq!(session.poll_step(), Some(Step::Bind));
        session.handle_settled(true, at(1));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 1, store: Some(X) }));
        session.handle_log(1, Some(X), at(2));
        assert_eq!(session.poll_step(), None);
        session
    }

    #[test]
    fn the_log_hears_of_records_once_they_are_all_there_and_obeyed() {
        let mut session = Durability::new(at(0));
        session.handle_store(Store::Up(X), at(0));
        assert_eq!((session.poll_step(), session.is_bound()), (Some(Step::Bind), true));
        session.handle_settled(false, at(1));
        assert_eq!(session.poll_step(), None, "nothing is proposed before everything is written");
        session.handle_settled(true, at(2));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 1, store: Some(X) }));
        assert_eq!(session.held(), None);
    }

    #[test]
    fn a_store_that_is_gone_is_obeyed_until_the_log_has_unsaid_it() {
        let mut session = durable();
        session.handle_store(Store::Away, at(100));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 2, store: None }));
        session.handle_store(Store::Up(X), at(105));
        assert!(session.is_bound() && session.poll_step().is_none(), "what is said is said");
        session.handle_log(2, None, at(110));
        assert_eq!((session.poll_step(), session.is_bound()), (Some(Step::Free), false));
    }

    #[test]
    fn another_life_of_the_store_counts_for_nothing_until_all_is_written_there() {
        let mut session = durable();
        session.handle_store(Store::Up(Y), at(100));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 2, store: None }));
        session.handle_log(2, None, at(110));
        assert_eq!(session.poll_step(), Some(Step::Free));
        session.handle_timeout(at(5_109));
        assert_eq!(session.poll_step(), None, "what was given up is not relied on for a while");
        session.handle_timeout(at(5_110));
        assert_eq!(session.poll_step(), Some(Step::Bind));
        session.handle_settled(true, at(5_200));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 3, store: Some(Y) }));
    }

    #[test]
    fn a_proposal_that_may_still_come_true_is_obeyed_and_outdone_by_the_next() {
        let mut session = Durability::new(at(0));
        session.handle_store(Store::Up(X), at(0));
        session.poll_step();
        session.handle_settled(true, at(1));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 1, store: Some(X) }));
        // Nobody knows what came of it, and the store goes.
        session.handle_store(Store::Away, at(210));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 2, store: None }));
        assert!(session.is_bound(), "the first may be in the log");
        session.handle_log(1, Some(X), at(220));
        assert!(session.is_bound());
        session.handle_log(2, None, at(230));
        assert_eq!((session.poll_step(), session.is_bound()), (Some(Step::Free), false));
    }

    #[test]
    fn a_store_that_goes_before_anything_was_proposed_frees_at_once() {
        let mut session = Durability::new(at(0));
        session.handle_store(Store::Up(X), at(0));
        session.poll_step();
        session.handle_slow(at(250));
        assert_eq!((session.poll_step(), session.is_bound()), (Some(Step::Free), false));
    }

    /// Found by seed 736 of the simulator: a wait for what would not come.
    #[test]
    fn nothing_is_proposed_anew_while_something_has_yet_to_be_written() {
        let mut session = Durability::new(at(0));
        session.handle_store(Store::Up(X), at(0));
        session.poll_step();
        session.handle_settled(true, at(1));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 1, store: Some(X) }));
        session.handle_settled(false, at(2));
        assert_eq!(session.poll_timeout(), None);
        session.handle_timeout(at(2_000));
        assert_eq!(session.poll_step(), None);
        session.handle_settled(true, at(2_001));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 2, store: Some(X) }));
    }

    #[test]
    fn a_proposal_of_which_nothing_is_heard_is_made_anew() {
        let mut session = durable();
        session.handle_slow(at(500));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 2, store: None }));
        assert_eq!(session.poll_timeout(), Some(at(1_500)));
        session.handle_timeout(at(1_500));
        assert_eq!(session.poll_step(), Some(Step::Propose { number: 3, store: None }));
    }
}
