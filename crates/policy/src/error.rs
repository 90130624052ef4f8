//! What is wrong with a policy document, and where. Every finding carries a line and a column, a code that never
//! changes its meaning, what was expected instead, and the nearest name when a name was misspelt.

use std::fmt;

/// The most findings that one parse reports; the rest waits until these are mended.
pub const FINDINGS_MAX: usize = 20;

/// The most characters of a source line that [`PolicyError::render`] shows; longer lines are cut around the caret.
pub const EXCERPT_MAX: usize = 100;

/// A place in a document: line and column from 1, columns counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The first character of a document.
    pub const START: Position = Position { line: 1, column: 1 };

    /// The place `characters` further on the same line.
    pub(crate) fn right(self, characters: usize) -> Position {
        let characters = u32::try_from(characters).unwrap_or(u32::MAX);
        Position { line: self.line, column: self.column.saturating_add(characters) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The kinds of findings. The document's author mends all of them; nothing has changed when one is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyCode {
    /// The text is not YAML (or JSON).
    Syntax,
    /// The document is larger than [`crate::Bounds::bytes`].
    TooLarge,
    /// Lists and mappings are nested deeper than [`crate::Bounds::depth`].
    TooDeep,
    /// Valid YAML that a policy does not use: anchors, aliases, tags, directives, several documents.
    YamlFeature,
    /// A key stands twice in one mapping.
    DuplicateKey,
    /// A key that the language does not have.
    UnknownKey,
    /// A key that has to be there is not.
    MissingKey,
    /// A list where a mapping was expected, a mapping where a number was expected, and so on.
    WrongType,
    /// `ringfence:` names a version of the language that this program does not read.
    Version,
    /// A name of a domain, limit, rule or attribute is not spelt as names are.
    Name,
    /// A word that is none of the words that may stand there.
    Word,
    /// A number outside its range.
    Range,
    /// A rate literal cannot be read.
    Rate,
    /// Two settings that do not go together.
    Conflict,
    /// A name, value or limit is listed twice.
    Duplicate,
    /// A rule names a limit that the document does not have.
    UnknownLimit,
    /// A limit is routed by an attribute that is not part of its key.
    Route,
    /// A value to match that no attribute can have, or a pattern of a kind that there is not.
    Pattern,
    /// More of something than a document may have.
    TooMany,
    /// A part of the language that this version does not have yet. Never ignored.
    Unsupported,
}

impl PolicyCode {
    /// All codes.
    pub const ALL: [PolicyCode; 20] = [
        PolicyCode::Syntax,
        PolicyCode::TooLarge,
        PolicyCode::TooDeep,
        PolicyCode::YamlFeature,
        PolicyCode::DuplicateKey,
        PolicyCode::UnknownKey,
        PolicyCode::MissingKey,
        PolicyCode::WrongType,
        PolicyCode::Version,
        PolicyCode::Name,
        PolicyCode::Word,
        PolicyCode::Range,
        PolicyCode::Rate,
        PolicyCode::Conflict,
        PolicyCode::Duplicate,
        PolicyCode::UnknownLimit,
        PolicyCode::Route,
        PolicyCode::Pattern,
        PolicyCode::TooMany,
        PolicyCode::Unsupported,
    ];

    /// The code as it stands in answers and on the operators' page.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyCode::Syntax => "policy-syntax",
            PolicyCode::TooLarge => "policy-too-large",
            PolicyCode::TooDeep => "policy-too-deep",
            PolicyCode::YamlFeature => "policy-yaml-feature",
            PolicyCode::DuplicateKey => "policy-duplicate-key",
            PolicyCode::UnknownKey => "policy-unknown-key",
            PolicyCode::MissingKey => "policy-missing-key",
            PolicyCode::WrongType => "policy-wrong-type",
            PolicyCode::Version => "policy-version",
            PolicyCode::Name => "policy-name",
            PolicyCode::Word => "policy-word",
            PolicyCode::Range => "policy-range",
            PolicyCode::Rate => "policy-rate",
            PolicyCode::Conflict => "policy-conflict",
            PolicyCode::Duplicate => "policy-duplicate",
            PolicyCode::UnknownLimit => "policy-unknown-limit",
            PolicyCode::Route => "policy-route",
            PolicyCode::Pattern => "policy-pattern",
            PolicyCode::TooMany => "policy-too-many",
            PolicyCode::Unsupported => "policy-unsupported",
        }
    }
}

impl fmt::Display for PolicyCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finding. Whoever wrote the document mends it; no state has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}{} [{code}]", hints(self))]
pub struct PolicyError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The kind of finding.
    pub code: PolicyCode,
    /// What is wrong, in a phrase.
    pub message: String,
    /// What was expected there.
    pub expected: Option<String>,
    /// What was probably meant, ready to be put in its place.
    pub suggestion: Option<String>,
}

