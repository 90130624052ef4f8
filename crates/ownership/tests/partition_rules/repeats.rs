//! A question that is asked twice, given up, or settled without an answer: what is charged is charged once.

use limits::{Basis, Now};
use proptest::prelude::*;
use ringfence_ownership::{
    Act, Answer, Asker, CHARGED_RECORDS_MAX, Cancelled, Check, CheckId, Epoch, FREE_RECORDS_MAX, Floor, Partition,
    RECORD_HORIZON, Unknown, Verdict,
};

use crate::desk::*;

const RECORD: Answer = Answer::Unknown(Unknown::Record);

/// Twenty units in any year, so that nothing comes back by itself.
fn twenty() -> Desk {
    Desk::with(LOG, 20, limits::PERIOD_MAX, Basis::Hi)
}

fn horizon() -> u64 {
    RECORD_HORIZON.as_nanos()
}

#[test]
fn a_question_asked_again_gets_its_recorded_answer_and_is_not_charged_again() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    let answer = desk.decide(&mut partition, &check, at_millis(1));
    let again = desk.decide(&mut partition, &check.again(), at_millis(900));
    assert_eq!(again, Verdict { replayed: true, ..answer });
    assert_eq!(desk.used(&mut partition, 1, at_millis(900)), 7);
}

#[test]
fn a_denial_is_remembered_too_so_that_one_question_has_one_answer() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let full = first(1).spending(1, 20);
    assert!(desk.decide(&mut partition, &full, at_millis(1)).allowed);
    let denied = first(2).spending(1, 1);
    assert!(!desk.decide(&mut partition, &denied, at_millis(2)).allowed);
    partition.cancel(full.id, FIRST, &desk, at_millis(3));

    let again = desk.decide(&mut partition, &denied.again(), at_millis(4));
    assert!(again.replayed && !again.allowed);
    assert!(desk.decide(&mut partition, &first(3).spending(1, 1), at_millis(4)).allowed);
}

#[test]
fn a_record_is_forgotten_exactly_at_its_horizon() {
    let desk = twenty();
    for (age, replayed) in [(horizon() - 1, true), (horizon(), false)] {
        let mut partition = owned(Floor::Fresh);
        let check = first(1).spending(1, 7);
        desk.decide(&mut partition, &check, at_nanos(5));
        assert_eq!(desk.decide(&mut partition, &check.again(), at_nanos(5 + age)).replayed, replayed);
    }
}

#[test]
fn a_callers_own_id_is_looked_up_at_its_first_attempt_already() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7).named_by_its_caller();
    assert!(!desk.decide(&mut partition, &check, at_millis(1)).replayed);
    assert!(desk.decide(&mut partition, &check, at_millis(2)).replayed);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
}

#[test]
fn a_known_id_under_another_question_is_refused_as_reused() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7).named_by_its_caller();
    desk.decide(&mut partition, &check, at_millis(1));
    assert_eq!(desk.ask(&mut partition, &check.clone().about(78), at_millis(2)), Answer::IdReused);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
    assert!(desk.decide(&mut partition, &check, at_millis(3)).replayed);
}

#[test]
fn a_late_first_attempt_at_a_question_that_was_asked_again_meanwhile_is_not_charged() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let delayed = first(1).spending(1, 7);
    assert!(!desk.decide(&mut partition, &delayed.again(), at_millis(1)).replayed);
    assert!(desk.decide(&mut partition, &delayed, at_millis(1_500)).replayed);
    assert_eq!(desk.used(&mut partition, 1, at_millis(1_500)), 7);
}

#[test]
fn a_recorded_answer_about_other_limits_than_are_asked_for_now_is_not_told_and_nothing_is_charged() {
    let desk = twenty().and(2, LOG, 20, limits::PERIOD_MAX, Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    desk.decide(&mut partition, &check, at_millis(1));
    assert_eq!(desk.ask(&mut partition, &check.again().spending(2, 7), at_millis(2)), RECORD);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
    assert_eq!(desk.used(&mut partition, 2, at_millis(2)), 0);
}

#[test]
fn a_cancelled_check_leaves_nothing_charged_on_any_of_its_keys() {
    let desk = twenty().and(2, bucket(20), 1, limits::PERIOD_MAX, Basis::Hi).and(3, bucket(20), 1, secs(9), Basis::Lo);
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7).spending(2, 7).watching(3, 7);
    assert!(desk.decide(&mut partition, &check, at_millis(1)).allowed);
    assert_eq!(partition.cancel(check.id, FIRST, &desk, at_millis(1)), Cancelled::Undone);
    for limit in [1, 2, 3] {
        assert_eq!(desk.used(&mut partition, limit, at_millis(1)), 0, "limit {limit}");
    }
    assert_eq!(desk.ask(&mut partition, &check.again(), at_millis(2)), RECORD, "and it is not charged again");
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 0);
}

