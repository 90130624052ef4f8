//! The ingresses' own limiters: together they stay within their share of the limit in any window, through sessions that
//! come and go; one alone is a limiter like any other, only smaller.
#![allow(clippy::unwrap_used, reason = "tests")]

use limits::{Algorithm, Align, Basis, DomainId, Fingerprint, LimitId, Moment, Now, Rate, Shape, Span, Wait, WallTime};
use proptest::prelude::*;
use ringfence_ownership::{DIVISORS_MAX, EMERGENCY_KEYS_MAX, Emergency, EmergencyAnswer, EmergencyLeg, SHARES_MAX};

const KEY: Fingerprint = Fingerprint([1, 2]);
const HOUR: u64 = 3_600_000;

fn at(ms: u64) -> Now {
    let nanos = ms * 1_000_000;
    Now::with_wall(Moment::from_nanos(nanos), WallTime::from_unix_nanos(1_700_000_000_000_000_000 + nanos))
}

fn shape(amount: u64, period_ms: u64, algorithm: Algorithm) -> Shape {
    let rate = Rate::new(amount, Span::from_millis(period_ms)).unwrap();
    Shape { limit: LimitId(1), domain: DomainId(0), rate: Some(rate), algorithm, basis: Basis::Hi }
}

const LOG: Algorithm = Algorithm::SlidingLog { max_entries: 4_096 };

fn leg(shape: Shape, percent: u8) -> EmergencyLeg {
    EmergencyLeg { shape, percent, key: KEY, cost: 1, up_to: None }
}

/// A limiter whose session began long enough ago that nothing of its beginning matters.
fn settled(n_max: u32) -> Emergency {
    let mut emergency = Emergency::new(at(0));
    emergency.handle_n_max(n_max, Moment::ZERO);
    emergency
}

fn allows(emergency: &mut Emergency, leg: &EmergencyLeg, now: u64) -> bool {
    match emergency.decide(leg, None, at(now)) {
        EmergencyAnswer::Decided { decision, .. } => decision.allowed,
        EmergencyAnswer::Closed => false,
    }
}

fn allowed_of(emergency: &mut Emergency, leg: &EmergencyLeg, now: u64, tries: u64) -> usize {
    (0..tries).filter(|_| allows(emergency, leg, now)).count()
}

#[test]
fn a_share_is_the_percentage_of_amount_and_burst_divided_by_the_sessions_rounded_down() {
    let log = leg(shape(100, 1_000, LOG), 80);
    assert_eq!(allowed_of(&mut settled(3), &log, HOUR, 100), 26, "80 of 100 by three");

    let mut bucket = settled(3);
    let limit = leg(shape(100, 1_000, Algorithm::TokenBucket { burst: 50 }), 80);
    assert_eq!(allowed_of(&mut bucket, &limit, HOUR, 100), 13, "40 of 50 by three");
    assert_eq!(allowed_of(&mut bucket, &limit, HOUR + 1_000, 100), 13);
    assert_eq!(allowed_of(&mut bucket, &limit, HOUR + 1_100, 100), 2, "26 a second");
}

#[test]
fn a_share_below_the_checks_cost_answers_as_closed() {
    let small = shape(5, 60_000, LOG);
    let answer = |percent, cost| settled(3).decide(&EmergencyLeg { cost, ..leg(small, percent) }, None, at(HOUR));
    assert_eq!(answer(50, 1), EmergencyAnswer::Closed, "half of 5 by three is less than one");
    assert!(matches!(answer(80, 1), EmergencyAnswer::Decided { .. }));
    assert_eq!(answer(80, 2), EmergencyAnswer::Closed);
    let no_rate = shape(1, 60_000, Algorithm::TokenBucket { burst: 100 });
    assert_eq!(
        settled(3).decide(&leg(no_rate, 80), None, at(HOUR)),
        EmergencyAnswer::Closed,
        "its bucket would never fill"
    );
}

#[test]
fn a_new_session_has_nothing_to_give_until_a_window_has_passed() {
    let mut emergency = Emergency::new(at(HOUR));
    emergency.handle_n_max(2, at(HOUR).moment);
    let log = leg(shape(10, 1_000, LOG), 100);
    let EmergencyAnswer::Decided { decision, charge: None, units: 0 } = emergency.decide(&log, None, at(HOUR)) else {
        panic!("full")
    };
    assert_eq!((decision.allowed, decision.wait), (false, Wait::After(Span::from_secs(1))));
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 1_000, 10), 5);

    let mut emergency = Emergency::new(at(HOUR));
    emergency.handle_n_max(2, at(HOUR).moment);
    let bucket = leg(shape(10, 1_000, Algorithm::TokenBucket { burst: 10 }), 100);
    assert_eq!(allowed_of(&mut emergency, &bucket, HOUR + 399, 10), 1, "a bucket gives at its rate at once");
}

#[test]
fn nothing_is_given_before_the_number_of_sessions_is_known() {
    let mut emergency = Emergency::new(at(0));
    assert_eq!(emergency.decide(&leg(shape(10, 1_000, LOG), 100), None, at(HOUR)), EmergencyAnswer::Closed);
}

