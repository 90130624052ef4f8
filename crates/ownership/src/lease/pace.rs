//! Whether a session's clock runs as its leader's does, found out after the fact. A renewal tells the holder's clock when
//! it was sent, a later one when its acknowledgement was heard, and the leader received it in between. So every round trip
//! bounds from both sides by how much the two clocks differ, and delays on the way cannot make the bounds wrong: they only
//! make them wider. Two round trips that lie [`PACE_WINDOW`] apart then bound how much more time one of the two clocks saw.

use std::collections::VecDeque;

use limits::{Moment, Span};

use super::{OUTSTANDING_MAX, Renewal, Terms};

/// Over how long two clocks are compared.
pub const PACE_WINDOW: Span = Span::from_secs(30);

/// How long a round trip is kept to be compared with; older ones are forgotten.
const KEPT: Span = Span::from_secs(35);

/// Of round trips that follow each other faster, only the first is kept; so there are some seventy of them at most.
const APART: Span = Span::from_millis(500);

/// One whole, in the unit of a [`Drift`].
const WHOLE: i128 = 1_000_000_000;

/// By how much faster than a holder's clock its leader's runs, in parts per billion: the truth lies between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    pub least: i64,
    pub most: i64,
}

/// What is known of one session's clock.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Renewals whose acknowledgement may still be heard, the oldest first.
    received: VecDeque<Received>,
    trips: VecDeque<Trip>,
    drift: Option<Drift>,
}

#[derive(Clone, Copy, Debug)]
struct Received {
    seq: u64,
    sent: Moment,
    at: Moment,
}

/// A round trip, and between what the leader's clock less the holder's then lay, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Trip {
    at: Moment,
    least: i128,
    most: i128,
}

impl Pace {
    /// A renewal that was taken in arrived at `now`, on the leader's clock. Where the acknowledgement that it speaks of was
    /// another leader's (`hears_this_leader` is false), it tells of no round trip.
    pub fn handle_renewal(&mut self, renewal: &Renewal, hears_this_leader: bool, now: Moment) {
        let is_answered = |received: &&Received| hears_this_leader && received.seq == renewal.last_ack_seen;
        let answered = self.received.iter().find(is_answered).copied();
        self.received.retain(|received| received.seq > renewal.last_ack_seen);
        if self.received.len() == OUTSTANDING_MAX {
            self.received.pop_front();
        }
        self.received.push_back(Received { seq: renewal.seq, sent: renewal.my_clock, at: now });
        let trip = answered.map(|received| Trip {
            at: received.at,
            least: between(renewal.ack_heard, received.at),
            most: between(received.sent, received.at),
        });
        if let Some(trip) = trip.filter(|trip| trip.least <= trip.most) {
            self.measure(trip);
        }
    }

    /// How the clock was found to run over the last [`PACE_WINDOW`] or a little more; `None` before so much has passed.
    pub const fn drift(&self) -> Option<Drift> {
        self.drift
    }

    /// Compares with the shortest of the trips that lie far enough back: it says most.
    fn measure(&mut self, trip: Trip) {
        while self.trips.front().is_some_and(|first| trip.at.since(first.at) > KEPT) {
            self.trips.pop_front();
        }
        let far = self.trips.iter().rev().skip_while(|earlier| trip.at.since(earlier.at) < PACE_WINDOW);
        if let Some(earlier) = far.min_by_key(|earlier| earlier.most - earlier.least) {
            self.drift = Some(drift_between(earlier, &trip));
        }
        if self.trips.back().is_none_or(|last| trip.at.since(last.at) >= APART) {
            self.trips.push_back(trip);
        }
    }
}

impl Drift {
    /// That of a clock that was not measured.
    pub const UNKNOWN: Drift = Drift { least: i64::MIN, most: i64::MAX };

    /// That of the leader's own clock.
    pub const NONE: Drift = Drift { least: 0, most: 0 };

    /// What lies in the middle.
    pub const fn middle(self) -> i64 {
        self.least.midpoint(self.most)
    }

    /// Whether the clock certainly differs by more than `most_ppb` from all that run between `low` and `high`.
    pub const fn is_outside(self, low: i64, high: i64, most_ppb: i64) -> bool {
        self.most < low.saturating_sub(most_ppb) || self.least > high.saturating_add(most_ppb)
    }
}

