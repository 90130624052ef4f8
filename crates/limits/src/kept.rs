//! Keys whose use is kept outside the table, and taken in again by a table that knows nothing else of them. What was kept
//! is older than what it speaks of: time has passed, nobody knows how much, and some units may have been spent since.
//!
//! A limit that decides on the most that may have been used reads it as if no time had passed and as if all that may have
//! been spent since had been spent at the last moment, by whichever clock: later charges outlast earlier ones, so no truth
//! reads higher. A limit that decides on the least reads it as old as it can be, and without what may have been spent.

use crate::budget::Budgets;
use crate::calendar;
use crate::cells::Cells;
use crate::convert;
use crate::decision::Absent;
use crate::ends::{Ends, Exact};
use crate::key::Fingerprint;
use crate::leg::Leg;
use crate::lens::Lens;
use crate::rate::Basis;
use crate::shapes::{ShapeId, Shapes};
use crate::slots::SlotTerms;
use crate::state::State;
use crate::table::{Table, absent};
use crate::terms::{Counted, Terms};
use crate::time::{Moment, Now, Span};
use crate::usage::{HeldLease, InsertError, Used};
use crate::window::Window;

/// Groups of a sliding log that are kept of one key; beyond it neighbours are counted as one, on the safe side.
pub const KEPT_GROUPS: usize = 64;

/// What a key has used, to be kept: by the end of the interval that its limit decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The shape it is counted under, in this process's [`Shapes`].
    pub shape: ShapeId,
    /// What it has used.
    pub used: Used,
    /// The same in units, rounded up.
    pub units: u64,
}

/// How what was kept of a key is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSince {
    /// A reading of this table's clock that is later than all that was decided of the key elsewhere.
    pub until: Now,
    /// Units that may have been spent after it was written.
    pub units: u64,
    /// The longest that it may be since it was written; `None` when nobody can tell.
    pub age: Option<Span>,
}

impl Table {
    /// What the leg's key has used at `now`, by the end of the interval that its limit decides on; `None` where its limit
    /// counts nothing, or goes by a cluster time that nobody has heard of.
    pub fn kept(&self, leg: &Leg, shapes: &Shapes, now: Now) -> Option<Kept> {
        let Terms::Counted(counted) = shapes.terms(leg.shape) else { return None };
        let lens = Lens::new(shapes, leg.shape, counted, &leg.key, self.clamp(now));
        if lens.untold().is_some() {
            return None;
        }
        let state = match self.store.find(&leg.key) {
            Some(entry) => {
                let from = shapes.counted(entry.state.shape());
                convert::converted(entry.state.clone(), from, leg.shape, &lens, self.mark)
            }
            None => absent(&lens, &self.as_it_reads(leg), self.mark),
        };
        Some(lens.kept(&state))
    }

    /// The same of every key that does not read as a fresh one, as it was counted last.
    pub fn kept_all<'a>(&'a self, shapes: &'a Shapes, now: Now) -> impl Iterator<Item = (Fingerprint, Kept)> + 'a {
        let now = self.clamp(now);
        self.store.iter().filter_map(move |entry| {
            let shape = entry.state.shape();
            let lens = Lens::new(shapes, shape, shapes.counted(shape), &entry.key, now);
            let is_fresh = lens.is_fresh(entry.state.view(lens.basis));
            (!is_fresh).then(|| (entry.key, lens.kept(&entry.state)))
        })
    }

    /// Whether anything that the leg's key used by `at` can still count at `now`.
    pub fn can_still_count(&self, leg: &Leg, at: Now, shapes: &Shapes, now: Now) -> bool {
        let Terms::Counted(counted) = shapes.terms(leg.shape) else { return false };
        let lens = Lens::new(shapes, leg.shape, counted, &leg.key, self.clamp(now));
        lens.most_used_by(Absent::FullAsOf(at)).is_some_and(|most| !lens.read(most.view()).is_fresh())
    }

