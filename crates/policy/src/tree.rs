//! The text of a document as a tree in which every node knows its place. YAML is read down to the part that a policy
//! needs: mappings with text keys, lists, and scalars that stay the text they were (so `no` is a word and `1_000` is
//! read by whoever expects a number). JSON is a subset. Anchors, aliases, tags, directives and a second document are
//! findings, and so is a key that stands twice.

#![allow(clippy::wildcard_enum_match_arm, reason = "the parser's enums are not ours, and they grow")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use crate::bounds::Bounds;
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::shortened;

/// A value and where it begins.
#[derive(Debug)]
pub(crate) struct Node<'s> {
    pub(crate) at: Position,
    pub(crate) value: Value<'s>,
}

/// What a value is.
#[derive(Debug)]
pub(crate) enum Value<'s> {
    Scalar(Scalar<'s>),
    List(Vec<Node<'s>>),
    Map(Vec<Entry<'s>>),
}

/// One key of a mapping with its value.
#[derive(Debug)]
pub(crate) struct Entry<'s> {
    pub(crate) at: Position,
    pub(crate) key: Cow<'s, str>,
    pub(crate) value: Node<'s>,
}

/// Text, and how it was written.
#[derive(Debug)]
pub(crate) struct Scalar<'s> {
    pub(crate) text: Cow<'s, str>,
    /// Written without quotes: may be a number, or nothing at all.
    pub(crate) plain: bool,
    /// Where the first character of the text stands, when the source has the text letter by letter; then a place
    /// within the text is a place in the document.
    pub(crate) verbatim: Option<Position>,
}

impl Scalar<'_> {
    /// Whether it says that there is no value.
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }
}

impl Node<'_> {
    /// What stands there, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Scalar(scalar) if scalar.is_null() => "nothing",
            Value::Scalar(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Reads a text of at most `bounds.bytes`. With any finding there is no tree.
pub(crate) fn read<'s>(text: &'s str, bounds: &Bounds) -> Result<Node<'s>, Vec<PolicyError>> {
    if text.len() > bounds.bytes {
        let message = format!("the document has {} bytes", text.len());
        let error = PolicyError::new(Position::START, PolicyCode::TooLarge, message);
        return Err(vec![error.expected(format!("at most {} bytes", bounds.bytes))]);
    }
    let mut reader = Reader::new(text, bounds);
    let root = reader.document();
    match (root, reader.findings.is_empty()) {
        (Ok(root), true) => Ok(root),
        (Ok(_), false) => Err(reader.findings.into_errors()),
        (Err(fatal), _) => {
            reader.findings.push(fatal);
            Err(reader.findings.into_errors())
        }
    }
}

struct Reader<'s> {
    source: &'s str,
    events: Parser<'s, StrInput<'s>>,
    depth_max: usize,
    findings: Findings,
}

