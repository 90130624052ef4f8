//! The coverage grid: which fault began while what was going on, and how often. A campaign that never saw an owner die
//! during an election has shown nothing about it, so the cells that were never reached are named. Cells of parts that are
//! not built are listed as absent, and those that cannot be reached as such, with the reason.

use std::fmt::{self, Write as _};

use crate::world::{Fault, FaultKind, Phase};

const KINDS: usize = FaultKind::ALL.len();
const PHASES: usize = Phase::ALL.len();

/// Cells that no story can reach, and why.
const IMPOSSIBLE: &[(FaultKind, Phase, &str)] = &[];

/// Counts of faults by what was going on when they began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    cells: [[u64; PHASES]; KINDS],
    /// Faults whose phase never came, or whose node was not there to be found.
    unbegun: u64,
}

/// A cell by its two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What broke.
    pub kind: FaultKind,
    /// While what was going on.
    pub phase: Phase,
}

impl Default for Grid {
    fn default() -> Grid {
        Grid { cells: [[0; PHASES]; KINDS], unbegun: 0 }
    }
}

impl Grid {
    /// Counts a fault that began while all of these held, or with `None` one that never began. Where none held (a partition is
    /// without an owner, and nothing is done about it yet) it is in no cell.
    pub fn add(&mut self, fault: &Fault, phases: Option<&[Phase]>) {
        let Some(phases) = phases else {
            self.unbegun += 1;
            return;
        };
        fault.kinds(|kind| phases.iter().for_each(|phase| self.cells[kind as usize][*phase as usize] += 1));
    }

    /// Adds what another part of the campaign counted.
    pub fn merge(&mut self, other: &Grid) {
        self.unbegun += other.unbegun;
        let rows = self.cells.iter_mut().zip(&other.cells);
        rows.for_each(|(row, theirs)| row.iter_mut().zip(theirs).for_each(|(cell, more)| *cell += more));
    }

    /// How often the cell was reached.
    pub fn count(&self, cell: Cell) -> u64 {
        self.cells[cell.kind as usize][cell.phase as usize]
    }

    /// The possible cells that were reached fewer times than that.
    pub fn below(&self, least: u64) -> impl Iterator<Item = Cell> {
        let all =
            FaultKind::ALL.iter().flat_map(|kind| Phase::ALL.iter().map(|phase| Cell { kind: *kind, phase: *phase }));
        all.filter(move |cell| cell.impossible().is_none() && self.count(*cell) < least)
    }

    /// The smallest count of a possible cell.
    pub fn least(&self) -> u64 {
        let all =
            FaultKind::ALL.iter().flat_map(|kind| Phase::ALL.iter().map(|phase| Cell { kind: *kind, phase: *phase }));
        all.filter(|cell| cell.impossible().is_none()).map(|cell| self.count(cell)).min().unwrap_or(0)
    }

    /// All counts in the order of the grid, for a file that a later run goes on from.
    pub fn numbers(&self) -> Vec<u64> {
        self.cells.iter().flatten().copied().chain([self.unbegun]).collect()
    }

    /// What [`Grid::numbers`] said; nothing if it speaks of another grid.
    pub fn from_numbers(numbers: &[u64]) -> Option<Grid> {
        let (unbegun, cells) = numbers.split_last()?;
        let mut grid = Grid { unbegun: *unbegun, ..Grid::default() };
        if cells.len() != KINDS * PHASES {
            return None;
        }
        grid.cells.iter_mut().flatten().zip(cells).for_each(|(cell, count)| *cell = *count);
        Some(grid)
    }

    /// The grid as a table in Markdown, with what is absent and impossible below it.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| fault |");
        for phase in Phase::ALL {
            let _ = write!(text, " {} |", phase.as_str());
        }
        text.push_str("\n|---|");
        text.push_str(&"---:|".repeat(PHASES));
        for kind in FaultKind::ALL {
            let _ = write!(text, "\n| {} |", kind.as_str());
            for phase in Phase::ALL {
                let _ = write!(text, " {} |", self.shown(*kind, *phase));
            }
        }
        text.push_str("\n\n");
        text.push_str(&self.below_the_table());
        text
    }

    fn shown(&self, kind: FaultKind, phase: Phase) -> String {
        let cell = Cell { kind, phase };
        if cell.impossible().is_some() { "-".to_owned() } else { self.count(cell).to_string() }
    }

    fn below_the_table(&self) -> String {
        let mut text = format!("Faults that never began, since what they waited for never came: {}.\n", self.unbegun);
        for (kind, phase, why) in IMPOSSIBLE {
            let _ = writeln!(text, "Impossible: {} while {}: {why}.", kind.as_str(), phase.as_str());
        }
        let _ = writeln!(text, "Absent phases, of parts that are not built: {}.", Phase::ABSENT.join(", "));
        let _ = writeln!(text, "Absent faults: {}.", FaultKind::ABSENT.join(", "));
        let never: Vec<String> = self.below(1).map(|cell| cell.to_string()).collect();
        if never.is_empty() {
            text.push_str("Every other cell was reached.\n");
        } else {
            let _ = writeln!(text, "Never reached: {}.", never.join("; "));
        }
        text
    }
}

