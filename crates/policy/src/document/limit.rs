//! One limit of a document: a rate, how it is counted, by which attributes, and what happens when nobody can count.

use std::collections::BTreeMap;

use limits::{Algorithm, Align, FailMode, Rate};

use crate::bounds::{Bounds, KEY_PARTS_MAX, LOG_ENTRIES_DEFAULT, LOG_ENTRIES_MAX};
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::{self, Fields, Later, quoted, shortened};
use crate::name::{ATTRIBUTE_SHAPE, NAME_SHAPE, is_attribute_name, is_name};
use crate::nearest::nearest;
use crate::rate_text::RateText;
use crate::tree::{Entry, Node, Scalar, Value};

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
    /// The rate; `None` for `unlimited`.
    pub rate: Option<Rate>,
    /// How it is counted, with the burst of a bucket.
    pub algorithm: Algorithm,
    /// The attributes it counts by, in the order of the text; none for one count over all checks.
    pub key: Vec<String>,
    /// The attributes of the key that route it, sorted; `None` without `route:`.
    pub route: Option<Vec<String>>,
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

const KNOWN: [&str; 12] = [
    "rate",
    "algorithm",
    "align",
    "key",
    "route",
    "fail",
    "missing",
    "mode",
    "max_log_entries",
    "when_full",
    "renamed_from",
    "proof",
];
const LATER: [Later; 12] = [
    ("schedules", "rates by time of day"),
    ("warn_at", "a warning before the limit"),
    ("candidate", "a second rate on trial"),
    ("slots", "concurrency limits"),
    ("ttl", "concurrency limits"),
    ("max_hold", "concurrency limits"),
    ("approximate", "the sliding counter"),
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
}

