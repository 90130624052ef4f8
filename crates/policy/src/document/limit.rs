//! One limit of a document: its numbers and how they are counted, by which attributes, and what happens when nobody can
//! count.

use std::collections::BTreeMap;

use limits::{FailMode, Span};

use crate::address::IpPrefixes;
use crate::attributes::IP;
use crate::bounds::{Bounds, KEY_PARTS_MAX};
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::{self, Fields, Later, choose, quoted, shortened};
use crate::name::{ATTRIBUTE_SHAPE, NAME_SHAPE, is_attribute_name, is_name};
use crate::nearest::nearest;
use crate::tree::{Entry, Node, Value};

use super::numbers::{Counting, Kind, Numbers, Source};
use super::{conflict, too_many};

/// What happens to a check that lacks an attribute of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// The check is denied with reason `missing_attribute`; the default.
    Deny,
    /// The limit does not apply.
    Skip,
    /// All that lack it share one key, which no value can spell.
    Anonymous,
}

/// How much a limit or a rule counts; of two, the weaker wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A refusal refuses; the default.
    Enforce,
    /// Counted and reported, never refuses.
    Shadow,
    /// Not counted. A rule that is off still is the first that matches: it frees its checks from all limits.
    Off,
}

/// A limit as the document has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// Its name, unique in the document.
    pub name: String,
    /// Its own numbers; `None` if they come from the plan.
    pub numbers: Option<Numbers>,
    /// How its numbers are counted, whoever's they are.
    pub(super) counting: Counting,
    /// The attributes it counts by, in the order of the text; none for one count over all checks.
    pub key: Vec<String>,
    /// The attributes of the key that route it, sorted; `None` without `route:`.
    pub route: Option<Vec<String>>,
    /// How many bits of `ip` it counts by.
    pub prefixes: IpPrefixes,
    /// What the ingress says when no owner can answer.
    pub fail: FailMode,
    /// What happens to a check that lacks an attribute of the key.
    pub missing: Missing,
    /// Whether it counts.
    pub mode: Mode,
    /// What is said about a new key when the table is full; the failure mode unless the document says.
    pub when_full: FailMode,
    /// The name it had before, if it was renamed: it keeps its identity and its state.
    pub renamed_from: Option<String>,
}

pub(super) const KNOWN: [&str; 18] = [
    "rate",
    "algorithm",
    "align",
    "max_log_entries",
    "approximate",
    "slots",
    "ttl",
    "max_hold",
    "key",
    "ipv4_prefix",
    "ipv6_prefix",
    "route",
    "fail",
    "missing",
    "mode",
    "when_full",
    "renamed_from",
    "proof",
];
pub(super) const FAIL_KNOWN: [&str; 2] = ["emergency", "reserved"];
pub(super) const LATER: [Later; 8] = [
    ("schedules", "rates by time of day"),
    ("warn_at", "a warning before the limit"),
    ("candidate", "a second rate on trial"),
    ("penalty", "counting denials"),
    ("keep_free", "priorities"),
    ("enforce", "enforcement for a share of the keys"),
    ("priority", "priorities"),
    ("charge", "separate charging"),
];

/// Reads the mapping of names to limits.
pub(super) fn read_all(node: &Node<'_>, bounds: &Bounds, findings: &mut Findings) -> Option<Vec<LimitSpec>> {
    let entries = fields::entries(node, "names of limits", findings)?;
    if entries.is_empty() {
        findings.push(
            PolicyError::new(node.at, PolicyCode::MissingKey, "there is no limit").expected("at least one limit"),
        );
    }
    if let Some(beyond) = entries.get(bounds.limits) {
        findings.push(too_many(beyond.at, format!("there are {} limits", entries.len()), bounds.limits));
        return None;
    }
    let limits: Vec<Option<LimitSpec>> = entries.iter().map(|entry| read_one(entry, findings)).collect();
    check_renames(entries, findings);
    limits.into_iter().collect()
}

/// The names of limits, whether or not the limits could be read, and their places in the document's order.
pub(super) struct Names<'t> {
    numbers: BTreeMap<&'t str, u32>,
    entries: Vec<(&'t str, Position)>,
}

