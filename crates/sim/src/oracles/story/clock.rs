//! The clock of a partition: the owner's own while it reigns, and its predecessor's until then. It runs through all reigns
//! without a gap, so that what was admitted by one owner and by the next can be added up over one line of time, by
//! exactly the clocks that the limits were counted on. What no owner's clock counted cannot have been refilled, so
//! nothing needs to be allowed for.

use limits::Moment;

use super::Reign;
use crate::world::Course;

/// Partition time over all reigns, in nanoseconds from the beginning of the first.
#[derive(Default)]
pub(in crate::oracles) struct PartitionClock {
    spans: Vec<Stretch>,
}

/// One reign's part: which, from when, and what partition time and its own clock showed then.
#[derive(Clone, Copy)]
struct Stretch {
    reign: usize,
    node: u8,
    began: Moment,
    base: i128,
    origin: Moment,
}

impl PartitionClock {
    /// The reigns of one partition, in the order of epochs; those of copies are told apart by their own clocks.
    pub(super) fn new(chain: &[usize], reigns: &[Reign<'_>], courses: &[Course]) -> PartitionClock {
        let mut clock = PartitionClock::default();
        for &number in chain {
            let reign = &reigns[number];
            let course = &courses[usize::from(reign.node)];
            let base = match reign.copy_of.or(reign.beside) {
                Some(original) => clock.at_in(original, reign.began, courses),
                None => clock.now(reign.began, courses),
            };
            let (began, origin) = (reign.began, course.reads(reign.began));
            clock.spans.push(Stretch { reign: number, node: reign.node, began, base, origin });
        }
        clock
    }

    /// Partition time at a reading of the clock of that reign's owner.
    pub(in crate::oracles) fn witness(&self, reign: usize, reading: Moment) -> i128 {
        let Some(stretch) = self.spans.iter().find(|stretch| stretch.reign == reign) else { return 0 };
        stretch.base + i128::from(reading.as_nanos()) - i128::from(stretch.origin.as_nanos())
    }

    /// Partition time at a real moment, by the clock of that reign's owner from its beginning on.
    pub(in crate::oracles) fn at_in(&self, reign: usize, real: Moment, courses: &[Course]) -> i128 {
        match self.spans.iter().find(|stretch| stretch.reign == reign && stretch.began <= real) {
            Some(stretch) => stretch.at(real, courses),
            None => self.now(real, courses),
        }
    }

    /// Partition time at a real moment: by the last owner that had begun.
    fn now(&self, real: Moment, courses: &[Course]) -> i128 {
        let begun = self.spans.iter().rev().find(|stretch| stretch.began <= real);
        begun.or(self.spans.first()).map_or(0, |stretch| stretch.at(real, courses))
    }
}

impl Stretch {
    fn at(&self, real: Moment, courses: &[Course]) -> i128 {
        let reading = courses[usize::from(self.node)].reads(real);
        self.base + i128::from(reading.as_nanos()) - i128::from(self.origin.as_nanos())
    }
}
