//! What a table keeps for one key, in 24 bytes: the shape it was written under and what was used, exactly, for the
//! algorithms that need no more than two numbers. Logs, buckets with refunds and usage known only as an interval live in
//! a box of their own.

use crate::bucket::{BucketTerms, Tat};
use crate::cells::{Cells, SmallCells};
use crate::charge::{Charge, Mark, Trace};
use crate::ends::{Ends, Exact, View};
use crate::hold::HoldId;
use crate::leases::{Leases, Released, Renewed};
use crate::lens::Lens;
use crate::log::Log;
use crate::mended::{self, Mended};
use crate::rate::Basis;
use crate::shapes::ShapeId;
use crate::terms::Counted;
use crate::time::Moment;
use crate::window::Window;

/// The state of one key. Its variant fits the algorithm of its shape.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// A bucket that is exactly known.
    Bucket { mark: Mark, shape: ShapeId, tat: Tat },
    /// A bucket that charges were taken back from.
    Mended { mark: Mark, shape: ShapeId, bucket: Box<Mended> },
    /// A window that is exactly known.
    Window { mark: Mark, shape: ShapeId, window: Window },
    /// A log that is exactly known.
    Log { mark: Mark, shape: ShapeId, log: Box<Log> },
    /// A counter or a calendar's windows, exactly known and small.
    Cells { mark: Mark, shape: ShapeId, cells: SmallCells },
    /// The same with counts that need more room.
    WideCells { mark: Mark, shape: ShapeId, cells: Box<Cells> },
    /// Leases that are exactly known.
    Leases { mark: Mark, shape: ShapeId, leases: Box<Leases> },
    /// Anything known only as an interval.
    Inexact { mark: Mark, shape: ShapeId, ends: Box<Ends> },
}

impl State {
    /// The state between two ends: exact when they read alike.
    pub(crate) fn between(ends: Ends, shape: ShapeId, mark: Mark, lens: &Lens<'_>) -> State {
        if !ends.read_alike(lens) {
            return State::Inexact { mark, shape, ends: Box::new(ends) };
        }
        State::exact(ends.hi, shape, mark, lens.counted)
    }

    /// A state that is exactly known, of a limit that counts so.
    pub(crate) fn exact(exact: Exact, shape: ShapeId, mark: Mark, counted: &Counted) -> State {
        match exact {
            Exact::Bucket(tat) => State::Bucket { mark, shape, tat },
            Exact::Window(window) => State::Window { mark, shape, window },
            Exact::Log(log) => State::Log { mark, shape, log: Box::new(log) },
            Exact::Cells(cells) => match cells.small(counted.most_in_a_cell()) {
                Some(cells) => State::Cells { mark, shape, cells },
                None => State::WideCells { mark, shape, cells: Box::new(cells) },
            },
            Exact::Leases(leases) => State::Leases { mark, shape, leases: Box::new(leases) },
        }
    }

    /// The shape it was written under.
    #[inline]
    pub(crate) fn shape(&self) -> ShapeId {
        match self {
            State::Bucket { shape, .. }
            | State::Mended { shape, .. }
            | State::Window { shape, .. }
            | State::Log { shape, .. }
            | State::Cells { shape, .. }
            | State::WideCells { shape, .. }
            | State::Leases { shape, .. }
            | State::Inexact { shape, .. } => *shape,
        }
    }

