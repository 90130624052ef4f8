//! Two neighbouring counts and where the later one stands: all that a sliding counter or a calendar window remembers of a
//! key. Counts that fit into half a word each stay in the entry, the rest lie in a box; which of the two it is depends
//! on the limit's numbers, so that no charge ever moves a count from one to the other.

/// The largest count that stays in the entry.
const SMALL_MAX: u64 = u32::MAX as u64;

/// Units counted in two neighbouring stretches of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    /// Where the later stretch lies; what the number means is the algorithm's to say.
    pub(crate) at: u64,
    pub(crate) earlier: u64,
    pub(crate) later: u64,
}

/// The same in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SmallCells {
    at: u64,
    earlier: u32,
    later: u32,
}

impl Cells {
    /// Cells in which nothing is counted.
    #[inline]
    pub(crate) const fn empty(at: u64) -> Cells {
        Cells { at, earlier: 0, later: 0 }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.earlier == 0 && self.later == 0
    }

    /// The small form, where both counts fit and go on fitting up to `most`.
    pub(crate) fn small(&self, most: u64) -> Option<SmallCells> {
        let fits = most <= SMALL_MAX && self.earlier <= SMALL_MAX && self.later <= SMALL_MAX;
        fits.then_some(SmallCells { at: self.at, earlier: self.earlier as u32, later: self.later as u32 })
    }
}

impl SmallCells {
    #[inline]
    pub(crate) const fn cells(self) -> Cells {
        Cells { at: self.at, earlier: self.earlier as u64, later: self.later as u64 }
    }

    /// Takes the counts of `cells`, which fit: they were charged to small cells, under terms that keep them small.
    #[inline]
    pub(crate) fn set(&mut self, cells: Cells) {
        debug_assert!(cells.earlier.max(cells.later) <= SMALL_MAX, "a charge never makes a small count a large one");
        *self = SmallCells { at: cells.at, earlier: cells.earlier as u32, later: cells.later as u32 };
    }
}
