//! Overrides: other numbers for single keys of a limit, for ever or until a date.

use limits::{PartKind, WallTime};

use crate::address::Address;
use crate::attributes::{IP, PATH, VALUE_MAX};
use crate::bounds::{Bounds, REASON_MAX};
use crate::error::{Findings, PolicyCode, PolicyError};
use crate::fields::{self, Fields, Later, quoted, shortened};
use crate::nearest::nearest;
use crate::time_text::{self, UNTIL_SHAPE};
use crate::tree::Node;

use super::limit::{LimitSpec, Names};
use super::numbers::Numbers;
use super::variants::Variants;
use super::{conflict, too_many};

/// An override as the document has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideSpec {
    /// The limit, as its place in [`super::Document::limits`].
    pub limit: u32,
    /// The parts of the key, in the order of the limit's; an address is the group that it counts in.
    pub key: Vec<(PartKind, Vec<u8>)>,
    /// The key's numbers.
    pub numbers: Numbers,
    /// From when on it does not hold any more; `None` for ever.
    pub until: Option<WallTime>,
    /// Why there is one.
    pub reason: Option<String>,
}

pub(super) const KNOWN: [&str; 6] = ["limit", "key", "rate", "slots", "until", "reason"];
pub(super) const LATER: [Later; 1] = [("from", "overrides that begin later")];

/// Reads the list of overrides; `specs` are the limits, as far as they could be read.
pub(super) fn read_all(
    node: &Node<'_>,
    names: &Names<'_>,
    specs: Option<&[LimitSpec]>,
    bounds: &Bounds,
    variants: &mut Variants,
    findings: &mut Findings,
) -> Option<Vec<OverrideSpec>> {
    let items = fields::items(node, "a list of overrides", findings)?;
    if let Some(beyond) = items.get(bounds.overrides) {
        findings.push(too_many(beyond.at, format!("there are {} overrides", items.len()), bounds.overrides));
        return None;
    }
    let read: Vec<_> = items.iter().map(|item| read_one(item, names, specs, variants, findings)).collect();
    read.into_iter().collect()
}

fn read_one(
    node: &Node<'_>,
    names: &Names<'_>,
    specs: Option<&[LimitSpec]>,
    variants: &mut Variants,
    findings: &mut Findings,
) -> Option<OverrideSpec> {
    let fields = Fields::of(node, "an override", &KNOWN, &LATER, findings)?;
    let number = fields.require("limit", "the name of a limit", findings).and_then(|node| {
        let name = &*fields::scalar(node, "the name of a limit", findings)?.text;
        names.find(name, node.at, findings)
    });
    let key = fields.require("key", "the values of the limit's key, as in `{ org: acme }`", findings);
    let until = fields.get("until").map(|node| until(node, findings));
    let reason = fields.get("reason").map(|node| reason(node, findings));
    let number = number?;
    let limit = &specs?[number as usize];
    let numbers = numbers(&fields, limit, findings);
    let key_at = key?.at;
    let key = self::key(key?, limit, findings)?;
    variants.note_override(number, &limit.name, &key, key_at, findings);
    let (until, reason) = (until.map_or(Some(None), |it| it.map(Some)), reason.map_or(Some(None), |it| it.map(Some)));
    Some(OverrideSpec { limit: number, key, numbers: numbers?, until: until?, reason: reason? })
}

/// `rate`, or `slots` if that is what the limit has.
fn numbers(fields: &Fields<'_, '_>, limit: &LimitSpec, findings: &mut Findings) -> Option<Numbers> {
    let (key, expected) = limit.counting.key();
    let other = if key == "rate" { "slots" } else { "rate" };
    if fields.get(other).is_some() {
        let error = conflict(fields.place_of(other), &format!("`{}` has no `{other}`", limit.name));
        findings.push(error.expected(format!("`{key}`")));
        return None;
    }
    fields.require(key, expected, findings).and_then(|node| limit.counting.numbers(node, findings))
}

/// A value for each attribute of the limit's key, in its order.
fn key(node: &Node<'_>, limit: &LimitSpec, findings: &mut Findings) -> Option<Vec<(PartKind, Vec<u8>)>> {
    let entries = fields::entries(node, "attributes and values", findings)?;
    let expected = format!("a value for each of `[{}]`", limit.key.join(", "));
    for entry in entries.iter().filter(|entry| !limit.key.iter().any(|name| *name == entry.key)) {
        let message = format!("`{}` does not count by `{}`", limit.name, shortened(&entry.key));
        let suggestion = nearest(&entry.key, limit.key.iter().map(String::as_str)).map(quoted);
        let error = PolicyError::new(entry.at, PolicyCode::UnknownKey, message).expected(&*expected);
        findings.push(error.suggestion(suggestion));
    }
    let part = |name: &String| match entries.iter().find(|entry| entry.key == *name) {
        Some(entry) => value(name, &entry.value, limit, findings),
        None => {
            let message = format!("`{name}` is missing in a key of `{}`", limit.name);
            findings.push(PolicyError::new(node.at, PolicyCode::MissingKey, message).expected(&*expected));
            None
        }
    };
    let parts: Vec<_> = limit.key.iter().map(part).collect();
    let parts: Option<Vec<_>> = parts.into_iter().collect();
    parts.filter(|parts| parts.len() == entries.len())
}

/// A value that an attribute can have, as a key counts it.
fn value(name: &str, node: &Node<'_>, limit: &LimitSpec, findings: &mut Findings) -> Option<(PartKind, Vec<u8>)> {
    let text = &*fields::scalar(node, "a value", findings)?.text;
    let mut wrong = |message: &str, expected: &str| {
        findings.push(PolicyError::new(node.at, PolicyCode::Pattern, message).expected(expected));
        None
    };
    if name == IP {
        return match Address::parse(text) {
            Some(address) => Some((PartKind::Ip, address.group(limit.prefixes).bytes().to_vec())),
            None => wrong("not an address", "an IPv4 or IPv6 address, which stands for all that are counted with it"),
        };
    }
    match text {
        "" => wrong("values are never empty", "a value"),
        text if text.len() > VALUE_MAX => wrong("values are never that long", &format!("at most {VALUE_MAX} bytes")),
        text if name == PATH && text.contains(['?', '#']) => {
            wrong("a path has no query", "a path, which ends before `?`")
        }
        text => Some((PartKind::Text, text.as_bytes().to_vec())),
    }
}

fn until(node: &Node<'_>, findings: &mut Findings) -> Option<WallTime> {
    let text = fields::scalar(node, UNTIL_SHAPE, findings)?.text.trim();
    let end = time_text::until(text);
    if end.is_none() {
        let error = PolicyError::new(node.at, PolicyCode::Range, format!("`until` is `{}`", shortened(text)));
        findings.push(error.expected(UNTIL_SHAPE));
    }
    end
}

fn reason(node: &Node<'_>, findings: &mut Findings) -> Option<String> {
    let text = &*fields::scalar(node, "a few words", findings)?.text;
    if text.len() > REASON_MAX {
        findings.push(too_many(node.at, format!("the reason has {} bytes", text.len()), REASON_MAX));
        return None;
    }
    Some(text.to_owned())
}
