//! One wall clock for the whole cluster, told by its leader and carried by lease acknowledgements: boot time plus an
//! offset. Windows that are aligned to the calendar follow it, and no node's own wall clock. It never goes back, and it
//! never rises faster than boot time by more than a small allowance; what is wrong by more is steered slowly. The leader's
//! wall clock steers it more slowly still, and only while it agrees with those of most nodes.

use limits::{Moment, Span, WallTime};

/// How far corrections may put cluster time forward at once. What is used up comes back at [`DRIFT_PER_MILLE`] of the
/// time that passes.
pub const FORWARD_MAX: Span = Span::from_millis(100);

/// How much faster than this node's boot time cluster time may run for long: two clocks that are each within 1 % of real
/// time differ by no more, and a holder whose own clock is slow must be able to keep up with its leader.
pub const DRIFT_PER_MILLE: u64 = 20;

/// How fast the leader's wall clock steers cluster time: parts in a million of the time that passes, the rate at which
/// systems slew their own clocks.
pub const STEER_PPM: u64 = 500;

/// How far a session's wall clock may be from the median of all before it is the odd one out.
pub const WALL_SPREAD_MAX: Span = Span::from_secs(5);

/// What a node knows of cluster time: nothing, until it first hears of it. Small, and cheap to copy for every reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterTime(Option<Course>);

/// Where cluster time is, and where it is heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Course {
    /// The reading of this node's clock at which cluster time was `reading`.
    anchor: Moment,
    reading: WallTime,
    /// How much `reading` is too late; made up for at half speed.
    ahead: Span,
    /// What is left of [`FORWARD_MAX`].
    allowance: Span,
    /// How much steering found too late; made up for at half speed too.
    steered_back: Span,
    /// Until when a leader's wall clock has steered it.
    steered: Moment,
}

impl ClusterTime {
    /// A node that has heard of no cluster time.
    pub const fn unknown() -> ClusterTime {
        ClusterTime(None)
    }

    /// Cluster time at a reading of this node's clock; `None` until the node has heard of it.
    pub fn now(&self, moment: Moment) -> Option<WallTime> {
        self.0.map(|course| course.at(moment))
    }

    /// An acknowledgement told cluster time: read at the leader, `told`, somewhere between `sent` (the renewal) and
    /// `received` (the acknowledgement) on this node's clock.
    ///
    /// The first one sets cluster time, taking the reading for the middle of the round trip. A later one corrects it only
    /// if the two readings cannot both be right: a round trip of 40 ms says nothing about an error of 10.
    pub fn handle_ack_time(&mut self, sent: Moment, received: Moment, told: WallTime) {
        let round_trip = received.since(sent);
        let middle = told.saturating_add(round_trip.scaled(1, 2));
        match &mut self.0 {
            None => self.0 = Some(Course::set(received, middle)),
            Some(course) if received >= course.anchor => {
                course.correct(received, told, told.saturating_add(round_trip), middle);
            }
            Some(_) => {}
        }
    }

    /// The wall clock of the node that leads draws cluster time towards it, by [`STEER_PPM`] of the time since it last did
    /// so (or since cluster time was last heard or told): that much forward at once, or that much of standing back.
    pub fn steer(&mut self, moment: Moment, own_wall_clock: WallTime) {
        if let Some(course) = &mut self.0 {
            course.steer(moment, own_wall_clock);
        }
    }

    /// Cluster time at a node that leads: what it last heard as a holder, carried on; its own wall clock only when it
    /// never heard any, which after the first seconds of a cluster means that every node restarted.
    pub fn lead(&mut self, moment: Moment, own_wall_clock: WallTime) -> WallTime {
        self.0.get_or_insert(Course::set(moment, own_wall_clock)).at(moment)
    }
}

impl Course {
    const fn set(anchor: Moment, reading: WallTime) -> Course {
        let (ahead, steered_back) = (Span::ZERO, Span::ZERO);
        Course { anchor, reading, ahead, allowance: FORWARD_MAX, steered_back, steered: anchor }
    }

    /// At full speed, or at half speed until what it is ahead has been made up for. Before the anchor (another thread's
    /// reading) half speed never contradicts what was told there.
    fn at(&self, moment: Moment) -> WallTime {
        let gone = moment.since(self.anchor);
        let before = self.anchor.since(moment);
        self.reading.saturating_add(self.advance(gone)).saturating_sub(before.scaled(1, 2))
    }

    /// How far cluster time moves while so much time passes.
    fn advance(&self, gone: Span) -> Span {
        gone.saturating_sub(self.ahead).saturating_sub(self.steered_back).max(gone.scaled(1, 2))
    }