/// The median of what is certain: between its first and its second lie the clocks of most, whatever the delays. Between the
/// middle two of an even number it leaves room for both.
pub fn median(drifts: &[Drift]) -> Option<(i64, i64)> {
    let last = drifts.len().checked_sub(1)?;
    let mut least: Vec<i64> = drifts.iter().map(|drift| drift.least).collect();
    let mut most: Vec<i64> = drifts.iter().map(|drift| drift.most).collect();
    least.sort_unstable();
    most.sort_unstable();
    Some((least[last / 2], most[last.div_ceil(2)]))
}

/// `rho / 2`, above which two clocks disagree about how much time has passed.
pub fn tolerance_ppb(terms: &Terms) -> i64 {
    i64::from(terms.rho_per_mille()) * 500_000
}

/// `span`, and what a clock that is ahead by `ppb` counts too much meanwhile; at most twice `span`.
pub fn stretched(span: Span, ppb: i64) -> Span {
    let ahead = ppb.clamp(0, WHOLE as i64 / 2) as u64;
    // A holder's clock that sees `1 - x` of the time takes `1 / (1 - x)` of it for one unit: rounded up.
    let added = (u128::from(span.as_nanos()) * u128::from(ahead)).div_ceil(u128::from(WHOLE as u64 - ahead));
    span.saturating_add(Span::from_nanos(u64::try_from(added).unwrap_or(u64::MAX)))
}

fn between(holders: Moment, leaders: Moment) -> i128 {
    i128::from(leaders.as_nanos()) - i128::from(holders.as_nanos())
}

