//! What a denial promises: for so long the same check is denied again, with the same numbers but for the time that passes,
//! whatever else is done with its keys. Only a reset is not foreseen.

use limits::{Algorithm, Align, Basis, LegDecision, Now, Span, Wait};
use proptest::prelude::*;
use ringfence_ownership::{
    Act, Answer, Check, CheckId, DENIAL_CERTAIN_MAX, Floor, Partition, RECORD_HORIZON, REFUND_HORIZON, Verdict,
};

use crate::desk::*;

const HOUR: Span = secs(3_600);

/// Five an hour under limit 1, used up by check 1 at one millisecond.
fn used_up(by: Check) -> (Desk, Partition) {
    let (desk, mut partition) = (Desk::with(LOG, 5, HOUR, Basis::Hi), owned(Floor::Fresh));
    assert!(desk.decide(&mut partition, &by, at_millis(1)).allowed);
    (desk, partition)
}

fn certain_at(desk: &Desk, partition: &mut Partition, id: u128, millis: u64) -> Span {
    let denied = desk.decide(partition, &first(id).spending(1, 1), at_millis(millis));
    assert!(!denied.allowed);
    denied.cacheable
}

/// Somewhat after a span from now, since what may be given back is kept track of roughly.
fn after(span: Span) -> u64 {
    span.as_millis_ceil() + 150
}

#[test]
fn a_denial_is_certain_once_no_charge_of_its_key_can_be_cancelled_any_more() {
    let (desk, mut partition) = used_up(first(1).spending(1, 5));
    assert_eq!(certain_at(&desk, &mut partition, 2, 1_900), Span::ZERO);
    assert_eq!(certain_at(&desk, &mut partition, 3, after(RECORD_HORIZON)), DENIAL_CERTAIN_MAX);
}

#[test]
fn a_charge_that_its_caller_can_refund_keeps_denials_uncertain_for_as_long() {
    let (desk, mut partition) = used_up(first(1).spending(1, 5).named_by_its_caller());
    assert_eq!(certain_at(&desk, &mut partition, 2, after(RECORD_HORIZON)), Span::ZERO);
    assert_eq!(certain_at(&desk, &mut partition, 3, after(REFUND_HORIZON)), DENIAL_CERTAIN_MAX);
}

#[test]
fn an_open_reserve_keeps_denials_uncertain_until_its_time_is_over() {
    let reserve = Act::Reserve { ttl: secs(30), units: 5 };
    let (desk, mut partition) = used_up(first(1).spending(1, 5).to(reserve));
    assert_eq!(certain_at(&desk, &mut partition, 2, 29_000), Span::ZERO);
    assert_eq!(certain_at(&desk, &mut partition, 3, after(secs(30))), DENIAL_CERTAIN_MAX);
}

#[test]
fn slots_are_given_back_at_any_time_so_their_denials_are_never_certain() {
    let slots = Algorithm::Concurrency { max_hold: secs(600) };
    let (desk, mut partition) = (Desk::with(slots, 1, secs(600), Basis::Hi), owned(Floor::Fresh));
    let acquire = first(1).spending(1, 1).to(Act::Acquire { ttl: None });
    assert!(desk.decide(&mut partition, &acquire, at_millis(1)).allowed);
    let denied = desk.decide(&mut partition, &first(2).spending(1, 1), at_millis(after(RECORD_HORIZON)));
    assert_eq!((denied.allowed, denied.cacheable), (false, Span::ZERO));
}

#[test]
fn a_denial_of_a_key_with_something_left_is_not_certain_since_others_may_spend_that() {
    let (desk, mut partition) = (Desk::with(LOG, 5, HOUR, Basis::Hi), owned(Floor::Fresh));
    assert!(desk.decide(&mut partition, &first(1).spending(1, 3), at_millis(1)).allowed);
    let denied = desk.decide(&mut partition, &first(2).spending(1, 4), at_millis(after(RECORD_HORIZON)));
    assert_eq!((denied.allowed, denied.legs[0].remaining, denied.cacheable), (false, 2, Span::ZERO));
}

#[test]
fn a_denial_lasts_no_longer_than_until_time_gives_a_unit() {
    let (desk, mut partition) = (Desk::with(bucket(5), 1, secs(4), Basis::Hi), owned(Floor::Fresh));
    assert!(desk.decide(&mut partition, &first(1).spending(1, 5), at_millis(1)).allowed);
    let denied = desk.decide(&mut partition, &first(2).spending(1, 3), at_millis(3_601));
    assert_eq!(denied.cacheable, Span::from_millis(400), "the first unit, not the three that were asked for");
}

#[test]
fn neither_an_admission_nor_a_look_nor_a_repeated_denial_is_said_to_be_certain() {
    let (desk, mut partition) = used_up(first(1).spending(1, 5));
    let late = after(RECORD_HORIZON);
    let peek = first(2).spending(1, 1).to(Act::Peek);
    assert_eq!(desk.decide(&mut partition, &peek, at_millis(late)).cacheable, Span::ZERO);
    let denied = first(3).spending(1, 1).named_by_its_caller();
    assert_eq!(desk.decide(&mut partition, &denied, at_millis(late)).cacheable, DENIAL_CERTAIN_MAX);
    let again = desk.decide(&mut partition, &denied, at_millis(late));
    assert_eq!((again.replayed, again.cacheable), (true, Span::ZERO));
}

