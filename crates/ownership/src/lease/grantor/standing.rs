//! What a leader knows of one session: until when it may believe that it decides, what it said last, and what it was told.

use limits::{Moment, Span, WallTime};

use super::super::Renewal;
use super::super::pace::Pace;
use super::super::shares::Shares;
use super::{OddClock, Refused};
use crate::bug::Bug;

/// How far a renewal may be ahead of the last acknowledgement its holder heard and still extend the lease.
const UNHEARD_MAX: u64 = 2;

/// What the leader knows of one session.
#[derive(Clone, Debug)]
pub struct Standing {
    pub deadline: Moment,
    pub fate: Fate,
    pub heard: Option<Renewal>,
    /// The last renewal that was acknowledged, and by which nonce.
    pub last_ack: Option<(u64, u64)>,
    /// When it last told its wall clock, and what that said.
    pub wall: Option<(Moment, WallTime)>,
    pub pace: Pace,
    /// What was last told of its clock's pace.
    pub told: Option<OddClock>,
    pub shares: Shares,
    pub waiting: Option<Pending>,
    pub asked: Option<Pending>,
}

/// Whether a session's deadline can still move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Renewals extend it.
    Open,
    /// It was cloned; nothing extends it.
    Forked,
    /// Its clock does not run as the others' do; nothing extends it.
    OddClock,
    /// Its end was offered to the log at that reading and may commit at any time; nothing extends it.
    Offered(Moment),
}

/// A renewal that awaits confirmation.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub seq: u64,
    pub received: Moment,
    /// Whether the holder is known to hear acknowledgements.
    pub extends: bool,
}

impl Standing {
    pub fn until(deadline: Moment) -> Standing {
        Standing {
            deadline,
            fate: Fate::Open,
            heard: None,
            last_ack: None,
            wall: None,
            pace: Pace::default(),
            told: None,
            shares: Shares::default(),
            waiting: None,
            asked: None,
        }
    }

    /// One process sends each `seq` once, never unlearns an acknowledgement, and echoes what it was told.
    pub fn check(&self, renewal: &Renewal) -> Result<(), Refused> {
        match self.fate {
            Fate::Open => {}
            Fate::Forked => return Err(Refused::Forked),
            Fate::OddClock => return Err(Refused::OddClock),
            Fate::Offered(_) => return Err(Refused::UnknownSession),
        }
        let Some(heard) = self.heard else { return Ok(()) };
        if renewal.seq == heard.seq && renewal.nonce != heard.nonce {
            return Err(Refused::Forked);
        }
        if renewal.seq <= heard.seq {
            return Err(Refused::Stale);
        }
        let unlearned = renewal.last_ack_seen < heard.last_ack_seen;
        if unlearned || self.contradicts_last_ack(renewal) {
            return Err(Refused::Forked);
        }
        Ok(())
    }

    /// Nonces of another leader's term say nothing: both may have acknowledged the same renewal.
    fn contradicts_last_ack(&self, renewal: &Renewal) -> bool {
        self.last_ack.is_some_and(|(seq, nonce)| {
            renewal.last_ack_seen == seq && renewal.nonce >> 32 == nonce >> 32 && renewal.nonce != nonce
        })
    }

    /// What is remembered of a renewal that was taken in at `now` by the leader of `term`.
    pub fn hear(&mut self, renewal: &Renewal, now: Moment, term: u64) {
        let hears_this_leader = renewal.nonce != 0 && renewal.nonce >> 32 == term & 0xffff_ffff;
        self.shares.handle_renewal(renewal, hears_this_leader);
        self.pace.handle_renewal(renewal, hears_this_leader, now);
        self.wall = renewal.wall_clock.map(|wall| (now, wall)).or(self.wall);
        self.heard = Some(*renewal);
    }

    /// The first renewal that a leader sees proves nothing and need not: earlier acknowledgements were another leader's.
    pub fn proves_that_acks_arrive(&self, renewal: &Renewal) -> bool {
        self.heard.is_none()
            || Bug::AcksNotProven.is_here()
            || renewal.last_ack_seen.saturating_add(UNHEARD_MAX) >= renewal.seq
    }

    pub fn is_to_be_offered(&self, now: Moment, ttl: Span) -> bool {
        match self.fate {
            Fate::Open | Fate::Forked | Fate::OddClock => now > self.deadline,
            Fate::Offered(at) => now.since(at) >= ttl,
        }
    }
}
