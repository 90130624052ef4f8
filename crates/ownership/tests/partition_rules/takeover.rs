//! What a takeover with unknown state costs: a limit that fails closed is never over across it, a limit that fails open
//! does not notice it, and who is denied because of it is told so.

use limits::{Algorithm, Align, Basis, Now};
use proptest::prelude::*;
use ringfence_ownership::{Answer, CheckLeg, Epoch, Floor, Partition};

use crate::desk::*;

#[test]
fn after_a_takeover_a_closed_bucket_starts_empty_and_an_open_one_full() {
    let desk = Desk::with(bucket(20), 10, secs(1), Basis::Hi).and(2, bucket(20), 10, secs(1), Basis::Lo);
    let mut partition = owned(taken_over(at_millis(1_000)));
    assert!(!desk.decide(&mut partition, &first(1).spending(1, 1), at_millis(1_099)).allowed);
    assert!(
        desk.decide(&mut partition, &first(2).spending(1, 1), at_millis(1_100)).allowed,
        "the rate is admitted at once"
    );
    assert!(desk.decide(&mut partition, &first(3).spending(2, 20), at_millis(1_100)).allowed);
}

#[test]
fn a_limit_that_was_allotted_after_the_takeover_reads_fresh() {
    let desk = Desk::with(bucket(20), 10, secs(1), Basis::Hi).allotted(1, 21);
    let mut partition = owned(taken_over(at_millis(1_000)));
    assert!(desk.decide(&mut partition, &first(1).spending(1, 20), at_millis(1_000)).allowed);
}

#[test]
fn a_window_waits_out_one_window_and_is_whole_again() {
    let desk = Desk::with(LOG, 5, secs(10), Basis::Hi);
    let mut partition = owned(taken_over(at_millis(1_000)));
    let early = desk.decide(&mut partition, &first(1).spending(1, 1), at_nanos(10_999_999_999));
    assert!(!early.allowed && early.recovering);
    assert!(desk.decide(&mut partition, &first(2).spending(1, 5), at_millis(11_000)).allowed);
}

#[test]
fn an_aligned_window_recovers_although_the_takeover_came_before_cluster_time_was_known() {
    let desk = Desk::with(window(Align::Epoch), 5, secs(10), Basis::Hi);
    let mut partition = owned(taken_over(Now::at(at_millis(1_000).moment)));
    // Boot is at 0.123 s of a window of cluster time, so the window that the takeover touches ends at 9.877 s.
    assert!(!desk.decide(&mut partition, &first(1).spending(1, 1), at_millis(9_876)).allowed);
    assert!(desk.decide(&mut partition, &first(2).spending(1, 5), at_millis(9_877)).allowed);
}

#[test]
fn the_window_that_a_takeover_fills_is_worked_out_once_and_does_not_follow_cluster_time_as_it_is_steered() {
    let desk = Desk::with(window(Align::Epoch), 5, secs(10), Basis::Hi);
    let mut partition = owned(taken_over(Now::at(at_millis(9_700).moment)));
    assert!(!desk.decide(&mut partition, &first(1).spending(1, 1), at_millis(9_800)).allowed);

    let put_forward = Now { wall: at_millis(15_300).wall, ..at_millis(15_000) };
    assert!(desk.decide(&mut partition, &first(2).spending(1, 5), put_forward).allowed);
}

#[test]
fn a_denial_that_the_takeover_causes_is_called_recovering_until_the_floor_has_worn_off() {
    let desk = Desk::with(bucket(20), 10, secs(1), Basis::Hi);
    let mut partition = owned(taken_over(at_millis(1_000)));
    let denied = desk.decide(&mut partition, &first(1).spending(1, 5), at_millis(1_200));
    assert!(!denied.allowed && denied.recovering);
    assert!(desk.decide(&mut partition, &first(2).spending(1, 2), at_millis(1_200)).allowed);
    let with_an_entry = desk.decide(&mut partition, &first(3).spending(1, 1), at_millis(1_200));
    assert!(!with_an_entry.allowed && with_an_entry.recovering);
    let replayed = desk.decide(&mut partition, &first(3).spending(1, 1).again(), at_millis(1_250));
    assert!(replayed.replayed && replayed.recovering);

    assert!(desk.decide(&mut partition, &first(4).spending(1, 18), at_millis(3_000)).allowed);
    let used_up = desk.decide(&mut partition, &first(5).spending(1, 1), at_millis(3_000));
    assert!(!used_up.allowed && !used_up.recovering);
}