#[test]
fn an_aligned_window_without_cluster_time_answers_as_closed_and_opens_a_window_after_the_session_began() {
    let minutely = leg(shape(10, 60_000, Algorithm::FixedWindow { align: Align::Epoch }), 100);
    let mut emergency = Emergency::new(Now::at(at(HOUR).moment));
    emergency.handle_n_max(1, at(HOUR).moment);
    assert_eq!(emergency.decide(&minutely, None, Now::at(at(HOUR + 1).moment)), EmergencyAnswer::Closed);
    // The session began 20 s into a minute of cluster time; it learns that 5 s later.
    assert_eq!(allowed_of(&mut emergency, &minutely, HOUR + 5_000, 10), 0, "that minute reads full");
    assert_eq!(allowed_of(&mut emergency, &minutely, HOUR + 40_000, 20), 10);
}

#[test]
fn a_charge_for_a_check_that_another_limit_refused_is_undone() {
    let mut emergency = settled(1);
    let log = leg(shape(1, 1_000, LOG), 100);
    let EmergencyAnswer::Decided { charge: Some(charge), .. } = emergency.decide(&log, None, at(HOUR)) else {
        panic!("charged")
    };
    assert!(!allows(&mut emergency, &log, HOUR));
    emergency.undo(&charge, at(HOUR));
    assert!(allows(&mut emergency, &log, HOUR));
}

#[test]
fn as_much_as_the_share_has_is_lent_and_what_other_limits_did_not_grant_comes_back() {
    let mut emergency = settled(1);
    let up_to = EmergencyLeg { cost: 2, up_to: Some(8), ..leg(shape(11, 1_000, LOG), 100) };
    let EmergencyAnswer::Decided { decision, charge: Some(charge), units: 5 } =
        emergency.decide(&up_to, None, at(HOUR))
    else {
        panic!("five of two each")
    };
    assert_eq!(decision.remaining, 1);
    emergency.trim(&charge, 5, 3, at(HOUR));
    let EmergencyAnswer::Decided { units: 2, .. } = emergency.decide(&up_to, None, at(HOUR)) else {
        panic!("two came back")
    };
}

#[test]
fn a_share_shrinks_at_once_and_grows_once_a_whole_window_has_passed() {
    let log = leg(shape(12, 1_000, LOG), 100);
    let mut emergency = settled(2);
    assert_eq!(allowed_of(&mut emergency, &log, HOUR, 4), 4);
    emergency.handle_n_max(4, at(HOUR).moment);
    assert_eq!(allowed_of(&mut emergency, &log, HOUR, 9), 0, "3 are fewer than the 4 that are used");
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 1_000, 9), 3);
    emergency.handle_n_max(3, at(HOUR + 1_500).moment);
    emergency.handle_n_max(2, at(HOUR + 2_000).moment);
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 2_500, 9), 3, "as one of four");
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 2_501, 9), 1, "as one of three");
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 3_001, 9), 2, "as one of two");
}

#[test]
fn a_long_history_of_falling_numbers_is_kept_short_on_the_stricter_side() {
    let mut emergency = Emergency::new(at(0));
    for fall in 0..3 * DIVISORS_MAX as u64 {
        emergency.handle_n_max(100 - fall as u32, at(HOUR + fall).moment);
    }
    let log = leg(shape(1_000, 1_000, LOG), 100);
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 900, 100), 10, "one of a hundred");
    assert_eq!(allowed_of(&mut emergency, &log, HOUR + 10_000, 100), 18, "1000 / 53, once all is forgotten");
}

#[test]
fn a_limiter_that_knows_too_many_shares_starts_over_with_nothing_to_give() {
    let mut emergency = settled(1);
    let log = |amount| leg(shape(amount, 1_000, LOG), 100);
    for amount in 1..=SHARES_MAX as u64 {
        assert!(allows(&mut emergency, &EmergencyLeg { key: Fingerprint([amount, 0]), ..log(amount) }, HOUR));
    }
    assert_eq!(emergency.len(), SHARES_MAX);
    assert!(!allows(&mut emergency, &log(9_999), HOUR));
    assert_eq!(emergency.len(), 0);
    assert!(allows(&mut emergency, &log(9_999), HOUR + 1_000));
}

#[test]
fn a_domain_that_floods_new_keys_finds_no_room_and_others_do_not_notice() {
    let mut emergency = settled(1);
    let log = leg(shape(1, HOUR, LOG), 100);
    for number in 1..=EMERGENCY_KEYS_MAX {
        // Keys are as mixed as hashes, or they would all be looked for in one place.
        let key = Fingerprint([number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number.wrapping_mul(0xd1b5_4a32_d192_ed03)]);
        assert!(allows(&mut emergency, &EmergencyLeg { key, ..log }, 2 * HOUR));
    }
    assert_eq!(emergency.decide(&log, None, at(2 * HOUR)), EmergencyAnswer::Closed);
    let other = Shape { domain: DomainId(1), limit: LimitId(2), ..log.shape };
    assert!(allows(&mut emergency, &leg(other, 100), 2 * HOUR));
}

