//! Reading a tree by its meaning: the fields of a mapping, words of a fixed choice, numbers, names, lists. Each reader
//! returns `None` after it has noted what is wrong, so that one pass finds everything.

use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::nearest::nearest;
use crate::tree::{Entry, Node, Scalar, Value};

/// A key of the language that this version does not read yet, and the words for it.
pub(crate) type Later = (&'static str, &'static str);

/// The fields of one mapping.
pub(crate) struct Fields<'t, 's> {
    at: Position,
    /// What the mapping is, for messages: "a limit".
    what: &'static str,
    entries: &'t [Entry<'s>],
    /// Keys that some unknown key was probably meant to be.
    meant: Vec<&'static str>,
}

impl<'t, 's> Fields<'t, 's> {
    /// The fields of a mapping whose keys are all among `known`. Keys among `later` are found to be not supported yet,
    /// all others to be unknown; the reading goes on without them.
    pub(crate) fn of(
        node: &'t Node<'s>,
        what: &'static str,
        known: &[&'static str],
        later: &[Later],
        findings: &mut Findings,
    ) -> Option<Fields<'t, 's>> {
        let entries = entries(node, what, findings)?;
        let mut meant = Vec::new();
        for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key)) {
            let near = nearest(&entry.key, known.iter().copied());
            findings.push(unknown_key(entry, what, known, later, near));
            meant.extend(near);
        }
        Some(Fields { at: node.at, what, entries, meant })
    }

    /// The value of a field that may be left out.
    pub(crate) fn get(&self, key: &str) -> Option<&'t Node<'s>> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Where a field's key stands, or else the mapping.
    pub(crate) fn place_of(&self, key: &str) -> Position {
        self.entries.iter().find(|entry| entry.key == key).map_or(self.at, |entry| entry.at)
    }

    /// The value of a field that has to be there. If its key was misspelt, that has been noted already.
    pub(crate) fn require(&self, key: &str, expected: &str, findings: &mut Findings) -> Option<&'t Node<'s>> {
        let node = self.get(key);
        if node.is_none() && !self.meant.contains(&key) {
            let message = format!("`{key}` is missing in {}", self.what);
            findings.push(PolicyError::new(self.at, PolicyCode::MissingKey, message).expected(expected));
        }
        node
    }
}

/// Words that other rate limiters have as keys, and that stand in the rate here.
const IN_THE_RATE: [&str; 8] = ["burst", "period", "window", "unit", "per", "amount", "seconds", "requests_per_unit"];

fn unknown_key(
    entry: &Entry<'_>,
    what: &str,
    known: &[&'static str],
    later: &[Later],
    near: Option<&str>,
) -> PolicyError {
    if let Some((_, words)) = later.iter().find(|(key, _)| *key == entry.key) {
        let message = format!("`{}` ({words}) is not supported yet", entry.key);
        return PolicyError::new(entry.at, PolicyCode::Unsupported, message);
    }
    let message = format!("unknown key `{}` in {what}", shortened(&entry.key));
    let error = PolicyError::new(entry.at, PolicyCode::UnknownKey, message);
    if IN_THE_RATE.contains(&&*entry.key) && known.contains(&"rate") {
        return error.expected("all numbers in the rate, as in `rate: 10/s burst 20`");
    }
    error.expected(choice(known)).suggestion(near.map(quoted))
}

/// The entries of a mapping.
pub(crate) fn entries<'t, 's>(node: &'t Node<'s>, what: &str, findings: &mut Findings) -> Option<&'t [Entry<'s>]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        Value::Scalar(_) | Value::List(_) => {
            findings.push(wrong_type(node, &format!("{what}, as a mapping")));
            None
        }
    }
}

/// The items of a list.
pub(crate) fn items<'t, 's>(node: &'t Node<'s>, expected: &str, findings: &mut Findings) -> Option<&'t [Node<'s>]> {
    match &node.value {
        Value::List(items) => Some(items),
        Value::Scalar(_) | Value::Map(_) => {
            findings.push(wrong_type(node, expected));
            None
        }
    }
}

/// A list, or one item without the brackets.
pub(crate) fn one_or_more<'t, 's>(node: &'t Node<'s>) -> &'t [Node<'s>] {
    match &node.value {
        Value::List(items) => items,
        Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(node),
    }
}

/// Text that is there.
pub(crate) fn scalar<'t, 's>(node: &'t Node<'s>, expected: &str, findings: &mut Findings) -> Option<&'t Scalar<'s>> {
    match &node.value {
        Value::Scalar(scalar) if !scalar.is_null() => Some(scalar),
        Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
            findings.push(wrong_type(node, expected));
            None
        }
    }
}