#[test]
fn a_cancel_that_overtakes_its_check_leaves_nothing_charged() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    assert_eq!(partition.cancel(check.id, FIRST, &desk, at_millis(1)), Cancelled::Tombstone);
    assert_eq!(desk.ask(&mut partition, &check, at_millis(2)), RECORD);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 0);
    assert!(desk.decide(&mut partition, &first(2).spending(1, 7), at_millis(2)).allowed, "others are decided");
}

#[test]
fn cancelling_twice_is_cancelling_once() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let [kept, given_up] = [first(1).spending(1, 7), first(2).spending(1, 5)];
    desk.decide(&mut partition, &kept, at_millis(1));
    desk.decide(&mut partition, &given_up, at_millis(1));
    for _ in 0..2 {
        assert_eq!(partition.cancel(given_up.id, FIRST, &desk, at_millis(2)), Cancelled::Undone);
        assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
    }
}

#[test]
fn what_two_askers_were_told_neither_of_them_takes_back_alone() {
    let desk = twenty();
    for giving_up in [FIRST, SECOND] {
        let mut partition = owned(Floor::Fresh);
        let check = first(1).spending(1, 7);
        assert!(desk.decide(&mut partition, &check, at_millis(1)).allowed);
        // The caller heard nothing and went to another node, which lets it pass.
        assert!(desk.decide(&mut partition, &check.again().asked_by(SECOND), at_millis(2)).replayed);
        assert_eq!(partition.cancel(check.id, giving_up, &desk, at_millis(3)), Cancelled::Stands);
        assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 7, "given up by {giving_up:?}");
    }
}

#[test]
fn a_cancel_by_an_asker_whose_question_never_came_takes_nothing_from_another() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    assert!(desk.decide(&mut partition, &check, at_millis(1)).allowed);
    assert_eq!(partition.cancel(check.id, SECOND, &desk, at_millis(2)), Cancelled::Stands);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
}

#[test]
fn what_one_asker_let_pass_is_not_booked_where_another_was_told_of_a_decision() {
    let desk = Desk::with(LOG, 20, limits::PERIOD_MAX, Basis::Lo);
    let mut partition = owned(Floor::Fresh);
    desk.decide(&mut partition, &first(1).spending(1, 20), at_millis(1));
    let refused = first(2).spending(1, 7);
    assert!(!desk.decide(&mut partition, &refused.clone().asked_by(SECOND), at_millis(2)).allowed);
    assert!(!partition.debt(refused.id, FIRST, &refused.legs, &desk, at_millis(3)), "its caller went by the refusal");
    assert!(partition.debt(refused.id, SECOND, &refused.legs, &desk, at_millis(3)), "its own asker may");
}

#[test]
fn an_asker_that_asked_twice_is_still_one_asker() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    desk.decide(&mut partition, &check, at_millis(1));
    assert!(desk.decide(&mut partition, &check.again(), at_millis(2)).replayed);
    assert_eq!(partition.cancel(check.id, FIRST, &desk, at_millis(3)), Cancelled::Undone);
    assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 0);
}

#[test]
fn after_a_cancel_nobody_else_who_asks_is_let_pass() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    desk.decide(&mut partition, &check, at_millis(1));
    assert_eq!(partition.cancel(check.id, FIRST, &desk, at_millis(2)), Cancelled::Undone);
    assert_eq!(desk.ask(&mut partition, &check.again().asked_by(SECOND), at_millis(3)), RECORD);
    assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 0);
}

#[test]
fn a_cancel_at_a_node_that_is_not_the_owner_changes_nothing() {
    let mut partition = Partition::vacant();
    assert_eq!(partition.cancel(CheckId(1), FIRST, &twenty(), at_millis(1)), Cancelled::NotOwner);
}

