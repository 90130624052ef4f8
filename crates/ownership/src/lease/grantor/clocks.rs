//! Whose clocks a leader does not trust: wall clocks that are far from those of most, which decides nothing but who gets
//! something new, and boot-time clocks that do not run as those of most do (A3), which ends a session. Leases rest on the
//! latter. Whatever is judged here is judged by most clocks and not by the leader's own, which may be the odd one.

use std::collections::BTreeSet;

use limits::{Moment, WallTime};

use super::super::pace::{Drift, median, stretched, tolerance_ppb};
use super::standing::Fate;
use super::{Grantor, OddClock, drop_pending};
use crate::cluster_time::WALL_SPREAD_MAX;
use crate::session::SessionId;

/// Nodes of whom it is remembered that a clock of theirs was odd. Beyond it, the lowest number is forgotten.
const SUSPECTS_MAX: usize = 128;

impl Grantor {
    /// The sessions whose wall clocks are further than [`WALL_SPREAD_MAX`] from the median of all that told theirs: never
    /// most of them. Between the middle two of an even number, nobody is odd. A wall clock is told with every renewal, and
    /// what lies between its telling and its receipt is far below the spread.
    pub fn odd_clocks(&self) -> BTreeSet<SessionId> {
        let offset =
            |(received, wall): (Moment, WallTime)| i128::from(wall.as_unix_nanos()) - i128::from(received.as_nanos());
        let told = self.sessions.iter().filter_map(|(session, standing)| Some((*session, offset(standing.wall?))));
        let told: Vec<(SessionId, i128)> = told.collect();
        let mut offsets: Vec<i128> = told.iter().map(|(_, offset)| *offset).collect();
        offsets.sort_unstable();
        let Some(last) = offsets.len().checked_sub(1) else { return BTreeSet::new() };
        let (low, high) = (offsets[last / 2], offsets[last.div_ceil(2)]);
        let spread = i128::from(WALL_SPREAD_MAX.as_nanos());
        let is_odd = |offset: i128| offset < low - spread || offset > high + spread;
        told.into_iter().filter(|(_, offset)| is_odd(*offset)).map(|(session, _)| session).collect()
    }

    /// Sessions that get nothing new: those that are extended no more, those whose wall clock is odd, and those of a node
    /// whose clock ran oddly in an earlier session, until the new one has been measured.
    pub fn passed_over(&self) -> BTreeSet<SessionId> {
        let mut passed = self.odd_clocks();
        let untrusted = self
            .sessions
            .iter()
            .filter(|(session, standing)| standing.fate != Fate::Open || self.suspects.contains(&session.node));
        passed.extend(untrusted.map(|(session, _)| *session));
        passed
    }

    /// Who was found to have an odd clock since this was last asked: each session once for each thing there is to say.
    pub fn poll_odd_clock(&mut self) -> Option<OddClock> {
        self.odd.pop_front()
    }

    /// Judges the pace of every clock by the median of all, of which this leader's own is one. A clock that has not been
    /// measured may be anything, so that nobody is odd before most are known to agree.
    pub(super) fn judge_clocks(&mut self, now: Moment) {
        let open = self.sessions.iter().filter(|(_, standing)| standing.fate == Fate::Open);
        let clocks: Vec<(SessionId, Drift)> =
            open.map(|(session, standing)| (*session, standing.pace.drift().unwrap_or(Drift::UNKNOWN))).collect();
        let drifts: Vec<Drift> = clocks.iter().map(|(_, drift)| *drift).collect();
        let Some((low, high)) = median(&drifts) else { return };
        let tolerance = tolerance_ppb(&self.terms);
        let mine_is_odd = Drift::NONE.is_outside(low, high, tolerance);
        if mine_is_odd {
            self.allow_for_own_clock(high, now);
        }
        let undecided = !mine_is_odd && !drifts.contains(&Drift::UNKNOWN);
        for (session, drift) in clocks {
            if drift.is_outside(low, high, tolerance) {
                self.end_for_its_clock(session, drift, low.midpoint(high));
            } else if undecided && drift.is_outside(0, 0, tolerance) {
                self.tell(OddClock { session, fast_ppb: drift.middle().saturating_neg(), ended: false });
            } else if drift != Drift::UNKNOWN {
                self.suspects.remove(&session.node);
            }
        }
    }

    /// A clock that runs ahead of the others makes this leader wait too little: from now on it waits longer, and begins
    /// with a full lease for everybody.
    fn allow_for_own_clock(&mut self, ahead_ppb: i64, now: Moment) {
        if ahead_ppb > self.ahead_ppb {
            self.ahead_ppb = ahead_ppb;
            self.extend_all(now);
        }
    }

    /// Extends the session no more. What its clock counts too slowly, its partitions are kept longer.
    fn end_for_its_clock(&mut self, session: SessionId, drift: Drift, middle: i64) {
        let granted = self.granted();
        let Some(standing) = self.sessions.get_mut(&session) else { return };
        standing.fate = Fate::OddClock;
        standing.deadline = standing.deadline.saturating_add(stretched(granted, drift.most).saturating_sub(granted));
        drop_pending(session, standing, &mut self.replies);
        if self.suspects.len() == SUSPECTS_MAX && !self.suspects.contains(&session.node) {
            self.suspects.pop_first();
        }
        self.suspects.insert(session.node);
        let fast_ppb = middle.saturating_sub(drift.middle());
        self.tell(OddClock { session, fast_ppb, ended: true });
    }

    /// Once for each session and each thing there is to say of it.
    fn tell(&mut self, odd: OddClock) {
        let Some(standing) = self.sessions.get_mut(&odd.session) else { return };
        if standing.told.is_none_or(|told| told.ended != odd.ended) {
            standing.told = Some(odd);
            self.odd.push_back(odd);
        }
    }
}
