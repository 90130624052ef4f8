//! Calendars for tests: windows of three lengths in turn, so that no two neighbours are alike. The number of a calendar
//! is its shortest window in milliseconds.

use limits::{CalendarId, Calendars, WallTime, WindowBounds};

/// Calendars from this number on are not known.
pub const UNKNOWN: CalendarId = CalendarId(u32::MAX);

#[derive(Debug)]
pub struct Irregular;

impl Calendars for Irregular {
    fn window(&self, calendar: CalendarId, at: WallTime) -> Option<WindowBounds> {
        (calendar != UNKNOWN).then(|| window(calendar, at))
    }

    fn name(&self, calendar: CalendarId) -> String {
        format!("{calendar:?}")
    }
}

/// The window that an instant lies in: of one, two or one and a half times the shortest length.
pub fn window(CalendarId(shortest): CalendarId, at: WallTime) -> WindowBounds {
    let half = u64::from(shortest) * 500_000;
    let cycle = at.as_unix_nanos() / (9 * half);
    let within = at.as_unix_nanos() % (9 * half);
    let (number, from, to) = match within / half {
        0..2 => (0, 0, 2),
        2..6 => (1, 2, 6),
        _ => (2, 6, 9),
    };
    let edge = |halves: u64| WallTime::from_unix_nanos((cycle * 9 * half).saturating_add(halves * half));
    WindowBounds { index: cycle * 3 + number + 1, start: edge(from), end: edge(to) }
}

/// The usual length of its windows, in nanoseconds; none is longer.
pub fn usual_length(CalendarId(shortest): CalendarId) -> u64 {
    u64::from(shortest) * 2_000_000
}