#[test]
fn a_debt_books_what_was_spent_without_an_answer_and_its_late_check_is_not_charged_on_top() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    assert!(partition.debt(check.id, FIRST, &check.legs, &desk, at_millis(1)));
    assert_eq!(desk.ask(&mut partition, &check, at_millis(2)), RECORD);
    assert!(!partition.debt(check.id, FIRST, &check.legs, &desk, at_millis(3)));
    assert_eq!(desk.used(&mut partition, 1, at_millis(3)), 7);
}

#[test]
fn a_debt_for_a_check_whose_answer_was_lost_is_not_charged_twice() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    desk.decide(&mut partition, &check, at_millis(1));
    assert!(partition.debt(check.id, FIRST, &check.legs, &desk, at_millis(2)));
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
}

#[test]
fn a_debt_counts_even_above_the_limit_because_it_was_spent() {
    let desk = Desk::with(bucket(10), 10, secs(1), Basis::Lo);
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 15);
    partition.debt(check.id, FIRST, &check.legs, &desk, at_millis(0));
    assert!(!desk.decide(&mut partition, &first(2).spending(1, 1), at_millis(599)).allowed);
    assert!(desk.decide(&mut partition, &first(3).spending(1, 1), at_millis(600)).allowed);
}

#[test]
fn of_a_check_with_open_and_emergency_legs_only_the_debt_stays_whichever_message_comes_first() {
    let desk = twenty().and(2, LOG, 20, limits::PERIOD_MAX, Basis::Lo);
    let check = first(1).spending(1, 7).spending(2, 7);
    let open = [leg(2, 7)];
    for decided_before in [false, true] {
        for cancel_first in [false, true] {
            let mut partition = owned(Floor::Fresh);
            if decided_before {
                desk.decide(&mut partition, &check, at_millis(1));
            }
            if cancel_first {
                partition.cancel(check.id, FIRST, &desk, at_millis(2));
            }
            partition.debt(check.id, FIRST, &open, &desk, at_millis(2));
            partition.cancel(check.id, FIRST, &desk, at_millis(2));
            let used = [1, 2].map(|limit| desk.used(&mut partition, limit, at_millis(3)));
            assert_eq!(used, [0, 7], "decided before: {decided_before}, cancel first: {cancel_first}");
        }
    }
}

#[test]
fn a_peek_leaves_no_record_and_needs_none() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let peek = first(1).spending(1, 0).named_by_its_caller();
    desk.decide(&mut partition, &peek, at_millis(1));
    desk.decide(&mut partition, &first(2).spending(1, 3), at_millis(1));
    let again = desk.decide(&mut partition, &peek, at_millis(1));
    assert_eq!((again.replayed, again.legs[0].remaining), (false, 17));
}

#[test]
fn what_a_crashed_owner_charged_its_successor_charges_again_and_the_limit_holds() {
    let desk = Desk::with(bucket(20), 20, secs(1), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7);
    assert!(desk.decide(&mut partition, &check, at_millis(1)).allowed);

    let mut successor = Partition::vacant();
    successor.activate(Epoch(2), SESSION, taken_over(at_millis(2)));
    let again = desk.decide(&mut successor, &check.again(), at_millis(1_002));
    assert!(again.allowed && !again.replayed);
    assert_eq!(desk.used(&mut successor, 1, at_millis(1_002)), 7);
}

#[test]
fn a_partition_that_comes_back_to_its_node_remembers_no_question_of_the_reign_before() {
    let desk = twenty();
    let mut partition = owned(Floor::Fresh);
    let check = first(1).spending(1, 7).named_by_its_caller();
    desk.decide(&mut partition, &check, at_millis(1));
    partition.deactivate(Epoch(2), None, &desk);
    partition.activate(Epoch(3), SESSION, Floor::Fresh);
    assert!(!desk.decide(&mut partition, &check, at_millis(2)).replayed);
    assert_eq!(desk.used(&mut partition, 1, at_millis(2)), 7);
}

/// A limit that admits whatever these tests ask of it.
fn plenty() -> Desk {
    Desk::with(bucket(1_000_000_000), 1, limits::PERIOD_MAX, Basis::Hi).and(2, bucket(0), 0, secs(1), Basis::Hi)
}

fn ask_many(desk: &Desk, partition: &mut Partition, ids: std::ops::Range<u128>, limit: u32, now: Now) {
    for id in ids {
        desk.decide(partition, &first(id).spending(limit, 1), now);
    }
}