    /// Which life of its entry this is.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        match self {
            State::Bucket { mark, .. }
            | State::Mended { mark, .. }
            | State::Window { mark, .. }
            | State::Log { mark, .. }
            | State::Cells { mark, .. }
            | State::WideCells { mark, .. }
            | State::Leases { mark, .. }
            | State::Inexact { mark, .. } => *mark,
        }
    }

    /// The end of the interval that a limit of this basis decides on.
    #[inline]
    pub(crate) fn view(&self, basis: Basis) -> View<'_> {
        match self {
            State::Bucket { tat, .. } => View::Bucket(*tat),
            State::Mended { bucket, .. } => View::Bucket(bucket.tat),
            State::Window { window, .. } => View::Window(*window),
            State::Log { log, .. } => View::Log(log),
            State::Cells { cells, .. } => View::Cells(cells.cells()),
            State::WideCells { cells, .. } => View::Cells(**cells),
            State::Leases { leases, .. } => View::Leases(leases),
            State::Inexact { ends, .. } => match basis {
                Basis::Lo => ends.lo.view(),
                Basis::Hi => ends.hi.view(),
            },
        }
    }

    /// Charges `cost`, whether or not it was asked about, and tells where the charge lies. A bucket that has filled up
    /// since its last refund has no use for its list of refunds: it begins afresh under `mark`.
    #[inline]
    pub(crate) fn charge(&mut self, lens: &Lens<'_>, cost: u64, mark: Mark) -> Trace {
        let now = lens.now.moment;
        match (self, lens.counted) {
            (State::Bucket { tat, .. }, Counted::Bucket(terms)) => {
                *tat = terms.charged(*tat, now, cost);
                Trace::Bucket(*tat)
            }
            (State::Window { window, .. }, Counted::Window(terms)) => {
                *window = terms.charged(terms.current(*window, lens.key, terms.clock(lens.now)), cost);
                Trace::Window(window.end)
            }
            (State::Log { log, .. }, Counted::Log(terms)) => {
                log.charge(terms, now, cost);
                Trace::Log(now)
            }
            (State::Cells { cells: small, .. }, Counted::Counter(_) | Counted::Calendar(_)) => {
                let mut cells = small.cells();
                let trace = lens.charge_cells(&mut cells, cost);
                small.set(cells);
                trace
            }
            (State::WideCells { cells, .. }, Counted::Counter(_) | Counted::Calendar(_)) => {
                lens.charge_cells(cells, cost)
            }
            (State::Leases { leases, .. }, Counted::Slots(terms)) => {
                leases.charge(terms, lens.hold(), now, cost);
                Trace::Lease(lens.hold().id)
            }
            (this @ State::Mended { .. }, Counted::Bucket(terms)) => this.charge_mended(terms, now, cost, mark),
            (this @ State::Inexact { .. }, _) => this.charge_inexact(lens, cost),
            (
                State::Bucket { .. }
                | State::Window { .. }
                | State::Log { .. }
                | State::Mended { .. }
                | State::Cells { .. }
                | State::WideCells { .. }
                | State::Leases { .. },
                Counted::Bucket(_)
                | Counted::Window(_)
                | Counted::Log(_)
                | Counted::Counter(_)
                | Counted::Calendar(_)
                | Counted::Slots(_),
            ) => unreachable!("law 5: state is written under the shape it was read under"),
        }
    }

    /// Takes exactly this charge back (law 8), if it was made in this life of the entry. `refund` is the table's number
    /// for the refund.
    pub(crate) fn undo(&mut self, lens: &Lens<'_>, charge: &Charge, refund: u64) {
        if self.mark() != charge.mark {
            return;
        }
        let Lens { now, counted, .. } = *lens;
        match (self, counted, charge.trace) {
            (State::Bucket { tat, .. }, Counted::Bucket(terms), Trace::Bucket(after)) if *tat == after => {
                *tat = mended::undo_last(terms, *tat, now.moment, charge.cost);
            }
            (this @ State::Bucket { .. }, Counted::Bucket(terms), Trace::Bucket(_)) => {
                this.mend(terms, now.moment, charge, refund);
            }
            (State::Mended { bucket, .. }, Counted::Bucket(terms), Trace::Bucket(_)) => {
                bucket.undo(terms, now.moment, charge, refund);
            }
            (State::Window { window, .. }, Counted::Window(terms), Trace::Window(end)) => {
                *window = terms.undone(*window, end, now, charge.cost);
            }
            (State::Log { log, .. }, Counted::Log(terms), Trace::Log(at)) => {
                log.undo(terms, at, now.moment, charge.cost);
            }
            (State::Cells { cells, .. }, _, trace) => cells.set(lens.undone_cells(cells.cells(), trace, charge.cost)),
            (State::WideCells { cells, .. }, _, trace) => **cells = lens.undone_cells(**cells, trace, charge.cost),
            (State::Leases { leases, .. }, Counted::Slots(_), Trace::Lease(id)) => {
                leases.undo(id, now.moment, charge.cost);
            }
            (State::Inexact { ends, .. }, _, _) => ends.undo(lens, charge),
            (
                State::Bucket { .. }
                | State::Mended { .. }
                | State::Window { .. }
                | State::Log { .. }
                | State::Leases { .. },
                Counted::Bucket(_)
                | Counted::Window(_)
                | Counted::Log(_)
                | Counted::Counter(_)
                | Counted::Calendar(_)
                | Counted::Slots(_),
                Trace::Bucket(_)
                | Trace::Window(_)
                | Trace::Log(_)
                | Trace::Cell(_)
                | Trace::Calendar { .. }
                | Trace::Lease(_),
            ) => debug_assert!(false, "a mark is renewed when the algorithm changes"),
        }
    }

    /// Prolongs the lease of the lens's hold, or adopts unknown `slots` for it. Whoever may hold them decides: the most.
    pub(crate) fn renew(&mut self, lens: &Lens<'_>, slots: u64) -> Renewed {
        let now = lens.now.moment;
        match (self, lens.counted) {
            (State::Leases { leases, .. }, Counted::Slots(terms)) => leases.renew(terms, lens.hold(), now, slots),
            (State::Inexact { ends, .. }, Counted::Slots(_)) => ends.renew(lens, slots),
            (_, _) => Renewed::NotHeld,
        }
    }

    /// Ends the lease of `id`.
    pub(crate) fn release(&mut self, lens: &Lens<'_>, id: HoldId) -> Released {
        match self {
            State::Leases { leases, .. } => leases.release(id, lens.now.moment),
            State::Inexact { ends, .. } => ends.release(id, lens.now.moment),
            State::Bucket { .. }
            | State::Mended { .. }
            | State::Window { .. }
            | State::Log { .. }
            | State::Cells { .. }
            | State::WideCells { .. } => Released::NotHeld,
        }
    }

    /// Drops what has lapsed, so that reading need not skip it.
    #[inline]
    pub(crate) fn refresh(&mut self, lens: &Lens<'_>) {
        match (self, lens.counted) {
            (State::Log { log, .. }, Counted::Log(terms)) => log.forget_lapsed(terms, lens.now.moment),
            (State::Leases { leases, .. }, _) => leases.forget_lapsed(lens.now.moment),
            (_, _) => {}
        }
    }

    /// Both ends, for whoever takes them elsewhere.
    pub(crate) fn into_ends(self) -> Ends {
        match self {
            State::Bucket { tat, .. } => Ends::alike(Exact::Bucket(tat)),
            State::Mended { bucket, .. } => Ends::alike(Exact::Bucket(bucket.tat)),
            State::Window { window, .. } => Ends::alike(Exact::Window(window)),
            State::Log { log, .. } => Ends::alike(Exact::Log(*log)),
            State::Cells { cells, .. } => Ends::alike(Exact::Cells(cells.cells())),
            State::WideCells { cells, .. } => Ends::alike(Exact::Cells(*cells)),
            State::Leases { leases, .. } => Ends::alike(Exact::Leases(*leases)),
            State::Inexact { ends, .. } => *ends,
        }
    }

    /// Bytes this state owns outside its entry.
    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            State::Bucket { .. } | State::Window { .. } | State::Cells { .. } => 0,
            State::WideCells { .. } => size_of::<Cells>(),
            State::Leases { leases, .. } => size_of::<Leases>() + leases.allocated_bytes(),
            State::Mended { bucket, .. } => size_of::<Mended>() + bucket.allocated_bytes(),
            State::Log { log, .. } => size_of::<Log>() + log.allocated_bytes(),
            State::Inexact { ends, .. } => size_of::<Ends>() + ends.allocated_bytes(),
        }
    }

    fn charge_mended(&mut self, terms: &BucketTerms, now: Moment, cost: u64, mark: Mark) -> Trace {
        let State::Mended { shape, bucket, .. } = self else { unreachable!("only called for a mended bucket") };
        let tat = terms.charged(bucket.tat, now, cost);
        if terms.level(bucket.tat, now) > 0 {
            bucket.tat = tat;
        } else {
            *self = State::Bucket { mark, shape: *shape, tat };
        }
        Trace::Bucket(tat)
    }

    fn charge_inexact(&mut self, lens: &Lens<'_>, cost: u64) -> Trace {
        let State::Inexact { mark, shape, ends } = self else { unreachable!("only called for inexact state") };
        let lo = ends.lo.charge(lens, cost);
        let hi = ends.hi.charge(lens, cost);
        if ends.read_alike(lens) {
            *self = State::exact(ends.hi.clone(), *shape, *mark, lens.counted);
        }
        match lens.basis {
            Basis::Lo => lo,
            Basis::Hi => hi,
        }
    }

    fn mend(&mut self, terms: &BucketTerms, now: Moment, charge: &Charge, refund: u64) {
        let State::Bucket { mark, shape, tat } = *self else { unreachable!("only called for a plain bucket") };
        let mut bucket = Mended::new(tat);
        bucket.undo(terms, now, charge, refund);
        if bucket.tat != tat {
            *self = State::Mended { mark, shape, bucket: Box::new(bucket) };
        }
    }
}
