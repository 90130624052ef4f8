//! What a leader grants, and what it does not.

use std::num::NonZeroU64;

use limits::WallTime;
use ring::NodeId;

use super::*;

const NEWS: News = News { n_max: 3, n_max_settled: true, cluster_time: None, map_version: 7 };
const TERMS: Terms = Terms::DEFAULT;

fn session(nonce: u64) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::MIN), nonce, counter: 1 }
}

fn ms(millis: u64) -> Moment {
    Moment::ZERO.saturating_add(Span::from_millis(millis))
}

fn renewal(seq: u64, last_ack_seen: u64) -> Renewal {
    Renewal {
        session: session(1),
        seq,
        nonce: 0,
        last_ack_seen,
        map_version: 7,
        my_clock: Moment::ZERO,
        ack_heard: Moment::ZERO,
        wall_clock: None,
        n_max: 3,
        applied: 0,
    }
}

fn tick_until(grantor: &mut Grantor, first: u64, last: u64) {
    for tick in (first..=last).step_by(500) {
        grantor.handle_timeout(ms(tick));
        assert_eq!(grantor.poll_expired(), []);
    }
}

/// A leader of term 5 at 10 s, with sessions 1 and 2.
fn grantor() -> Grantor {
    Grantor::new(ms(10_000), [session(1), session(2)], TERMS, 5)
}

fn take(grantor: &mut Grantor, renewal: &Renewal, now: Moment) -> Option<Reply> {
    grantor.handle_renewal(renewal, now).ok()?;
    let round = grantor.poll_confirmation()?;
    grantor.handle_confirmed(round, NEWS);
    grantor.poll_reply()
}

fn ack_of(reply: Option<Reply>) -> Ack {
    match reply {
        Some(Reply::Ack(ack)) => ack,
        other => panic!("an acknowledgement, not {other:?}"),
    }
}

#[test]
fn nothing_is_acknowledged_or_extended_before_leadership_is_confirmed() {
    let mut grantor = grantor();
    assert_eq!(grantor.handle_renewal(&renewal(1, 0), ms(11_000)), Ok(()));
    assert_eq!(grantor.poll_reply(), None);
    let round = grantor.poll_confirmation().expect("somebody waits");
    assert_eq!((grantor.poll_reply(), grantor.deadline(session(1))), (None, Some(ms(13_030))));
    grantor.handle_confirmed(round, NEWS);
    let ack = ack_of(grantor.poll_reply());
    assert_eq!((ack.seq, ack.ttl, ack.news), (1, TERMS.ttl(), NEWS));
    assert_eq!(grantor.deadline(session(1)), Some(ms(14_030)), "counted from receipt");
    assert_eq!(grantor.deadline(session(2)), Some(ms(13_030)), "nobody else's business");
}

#[test]
fn what_arrives_while_a_round_runs_waits_for_the_next() {
    let mut grantor = grantor();
    grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
    let first = grantor.poll_confirmation().expect("somebody waits");
    grantor.handle_renewal(&renewal(2, 0), ms(11_001)).expect("taken");
    assert_eq!(grantor.poll_confirmation(), None, "one at a time");
    grantor.handle_confirmed(first, NEWS);
    assert_eq!(ack_of(grantor.poll_reply()).seq, 1);
    assert_eq!(grantor.poll_reply(), None, "S6: the round began before the second was received");
    let second = grantor.poll_confirmation().expect("the second waits");
    grantor.handle_confirmed(first, NEWS);
    assert_eq!(grantor.poll_reply(), None, "a round counts once");
    grantor.handle_confirmed(second, NEWS);
    assert_eq!(ack_of(grantor.poll_reply()).seq, 2);
}

#[test]
fn a_round_of_an_earlier_term_on_the_same_node_counts_for_nothing() {
    let mut earlier = Grantor::new(ms(9_000), [session(1)], TERMS, 4);
    earlier.handle_renewal(&renewal(1, 0), ms(9_500)).expect("taken");
    let old_round = earlier.poll_confirmation().expect("somebody waits");
    let mut grantor = grantor();
    grantor.handle_renewal(&renewal(2, 0), ms(11_000)).expect("taken");
    grantor.poll_confirmation().expect("somebody waits");
    grantor.handle_confirmed(old_round, NEWS);
    assert_eq!(grantor.poll_reply(), None, "it began before the second was received");
}

