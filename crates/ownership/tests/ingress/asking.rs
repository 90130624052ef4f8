//! One question through everything that can happen to it, as stories. The budget is 100 ms and answers are good for 40 ms
//! unless a story says otherwise; partition 7 belongs to node A at epoch 3, later to node B at epoch 4.

use std::num::NonZeroU64;

use limits::{Moment, Span};
use ring::NodeId;
use ringfence_ownership::ingress::{ATTEMPTS_MAX, Asking, Delivery, Outcome, Patience, Step, WhyFailed};
use ringfence_ownership::{Answer, CheckId, Epoch, Route, SessionId, Unknown, Verdict};
use smallvec::SmallVec;

const ID: CheckId = CheckId(0xfeed);

pub fn ms(millis: u64) -> Moment {
    Moment::ZERO.saturating_add(Span::from_millis(millis))
}

pub fn session(node: u64) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::new(node).unwrap()), nonce: 1, counter: 1 }
}

pub fn route(epoch: u64, node: u64) -> Route {
    Route { epoch: Epoch(epoch), session: Some(session(node)) }
}

pub fn verdict(allowed: bool) -> Verdict {
    let (replayed, recovering, cacheable) = (false, false, Span::ZERO);
    Verdict { allowed, units: 0, replayed, recovering, cacheable, legs: SmallVec::new() }
}

const A: u64 = 1;
const B: u64 = 2;

/// A question and the time, in milliseconds since it was put.
struct Story {
    asking: Asking,
}

impl Story {
    fn begin(route: Route) -> Story {
        Story::with(Patience { budget: Span::from_millis(100), d_max: Span::from_millis(40) }, route)
    }

    fn with(patience: Patience, route: Route) -> Story {
        Story { asking: Asking::new(ID, 1, patience, route, ms(0)) }
    }

    fn expect(&mut self, expected: &[Step]) {
        let steps: Vec<Step> = std::iter::from_fn(|| self.asking.poll_step()).collect();
        assert_eq!(steps, expected);
    }

    fn answer(&mut self, at: u64, attempt: u8, epoch: u64, answer: Answer) {
        self.asking.handle_answer(attempt, Epoch(epoch), answer, ms(at));
    }

    fn decided(&mut self, at: u64, attempt: u8, epoch: u64) {
        self.answer(at, attempt, epoch, Answer::Decided(verdict(true)));
    }

    fn next_timeout(&mut self, expected: u64) {
        assert_eq!(self.asking.poll_timeout(), Some(ms(expected)));
        self.asking.handle_timeout(ms(expected));
    }
}

fn send(attempt: u8, route: Route, left_ms: u64) -> Step {
    Step::Send { id: ID, attempt, owner: route.owner().unwrap(), budget: Span::from_millis(left_ms) }
}

fn allowed() -> Step {
    Step::Done(Outcome::Decided(verdict(true)))
}

fn failed(why: WhyFailed) -> Step {
    Step::Done(Outcome::Failed(why))
}

fn not_owner(epoch: u64, hint: Option<u64>) -> Answer {
    Answer::NotOwner { epoch: Epoch(epoch), hint: hint.map(session) }
}

#[test]
fn an_answer_in_time_settles_the_question() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.decided(2, 1, 3);
    story.expect(&[allowed()]);
    assert_eq!(story.asking.poll_timeout(), None);
    assert!(story.asking.may_have_spent());
    story.decided(3, 1, 3);
    story.asking.handle_timeout(ms(200));
    story.expect(&[]);
}

#[test]
fn a_denial_has_spent_nothing() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.answer(2, 1, 3, Answer::Decided(verdict(false)));
    story.expect(&[Step::Done(Outcome::Decided(verdict(false)))]);
    assert!(!story.asking.may_have_spent());
}

#[test]
fn silence_is_asked_again_at_half_the_budget_under_the_same_id_and_fails_at_the_deadline() {
    let patience = Patience { budget: Span::from_millis(100), d_max: Span::from_millis(250) };
    let mut story = Story::with(patience, route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.asking.handle_timeout(ms(49));
    story.expect(&[]);
    story.next_timeout(50);
    story.expect(&[Step::Refresh, send(2, route(3, A), 50)]);
    story.next_timeout(100);
    story.expect(&[failed(WhyFailed::Silence)]);
    assert!(story.asking.may_have_spent());
    assert_eq!(story.asking.last_asked(), route(3, A).owner());
}

#[test]
fn an_attempt_that_grew_too_old_to_be_answered_is_asked_again() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.next_timeout(40);
    story.expect(&[Step::Refresh, send(2, route(3, A), 60)]);
    story.next_timeout(80);
    story.expect(&[Step::Refresh, send(3, route(3, A), 20)]);
    story.next_timeout(100);
    story.expect(&[failed(WhyFailed::Silence)]);
}

