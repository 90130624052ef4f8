//! From outcomes to a decision: who answers for the silent, what is granted, and what is told and given back afterwards.

use limits::{
    Algorithm, Basis, DomainId, FailMode, Fingerprint, LegDecision, LimitId, Moment, Now, Rate, Shape, Span, Variant,
    Wait,
};
use ringfence_ownership::ingress::{After, AskedLeg, Came, Found, Outcome, Said, WhyFailed, conclude, found};
use ringfence_ownership::{Act, CheckId, Emergency, EmergencyAnswer, EmergencyLeg, Verdict};
use smallvec::SmallVec;

const SILENCE: Outcome = Outcome::Failed(WhyFailed::Silence);
const EMERGENCY: FailMode = FailMode::Emergency { percent: 100, reserved: false };

fn whole() -> Shape {
    let rate = Rate::new(10, Span::from_secs(1)).ok();
    let algorithm = Algorithm::SlidingLog { max_entries: 16 };
    Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis: Basis::Hi }
}

fn leg(group: u8, place: u8, fail: FailMode) -> AskedLeg {
    AskedLeg {
        limit: LimitId(1),
        variant: Variant::OWN,
        key: Fingerprint([u64::from(group), u64::from(place)]),
        cost: 2,
        shadow: false,
        fail,
        when_full: fail,
        whole: whole(),
        group,
        place,
    }
}

fn numbers(allowed: bool, remaining: u64) -> LegDecision {
    let wait = if allowed { Wait::Now } else { Wait::After(Span::from_secs(1)) };
    LegDecision { allowed, capacity: 20, remaining, wait, reset_after: Span::ZERO, next_unit_after: None }
}

fn decided(units: u64, legs: &[LegDecision]) -> Outcome {
    let allowed = legs.iter().all(|leg| leg.allowed);
    let legs = legs.iter().copied().collect();
    Outcome::Decided(Verdict { legs, ..said(allowed, units) })
}

fn spent(outcome: &Outcome) -> Came<'_> {
    Came { outcome: Some(outcome), may_have_spent: true }
}

fn nothing_lent(_: &EmergencyLeg) -> EmergencyAnswer {
    panic!("nobody fails into an emergency here")
}

/// An emergency limiter that may give all of its ten, at a time when its start has worn off.
fn emergency() -> (Emergency, Now) {
    let mut emergency = Emergency::new(Now::at(Moment::ZERO));
    emergency.handle_n_max(1, Moment::ZERO);
    (emergency, Now::at(Moment::ZERO.saturating_add(Span::from_secs(60))))
}

#[test]
fn each_limit_of_a_silent_owner_answers_by_its_own_failure_mode() {
    let legs = [leg(0, 0, FailMode::Open), leg(0, 1, FailMode::Closed)];
    let came = [spent(&SILENCE)];
    let concluded = conclude(Act::Spend, &legs, &came, nothing_lent);
    assert_eq!(concluded.results.iter().map(|result| result.said).collect::<Vec<_>>(), [Said::Open, Said::Closed]);
    assert_eq!((concluded.allowed, concluded.named, concluded.times()), (false, Some(1), 0));
    assert_eq!(concluded.after(0), After::Cancel, "whatever was charged is taken back");
}

#[test]
fn only_the_key_that_found_no_room_answers_as_when_the_table_is_full() {
    let roomless = AskedLeg { when_full: FailMode::Open, ..leg(0, 1, FailMode::Closed) };
    let other = AskedLeg { when_full: FailMode::Open, ..leg(0, 0, FailMode::Closed) };
    let (legs, full) = ([other, roomless], Outcome::TableFull { leg: 1 });
    let came = [Came { outcome: Some(&full), may_have_spent: false }];
    let concluded = conclude(Act::Spend, &legs, &came, nothing_lent);
    assert_eq!(concluded.results.iter().map(|result| result.said).collect::<Vec<_>>(), [Said::Closed, Said::Open]);
    assert_eq!(concluded.after(0), After::Nothing, "nothing was charged");
}

