//! Words of the command line that are more than a number: a range of seeds, a length of time, a mistake's name.

use std::ops::Range;
use std::time::Duration;

use ownership::Bug;

/// `A..B`: from A to before B.
///
/// # Errors
/// What was expected, for whoever wrote it.
pub fn seeds(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(from, until)| Some((from.parse().ok()?, until.parse().ok()?)));
    match ends {
        Some((from, until)) if from < until => Ok(from..until),
        Some(_) => Err(format!("a range runs upwards, as `0..8000` does; found `{text}`")),
        None => Err(format!("expected seeds such as `0..8000`, found `{text}`")),
    }
}

/// `90s`, `10m` or `10min`, `2h`.
///
/// # Errors
/// What was expected, for whoever wrote it.
pub fn time(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a time such as `90s`, `10m` or `2h`, found `{text}`");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(digits);
    let number: u32 = number.parse().map_err(|_| expected())?;
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        _ => return Err(expected()),
    };
    Ok(Duration::from_secs(seconds) * number)
}

/// A number from 1 on.
///
/// # Errors
/// What was expected, for whoever wrote it.
pub fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("expected a number from 1 on, found `{text}`"))
}

/// A mistake by its name in `ownership::Bug`.
///
/// # Errors
/// The names that there are.
pub fn mistake(text: &str) -> Result<Bug, String> {
    let found = Bug::ALL.iter().copied().find(|bug| name(*bug).eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<String> = Bug::ALL.iter().map(|bug| name(*bug)).collect();
        format!("there is no mistake `{text}`; there are {}", names.join(", "))
    })
}

/// The name of a mistake.
pub fn name(bug: Bug) -> String {
    format!("{bug:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_runs_upwards() {
        assert_eq!(seeds("0..8000"), Ok(0..8_000));
        for wrong in ["8000", "5..5", "9..1", "a..b", "..7", "-1..3"] {
            let refused = seeds(wrong).unwrap_err();
            assert!(refused.ends_with(&format!("found `{wrong}`")), "{refused}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("10m"), time("10min"));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["10", "m", "1d", "-1s", "1.5h", "99999999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_is_not_counted() {
        assert_eq!(count("3"), Ok(3));
        for wrong in ["0", "", "-1", "x"] {
            assert_eq!(count(wrong), Err(format!("expected a number from 1 on, found `{wrong}`")));
        }
    }

    #[test]
    fn mistakes_are_found_by_name_whatever_their_case() {
        assert_eq!(mistake("SuccessorFresh"), Ok(Bug::SuccessorFresh));
        assert_eq!(mistake("successorfresh"), Ok(Bug::SuccessorFresh));
        assert!(mistake("x").unwrap_err().contains("ClockBeforeGate"));
    }
}