#[test]
fn an_answer_to_any_attempt_that_is_young_enough_counts() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.next_timeout(40);
    story.expect(&[Step::Refresh, send(2, route(3, A), 60)]);
    story.decided(41, 1, 3);
    story.expect(&[]);
    story.decided(42, 2, 3);
    story.expect(&[allowed()]);
}

#[test]
fn a_late_answer_is_dropped_and_asked_again_at_once() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    // The shell was busy: the answer is handed in before the timeout.
    story.decided(41, 1, 3);
    story.expect(&[Step::Refresh, send(2, route(3, A), 59)]);
    story.decided(81, 2, 3);
    story.expect(&[allowed()]);
}

#[test]
fn s12_an_answer_from_an_epoch_that_is_over_is_dropped() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.asking.handle_route(route(4, B), ms(5));
    story.expect(&[send(2, route(4, B), 95)]);
    story.decided(6, 1, 3);
    story.expect(&[]);
    story.decided(7, 2, 4);
    story.expect(&[allowed()]);
}

#[test]
fn an_answer_from_a_later_epoch_than_known_counts() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.decided(2, 1, 9);
    story.expect(&[allowed()]);
}

#[test]
fn a_moved_partition_is_asked_once_more_at_its_new_owner_when_the_old_one_names_it() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.answer(2, 1, 4, not_owner(4, Some(B)));
    story.expect(&[Step::Refresh, send(2, route(4, B), 98)]);
    story.decided(3, 2, 4);
    story.expect(&[allowed()]);
}

#[test]
fn without_a_hint_a_moved_partition_is_asked_again_as_soon_as_a_newer_route_is_known() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.answer(2, 1, 3, not_owner(3, None));
    story.expect(&[Step::Refresh]);
    assert!(!story.asking.may_have_spent(), "nothing was spent");
    story.asking.handle_route(route(3, A), ms(2));
    story.expect(&[]);
    story.asking.handle_route(route(4, B), ms(9));
    story.expect(&[send(2, route(4, B), 91)]);
}

#[test]
fn an_owner_that_does_not_know_yet_that_it_is_one_is_asked_again_at_half_the_budget() {
    let mut story = Story::begin(route(4, B));
    story.expect(&[send(1, route(4, B), 100)]);
    story.answer(20, 1, 3, not_owner(3, Some(A)));
    story.expect(&[Step::Refresh]);
    story.next_timeout(40);
    story.expect(&[Step::Refresh, send(2, route(4, B), 60)]);
}

#[test]
fn an_owner_that_cannot_say_is_asked_again_when_time_is_left_or_the_route_changes() {
    for why in [Unknown::Lease, Unknown::Record, Unknown::Clock] {
        let mut story = Story::begin(route(3, A));
        story.expect(&[send(1, route(3, A), 100)]);
        story.answer(1, 1, 3, Answer::Unknown(why));
        story.expect(&[Step::Refresh]);
        story.next_timeout(40);
        story.expect(&[Step::Refresh, send(2, route(3, A), 60)]);
        story.answer(41, 2, 3, Answer::Unknown(why));
        story.expect(&[Step::Refresh]);
        story.asking.handle_route(route(4, B), ms(43));
        story.expect(&[send(3, route(4, B), 57)]);
        story.answer(44, 3, 4, Answer::Unknown(why));
        story.asking.handle_timeout(ms(100));
        story.expect(&[failed(WhyFailed::Unknown(why))]);
        assert!(!story.asking.may_have_spent());
    }
}

#[test]
fn an_owner_whose_log_is_behind_is_asked_again_after_pauses_that_grow() {
    let patience = Patience { budget: Span::from_millis(200), d_max: Span::from_millis(90) };
    let mut story = Story::with(patience, route(3, A));
    let behind = || Answer::Unknown(Unknown::Policy);
    story.expect(&[send(1, route(3, A), 200)]);
    story.answer(1, 1, 3, behind());
    story.expect(&[Step::Refresh]);
    story.next_timeout(11);
    story.expect(&[Step::Refresh, send(2, route(3, A), 189)]);
    story.answer(12, 2, 3, behind());
    story.expect(&[Step::Refresh]);
    story.next_timeout(32);
    story.expect(&[Step::Refresh, send(3, route(3, A), 168)]);
    story.decided(33, 3, 3);
    story.expect(&[allowed()]);
}

