//! What a key has used, in a form that can travel: lengths of time and ends of aligned windows, never instants of one
//! node's clock. Usage is an interval: the truth lies between `lo` and `hi`, and exact usage has both alike.

use crate::bucket::DEBT_CAPACITIES;
use crate::budget::Budgets;
use crate::cells::Cells;
use crate::ends::{Ends, Exact, View};
use crate::hold::HoldId;
use crate::key::Fingerprint;
use crate::leases::{ENDED_MAX, Ended, LEASES_MAX, Lease, Leases, Unknown};
use crate::lens::Lens;
use crate::log::{Group, Log};
use crate::rate::{AMOUNT_MAX, Basis};
use crate::shapes::{ShapeId, Shapes};
use crate::table::Table;
use crate::terms::{Counted, Terms};
use crate::time::{Moment, Now, Span, WallTime};
use crate::window::Window;

/// One key's usage, as [`Table::export`](crate::Table::export) hands it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The shape it was counted under, in this process's [`Shapes`](crate::Shapes).
    pub shape: ShapeId,
    /// The key.
    pub key: Fingerprint,
    /// The least that may have been used.
    pub lo: Used,
    /// The most that may have been used; equal to `lo` when usage is exact.
    pub hi: Used,
}

/// Usage at one instant, by algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Used {
    /// A token bucket.
    Bucket {
        /// What is missing until the bucket is full, in `1 / amount` ns of the rate in lowest terms: one unit is
        /// `period / gcd(amount, period)` of these. Zero is a full bucket.
        level: u128,
    },
    /// A window that began at its first charge.
    Window {
        /// Until the window ends.
        left: Span,
        /// Units used in it.
        units: u64,
    },
    /// A window in cluster time.
    AlignedWindow {
        /// When the window ends.
        end: WallTime,
        /// Units used in it.
        units: u64,
    },
    /// A sliding log.
    Log {
        /// `(age, units)` of the admissions that count, oldest first.
        groups: Vec<(Span, u64)>,
    },
    /// A sliding counter.
    Counter {
        /// How long ago the later cell began: less than a period.
        elapsed: Span,
        /// Units in the earlier cell.
        earlier: u64,
        /// Units in the later cell.
        later: u64,
    },
    /// The windows of a calendar.
    Calendar {
        /// The index of the later window.
        index: u64,
        /// Units in the window before it.
        earlier: u64,
        /// Units in it.
        later: u64,
    },
    /// Leases.
    Leases {
        /// Those that are live, by how long they still last.
        held: Vec<HeldLease>,
        /// Slots held by nobody knows whom, and for how long they may be.
        unknown: (u64, Span),
        /// Ids that are known not to hold unknown slots; `None` when they are too many to tell.
        ended: Option<Vec<HoldId>>,
    },
}

/// One live lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Under which name it is held.
    pub id: HoldId,
    /// Slots.
    pub slots: u64,
    /// How long it still lasts.
    pub left: Span,
    /// How long it may last with renewals.
    pub longest: Span,
}

/// Why usage was not taken in. The table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// The usage is of another algorithm than its shape, `lo` is above `hi`, a log's groups are out of order, a counter's
    /// cell is over, a calendar's window lies further ahead than clocks may differ, or leases are more than there can be:
    /// the sender's doing. Treat the key as unknown.
    #[error("usage does not fit its shape")]
    Misfit,
    /// The key's domain has no room. The key then reads as an absent one does.
    #[error("no room for another key of this domain")]
    TableFull,
}

impl Table {
    /// What every key has used at `now`; keys that read as absent ones are left out. Needs cluster time if there are
    /// aligned windows, which are otherwise all taken as current.
    pub fn export(&self, shapes: &Shapes, now: Now) -> impl Iterator<Item = Usage> {
        let now = self.clamp(now);
        self.store.iter().filter_map(move |entry| {
            let (key, shape) = (entry.key, entry.state.shape());
            let lens = Lens { basis: Basis::Hi, ..Lens::new(shapes, shape, shapes.counted(shape), &entry.key, now) };
            let used = |basis| Used::at(&lens, entry.state.view(basis));
            (!lens.is_fresh(entry.state.view(Basis::Hi))).then(|| Usage {
                shape,
                key,
                lo: used(Basis::Lo),
                hi: used(Basis::Hi),
            })
        })
    }

    /// Takes in what a key has used elsewhere, in place of what the table knew of it. A level or count above twice the
    /// capacity is cut to that. What was charged before, here or there, cannot be undone any more.
    ///
    /// # Errors
    ///
    /// [`InsertError`]; the table is as it was.
    pub fn insert_usage(
        &mut self,
        usage: &Usage,
        shapes: &Shapes,
        budgets: &Budgets,
        now: Now,
    ) -> Result<(), InsertError> {
        let now = self.advance(now);
        let Terms::Counted(counted) = shapes.terms(usage.shape) else { return Err(InsertError::Misfit) };
        let lens = Lens { basis: Basis::Hi, ..Lens::new(shapes, usage.shape, counted, &usage.key, now) };
        let (lo, hi) = (usage.lo.exact(&lens)?, usage.hi.exact(&lens)?);
        let (least, most) = (lens.read(lo.view()), lens.read(hi.view()));
        if least.units() > most.units() {
            return Err(InsertError::Misfit);
        }
        if most.is_fresh() {
            self.remove(&usage.key, shapes, budgets);
            return Ok(());
        }
        self.replace(Ends { lo, hi }, usage.shape, &lens, shapes, budgets).then_some(()).ok_or(InsertError::TableFull)
    }
}