#[test]
fn a_question_whose_record_was_lost_for_space_is_not_decided_anew_until_the_horizon_has_passed() {
    let desk = plenty();
    let mut partition = owned(Floor::Fresh);
    let most = CHARGED_RECORDS_MAX as u128;
    ask_many(&desk, &mut partition, 0..most, 1, at_nanos(1));
    assert!(desk.decide(&mut partition, &first(0).spending(1, 1).again(), at_nanos(1)).replayed, "all fit");

    ask_many(&desk, &mut partition, most..most + 1, 1, at_nanos(2));
    let lost = first(0).spending(1, 1).again();
    assert_eq!(desk.ask(&mut partition, &lost, at_nanos(horizon())), RECORD);
    assert!(desk.decide(&mut partition, &first(1).spending(1, 1).again(), at_nanos(horizon())).replayed);
    assert_eq!(desk.used(&mut partition, 1, at_nanos(horizon())), CHARGED_RECORDS_MAX as u64 + 1);
    assert!(
        desk.decide(&mut partition, &first(1 << 100).spending(1, 1), at_nanos(horizon())).allowed,
        "first attempts go on"
    );
    assert!(!desk.decide(&mut partition, &lost, at_nanos(horizon() + 1)).replayed);
}

#[test]
fn while_records_are_lost_only_who_asks_again_is_turned_away() {
    let desk = plenty();
    let mut partition = owned(Floor::Fresh);
    ask_many(&desk, &mut partition, 0..CHARGED_RECORDS_MAX as u128 + 1, 1, at_nanos(1));
    partition.cancel(CheckId(u128::MAX), FIRST, &desk, at_nanos(1));
    let unheard = first(1 << 100).spending(1, 1);
    assert!(desk.decide(&mut partition, &unheard, at_nanos(2)).allowed, "although first attempts are looked up now");
    let own_id = first(1 << 101).spending(1, 1).named_by_its_caller();
    assert_eq!(desk.ask(&mut partition, &own_id, at_nanos(2)), RECORD, "it may have come before");
}

#[test]
fn a_lost_record_of_what_was_taken_back_turns_nobody_away_and_one_of_a_debt_does() {
    let desk = plenty();
    for settled in [false, true] {
        let mut partition = owned(Floor::Fresh);
        ask_many(&desk, &mut partition, 0..CHARGED_RECORDS_MAX as u128, 1, at_nanos(1));
        partition.cancel(CheckId(0), FIRST, &desk, at_nanos(1));
        if settled {
            partition.debt(CheckId(0), FIRST, &[leg(1, 1)], &desk, at_nanos(1));
        }
        desk.decide(&mut partition, &first(1 << 100).spending(1, 1), at_nanos(1));
        let answer = desk.ask(&mut partition, &first(0).spending(1, 1).again(), at_nanos(2));
        assert_eq!(answer == RECORD, settled, "{answer:?}");
    }
}

#[test]
fn a_flood_of_denials_pushes_out_no_record_of_a_charge() {
    let desk = plenty();
    let mut partition = owned(Floor::Fresh);
    let charged = first(u128::MAX).spending(1, 1);
    desk.decide(&mut partition, &charged, at_nanos(1));
    ask_many(&desk, &mut partition, 0..2 * FREE_RECORDS_MAX as u128, 2, at_nanos(2));
    assert!(desk.decide(&mut partition, &charged.again(), at_nanos(3)).replayed);
    let forgotten = first(0).spending(2, 1).again();
    assert!(!desk.decide(&mut partition, &forgotten, at_nanos(3)).replayed, "a forgotten denial is decided anew");
}

#[test]
fn a_flood_of_denials_does_not_wash_away_that_a_debt_was_booked() {
    let desk = plenty();
    let mut partition = owned(Floor::Fresh);
    let settled = first(u128::MAX).spending(1, 5);
    assert!(partition.debt(settled.id, FIRST, &settled.legs, &desk, at_nanos(1)));
    ask_many(&desk, &mut partition, 0..2 * FREE_RECORDS_MAX as u128, 2, at_nanos(2));
    assert_eq!(desk.ask(&mut partition, &settled, at_nanos(3)), RECORD);
    assert_eq!(desk.used(&mut partition, 1, at_nanos(3)), 5);
}