#[test]
fn a_cost_that_never_fits_and_a_limit_of_zero_are_not_recovering() {
    let desk = Desk::with(bucket(20), 10, secs(1), Basis::Hi).and(2, bucket(0), 0, secs(1), Basis::Hi);
    let mut partition = owned(taken_over(at_millis(1_000)));
    assert!(!desk.decide(&mut partition, &first(1).spending(1, 21), at_millis(1_200)).recovering);
    assert!(!desk.decide(&mut partition, &first(2).spending(2, 1), at_millis(1_200)).recovering);
}

#[test]
fn a_denial_is_not_recovering_when_a_sibling_limit_is_used_up() {
    let desk = Desk::with(bucket(20), 10, secs(1), Basis::Hi).and(2, bucket(3), 1, secs(1), Basis::Lo);
    let mut partition = owned(taken_over(at_millis(1_000)));
    assert!(desk.decide(&mut partition, &first(1).spending(2, 3), at_millis(1_010)).allowed);
    let both = desk.decide(&mut partition, &first(2).spending(1, 1).spending(2, 1), at_millis(1_010));
    assert!(!both.allowed && !both.recovering);
    let only_the_floor = desk.decide(&mut partition, &first(3).spending(1, 1).watching(2, 1), at_millis(1_010));
    assert!(!only_the_floor.allowed && only_the_floor.recovering);
}

