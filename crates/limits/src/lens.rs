//! Reading a key's state: through one limit's numbers, for one key, at one instant. Every algorithm has its own kind of
//! state and its own arithmetic; this is the one place that pairs them up.

use crate::bucket::BucketTerms;
use crate::calendar::{self, CalendarTerms, Calendars, Dial};
use crate::cells::Cells;
use crate::charge::Trace;
use crate::counter::CounterTerms;
use crate::decision::{Absent, LegDecision};
use crate::ends::{Exact, View};
use crate::hold::Hold;
use crate::key::Fingerprint;
use crate::leases::Leases;
use crate::leg::WhyUndecided;
use crate::log::{Log, LogTerms};
use crate::rate::Basis;
use crate::shapes::{ShapeId, Shapes};
use crate::slots::{self, SlotTerms};
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
    pub(crate) calendars: Option<&'a dyn Calendars>,
    /// In whose name it is decided, if in anybody's.
    pub(crate) hold: Option<&'a Hold>,
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
    /// The two cells of a sliding counter, the later of which is current.
    Counter { terms: &'a CounterTerms, cells: Cells, now: Now },
    /// The current windows of a calendar; no dial where nobody knows what time it is there, and then no window is over.
    Calendar { terms: &'a CalendarTerms, cells: Cells, dial: Option<Dial<'a>> },
    /// Leases, and who asks; none are none held.
    Leases { terms: &'a SlotTerms, leases: Option<&'a Leases>, hold: Option<&'a Hold>, now: Now },
}

impl<'a> Lens<'a> {
    /// Looks at a key through the numbers of a shape that counts, on the shape's own basis.
    #[inline]
    pub(crate) fn new(
        shapes: &'a Shapes,
        shape: ShapeId,
        counted: &'a Counted,
        key: &'a Fingerprint,
        now: Now,
    ) -> Self {
        Lens { counted, basis: shapes.get(shape).basis, key, now, calendars: shapes.calendars(), hold: None }
    }

    /// Why this limit cannot be decided now, if so.
    #[inline]
    pub(crate) fn untold(&self) -> Option<WhyUndecided> {
        match self.counted {
            Counted::Bucket(_) | Counted::Log(_) | Counted::Counter(_) | Counted::Slots(_) => None,
            Counted::Window(terms) => {
                (terms.is_aligned() && self.now.wall.is_none()).then_some(WhyUndecided::NoClusterTime)
            }
            Counted::Calendar(_) if self.now.wall.is_none() => Some(WhyUndecided::NoClusterTime),
            Counted::Calendar(terms) => self.dial(terms).is_none().then_some(WhyUndecided::NoCalendar),
        }
    }

    /// What time it is in a limit's calendar, where that can be told.
    pub(crate) fn dial(&self, terms: &CalendarTerms) -> Option<Dial<'a>> {
        terms.dial(self.calendars, self.now.wall, self.basis)
    }

    /// In whose name a lease is charged.
    pub(crate) fn hold(&self) -> &'a Hold {
        self.hold.expect("whoever charges a lease says in whose name")
    }

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
            (Counted::Counter(terms), View::Cells(cells)) => {
                Reading::Counter { terms, cells: terms.current(cells, self.now.moment), now: self.now }
            }
            (Counted::Calendar(terms), View::Cells(cells)) => {
                let dial = self.dial(terms);
                Reading::Calendar { terms, cells: dial.as_ref().map_or(cells, |dial| dial.current(cells)), dial }
            }
            (Counted::Slots(terms), View::Leases(leases)) => {
                Reading::Leases { terms, leases: Some(leases), hold: self.hold, now: self.now }
            }
            (
                Counted::Bucket(_)
                | Counted::Window(_)
                | Counted::Log(_)
                | Counted::Counter(_)
                | Counted::Calendar(_)
                | Counted::Slots(_),
                View::Bucket(_) | View::Window(_) | View::Log(_) | View::Cells(_) | View::Leases(_),
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
            Counted::Counter(terms) => Reading::Counter { terms, cells: terms.opened(self.now.moment), now: self.now },
            Counted::Calendar(terms) => {
                let dial = self.dial(terms);
                Reading::Calendar { terms, cells: opened(dial.as_ref()), dial }
            }
            Counted::Slots(terms) => Reading::Leases { terms, leases: None, hold: self.hold, now: self.now },
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
            Counted::Counter(terms) => Exact::Cells(terms.opened(self.now.moment)),
            Counted::Calendar(terms) => Exact::Cells(opened(self.dial(terms).as_ref())),
            Counted::Slots(_) => Exact::Leases(Leases::default()),
        }
    }

    /// The most that an absent key may have used, as state; `None` when that is nothing.
    pub(crate) fn most_used_by(&self, absent: Absent) -> Option<Exact> {
        let (at, units) = absent.used()?;
        let used = self.used_as_of(at, units)?;
        let lapsed = self.read(used.view()).is_fresh();
        (!lapsed).then_some(used)
    }

    /// State of a key that used so many units at that instant, or all there is if that is less, in whatever window anybody's
    /// clock may have put them; `None` where nobody can tell which windows those are, and then nothing is decided anyway.
    fn used_as_of(&self, at: Now, units: u64) -> Option<Exact> {
        Some(match self.counted {
            Counted::Bucket(terms) => Exact::Bucket(terms.tat(terms.level_of_units(units), at.moment)),
            Counted::Window(terms) => {
                Exact::Window(terms.used_as_of(self.key, terms.clock(self.as_cluster_time(at)), units))
            }
            Counted::Log(terms) => Exact::Log(Log::used_as_of(terms, at.moment, units)),
            Counted::Counter(terms) => Exact::Cells(terms.used_as_of(at.moment, units)),
            Counted::Calendar(terms) => {
                let touched = terms.dial(self.calendars, self.as_cluster_time(at).wall, Basis::Hi)?;
                Exact::Cells(terms.used_as_of(&touched, units))
            }
            Counted::Slots(terms) => Exact::Leases(terms.used_as_of(at.moment, units)),
        })
    }

    /// Charges the cells of a counter or a calendar.
    #[inline]
    pub(crate) fn charge_cells(&self, cells: &mut Cells, cost: u64) -> Trace {
        match self.counted {
            Counted::Counter(terms) => {
                *cells = terms.charged(terms.current(*cells, self.now.moment), cost);
                Trace::Cell(cells.at)
            }
            Counted::Calendar(terms) => {
                let dial = self.dial(terms).expect("only what can be told is charged");
                *cells = terms.charged(*cells, &dial, cost);
                let reach = dial.reach(cells.at);
                Trace::Calendar { first: *reach.start(), last: *reach.end() }
            }
            Counted::Bucket(_) | Counted::Window(_) | Counted::Log(_) | Counted::Slots(_) => {
                unreachable!("law 5: state is written under the shape it was read under")
            }
        }
    }

    /// The cells of a counter or a calendar once `cost` units are taken back that were counted where `trace` says.
    pub(crate) fn undone_cells(&self, cells: Cells, trace: Trace, cost: u64) -> Cells {
        match (self.counted, trace) {
            (Counted::Counter(terms), Trace::Cell(start)) => terms.undone(cells, start, self.now.moment, cost),
            (Counted::Calendar(_), Trace::Calendar { first, last }) => calendar::undone(cells, first..=last, cost),
            (_, _) => {
                debug_assert!(false, "a mark is renewed when the algorithm changes");
                cells
            }
        }
    }

    /// An earlier reading with the cluster time that belongs to it, reckoned back from now where it was not known.
    fn as_cluster_time(&self, at: Now) -> Now {
        let reckoned = |wall: WallTime| {
            wall.saturating_add(at.moment.since(self.now.moment)).saturating_sub(self.now.moment.since(at.moment))
        };
        Now { moment: at.moment, wall: at.wall.or(self.now.wall.map(reckoned)) }
    }
}