#[test]
fn a_debt_that_may_be_charged_already_under_a_lost_record_is_not_booked() {
    let desk = plenty();
    let mut partition = owned(Floor::Fresh);
    ask_many(&desk, &mut partition, 0..CHARGED_RECORDS_MAX as u128 + 1, 1, at_nanos(1));
    let before = desk.used(&mut partition, 1, at_nanos(1));
    assert!(!partition.debt(CheckId(0), FIRST, &[leg(1, 1)], &desk, at_nanos(1)));
    assert_eq!(desk.used(&mut partition, 1, at_nanos(1)), before);
}

#[test]
fn a_debt_whose_tombstone_takes_the_last_room_is_booked_all_the_same() {
    let desk = plenty();
    let mut partition = owned(Floor::Fresh);
    ask_many(&desk, &mut partition, 0..CHARGED_RECORDS_MAX as u128, 1, at_nanos(1));
    assert!(partition.debt(CheckId(u128::MAX), FIRST, &[leg(1, 5)], &desk, at_nanos(1)));
    assert_eq!(desk.used(&mut partition, 1, at_nanos(1)), CHARGED_RECORDS_MAX as u64 + 5);
}

/// What happens in a random history about a handful of ids.
#[derive(Clone, Debug)]
enum Step {
    Ask { id: u8, asker: u64, attempt: u8, indexed: bool, question: u8, cost: u64 },
    Cancel { id: u8, asker: u64 },
    Debt { id: u8, asker: u64, cost: u64 },
    Pass { millis: u64 },
    GoBack { millis: u64 },
    Sweep { steps: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..6_u8;
    prop_oneof![
        6 => (id.clone(), 1..3_u64, 1..4_u8, any::<bool>(), 0..20_u8, 1..5_u64)
            .prop_map(|(id, asker, attempt, indexed, odd, cost)| {
                Step::Ask { id, asker, attempt, indexed, question: u8::from(odd == 0), cost }
            }),
        2 => (id.clone(), 1..3_u64).prop_map(|(id, asker)| Step::Cancel { id, asker }),
        1 => (id, 1..3_u64, 1..5_u64).prop_map(|(id, asker, cost)| Step::Debt { id, asker, cost }),
        2 => (1..1_500_u64).prop_map(|millis| Step::Pass { millis }),
        1 => (1..500_u64).prop_map(|millis| Step::GoBack { millis }),
        1 => (0..4_usize).prop_map(|steps| Step::Sweep { steps }),
    ]
}

/// The slow twin: everything that ever happened, in a list that is read from the end, and what stands charged.
#[derive(Default)]
struct Twin {
    nanos: u64,
    past: Vec<Past>,
    debts: u64,
    watched_since: Option<u64>,
}

struct Past {
    id: u8,
    /// What was asked, unless it was ended before it came.
    question: Option<u8>,
    when: u64,
    fate: Fate,
    charged: u64,
    /// Everybody who was told of the decision.
    told: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Fate {
    Decided { allowed: bool },
    Cancelled,
    Settled,
}

/// An answer, as far as the twin can tell it.
#[derive(Debug, PartialEq)]
enum Said {
    Verdict { allowed: bool, replayed: bool },
    Record,
    OtherQuestion,
}

impl Said {
    fn of(answer: Answer) -> Said {
        match answer {
            Answer::Decided(Verdict { allowed, replayed, .. }) => Said::Verdict { allowed, replayed },
            Answer::Unknown(Unknown::Record) => Said::Record,
            Answer::IdReused => Said::OtherQuestion,
            Answer::NotOwner { .. } | Answer::Unknown(_) | Answer::StaleRevision { .. } => {
                panic!("an owner of known limits can say: {answer:?}")
            }
        }
    }
}

impl Twin {
    fn used(&self) -> u64 {
        self.debts + self.past.iter().map(|past| past.charged).sum::<u64>()
    }

    fn is_recent(&self, when: u64) -> bool {
        self.nanos - when < horizon()
    }

    fn known(&mut self, id: u8) -> Option<&mut Past> {
        let place = self.past.iter().rposition(|past| past.id == id && self.is_recent(past.when))?;
        Some(&mut self.past[place])
    }

