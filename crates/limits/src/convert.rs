//! State under another shape (law 5). What a key has used stays used, in units: ten of ten used is ten of twenty after a
//! raise, and all of five after a cut. Where algorithm and window stay the same, so does everything else; where they do
//! not, the units count as used now.
//!
//! The conversion happens at the first decision that meets the entry, and is written down then even if that decision is
//! a denial: from that instant on the key drains at the new rate, or `retry_after` would promise what never comes.

use crate::charge::Mark;
use crate::ends::{Ends, Exact};
use crate::lens::Lens;
use crate::log::{Group, Log};
use crate::shapes::ShapeId;
use crate::state::State;
use crate::terms::Counted;
use crate::window::Window;

/// `state`, written under `from`, as `lens` will read it under `to`. `mark` is for state in which earlier charges cannot
/// be found any more.
pub(crate) fn converted(state: State, from: &Counted, to: ShapeId, lens: &Lens<'_>, mark: Mark) -> State {
    if from == lens.counted {
        return relabelled(state, to);
    }
    let mark = if charges_stay(from, lens.counted) { state.mark() } else { mark };
    let Ends { lo, hi } = state.into_ends();
    let ends = Ends { lo: carried(lo, from, lens), hi: carried(hi, from, lens) };
    State::between(ends, to, mark, lens)
}

/// Whether a charge made under `from` is found in the same place under `to`.
fn charges_stay(from: &Counted, to: &Counted) -> bool {
    match (from, to) {
        (Counted::Window(from), Counted::Window(to)) => from.same_windows(to),
        (Counted::Log(from), Counted::Log(to)) => from.window() == to.window(),
        (Counted::Counter(from), Counted::Counter(to)) => from.same_cells(to),
        (Counted::Calendar(from), Counted::Calendar(to)) => from.same_windows(to),
        (Counted::Slots(_), Counted::Slots(_)) => true,
        (
            Counted::Bucket(_)
            | Counted::Window(_)
            | Counted::Log(_)
            | Counted::Counter(_)
            | Counted::Calendar(_)
            | Counted::Slots(_),
            Counted::Bucket(_)
            | Counted::Window(_)
            | Counted::Log(_)
            | Counted::Counter(_)
            | Counted::Calendar(_)
            | Counted::Slots(_),
        ) => false,
    }
}

fn carried(exact: Exact, from: &Counted, lens: &Lens<'_>) -> Exact {
    let now = lens.now.moment;
    match (exact, from, lens.counted) {
        (Exact::Bucket(tat), Counted::Bucket(from), Counted::Bucket(to)) => {
            Exact::Bucket(to.tat(to.level_from(from, from.level(tat, now)), now))
        }
        (Exact::Window(window), Counted::Window(from), Counted::Window(to)) => {
            Exact::Window(to.carried(from, window, lens.key, lens.now))
        }
        (Exact::Log(mut log), Counted::Log(from), Counted::Log(to)) => {
            log.forget_lapsed(from, now);
            log.refit(to, now);
            Exact::Log(log)
        }
        (exact @ Exact::Cells(_), Counted::Counter(from), Counted::Counter(to)) if from.same_cells(to) => exact,
        (exact @ Exact::Cells(_), Counted::Calendar(from), Counted::Calendar(to)) if from.same_windows(to) => exact,
        (exact @ Exact::Leases(_), Counted::Slots(_), Counted::Slots(_)) => exact,
        (exact, from, _) => used_now(Lens { counted: from, ..*lens }.read(exact.view()).units(), lens),
    }
}

/// State of a key that has used `units` at this instant.
fn used_now(units: u64, lens: &Lens<'_>) -> Exact {
    let now = lens.now.moment;
    match lens.counted {
        Counted::Bucket(terms) => Exact::Bucket(terms.tat(terms.level_of_units(units), now)),
        Counted::Window(terms) => {
            let opened = terms.opened(lens.key, terms.clock(lens.now));
            Exact::Window(Window { used: units, ..opened })
        }
        Counted::Log(_) => Exact::Log(Log::of_groups([Group { at: now, count: units }])),
        Counted::Counter(terms) => Exact::Cells(terms.used_now(units, now)),
        Counted::Calendar(terms) => {
            let dial = lens.dial(terms).expect("only a limit that can be told reads its state");
            Exact::Cells(terms.used_now(units, &dial))
        }
        Counted::Slots(terms) => Exact::Leases(terms.used_now(units, now)),
    }
}

fn relabelled(mut state: State, to: ShapeId) -> State {
    match &mut state {
        State::Bucket { shape, .. }
        | State::Mended { shape, .. }
        | State::Window { shape, .. }
        | State::Log { shape, .. }
        | State::Cells { shape, .. }
        | State::WideCells { shape, .. }
        | State::Leases { shape, .. }
        | State::Inexact { shape, .. } => *shape = to,
    }
    state
}
