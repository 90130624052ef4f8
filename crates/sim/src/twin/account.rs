//! One key under one limit, as the definitions have it: every charge is kept with its instant and its number, nothing is
//! ever forgotten, and what is used at an instant is counted anew from all of them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use limits::{Algorithm, Align, Basis, CalendarId, Calendars, Now, Rate, Shape, Span, WallTime};

use super::fraction::Fraction;

/// How far apart two nodes may tell cluster time.
const CLOCKS_APART: Span = Span::from_millis(100);

/// Units that were charged together.
#[derive(Clone, Debug)]
struct Entry {
    /// The number of the charge; `None` once a change of the limit made it a part of what was used before.
    charge: Option<u64>,
    at: Now,
    units: u64,
}

/// What of a charge has not drained yet.
#[derive(Clone, Debug)]
struct Drop {
    charge: Option<u64>,
    left: Fraction,
}

/// Slots that somebody holds.
#[derive(Clone, Debug)]
struct Lease {
    charge: Option<u64>,
    holder: Option<String>,
    slots: u64,
    end: u64,
    last_end: u64,
}

#[derive(Clone, Debug)]
enum Usage {
    /// A bucket seen as a meter that drains, whatever came first first.
    Meter {
        drops: Vec<Drop>,
        drained_to: u64,
    },
    /// Entries, and where the counting of them began or ends: the end of a window that began at its first charge, the
    /// beginning of a counter's cells.
    Entries {
        entries: Vec<Entry>,
        edge: u64,
    },
    Leases(Vec<Lease>),
}

/// In whose name slots are taken, and for how long if not for the limit's own time.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The name.
    pub name: String,
    /// How long.
    pub ttl: Option<Span>,
}

/// A key that has an amount above zero to spend.
#[derive(Clone, Debug)]
pub struct Account {
    shape: Shape,
    rate: Rate,
    usage: Usage,
    calendars: Option<Arc<dyn Calendars>>,
}

impl Account {
    /// A key that was never used. `rate` is the shape's own.
    pub fn new(shape: Shape, rate: Rate, calendars: Option<Arc<dyn Calendars>>) -> Account {
        let usage = match shape.algorithm {
            Algorithm::TokenBucket { .. } => Usage::Meter { drops: Vec::new(), drained_to: 0 },
            Algorithm::Concurrency { .. } => Usage::Leases(Vec::new()),
            Algorithm::SlidingLog { .. }
            | Algorithm::FixedWindow { .. }
            | Algorithm::SlidingCounter
            | Algorithm::Calendar { .. } => Usage::Entries { entries: Vec::new(), edge: 0 },
        };
        Account { shape, rate, usage, calendars }
    }

    /// The limit's numbers as this account goes by them.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The most that can be spent at once.
    pub fn capacity(&self) -> u64 {
        self.shape.capacity().unwrap_or(u64::MAX)
    }

    /// Whether so many units fit.
    pub fn admits(&self, cost: u64, now: Now) -> bool {
        cost == 0 || self.used(now).plus(Fraction::whole(cost)) <= Fraction::whole(self.capacity())
    }

    /// Whole units left.
    pub fn remaining(&self, now: Now) -> u64 {
        Fraction::whole(self.capacity()).less(self.used(now)).floor()
    }

    /// Whether this name holds slots.
    pub fn is_held_by(&self, holder: &Holder, now: Now) -> bool {
        self.lease_end(&holder.name, now).is_some()
    }

    /// Units in use.
    pub fn used(&self, now: Now) -> Fraction {
        match &self.usage {
            Usage::Meter { drops, drained_to } => {
                drained(drops, self.drains_in(now.moment.as_nanos().saturating_sub(*drained_to)))
                    .iter()
                    .fold(Fraction::ZERO, |sum, drop| sum.plus(drop.left))
            }
            Usage::Leases(leases) => Fraction::whole(live(leases, now).map(|lease| lease.slots).sum()),
            Usage::Entries { entries, .. } => match self.shape.algorithm {
                Algorithm::SlidingCounter => self.in_cells(entries, now),
                Algorithm::Calendar { calendar } => {
                    let in_window = |index| self.sum(entries, |at| self.reach(calendar, at).contains(&index));
                    Fraction::whole(self.reach(calendar, now).map(in_window).max().unwrap_or(0))
                }
                Algorithm::SlidingLog { .. }
                | Algorithm::FixedWindow { .. }
                | Algorithm::TokenBucket { .. }
                | Algorithm::Concurrency { .. } => Fraction::whole(self.sum(entries, |at| self.counts(at, now))),
            },
        }
    }