impl<'s> Reader<'s> {
    fn new(source: &'s str, bounds: &Bounds) -> Reader<'s> {
        let options = granit_parser::options! {
            disallow_directives: true,
            emit_unresolved_aliases: true,
            emit_anchor_events: true,
            emit_comments: false,
            // Not our depth: the parser reads ahead, and would find a text too deep before we find where.
            flow_nesting_limit: 255,
            block_nesting_limit: 255,
        };
        let events = Parser::new_from_str_with_options(source, options);
        Reader { source, events, depth_max: bounds.depth, findings: Findings::default() }
    }

    /// The one document of the stream.
    fn document(&mut self) -> Result<Node<'s>, PolicyError> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return root.ok_or_else(empty),
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(feature(span.start, "a second document").expected("one document per file"));
                }
                Event::DocumentStart(..) => root = Some(self.node(0)?),
                other => return Err(misplaced(&other, &span)),
            }
        }
    }

    /// The next event that is not metadata; anchors become findings on the way.
    fn next(&mut self) -> Result<(Event<'s>, Span), PolicyError> {
        loop {
            match self.events.next_event() {
                None => return Err(PolicyError::new(Position::START, PolicyCode::Syntax, "the text ends too early")),
                Some(Err(error)) => return Err(self.unreadable(&error)),
                Some(Ok((Event::Anchor(_, name), span))) => {
                    self.findings.push(feature(span.start, &format!("the anchor `&{}`", shortened(&name))));
                }
                Some(Ok(found)) => return Ok(found),
            }
        }
    }

    /// One value; `depth` collections are around it.
    fn node(&mut self, depth: usize) -> Result<Node<'s>, PolicyError> {
        let (event, span) = self.next()?;
        self.value(event, &span, depth)
    }

    fn value(&mut self, event: Event<'s>, span: &Span, depth: usize) -> Result<Node<'s>, PolicyError> {
        if let Some(tag) = span.tag_start() {
            self.findings.push(feature(tag, "a tag"));
        }
        let at = position(&span.start);
        let value = match event {
            Event::Scalar(text, style, ..) => Value::Scalar(self.scalar(text, style, span)),
            Event::SequenceStart(..) => Value::List(self.list(at, depth + 1)?),
            Event::MappingStart(..) => Value::Map(self.map(at, depth + 1)?),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let error = feature(span.start, "an alias");
                self.findings.push(error.expected("a value; a text that begins with `*` needs quotes"));
                Value::Scalar(Scalar { text: Cow::Borrowed(""), plain: true, verbatim: None })
            }
            other => return Err(misplaced(&other, span)),
        };
        Ok(Node { at, value })
    }

    fn scalar(&self, text: Cow<'s, str>, style: ScalarStyle, span: &Span) -> Scalar<'s> {
        let written = span.slice(self.source);
        let at = position(&span.start);
        let verbatim = match style {
            ScalarStyle::Plain => (written == Some(&text)).then_some(at),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                let inner = written.and_then(|it| it.get(1..it.len().saturating_sub(1)));
                (inner == Some(&text)).then_some(at.right(1))
            }
            ScalarStyle::Literal | ScalarStyle::Folded => None,
        };
        // A text of several lines has places on several lines.
        let verbatim = verbatim.filter(|_| !text.contains(['\n', '\r']));
        Scalar { text, plain: style == ScalarStyle::Plain, verbatim }
    }

    fn list(&mut self, at: Position, depth: usize) -> Result<Vec<Node<'s>>, PolicyError> {
        self.check_depth(at, depth)?;
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            items.push(self.value(event, &span, depth)?);
        }
    }

    fn map(&mut self, at: Position, depth: usize) -> Result<Vec<Entry<'s>>, PolicyError> {
        self.check_depth(at, depth)?;
        let mut entries: Vec<Entry<'s>> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                self.find_duplicates(&entries);
                return Ok(entries);
            }
            let key = self.value(event, &span, depth)?;
            let value = self.node(depth)?;
            entries.extend(self.entry(key, value));
        }
    }

    fn entry(&mut self, key: Node<'s>, value: Node<'s>) -> Option<Entry<'s>> {
        let kind = key.kind();
        match key.value {
            Value::Scalar(scalar) if !scalar.is_null() => Some(Entry { at: key.at, key: scalar.text, value }),
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
                let error = PolicyError::new(key.at, PolicyCode::WrongType, format!("a key is {kind}"));
                self.findings.push(error.expected("a name"));
                None
            }
        }
    }

    fn find_duplicates(&mut self, entries: &[Entry<'s>]) {
        let mut seen: BTreeMap<&str, Position> = BTreeMap::new();
        for entry in entries {
            if let Some(first) = seen.get(&*entry.key) {
                let message = format!("the key `{}` stands twice, first at {first}", shortened(&entry.key));
                self.findings.push(PolicyError::new(entry.at, PolicyCode::DuplicateKey, message));
            } else {
                seen.insert(&entry.key, entry.at);
            }
        }
    }

    fn check_depth(&self, at: Position, depth: usize) -> Result<(), PolicyError> {
        if depth <= self.depth_max { Ok(()) } else { Err(too_deep(at, self.depth_max)) }
    }

    fn unreadable(&self, error: &ScanError) -> PolicyError {
        let marker = *error.marker();
        match error.kind() {
            ErrorKind::DirectiveDisallowed => feature(marker, "a directive (`%`)"),
            ErrorKind::RecursionLimitExceeded => too_deep(position(&marker), self.depth_max),
            _ => PolicyError::new(position(&marker), PolicyCode::Syntax, format!("not YAML: {}", error.info())),
        }
    }
}

fn position(marker: &Marker) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: number(marker.line().max(1)), column: number(marker.col().saturating_add(1)) }
}

fn feature(at: Marker, what: &str) -> PolicyError {
    PolicyError::new(position(&at), PolicyCode::YamlFeature, format!("{what} is not part of a policy"))
}

fn too_deep(at: Position, most: usize) -> PolicyError {
    PolicyError::new(at, PolicyCode::TooDeep, "nested too deeply").expected(format!("at most {most} levels"))
}

fn empty() -> PolicyError {
    PolicyError::new(Position::START, PolicyCode::MissingKey, "the document is empty").expected("`ringfence: 1`")
}