impl<'t> Names<'t> {
    pub(super) fn of(limits: Option<&'t Node<'_>>) -> Names<'t> {
        let entries = match limits.map(|node| &node.value) {
            Some(Value::Map(entries)) => &entries[..],
            Some(Value::Scalar(_) | Value::List(_)) | None => &[],
        };
        let entries: Vec<(&str, Position)> = entries.iter().map(|entry| (&*entry.key, entry.at)).collect();
        Names { numbers: (0..).zip(&entries).map(|(number, (name, _))| (*name, number)).collect(), entries }
    }

    /// Where a limit's name stands.
    pub(super) fn at(&self, number: u32) -> Position {
        self.entries[number as usize].1
    }

    /// The limit that a text names; if there is none, that is noted.
    pub(super) fn find(&self, name: &str, at: Position, findings: &mut Findings) -> Option<u32> {
        let number = self.number(name);
        if number.is_none() {
            let message = format!("there is no limit `{}`", shortened(name));
            // Among many limits the search takes a while; it is not worth it for a finding that is dropped.
            let suggestion = if findings.is_full() { None } else { self.nearest(name).map(quoted) };
            let error = PolicyError::new(at, PolicyCode::UnknownLimit, message).expected("a limit of this document");
            findings.push(error.suggestion(suggestion));
        }
        number
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(super) fn nearest(&self, name: &str) -> Option<&'t str> {
        nearest(name, self.numbers.keys().copied())
    }
}

fn read_one(entry: &Entry<'_>, findings: &mut Findings) -> Option<LimitSpec> {
    let named = fields::check_name(&entry.key, entry.at, "the name of a limit", (is_name, NAME_SHAPE), findings);
    let fields = Fields::of(&entry.value, "a limit", &KNOWN, &LATER, findings)?;
    let kind = Kind::read(&fields, findings);
    let fail = fields.get("fail").map_or(Some(fail_default(kind.flatten())), |node| fail(node, findings));
    let counting = kind.and_then(|kind| Counting::read(kind, fail, &fields, findings));
    let numbers = own_numbers(kind.flatten(), counting, &fields, findings);
    let key = fields.require("key", "a list of attributes, `[]` for one count over all checks", findings);
    let key = key.and_then(|node| attributes(node, KEY_PARTS_MAX, findings));
    let prefixes = prefixes(&fields, key.as_deref(), findings);
    let route = fields.get("route").map(|node| route(node, key.as_deref(), findings));
    let missing = choose(&fields, "missing", &MISSING, Missing::Deny, &[], findings);
    let mode = mode(&fields, findings);
    let when_full = fields.get("when_full").map(|node| fields::word(node, "when_full", &WHEN_FULL, &[], findings));
    let proof = choose(&fields, "proof", &[("lease", ())], (), &["quorum"], findings);
    let renamed_from = fields.get("renamed_from").map(|node| renamed_from(&entry.key, node, findings));
    proof?;
    Some(LimitSpec {
        name: named.then(|| entry.key.clone().into_owned())?,
        numbers: numbers?,
        counting: counting?,
        key: key?,
        route: transposed(route)?,
        prefixes: prefixes?,
        fail: fail?,
        missing: missing?,
        mode: mode?,
        when_full: transposed(when_full)?.unwrap_or(fail?),
        renamed_from: transposed(renamed_from)?,
    })
}

/// A slot that nobody can count is not given out; what a rate limits goes on meanwhile.
fn fail_default(kind: Option<Kind>) -> FailMode {
    match kind {
        Some(Kind::Concurrency) => FailMode::Closed,
        Some(Kind::TokenBucket | Kind::SlidingLog | Kind::FixedWindow | Kind::SlidingCounter | Kind::Calendar)
        | None => FailMode::Open,
    }
}