#[test]
fn what_passed_unseen_is_owed_at_its_cost_and_limits_that_watch_owe_nothing() {
    let watching = AskedLeg { shadow: true, ..leg(0, 1, FailMode::Open) };
    let legs = [leg(0, 0, FailMode::Open), watching, leg(1, 0, FailMode::Closed)];
    let yes = decided(0, &[numbers(true, 4)]);
    let came = [spent(&SILENCE), spent(&yes)];
    let concluded = conclude(Act::Spend, &legs, &came, nothing_lent);
    assert!(concluded.allowed);
    assert_eq!((concluded.after(0), concluded.after(1)), (After::Debt, After::Nothing));
    assert_eq!(concluded.owed(0).to_vec(), [legs[0].to_check_leg()]);
    assert!(concluded.owed(1).is_empty());
}

#[test]
fn a_check_that_takes_what_there_is_gets_what_every_limit_has_and_the_numbers_say_so() {
    let legs = [leg(0, 0, FailMode::Closed), leg(1, 0, FailMode::Closed), leg(2, 0, FailMode::Open)];
    let (ten, three) = (decided(10, &[numbers(true, 0)]), decided(3, &[numbers(true, 1)]));
    let came = [spent(&ten), spent(&three), spent(&SILENCE)];
    let concluded = conclude(Act::UpTo { units: 12 }, &legs, &came, nothing_lent);
    assert_eq!((concluded.allowed, concluded.granted, concluded.times()), (true, 3, 3));
    assert_eq!((concluded.after(0), concluded.after(1)), (After::Trim(3), After::Nothing));
    assert_eq!(concluded.results[0].said, Said::Owner(numbers(true, 14)), "seven units of two come back");
    assert_eq!(concluded.named, Some(1), "and so the other one is the tightest");
    assert_eq!((concluded.after(2), concluded.owed(2)[0].cost), (After::Debt, 6));
    assert_eq!(concluded.counted(&legs[0]), 6);
}

#[test]
fn a_refused_check_takes_nothing_however_much_some_had_granted() {
    let legs = [leg(0, 0, FailMode::Closed), leg(1, 0, FailMode::Closed)];
    let (ten, no) = (decided(10, &[numbers(true, 0)]), decided(0, &[numbers(false, 0)]));
    let came = [spent(&ten), Came { outcome: Some(&no), may_have_spent: false }];
    let concluded = conclude(Act::UpTo { units: 12 }, &legs, &came, nothing_lent);
    assert_eq!((concluded.allowed, concluded.granted, concluded.named), (false, 0, Some(1)));
    assert_eq!((concluded.after(0), concluded.after(1)), (After::Cancel, After::Nothing));
    assert_eq!(concluded.results[0].said, Said::Owner(numbers(true, 20)), "what is cancelled is there again");
}

#[test]
fn what_the_emergency_limiter_lends_to_a_refused_check_goes_back_to_it() {
    let legs = [leg(0, 0, EMERGENCY), leg(1, 0, FailMode::Closed)];
    let came = [spent(&SILENCE), spent(&SILENCE)];
    let (mut limiter, now) = emergency();
    for _ in 0..20 {
        let concluded = conclude(Act::Spend, &legs, &came, |leg| limiter.decide(leg, None, now));
        assert!(matches!(concluded.results[0].said, Said::Emergency(LegDecision { allowed: true, .. })));
        assert!(!concluded.allowed && concluded.has_lent());
        concluded.give_back(&mut limiter, now);
    }
    assert_eq!(lent_alone(&mut limiter, now), 5, "five times two of ten are still there");
}

#[test]
fn a_look_tells_nobody_anything_and_spends_no_emergency_share() {
    let legs = [leg(0, 0, EMERGENCY), leg(1, 0, FailMode::Open)];
    let came = [spent(&SILENCE), spent(&SILENCE)];
    let (mut limiter, now) = emergency();
    for _ in 0..20 {
        let concluded = conclude(Act::Peek, &legs, &came, |leg| limiter.decide(leg, None, now));
        assert!(concluded.allowed);
        assert_eq!((concluded.after(0), concluded.after(1)), (After::Nothing, After::Nothing));
        concluded.give_back(&mut limiter, now);
    }
    assert_eq!(lent_alone(&mut limiter, now), 5);
}

