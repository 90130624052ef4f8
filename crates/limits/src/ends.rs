//! Usage as an interval. A key that was handed over whole is exactly known; one that was recovered from a snapshot, or
//! that nobody can tell about, has used at least `lo` and at most `hi`. Both ends are states of the same algorithm, and
//! both are charged; the limit's basis says which one decides.

use crate::bucket::Tat;
use crate::cells::Cells;
use crate::charge::{Charge, Trace};
use crate::hold::HoldId;
use crate::leases::{Leases, Released, Renewed};
use crate::lens::Lens;
use crate::log::Log;
use crate::rate::Basis;
use crate::terms::Counted;
use crate::time::Moment;
use crate::window::Window;

/// The least and the most that may have been used.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) lo: Exact,
    pub(crate) hi: Exact,
}

/// Usage that is exactly known.
#[derive(Clone, Debug)]
pub(crate) enum Exact {
    Bucket(Tat),
    Window(Window),
    Log(Log),
    Cells(Cells),
    Leases(Leases),
}

/// Exact usage, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'a> {
    Bucket(Tat),
    Window(Window),
    Log(&'a Log),
    Cells(Cells),
    Leases(&'a Leases),
}

impl Ends {
    pub(crate) fn alike(exact: Exact) -> Ends {
        Ends { lo: exact.clone(), hi: exact }
    }

    /// Whether both ends say the same from now on.
    pub(crate) fn read_alike(&self, lens: &Lens<'_>) -> bool {
        lens.read(self.lo.view()).reads_as(&lens.read(self.hi.view()))
    }

    /// Takes a charge back from both ends. For a bucket only the end that decided knows where the charge lies, and
    /// neither end remembers refunds, so it errs outwards: the least sinks by the whole charge, the most stays.
    pub(crate) fn undo(&mut self, lens: &Lens<'_>, charge: &Charge) {
        self.lo.undo(lens, charge, Basis::Lo);
        self.hi.undo(lens, charge, Basis::Hi);
    }

    /// Prolongs a lease at both ends. Unknown slots are counted by the most, so that end says who may adopt one.
    pub(crate) fn renew(&mut self, lens: &Lens<'_>, slots: u64) -> Renewed {
        let (Exact::Leases(lo), Exact::Leases(hi), Counted::Slots(terms)) = (&mut self.lo, &mut self.hi, lens.counted)
        else {
            return Renewed::NotHeld;
        };
        let renewed = hi.renew(terms, lens.hold(), lens.now.moment, slots);
        hi.find(lens.hold().id).into_iter().for_each(|lease| lo.put(*lease));
        renewed
    }

    /// Ends a lease at both ends.
    pub(crate) fn release(&mut self, id: HoldId, now: Moment) -> Released {
        let (Exact::Leases(lo), Exact::Leases(hi)) = (&mut self.lo, &mut self.hi) else { return Released::NotHeld };
        lo.release(id, now);
        hi.release(id, now)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.lo.allocated_bytes() + self.hi.allocated_bytes()
    }
}

impl Exact {
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Exact::Bucket(tat) => View::Bucket(*tat),
            Exact::Window(window) => View::Window(*window),
            Exact::Log(log) => View::Log(log),
            Exact::Cells(cells) => View::Cells(*cells),
            Exact::Leases(leases) => View::Leases(leases),
        }
    }

    /// Charges `cost` and tells where the charge lies.
    pub(crate) fn charge(&mut self, lens: &Lens<'_>, cost: u64) -> Trace {
        let now = lens.now.moment;
        match (self, lens.counted) {
            (Exact::Bucket(tat), Counted::Bucket(terms)) => {
                *tat = terms.charged(*tat, now, cost);
                Trace::Bucket(*tat)
            }
            (Exact::Window(window), Counted::Window(terms)) => {
                *window = terms.charged(terms.current(*window, lens.key, terms.clock(lens.now)), cost);
                Trace::Window(window.end)
            }
            (Exact::Log(log), Counted::Log(terms)) => {
                log.charge(terms, now, cost);
                Trace::Log(now)
            }
            (Exact::Cells(cells), Counted::Counter(_) | Counted::Calendar(_)) => lens.charge_cells(cells, cost),
            (Exact::Leases(leases), Counted::Slots(terms)) => {
                leases.charge(terms, lens.hold(), now, cost);
                Trace::Lease(lens.hold().id)
            }
            (
                Exact::Bucket(_) | Exact::Window(_) | Exact::Log(_) | Exact::Cells(_) | Exact::Leases(_),
                Counted::Bucket(_)
                | Counted::Window(_)
                | Counted::Log(_)
                | Counted::Counter(_)
                | Counted::Calendar(_)
                | Counted::Slots(_),
            ) => unreachable!("law 5: state is written under the shape it was read under"),
        }
    }

    fn undo(&mut self, lens: &Lens<'_>, charge: &Charge, end: Basis) {
        match (self, lens.counted, charge.trace) {
            (Exact::Bucket(tat), Counted::Bucket(terms), Trace::Bucket(_)) => {
                if end == Basis::Lo {
                    *tat = Tat::new(tat.scaled().saturating_sub(terms.price(charge.cost)));
                }
            }
            (Exact::Window(window), Counted::Window(terms), Trace::Window(end)) => {
                *window = terms.undone(*window, end, lens.now, charge.cost);
            }
            (Exact::Log(log), Counted::Log(terms), Trace::Log(at)) => {
                log.undo(terms, at, lens.now.moment, charge.cost);
            }
            (Exact::Cells(cells), _, trace) => *cells = lens.undone_cells(*cells, trace, charge.cost),
            (Exact::Leases(leases), Counted::Slots(_), Trace::Lease(id)) => {
                leases.undo(id, lens.now.moment, charge.cost);
            }
            (
                Exact::Bucket(_) | Exact::Window(_) | Exact::Log(_) | Exact::Leases(_),
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

    fn allocated_bytes(&self) -> usize {
        match self {
            Exact::Bucket(_) | Exact::Window(_) | Exact::Cells(_) => 0,
            Exact::Log(log) => log.allocated_bytes(),
            Exact::Leases(leases) => leases.allocated_bytes(),
        }
    }
}