    /// Takes in what was kept of a key that the table does not know, under a shape of the form that it was written under.
    /// Of a key that it does know nothing changes: what was decided since stands on a reading that is no less safe.
    ///
    /// # Errors
    ///
    /// [`InsertError`]; the table is as it was.
    pub fn take_kept(
        &mut self,
        key: &Fingerprint,
        shape: ShapeId,
        used: &Used,
        since: KeptSince,
        (shapes, budgets): (&Shapes, &Budgets),
        now: Now,
    ) -> Result<(), InsertError> {
        let now = self.advance(now);
        let Terms::Counted(counted) = shapes.terms(shape) else { return Err(InsertError::Misfit) };
        if self.holds(key) {
            return Ok(());
        }
        let lens = Lens::new(shapes, shape, counted, key, now);
        let ends = match lens.basis {
            Basis::Hi => Ends::alike(Lens { now: since.until, ..lens }.most_since(used, since.units)?),
            Basis::Lo => lens.least_and_full(used, since)?,
        };
        if lens.read(ends.hi.view()).is_fresh() {
            return Ok(());
        }
        self.replace(ends, shape, &lens, shapes, budgets).then_some(()).ok_or(InsertError::TableFull)
    }
}

impl Lens<'_> {
    fn kept(&self, state: &State) -> Kept {
        let view = state.view(self.basis);
        let (used, units) = (Used::at(self, view).in_fewer_groups(self.basis), self.read(view).units());
        Kept { shape: state.shape(), used, units }
    }

    /// The most that a key may have used by the lens's instant: what was kept, not a moment older than when it was written,
    /// and `extra` units spent at this instant.
    fn most_since(&self, used: &Used, extra: u64) -> Result<Exact, InsertError> {
        match (self.counted, used) {
            (Counted::Bucket(_), Used::Bucket { .. }) => Ok(self.no_more_than_full(used.exact(self)?, extra)),
            (Counted::Log(_), Used::Log { .. }) => {
                let mut exact = used.exact(self)?;
                if extra > 0 {
                    exact.charge(self, extra);
                }
                Ok(exact)
            }
            // A window that began at its first charge may have ended since, and another begun as late as now.
            (Counted::Window(terms), Used::Window { units, .. }) if !terms.is_aligned() => {
                let all = units.saturating_add(extra);
                Ok(Exact::Window(terms.bounded(terms.used_as_of(self.key, self.now.moment.as_nanos(), all))))
            }
            (Counted::Window(terms), Used::AlignedWindow { end, units }) if terms.is_aligned() => {
                let clock = terms.clock(self.now);
                let last = terms.used_as_of(self.key, clock, extra);
                let current = terms.opened(self.key, clock).end;
                let counts = if end.as_unix_nanos() >= current { *units } else { 0 };
                let (end, used) = (last.end.max(end.as_unix_nanos()), counts.saturating_add(extra));
                Ok(Exact::Window(terms.bounded(Window { end, used })))
            }
            // Which cell a charge fell into is not known, so all of it falls into one that begins now.
            (Counted::Counter(terms), Used::Counter { elapsed, earlier, later }) => {
                let cells = terms.taken_in(*elapsed, *earlier, *later, self.now.moment).ok_or(InsertError::Misfit)?;
                let all = terms.units(&terms.current(cells, self.now.moment), self.now.moment).saturating_add(extra);
                Ok(Exact::Cells(terms.used_now(all.min(terms.most()), self.now.moment)))
            }
            (Counted::Calendar(terms), Used::Calendar { index, earlier, later }) => {
                let dial = self.dial(terms).filter(|dial| dial.may_have_reached(*index)).ok_or(InsertError::Misfit)?;
                let kept = Cells { at: *index, earlier: *earlier, later: *later };
                let at = (*dial.reach(*index).end()).max(*index);
                let count = |index: u64| calendar::count(&kept, index).saturating_add(extra);
                Ok(Exact::Cells(terms.bounded(Cells { at, earlier: count(at.saturating_sub(1)), later: count(at) })))
            }
            (Counted::Slots(terms), Used::Leases { held, unknown, ended }) => {
                let as_long_as_can_be = |lease: &HeldLease| HeldLease { left: lease.longest, ..*lease };
                let held: Vec<HeldLease> = held.iter().map(as_long_as_can_be).collect();
                let unknown = unknown_slots(terms, *unknown, extra);
                Used::Leases { held, unknown, ended: ended.clone() }.exact(self)
            }
            (_, _) => Err(InsertError::Misfit),
        }
    }

    /// A bucket with `extra` units more, but for what its owner cannot have admitted: anything beyond a full one. More would
    /// take longer to wear off than the worst case does.
    fn no_more_than_full(&self, used: Exact, extra: u64) -> Exact {
        let units = |exact: &Exact| self.read(exact.view()).units();
        let mut exact = used.clone();
        if extra > 0 {
            exact.charge(self, extra);
        }
        let full = self.most_used_by(Absent::FullAsOf(self.now)).unwrap_or_else(|| self.fresh());
        let most = if units(&used) > units(&full) { used } else { full };
        if units(&exact) > units(&most) { most } else { exact }
    }

    /// The least that a key has used for certain, and the most that it may have: everything.
    fn least_and_full(&self, used: &Used, since: KeptSince) -> Result<Ends, InsertError> {
        let hi = self.most_used_by(Absent::FullAsOf(since.until)).unwrap_or_else(|| self.fresh());
        let lo = match since.age {
            Some(age) if age <= self.uptime() => self.aged(used, age)?,
            Some(_) | None => self.fresh(),
        };
        // What was used for certain may have been used at most: a key that was left alone long enough reads so at both ends.
        let least = self.read(lo.view()).units();
        if least > self.read(hi.view()).units() {
            return Ok(Ends::alike(lo));
        }
        Ok(Ends { lo, hi })
    }

    /// For how long this machine has run: it has no instant further back, and a later one would count for longer.
    fn uptime(&self) -> Span {
        self.now.moment.since(Moment::ZERO)
    }

    /// What is left of `used` once `age` has passed; no longer ago than this machine has run.
    fn aged(&self, used: &Used, age: Span) -> Result<Exact, InsertError> {
        let now = self.now.moment;
        let then = Lens { now: Now { moment: now.saturating_sub(age), ..self.now }, ..*self };
        match (self.counted, used) {
            (Counted::Window(terms), Used::Window { left, .. }) if !terms.is_aligned() && *left <= age => {
                Ok(self.fresh())
            }
            (Counted::Log(_), Used::Log { groups }) => {
                let within = |group: &&(Span, u64)| group.0.saturating_add(age) <= self.uptime();
                Used::Log { groups: groups.iter().filter(within).copied().collect() }.exact(&then)
            }
            (Counted::Counter(_), Used::Counter { elapsed, .. }) if elapsed.saturating_add(age) > self.uptime() => {
                Ok(self.fresh())
            }
            (Counted::Counter(terms), Used::Counter { elapsed, earlier, later }) => {
                let cells = terms.taken_in(*elapsed, *earlier, *later, then.now.moment).ok_or(InsertError::Misfit)?;
                Ok(Exact::Cells(terms.current(cells, now)))
            }
            (Counted::Slots(_), Used::Leases { held, ended, .. }) => {
                let left = held.iter().filter(|lease| lease.left > age).copied().collect();
                Used::Leases { held: left, unknown: (0, Span::ZERO), ended: ended.clone() }.exact(&then)
            }
            (_, _) => used.exact(&then),
        }
    }
}