/// One of the few words that may be the value of `key`. Words among `later` are found to be not supported yet.
pub(crate) fn word<T: Copy>(
    node: &Node<'_>,
    key: &str,
    words: &[(&'static str, T)],
    later: &[&str],
    findings: &mut Findings,
) -> Option<T> {
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let text = &*scalar(node, &choice(&names), findings)?.text;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    findings.push(if later.contains(&text) {
        PolicyError::new(node.at, PolicyCode::Unsupported, format!("`{key}: {text}` is not supported yet"))
            .expected(choice(&names))
    } else {
        let suggestion = nearest(text, names.iter().copied()).map(quoted);
        PolicyError::new(node.at, PolicyCode::Word, format!("`{key}: {}` is not known", shortened(text)))
            .expected(choice(&names))
            .suggestion(suggestion)
    });
    None
}

/// One of the few words that may be the value of a field, or what holds without the field.
pub(crate) fn choose<T: Copy>(
    fields: &Fields<'_, '_>,
    key: &str,
    words: &[(&'static str, T)],
    default: T,
    later: &[&str],
    findings: &mut Findings,
) -> Option<T> {
    fields.get(key).map_or(Some(default), |node| word(node, key, words, later, findings))
}

/// A whole number without quotes, digits with `_` between them, from `least` to `most`.
pub(crate) fn number(node: &Node<'_>, what: &str, least: u64, most: u64, findings: &mut Findings) -> Option<u64> {
    let expected = format!("a whole number from {least} to {most}");
    let scalar = scalar(node, &expected, findings)?;
    let negative = scalar.text.strip_prefix('-').is_some_and(|rest| crate::rate_text::whole_number(rest).is_some());
    let read = if scalar.plain { crate::rate_text::whole_number(&scalar.text) } else { None };
    let Some(number) = read else {
        let code = if negative && scalar.plain { PolicyCode::Range } else { PolicyCode::WrongType };
        let message = format!("{what} is `{}`", shortened(&scalar.text));
        findings.push(PolicyError::new(node.at, code, message).expected(expected));
        return None;
    };
    match u64::try_from(number) {
        Ok(number) if (least..=most).contains(&number) => Some(number),
        Ok(_) | Err(_) => {
            let message = format!("{what} is {}", shortened(&scalar.text));
            findings.push(PolicyError::new(node.at, PolicyCode::Range, message).expected(expected));
            None
        }
    }
}

/// `true` or `false`, without quotes.
pub(crate) fn truth(node: &Node<'_>, what: &str, findings: &mut Findings) -> Option<bool> {
    let scalar = scalar(node, "true or false", findings)?;
    match &*scalar.text {
        "true" if scalar.plain => Some(true),
        "false" if scalar.plain => Some(false),
        text => {
            let message = format!("{what} is `{}`", shortened(text));
            findings.push(PolicyError::new(node.at, PolicyCode::WrongType, message).expected("true or false"));
            None
        }
    }
}

/// Text that is spelt as names are.
pub(crate) fn name<'t>(
    node: &'t Node<'_>,
    what: &str,
    shape: (fn(&str) -> bool, &str),
    findings: &mut Findings,
) -> Option<&'t str> {
    let text = &*scalar(node, &format!("{what}: {}", shape.1), findings)?.text;
    check_name(text, node.at, what, shape, findings).then_some(text)
}

/// Whether a text is spelt as names are; notes it if not.
pub(crate) fn check_name(
    text: &str,
    at: Position,
    what: &str,
    (is_name, shape): (fn(&str) -> bool, &str),
    findings: &mut Findings,
) -> bool {
    let fits = is_name(text);
    if !fits {
        let message = format!("`{}` is not {what}", shortened(text));
        let lower = text.to_ascii_lowercase();
        let likely = [lower.replace([' ', '.'], "-"), lower.replace([' ', '.', '-'], "_")];
        let suggestion = likely.iter().find(|name| is_name(name)).map(quoted);
        findings.push(PolicyError::new(at, PolicyCode::Name, message).expected(shape).suggestion(suggestion));
    }
    fits
}

pub(crate) fn wrong_type(node: &Node<'_>, expected: &str) -> PolicyError {
    PolicyError::new(node.at, PolicyCode::WrongType, format!("found {}", node.kind())).expected(expected)
}

/// "`a`, `b` or `c`".
pub(crate) fn choice(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(quoted).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} or {last}", first.join(", ")),
        None => String::new(),
    }
}

pub(crate) fn quoted(name: impl AsRef<str>) -> String {
    format!("`{}`", name.as_ref())
}

/// The beginning of an outside text, for a message.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