#[test]
fn an_owner_whose_log_stays_behind_is_unknown_at_the_deadline_and_spent_nothing() {
    let mut story = Story::begin(route(3, A));
    let mut attempt = 1;
    while let Some(at) = story.asking.poll_timeout() {
        while let Some(step) = story.asking.poll_step() {
            if let Step::Send { attempt: sent, .. } = step {
                attempt = sent;
                story.asking.handle_answer(sent, Epoch(3), Answer::Unknown(Unknown::Policy), at);
            }
        }
        story.asking.handle_timeout(at);
    }
    story.expect(&[failed(WhyFailed::Unknown(Unknown::Policy))]);
    assert!((3..=ATTEMPTS_MAX).contains(&attempt) && !story.asking.may_have_spent(), "{attempt}");
}

#[test]
fn an_owner_that_has_to_write_first_is_asked_soon_and_for_as_long_as_a_store_may_be_silent() {
    let patience = Patience { budget: Span::from_secs(1), d_max: Span::from_millis(250) };
    let mut story = Story::with(patience, route(3, A));
    let mut sent_at = Vec::new();
    let mut now = ms(0);
    loop {
        while let Some(step) = story.asking.poll_step() {
            if let Step::Send { attempt, .. } = step {
                sent_at.push(now);
                story.asking.handle_answer(attempt, Epoch(3), Answer::Unknown(Unknown::Allowance), now);
            }
        }
        let Some(at) = story.asking.poll_timeout() else { break };
        now = at;
        story.asking.handle_timeout(at);
    }
    // A store is given up after 200 ms, and the log is to hear of it; nobody waits for longer than an answer may be old.
    assert_eq!(sent_at, [0, 2, 10, 42, 170, 420].map(ms));
}

#[test]
fn a_pause_is_over_once_although_nobody_is_left_to_be_asked() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.answer(1, 1, 3, Answer::Unknown(Unknown::Policy));
    story.expect(&[Step::Refresh]);
    story.asking.handle_route(Route { epoch: Epoch(4), session: None }, ms(2));
    story.next_timeout(11);
    while story.asking.poll_step().is_some() {}
    assert!(story.asking.poll_timeout() > Some(ms(11)), "it does not come back to the same moment");
}

#[test]
fn an_owner_with_a_newer_policy_settles_the_question_for_now_and_spent_nothing() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.answer(1, 1, 3, Answer::StaleRevision { revision: 8 });
    story.expect(&[Step::Done(Outcome::Stale { revision: 8 })]);
    assert!(!story.asking.may_have_spent());
}

#[test]
fn a_question_whose_owner_is_silent_to_everybody_fails_at_once() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.asking.handle_barred(1, ms(0));
    story.expect(&[failed(WhyFailed::CircuitOpen)]);
    assert!(!story.asking.may_have_spent());
}

#[test]
fn a_question_that_is_under_way_waits_for_its_answer_though_it_is_not_put_again() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.next_timeout(40);
    story.expect(&[Step::Refresh, send(2, route(3, A), 60)]);
    story.asking.handle_barred(2, ms(40));
    story.expect(&[Step::Refresh]);
    assert!(story.asking.may_have_spent());
    story.asking.handle_timeout(ms(100));
    story.expect(&[failed(WhyFailed::CircuitOpen)]);
}

#[test]
fn a_full_table_and_a_reused_id_are_answers() {
    let settle = |answer| {
        let mut story = Story::begin(route(3, A));
        story.expect(&[send(1, route(3, A), 100)]);
        story.answer(1, 1, 3, answer);
        story.asking.poll_step()
    };
    let full = settle(Answer::Unknown(Unknown::TableFull { leg: 1 }));
    assert_eq!(full, Some(Step::Done(Outcome::TableFull { leg: 1 })));
    assert_eq!(settle(Answer::IdReused), Some(Step::Done(Outcome::IdReused)));
}