#[test]
fn what_the_emergency_limiter_lends_is_cut_to_what_all_limits_grant() {
    let legs = [leg(0, 0, EMERGENCY), leg(1, 0, EMERGENCY)];
    let (mut limiter, now) = emergency();
    // Of the second key, three units of two are gone before.
    let came = [spent(&SILENCE), spent(&SILENCE)];
    let before = [leg(0, 0, EMERGENCY)].map(|leg| AskedLeg { key: legs[1].key, ..leg });
    let took = conclude(Act::UpTo { units: 3 }, &before, &came[..1], |leg| limiter.decide(leg, None, now));
    assert_eq!(took.granted, 3);
    let concluded = conclude(Act::UpTo { units: 5 }, &legs, &came, |leg| limiter.decide(leg, None, now));
    assert_eq!(concluded.granted, 2);
    assert_eq!((concluded.after(0), concluded.after(1)), (After::Cancel, After::Cancel), "the share is charged here");
    concluded.give_back(&mut limiter, now);
    assert_eq!(lent_alone(&mut limiter, now), 3, "of the first key, three units of two are left");
}

/// How many checks of the first leg's key the emergency limiter still passes.
fn lent_alone(limiter: &mut Emergency, now: Now) -> usize {
    let (legs, came) = ([leg(0, 0, EMERGENCY)], [spent(&SILENCE)]);
    (0..100).take_while(|_| conclude(Act::Spend, &legs, &came, |leg| limiter.decide(leg, None, now)).allowed).count()
}

#[test]
fn an_id_of_another_question_passes_nobody_and_leaves_no_charge() {
    let legs = [leg(0, 0, FailMode::Open), leg(1, 0, FailMode::Open)];
    let yes = decided(0, &[numbers(true, 4)]);
    let came = [Came { outcome: Some(&Outcome::IdReused), may_have_spent: false }, spent(&yes)];
    let concluded = conclude(Act::Spend, &legs, &came, nothing_lent);
    assert!(concluded.id_reused && !concluded.allowed);
    assert_eq!((concluded.after(0), concluded.after(1)), (After::Nothing, After::Cancel));
}

fn said(allowed: bool, units: u64) -> Verdict {
    let (replayed, recovering, cacheable) = (false, false, Span::ZERO);
    Verdict { allowed, units, replayed, recovering, cacheable, legs: SmallVec::new() }
}

#[test]
fn a_lease_lasts_as_long_as_its_shortest_part_and_partitions_without_slots_say_nothing() {
    let renew = Act::Renew { of: CheckId(1), ttl: None };
    let (no_slots, held, lost) = (said(true, u64::MAX), said(true, 7), said(false, 0));
    let done = Found::Done { allowed: true, units: 7 };
    assert_eq!(found(renew, [&no_slots, &held, &no_slots].into_iter()), done);
    assert_eq!(found(renew, [&held, &lost].into_iter()), Found::NotHeld);
    assert_eq!(found(renew, [&no_slots, &no_slots].into_iter()), Found::NotHeld);
}

#[test]
fn a_reserve_over_several_partitions_is_settled_where_any_of_them_had_it_open() {
    let settle = Act::Settle { of: CheckId(1), units: 5, debt: false };
    let (closed, gone, above) = (said(true, 3), said(false, 0), said(false, 9));
    assert_eq!(found(settle, [&gone, &closed].into_iter()), Found::Done { allowed: true, units: 3 });
    assert_eq!(found(settle, [&gone, &above].into_iter()), Found::Above { reserved: 9 });
    assert_eq!(found(settle, [&gone, &gone].into_iter()), Found::NotHeld);
}