impl Used {
    /// What `view` says at the lens's instant.
    pub(crate) fn at(lens: &Lens<'_>, view: View<'_>) -> Used {
        let now = lens.now;
        match (lens.counted, view) {
            (Counted::Bucket(terms), View::Bucket(tat)) => Used::Bucket { level: terms.level(tat, now.moment) },
            (Counted::Window(terms), View::Window(window)) => {
                let Window { end, used: units } = terms.current(window, lens.key, terms.clock(now));
                if terms.is_aligned() {
                    return Used::AlignedWindow { end: WallTime::from_unix_nanos(end), units };
                }
                Used::Window { left: Span::from_nanos(end - terms.clock(now)), units }
            }
            (Counted::Log(terms), View::Log(log)) => {
                let aged = |group: Group| (now.moment.since(group.at), group.count);
                Used::Log { groups: log.live(terms, now.moment).map(aged).collect() }
            }
            (Counted::Counter(terms), View::Cells(cells)) => {
                let cells = terms.current(cells, now.moment);
                let elapsed = Span::from_nanos(terms.elapsed(&cells, now.moment));
                Used::Counter { elapsed, earlier: cells.earlier, later: cells.later }
            }
            (Counted::Calendar(_), View::Cells(Cells { at: index, earlier, later })) => {
                Used::Calendar { index, earlier, later }
            }
            (Counted::Slots(_), View::Leases(leases)) => Used::of_leases(leases, now.moment),
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

    /// The same as state of this table.
    pub(crate) fn exact(&self, lens: &Lens<'_>) -> Result<Exact, InsertError> {
        let now = lens.now.moment;
        match (lens.counted, self) {
            (Counted::Bucket(terms), Used::Bucket { level }) => {
                let most = terms.full() * u128::from(DEBT_CAPACITIES);
                Ok(Exact::Bucket(terms.tat(*level.min(&most), now)))
            }
            (Counted::Window(terms), Used::Window { left, units }) if !terms.is_aligned() => {
                Ok(Exact::Window(terms.bounded(Window { end: now.saturating_add(*left).as_nanos(), used: *units })))
            }
            (Counted::Window(terms), Used::AlignedWindow { end, units }) if terms.is_aligned() => {
                Ok(Exact::Window(terms.bounded(Window { end: end.as_unix_nanos(), used: *units })))
            }
            (Counted::Log(terms), Used::Log { groups }) if groups.is_sorted_by(|older, newer| older.0 >= newer.0) => {
                let mut log = Log::of_groups([]);
                for &(age, units) in groups {
                    log.charge(terms, now.saturating_sub(age), units);
                }
                Ok(Exact::Log(log))
            }
            (Counted::Counter(terms), Used::Counter { elapsed, earlier, later }) => {
                let cells = terms.taken_in(*elapsed, *earlier, *later, now);
                cells.map(Exact::Cells).ok_or(InsertError::Misfit)
            }
            (Counted::Calendar(terms), Used::Calendar { index, earlier, later }) => {
                let cells = terms.bounded(Cells { at: *index, earlier: *earlier, later: *later });
                match lens.dial(terms).is_none_or(|dial| dial.may_have_reached(*index)) {
                    true => Ok(Exact::Cells(cells)),
                    false => Err(InsertError::Misfit),
                }
            }
            (Counted::Slots(_), Used::Leases { held, unknown, ended }) => {
                let leases = taken_in(held, *unknown, ended.as_deref(), now);
                leases.map(Exact::Leases).ok_or(InsertError::Misfit)
            }
            (
                Counted::Bucket(_)
                | Counted::Window(_)
                | Counted::Log(_)
                | Counted::Counter(_)
                | Counted::Calendar(_)
                | Counted::Slots(_),
                _,
            ) => Err(InsertError::Misfit),
        }
    }

    fn of_leases(leases: &Leases, now: Moment) -> Used {
        let held = |lease: &Lease| HeldLease {
            id: lease.id,
            slots: lease.slots,
            left: lease.end.since(now),
            longest: lease.last_end.since(now),
        };
        let unknown = leases.unknown_at(now);
        Used::Leases {
            held: leases.live(now).iter().map(held).collect(),
            unknown: (unknown.slots, unknown.end.since(now)),
            ended: match leases.ended() {
                Ended::These(ids) => Some(ids.clone()),
                Ended::TooMany => None,
            },
        }
    }
}

/// Leases from elsewhere, in the instants of this table's clock; `None` if they are more than anybody can have.
fn taken_in(held: &[HeldLease], unknown: (u64, Span), ended: Option<&[HoldId]>, now: Moment) -> Option<Leases> {
    let lease = |lease: &HeldLease| Lease {
        id: lease.id.taken_in(),
        slots: lease.slots,
        end: now.saturating_add(lease.left),
        last_end: now.saturating_add(lease.longest),
    };
    let slots = held.iter().try_fold(unknown.0, |sum, lease| sum.checked_add(lease.slots))?;
    let unknown = Unknown { slots: unknown.0, end: now.saturating_add(unknown.1) };
    let fits = slots <= AMOUNT_MAX * DEBT_CAPACITIES
        && held.len() <= LEASES_MAX
        && ended.is_none_or(|ended| ended.len() <= ENDED_MAX);
    let ended = ended.map_or(Ended::TooMany, |ids| Ended::These(ids.to_vec()));
    fits.then(|| Leases::of(held.iter().map(lease), unknown, ended))
}
