//! The right to decide, and until when. A holder counts its lease from when it *sent* a renewal, shortened by what its
//! clock may be off; the grantor counts from when it *received* it, lengthened by the same. So the holder stops before
//! its partitions are given away (S4), whatever the network does, as long as both clocks run within `rho` of real time,
//! pauses included.

mod grantor;
mod holder;
mod pace;
mod shares;

use limits::{Moment, Span, WallTime};

pub use grantor::{Grantor, OddClock, Refused, Reply, Round};
pub use holder::{Heard, Holder, OUTSTANDING_MAX};
pub use pace::PACE_WINDOW;

use crate::session::SessionId;

/// How long a cluster may be without a leader in ordinary operation: the heartbeat of 50 ms that is missed, the 300 ms for
/// which followers believe in the leader before it, and an election timeout of at most 300 ms. A split vote takes one more
/// timeout; the default ttl has room for that, the shortest may cost a holder its lease.
pub const FAILOVER: Span = Span::from_millis(650);

/// The largest `rho` that can be spelled. The margins below are worked out for small ones.
pub const RHO_PER_MILLE_MAX: u16 = 100;

/// The lengths of time that a cluster's leases obey. They are made at genesis, changed by command only, and equal on every
/// node that applied the same entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    ttl: Span,
    /// What leaders wait by: the ttl, or a longer one before it by which leases may still be held.
    waited: Span,
    renew: Span,
    d_max: Span,
    rho_per_mille: u16,
}

/// Why terms cannot hold. The doing of whoever wrote them; nothing changed; take the defaults, or a longer ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// A lease that is never renewed.
    #[error("leases are renewed after some time, not after none")]
    RenewZero,
    /// The clocks' tolerance is above [`RHO_PER_MILLE_MAX`].
    #[error("rho is at most {RHO_PER_MILLE_MAX} per mille")]
    RhoTooLarge,
    /// An ordinary change of leader would cost every holder its lease.
    #[error("a ttl of {ttl} is not longer than {least}: failover, one renewal, d_max and what clocks may be off")]
    TtlTooShort {
        /// What was asked for.
        ttl: Span,
        /// What it must be longer than.
        least: Span,
    },
}

impl Terms {
    /// What genesis takes when nobody says otherwise: ttl 3 s, renewed every 500 ms, answers of at most 250 ms, clocks
    /// within 1 %.
    pub const DEFAULT: Terms = Terms {
        ttl: Span::from_secs(3),
        waited: Span::from_secs(3),
        renew: Span::from_millis(500),
        d_max: Span::from_millis(250),
        rho_per_mille: 10,
    };

    /// Terms under which an ordinary change of leader costs nobody a lease:
    /// `ttl > FAILOVER + renew + d_max + 2 rho ttl`.
    ///
    /// # Errors
    ///
    /// [`TermsError`] names the number that cannot hold.
    pub fn new(ttl: Span, renew: Span, d_max: Span, rho_per_mille: u16) -> Result<Terms, TermsError> {
        if renew == Span::ZERO {
            return Err(TermsError::RenewZero);
        }
        if rho_per_mille > RHO_PER_MILLE_MAX {
            return Err(TermsError::RhoTooLarge);
        }
        let drift = per_mille_up(ttl, 2 * u64::from(rho_per_mille));
        let least = FAILOVER.saturating_add(renew).saturating_add(d_max).saturating_add(drift);
        if ttl <= least {
            return Err(TermsError::TtlTooShort { ttl, least });
        }
        Ok(Terms { ttl, waited: ttl, renew, d_max, rho_per_mille })
    }

    /// The same terms while leases of an earlier, longer ttl may still be held: nobody is ended before that long.
    pub fn waiting(self, earlier: Span) -> Terms {
        Terms { waited: earlier.max(self.ttl), ..self }
    }

    /// The length of a lease, in real time.
    pub const fn ttl(&self) -> Span {
        self.ttl
    }

    /// The longest that a lease may be which somebody holds: what leaders wait by.
    pub const fn waited(&self) -> Span {
        self.waited
    }

    /// How often a holder asks for more.
    pub const fn renew(&self) -> Span {
        self.renew
    }

    /// How old an answer may be when its caller still acts on it.
    pub const fn d_max(&self) -> Span {
        self.d_max
    }

    /// What every clock may be off, in thousandths of the time that passed.
    pub const fn rho_per_mille(&self) -> u16 {
        self.rho_per_mille
    }

    /// `ttl (1 - rho)`: what a holder may count on its own clock, which may run slow.
    pub const fn held(&self, ttl: Span) -> Span {
        ttl.scaled(1_000 - self.rho_per_mille as u64, 1_000)
    }

    /// `ttl (1 + rho)`: what a grantor must wait on its own clock, which may run fast; by the longest ttl in force.
    pub fn granted(&self) -> Span {
        per_mille_up(self.waited, 1_000 + u64::from(self.rho_per_mille))
    }

