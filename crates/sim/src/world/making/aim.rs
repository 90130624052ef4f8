//! The cell of the grid that a seed aims at. A phase that is seldom there by itself needs something that brings it about:
//! an expiry needs a node that is gone, an election a leader that is. The aim follows from the seed's number alone.

use super::super::{FaultKind, Phase};

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// What is to break.
    pub kind: FaultKind,
    /// While this is going on.
    pub phase: Phase,
}

/// From one aim to the next, so that few seeds see something of every side. It has no divisor in common with the number of
/// cells.
const STRIDE: u64 = 131;

impl Aim {
    /// What this seed aims at: every second one at something, each cell in turn.
    pub fn of(seed: u64) -> Option<Aim> {
        let cells = FaultKind::ALL.len() * Phase::ALL.len();
        let turn = usize::try_from(seed / 2 * STRIDE % cells as u64).expect("there are few cells");
        let aim =
            Aim { kind: FaultKind::ALL[turn % FaultKind::ALL.len()], phase: Phase::ALL[turn / FaultKind::ALL.len()] };
        (seed % 2 == 1).then_some(aim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_turn_once_in_a_round() {
        let cells = FaultKind::ALL.len() * Phase::ALL.len();
        let mut aims: Vec<_> = (0..2 * cells as u64).filter_map(Aim::of).map(|aim| (aim.kind, aim.phase)).collect();
        aims.sort();
        aims.dedup();
        assert_eq!(aims.len(), cells);
    }
}
