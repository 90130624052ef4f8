//! How long leases last, and how that changes. A longer ttl binds leaders first: only a leader that has applied it grants
//! it, and waits by it. A shorter one binds holders first: it is granted at once, but leaders go on waiting by the longer
//! one, until the leader that grants it says that every longer lease is over.

use limits::Span;
use ownership::lease::Terms;

use crate::genesis::{GenesisError, LeaseTerms};
use crate::refusal::Refusal;

/// The longest ttl that can be set by command: for about so long nobody decides for what a dead node owned.
pub const TTL_MAX: Span = Span::from_secs(60);

/// The part of the lease terms that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long a session may decide after it last asked.
    pub ttl: Span,
    /// How long leaders wait for one: the ttl, or a longer one before it by which leases may still be held.
    pub waited: Span,
    /// The log index of the entry that changed the ttl last; 0 while it is that of genesis.
    pub changed_at: u64,
}

impl Lease {
    /// What genesis says, before anybody changed it.
    pub const fn founded(terms: &LeaseTerms) -> Lease {
        Lease { ttl: terms.ttl, waited: terms.ttl, changed_at: 0 }
    }

    /// The terms that leases follow: those of genesis, with this ttl.
    pub(crate) fn terms(&self, genesis: &LeaseTerms) -> Terms {
        // Whatever changed it was checked before it was applied, and a snapshot when it was read.
        let terms = LeaseTerms { ttl: self.ttl, ..*genesis }.terms().unwrap_or(Terms::DEFAULT);
        terms.waiting(self.waited)
    }

    /// Sets the ttl. `Ok(None)` when it is that already: a proposer that heard no answer asks again. Else what it was.
    pub(crate) fn set(&mut self, index: u64, ttl: Span, genesis: &LeaseTerms) -> Result<Option<Span>, Refusal> {
        let terms = LeaseTerms { ttl, ..*genesis };
        if ttl > TTL_MAX || terms.terms().is_err() {
            return Err(GenesisError::Lease.into());
        }
        if ttl == self.ttl {
            return Ok(None);
        }
        let before = self.ttl;
        *self = Lease { ttl, waited: self.waited.max(ttl), changed_at: index };
        Ok(Some(before))
    }

    /// Nobody holds a longer lease any more that was granted before the entry at `since`.
    pub(crate) fn settle(&mut self, since: u64) -> Result<(), Refusal> {
        if self.waited == self.ttl || since != self.changed_at {
            return Err(Refusal::NothingToSettle);
        }
        self.waited = self.ttl;
        Ok(())
    }

    /// What every history keeps.
    pub(crate) fn is_consistent(&self, applied: u64, genesis: &LeaseTerms) -> bool {
        let holds = LeaseTerms { ttl: self.ttl, ..*genesis }.terms().is_ok();
        let as_founded = self.changed_at > 0 || *self == Lease::founded(genesis);
        holds && as_founded && self.waited >= self.ttl && self.changed_at <= applied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Span {
        Span::from_secs(secs)
    }

    fn lease() -> (Lease, LeaseTerms) {
        let genesis = LeaseTerms::default();
        (Lease::founded(&genesis), genesis)
    }

    #[test]
    fn a_longer_ttl_is_waited_for_from_the_entry_that_grants_it() {
        let (mut lease, genesis) = lease();
        assert_eq!(lease.set(9, secs(6), &genesis), Ok(Some(secs(3))));
        assert_eq!(lease, Lease { ttl: secs(6), waited: secs(6), changed_at: 9 });
        assert_eq!(lease.set(10, secs(6), &genesis), Ok(None), "asked again");
        assert_eq!(lease.changed_at, 9);
        assert_eq!(lease.settle(9), Err(Refusal::NothingToSettle));
    }

    #[test]
    fn a_shorter_ttl_is_granted_at_once_and_waited_for_once_it_is_settled() {
        let (mut lease, genesis) = lease();
        assert_eq!(lease.set(9, secs(2), &genesis), Ok(Some(secs(3))));
        let terms = lease.terms(&genesis);
        assert_eq!((terms.ttl(), terms.waited()), (secs(2), secs(3)));
        assert_eq!(lease.settle(8), Err(Refusal::NothingToSettle), "said of another change");
        assert_eq!(lease.settle(9), Ok(()));
        assert_eq!(lease.terms(&genesis).waited(), secs(2));
    }

    #[test]
    fn whoever_changes_it_again_before_it_is_settled_still_waits_for_the_longest() {
        let (mut lease, genesis) = lease();
        lease.set(9, secs(10), &genesis).expect("longer");
        lease.set(10, secs(2), &genesis).expect("shorter");
        lease.set(11, secs(4), &genesis).expect("between");
        assert_eq!(lease, Lease { ttl: secs(4), waited: secs(10), changed_at: 11 });
        assert_eq!(lease.settle(10), Err(Refusal::NothingToSettle));
        assert_eq!(lease.settle(11), Ok(()));
    }

    #[test]
    fn a_ttl_that_no_lease_can_have_is_refused() {
        let (mut lease, genesis) = lease();
        for ttl in [Span::ZERO, secs(1), TTL_MAX.saturating_add(Span::from_nanos(1)), Span::from_nanos(u64::MAX)] {
            assert_eq!(lease.set(9, ttl, &genesis), Err(GenesisError::Lease.into()), "{ttl}");
        }
        assert_eq!(lease.set(9, TTL_MAX, &genesis), Ok(Some(secs(3))));
    }
}
