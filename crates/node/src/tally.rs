//! Decisions counted without a lock. Each limit has a few shards of counters, a thread adds to its own shard, and a
//! scrape sums them; so counting costs one uncontended addition per limit of a check.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use limits::LimitId;

use crate::decision::{LegAnswer, Source};

/// Shards per limit; threads beyond it share.
pub(crate) const SHARDS: usize = 4;

/// A limit is nearly used up when less than this part of it is left.
const NEAR_PART: u64 = 5;

const OUTCOMES: usize = 3;
const SOURCES: usize = 7;

/// How a limit's answer is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It admitted.
    Allowed,
    /// It refused, and so the check was refused.
    Denied,
    /// It would have refused, but only watches.
    ShadowDenied,
}

impl Outcome {
    /// All outcomes, in the order in which they are stored.
    pub const ALL: [Outcome; OUTCOMES] = [Outcome::Allowed, Outcome::Denied, Outcome::ShadowDenied];

    /// The word that the `outcome` label uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Denied => "denied",
            Outcome::ShadowDenied => "shadow_denied",
        }
    }

    /// The outcome of one leg.
    pub const fn of(leg: &LegAnswer) -> Outcome {
        match (leg.allowed, leg.enforced) {
            (true, _) => Outcome::Allowed,
            (false, true) => Outcome::Denied,
            (false, false) => Outcome::ShadowDenied,
        }
    }
}

const ALL_SOURCES: [Source; SOURCES] = [
    Source::Owner,
    Source::Forwarded,
    Source::Emergency,
    Source::Open,
    Source::Closed,
    Source::Policy,
    Source::DenialCache,
];

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    decisions: [[AtomicU64; SOURCES]; OUTCOMES],
    cost: AtomicU64,
    near: AtomicU64,
}

/// The counters of one limit.
#[derive(Debug, Default)]
pub struct LimitTally {
    shards: [Shard; SHARDS],
    /// Checks that found no room for their key: counted at the owner, unlike the rest.
    full: AtomicU64,
}

impl LimitTally {
    /// Counts one answer of this limit, and the cost it admitted.
    pub fn count(&self, leg: &LegAnswer, cost: u64) {
        let shard = &self.shards[shard_of_this_thread()];
        let outcome = Outcome::of(leg);
        shard.decisions[outcome as usize][source_index(leg.source)].fetch_add(1, Ordering::Relaxed);
        if leg.allowed {
            shard.cost.fetch_add(cost, Ordering::Relaxed);
            if is_near_limit(leg) {
                shard.near.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Every counter that is not zero.
    pub fn decisions(&self) -> impl Iterator<Item = (Outcome, Source, u64)> + '_ {
        Outcome::ALL.into_iter().flat_map(move |outcome| {
            ALL_SOURCES.into_iter().filter_map(move |source| {
                let sum = self.sum(|shard| &shard.decisions[outcome as usize][source_index(source)]);
                (sum > 0).then_some((outcome, source, sum))
            })
        })
    }

    /// Units admitted.
    pub fn cost(&self) -> u64 {
        self.sum(|shard| &shard.cost)
    }

    /// Checks that it admitted with less than a fifth of its capacity left.
    pub fn near_limit(&self) -> u64 {
        self.sum(|shard| &shard.near)
    }

    /// Decisions that its failure mode made, because no owner answered in time: the mode, and how many.
    pub fn degraded(&self) -> [(&'static str, u64); 3] {
        [Source::Closed, Source::Open, Source::Emergency].map(|source| {
            let of = |outcome: usize| self.sum(|shard| &shard.decisions[outcome][source_index(source)]);
            (source.as_str(), (0..OUTCOMES).map(of).sum())
        })
    }

    /// Counts a check for whose key the owner, this node, had no room.
    pub fn count_full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks for whose key there was no room here.
    pub fn table_full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    fn sum(&self, counter: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
    }
}

/// The counters of every limit, by its identity. A new policy revision takes the old counters over.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    limits: Vec<Option<Arc<LimitTally>>>,
}

impl Tally {
    /// Counters for exactly these limits; those that stand already go on.
    pub fn with_limits(&self, ids: impl IntoIterator<Item = LimitId>) -> Tally {
        let mut limits: Vec<Option<Arc<LimitTally>>> = Vec::new();
        for id in ids {
            let index = id.0 as usize;
            limits.resize(limits.len().max(index + 1), None);
            limits[index] = Some(self.limits.get(index).cloned().flatten().unwrap_or_default());
        }
        Tally { limits }
    }

    /// The counters of one limit.
    pub fn limit(&self, id: LimitId) -> Option<&LimitTally> {
        self.limits.get(id.0 as usize).and_then(Option::as_deref)
    }

    /// Every limit that has counters.
    pub fn iter(&self) -> impl Iterator<Item = (LimitId, &LimitTally)> {
        self.limits.iter().enumerate().filter_map(|(index, tally)| Some((LimitId(index as u32), tally.as_deref()?)))
    }
}

/// Whether an admitted check left less than a fifth of the limit: whoever spends on will soon be refused.
fn is_near_limit(leg: &LegAnswer) -> bool {
    leg.numbers.is_some_and(|numbers| numbers.remaining < numbers.capacity / NEAR_PART)
}

const fn source_index(source: Source) -> usize {
    match source {
        Source::Owner => 0,
        Source::Forwarded => 1,
        Source::Emergency => 2,
        Source::Open => 3,
        Source::Closed => 4,
        Source::Policy => 5,
        Source::DenialCache => 6,
    }
}

/// The number of this thread's shard.
pub(crate) fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    }
    SHARD.with(Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Reason;

    fn leg(allowed: bool, enforced: bool, source: Source) -> LegAnswer {
        LegAnswer {
            limit: LimitId(3),
            variant: limits::Variant::OWN,
            allowed,
            enforced,
            reason: if allowed { Reason::Ok } else { Reason::Limit },
            source,
            numbers: None,
            owner: None,
            epoch: None,
        }
    }

    #[test]
    fn a_scrape_sums_what_several_threads_counted() {
        let tally = Tally::default().with_limits([LimitId(3)]);
        let limit = tally.limit(LimitId(3)).expect("just added");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        limit.count(&leg(true, true, Source::Owner), 2);
                        limit.count(&leg(false, true, Source::Forwarded), 2);
                        limit.count(&leg(false, false, Source::Forwarded), 2);
                    }
                });
            }
        });
        let counted: Vec<_> = limit.decisions().collect();
        assert_eq!(
            counted,
            [
                (Outcome::Allowed, Source::Owner, 8_000),
                (Outcome::Denied, Source::Forwarded, 8_000),
                (Outcome::ShadowDenied, Source::Forwarded, 8_000),
            ]
        );
        assert_eq!(limit.cost(), 16_000);
    }

    #[test]
    fn a_new_revision_keeps_what_was_counted() {
        let tally = Tally::default().with_limits([LimitId(1)]);
        tally.limit(LimitId(1)).expect("just added").count(&leg(true, true, Source::Owner), 1);
        let next = tally.with_limits([LimitId(1), LimitId(4)]);
        assert_eq!(next.limit(LimitId(1)).expect("kept").cost(), 1);
        assert_eq!(next.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 4]);
        assert!(next.limit(LimitId(2)).is_none());
    }
}