    /// Goes on from `moment`, with whatever is still to be made up for.
    fn anchor_at(&mut self, moment: Moment) {
        let gone = moment.since(self.anchor);
        self.reading = self.at(moment);
        self.anchor = self.anchor.max(moment);
        let made_up = gone.saturating_sub(self.advance(gone));
        let of_steering = made_up.saturating_sub(self.ahead);
        self.ahead = self.ahead.saturating_sub(made_up);
        self.steered_back = self.steered_back.saturating_sub(of_steering);
    }

    fn steer(&mut self, moment: Moment, wall: WallTime) {
        let most = moment.since(self.steered).scaled(STEER_PPM, 1_000_000);
        if most == Span::ZERO || moment < self.anchor {
            return;
        }
        self.steered = moment;
        self.regain(moment);
        self.anchor_at(moment);
        self.put_forward(wall.since(self.reading).min(most));
        self.steered_back = self.reading.since(wall).min(self.steered_back.saturating_add(most));
    }

    /// The allowance comes back with time.
    fn regain(&mut self, moment: Moment) {
        let regained = moment.since(self.anchor).scaled(DRIFT_PER_MILLE, 1_000);
        self.allowance = self.allowance.saturating_add(regained).min(FORWARD_MAX);
    }

    /// At `moment`, cluster time is between `least` and `most`, and most likely `middle`.
    fn correct(&mut self, moment: Moment, least: WallTime, most: WallTime, middle: WallTime) {
        self.regain(moment);
        self.anchor_at(moment);
        // Heard from a leader: steering is that one's business, and begins anew should this node lead.
        self.steered = moment;
        let contradicted = self.reading < least || self.reading > most;
        self.ahead = if contradicted { self.reading.since(middle) } else { Span::ZERO };
        if contradicted {
            self.put_forward(middle.since(self.reading));
        }
    }