#[test]
fn an_unconfirmed_leader_grants_nothing_and_tells_who_waited() {
    let mut grantor = grantor();
    grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
    let round = grantor.poll_confirmation().expect("somebody waits");
    grantor.handle_unconfirmed(round);
    assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
    assert_eq!((grantor.poll_reply(), grantor.poll_confirmation()), (None, None));
    assert_eq!(grantor.deadline(session(1)), Some(ms(13_030)));
    assert!(take(&mut grantor, &renewal(2, 0), ms(11_500)).is_some(), "the next one asks again");
}

#[test]
fn a_later_renewal_takes_the_place_of_one_that_still_waits() {
    let mut grantor = grantor();
    grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
    grantor.handle_renewal(&renewal(2, 0), ms(11_500)).expect("taken");
    assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
    assert_eq!(grantor.handle_renewal(&renewal(1, 0), ms(11_600)), Err(Refused::Stale));
    assert_eq!(grantor.handle_renewal(&renewal(2, 0), ms(11_600)), Err(Refused::Stale), "a duplicate");
}

#[test]
fn a_holder_that_hears_no_acknowledgements_is_answered_but_not_extended() {
    let mut grantor = grantor();
    assert_eq!(ack_of(take(&mut grantor, &renewal(9, 1), ms(10_500))).ttl, TERMS.ttl(), "a leader's first");
    assert_eq!(ack_of(take(&mut grantor, &renewal(10, 8), ms(11_000))).ttl, TERMS.ttl());
    let deadline = grantor.deadline(session(1));
    assert_eq!(ack_of(take(&mut grantor, &renewal(11, 8), ms(11_500))).ttl, Span::ZERO);
    assert_eq!(grantor.deadline(session(1)), deadline);
    let heard = Renewal { nonce: (5 << 32) | 3, ..renewal(12, 11) };
    assert_eq!(ack_of(take(&mut grantor, &heard, ms(12_000))).ttl, TERMS.ttl(), "it hears again");
}

#[test]
fn sessions_whose_deadline_passed_are_offered_together_and_extended_no_more() {
    let mut grantor = grantor();
    assert_eq!(grantor.poll_timeout(), ms(10_500));
    // S6: a new leader ends nobody before one full lease.
    tick_until(&mut grantor, 10_500, 13_000);
    let waiting = Renewal { session: session(2), ..renewal(1, 0) };
    grantor.handle_renewal(&waiting, ms(13_030)).expect("still live");
    assert_eq!(grantor.poll_timeout(), ms(13_030).saturating_add(Span::from_nanos(1)));
    grantor.handle_timeout(grantor.poll_timeout());
    assert_eq!(grantor.poll_expired(), [session(1), session(2)]);
    assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(2), seq: 1 }));
    assert_eq!(grantor.handle_renewal(&renewal(1, 0), ms(13_031)), Err(Refused::UnknownSession));
    assert_eq!(grantor.poll_confirmation(), None);
}

#[test]
fn a_session_that_the_log_has_not_ended_is_offered_again_after_one_ttl() {
    let mut grantor = grantor();
    let offers: Vec<u64> = (20..=40)
        .filter(|tick| {
            grantor.handle_timeout(ms(tick * 500));
            !grantor.poll_expired().is_empty()
        })
        .collect();
    assert_eq!(offers, [27, 33, 39]);
    grantor.handle_session_closed(session(1));
    assert_eq!((grantor.deadline(session(1)), grantor.poll_expired()), (None, vec![]));
}

#[test]
fn a_round_that_ends_after_a_session_was_offered_grants_it_nothing() {
    let mut grantor = grantor();
    tick_until(&mut grantor, 10_500, 13_000);
    grantor.handle_renewal(&renewal(1, 0), ms(13_029)).expect("still live");
    let round = grantor.poll_confirmation().expect("somebody waits");
    grantor.handle_timeout(ms(13_031));
    assert_eq!(grantor.poll_expired(), [session(1), session(2)]);
    grantor.handle_confirmed(round, NEWS);
    assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
    assert_eq!((grantor.poll_reply(), grantor.deadline(session(1))), (None, Some(ms(13_030))));
}

#[test]
fn a_leader_that_was_itself_asleep_gives_everybody_a_full_lease() {
    let mut asleep = grantor();
    tick_until(&mut asleep, 10_500, 12_500);
    // Due at 13,000; one renewal late at 13,500, and a moment more.
    asleep.handle_timeout(ms(13_501));
    assert_eq!(asleep.poll_expired(), []);
    assert_eq!(asleep.deadline(session(1)), Some(ms(16_531)));

    let mut slow = grantor();
    tick_until(&mut slow, 10_500, 12_500);
    slow.handle_timeout(ms(13_500));
    assert_eq!(slow.poll_expired(), [session(1), session(2)]);
}

