//! A picture of a scenario: for each failure mode a band of bars, one per tenth of a second, that shows how its questions
//! were answered; across them the marks of what was done.

use std::fmt::Write as _;

use sim::{Reason, Row, Source};

use crate::terms::mode_word;
use crate::trial::Trial;

/// The width of a bar's time, in nanoseconds.
const STEP: u64 = 100_000_000;

/// Sizes in pixels.
const LEFT: usize = 90;
const BAR: usize = 5;
const BAND: usize = 90;
const TOP: usize = 150;

/// How a question ended, and its colour.
const KINDS: [(&str, &str); 6] = [
    ("allowed by the owner", "#4c9f70"),
    ("allowed without it", "#e0a030"),
    ("limit used up", "#c8ccd4"),
    ("recovering", "#8a7fc0"),
    ("unavailable", "#d1495b"),
    ("no answer", "#222222"),
];

/// The picture; `None` when nothing was asked.
pub fn timeline(trial: &Trial, rows: &[Row]) -> Option<String> {
    let begin = sim::judge::begin(rows).as_nanos();
    let last = rows.last()?.invoked.as_nanos();
    let steps = usize::try_from((last - begin) / STEP).ok()? + 1;
    let (width, height) = (LEFT + steps * BAR + 20, TOP + 3 * BAND + 50);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let _ = writeln!(text, "<text x=\"8\" y=\"18\" font-size=\"14\">{}</text>", escaped(trial.scenario.event));
    for (band, mode) in ["closed", "open", "emergency"].into_iter().enumerate() {
        let of_mode = |row: &&Row| {
            let seen = trial.limits.iter().find(|seen| seen.verdict.limit == row.limit);
            seen.is_some_and(|seen| mode_word(seen.verdict.fail) == mode)
        };
        let bottom = TOP + (band + 1) * BAND - 8;
        let _ = writeln!(text, "<text x=\"8\" y=\"{}\">{mode}</text>", bottom - 30);
        bars(&mut text, &counts(rows.iter().filter(of_mode), begin, steps), bottom);
    }
    marks(&mut text, trial, begin, height);
    legend(&mut text, height);
    Some(text + "</svg>\n")
}

type Counts = [usize; KINDS.len()];

fn counts<'r>(rows: impl Iterator<Item = &'r Row>, begin: u64, steps: usize) -> Vec<Counts> {
    let mut counts = vec![Counts::default(); steps];
    for row in rows {
        let step = usize::try_from((row.invoked.as_nanos() - begin) / STEP).unwrap_or(0);
        counts[step][kind(row)] += 1;
    }
    counts
}

fn kind(row: &Row) -> usize {
    match row.answer() {
        None => 5,
        Some(answer) if answer.allowed => usize::from(matches!(answer.source, Source::Open | Source::Emergency)),
        Some(answer) => match answer.reason {
            Reason::Recovering => 3,
            Reason::Unavailable => 4,
            Reason::Ok | Reason::NoLimit | Reason::Limit | Reason::MissingAttribute | Reason::Never => 2,
        },
    }
}

fn bars(text: &mut String, counts: &[Counts], bottom: usize) {
    let tallest = counts.iter().map(|counts| counts.iter().sum::<usize>()).max().unwrap_or(0).max(1);
    for (step, counts) in counts.iter().enumerate() {
        let mut y = bottom as f64;
        for (count, (_, colour)) in counts.iter().zip(KINDS).filter(|(count, _)| **count > 0) {
            let tall = *count as f64 * (BAND - 20) as f64 / tallest as f64;
            y -= tall;
            let x = LEFT + step * BAR;
            let _ =
                writeln!(text, "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{BAR}\" height=\"{tall:.1}\" fill=\"{colour}\"/>");
        }
    }
}

/// A line for each mark, their words one below the other so that they do not cover each other.
fn marks(text: &mut String, trial: &Trial, begin: u64, height: usize) {
    let during = trial.notes.marks.iter().filter(|mark| mark.at.as_nanos() >= begin);
    for (number, mark) in during.enumerate() {
        let x = LEFT as f64 + (mark.at.as_nanos() - begin) as f64 * BAR as f64 / STEP as f64;
        let (y, end, seconds) = (36 + number % 8 * 14, height - 50, (mark.at.as_nanos() - begin) as f64 / 1e9);
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{y}\" x2=\"{x:.1}\" y2=\"{end}\" stroke=\"#555\" stroke-dasharray=\"2 3\"/>"
        );
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{y}\">{seconds:.2} s {}</text>", x + 3.0, escaped(&mark.says));
    }
}

fn legend(text: &mut String, height: usize) {
    for (number, (says, colour)) in KINDS.into_iter().enumerate() {
        let (x, y) = (LEFT + number * 130, height - 30);
        let _ = writeln!(text, "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>");
        let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{says}</text>", x + 14, y + 9);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::report::made_up;

    #[test]
    fn every_row_is_in_some_bar_and_marks_are_lines() {
        let rows = made_up::rows();
        let picture = timeline(&made_up::trial(), &rows).unwrap();
        assert_eq!(picture.matches("stroke-dasharray").count(), 2);
        for (kind, (_, colour)) in KINDS.iter().enumerate() {
            let bars = picture.lines().filter(|line| line.contains(colour) && line.contains("width=\"5\"")).count();
            let expected = usize::from(rows.iter().any(|row| super::kind(row) == kind));
            assert_eq!(bars, expected, "{colour}");
        }
        assert_eq!(timeline(&made_up::trial(), &[]), None);
    }

    #[test]
    fn words_cannot_break_the_picture() {
        assert_eq!(escaped("a<b&c>"), "a&lt;b&amp;c&gt;");
    }
}