    fn put_forward(&mut self, by: Span) {
        let by = by.min(self.allowance);
        self.allowance = self.allowance.saturating_sub(by);
        self.reading = self.reading.saturating_add(by);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: u64 = 1_700_000_000_000;

    fn ms(millis: u64) -> Moment {
        Moment::ZERO.saturating_add(Span::from_millis(millis))
    }

    /// Cluster time, in milliseconds after `NOON`.
    fn noon_and(millis: u64) -> WallTime {
        WallTime::from_unix_nanos((NOON + millis) * 1_000_000)
    }

    fn since_noon(time: &ClusterTime, moment: Moment) -> u64 {
        let wall = time.now(moment).expect("known");
        wall.as_unix_nanos() / 1_000_000 - NOON
    }

    #[test]
    fn the_first_acknowledgement_sets_cluster_time_by_the_middle_of_the_round_trip() {
        let mut time = ClusterTime::unknown();
        assert_eq!(time.now(ms(5_000)), None);
        time.handle_ack_time(ms(5_000), ms(5_040), noon_and(0));
        assert_eq!(since_noon(&time, ms(5_040)), 20);
        assert_eq!(since_noon(&time, ms(6_040)), 1_020);
    }

    #[test]
    fn a_reading_that_may_be_right_is_left_alone() {
        let mut time = ClusterTime::unknown();
        time.handle_ack_time(ms(5_000), ms(5_040), noon_and(0));
        let before = time.now(ms(9_000));
        // At 5,540 we read 520; the leader says that it is between 500 and 540.
        time.handle_ack_time(ms(5_500), ms(5_540), noon_and(500));
        assert_eq!(time.now(ms(9_000)), before);
    }

    #[test]
    fn cluster_time_that_is_behind_is_put_forward_by_100_ms_at_most() {
        let mut time = ClusterTime::unknown();
        time.handle_ack_time(ms(5_000), ms(5_000), noon_and(0));
        time.handle_ack_time(ms(5_500), ms(5_500), noon_and(560));
        assert_eq!(since_noon(&time, ms(5_500)), 560, "60 of 100 ms");
        time.handle_ack_time(ms(6_000), ms(6_000), noon_and(9_000));
        assert_eq!(since_noon(&time, ms(6_000)), 1_110, "the other 40, and 10 regained in half a second");
    }

    #[test]
    fn cluster_time_that_is_ahead_goes_at_half_speed_until_it_is_right() {
        let mut time = ClusterTime::unknown();
        time.handle_ack_time(ms(5_000), ms(5_000), noon_and(100));
        time.handle_ack_time(ms(5_500), ms(5_500), noon_and(500));
        assert_eq!(since_noon(&time, ms(5_500)), 600, "it never steps back");
        assert_eq!(since_noon(&time, ms(5_600)), 650);
        assert_eq!(since_noon(&time, ms(5_700)), 700, "made up for");
        assert_eq!(since_noon(&time, ms(5_800)), 800);
    }

    #[test]
    fn a_new_leader_carries_on_what_it_heard_and_reads_its_wall_clock_only_if_it_heard_nothing() {
        let mut holder = ClusterTime::unknown();
        holder.handle_ack_time(ms(5_000), ms(5_000), noon_and(0));
        assert_eq!(holder.lead(ms(6_000), noon_and(77_000)), noon_and(1_000));

        let mut first = ClusterTime::unknown();
        assert_eq!(first.lead(ms(6_000), noon_and(77_000)), noon_and(77_000));
        assert_eq!(first.lead(ms(6_500), noon_and(0)), noon_and(77_500), "set once");
    }

    #[test]
    fn a_holder_whose_clock_is_one_percent_slow_keeps_up_with_its_leader() {
        let mut time = ClusterTime::unknown();
        for second in 0..3_600u64 {
            let (mine, leaders) = (5_000 + second * 990, second * 1_000);
            time.handle_ack_time(ms(mine), ms(mine), noon_and(leaders));
            assert_eq!(since_noon(&time, ms(mine)), leaders);
        }
    }

    #[test]
    fn a_leaders_wall_clock_draws_cluster_time_by_500_ppm_either_way_and_not_beyond() {
        let steered = |millis: i64| {
            let mut time = ClusterTime::unknown();
            time.lead(ms(0), noon_and(10_000));
            for second in 1..=100u64 {
                let wall = (10_000 + 1_000 * second).saturating_add_signed(millis);
                time.steer(ms(1_000 * second), noon_and(wall));
            }
            since_noon(&time, ms(200_000)) as i64 - 210_000
        };
        assert_eq!(steered(3_000), 50, "0.5 ms each second");
        assert_eq!(steered(-3_000), -50);
        assert_eq!((steered(20), steered(-20), steered(0)), (20, -20, 0));
    }

    #[test]
    fn a_node_that_begins_to_lead_does_not_steer_for_the_time_in_which_it_followed() {
        let mut time = ClusterTime::unknown();
        time.handle_ack_time(ms(5_000), ms(5_000), noon_and(0));
        time.handle_ack_time(ms(90_000), ms(90_000), noon_and(85_000));
        time.steer(ms(91_000), noon_and(900_000));
        let wall = time.now(ms(91_000)).expect("set");
        assert_eq!(wall.since(noon_and(86_000)), Span::from_micros(500));
    }

    #[test]
    fn an_acknowledgement_that_agrees_does_not_end_what_steering_has_still_to_make_up_for() {
        let mut time = ClusterTime::unknown();
        time.lead(ms(0), noon_and(10_000));
        time.steer(ms(100_000), noon_and(0));
        time.handle_ack_time(ms(100_010), ms(100_010), noon_and(110_005));
        assert_eq!(since_noon(&time, ms(101_000)), 110_950);
    }

    proptest! {
        /// Whatever leaders say, and however late, and whatever steers a node that leads in between.
        #[test]
        fn cluster_time_never_goes_back_and_never_outruns_boot_time_by_more_than_its_allowance(
            acks in proptest::collection::vec((0u64..3_000, 0u64..400, 0u64..120_000, 0u64..2_000, proptest::bool::ANY), 2..60),
        ) {
            let mut time = ClusterTime::unknown();
            let mut clock = 10_000;
            let mut readings: Vec<(Moment, WallTime)> = Vec::new();
            for (pause, round_trip, told, look, leads) in acks {
                clock += pause;
                if leads {
                    time.lead(ms(clock), noon_and(told));
                    time.steer(ms(clock), noon_and(told));
                    readings.push((ms(clock), time.now(ms(clock)).expect("set")));
                    continue;
                }
                time.handle_ack_time(ms(clock.saturating_sub(round_trip)), ms(clock), noon_and(told));
                readings.push((ms(clock), time.now(ms(clock)).expect("set")));
                clock += look;
                readings.push((ms(clock), time.now(ms(clock)).expect("set")));
            }
            for (i, (earlier, low)) in readings.iter().enumerate() {
                for (later, high) in &readings[i..] {
                    prop_assert!(high >= low, "it went back");
                    let gone = later.since(*earlier);
                    let most = gone.scaled(1_000 + DRIFT_PER_MILLE, 1_000).saturating_add(FORWARD_MAX);
                    prop_assert!(high.since(*low) <= most, "{} in {gone}", high.since(*low));
                }
            }
        }
    }
}
