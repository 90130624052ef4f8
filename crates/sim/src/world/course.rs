//! What one machine's boot-time clock shows as real time goes on: a line that bends where a fault changed its rate, and lies
//! level while the machine stands still. Whoever judges a run turns readings into real moments by the same line, so that
//! nothing has to be allowed for.

use limits::Moment;

/// A clock that stands still, as a rate.
pub const FROZEN_PPM: i32 = -1_000_000;

const MILLION: u128 = 1_000_000;

/// One clock's readings over real time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// By their beginning; the first begins with the story.
    bends: Vec<Bend>,
}

/// From here on, another rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bend {
    real: u64,
    reads: u64,
    /// Nanoseconds shown in a million.
    rate: u64,
}

impl Course {
    /// A clock that shows `boot` when the story begins and runs `ppm` millionths faster than real time.
    pub fn new(boot: Moment, ppm: i32) -> Course {
        Course { bends: vec![Bend { real: 0, reads: boot.as_nanos(), rate: rate(ppm) }] }
    }

    /// From the real moment `at` on it runs `ppm` millionths faster than real time; [`FROZEN_PPM`] stops it. Not before the
    /// last change.
    pub fn change(&mut self, at: Moment, ppm: i32) {
        debug_assert!(self.last().real <= at.as_nanos(), "a clock's course is told in order");
        let bend = Bend { real: at.as_nanos(), reads: self.reads(at).as_nanos(), rate: rate(ppm) };
        if self.last().real == bend.real {
            self.bends.pop();
        }
        self.bends.push(bend);
    }

    /// What it shows at a real moment.
    pub fn reads(&self, real: Moment) -> Moment {
        let next = self.bends.partition_point(|bend| bend.real <= real.as_nanos());
        self.bends[next.saturating_sub(1)].reads(real)
    }

    /// The first real moment at which it shows at least `reading`; [`Moment::MAX`] if it never does.
    pub fn first(&self, reading: Moment) -> Moment {
        let next = self.bends.partition_point(|bend| bend.reads < reading.as_nanos());
        let Some(bend) = next.checked_sub(1).map(|place| self.bends[place]) else { return Moment::ZERO };
        let bent = self.bends.get(next).map_or(u64::MAX, |bend| bend.real);
        bend.first(reading.as_nanos()).map_or(Moment::from_nanos(bent), |real| Moment::from_nanos(real.min(bent)))
    }

    /// The last real moment at which it shows at most `reading`; [`Moment::MAX`] if it never shows more.
    pub fn last_at(&self, reading: Moment) -> Moment {
        match self.first(reading.saturating_add(limits::Span::from_nanos(1))) {
            Moment::MAX => Moment::MAX,
            first => first.saturating_sub(limits::Span::from_nanos(1)),
        }
    }

    /// The rates at which it ever ran, in millionths above real time.
    pub fn rates(&self) -> impl Iterator<Item = i32> {
        self.bends.iter().map(|bend| i32::try_from(bend.rate as i64 - MILLION as i64).unwrap_or(i32::MAX))
    }

    fn last(&self) -> Bend {
        self.bends[self.bends.len() - 1]
    }
}

impl Bend {
    fn reads(&self, real: Moment) -> Moment {
        let shown = u128::from(real.as_nanos().saturating_sub(self.real)) * u128::from(self.rate) / MILLION;
        Moment::from_nanos(self.reads.saturating_add(u64::try_from(shown).unwrap_or(u64::MAX)))
    }

    /// When it would show `reading`, which lies ahead; `None` if it stands still.
    fn first(&self, reading: u64) -> Option<u64> {
        if self.rate == 0 {
            return None;
        }
        let passed = (u128::from(reading - self.reads) * MILLION).div_ceil(u128::from(self.rate));
        Some(self.real.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }
}

fn rate(ppm: i32) -> u64 {
    u64::try_from(MILLION as i64 + i64::from(ppm)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_fast_clock_shows_more_and_a_frozen_one_no_more() {
        let mut course = Course::new(ms(500), 10_000);
        course.change(ms(1_000), FROZEN_PPM);
        course.change(ms(3_000), -10_000);
        assert_eq!(course.reads(ms(1_000)), ms(1_510));
        assert_eq!(course.reads(ms(2_999)), ms(1_510));
        assert_eq!(course.reads(ms(4_000)), ms(2_500));
        assert_eq!(
            (course.first(ms(1_510)), course.last_at(ms(1_510))),
            (ms(1_000), ms(3_000).saturating_add(limits::Span::from_nanos(1)))
        );
        assert_eq!((course.first(ms(2_500)), course.first(ms(100))), (ms(4_000), Moment::ZERO));
    }

    #[test]
    fn a_clock_that_is_frozen_for_good_never_shows_more() {
        let mut course = Course::new(ms(0), 0);
        course.change(ms(10), FROZEN_PPM);
        assert_eq!(
            (course.first(ms(11)), course.last_at(ms(10)), course.first(ms(10))),
            (Moment::MAX, Moment::MAX, ms(10))
        );
    }

    proptest! {
        #[test]
        fn the_first_moment_of_a_reading_is_the_first(
            bends in prop::collection::vec((1u64..1_000, -1_000_000i32..200_000), 0..6), real in 0u64..8_000
        ) {
            let mut course = Course::new(Moment::from_nanos(77), 3_000);
            let mut at = 0;
            for (later, ppm) in bends {
                at += later;
                course.change(Moment::from_nanos(at), ppm);
            }
            let reading = course.reads(Moment::from_nanos(real));
            let first = course.first(reading).as_nanos();
            prop_assert!(first <= real && course.reads(Moment::from_nanos(first)) == reading || first == 0);
            prop_assert!(first == 0 || course.reads(Moment::from_nanos(first - 1)) < reading);
            prop_assert!(course.last_at(reading).as_nanos() >= real);
        }
    }
}
