//! How many keys a domain may hold on this node. The count is shared by all partition tables of the node, each behind
//! its own lock, so it is atomic; it is touched only when a key comes or goes, never by a decision about a known key.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::rate::DomainId;

/// Domains a node can tell apart; a key of a domain beyond that finds no room.
pub const DOMAINS_MAX: usize = 1_024;

/// Keys of a domain that nobody has set a maximum for.
pub const KEYS_MAX_DEFAULT: u64 = 1_000_000;

/// The keys in use and the keys allowed, for each domain of a node. When a domain is at its maximum, a check that needs
/// a new key of that domain is [`WhyUndecided::TableFull`](crate::WhyUndecided::TableFull); other domains do not notice.
#[derive(Debug)]
pub struct Budgets {
    domains: Box<[Budget]>,
}

#[derive(Debug)]
struct Budget {
    used: AtomicU64,
    max: AtomicU64,
}

impl Budgets {
    /// No keys in use; every domain may hold [`KEYS_MAX_DEFAULT`].
    pub fn new() -> Budgets {
        let fresh = || Budget { used: AtomicU64::new(0), max: AtomicU64::new(KEYS_MAX_DEFAULT) };
        Budgets { domains: (0..DOMAINS_MAX).map(|_| fresh()).collect() }
    }

    /// Lets `domain` hold `max` keys from now on. Keys above a lowered maximum stay until they carry no information.
    /// A domain number of [`DOMAINS_MAX`] or more is ignored.
    pub fn set_max(&self, domain: DomainId, max: u64) {
        if let Some(budget) = self.of(domain) {
            budget.max.store(max, Ordering::Relaxed);
        }
    }

    /// Keys that `domain` holds now; 0 for a domain number of [`DOMAINS_MAX`] or more.
    pub fn used(&self, domain: DomainId) -> u64 {
        self.of(domain).map_or(0, |budget| budget.used.load(Ordering::Relaxed))
    }

    /// Takes room for one key, if there is any.
    pub(crate) fn take(&self, domain: DomainId) -> bool {
        let Some(budget) = self.of(domain) else { return false };
        let max = budget.max.load(Ordering::Relaxed);
        let one_more = |used: u64| (used < max).then_some(used + 1);
        budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Gives the room of one key back.
    pub(crate) fn give(&self, domain: DomainId) {
        if let Some(budget) = self.of(domain) {
            let before = budget.used.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "law 4: only a key that took room gives it back");
        }
    }

    /// Counts a key for another domain, which may go above its maximum by that: no key is lost to a change of its limit.
    pub(crate) fn transfer(&self, from: DomainId, to: DomainId) {
        if from != to {
            self.give(from);
            if let Some(budget) = self.of(to) {
                budget.used.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn of(&self, domain: DomainId) -> Option<&Budget> {
        self.domains.get(usize::from(domain.0))
    }
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets::new()
    }
}

/// A count of its own from here on, as a copied machine has.
impl Clone for Budgets {
    fn clone(&self) -> Budgets {
        let copied = |count: &AtomicU64| AtomicU64::new(count.load(Ordering::Relaxed));
        let domains = self.domains.iter().map(|budget| Budget { used: copied(&budget.used), max: copied(&budget.max) });
        Budgets { domains: domains.collect() }
    }
}