#[test]
fn a_session_that_ended_is_promised_nothing_that_has_not_left_yet() {
    let mut grantor = grantor();
    grantor.handle_renewal(&renewal(1, 0), ms(11_000)).expect("taken");
    let round = grantor.poll_confirmation().expect("somebody waits");
    grantor.handle_confirmed(round, NEWS);
    grantor.handle_session_closed(session(1));
    assert_eq!(grantor.poll_reply(), Some(Reply::Dropped { session: session(1), seq: 1 }));
    assert_eq!(grantor.handle_renewal(&renewal(2, 1), ms(11_500)), Err(Refused::UnknownSession));
}

#[test]
fn two_copies_of_one_process_are_told_apart_and_extended_no_more() {
    let mut grantor = grantor();
    let nonce = ack_of(take(&mut grantor, &renewal(1, 0), ms(10_500))).nonce;
    // The machine is cloned before the acknowledgement arrives; only one of the two hears it.
    let original = Renewal { nonce, ..renewal(2, 1) };
    let copy = renewal(2, 0);
    ack_of(take(&mut grantor, &original, ms(11_000)));
    let deadline = grantor.deadline(session(1));
    assert_eq!(grantor.handle_renewal(&copy, ms(11_001)), Err(Refused::Forked));
    let original = Renewal { nonce: nonce + 1, ..renewal(3, 2) };
    assert_eq!(grantor.handle_renewal(&original, ms(11_500)), Err(Refused::Forked), "nobody knows who is who");
    assert_eq!(grantor.deadline(session(1)), deadline);
}

#[test]
fn a_process_that_unlearns_an_acknowledgement_or_echoes_another_is_a_copy() {
    let mut grantor = grantor();
    let nonce = ack_of(take(&mut grantor, &renewal(4, 3), ms(10_500))).nonce;
    let mut twin = Grantor::new(ms(10_000), [session(1)], TERMS, 5);
    ack_of(take(&mut twin, &renewal(4, 3), ms(10_500)));
    assert_eq!(grantor.handle_renewal(&renewal(5, 2), ms(11_000)), Err(Refused::Forked));
    let wrong_echo = Renewal { nonce: nonce + 1, ..renewal(5, 4) };
    assert_eq!(twin.handle_renewal(&wrong_echo, ms(11_000)), Err(Refused::Forked));
}

#[test]
fn an_echo_of_another_leaders_acknowledgement_is_no_fork() {
    let mut grantor = grantor();
    ack_of(take(&mut grantor, &renewal(4, 3), ms(10_500)));
    let echo_of_term_4 = Renewal { nonce: (4 << 32) | 77, ..renewal(5, 4) };
    assert_eq!(grantor.handle_renewal(&echo_of_term_4, ms(11_000)), Ok(()));
}

#[test]
fn whose_wall_clock_is_far_from_the_median_is_odd_and_never_most_of_them() {
    let odd = |walls: &[Option<u64>]| {
        let mut grantor = Grantor::new(ms(10_000), (1..=walls.len() as u64).map(session), TERMS, 5);
        for (nonce, wall) in (1..).zip(walls) {
            let wall_clock = wall.map(|secs| WallTime::from_unix_nanos(secs * 1_000_000_000));
            let told = Renewal { session: session(nonce), wall_clock, ..renewal(1, 0) };
            grantor.handle_renewal(&told, ms(10_500)).expect("taken");
        }
        grantor.odd_clocks().into_iter().map(|session| session.nonce).collect::<Vec<_>>()
    };
    assert_eq!(odd(&[Some(1_000), Some(1_004), Some(1_011)]), [3], "7 s from the middle one");
    assert_eq!(odd(&[Some(1_000), Some(1_005), Some(1_010)]), [], "5 s is not above it");
    assert_eq!(odd(&[Some(1_000), Some(9_000)]), [], "of two, nobody knows which");
    assert_eq!(odd(&[Some(1_000), Some(1_000), Some(9_000), Some(9_000)]), []);
    assert_eq!(odd(&[None, Some(1_000), Some(1_001), Some(50)]), [4], "who tells none is not judged");
    assert_eq!(odd(&[None, None]), []);
}