/// One ingress of the fleet, its clock shifted against the others'.
struct Ingress {
    emergency: Emergency,
    shift: u64,
    /// The number that it will be told, and when.
    told: Vec<(u64, u32)>,
}

impl Ingress {
    fn open(now: u64, shift: u64, n_max: u32) -> Ingress {
        let mut emergency = Emergency::new(at(now + shift));
        emergency.handle_n_max(n_max, at(now + shift).moment);
        Ingress { emergency, shift, told: Vec::new() }
    }

    fn hear(&mut self, now: u64) {
        for (_, n_max) in self.told.extract_if(.., |(when, _)| *when <= now) {
            self.emergency.handle_n_max(n_max, at(now + self.shift).moment);
        }
    }

    fn asks(&mut self, leg: &EmergencyLeg, now: u64) -> bool {
        allows(&mut self.emergency, leg, now + self.shift)
    }
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    /// An ingress is asked so many times.
    Burst {
        ingress: usize,
        cost: u64,
        tries: u8,
    },
    Join,
    /// An ingress's session ends; the others hear of it after up to so many milliseconds.
    Leave {
        ingress: usize,
        lag: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u64..700).prop_map(Event::Wait),
        8 => (0usize..8, 1u64..4, 1u8..40).prop_map(|(ingress, cost, tries)| Event::Burst { ingress, cost, tries }),
        1 => Just(Event::Join),
        1 => (0usize..8, 0u64..3_000).prop_map(|(ingress, lag)| Event::Leave { ingress, lag }),
    ]
}

/// All ingresses, under the rule of the map: the number rises everywhere before a session is added, and falls at each
/// ingress at some time after one has ended.
struct Fleet {
    now: u64,
    ingresses: Vec<Ingress>,
    opened: u64,
    admitted: Vec<(u64, u64)>,
}

impl Fleet {
    fn new(size: u32) -> Fleet {
        let ingresses = (0..u64::from(size)).map(|n| Ingress::open(HOUR, n * 7_777, size)).collect();
        Fleet { now: HOUR, ingresses, opened: u64::from(size), admitted: Vec::new() }
    }

    fn hand_in(&mut self, event: &Event, leg: &EmergencyLeg) {
        match *event {
            Event::Wait(ms) => self.now += ms,
            Event::Burst { ingress, cost, tries } => {
                let index = ingress % self.ingresses.len();
                let asked = EmergencyLeg { cost, ..*leg };
                for _ in 0..tries {
                    if self.ingresses[index].asks(&asked, self.now) {
                        self.admitted.push((self.now, cost));
                    }
                }
            }
            Event::Join if self.ingresses.len() < 8 => self.join(),
            Event::Leave { ingress, lag } if self.ingresses.len() > 1 => {
                self.ingresses.remove(ingress % self.ingresses.len());
                let left = self.ingresses.len() as u32;
                for (n, ingress) in self.ingresses.iter_mut().enumerate() {
                    ingress.told.push((self.now + lag * n as u64 / 8, left));
                }
            }
            Event::Join | Event::Leave { .. } => {}
        }
        self.ingresses.iter_mut().for_each(|ingress| ingress.hear(self.now));
    }

    fn join(&mut self) {
        let n_max = self.ingresses.len() as u32 + 1;
        for ingress in &mut self.ingresses {
            ingress.told.clear();
            ingress.emergency.handle_n_max(n_max, at(self.now + ingress.shift).moment);
        }
        self.opened += 1;
        self.ingresses.push(Ingress::open(self.now, self.opened * 7_777, n_max));
    }

    /// The first window that holds more than `most(span)` hundredths of a unit, if any.
    fn overfull(&self, longest: u64, most: impl Fn(u64) -> u64) -> Option<String> {
        for (i, (first, _)) in self.admitted.iter().enumerate() {
            let mut sum = 0;
            for (last, cost) in self.admitted[i..].iter().take_while(|(last, _)| last - first < longest) {
                sum += cost;
                if sum * 100 > most(last - first) {
                    return Some(format!("{sum} from {first} to {last}"));
                }
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn all_logs_together_stay_within_their_share_in_any_window(
        (amount, percent, size) in (1u64..200, 1u8..=100, 1u32..6),
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let mut fleet = Fleet::new(size);
        let leg = leg(shape(amount, 2_000, LOG), percent);
        events.iter().for_each(|event| fleet.hand_in(event, &leg));
        prop_assert_eq!(fleet.overfull(2_000, |_| amount * u64::from(percent)), None);
    }

    #[test]
    fn all_buckets_together_stay_within_their_share_in_any_window(
        (amount, burst, percent, size) in (1u64..200, 1u64..200, 1u8..=100, 1u32..6),
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let mut fleet = Fleet::new(size);
        let leg = leg(shape(amount, 2_000, Algorithm::TokenBucket { burst }), percent);
        events.iter().for_each(|event| fleet.hand_in(event, &leg));
        let most = |span: u64| (burst * 2_000 + amount * span) * u64::from(percent) / 2_000;
        prop_assert_eq!(fleet.overfull(u64::MAX, most), None);
    }
}
