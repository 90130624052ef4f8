//! By which number each session divides its emergency shares, as far as its leader can prove. A renewal says what its
//! holder goes by; what acknowledgements that it has not heard of yet may make of that is remembered here. So a number is
//! known to be *settled* once nobody who may lend goes by a lower one, and a session that has none yet begins with it.

use std::collections::VecDeque;

use super::{OUTSTANDING_MAX, Renewal};

/// What one session was told, and what it said.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// What its last renewal said that it goes by, 0 for nothing; only once that renewal proved that it hears this leader:
    /// before, an acknowledgement of an earlier one may still make it go by anything.
    said: Option<u32>,
    /// What later acknowledgements say, in order.
    told: VecDeque<Told>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    seq: u64,
    n_max: u32,
    settled: bool,
}

impl Shares {
    /// A renewal arrived; `hears` says that it echoes an acknowledgement of this leader.
    pub fn handle_renewal(&mut self, renewal: &Renewal, hears: bool) {
        if hears {
            self.said = Some(renewal.n_max);
        }
        // Who has heard a later acknowledgement takes nothing from an earlier one, nor from one to a renewal long ago.
        let counts = |told: &Told| {
            told.seq > renewal.last_ack_seen && told.seq.saturating_add(OUTSTANDING_MAX as u64) > renewal.seq
        };
        self.told.retain(counts);
    }

    /// An acknowledgement of renewal `seq` leaves.
    pub fn handle_ack(&mut self, seq: u64, n_max: u32, settled: bool) {
        self.told.push_back(Told { seq, n_max, settled });
    }

    /// The lowest number that the session may go by, now or once it has heard what it was told; the highest there is for
    /// one that lends nothing. `None` while that is unknown.
    pub fn least(&self) -> Option<u32> {
        let said = self.said?;
        // Who goes by nothing yet begins with a settled number only.
        let taken = self.told.iter().filter(|told| said > 0 || told.settled).map(|told| told.n_max);
        let said = if said > 0 { said } else { u32::MAX };
        Some(taken.fold(said, u32::min))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use limits::Moment;
    use ring::NodeId;

    use super::*;
    use crate::session::SessionId;

    fn renewal(seq: u64, last_ack_seen: u64, n_max: u32) -> Renewal {
        let session = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };
        let (my_clock, ack_heard) = (Moment::ZERO, Moment::ZERO);
        let (nonce, map_version, applied, wall_clock) = (0, 0, 0, None);
        Renewal { session, seq, nonce, last_ack_seen, map_version, my_clock, ack_heard, wall_clock, n_max, applied }
    }

    #[test]
    fn what_a_session_goes_by_is_unknown_until_it_hears_this_leader() {
        let mut shares = Shares::default();
        shares.handle_renewal(&renewal(5, 4, 3), false);
        assert_eq!(shares.least(), None);
        shares.handle_ack(5, 3, true);
        shares.handle_renewal(&renewal(6, 5, 3), true);
        assert_eq!(shares.least(), Some(3));
    }

    #[test]
    fn a_lower_number_on_its_way_counts_until_a_later_one_was_heard() {
        let mut shares = Shares::default();
        shares.handle_renewal(&renewal(6, 5, 4), true);
        shares.handle_ack(6, 3, true);
        shares.handle_ack(7, 5, false);
        shares.handle_renewal(&renewal(8, 5, 4), true);
        assert_eq!(shares.least(), Some(3));
        shares.handle_renewal(&renewal(9, 7, 5), true);
        assert_eq!(shares.least(), Some(5), "6 is overtaken");
    }

    #[test]
    fn who_lends_nothing_yet_is_in_nobodys_way_unless_it_may_have_been_told_to_begin() {
        let mut shares = Shares::default();
        shares.handle_renewal(&renewal(2, 1, 0), true);
        shares.handle_ack(2, 3, false);
        assert_eq!(shares.least(), Some(u32::MAX));
        shares.handle_ack(3, 3, true);
        assert_eq!(shares.least(), Some(3));
        shares.handle_renewal(&renewal(4, 3, 3), true);
        assert_eq!(shares.least(), Some(3));
    }

    #[test]
    fn an_acknowledgement_that_its_holder_no_longer_awaits_counts_no_more() {
        let mut shares = Shares::default();
        shares.handle_renewal(&renewal(2, 1, 4), true);
        shares.handle_ack(2, 3, true);
        shares.handle_renewal(&renewal(9, 1, 4), true);
        assert_eq!(shares.least(), Some(3), "still awaited: the last eight are");
        shares.handle_renewal(&renewal(10, 1, 4), true);
        assert_eq!(shares.least(), Some(4));
    }
}