fn drift_between(earlier: &Trip, later: &Trip) -> Drift {
    let passed = i128::from(later.at.since(earlier.at).as_nanos()).max(1);
    let ppb = |gained: i128| {
        let ppb = (gained * WHOLE).div_euclid(passed);
        i64::try_from(ppb).unwrap_or(if ppb > 0 { i64::MAX } else { i64::MIN })
    };
    Drift { least: ppb(later.least - earlier.most), most: ppb(later.most - earlier.least).saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;
    use ring::NodeId;

    use super::*;
    use crate::session::SessionId;

    const BOOT: u64 = 5_000_000_000_000;

    /// A renewal of a holder whose clock runs at `rate` parts per million of the leader's, sent and acknowledged at these
    /// readings of the leader's clock, in microseconds.
    struct Wire {
        pace: Pace,
        rate: u64,
        seq: u64,
        heard: (u64, Moment),
    }

    impl Wire {
        fn new(rate: u64) -> Wire {
            Wire { pace: Pace::default(), rate, seq: 0, heard: (0, Moment::ZERO) }
        }

        fn reads(&self, leaders_us: u64) -> Moment {
            Moment::from_nanos(BOOT + leaders_us * self.rate / 1_000)
        }

        fn trip(&mut self, sent: u64, there: u64, back: u64) {
            self.seq += 1;
            let session = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };
            let (last_ack_seen, ack_heard) = self.heard;
            let renewal = Renewal {
                session,
                seq: self.seq,
                nonce: 0,
                last_ack_seen,
                map_version: 0,
                my_clock: self.reads(sent),
                ack_heard,
                wall_clock: None,
                n_max: 0,
                applied: 0,
            };
            self.pace.handle_renewal(&renewal, true, Moment::from_nanos((sent + there) * 1_000));
            self.heard = (self.seq, self.reads(sent + there + back));
        }
    }

    fn is_apart(drift: Drift) -> bool {
        drift.is_outside(0, 0, tolerance_ppb(&Terms::DEFAULT))
    }

    #[test]
    fn a_clock_that_loses_or_gains_one_percent_is_found_after_half_a_minute_and_measured() {
        for (rate, ppb) in [(990_000, 10_000_000i64), (1_010_000, -10_000_000), (1_000_000, 0)] {
            let mut wire = Wire::new(rate);
            for trip in 0..62 {
                wire.trip(trip * 500_000, 400, 600);
                assert_eq!(wire.pace.drift().is_some(), trip >= 61, "trip {trip}");
            }
            let drift = wire.pace.drift().expect("measured");
            assert!(drift.least <= ppb && ppb <= drift.most, "{drift:?}");
            assert!(drift.most - drift.least < 100_000, "a round trip of 1 ms twice in 30 s");
            assert_eq!(is_apart(drift), rate != 1_000_000);
        }
    }

    #[test]
    fn a_clock_that_stood_still_for_a_while_is_found_and_a_machine_that_did_not_run_is_not() {
        let mut frozen = Wire::new(1_000_000);
        let mut stalled = Wire::new(1_000_000);
        for trip in 0..130 {
            let at = trip * 500_000;
            frozen.trip(at, 400, 600);
            // Every renewal of some seconds waits in a queue, on the way there and on the way back.
            let queue = if (80..90).contains(&trip) { 300_000 } else { 0 };
            stalled.trip(at, 400 + queue, 600 + queue / 3);
            assert!(stalled.pace.drift().is_none_or(|drift| !is_apart(drift)), "trip {trip}");
        }
        let at = 130 * 500_000;
        // 200 ms that the holder's clock did not see: from now on it is behind by as much.
        let behind = |us: u64| Moment::from_nanos(frozen.reads(us).as_nanos() - 200_000_000);
        let (first, heard) = (behind(at), behind(at + 1_000));
        frozen.trip(at, 400, 600);
        if let Some(received) = frozen.pace.received.back_mut() {
            received.sent = first;
        }
        frozen.heard.1 = heard;
        frozen.trip(at + 500_000, 400, 600);
        assert!(frozen.pace.drift().is_some_and(is_apart), "{:?}", frozen.pace.drift());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut wire = Wire::new(1_000_000);
        for trip in 0..40_000 {
            wire.trip(trip * 5_000, 400, 600);
        }
        assert!(wire.pace.trips.len() <= 71 && wire.pace.received.len() <= OUTSTANDING_MAX);
        let mut deaf = Wire::new(1_000_000);
        for trip in 0..100 {
            deaf.trip(trip * 500_000, 400, 600);
            deaf.heard = (0, Moment::ZERO);
        }
        assert_eq!((deaf.pace.trips.len(), deaf.pace.received.len()), (0, OUTSTANDING_MAX));
    }

    #[test]
    fn the_median_leaves_room_for_both_of_two_and_knows_the_odd_one_of_three() {
        let drift = |ppb: i64| Drift { least: ppb - 1_000, most: ppb + 1_000 };
        let odd = |ppbs: &[i64]| {
            let drifts: Vec<Drift> = ppbs.iter().map(|ppb| drift(*ppb)).collect();
            let (low, high) = median(&drifts).expect("some");
            let tolerance = tolerance_ppb(&Terms::DEFAULT);
            drifts.iter().map(|drift| drift.is_outside(low, high, tolerance)).collect::<Vec<_>>()
        };
        assert_eq!(odd(&[0, 9_000_000]), [false, false]);
        assert_eq!(odd(&[0, 9_000_000, 100]), [false, true, false]);
        assert_eq!(odd(&[0, 9_000_000, 9_000_000]), [true, false, false], "the leader itself");
        assert_eq!(odd(&[0, 4_990_000, 100]), [false, false, false], "within rho / 2");
        assert_eq!(odd(&[0, 0, 9_000_000, 9_000_000]), [false; 4]);
        assert_eq!(median(&[]), None);
        let unknown = [drift(0), drift(9_000_000), drift(9_000_000), Drift::UNKNOWN, Drift::UNKNOWN];
        let (low, high) = median(&unknown).expect("some");
        assert!(!unknown[0].is_outside(low, high, 0), "two of five are not most of them");
    }

    #[test]
    fn a_slow_clock_takes_longer_for_what_it_counts() {
        let ms = Span::from_millis;
        assert_eq!(stretched(ms(3_000), 0), ms(3_000));
        assert_eq!(stretched(ms(3_000), -5), ms(3_000));
        assert_eq!(stretched(ms(990), 10_000_000), ms(1_000));
        assert_eq!(stretched(ms(3_000), i64::MAX), ms(6_000), "at most twice");
    }

    proptest! {
        /// Whatever the delays, the bounds hold the truth: so a clock within the tolerance is never found to be apart.
        #[test]
        fn no_delay_makes_the_bounds_wrong(
            rate in 995_100u64..1_004_900,
            delays in proptest::collection::vec((1u64..600_000, 1u64..600_000), 70..160),
        ) {
            let mut wire = Wire::new(rate);
            let truth = 1_000_000_000 - rate as i64 * 1_000;
            for (trip, (there, back)) in (0..).zip(delays) {
                wire.trip(trip * 1_300_000, there, back);
                if let Some(drift) = wire.pace.drift() {
                    prop_assert!(drift.least <= truth + 1 && truth <= drift.most + 1, "{drift:?} and {truth}");
                    prop_assert!(!is_apart(drift));
                }
            }
        }
    }
}