impl PolicyError {
    pub(crate) fn new(at: Position, code: PolicyCode, message: impl Into<String>) -> PolicyError {
        let Position { line, column } = at;
        PolicyError { line, column, code, message: message.into(), expected: None, suggestion: None }
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> PolicyError {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn suggestion(mut self, suggestion: Option<String>) -> PolicyError {
        self.suggestion = suggestion;
        self
    }

    /// The finding for people: `file:line:column: message [code]`, the source line with a caret below the place, what
    /// was expected and what was probably meant. `source` is the text that was parsed. Characters that would move a
    /// terminal's cursor are shown as `\u{fffd}`. Ends with a newline.
    pub fn render(&self, file: &str, source: &str) -> String {
        let mut out = format!("{file}:{}:{}: {} [{}]\n", self.line, self.column, self.message, self.code);
        if let Some((excerpt, caret)) = self.excerpt(source) {
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            out += &format!("{margin} |\n{number} | {excerpt}\n{margin} | {}^\n", " ".repeat(caret));
        }
        if let Some(expected) = &self.expected {
            out += &format!("  expected: {expected}\n");
        }
        if let Some(suggestion) = &self.suggestion {
            out += &format!("  did you mean: {suggestion}\n");
        }
        out
    }

    /// The part of the source line around the place, and how many characters stand before the place.
    fn excerpt(&self, source: &str) -> Option<(String, usize)> {
        let line = lines(source).nth(self.line as usize - 1)?;
        let length = line.chars().count();
        let place = (self.column as usize - 1).min(length);
        let first = if length <= EXCERPT_MAX { 0 } else { place.saturating_sub(EXCERPT_MAX / 2) };
        let shown = line.chars().skip(first).take(EXCERPT_MAX).map(printable);
        Some((shown.collect::<String>().trim_end().to_owned(), place - first))
    }
}

/// The lines as YAML counts them: a carriage return by itself ends one too.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    source.lines().flat_map(|line| line.split('\r'))
}

/// Tabs become one blank, so that the caret stands where it should; control characters and those that turn the
/// direction of writing never reach a terminal.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => '\u{fffd}',
        c => c,
    }
}

fn hints(error: &PolicyError) -> String {
    let expected = error.expected.as_ref().map(|it| format!("; expected {it}")).unwrap_or_default();
    let suggestion = error.suggestion.as_ref().map(|it| format!("; did you mean {it}?")).unwrap_or_default();
    expected + &suggestion
}

/// The findings of one parse, at most [`FINDINGS_MAX`] of them.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<PolicyError>,
}

impl Findings {
    /// Notes a finding; beyond [`FINDINGS_MAX`] it is dropped.
    pub(crate) fn push(&mut self, error: PolicyError) {
        if !self.is_full() {
            self.found.push(error);
        }
    }

    /// Whether further findings would be dropped, so that looking for them is wasted.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= FINDINGS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The findings in the order of the text.
    pub(crate) fn into_errors(mut self) -> Vec<PolicyError> {
        self.found.sort_by_key(|error| (error.line, error.column));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: u32, column: u32) -> PolicyError {
        PolicyError::new(Position { line, column }, PolicyCode::UnknownKey, "unknown key `x`")
    }

    #[test]
    fn a_finding_shows_its_line_with_a_caret() {
        let error = error(2, 3).expected("`rate`").suggestion(Some("`rate`".to_owned()));
        let rendered = error.render("policy.yaml", "limits:\n\t x: 1\n");
        assert_eq!(
            rendered,
            "policy.yaml:2:3: unknown key `x` [policy-unknown-key]\n  |\n2 |   x: 1\n  |   ^\n  expected: `rate`\n  \
             did you mean: `rate`\n"
        );
        assert_eq!(
            error.to_string(),
            "2:3: unknown key `x`; expected `rate`; did you mean `rate`? [policy-unknown-key]"
        );
    }

    #[test]
    fn lines_are_counted_as_yaml_counts_them() {
        for source in ["a\nb\nc", "a\r\nb\r\nc", "a\rb\rc", "a\rb\nc\r"] {
            let rendered = error(2, 1).render("policy.yaml", source);
            assert!(rendered.contains("\n2 | b\n"), "{source:?}: {rendered}");
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let source = format!("{}x{}", "a".repeat(5_000), "b".repeat(5_000));
        let rendered = error(1, 5_001).render("p", &source);
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines[2].len(), "1 | ".len() + EXCERPT_MAX);
        assert_eq!(lines[2].find('x'), lines[3].find('^'));
    }

    #[test]
    fn a_place_outside_the_text_is_rendered_without_an_excerpt() {
        assert_eq!(error(9, 1).render("p", "a\n"), "p:9:1: unknown key `x` [policy-unknown-key]\n");
        assert!(error(1, 900).render("p", "a\n").contains("1 | a\n  |  ^\n"));
    }

    #[test]
    fn nothing_in_a_source_line_moves_the_terminals_cursor() {
        let rendered = error(1, 1).render("p", "x\u{1b}[2J\u{202e}y");
        assert!(!rendered.contains(['\u{1b}', '\u{202e}']));
    }

    #[test]
    fn findings_are_bounded_and_come_in_the_order_of_the_text() {
        let mut findings = Findings::default();
        for line in (1..=50).rev() {
            findings.push(error(line, 1));
        }
        let lines: Vec<u32> = findings.into_errors().iter().map(|error| error.line).collect();
        assert_eq!(lines, (31..=50).collect::<Vec<u32>>());
    }
}