fn misplaced(event: &Event<'_>, span: &Span) -> PolicyError {
    PolicyError::new(position(&span.start), PolicyCode::Syntax, format!("not expected here: {event:?}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The tree as text, one place before each scalar and key.
    fn outline(node: &Node<'_>) -> String {
        match &node.value {
            Value::Scalar(scalar) => format!("{}={:?}", node.at, scalar.text),
            Value::List(items) => format!("[{}]", items.iter().map(outline).collect::<Vec<_>>().join(" ")),
            Value::Map(entries) => {
                let entry = |it: &Entry<'_>| format!("{}@{} {}", it.key, it.at, outline(&it.value));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn tree(text: &str) -> String {
        outline(&read(text, &Bounds::default()).unwrap())
    }

    fn errors(text: &str) -> Vec<String> {
        let errors = read(text, &Bounds::default()).unwrap_err();
        errors.iter().map(|error| format!("{}:{} {}", error.line, error.column, error.code)).collect()
    }

    #[test]
    fn every_node_knows_its_place() {
        assert_eq!(tree("a: 1\nb:\n  - x\n  - {c: 'd'}\n"), r#"{a@1:1 1:4="1", b@2:1 [3:5="x" {c@4:6 4:9="d"}]}"#);
    }

    #[test]
    fn json_is_read_by_the_same_parser() {
        assert_eq!(
            tree(r#"{"a":1,"b":["x",{"c":"\u0064"}]}"#),
            r#"{a@1:2 1:6="1", b@1:8 [1:13="x" {c@1:18 1:22="d"}]}"#
        );
    }

    #[test]
    fn scalars_stay_the_text_they_were() {
        assert_eq!(tree("[no, 0x10, 1.50, ~, true]"), r#"[1:2="no" 1:6="0x10" 1:12="1.50" 1:18="~" 1:21="true"]"#);
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(tree("é: ü"), r#"{é@1:1 1:4="ü"}"#);
    }

    #[test]
    fn a_place_within_a_text_is_known_when_the_source_has_it_letter_by_letter() {
        let verbatim = |text: &str| match read(text, &Bounds::default()).unwrap().value {
            Value::Scalar(scalar) => scalar.verbatim.map(|at| at.column),
            Value::List(_) | Value::Map(_) => panic!("a scalar"),
        };
        assert_eq!(verbatim("10/s"), Some(1));
        assert_eq!(verbatim("'10/s'"), Some(2));
        assert_eq!(verbatim("\"10/s\""), Some(2));
        assert_eq!(verbatim("\"10\\/s\""), None);
        assert_eq!(verbatim("10/s\n burst 20"), None);
        assert_eq!(verbatim("|\n 10/s\n"), None);
    }

    #[test]
    fn what_a_policy_does_not_use_is_found_at_its_place() {
        assert_eq!(
            errors("a: &x 1\nb: *x\nc: !!str d\n"),
            ["1:4 policy-yaml-feature", "2:4 policy-yaml-feature", "3:4 policy-yaml-feature"]
        );
        assert_eq!(errors("a: *nobody\n"), ["1:4 policy-yaml-feature"]);
        assert_eq!(errors("a: 1\n---\nb: 2\n"), ["2:1 policy-yaml-feature"]);
        assert_eq!(errors("%YAML 1.2\n---\na: 1\n"), ["1:1 policy-yaml-feature"]);
        assert_eq!(errors("? [a]\n: 1\n"), ["1:3 policy-wrong-type"]);
    }

    #[test]
    fn a_key_that_stands_twice_is_found() {
        assert_eq!(
            errors("a: 1\nb: {c: 1, 'c': 2}\na: 3\n"),
            ["2:11 policy-duplicate-key", "3:1 policy-duplicate-key"]
        );
    }

    #[test]
    fn size_and_depth_are_bounded() {
        assert_eq!(errors(&"#".repeat(256 * 1024 + 1)), ["1:1 policy-too-large"]);
        assert!(read(&format!("{}{}", "[".repeat(16), "]".repeat(16)), &Bounds::default()).is_ok());
        assert_eq!(errors(&format!("{}{}", "[".repeat(17), "]".repeat(17))), ["1:17 policy-too-deep"]);
        assert_eq!(errors(&"- ".repeat(17)), ["1:33 policy-too-deep"]);
        for much_too_deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(60_000)] {
            let found = errors(&much_too_deep);
            assert!(found.len() == 1 && found[0].ends_with("policy-too-deep"), "{found:?}");
        }
    }

    #[test]
    fn an_empty_document_is_found() {
        assert_eq!(errors(""), ["1:1 policy-missing-key"]);
        assert_eq!(errors("# nothing\n"), ["1:1 policy-missing-key"]);
    }

    #[test]
    fn broken_yaml_is_found_at_its_line() {
        assert_eq!(errors("'''"), ["1:1 policy-syntax"]);
        assert_eq!(errors("a: 1\nb: [1\n"), ["2:4 policy-syntax"]);
        assert_eq!(errors("a:\n\tb: 1\n"), ["2:2 policy-syntax"]);
    }
}