    /// `d_max (1 + 3 rho)`: how much of its lease a holder must have left to decide. A caller drops what is older than
    /// `d_max` on *its* clock, so every answer that anybody acts on arrives before the lease ends.
    pub fn margin(&self) -> Span {
        per_mille_up(self.d_max, 1_000 + 3 * u64::from(self.rho_per_mille))
    }
}

/// `span * parts / 1000`, rounded up: for what is waited, never for what is granted.
fn per_mille_up(span: Span, parts: u64) -> Span {
    let wide = (u128::from(span.as_nanos()) * u128::from(parts)).div_ceil(1_000);
    Span::from_nanos(u64::try_from(wide).unwrap_or(u64::MAX))
}

/// A holder's wish to hold on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Who asks.
    pub session: SessionId,
    /// Rises with each renewal of one session, from 1.
    pub seq: u64,
    /// The nonce of the last acknowledgement heard, 0 before the first: two copies of one process cannot both know it.
    pub nonce: u64,
    /// The `seq` of the last acknowledgement heard, 0 before the first. Proof that acknowledgements arrive.
    pub last_ack_seen: u64,
    /// The newest map that the holder applied.
    pub map_version: u64,
    /// The holder's boot-time clock when it sent this.
    pub my_clock: Moment,
    /// The holder's boot-time clock when it heard the acknowledgement of `last_ack_seen`; the boot, before the first.
    pub ack_heard: Moment,
    /// The holder's own wall clock, where it has one: never a basis of decisions, only for finding the odd one out.
    pub wall_clock: Option<WallTime>,
    /// Among how many sessions the holder divides emergency shares; 0 while it lends nothing.
    pub n_max: u32,
    /// The log index of the newest entry that the holder applied.
    pub applied: u64,
}

/// The grantor's word that a renewal counts; it leaves only after leadership was confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Whose renewal.
    pub session: SessionId,
    /// Which renewal.
    pub seq: u64,
    /// To be echoed in the renewals that follow.
    pub nonce: u64,
    /// For how long, in real time, from when the renewal was sent. Zero grants nothing: it only lets the holder prove
    /// that it hears, with its next renewal.
    pub ttl: Span,
    /// What rides along.
    pub news: News,
}

/// What rides on acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The number of sessions among which emergency shares are divided.
    pub n_max: u32,
    /// Whether everybody who may lend is known to divide by at least as many: a session begins to lend only then.
    pub n_max_settled: bool,
    /// Cluster time at the leader, read between the receipt of the renewal and the leaving of the acknowledgement.
    pub cluster_time: Option<WallTime>,
    /// The newest map that the leader applied.
    pub map_version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);

    #[test]
    fn the_defaults_are_terms_that_hold() {
        let Terms { ttl, waited: _, renew, d_max, rho_per_mille } = Terms::DEFAULT;
        assert_eq!(Terms::new(ttl, renew, d_max, rho_per_mille), Ok(Terms::DEFAULT));
    }

    #[test]
    fn a_ttl_must_outlast_a_failover_a_renewal_an_answer_and_the_drift_of_two_clocks() {
        let just = |ttl| Terms::new(ttl, Span::from_millis(500), Span::from_millis(250), 10);
        // 650 + 500 + 250 = 1,400 ms, which is 98 % of 1,428,571,428.57 ns; drift is rounded up.
        let most_that_fails = Span::from_nanos(1_428_571_429);
        assert!(matches!(just(most_that_fails), Err(TermsError::TtlTooShort { .. })));
        assert!(just(most_that_fails.saturating_add(Span::from_nanos(1))).is_ok());
    }

    #[test]
    fn terms_without_renewal_or_with_wild_clocks_cannot_be_spelled() {
        assert_eq!(Terms::new(SECOND, Span::ZERO, SECOND, 10), Err(TermsError::RenewZero));
        assert_eq!(Terms::new(SECOND, SECOND, SECOND, 101), Err(TermsError::RhoTooLarge));
    }

    #[test]
    fn what_is_held_is_rounded_down_and_what_is_waited_is_rounded_up() {
        let ttl = Span::from_nanos(1_001);
        let terms = Terms { ttl, waited: ttl, ..Terms::DEFAULT };
        assert_eq!(terms.held(terms.ttl()), Span::from_nanos(990));
        assert_eq!(terms.granted(), Span::from_nanos(1_012));
        assert_eq!(Terms::DEFAULT.margin(), Span::from_micros(257_500));
        let falling = Terms::DEFAULT.waiting(Span::from_secs(10));
        assert_eq!((falling.ttl(), falling.granted()), (Span::from_secs(3), Span::from_millis(10_100)));
        assert_eq!(Terms::DEFAULT.waiting(Span::from_secs(1)), Terms::DEFAULT);
    }
}