/// The numbers of a limit itself; `None` within if they come from the plan. They are read even if how they are counted
/// could not be, so that one pass finds everything.
fn own_numbers(
    kind: Option<Kind>,
    counting: Option<Counting>,
    fields: &Fields<'_, '_>,
    findings: &mut Findings,
) -> Option<Option<Numbers>> {
    let counting = match (counting, kind) {
        (Some(counting), _) => counting,
        (None, Some(Kind::Concurrency)) => {
            Counting::Concurrency { ttl: Span::from_secs(1), max_hold: Span::from_secs(1) }
        }
        (None, Some(_) | None) => Counting::AsTheRateSays,
    };
    let (key, expected) = counting.key();
    let node = fields.require(key, expected, findings)?;
    match Source::of(node, findings)? {
        Source::Plan => Some(None),
        Source::Own => counting.numbers(node, findings).map(Some),
    }
}

/// `ipv4_prefix` and `ipv6_prefix`, which only a limit on `ip` has.
fn prefixes(fields: &Fields<'_, '_>, key: Option<&[String]>, findings: &mut Findings) -> Option<IpPrefixes> {
    let usual = IpPrefixes::default();
    let mut read = |name: &str, most: u8, usual: u8| {
        let Some(node) = fields.get(name) else { return Some(usual) };
        if key.is_some_and(|key| !key.iter().any(|it| it == IP)) {
            let error = conflict(fields.place_of(name), &format!("`{name}` belongs to a limit that counts by `ip`"));
            findings.push(error.expected("`ip` among the attributes of the key"));
        }
        fields::number(node, &format!("`{name}`"), 1, most.into(), findings).and_then(|bits| u8::try_from(bits).ok())
    };
    let (v4, v6) = (read("ipv4_prefix", 32, usual.v4), read("ipv6_prefix", 128, usual.v6));
    Some(IpPrefixes { v4: v4?, v6: v6? })
}

/// `None` if a field is there and could not be read.
fn transposed<T>(field: Option<Option<T>>) -> Option<Option<T>> {
    field.map_or(Some(None), |read| read.map(Some))
}

const MISSING: [(&str, Missing); 3] =
    [("deny", Missing::Deny), ("skip", Missing::Skip), ("anonymous", Missing::Anonymous)];
const MODES: [(&str, Mode); 3] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("off", Mode::Off)];
const WHEN_FULL: [(&str, FailMode); 2] = [("closed", FailMode::Closed), ("open", FailMode::Open)];