#[test]
fn an_unreachable_owner_is_asked_again_at_once_only_if_the_route_changed() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.asking.handle_unreachable(1, Delivery::NeverSent, ms(1));
    story.expect(&[Step::Refresh]);
    assert!(!story.asking.may_have_spent(), "it never left");
    story.asking.handle_route(route(4, B), ms(1));
    story.expect(&[send(2, route(4, B), 99)]);
    story.asking.handle_unreachable(2, Delivery::Lost, ms(2));
    story.expect(&[Step::Refresh]);
    story.next_timeout(41);
    story.expect(&[Step::Refresh, send(3, route(4, B), 59)]);
    story.asking.handle_unreachable(3, Delivery::NeverSent, ms(42));
    story.asking.handle_timeout(ms(100));
    story.expect(&[failed(WhyFailed::Unreachable)]);
    assert!(story.asking.may_have_spent(), "the second may have arrived");
}

#[test]
fn a_question_without_an_owner_waits_for_one() {
    let vacant = Route { epoch: Epoch(3), session: None };
    let mut story = Story::begin(vacant);
    story.expect(&[Step::Refresh]);
    story.next_timeout(40);
    story.expect(&[Step::Refresh]);
    story.asking.handle_route(route(3, A), ms(45));
    story.expect(&[send(1, route(3, A), 55)]);
    story.decided(46, 1, 3);
    story.expect(&[allowed()]);

    let mut forlorn = Story::begin(vacant);
    forlorn.expect(&[Step::Refresh]);
    forlorn.asking.handle_timeout(ms(100));
    forlorn.expect(&[failed(WhyFailed::NoOwner)]);
    assert_eq!((forlorn.asking.last_asked(), forlorn.asking.may_have_spent()), (None, false));
}

#[test]
fn a_new_reign_of_the_same_session_does_not_disturb_a_question_on_its_way() {
    let mut story = Story::begin(route(3, A));
    story.expect(&[send(1, route(3, A), 100)]);
    story.asking.handle_route(route(5, A), ms(3));
    story.expect(&[]);
    story.decided(4, 1, 5);
    story.expect(&[allowed()]);
}

#[test]
fn a_lagging_owner_that_answers_from_an_old_epoch_is_given_time() {
    let mut story = Story::begin(route(5, A));
    story.expect(&[send(1, route(5, A), 100)]);
    story.decided(2, 1, 4);
    story.expect(&[Step::Refresh]);
    assert!(story.asking.may_have_spent(), "its old epoch may have charged");
    story.next_timeout(40);
    story.expect(&[Step::Refresh, send(2, route(5, A), 60)]);
}

#[test]
fn the_number_of_attempts_is_bounded_however_often_the_map_changes() {
    let mut story = Story::begin(route(1, A));
    for epoch in 2..20 {
        story.asking.handle_route(route(epoch, 1 + epoch % 2), ms(1));
        while story.asking.poll_step().is_some() {}
    }
    story.asking.handle_timeout(ms(60));
    story.expect(&[Step::Refresh]);
    assert_eq!(story.asking.poll_timeout(), Some(ms(100)), "only the deadline is left");
    story.decided(90, ATTEMPTS_MAX + 1, 30);
    story.expect(&[]);
    story.next_timeout(100);
    story.expect(&[failed(WhyFailed::Silence)]);
}

#[test]
fn a_callers_own_count_of_attempts_goes_on_here() {
    let patience = Patience { budget: Span::from_millis(100), d_max: Span::from_millis(40) };
    for (callers, first) in [(0, 1), (2, 2), (u8::MAX, u8::MAX - ATTEMPTS_MAX)] {
        let mut story = Story { asking: Asking::new(ID, callers, patience, route(3, A), ms(0)) };
        story.expect(&[send(first, route(3, A), 100)]);
        story.next_timeout(40);
        story.expect(&[Step::Refresh, send(first + 1, route(3, A), 60)]);
        story.decided(41, first + 1, 3);
        story.expect(&[allowed()]);
    }
}

#[test]
fn an_answer_at_the_deadline_is_too_late() {
    let mut story = Story::with(Patience { budget: Span::from_millis(10), d_max: Span::from_millis(40) }, route(3, A));
    story.expect(&[send(1, route(3, A), 10)]);
    story.decided(10, 1, 3);
    story.expect(&[failed(WhyFailed::Silence)]);
    assert!(story.asking.may_have_spent());
}

#[test]
fn a_question_without_any_budget_fails_without_being_asked() {
    let mut story = Story::with(Patience { budget: Span::ZERO, d_max: Span::from_millis(40) }, route(3, A));
    story.expect(&[]);
    story.asking.handle_timeout(ms(0));
    story.expect(&[failed(WhyFailed::Silence)]);
    assert!(!story.asking.may_have_spent());
}

#[test]
fn one_question_is_small() {
    assert!(size_of::<Asking>() <= 512, "{} bytes", size_of::<Asking>());
}