    /// Whether the key stands as if nobody had ever asked.
    pub fn is_fresh(&self, now: Now) -> bool {
        match (&self.usage, self.shape.algorithm) {
            // A window that is not asked yet may hold something already.
            (Usage::Entries { entries, .. }, Algorithm::Calendar { calendar }) => {
                let first = *self.reach(calendar, now).start();
                entries.iter().all(|entry| entry.units == 0 || *self.reach(calendar, entry.at).end() < first)
            }
            (_, _) => self.used(now).is_zero(),
        }
    }

    /// Writes down a charge, and its number.
    pub fn charge(&mut self, units: u64, charge: u64, holder: Option<&Holder>, now: Now) {
        self.write(units, Some(charge), holder, now);
    }

    /// Takes up to `units` of a charge back, as far as they still count. Answers how many units fewer are in use.
    pub fn undo(&mut self, charge: u64, units: u64, now: Now) -> u64 {
        let before = self.used(now).ceil();
        let counting = |account: &Account, entry: &Entry| account.still_counts(entry.at, now);
        let found = match &self.usage {
            Usage::Entries { entries, .. } => {
                entries.iter().position(|entry| entry.charge == Some(charge) && counting(self, entry))
            }
            Usage::Meter { .. } | Usage::Leases(_) => None,
        };
        self.drain_to(now);
        match &mut self.usage {
            Usage::Meter { drops, .. } => {
                for drop in drops.iter_mut().filter(|drop| drop.charge == Some(charge)) {
                    drop.left = drop.left.less(Fraction::whole(units));
                }
            }
            Usage::Entries { entries, .. } => {
                found.into_iter().for_each(|at| entries[at].units = entries[at].units.saturating_sub(units));
            }
            Usage::Leases(leases) => {
                for lease in leases.iter_mut().filter(|lease| lease.charge == Some(charge)) {
                    lease.slots = lease.slots.saturating_sub(units);
                }
            }
        }
        before.saturating_sub(self.used(now).ceil())
    }

    /// Prolongs what this name holds; answers how long it then lasts.
    pub fn renew(&mut self, holder: &Holder, now: Now) -> Option<Span> {
        let ttl = holder.ttl.unwrap_or(self.rate.period()).as_nanos();
        let at = now.moment.as_nanos();
        let Usage::Leases(leases) = &mut self.usage else { return None };
        let lease = leases.iter_mut().find(|lease| lease.is_of(&holder.name) && lease.end > at)?;
        lease.end = lease.end.max((at + ttl).min(lease.last_end));
        Some(Span::from_nanos(lease.end - at))
    }

    /// Lets go of what this name holds; answers whether it held anything.
    pub fn release(&mut self, name: &str, now: Now) -> bool {
        let held = self.lease_end(name, now).is_some();
        if let Usage::Leases(leases) = &mut self.usage {
            leases.retain(|lease| !lease.is_of(name));
        }
        held
    }

    /// The same key under other numbers of its limit: what was used stays used, in units (law 5).
    pub fn under(&self, shape: Shape, rate: Rate, now: Now) -> Account {
        let mut next = Account::new(shape, rate, self.calendars.clone());
        match (&self.usage, self.shape.algorithm, shape.algorithm) {
            (Usage::Leases(_), _, Algorithm::Concurrency { .. }) => next.usage = self.usage.clone(),
            (Usage::Meter { .. }, _, Algorithm::TokenBucket { .. }) => {
                let left = self.used(now).or_less(Fraction::whole(next.capacity()));
                let drops = vec![Drop { charge: None, left }];
                next.usage = Usage::Meter { drops, drained_to: now.moment.as_nanos() };
            }
            (Usage::Entries { entries, .. }, Algorithm::SlidingLog { .. }, Algorithm::SlidingLog { .. }) => {
                let counting = entries.iter().filter(|entry| self.counts(entry.at, now)).cloned().collect();
                next.usage = Usage::Entries { entries: counting, edge: 0 };
            }
            (Usage::Entries { .. }, Algorithm::Calendar { calendar }, Algorithm::Calendar { calendar: other })
                if calendar == other =>
            {
                next.usage = self.usage.clone();
            }
            (Usage::Entries { .. }, Algorithm::SlidingCounter, Algorithm::SlidingCounter)
                if self.rate.period() == rate.period() =>
            {
                next.usage = self.usage.clone();
            }
            (
                Usage::Entries { edge, .. },
                Algorithm::FixedWindow { align: from },
                Algorithm::FixedWindow { align: to },
            ) if from == to => next.take_window(self, *edge, now),
            (_, _, _) => next.take_units(self.used(now).ceil(), now),
        }
        next
    }

