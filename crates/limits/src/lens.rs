//! Reading a key's state: through one limit's numbers, for one key, at one instant. Every algorithm has its own kind of
//! state and its own arithmetic; this is the one place that pairs them up.

use crate::bucket::BucketTerms;
use crate::decision::{Absent, LegDecision};
use crate::ends::{Exact, View};
use crate::key::Fingerprint;
use crate::log::{Log, LogTerms};
use crate::rate::Basis;
use crate::terms::Counted;
use crate::time::{Now, WallTime};
use crate::window::{self, Window, WindowTerms};

/// What a state is looked at through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lens<'a> {
    pub(crate) counted: &'a Counted,
    pub(crate) basis: Basis,
    pub(crate) key: &'a Fingerprint,
    pub(crate) now: Now,
}

/// A state as it reads now, beside the terms that it is read with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading<'a> {
    /// The scaled level of a bucket.
    Bucket { terms: &'a BucketTerms, level: u128 },
    /// The current window, and the clock it goes by.
    Window { terms: &'a WindowTerms, window: Window, clock: u64 },
    /// A log; none is an empty one.
    Log { terms: &'a LogTerms, log: Option<&'a Log>, now: Now },
}

impl<'a> Lens<'a> {
    /// How `view` reads.
    #[inline]
    pub(crate) fn read(&self, view: View<'a>) -> Reading<'a> {
        match (self.counted, view) {
            (Counted::Bucket(terms), View::Bucket(tat)) => {
                Reading::Bucket { terms, level: terms.level(tat, self.now.moment) }
            }
            (Counted::Window(terms), View::Window(window)) => {
                let clock = terms.clock(self.now);
                Reading::Window { terms, window: terms.current(window, self.key, clock), clock }
            }
            (Counted::Log(terms), View::Log(log)) => Reading::Log { terms, log: Some(log), now: self.now },
            (
                Counted::Bucket(_) | Counted::Window(_) | Counted::Log(_),
                View::Bucket(_) | View::Window(_) | View::Log(_),
            ) => unreachable!("law 5: state is read under the shape it was written under"),
        }
    }

    /// How a key reads that was never used.
    #[inline]
    pub(crate) fn read_fresh(&self) -> Reading<'a> {
        match self.counted {
            Counted::Bucket(terms) => Reading::Bucket { terms, level: 0 },
            Counted::Window(terms) => {
                let clock = terms.clock(self.now);
                Reading::Window { terms, window: terms.opened(self.key, clock), clock }
            }
            Counted::Log(terms) => Reading::Log { terms, log: None, now: self.now },
        }
    }

    /// Whether `view` reads as a key that was never used.
    #[inline]
    pub(crate) fn is_fresh(&self, view: View<'_>) -> bool {
        Lens { key: self.key, ..*self }.read(view).is_fresh()
    }

    /// State that reads as never used.
    pub(crate) fn fresh(&self) -> Exact {
        match self.counted {
            Counted::Bucket(terms) => Exact::Bucket(terms.tat(0, self.now.moment)),
            Counted::Window(terms) => Exact::Window(terms.opened(self.key, terms.clock(self.now))),
            Counted::Log(_) => Exact::Log(Log::of_groups([])),
        }
    }

    /// The most that an absent key may have used, as state; `None` when that is nothing.
    pub(crate) fn most_used_by(&self, absent: Absent) -> Option<Exact> {
        let Absent::FullAsOf(at) = absent else { return None };
        let full = match self.counted {
            Counted::Bucket(terms) => Exact::Bucket(terms.tat(terms.full(), at.moment)),
            Counted::Window(terms) => Exact::Window(terms.full_as_of(self.key, terms.clock(self.as_cluster_time(at)))),
            Counted::Log(terms) => Exact::Log(Log::full_as_of(terms, at.moment)),
        };
        let lapsed = self.read(full.view()).is_fresh();
        (!lapsed).then_some(full)
    }

    /// An earlier reading with the cluster time that belongs to it, reckoned back from now where it was not known.
    fn as_cluster_time(&self, at: Now) -> Now {
        let reckoned = |wall: WallTime| {
            wall.saturating_add(at.moment.since(self.now.moment)).saturating_sub(self.now.moment.since(at.moment))
        };
        Now { moment: at.moment, wall: at.wall.or(self.now.wall.map(reckoned)) }
    }
}

impl Reading<'_> {
    /// Whether `cost` is admitted, and how the key then stands.
    #[inline]
    pub(crate) fn weigh(&self, cost: u64) -> LegDecision {
        match *self {
            Reading::Bucket { terms, level } => terms.weigh(level, cost),
            Reading::Window { terms, window, clock } => terms.weigh(window, clock, cost),
            Reading::Log { terms, log, now } => terms.weigh(log, now.moment, cost),
        }
    }

    /// Whether this is what a key reads that was never used.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        match *self {
            Reading::Bucket { level, .. } => level == 0,
            Reading::Window { window, clock, .. } => window::is_over(window, clock),
            Reading::Log { terms, log, now } => log.is_none_or(|log| log.is_over(terms, now.moment)),
        }
    }

    /// Units used, rounded up.
    pub(crate) fn units(&self) -> u64 {
        match *self {
            Reading::Bucket { terms, level } => terms.units(level),
            Reading::Window { window, .. } => window.used,
            Reading::Log { terms, log, now } => log.map_or(0, |log| log.used(terms, now.moment)),
        }
    }

    /// Whether both say the same, now and from now on.
    pub(crate) fn reads_as(&self, other: &Reading<'_>) -> bool {
        match (*self, *other) {
            (Reading::Bucket { level, .. }, Reading::Bucket { level: other, .. }) => level == other,
            (Reading::Window { window, .. }, Reading::Window { window: other, .. }) => window == other,
            (Reading::Log { terms, log, now }, Reading::Log { log: other, .. }) => {
                let live = |log: Option<&Log>| log.map(|log| log.live(terms, now.moment).collect::<Vec<_>>());
                live(log).unwrap_or_default() == live(other).unwrap_or_default()
            }
            (
                Reading::Bucket { .. } | Reading::Window { .. } | Reading::Log { .. },
                Reading::Bucket { .. } | Reading::Window { .. } | Reading::Log { .. },
            ) => false,
        }
    }
}