impl Cell {
    /// Why no story can reach it, if none can.
    pub fn impossible(self) -> Option<&'static str> {
        let found = IMPOSSIBLE.iter().find(|(kind, phase, _)| (*kind, *phase) == (self.kind, self.phase));
        found.map(|(_, _, why)| *why)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} while {}", self.kind.as_str(), self.phase.as_str())
    }
}

/// As a table for a terminal.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20}", "fault \\ phase")?;
        for phase in Phase::ALL {
            write!(f, " {:>width$}", phase.as_str(), width = width(*phase))?;
        }
        for kind in FaultKind::ALL {
            write!(f, "\n{:<20}", kind.as_str())?;
            for phase in Phase::ALL {
                write!(f, " {:>width$}", self.shown(*kind, *phase), width = width(*phase))?;
            }
        }
        write!(f, "\n{}", self.below_the_table())
    }
}

fn width(phase: Phase) -> usize {
    phase.as_str().len().max(7)
}

#[cfg(test)]
mod tests {
    use limits::Span;

    use super::*;
    use crate::world::Who;

    fn crash() -> Fault {
        Fault::Crash { who: Who::Leader, down: Span::from_secs(1) }
    }

    #[test]
    fn a_fault_counts_in_every_phase_that_held_when_it_began() {
        let mut grid = Grid::default();
        grid.add(&crash(), Some(&[Phase::Renewing, Phase::Electing]));
        grid.add(&crash(), Some(&[Phase::Electing]));
        let count = |phase| grid.count(Cell { kind: FaultKind::CrashLeader, phase });
        assert_eq!((count(Phase::Electing), count(Phase::Renewing), count(Phase::Stable)), (2, 1, 0));
        assert_eq!(grid.numbers().iter().sum::<u64>(), 3);
    }

    #[test]
    fn a_fault_that_never_began_is_counted_apart() {
        let mut grid = Grid::default();
        grid.add(&crash(), None);
        assert!(grid.to_string().contains("never came: 1."), "{grid}");
        assert_eq!(grid.least(), 0);
    }

    #[test]
    fn cells_that_were_never_reached_are_named() {
        let mut grid = Grid { cells: [[5; PHASES]; KINDS], unbegun: 0 };
        assert_eq!(grid.below(1).count(), 0);
        assert!(grid.to_string().contains("Every other cell was reached."));
        grid.cells[FaultKind::Leave as usize][Phase::Electing as usize] = 0;
        assert!(grid.to_string().contains("Never reached: planned exit while electing."), "{grid}");
        assert_eq!(grid.below(6).count(), KINDS * PHASES - IMPOSSIBLE.len());
    }

    #[test]
    fn counts_go_into_a_file_and_come_back() {
        let mut grid = Grid::default();
        grid.add(&crash(), Some(&[Phase::Stable]));
        grid.add(&crash(), None);
        assert_eq!(Grid::from_numbers(&grid.numbers()), Some(grid.clone()));
        assert_eq!(Grid::from_numbers(&grid.numbers()[1..]), None);
        let mut twice = grid.clone();
        twice.merge(&grid);
        assert_eq!(twice.numbers(), grid.numbers().iter().map(|count| count * 2).collect::<Vec<_>>());
    }

    #[test]
    fn the_page_has_a_row_for_every_fault_and_a_column_for_every_phase() {
        let page = Grid::default().markdown();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), KINDS + 2);
        assert!(rows.iter().all(|row| row.matches('|').count() == PHASES + 2), "{page}");
        assert!(page.contains("Absent phases") && page.contains("claim and read"));
    }
}