    /// Takes over what was used in a window of the same alignment. One that began at its first charge keeps its
    /// beginning; a shorter period makes nobody wait longer than either promise would have.
    fn take_window(&mut self, from: &Account, end: u64, now: Now) {
        if self.rate.period() == from.rate.period() {
            self.usage = from.usage.clone();
            return;
        }
        let (used, at) = (from.used(now).ceil(), now.moment.as_nanos());
        self.take_units(used, now);
        let Usage::Entries { edge, .. } = &mut self.usage else { return };
        if used > 0 && self.shape.algorithm == (Algorithm::FixedWindow { align: Align::First }) {
            let (old, new) = (from.rate.period().as_nanos(), self.rate.period().as_nanos());
            *edge = if new >= old { end + (new - old) } else { end.min(at + new) };
        }
    }

    /// Counts so many units as used at this instant.
    fn take_units(&mut self, units: u64, now: Now) {
        if units > 0 {
            self.write(units, None, None, now);
        }
    }

    fn write(&mut self, units: u64, charge: Option<u64>, holder: Option<&Holder>, now: Now) {
        self.drain_to(now);
        let (at, period) = (now.moment.as_nanos(), self.rate.period().as_nanos());
        let counts_from_now = match self.shape.algorithm {
            Algorithm::SlidingCounter => self.used(now).is_zero(),
            Algorithm::FixedWindow { align: Align::First } => {
                matches!(&self.usage, Usage::Entries { edge, .. } if at >= *edge)
            }
            Algorithm::FixedWindow { .. }
            | Algorithm::TokenBucket { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::Calendar { .. }
            | Algorithm::Concurrency { .. } => false,
        };
        match (&mut self.usage, self.shape.algorithm) {
            (Usage::Meter { drops, .. }, _) => drops.push(Drop { charge, left: Fraction::whole(units) }),
            (Usage::Leases(leases), Algorithm::Concurrency { max_hold }) => {
                let ttl = holder.and_then(|holder| holder.ttl).map_or(period, Span::as_nanos);
                let last_end = at.saturating_add(max_hold.as_nanos());
                let end = at.saturating_add(ttl).min(last_end);
                let holder = holder.map(|holder| holder.name.clone());
                leases.push(Lease { charge, holder, slots: units, end, last_end });
            }
            (Usage::Leases(_), _) => unreachable!("only a concurrency limit has leases"),
            (Usage::Entries { entries, edge }, algorithm) => {
                if counts_from_now {
                    let length = if algorithm == Algorithm::SlidingCounter { 0 } else { period };
                    *edge = at.saturating_add(length);
                }
                entries.push(Entry { charge, at: now, units });
            }
        }
    }

    /// Whether units of that instant are among those in use now; of a log or a fixed window.
    fn counts(&self, at: Now, now: Now) -> bool {
        let period = self.rate.period().as_nanos();
        match (self.shape.algorithm, &self.usage) {
            (Algorithm::FixedWindow { align: Align::First }, Usage::Entries { edge, .. }) => {
                let (at, now) = (at.moment.as_nanos(), now.moment.as_nanos());
                now < *edge && at < *edge && at >= edge.saturating_sub(period)
            }
            (Algorithm::FixedWindow { .. }, _) => self.window_index(at) == self.window_index(now),
            (_, _) => now.moment.since(at.moment).as_nanos() < period,
        }
    }

    /// Whether a charge of that instant may still be given back.
    fn still_counts(&self, at: Now, now: Now) -> bool {
        match (self.shape.algorithm, &self.usage) {
            (Algorithm::SlidingCounter, Usage::Entries { edge, .. }) => {
                let (cell, current) = (self.cell(at, *edge), self.cell(now, *edge));
                at.moment.as_nanos() >= *edge && (cell == current || cell + 1 == current)
            }
            (Algorithm::Calendar { calendar }, _) => {
                let reach = self.reach(calendar, now);
                self.reach(calendar, at).any(|index| index + 1 >= *reach.start())
            }
            (_, _) => self.counts(at, now),
        }
    }

    /// The cell that `now` lies in whole, and of the one before the part that a window ending now still covers.
    fn in_cells(&self, entries: &[Entry], now: Now) -> Fraction {
        let Usage::Entries { edge, .. } = &self.usage else { return Fraction::ZERO };
        let (cell, period) = (self.cell(now, *edge), self.rate.period().as_nanos());
        let of_cell = |wanted: u64| {
            self.sum(entries, |at| at.moment.as_nanos() >= *edge && Some(self.cell(at, *edge)) == wanted.checked_sub(1))
        };
        let gone = now.moment.as_nanos().saturating_sub(*edge) % period;
        let earlier = u128::from(of_cell(cell)) * u128::from(period - gone);
        Fraction::whole(of_cell(cell + 1)).plus(Fraction::new(earlier, u128::from(period)))
    }

    /// The number of a counter's cell.
    fn cell(&self, at: Now, edge: u64) -> u64 {
        at.moment.as_nanos().saturating_sub(edge) / self.rate.period().as_nanos()
    }

    /// The number of the window of all keys that an instant lies in. Windows that begin elsewhere for every key are not
    /// told apart here: where they begin is a secret of the cluster.
    fn window_index(&self, at: Now) -> u64 {
        at.wall.map_or(0, WallTime::as_unix_nanos) / self.rate.period().as_nanos()
    }

    /// The windows of a calendar that an instant may lie in by anybody's clock.
    fn reach(&self, calendar: CalendarId, at: Now) -> RangeInclusive<u64> {
        let wall = at.wall.unwrap_or_default();
        let index = |at| {
            let window = self.calendars.as_ref().and_then(|calendars| calendars.window(calendar, at));
            window.expect("a policy with a calendar brings it along").index
        };
        match self.shape.basis {
            Basis::Lo => index(wall)..=index(wall),
            Basis::Hi => index(wall.saturating_sub(CLOCKS_APART))..=index(wall.saturating_add(CLOCKS_APART)),
        }
    }

    fn sum(&self, entries: &[Entry], counts: impl Fn(Now) -> bool) -> u64 {
        entries.iter().filter(|entry| counts(entry.at)).map(|entry| entry.units).sum()
    }

    fn lease_end(&self, name: &str, now: Now) -> Option<u64> {
        let Usage::Leases(leases) = &self.usage else { return None };
        live(leases, now).find(|lease| lease.is_of(name)).map(|lease| lease.end)
    }

    /// What a bucket gives back in so many nanoseconds.
    fn drains_in(&self, nanos: u64) -> Fraction {
        Fraction::new(u128::from(nanos) * u128::from(self.rate.amount()), u128::from(self.rate.period().as_nanos()))
    }

    fn drain_to(&mut self, now: Now) {
        let at = now.moment.as_nanos();
        let Usage::Meter { drops, drained_to } = &self.usage else { return };
        let drops = drained(drops, self.drains_in(at.saturating_sub(*drained_to)));
        self.usage = Usage::Meter { drops, drained_to: at };
    }
}

impl Lease {
    fn is_of(&self, name: &str) -> bool {
        self.holder.as_deref() == Some(name)
    }
}

/// What is left once so much has drained, whatever was charged first first.
fn drained(drops: &[Drop], mut drains: Fraction) -> Vec<Drop> {
    let mut left = drops.to_vec();
    for drop in &mut left {
        let gone = drop.left.or_less(drains);
        (drop.left, drains) = (drop.left.less(gone), drains.less(gone));
    }
    left.retain(|drop| !drop.left.is_zero());
    left
}

fn live(leases: &[Lease], now: Now) -> impl Iterator<Item = &Lease> {
    leases.iter().filter(move |lease| lease.end > now.moment.as_nanos())
}
