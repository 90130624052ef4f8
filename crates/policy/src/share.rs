//! How a limit with an emergency share is divided: what its owner runs with, and what each ingress may give out when no
//! owner answers. All divisions round down, so the parts never add up to more than the whole.

use limits::{Algorithm, FailMode, Rate, Shape};

/// The shape that the owner decides with: of a limit with a *reserved* emergency share only the rest, `100 - percent`
/// of amount and burst; of every other limit the whole.
pub(crate) fn owners_part(whole: Shape, fail: FailMode) -> Shape {
    match fail {
        FailMode::Emergency { percent, reserved: true } => scaled(whole, 100u64.saturating_sub(percent.into()), 100),
        FailMode::Emergency { reserved: false, .. } | FailMode::Closed | FailMode::Open => whole,
    }
}

/// The shape of the small limiter of one of `nodes_max` nodes: `percent / 100 / nodes_max` of amount and burst. An
/// amount of zero refuses everything. `None` for other failure modes.
pub(crate) fn emergency_part(whole: Shape, fail: FailMode, nodes_max: u32) -> Option<Shape> {
    match fail {
        FailMode::Emergency { percent, .. } => Some(scaled(whole, percent.into(), 100 * u64::from(nodes_max.max(1)))),
        FailMode::Closed | FailMode::Open => None,
    }
}

/// `parts / of` of amount and burst, rounded down, over the same period.
fn scaled(whole: Shape, parts: u64, of: u64) -> Shape {
    let part = |amount: u64| {
        let share = u128::from(amount) * u128::from(parts) / u128::from(of);
        u64::try_from(share).expect("a part is at most the whole")
    };
    let smaller = |rate: Rate| Rate::new(part(rate.amount()), rate.period()).expect("a part is at most the whole");
    let algorithm = match whole.algorithm {
        Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: part(burst) },
        Algorithm::SlidingLog { .. }
        | Algorithm::FixedWindow { .. }
        | Algorithm::SlidingCounter
        | Algorithm::Calendar { .. }
        | Algorithm::Concurrency { .. } => whole.algorithm,
    };
    Shape { rate: whole.rate.map(smaller), algorithm, ..whole }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use limits::{AMOUNT_MAX, Basis, DomainId, LimitId, Span};
    use proptest::prelude::*;

    use super::*;

    fn bucket(amount: u64, burst: u64) -> Shape {
        Shape {
            limit: LimitId(1),
            domain: DomainId(0),
            rate: Some(Rate::new(amount, Span::from_secs(1)).unwrap()),
            algorithm: Algorithm::TokenBucket { burst },
            basis: Basis::Hi,
        }
    }

    #[test]
    fn a_reserved_share_is_taken_from_the_owner() {
        let reserved = FailMode::Emergency { percent: 20, reserved: true };
        assert_eq!(owners_part(bucket(10, 21), reserved), bucket(8, 16));
        assert_eq!(emergency_part(bucket(10, 21), reserved, 3), Some(bucket(0, 1)));
        assert_eq!(emergency_part(bucket(1_000, 210), reserved, 3), Some(bucket(66, 14)));
    }

    #[test]
    fn an_additive_share_leaves_the_owner_everything() {
        let additive = FailMode::Emergency { percent: 20, reserved: false };
        assert_eq!(owners_part(bucket(10, 21), additive), bucket(10, 21));
    }

    #[test]
    fn closed_and_open_limits_have_no_share() {
        for fail in [FailMode::Closed, FailMode::Open] {
            assert_eq!(owners_part(bucket(10, 21), fail), bucket(10, 21));
            assert_eq!(emergency_part(bucket(10, 21), fail, 3), None);
        }
    }

    #[test]
    fn unlimited_stays_unlimited() {
        let unlimited = Shape { rate: None, ..bucket(1, 0) };
        let reserved = FailMode::Emergency { percent: 50, reserved: true };
        assert_eq!(owners_part(unlimited, reserved).rate, None);
        assert_eq!(emergency_part(unlimited, reserved, 3).unwrap().rate, None);
    }

    /// A part of the slots, of a window's amount or of a log's: the same way of counting, with fewer units.
    #[test]
    fn every_algorithm_has_its_share_of_the_amount_and_counts_it_the_same_way() {
        let max_hold = Span::from_secs(60);
        let algorithms = [
            Algorithm::SlidingLog { max_entries: 9 },
            Algorithm::FixedWindow { align: limits::Align::Epoch },
            Algorithm::SlidingCounter,
            Algorithm::Calendar { calendar: limits::CalendarId(7) },
            Algorithm::Concurrency { max_hold },
        ];
        for algorithm in algorithms {
            let of = |amount| Shape { algorithm, ..bucket(amount, 0) };
            let reserved = FailMode::Emergency { percent: 20, reserved: true };
            assert_eq!(owners_part(of(101), reserved), of(80));
            assert_eq!(emergency_part(of(101), reserved, 3), Some(of(6)));
        }
    }

    proptest! {
        #[test]
        fn a_reserved_limit_never_adds_up_to_more_than_itself(
            amount in 0..=AMOUNT_MAX, burst in 0..=AMOUNT_MAX, percent in 1u8..=99, nodes in 1u32..=1_000
        ) {
            let whole = bucket(amount, burst);
            let fail = FailMode::Emergency { percent, reserved: true };
            let (owner, each) = (owners_part(whole, fail), emergency_part(whole, fail, nodes).unwrap());
            let all = |of: fn(&Shape) -> u64| u128::from(of(&owner)) + u128::from(of(&each)) * u128::from(nodes);
            prop_assert!(all(|shape| shape.rate.unwrap().amount()) <= u128::from(amount));
            prop_assert!(all(|shape| shape.capacity().unwrap()) <= u128::from(burst));
        }
    }
}