impl Used {
    /// The same in at most [`KEPT_GROUPS`] groups of a log: those that become one count as the later of them where the most
    /// decides, as the earlier where the least does.
    fn in_fewer_groups(self, basis: Basis) -> Used {
        let Used::Log { groups } = self else { return self };
        let several = groups.len().div_ceil(KEPT_GROUPS).max(1);
        let one = |groups: &[(Span, u64)]| {
            let oldest_and_newest = (groups.first().map(|group| group.0), groups.last().map(|group| group.0));
            let age = match (basis, oldest_and_newest) {
                (Basis::Hi, (_, Some(newest))) => newest,
                (Basis::Lo, (Some(oldest), _)) => oldest,
                (_, _) => Span::ZERO,
            };
            (age, groups.iter().fold(0u64, |sum, group| sum.saturating_add(group.1)))
        };
        Used::Log { groups: groups.chunks(several).map(one).collect() }
    }
}

/// Slots that nobody knows the holders of: those that were, and `extra` more from now on.
fn unknown_slots(terms: &SlotTerms, (slots, left): (u64, Span), extra: u64) -> (u64, Span) {
    match (slots, extra) {
        (_, 0) => (slots, left),
        (_, _) => (slots.saturating_add(extra).min(terms.most()), left.max(terms.max_hold())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::calendar::{CalendarId, Calendars, WindowBounds};
    use crate::hold::{Hold, HoldId};
    use crate::key::LimitId;
    use crate::leases::Renewed;
    use crate::leg::Decided;
    use crate::rate::{Algorithm, DomainId, Rate, Shape};
    use crate::time::WallTime;

    const KEY: Fingerprint = Fingerprint([7, 9]);
    const HOUR: Span = Span::from_secs(3_600);

    /// Hours since the epoch.
    #[derive(Debug)]
    struct Hours;

    impl Calendars for Hours {
        fn window(&self, _calendar: CalendarId, at: WallTime) -> Option<WindowBounds> {
            let index = at.as_unix_nanos() / HOUR.as_nanos();
            let edge = |index: u64| WallTime::from_unix_nanos(index * HOUR.as_nanos());
            Some(WindowBounds { index, start: edge(index), end: edge(index + 1) })
        }

        fn name(&self, _calendar: CalendarId) -> String {
            "hour".to_owned()
        }
    }

    struct Owner {
        shapes: Shapes,
        budgets: Budgets,
        table: Table,
        leg: Leg,
    }

    impl Owner {
        fn of(algorithm: Algorithm, amount: u64, basis: Basis) -> Owner {
            let mut shapes = Shapes::new();
            shapes.set_calendars(Arc::new(Hours));
            let rate = Some(Rate::new(amount, HOUR).unwrap());
            let shape = shapes.intern(Shape { limit: LimitId(1), domain: DomainId(0), rate, algorithm, basis });
            let leg = Leg { shape, key: KEY, cost: 1, absent: Absent::Fresh, shadow: false };
            Owner { shapes, budgets: Budgets::default(), table: Table::new(), leg }
        }

        fn spend(&mut self, units: u64, now: Now) -> bool {
            let leg = Leg { cost: units, ..self.leg };
            self.table.decide(&[leg], &self.shapes, &self.budgets, now, &mut Decided::default()).unwrap()
        }

        fn acquire(&mut self, id: u128, now: Now) -> bool {
            let hold = Hold { id: HoldId::from(id), ttl: None };
            let mut decided = Decided::default();
            self.table.acquire(&[self.leg], &hold, &self.shapes, &self.budgets, now, &mut decided).unwrap()
        }

        fn used(&self, now: Now) -> u64 {
            let said = self.table.peek(&Leg { cost: 0, ..self.leg }, &self.shapes, now).unwrap();
            said.capacity - said.remaining
        }

        /// Another owner, which takes over now and finds what this one has kept now, and that it may have spent `units` since.
        fn successor(&self, units: u64, age: Span, now: Now) -> Owner {
            let kept = self.table.kept(&self.leg, &self.shapes, now).unwrap();
            let since = KeptSince { until: now, units, age: Some(age) };
            let mut table = Table::new();
            table.take_kept(&KEY, kept.shape, &kept.used, since, (&self.shapes, &self.budgets), now).unwrap();
            Owner { shapes: self.shapes.clone(), budgets: Budgets::default(), table, leg: self.leg }
        }
    }

    /// So long after the boot, ten days and half an hour into the epoch.
    fn at(secs: u64) -> Now {
        let wall = WallTime::from_unix_nanos((10 * 24 * 3_600 + 1_800 + secs) * 1_000_000_000);
        Now::with_wall(Moment::from_nanos(secs * 1_000_000_000), wall)
    }

    const SLOTS: Algorithm = Algorithm::Concurrency { max_hold: Span::from_secs(7_200) };
    const CALENDAR: Algorithm = Algorithm::Calendar { calendar: CalendarId(3) };

    #[test]
    fn what_was_used_can_count_until_its_window_has_turned_or_its_bucket_has_filled() {
        let can = |owner: &Owner, secs| owner.table.can_still_count(&owner.leg, at(200), &owner.shapes, at(secs));
        let calendar = Owner::of(CALENDAR, 100, Basis::Hi);
        assert_eq!([200, 1_799, 1_900].map(|secs| can(&calendar, secs)), [true, true, false]);
        let bucket = Owner::of(Algorithm::TokenBucket { burst: 100 }, 3_600, Basis::Hi);
        assert_eq!([299, 300].map(|secs| can(&bucket, secs)), [true, false]);
        let log = Owner::of(Algorithm::SlidingLog { max_entries: 4_096 }, 100, Basis::Hi);
        assert_eq!([3_799, 3_800].map(|secs| can(&log, secs)), [true, false]);
    }

    /// Found by seed 0 of the simulator, once it had a store.
    #[test]
    fn a_bucket_that_is_taken_in_is_full_at_most() {
        let mut owner = Owner::of(Algorithm::TokenBucket { burst: 100 }, 3_600, Basis::Hi);
        assert!(owner.spend(90, at(0)));
        let successor = owner.successor(25, Span::ZERO, at(0));
        assert_eq!([0, 1, 30].map(|secs| successor.used(at(secs))), [100, 99, 70]);
        let successor = owner.successor(5, Span::ZERO, at(0));
        assert_eq!([0, 30].map(|secs| successor.used(at(secs))), [95, 65]);
    }

    #[test]
    fn a_calendar_counts_what_was_kept_in_its_window_and_no_longer() {
        let mut owner = Owner::of(CALENDAR, 100, Basis::Hi);
        assert!(owner.spend(70, at(100)));
        let successor = owner.successor(20, Span::ZERO, at(200));
        assert_eq!([200, 1_700].map(|secs| successor.used(at(secs))), [90, 90]);
        assert_eq!(successor.used(at(1_801)), 20 * u64::from(successor.used(at(1_801)) > 0));
        assert_eq!(successor.used(at(1_900)), 0);
    }

    #[test]
    fn leases_that_were_kept_can_be_held_as_long_as_renewals_may_have_made_them() {
        let mut owner = Owner::of(SLOTS, 5, Basis::Hi);
        assert!(owner.acquire(1, at(0)) && owner.acquire(2, at(0)));
        let mut successor = owner.successor(1, Span::ZERO, at(60));
        assert_eq!([60, 7_200, 7_259, 7_261].map(|secs| successor.used(at(secs))), [3, 1, 1, 0]);
        assert!(successor.acquire(3, at(61)) && successor.acquire(4, at(61)) && !successor.acquire(5, at(61)));
        let hold = Hold { id: HoldId::from(2), ttl: None };
        let renewed = successor.table.renew(&successor.leg, &hold, &successor.shapes, &successor.budgets, at(62));
        assert!(matches!(renewed, Ok(Renewed::For(_))), "who holds a slot still does");
    }

    #[test]
    fn a_limit_that_decides_on_the_least_takes_only_what_is_certain() {
        let log = Algorithm::SlidingLog { max_entries: 4_096 };
        let mut owner = Owner::of(log, 100, Basis::Lo);
        assert!(owner.spend(30, at(1_000)) && owner.spend(40, at(3_000)));
        assert_eq!(owner.successor(20, Span::from_secs(60), at(3_100)).used(at(3_100)), 70);
        assert_eq!(owner.successor(20, Span::from_secs(2_000), at(3_100)).used(at(3_100)), 40);
        assert_eq!(owner.successor(20, Span::from_secs(3_000), at(3_100)).used(at(3_100)), 40);
        let booted_since = owner.successor(20, Span::from_secs(3_001), at(3_100));
        assert_eq!(booted_since.used(at(3_100)), 0, "no instant of this machine is as long ago");
    }

    #[test]
    fn a_long_log_is_kept_in_few_groups_on_the_safe_side() {
        for (basis, at_last) in [(Basis::Hi, 0), (Basis::Lo, 1)] {
            let mut owner = Owner::of(Algorithm::SlidingLog { max_entries: 4_096 }, 10_000, basis);
            (0..1_000).for_each(|secs| assert!(owner.spend(1, at(secs))));
            let kept = owner.table.kept(&owner.leg, &owner.shapes, at(1_000)).unwrap();
            let Used::Log { groups } = kept.used else { panic!("a log") };
            assert!(groups.len() <= KEPT_GROUPS, "{}", groups.len());
            assert_eq!((groups.iter().map(|group| group.1).sum::<u64>(), kept.units), (1_000, 1_000));
            let newest = groups.last().unwrap().0;
            assert_eq!(u64::from(newest > Span::from_secs(1)), at_last, "{basis:?}: {newest}");
        }
    }
}