    fn ask(&mut self, id: u8, asker: u64, attempt: u8, indexed: bool, question: u8, cost: u64) -> Said {
        let watched = self.watched_since.is_some_and(|when| self.is_recent(when));
        if let Some(past) = self.known(id).filter(|_| indexed || attempt > 1 || watched) {
            return match past.fate {
                _ if past.question.is_some_and(|before| before != question) => Said::OtherQuestion,
                Fate::Decided { allowed } => {
                    past.told.push(asker);
                    Said::Verdict { allowed, replayed: true }
                }
                Fate::Cancelled | Fate::Settled => Said::Record,
            };
        }
        let allowed = self.used() + cost <= 20;
        if attempt > 1 {
            self.watched_since = Some(self.nanos);
        }
        self.remember(id, Some(question), Fate::Decided { allowed }, if allowed { cost } else { 0 });
        self.past.last_mut().unwrap().told.push(asker);
        Said::Verdict { allowed, replayed: false }
    }

    fn cancel(&mut self, id: u8, asker: u64) {
        match self.known(id) {
            Some(Past { fate: Fate::Settled, .. }) => {}
            Some(Past { fate: Fate::Decided { .. }, told, .. }) if told.iter().any(|told| *told != asker) => {}
            Some(past) => (past.fate, past.charged) = (Fate::Cancelled, 0),
            None => self.leave_tombstone(id, Fate::Cancelled),
        }
    }

    fn debt(&mut self, id: u8, asker: u64, cost: u64) {
        match self.known(id) {
            Some(Past { fate: Fate::Settled, .. }) => return,
            Some(Past { fate: Fate::Decided { .. }, told, .. }) if told.iter().any(|told| *told != asker) => return,
            Some(past) => (past.fate, past.charged) = (Fate::Settled, 0),
            None => self.leave_tombstone(id, Fate::Settled),
        }
        self.debts += cost.min(40_u64.saturating_sub(self.used()));
    }

    fn leave_tombstone(&mut self, id: u8, fate: Fate) {
        self.watched_since = Some(self.nanos);
        self.remember(id, None, fate, 0);
    }

    fn remember(&mut self, id: u8, question: Option<u8>, fate: Fate, charged: u64) {
        self.past.push(Past { id, question, when: self.nanos, fate, charged, told: Vec::new() });
    }
}

/// One attempt more than the twin knows of: the same id twice at a first attempt, unlooked-up, is two records, and the
/// partition may find either. A caller that does so breaks its own promise, so the histories leave it out.
fn is_a_careless_repeat(twin: &mut Twin, id: u8, attempt: u8, indexed: bool) -> bool {
    let watched = twin.watched_since.is_some_and(|when| twin.is_recent(when));
    !indexed && attempt == 1 && !watched && twin.known(id).is_some()
}

fn check_against(twin: &mut Twin, step: &Step, desk: &Desk, partition: &mut Partition, clock: &mut u64) {
    let now = at_nanos(*clock);
    let id_of = |id: u8| CheckId(u128::from(id) << 61 | u128::from(id));
    match *step {
        Step::Ask { id, asker, attempt, indexed, question, cost } => {
            if is_a_careless_repeat(twin, id, attempt, indexed) {
                return;
            }
            let legs = first(0).spending(1, cost).legs;
            let (id_asked, asked_by) = (id_of(id), Asker(asker));
            let question_asked = u64::from(question);
            let check = Check {
                id: id_asked,
                asker: asked_by,
                attempt,
                indexed,
                revision: 0,
                question: question_asked,
                act: Act::Spend,
                legs,
            };
            let said = Said::of(desk.ask(partition, &check, now));
            assert_eq!(said, twin.ask(id, asker, attempt, indexed, question, cost));
        }
        Step::Cancel { id, asker } => {
            twin.cancel(id, asker);
            partition.cancel(id_of(id), Asker(asker), desk, now);
        }
        Step::Debt { id, asker, cost } => {
            twin.debt(id, asker, cost);
            partition.debt(id_of(id), Asker(asker), &[leg(1, cost)], desk, now);
        }
        Step::Pass { millis } => *clock += millis * 1_000_000,
        Step::GoBack { millis } => *clock = clock.saturating_sub(millis * 1_000_000),
        Step::Sweep { steps } => drop(partition.sweep(desk, now, steps)),
    }
    twin.nanos = twin.nanos.max(*clock);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_history_of_asking_again_giving_up_and_settling_charges_each_question_at_most_once(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let desk = twenty();
        let mut partition = owned(Floor::Fresh);
        let (mut twin, mut clock) = (Twin::default(), 0);
        for step in &steps {
            check_against(&mut twin, step, &desk, &mut partition, &mut clock);
            prop_assert_eq!(desk.used(&mut partition, 1, at_nanos(clock)), twin.used().min(20), "after {:?}", step);
        }
    }
}