impl<'a> Reading<'a> {
    /// Whether `cost` is admitted, and how the key then stands.
    #[inline]
    pub(crate) fn weigh(&self, cost: u64) -> LegDecision {
        match *self {
            Reading::Bucket { terms, level } => terms.weigh(level, cost),
            Reading::Window { terms, window, clock } => terms.weigh(window, clock, cost),
            Reading::Log { terms, log, now } => terms.weigh(log, now.moment, cost),
            Reading::Counter { terms, cells, now } => terms.weigh(cells, now.moment, cost),
            Reading::Calendar { terms, cells, dial: Some(dial) } => terms.weigh(cells, &dial, cost),
            Reading::Calendar { terms, cells, dial: None } => terms.weigh_blind(&cells, cost),
            Reading::Leases { terms, leases, hold, now } => terms.weigh(leases, hold, now.moment, cost),
        }
    }

    /// Whether whoever asks holds slots of this key already, and so is not charged again.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        match *self {
            Reading::Leases { leases, hold, now, .. } => slots::holds(leases, hold, now.moment),
            Reading::Bucket { .. }
            | Reading::Window { .. }
            | Reading::Log { .. }
            | Reading::Counter { .. }
            | Reading::Calendar { .. } => false,
        }
    }

    /// Whether this is what a key reads that was never used.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        match *self {
            Reading::Bucket { level, .. } => level == 0,
            Reading::Window { window, clock, .. } => window::is_over(window, clock),
            Reading::Log { terms, log, now } => log.is_none_or(|log| log.is_over(terms, now.moment)),
            Reading::Counter { cells, .. } => cells.is_empty(),
            Reading::Calendar { cells, dial, .. } => {
                dial.map_or_else(|| cells.is_empty(), |dial| dial.is_fresh(&cells))
            }
            Reading::Leases { leases, now, .. } => leases.is_none_or(|leases| leases.is_over(now.moment)),
        }
    }

    /// Units used, rounded up.
    pub(crate) fn units(&self) -> u64 {
        match *self {
            Reading::Bucket { terms, level } => terms.units(level),
            Reading::Window { window, .. } => window.used,
            Reading::Log { terms, log, now } => log.map_or(0, |log| log.used(terms, now.moment)),
            Reading::Counter { terms, cells, now } => terms.units(&cells, now.moment),
            Reading::Calendar { cells, dial, .. } => {
                dial.map_or_else(|| cells.earlier.max(cells.later), |dial| dial.used(&cells))
            }
            Reading::Leases { leases, now, .. } => leases.map_or(0, |leases| leases.used(now.moment)),
        }
    }

    /// Whether both say the same, now and from now on.
    pub(crate) fn reads_as(&self, other: &Reading<'a>) -> bool {
        match (*self, *other) {
            (Reading::Bucket { level, .. }, Reading::Bucket { level: other, .. }) => level == other,
            (Reading::Window { window, .. }, Reading::Window { window: other, .. }) => window == other,
            (Reading::Log { terms, log, now }, Reading::Log { log: other, .. }) => {
                let live = |log: Option<&Log>| log.map(|log| log.live(terms, now.moment).collect::<Vec<_>>());
                live(log).unwrap_or_default() == live(other).unwrap_or_default()
            }
            (Reading::Counter { cells, .. }, Reading::Counter { cells: other, .. }) => {
                cells == other || (cells.is_empty() && other.is_empty())
            }
            (Reading::Calendar { cells, .. }, Reading::Calendar { cells: other, .. }) => cells == other,
            (Reading::Leases { leases, now, .. }, Reading::Leases { leases: other, .. }) => {
                let held = |leases: Option<&'a Leases>| {
                    leases.map(|leases| (leases.live(now.moment), leases.unknown_at(now.moment)))
                };
                held(leases).unwrap_or_default() == held(other).unwrap_or_default()
            }
            (
                Reading::Bucket { .. }
                | Reading::Window { .. }
                | Reading::Log { .. }
                | Reading::Counter { .. }
                | Reading::Calendar { .. }
                | Reading::Leases { .. },
                Reading::Bucket { .. }
                | Reading::Window { .. }
                | Reading::Log { .. }
                | Reading::Counter { .. }
                | Reading::Calendar { .. }
                | Reading::Leases { .. },
            ) => false,
        }
    }
}

/// The cells of a key that was never used in a calendar.
fn opened(dial: Option<&Dial<'_>>) -> Cells {
    dial.map_or(Cells::empty(0), |dial| dial.current(Cells::empty(0)))
}
