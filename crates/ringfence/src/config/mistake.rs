//! What is wrong with a configuration, and where: shown like the findings of `policy validate`, with the place, what was
//! expected, and the name that was probably meant.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

/// The stable word of every mistake here.
pub const CODE: &str = "bad-config";

/// The longest part of a line that is shown, in characters.
const EXCERPT_MAX: usize = 120;

/// The longest text that suggestions are looked for, in characters; beyond it nothing is near.
const NEAR_MAX: usize = 64;

/// A file as it was read.
#[derive(Debug)]
pub struct FileText {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Where something was said.
#[derive(Clone, Debug)]
pub enum Origin {
    /// By this flag.
    Flag(String),
    /// By this variable of the environment.
    Variable(String),
    /// In the file, at this line and column, both counted from 1.
    File {
        /// The file.
        file: Arc<FileText>,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// Nowhere: it is the default of this key.
    Default(&'static str),
}

impl Origin {
    /// The place of a byte in a file.
    pub fn at(file: &Arc<FileText>, byte: usize) -> Origin {
        let before = file.text.get(..byte).unwrap_or(&file.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Origin::File {
            file: Arc::clone(file),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// Which of two origins counts: the higher one.
    pub fn rank(&self) -> u8 {
        match self {
            Origin::Flag(_) => 3,
            Origin::Variable(_) => 2,
            Origin::File { .. } => 1,
            Origin::Default(_) => 0,
        }
    }

    /// The word for the kind of origin, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Origin::Flag(_) => "flag",
            Origin::Variable(_) => "env",
            Origin::File { .. } => "file",
            Origin::Default(_) => "default",
        }
    }

    /// The place, without saying of which kind it is.
    pub fn place(&self) -> String {
        match self {
            Origin::Flag(flag) => format!("--{flag}"),
            Origin::Variable(name) => name.clone(),
            Origin::File { file, line, column } => format!("{}:{line}:{column}", file.path.display()),
            Origin::Default(key) => (*key).to_owned(),
        }
    }

    /// The line that it stands in, and how many characters stand before it.
    fn excerpt(&self) -> Option<(usize, String, usize)> {
        let Origin::File { file, line, column } = self else { return None };
        let text = file.text.lines().nth(line - 1)?;
        let before = (column - 1).min(text.chars().count());
        let first = if text.chars().count() <= EXCERPT_MAX { 0 } else { before.saturating_sub(EXCERPT_MAX / 2) };
        let shown: String = text.chars().skip(first).take(EXCERPT_MAX).map(printable).collect();
        Some((*line, shown.trim_end().to_owned(), before - first))
    }
}

/// `file PLACE`, `env NAME`, `flag --NAME`, or `default`.
impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default(_) => f.write_str(self.word()),
            Origin::Flag(_) | Origin::Variable(_) | Origin::File { .. } => {
                write!(f, "{} {}", self.word(), self.place())
            }
        }
    }
}

/// A value that cannot be one, before it is known where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub message: String,
    /// What would be right; empty if the message says it.
    pub expected: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

impl Wrong {
    /// Something wrong, and what was expected instead.
    pub fn new(message: impl Into<String>, expected: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), expected: expected.into(), suggestion: None }
    }

    /// A name that is not among `names`.
    pub fn unknown<'n>(message: impl Into<String>, text: &str, names: impl Iterator<Item = &'n str> + Clone) -> Wrong {
        let suggestion = nearest(text, names.clone()).map(|name| format!("`{name}`"));
        Wrong { message: message.into(), expected: one_of(names), suggestion }
    }

    /// The mistake that this is at its place.
    pub fn at(self, origin: Origin) -> Mistake {
        Mistake { origin, wrong: self }
    }
}

/// Something wrong, at its place. The doing of whoever wrote it; nothing was started.
#[derive(Clone, Debug)]
pub struct Mistake {
    /// Where.
    pub origin: Origin,
    /// What.
    pub wrong: Wrong,
}

impl Mistake {
    /// For people: place, message and code, the line with a mark below the place, what was expected, and what was
    /// probably meant. Ends with a newline.
    pub fn render(&self) -> String {
        let mut out = format!("{}: {} [{CODE}]\n", self.origin.place(), printable_text(&self.wrong.message));
        if let Some((line, text, before)) = self.origin.excerpt() {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            out += &format!("{margin} |\n{number} | {text}\n{margin} | {}^\n", " ".repeat(before));
        }
        if !self.wrong.expected.is_empty() {
            out += &format!("  expected: {}\n", self.wrong.expected);
        }
        if let Some(suggestion) = &self.wrong.suggestion {
            out += &format!("  did you mean: {suggestion}\n");
        }
        out
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let mut object = json!({
            "code": CODE,
            "origin": self.origin.word(),
            "place": self.origin.place(),
            "message": self.wrong.message,
            "expected": self.wrong.expected,
            "suggestion": self.wrong.suggestion,
        });
        if let Origin::File { file, line, column } = &self.origin {
            object["file"] = json!(file.path.display().to_string());
            object["line"] = json!(line);
            object["column"] = json!(column);
        }
        object
    }
}

/// ``` `a`, `b` or `c` ```
pub fn one_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// The nearest of `names`: none that differs in more than a third of the characters of `text` (at least 1, at most 3).
pub fn nearest<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let length = text.chars().count();
    let within = (length / 3).clamp(1, 3);
    let distances = names.map(|name| (strsim::osa_distance(text, name), name));
    if length > NEAR_MAX {
        return None;
    }
    distances.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= within).map(|(_, name)| name)
}

/// What stood in a file may be anything; none of it moves the cursor of a terminal.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => '\u{fffd}',
        c => c,
    }
}

fn printable_text(text: &str) -> String {
    text.chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        let file = Arc::new(FileText { path: "n.toml".into(), text: "a = 1\nä = é\n".to_owned() });
        assert_eq!(Origin::at(&file, 0).place(), "n.toml:1:1");
        let byte = file.text.find('é').unwrap();
        assert_eq!(Origin::at(&file, byte).place(), "n.toml:2:5");
        assert_eq!(Origin::at(&file, 9_999).place(), "n.toml:3:1");
    }

    #[test]
    fn a_mistake_shows_its_line_its_place_and_what_was_meant() {
        let file = Arc::new(FileText { path: "n.toml".into(), text: "[node]\nnam = \"n1\"\n".to_owned() });
        let wrong = Wrong::unknown("unknown key `nam` in [node]", "nam", ["name", "data_dir"].into_iter());
        let rendered = wrong.at(Origin::at(&file, 7)).render();
        assert_eq!(
            rendered,
            "n.toml:2:1: unknown key `nam` in [node] [bad-config]\n  |\n2 | nam = \"n1\"\n  | ^\n  expected: `name` or `data_dir`\n  did you mean: `name`\n"
        );
    }

    #[test]
    fn a_hostile_line_moves_no_cursor_and_stays_short() {
        let text = format!("{}\u{1b}[2Jx", "y".repeat(500));
        let file = Arc::new(FileText { path: "n.toml".into(), text });
        let rendered = Wrong::new("no\u{7}", "").at(Origin::at(&file, 501)).render();
        assert!(!rendered.contains('\u{1b}') && !rendered.contains('\u{7}'), "{rendered:?}");
        assert!(rendered.lines().all(|line| line.chars().count() < 200), "{rendered}");
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let names = ["listen", "advertise"];
        assert_eq!(nearest("listne", names.into_iter()), Some("listen"));
        assert_eq!(nearest("port", names.into_iter()), None);
        assert_eq!(nearest(&"listen".repeat(100), names.into_iter()), None);
    }
}
