//! Denials that an ingress repeats: for which question, for how long, and in which words.

use limits::{
    Algorithm, Basis, DomainId, FailMode, Fingerprint, LegDecision, LimitId, Moment, Shape, Span, Variant, Wait,
};
use ringfence_ownership::ingress::{AskedLeg, DENIALS_MAX, Denials, Heard};
use ringfence_ownership::{Epoch, Owner, Verdict};
use smallvec::{SmallVec, smallvec};

use crate::asking::{ms, session};

const REVISION: u64 = 3;

fn leg(key: u64, cost: u64) -> AskedLeg {
    let algorithm = Algorithm::TokenBucket { burst: 1 };
    AskedLeg {
        limit: LimitId(1),
        variant: Variant::OWN,
        key: Fingerprint([key.wrapping_mul(0x9E37_79B9_7F4A_7C15), key]),
        cost,
        shadow: false,
        fail: FailMode::Closed,
        when_full: FailMode::Closed,
        whole: Shape { limit: LimitId(1), domain: DomainId(0), rate: None, algorithm, basis: Basis::Hi },
        group: 0,
        place: 0,
    }
}

fn owner(node: u64, epoch: u64) -> Owner {
    Owner { session: session(node), epoch: Epoch(epoch) }
}

/// A denial with a wait of two seconds, certain for so long since it was sent.
fn denied(sent: u64, certain: u64) -> Heard {
    let said = LegDecision {
        allowed: false,
        capacity: 9,
        remaining: 0,
        wait: Wait::After(Span::from_secs(2)),
        reset_after: Span::from_secs(9),
        next_unit_after: Some(Span::from_secs(2)),
    };
    let (replayed, recovering, cacheable) = (false, false, Span::from_millis(certain));
    let verdict = Verdict { allowed: false, units: 0, replayed, recovering, cacheable, legs: smallvec![said] };
    Heard { owner: owner(1, 4), verdict, sent: ms(sent) }
}

fn admitted(sent: u64) -> Heard {
    let mut heard = denied(sent, 0);
    heard.verdict.allowed = true;
    heard.verdict.legs[0].allowed = true;
    heard
}

/// A cache that learnt that denial at ten milliseconds.
fn knowing(legs: &[AskedLeg], groups: SmallVec<[Heard; 1]>) -> Denials {
    let mut denials = Denials::new();
    denials.learn(legs, REVISION, groups, ms(10));
    denials
}

fn found(denials: &Denials, legs: &[AskedLeg], now: Moment) -> bool {
    denials.find(legs, REVISION, |_| Some(owner(1, 4)), now).is_some()
}

#[test]
fn a_denial_is_repeated_until_it_is_not_certain_any_more_by_any_clock() {
    let denials = knowing(&[leg(1, 2)], smallvec![denied(5, 1_000)]);
    assert!(found(&denials, &[leg(1, 2)], ms(10)) && found(&denials, &[leg(1, 2)], ms(984)));
    assert!(!found(&denials, &[leg(1, 2)], ms(985)), "a clock that is 2 % slow reads a second by now");
}

#[test]
fn what_is_repeated_has_waits_as_much_shorter_as_time_is_sure_to_have_passed() {
    let denials = knowing(&[leg(1, 2)], smallvec![denied(5, 1_000)]);
    let told = denials.find(&[leg(1, 2)], REVISION, |_| Some(owner(1, 4)), ms(510)).unwrap();
    let said = told[0].verdict.legs[0];
    assert_eq!(said.wait, Wait::After(Span::from_millis(2_000 - 490)), "never shorter than the owner's");
    assert_eq!(said.reset_after, Span::from_millis(9_000 - 490));
    assert_eq!((told[0].verdict.cacheable, told[0].owner), (Span::ZERO, owner(1, 4)));
}

#[test]
fn another_cost_key_limit_revision_or_owner_is_another_question() {
    let denials = knowing(&[leg(1, 2)], smallvec![denied(5, 1_000)]);
    let find = |leg, revision, by| denials.find(&[leg], revision, |_| by, ms(20)).is_some();
    let now = Some(owner(1, 4));
    assert!(find(leg(1, 2), REVISION, now));
    assert!(!find(leg(1, 3), REVISION, now), "how long it would wait is not known");
    assert!(!find(leg(2, 2), REVISION, now));
    assert!(!find(AskedLeg { limit: LimitId(2), ..leg(1, 2) }, REVISION, now));
    assert!(!find(AskedLeg { variant: Variant(5), ..leg(1, 2) }, REVISION, now));
    assert!(!find(leg(1, 2), REVISION + 1, now));
    assert!(!find(leg(1, 2), REVISION, Some(owner(1, 5))), "a later epoch");
    assert!(!find(leg(1, 2), REVISION, Some(owner(2, 4))), "another session");
    assert!(!find(leg(1, 2), REVISION, None), "a vacant partition");
    assert!(!found(&denials, &[leg(1, 2), leg(2, 2)], ms(20)));
}

#[test]
fn only_a_denial_that_is_certain_is_remembered() {
    assert!(knowing(&[leg(1, 2)], smallvec![denied(5, 0)]).is_empty());
    assert!(knowing(&[leg(1, 2)], smallvec![denied(0, 5)]).is_empty(), "its time was over when it came");
    assert!(knowing(&[leg(1, 2)], smallvec![admitted(5)]).is_empty());
}

#[test]
fn of_several_partitions_those_that_refuse_say_how_long_and_all_of_them_must_still_be_the_owners() {
    let legs = [leg(1, 2), AskedLeg { group: 1, ..leg(2, 2) }, AskedLeg { group: 2, ..leg(3, 2) }];
    let denials = knowing(&legs, smallvec![denied(5, 900), admitted(5), denied(5, 500)]);
    assert!(found(&denials, &legs, ms(400)) && !found(&denials, &legs, ms(496)));
    let moved = |group| Some(owner(1, if group == 1 { 5 } else { 4 }));
    assert!(denials.find(&legs, REVISION, moved, ms(400)).is_none());
    let unsure = knowing(&legs, smallvec![denied(5, 900), admitted(5), denied(5, 0)]);
    assert!(unsure.is_empty(), "one that refuses may admit at any time");
}

#[test]
fn there_are_never_more_than_the_bound_and_none_after_all_were_forgotten() {
    let mut denials = Denials::new();
    for key in 0..20_000 {
        denials.learn(&[leg(key, 1)], REVISION, smallvec![denied(5, 1_000)], ms(10));
    }
    assert!(denials.len() > DENIALS_MAX * 9 / 10 && denials.len() <= DENIALS_MAX, "{}", denials.len());
    let known = (0..20_000).filter(|key| found(&denials, &[leg(*key, 1)], ms(20))).count();
    assert_eq!(known, denials.len(), "one that is pushed out is not mistaken for the one that did");
    denials.clear(ms(20));
    assert!(denials.is_empty() && !found(&denials, &[leg(19_999, 1)], ms(20)));
}

#[test]
fn a_denial_that_was_under_way_when_all_were_forgotten_is_not_learned() {
    let mut denials = Denials::new();
    let sent_at = |sent| smallvec![Heard { sent: ms(sent), ..denied(5, 1_000) }];
    denials.clear(ms(20));
    denials.learn(&[leg(1, 1)], REVISION, sent_at(20), ms(30));
    assert!(denials.is_empty(), "its owner may have denied before what made all forget");
    denials.learn(&[leg(1, 1)], REVISION, sent_at(21), ms(30));
    assert!(found(&denials, &[leg(1, 1)], ms(40)), "what was asked since knows of it");
}