/// The `mode:` of a limit or of a rule.
pub(super) fn mode(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Mode> {
    choose(fields, "mode", &MODES, Mode::Enforce, &[], findings)
}

/// A list of different attributes.
fn attributes(node: &Node<'_>, most: usize, findings: &mut Findings) -> Option<Vec<String>> {
    let items = fields::items(node, "a list of attributes, as in `[client]`", findings)?;
    if items.len() > most {
        findings.push(too_many(node.at, format!("{} attributes are listed", items.len()), most));
        return None;
    }
    let mut names: Vec<String> = Vec::with_capacity(items.len());
    let shape: (fn(&str) -> bool, &str) = (is_attribute_name, ATTRIBUTE_SHAPE);
    let mut all = true;
    for item in items {
        let Some(name) = fields::name(item, "the name of an attribute", shape, findings) else {
            all = false;
            continue;
        };
        if names.iter().any(|other| other == name) {
            findings.push(PolicyError::new(item.at, PolicyCode::Duplicate, format!("`{name}` is listed twice")));
        } else {
            names.push(name.to_owned());
        }
    }
    all.then_some(names)
}

/// The routing attributes, sorted: limits that are routed by the same attributes share partitions in whatever order
/// their authors wrote them.
fn route(node: &Node<'_>, key: Option<&[String]>, findings: &mut Findings) -> Option<Vec<String>> {
    let mut route = attributes(node, KEY_PARTS_MAX, findings)?;
    let key = key?;
    for (item, name) in fields::one_or_more(node).iter().zip(&route) {
        if !key.contains(name) {
            let message = format!("the route has `{name}`, which is not part of the key");
            let expected = if key.is_empty() { "`[]`".to_owned() } else { format!("some of `[{}]`", key.join(", ")) };
            let suggestion = nearest(name, key.iter().map(String::as_str)).map(quoted);
            findings
                .push(PolicyError::new(item.at, PolicyCode::Route, message).expected(expected).suggestion(suggestion));
        }
    }
    route.sort_unstable();
    Some(route)
}

/// `closed`, `open`, or `{ emergency: 20%, reserved: true }`.
fn fail(node: &Node<'_>, findings: &mut Findings) -> Option<FailMode> {
    if let Value::Map(_) = &node.value {
        return emergency(node, findings);
    }
    let expected = "`closed`, `open` or `{ emergency: 20% }`";
    match &*fields::scalar(node, expected, findings)?.text {
        "closed" => Some(FailMode::Closed),
        "open" => Some(FailMode::Open),
        "emergency" => {
            let error = PolicyError::new(node.at, PolicyCode::WrongType, "`emergency` has no share").expected(expected);
            findings.push(error.suggestion(Some("`{ emergency: 20% }`".to_owned())));
            None
        }
        other => {
            let message = format!("unknown failure mode `{}`", shortened(other));
            let suggestion = nearest(other, ["closed", "open"]).map(quoted);
            findings
                .push(PolicyError::new(node.at, PolicyCode::Word, message).expected(expected).suggestion(suggestion));
            None
        }
    }
}

fn emergency(node: &Node<'_>, findings: &mut Findings) -> Option<FailMode> {
    let fields = Fields::of(node, "a failure mode", &FAIL_KNOWN, &[], findings)?;
    let share = fields.require("emergency", "a share, such as 20%", findings);
    let percent = share.and_then(|node| percent(node, findings));
    let reserved = fields.get("reserved").map_or(Some(false), |node| fields::truth(node, "`reserved`", findings));
    let (percent, reserved) = (percent?, reserved?);
    if percent == 100 && reserved {
        findings.push(
            conflict(fields.place_of("reserved"), "a reserve of 100% leaves the owner nothing").expected("at most 99%"),
        );
    }
    Some(FailMode::Emergency { percent, reserved })
}

fn percent(node: &Node<'_>, findings: &mut Findings) -> Option<u8> {
    const EXPECTED: &str = "a whole share from 1% to 100%";
    let text = &*fields::scalar(node, EXPECTED, findings)?.text;
    let number = crate::rate_text::whole_number(text.strip_suffix('%').unwrap_or(text).trim_end());
    match number.and_then(|number| u8::try_from(number).ok()).filter(|number| (1..=100).contains(number)) {
        Some(percent) if text.ends_with('%') => Some(percent),
        found => {
            let code = if number.is_some() && text.ends_with('%') { PolicyCode::Range } else { PolicyCode::WrongType };
            let error =
                PolicyError::new(node.at, code, format!("the share is `{}`", shortened(text))).expected(EXPECTED);
            findings.push(error.suggestion(found.filter(|_| !text.ends_with('%')).map(|it| format!("`{it}%`"))));
            None
        }
    }
}

fn renamed_from(name: &str, node: &Node<'_>, findings: &mut Findings) -> Option<String> {
    let before = fields::name(node, "the name of a limit", (is_name, NAME_SHAPE), findings)?;
    if before == name {
        findings.push(conflict(node.at, "a limit is not renamed from its own name"));
    }
    Some(before.to_owned())
}

/// Two limits cannot both be what one limit was.
fn check_renames(entries: &[Entry<'_>], findings: &mut Findings) {
    let mut heirs: BTreeMap<&str, &str> = entries.iter().map(|entry| (&*entry.key, &*entry.key)).collect();
    for entry in entries {
        let Some(node) = field(entry, "renamed_from") else { continue };
        let Value::Scalar(before) = &node.value else { continue };
        match heirs.get(&*before.text) {
            Some(heir) if *heir != entry.key => {
                let before = shortened(&before.text);
                let message = match *heir == before {
                    true => format!("there still is a limit `{before}`"),
                    false => format!("`{before}` goes on as the limit `{}` already", shortened(heir)),
                };
                findings.push(conflict(node.at, &message).expected("a name that no other limit takes over"));
            }
            Some(_) | None => drop(heirs.insert(&before.text, &entry.key)),
        }
    }
}

fn field<'t, 's>(entry: &'t Entry<'s>, key: &str) -> Option<&'t Node<'s>> {
    match &entry.value.value {
        Value::Map(fields) => fields.iter().find(|field| field.key == key).map(|field| &field.value),
        Value::Scalar(_) | Value::List(_) => None,
    }
}