#[test]
fn wall_clocks_that_are_told_at_different_times_are_compared_as_of_one() {
    let mut grantor = Grantor::new(ms(10_000), [session(1), session(2), session(3)], TERMS, 5);
    for (nonce, at, wall) in [(1, 10_000, 70_000), (2, 30_000, 90_000), (3, 50_000, 110_000)] {
        let wall_clock = Some(WallTime::from_unix_nanos(wall * 1_000_000));
        grantor
            .handle_renewal(&Renewal { session: session(nonce), wall_clock, ..renewal(1, 0) }, ms(at))
            .expect("taken");
    }
    assert_eq!(grantor.odd_clocks(), BTreeSet::new());
}

/// A cluster of holders with clocks of their own, who renew twice a second and hear every acknowledgement within 1 ms of the
/// leader's clock, which shows real time.
struct Town {
    grantor: Grantor,
    holders: Vec<(Renewal, i64)>,
    real_ms: u64,
}

impl Town {
    /// The rates are what each clock gains, in parts per million.
    fn new(rates: &[i64]) -> Town {
        let sessions = (1..=rates.len() as u64).map(of_node);
        let holders = sessions.clone().zip(rates);
        let holders = holders.map(|(session, rate)| (Renewal { session, ..renewal(0, 0) }, *rate)).collect();
        Town { grantor: Grantor::new(ms(10_000), sessions, TERMS, 5), holders, real_ms: 10_000 }
    }

    fn reads(rate: i64, real_us: u64) -> Moment {
        Moment::from_nanos((real_us as i64 * (1_000_000 + rate) / 1_000) as u64)
    }

    /// Half a second passes, and everybody renews.
    fn turn(&mut self) {
        self.real_ms += 500;
        self.grantor.handle_timeout(ms(self.real_ms));
        for (renewal, rate) in &mut self.holders {
            renewal.seq += 1;
            renewal.my_clock = Town::reads(*rate, self.real_ms * 1_000 - 500);
            if self.grantor.handle_renewal(renewal, ms(self.real_ms)).is_err() {
                continue;
            }
            let round = self.grantor.poll_confirmation().expect("it waits");
            self.grantor.handle_confirmed(round, NEWS);
            let ack = ack_of(self.grantor.poll_reply());
            (renewal.last_ack_seen, renewal.nonce) = (ack.seq, ack.nonce);
            renewal.ack_heard = Town::reads(*rate, self.real_ms * 1_000 + 500);
        }
    }

    fn turns(&mut self, turns: usize) {
        (0..turns).for_each(|_| self.turn());
    }

    /// Whose clock was found odd, and by how many per mille it is fast.
    fn odd(&mut self) -> Vec<(u64, i64, bool)> {
        let found = std::iter::from_fn(|| self.grantor.poll_odd_clock());
        found.map(|odd| (odd.session.node.0.get(), (odd.fast_ppb as f64 / 1e6).round() as i64, odd.ended)).collect()
    }
}

fn of_node(node: u64) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::MIN.saturating_add(node - 1)), nonce: node, counter: 1 }
}

#[test]
fn a_session_whose_clock_runs_oddly_is_extended_no_more_after_half_a_minute_and_told_once() {
    let mut town = Town::new(&[0, 100, -20_000]);
    town.turns(61);
    assert_eq!((town.odd(), town.grantor.passed_over().len()), (vec![], 0), "not measured yet");
    town.turn();
    assert_eq!(town.odd(), [(3, -20, true)], "2 % slow");
    let slow = of_node(3);
    let deadline = town.grantor.deadline(slow).expect("it lives until the log ends it");
    let heard = ms(town.real_ms - 500);
    assert!(
        deadline >= heard.saturating_add(Span::from_millis(3_030 * 102 / 100)),
        "what a slow clock counts too little"
    );
    let next = Renewal { session: slow, ..renewal(500, 499) };
    assert_eq!(town.grantor.handle_renewal(&next, ms(town.real_ms)), Err(Refused::OddClock));
    town.turns(5);
    assert_eq!((town.grantor.poll_expired(), town.grantor.deadline(slow)), (vec![], Some(deadline)));
    town.turn();
    assert_eq!(town.grantor.poll_expired(), [slow], "like any lease that ran out");
    assert_eq!(town.odd(), []);
}

#[test]
fn a_node_with_an_odd_clock_gets_nothing_new_until_its_next_session_has_been_found_to_run_well() {
    let mut town = Town::new(&[0, 100, 20_000]);
    town.turns(62);
    assert_eq!(town.odd(), [(3, 20, true)]);
    assert_eq!(town.grantor.passed_over(), BTreeSet::from([of_node(3)]));
    town.grantor.handle_session_closed(of_node(3));
    let next = SessionId { counter: 2, ..of_node(3) };
    town.grantor.handle_session_opened(next, ms(town.real_ms));
    town.holders[2] = (Renewal { session: next, ..renewal(0, 0) }, 0);
    town.turns(61);
    assert_eq!(town.grantor.passed_over(), BTreeSet::from([next]));
    town.turn();
    assert_eq!((town.grantor.passed_over().len(), town.odd()), (0, vec![]));
}