#[test]
fn a_denial_that_is_a_takeovers_is_not_certain() {
    let desk = Desk::with(LOG, 5, HOUR, Basis::Hi);
    let mut partition = owned(taken_over(at_millis(1)));
    let denied = desk.decide(&mut partition, &first(1).spending(1, 1), at_millis(5_000));
    assert_eq!((denied.recovering, denied.cacheable), (true, Span::ZERO));
}

/// Something that happens to one key.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ask { id: u128, cost: u64, indexed: bool },
    Take { id: u128, units: u64 },
    Trim { id: u128, units: u64 },
    Reserve { id: u128, cost: u64, ttl: u64 },
    Cancel { id: u128 },
    Refund { of: u128 },
    Settle { of: u128, units: u64 },
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 1u128..12;
    prop_oneof![
        4 => prop_oneof![0u64..40, 0u64..400, Just(900), 2_000u64..2_400].prop_map(Step::Wait),
        6 => (id(), 1u64..4, proptest::bool::weighted(0.2)).prop_map(|(id, cost, indexed)| Step::Ask { id, cost, indexed }),
        1 => (id(), 1u64..6).prop_map(|(id, units)| Step::Take { id, units }),
        1 => (id(), 0u64..3).prop_map(|(id, units)| Step::Trim { id, units }),
        1 => (id(), 1u64..4, 1u64..3_000).prop_map(|(id, cost, ttl)| Step::Reserve { id, cost, ttl }),
        2 => id().prop_map(|id| Step::Cancel { id }),
        1 => id().prop_map(|of| Step::Refund { of }),
        1 => (id(), 0u64..4).prop_map(|(of, units)| Step::Settle { of, units }),
        1 => Just(Step::Sweep),
    ]
}

fn counting() -> impl Strategy<Value = (Algorithm, u64, Span)> {
    let algorithm = prop_oneof![
        (1u64..6).prop_map(bucket),
        Just(LOG),
        Just(window(Align::First)),
        Just(window(Align::Hashed)),
        Just(Algorithm::SlidingCounter),
    ];
    (algorithm, 1u64..6, prop_oneof![Just(secs(3)), Just(secs(20)), Just(Span::from_millis(700))])
}

/// Plays steps against one key, and holds every denial to what it promised.
struct Player {
    desk: Desk,
    partition: Partition,
    millis: u64,
    next: u128,
    /// Denials that are certain: what was asked, when, and what was said.
    certain: Vec<(Check, Now, Verdict)>,
}

impl Player {
    fn play(&mut self, step: &Step) {
        let named = |id: u128, indexed| Check { indexed, ..first(id) };
        match *step {
            Step::Wait(millis) => self.millis += millis,
            Step::Ask { id, cost, indexed } => self.ask(named(id, indexed).spending(1, cost)),
            Step::Take { id, units } => self.ask(first(id).spending(1, 1).to(Act::UpTo { units })),
            Step::Reserve { id, cost, ttl } => {
                self.ask(first(id).spending(1, cost).to(Act::Reserve { ttl: Span::from_millis(ttl), units: cost }));
            }
            Step::Trim { id, units } => {
                self.partition.trim(CheckId(id), FIRST, units, &self.desk, at_millis(self.millis));
            }
            Step::Cancel { id } => drop(self.partition.cancel(CheckId(id), FIRST, &self.desk, at_millis(self.millis))),
            Step::Refund { of } => self.act(Act::Refund { of: CheckId(of) }),
            Step::Settle { of, units } => self.act(Act::Settle { of: CheckId(of), units, debt: false }),
            Step::Sweep => drop(self.partition.sweep(&self.desk, at_millis(self.millis), 8)),
        }
        self.hold_to_promises();
    }

    fn act(&mut self, act: Act) {
        self.next += 1;
        let check = first(self.next).spending(1, 1).named_by_its_caller().to(act);
        self.desk.ask(&mut self.partition, &check, at_millis(self.millis));
    }

    fn ask(&mut self, check: Check) {
        let now = at_millis(self.millis);
        if let Answer::Decided(verdict) = self.desk.ask(&mut self.partition, &check, now)
            && verdict.cacheable > Span::ZERO
        {
            assert!(!verdict.allowed && !verdict.replayed);
            self.certain.push((check, now, verdict));
        }
    }

    fn hold_to_promises(&mut self) {
        let now = at_millis(self.millis);
        self.certain.retain(|(_, when, said)| now.moment.since(when.moment) < said.cacheable);
        for (check, when, promised) in &self.certain {
            self.next += 1;
            let again = Check { id: CheckId(self.next), indexed: false, ..check.clone() };
            let said = self.desk.decide(&mut self.partition, &again, now);
            assert!(!said.allowed, "{promised:?} at {when:?}, and now {said:?}");
            assert_eq!(said.legs[0], later(&promised.legs[0], now.moment.since(when.moment)));
        }
    }
}

fn later(said: &LegDecision, passed: Span) -> LegDecision {
    let Wait::After(wait) = said.wait else { panic!("{said:?}") };
    LegDecision {
        wait: Wait::After(wait.saturating_sub(passed)),
        reset_after: said.reset_after.saturating_sub(passed),
        next_unit_after: said.next_unit_after.map(|unit| unit.saturating_sub(passed)),
        ..*said
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn a_certain_denial_is_denied_again_whatever_else_is_done(
        (algorithm, amount, period) in counting(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let desk = Desk::with(algorithm, amount, period, Basis::Hi);
        let mut player = Player { desk, partition: owned(Floor::Fresh), millis: 1, next: 1_000, certain: Vec::new() };
        steps.iter().for_each(|step| player.play(step));
    }
}