#[test]
fn a_denial_at_a_new_cluster_is_never_recovering() {
    let desk = Desk::with(bucket(2), 1, secs(1), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    assert!(desk.decide(&mut partition, &first(1).spending(1, 2), at_millis(10)).allowed);
    let denied = desk.decide(&mut partition, &first(2).spending(1, 1), at_millis(10));
    assert!(!denied.allowed && !denied.recovering);
}

/// One check of a random history: how long after the one before, and what it costs.
type Ask = (u64, u64);

fn asks(most_millis: u64) -> impl Strategy<Value = Vec<Ask>> {
    prop::collection::vec((0..most_millis, 1..6_u64), 1..80)
}

/// Charges in the order they were made: nanoseconds since boot, and units.
type Charges = Vec<(u64, u64)>;

/// Asks `partition` one after the other from `clock` on and returns what was admitted, and the clock then.
fn run(desk: &Desk, partition: &mut Partition, asks: &[Ask], mut clock: u64) -> (Charges, u64) {
    let mut admitted = Charges::new();
    for (gap, cost) in asks {
        clock += gap * 1_000_000;
        let check = first(u128::from(clock) << 8 | u128::from(*cost)).spending(1, *cost);
        if desk.decide(partition, &check, at_nanos(clock)).allowed {
            admitted.push((clock, *cost));
        }
    }
    (admitted, clock)
}

/// The history of three owners of one key: each of them dies, and its successor knows nothing.
fn glued(desk: &Desk, reigns: &[Vec<Ask>]) -> Charges {
    let (mut all, mut clock) = (Charges::new(), 7_000_000);
    for (epoch, asks) in (1..).zip(reigns) {
        let floor = if epoch == 1 { Floor::Fresh } else { taken_over(at_nanos(clock)) };
        let mut partition = Partition::vacant();
        partition.activate(Epoch(epoch), SESSION, floor);
        let (admitted, later) = run(desk, &mut partition, asks, clock);
        all.extend(admitted);
        clock = later + 1;
    }
    all
}

/// The most units admitted in any stretch that `counts(from, to)` holds together.
fn most_in(charges: &Charges, counts: impl Fn(u64, u64) -> bool) -> u64 {
    let sum_from = |(first, (from, _)): (usize, &(u64, u64))| {
        charges[first..].iter().take_while(|(to, _)| counts(*from, *to)).map(|(_, units)| units).sum()
    };
    charges.iter().enumerate().map(sum_from).max().unwrap_or(0)
}

fn is_never_over_a_bucket(charges: &Charges, burst: u64, amount: u64, period: u64) -> bool {
    (0..charges.len()).all(|first| {
        let mut units = 0;
        charges[first..].iter().all(|(to, cost)| {
            units += u128::from(*cost);
            units * u128::from(period)
                <= u128::from(burst) * u128::from(period) + u128::from(amount) * u128::from(to - charges[first].0)
        })
    })
}

/// Units per window, where a window begins at the first charge that is in none.
fn most_per_window_from_first_charge(charges: &Charges, period: u64) -> u64 {
    let (mut most, mut units, mut end) = (0, 0, 0);
    for (when, cost) in charges {
        if *when >= end {
            (units, end) = (0, when + period);
        }
        units += cost;
        most = most.max(units);
    }
    most
}

const SECOND: u64 = 1_000_000_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_closed_bucket_is_never_over_across_takeovers(
        reigns in prop::collection::vec(asks(400), 3), burst in 1..12_u64, amount in 1..9_u64,
    ) {
        let desk = Desk::with(bucket(burst), amount, secs(3), Basis::Hi);
        prop_assert!(is_never_over_a_bucket(&glued(&desk, &reigns), burst, amount, 3 * SECOND));
    }

    #[test]
    fn a_closed_sliding_log_is_never_over_across_takeovers(
        reigns in prop::collection::vec(asks(400), 3), amount in 1..12_u64,
    ) {
        let desk = Desk::with(LOG, amount, secs(3), Basis::Hi);
        let most = most_in(&glued(&desk, &reigns), |from, to| to - from < 3 * SECOND);
        prop_assert!(most <= amount, "{most} in one window");
    }

    #[test]
    fn a_closed_fixed_window_is_never_over_across_takeovers(
        reigns in prop::collection::vec(asks(400), 3), amount in 1..12_u64,
    ) {
        let desk = Desk::with(window(Align::First), amount, secs(3), Basis::Hi);
        prop_assert!(most_per_window_from_first_charge(&glued(&desk, &reigns), 3 * SECOND) <= amount);

        let desk = Desk::with(window(Align::Epoch), amount, secs(3), Basis::Hi);
        let index = |when: u64| at_nanos(when).wall.unwrap().as_unix_nanos() / (3 * SECOND);
        prop_assert!(most_in(&glued(&desk, &reigns), |from, to| index(from) == index(to)) <= amount);
    }

    #[test]
    fn an_open_limit_does_not_notice_a_takeover(
        asks in asks(400), kind in 0..3_usize, amount in 1..12_u64,
    ) {
        let algorithm = [bucket(amount), LOG, window(Align::Hashed)][kind];
        let desk = Desk::with(algorithm, amount, secs(3), Basis::Lo);
        let start = 9 * SECOND;
        let (after_takeover, _) = run(&desk, &mut owned(taken_over(at_nanos(start))), &asks, start);
        let (at_a_new_cluster, _) = run(&desk, &mut owned(Floor::Fresh), &asks, start);
        prop_assert_eq!(after_takeover, at_a_new_cluster);
    }

    /// The other world: an owner without a floor that is charged with exactly what this one admits. A denial is called
    /// recovering only if that owner would have admitted; and for single units before the floor has worn off, always
    /// then.
    #[test]
    fn recovering_means_that_without_the_takeover_it_had_been_admitted(
        asks in asks(300), one_by_one in any::<bool>(), kind in 0..4_usize, amount in 1..12_u64,
    ) {
        let algorithm: Algorithm = [bucket(amount), LOG, window(Align::First), window(Align::Hashed)][kind];
        let desk = Desk::with(algorithm, amount, secs(3), Basis::Hi);
        let start = 9 * SECOND;
        let (mut here, mut other_world) = (owned(taken_over(at_nanos(start))), owned(Floor::Fresh));
        let mut clock = start;
        for (id, (gap, cost)) in (1..).zip(asks) {
            clock += gap * 1_000_000;
            let check = first(id).spending(1, if one_by_one { 1 } else { cost });
            let verdict = desk.decide(&mut here, &check, at_nanos(clock));
            if verdict.allowed {
                other_world.debt(check.id, FIRST, &check.legs, &desk, at_nanos(clock));
                continue;
            }
            let elsewhere = desk.decide(&mut other_world, &check, at_nanos(clock)).allowed;
            other_world.cancel(check.id, FIRST, &desk, at_nanos(clock));
            prop_assert!(elsewhere || !verdict.recovering, "used up, and called recovering");
            if one_by_one && clock < start + 3 * SECOND && elsewhere {
                prop_assert!(verdict.recovering, "held back by the floor alone, and called used up");
            }
        }
    }
}

#[test]
fn what_is_handed_over_is_what_was_used() {
    let desk = Desk::with(LOG, 20, secs(10), Basis::Hi);
    let mut partition = owned(Floor::Fresh);
    desk.decide(&mut partition, &first(1).spending(1, 7), at_millis(10));
    let CheckLeg { key, .. } = leg(1, 0);
    let usages: Vec<_> = partition.export(&desk, at_millis(20)).collect();
    assert_eq!(usages.len(), 1);
    assert_eq!(usages[0].key, key);
    assert!(
        matches!(desk.ask(&mut partition, &first(2).spending(1, 13), at_millis(20)), Answer::Decided(verdict) if verdict.allowed)
    );
}