#[test]
fn a_leader_whose_own_clock_is_odd_ends_its_own_session_and_waits_longer_for_the_others() {
    // The leader, whose clock the test goes by, is node 1: it is 2 % faster than the rest.
    let mut town = Town::new(&[0, -20_000, -20_000]);
    town.turns(62);
    assert_eq!(town.odd(), [(1, 20, true)]);
    let deadline = town.grantor.deadline(of_node(2)).expect("live");
    assert!(deadline >= ms(town.real_ms).saturating_add(Span::from_millis(3_090)), "two percent more, from now on");
    town.turn();
    let deadline = town.grantor.deadline(of_node(2)).expect("live");
    assert!(deadline >= ms(town.real_ms).saturating_add(Span::from_millis(3_090)));
}

#[test]
fn of_two_clocks_that_disagree_none_is_ended_and_it_is_told_once() {
    let mut town = Town::new(&[0, 20_000]);
    town.turns(80);
    assert_eq!(town.odd(), [(2, 20, false)]);
    assert_eq!(town.grantor.passed_over().len(), 0);
}

#[test]
fn a_shorter_ttl_is_settled_once_every_longer_lease_is_over() {
    let mut grantor = grantor();
    let shorter = Terms::new(Span::from_secs(2), TERMS.renew(), TERMS.d_max(), 10).expect("they hold");
    grantor.handle_terms(shorter.waiting(TERMS.ttl()), ms(10_500));
    assert_eq!(ack_of(take(&mut grantor, &renewal(1, 0), ms(10_600))).ttl, shorter.ttl());
    assert_eq!(grantor.deadline(session(1)), Some(ms(13_630)), "somebody may still hold three seconds");
    grantor.handle_terms(shorter.waiting(TERMS.ttl()), ms(13_000));
    assert!(!grantor.is_settled(ms(13_530)) && grantor.is_settled(ms(13_531)), "counted from the first time");
    grantor.handle_terms(shorter, ms(13_540));
    let nonce = (5 << 32) | 1;
    ack_of(take(&mut grantor, &Renewal { nonce, ..renewal(2, 1) }, ms(13_600)));
    assert_eq!(grantor.deadline(session(1)), Some(ms(15_620)));
}

#[test]
fn a_number_is_settled_once_all_who_may_lend_said_that_they_go_by_it() {
    let mut grantor = Grantor::new(ms(10_000), [session(1)], TERMS, 5);
    let none = std::iter::empty;
    let says = |n_max, seq, nonce| Renewal { n_max, nonce, ..renewal(seq, seq - 1) };
    let nonce = ack_of(take(&mut grantor, &says(3, 1, 0), ms(10_500))).nonce;
    assert!(!grantor.all_go_by(3, none()), "that may be an earlier leader's, and another on its way");
    ack_of(take(&mut grantor, &says(3, 2, nonce), ms(11_000)));
    assert!(grantor.all_go_by(3, none()) && !grantor.all_go_by(4, none()));
    let ghost = session(1).node;
    assert!(!grantor.all_go_by(3, [ghost].into_iter()), "of whom nothing is known");
    grantor.handle_session_closed(session(1));
    assert!(grantor.all_go_by(3, [ghost].into_iter()), "what it last said");
    assert!(!grantor.all_go_by(4, [ghost].into_iter()));
    grantor.handle_session_opened(SessionId { counter: 2, ..session(1) }, ms(11_500));
    assert!(!grantor.all_go_by(3, none()), "it has said nothing yet");
}

#[test]
fn what_all_have_applied_is_known_once_all_have_said_it() {
    let mut grantor = grantor();
    let says = |nonce, applied, seq| Renewal { session: session(nonce), applied, ..renewal(seq, 0) };
    grantor.handle_renewal(&says(1, 40, 1), ms(10_500)).expect("taken");
    assert_eq!(grantor.applied_by_all(), None);
    grantor.handle_renewal(&says(2, 38, 1), ms(10_500)).expect("taken");
    assert_eq!(grantor.applied_by_all(), Some(38));
    grantor.handle_session_closed(session(2));
    assert_eq!(grantor.applied_by_all(), Some(40));
}