impl<'t> Names<'t> {
    pub(super) fn of(limits: Option<&'t Node<'_>>) -> Names<'t> {
        let entries = match limits.map(|node| &node.value) {
            Some(Value::Map(entries)) => &entries[..],
            Some(Value::Scalar(_) | Value::List(_)) | None => &[],
        };
        Names { numbers: (0..).zip(entries).map(|(number, entry)| (&*entry.key, number)).collect() }
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
    let algorithm = Kind::read(&fields, findings);
    let rate = fields.require("rate", "a rate, such as `10/s`", findings).and_then(|node| rate(node, findings));
    let key = fields.require("key", "a list of attributes, `[]` for one count over all checks", findings);
    let key = key.and_then(|node| attributes(node, KEY_PARTS_MAX, findings));
    let route = fields.get("route").map(|node| route(node, key.as_deref(), findings));
    let fail = fields.get("fail").map_or(Some(FailMode::Open), |node| fail(node, findings));
    let missing = choose(&fields, "missing", &MISSING, Missing::Deny, &[], findings);
    let mode = mode(&fields, findings);
    let when_full = fields.get("when_full").map(|node| fields::word(node, "when_full", &WHEN_FULL, &[], findings));
    let proof = choose(&fields, "proof", &[("lease", ())], (), &["quorum"], findings);
    let renamed_from = fields.get("renamed_from").map(|node| renamed_from(&entry.key, node, findings));
    let algorithm = algorithm.and_then(|kind| counted(kind, rate, &fields, findings));
    proof?;
    Some(LimitSpec {
        name: named.then(|| entry.key.clone().into_owned())?,
        rate: match rate? {
            RateText::Unlimited => None,
            RateText::Limited { rate, .. } => Some(rate),
        },
        algorithm: algorithm?,
        key: key?,
        route: transposed(route)?,
        fail: fail?,
        missing: missing?,
        mode: mode?,
        when_full: transposed(when_full)?.unwrap_or(fail?),
        renamed_from: transposed(renamed_from)?,
    })
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

fn choose<T: Copy>(
    fields: &Fields<'_, '_>,
    key: &str,
    words: &[(&'static str, T)],
    default: T,
    later: &[&str],
    findings: &mut Findings,
) -> Option<T> {
    fields.get(key).map_or(Some(default), |node| fields::word(node, key, words, later, findings))
}

/// The algorithm's name, before its numbers are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    TokenBucket,
    SlidingLog,
    FixedWindow,
}

impl Kind {
    fn read(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Kind> {
        const WORDS: [(&str, Kind); 3] = [
            ("token-bucket", Kind::TokenBucket),
            ("sliding-log", Kind::SlidingLog),
            ("fixed-window", Kind::FixedWindow),
        ];
        const LATER: [&str; 3] = ["sliding-counter", "calendar", "concurrency"];
        let node = fields.get("algorithm");
        let kind =
            node.map_or(Some(Kind::TokenBucket), |node| fields::word(node, "algorithm", &WORDS, &LATER, findings))?;
        kind.check_belongs(fields, "align", Kind::FixedWindow, "a fixed window", findings);
        kind.check_belongs(fields, "max_log_entries", Kind::SlidingLog, "a sliding log", findings);
        Some(kind)
    }

    fn check_belongs(self, fields: &Fields<'_, '_>, key: &str, to: Kind, words: &str, findings: &mut Findings) {
        if fields.get(key).is_some() && self != to {
            findings.push(conflict(fields.place_of(key), &format!("`{key}` belongs to {words}")));
        }
    }
}

/// The algorithm with its numbers.
fn counted(kind: Kind, rate: Option<RateText>, fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<Algorithm> {
    let align = choose(fields, "align", &ALIGNS, Align::Hashed, &[], findings);
    let entries = fields.get("max_log_entries").map_or(Some(LOG_ENTRIES_DEFAULT), |node| {
        let entries = fields::number(node, "max_log_entries", 1, LOG_ENTRIES_MAX.into(), findings)?;
        u32::try_from(entries).ok()
    });
    let (amount, burst) = match rate? {
        RateText::Unlimited => (0, None),
        RateText::Limited { rate, burst } => (rate.amount(), burst),
    };
    let at = fields.get("rate").map_or(fields.place_of("rate"), |node| node.at);
    if kind != Kind::TokenBucket && burst.is_some() {
        findings.push(conflict(at, "only a token bucket has a burst").expected("a rate without `burst`"));
    }
    match kind {
        Kind::TokenBucket => Some(Algorithm::TokenBucket { burst: burst.unwrap_or(amount) }),
        Kind::FixedWindow => Some(Algorithm::FixedWindow { align: align? }),
        Kind::SlidingLog => {
            if amount > u64::from(LOG_ENTRIES_MAX) {
                let message = format!("the amount of a sliding log is {amount}");
                findings.push(
                    PolicyError::new(at, PolicyCode::Range, message).expected(format!("at most {LOG_ENTRIES_MAX}")),
                );
            }
            Some(Algorithm::SlidingLog { max_entries: entries? })
        }
    }
}

const ALIGNS: [(&str, Align); 3] = [("epoch", Align::Epoch), ("first", Align::First), ("hashed", Align::Hashed)];

fn rate(node: &Node<'_>, findings: &mut Findings) -> Option<RateText> {
    let scalar = fields::scalar(node, "a rate, such as `10/s`", findings)?;
    RateText::parse(&scalar.text)
        .map_err(|error| {
            let at = place_in(node.at, scalar, error.offset);
            let code = if error.unsupported { PolicyCode::Unsupported } else { PolicyCode::Rate };
            let found = PolicyError::new(at, code, error.message).expected(error.expected);
            findings.push(found.suggestion(error.suggestion.map(quoted)));
        })
        .ok()
}

/// The place of a byte within a text, as far as the source has the text letter by letter.
fn place_in(at: Position, scalar: &Scalar<'_>, offset: usize) -> Position {
    scalar.verbatim.map_or(at, |start| start.right(scalar.text[..offset].chars().count()))
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
    let fields = Fields::of(node, "a failure mode", &["emergency", "reserved"], &[], findings)?;
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
