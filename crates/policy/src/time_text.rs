//! Lengths of time and instants as people write them in a policy: `30s`, `2027-01-31`, `2027-01-31T12:00:00+01:00`.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan as _};
use limits::{PERIOD_MAX, Span, WallTime};

use crate::rate_text::{unit_length, unit_meant, whole_number};

/// What a length of time looks like, for messages.
pub(crate) const SPAN_SHAPE: &str = "a length of time of at most 366d, such as `30s` or `10min`";

/// What the end of an override looks like, for messages.
pub(crate) const UNTIL_SHAPE: &str = "a date such as `2027-01-31`, or an instant such as `2027-01-31T12:00:00Z`";

/// A whole number and a unit; above zero and at most [`PERIOD_MAX`]. `None` for anything else.
pub(crate) fn span(text: &str) -> Option<Span> {
    let (count, unit) = parts(text)?;
    let nanos = whole_number(count)?.checked_mul(u128::from(unit_length(unit)?))?;
    let span = Span::from_nanos(u64::try_from(nanos).ok()?);
    (span > Span::ZERO && span <= PERIOD_MAX).then_some(span)
}

/// The length with the unit that was probably meant.
pub(crate) fn span_meant(text: &str) -> Option<String> {
    let (count, unit) = parts(text)?;
    let meant = format!("{count}{}", unit_meant(unit)?);
    span(&meant).is_some().then_some(meant)
}

/// The shortest spelling of a length.
pub(crate) fn spelt(span: Span) -> String {
    let longest = ["w", "d", "h", "min", "s", "ms", "us"].into_iter().find_map(|unit| {
        let length = unit_length(unit).expect("one of the units");
        span.as_nanos().is_multiple_of(length).then(|| format!("{}{unit}", span.as_nanos() / length))
    });
    longest.unwrap_or_else(|| format!("{}ns", span.as_nanos()))
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_')?;
    Some((&text[..end], text[end..].trim_start()))
}

/// The first instant after a date in UTC, since whoever writes a date means all of it, or the instant itself. `None` for
/// anything else, and for what lies before 1970 or beyond what cluster time can tell.
pub(crate) fn until(text: &str) -> Option<WallTime> {
    let end = match text.parse::<Date>() {
        Ok(date) if is_date(text) => {
            let next = date.checked_add(1.day()).ok()?;
            Offset::UTC.to_timestamp(next.to_datetime(Time::midnight())).ok()?
        }
        Ok(_) | Err(_) => text.parse::<Timestamp>().ok()?,
    };
    u64::try_from(end.as_nanosecond()).ok().map(WallTime::from_unix_nanos)
}

/// Year, month and day and nothing else: the reader of dates takes more than that.
fn is_date(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_length_of_time_is_a_number_and_a_unit() {
        let lengths = [("30s", 30), ("10min", 600), ("1_0 s", 10), ("366d", 366 * 86_400), ("2w", 14 * 86_400)];
        for (text, seconds) in lengths {
            assert_eq!(span(text), Some(Span::from_secs(seconds)), "{text}");
        }
        assert_eq!(span("1ns"), Some(Span::from_nanos(1)));
        for text in ["", "30", "s", "0s", "367d", "10m", "1.5s", "-1s", "1h30min", "30 seconds", "1month"] {
            assert_eq!(span(text), None, "{text}");
        }
    }

    #[test]
    fn the_unit_that_was_probably_meant_is_named() {
        let cases =
            [("10m", Some("10min")), ("30 sec", Some("30s")), ("2 hours", Some("2h")), ("30", None), ("9x", None)];
        for (text, meant) in cases {
            assert_eq!(span_meant(text).as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn a_length_is_spelt_in_its_longest_unit_and_reads_as_itself() {
        for text in ["30s", "10min", "36h", "1d", "2w", "1500ms", "7us", "1ns"] {
            assert_eq!(spelt(span(text).unwrap()), text);
        }
    }

    #[test]
    fn a_date_ends_with_its_last_instant_in_utc() {
        let ends = [
            ("2027-01-31", "2027-02-01T00:00:00Z"),
            ("2028-02-29", "2028-03-01T00:00:00Z"),
            ("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z"),
            ("2027-01-31T12:00:00+01:00", "2027-01-31T11:00:00Z"),
            ("2027-01-31T12:00:00.5Z", "2027-01-31T12:00:00.5Z"),
        ];
        for (text, end) in ends {
            let end = u64::try_from(end.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap();
            assert_eq!(until(text), Some(WallTime::from_unix_nanos(end)), "{text}");
        }
        for text in
            ["", "2027", "2027-02-30", "31.1.2027", "2027-01-31T12:00:00", "20270131", "1969-01-01", "9999-12-31"]
        {
            assert_eq!(until(text), None, "{text}");
        }
    }
}
