//! One rule of a document: which checks it is for, what they cost, and the limits that apply to them.

use std::collections::BTreeSet;

use limits::AMOUNT_MAX;

use crate::address::Address;
use crate::attributes::{IP, PATH, VALUE_MAX};
use crate::bounds::{Bounds, LIMITS_PER_CHECK_MAX, MATCH_ATTRIBUTES_MAX, PREFIX_SEGMENTS_MAX};
use crate::error::{Findings, PolicyCode, PolicyError};
use crate::fields::{self, Fields, Later};
use crate::name::{ATTRIBUTE_SHAPE, NAME_SHAPE, is_attribute_name, is_name};
use crate::tree::{Entry, Node};

use super::limit::{Mode, Names, mode};
use super::too_many;

/// A rule as the document has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// Its name, unique in the document.
    pub name: String,
    /// What a check must have, each attribute once; a rule without any is for every check.
    pub matches: Vec<MatchSpec>,
    /// What the check's own cost is multiplied by; 0 makes its checks peeks.
    pub cost: u64,
    /// The limits that apply, as places in [`super::Document::limits`].
    pub limits: Vec<u32>,
    /// How much it counts.
    pub mode: Mode,
}

/// An attribute, and the values of which it must have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchSpec {
    /// The attribute.
    pub attribute: String,
    /// At least one pattern, each once.
    pub patterns: Vec<Pattern>,
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// The same bytes; for `ip`, the 4 or 16 bytes of the address.
    Equals(Vec<u8>),
    /// Begins with these bytes, which end in `/`: written `prefix/*`. `prefix` itself does not match.
    Under(Vec<u8>),
}

impl MatchSpec {
    fn has(&self, under: bool) -> bool {
        self.patterns.iter().any(|pattern| matches!(pattern, Pattern::Under(_)) == under)
    }
}

impl RuleSpec {
    /// The sets of attributes that the index has to look up for this rule: an attribute with both kinds of pattern is
    /// in two of them, once compared and once (`true`) by prefix.
    pub(crate) fn match_sets(&self) -> Vec<Vec<(&str, bool)>> {
        let mut sets: Vec<Vec<(&str, bool)>> = vec![Vec::new()];
        for it in &self.matches {
            let kinds = [false, true].into_iter().filter(|&under| it.has(under));
            let longer = |under| {
                sets.iter().map(move |set| set.iter().copied().chain([(&*it.attribute, under)]).collect::<Vec<_>>())
            };
            sets = kinds.flat_map(longer).collect();
        }
        sets.iter_mut().for_each(|set| set.sort_unstable());
        sets
    }

    /// How many combinations of values match it.
    pub(crate) fn combinations(&self) -> usize {
        self.matches.iter().fold(1, |product: usize, it| product.saturating_mul(it.patterns.len()))
    }
}

pub(super) const KNOWN: [&str; 5] = ["name", "match", "cost", "limits", "mode"];
pub(super) const LATER: [Later; 5] = [
    ("priority", "priorities"),
    ("charge", "separate charging"),
    ("proof", "ownership without clocks"),
    ("enforce", "enforcement for a share of the keys"),
    ("on_unavailable", "a failure mode per rule; limits have `fail`"),
];

/// Reads the list of rules.
pub(super) fn read_all(
    node: &Node<'_>,
    limits: &Names<'_>,
    bounds: &Bounds,
    findings: &mut Findings,
) -> Option<Vec<RuleSpec>> {
    let items = fields::items(node, "a list of rules", findings)?;
    if items.is_empty() {
        let error = PolicyError::new(node.at, PolicyCode::MissingKey, "there is no rule, so no limit would ever apply");
        findings.push(error.expected("at least one rule; without `rules` every limit applies to every check"));
    }
    if let Some(beyond) = items.get(bounds.rules) {
        findings.push(too_many(beyond.at, format!("there are {} rules", items.len()), bounds.rules));
        return None;
    }
    let mut names = BTreeSet::new();
    let mut combinations = 0usize;
    let mut rules = Some(Vec::with_capacity(items.len()));
    for item in items {
        let rule = read_one(item, limits, &mut names, findings);
        combinations = combinations.saturating_add(rule.as_ref().map_or(0, RuleSpec::combinations));
        if combinations > bounds.combinations {
            let message = "the lists of all rules up to here come to too many combinations".to_owned();
            findings.push(too_many(item.at, message, bounds.combinations));
            return None;
        }
        rules = rules.zip(rule).map(|(rules, rule)| pushed(rules, rule));
    }
    rules
}

fn pushed<T>(mut list: Vec<T>, item: T) -> Vec<T> {
    list.push(item);
    list
}

fn read_one<'t>(
    node: &'t Node<'_>,
    limits: &Names<'_>,
    names: &mut BTreeSet<&'t str>,
    findings: &mut Findings,
) -> Option<RuleSpec> {
    let fields = Fields::of(node, "a rule", &KNOWN, &LATER, findings)?;
    let name = fields.require("name", "the rule's name", findings).and_then(|node| unique_name(node, names, findings));
    let matches = fields.get("match").map_or(Some(Vec::new()), |node| matches(node, findings));
    let cost = fields.get("cost").map_or(Some(1), |node| fields::number(node, "the cost", 0, AMOUNT_MAX, findings));
    let applied = fields
        .require("limits", "a list of limits, `[]` for none", findings)
        .and_then(|node| named_limits(node, limits, findings));
    let mode = mode(&fields, findings);
    Some(RuleSpec { name: name?, matches: matches?, cost: cost?, limits: applied?, mode: mode? })
}

fn unique_name<'t>(node: &'t Node<'_>, names: &mut BTreeSet<&'t str>, findings: &mut Findings) -> Option<String> {
    let name = fields::name(node, "the name of a rule", (is_name, NAME_SHAPE), findings)?;
    if !names.insert(name) {
        findings.push(PolicyError::new(node.at, PolicyCode::Duplicate, format!("two rules are named `{name}`")));
    }
    Some(name.to_owned())
}

fn named_limits(node: &Node<'_>, limits: &Names<'_>, findings: &mut Findings) -> Option<Vec<u32>> {
    let items = fields::items(node, "a list of limits, as in `[per-client]`", findings)?;
    if items.len() > LIMITS_PER_CHECK_MAX {
        findings.push(too_many(node.at, format!("{} limits would apply at once", items.len()), LIMITS_PER_CHECK_MAX));
        return None;
    }
    let mut numbers = Vec::with_capacity(items.len());
    for item in items {
        let name = &*fields::scalar(item, "the name of a limit", findings)?.text;
        match limits.find(name, item.at, findings) {
            None => {}
            Some(number) if numbers.contains(&number) => {
                findings.push(PolicyError::new(item.at, PolicyCode::Duplicate, format!("`{name}` is listed twice")));
            }
            Some(number) => numbers.push(number),
        }
    }
    (numbers.len() == items.len()).then_some(numbers)
}

fn matches(node: &Node<'_>, findings: &mut Findings) -> Option<Vec<MatchSpec>> {
    let entries = fields::entries(node, "attributes and values", findings)?;
    if entries.len() > MATCH_ATTRIBUTES_MAX {
        findings.push(too_many(
            node.at,
            format!("a rule matches on {} attributes", entries.len()),
            MATCH_ATTRIBUTES_MAX,
        ));
        return None;
    }
    let read: Vec<Option<MatchSpec>> = entries.iter().map(|entry| one_match(entry, findings)).collect();
    let matches: Vec<MatchSpec> = read.into_iter().collect::<Option<_>>()?;
    if matches.iter().filter(|it| it.has(true)).count() > 1 {
        let error = PolicyError::new(node.at, PolicyCode::Pattern, "more than one attribute is matched by prefix");
        findings.push(error.expected("`prefix/*` for one attribute of a rule"));
        return None;
    }
    Some(matches)
}

fn one_match(entry: &Entry<'_>, findings: &mut Findings) -> Option<MatchSpec> {
    let shape: (fn(&str) -> bool, &str) = (is_attribute_name, ATTRIBUTE_SHAPE);
    let named = fields::check_name(&entry.key, entry.at, "the name of an attribute", shape, findings);
    let items = fields::one_or_more(&entry.value);
    if items.is_empty() {
        findings.push(
            PolicyError::new(entry.value.at, PolicyCode::Pattern, "an empty list matches nothing").expected("values"),
        );
        return None;
    }
    let mut patterns: Vec<Pattern> = Vec::with_capacity(items.len());
    let mut seen = BTreeSet::new();
    for item in items {
        let pattern = pattern(&entry.key, item, findings)?;
        if !seen.insert(pattern.clone()) {
            findings.push(PolicyError::new(item.at, PolicyCode::Duplicate, "the value is listed twice"));
        }
        patterns.push(pattern);
    }
    named.then(|| MatchSpec { attribute: entry.key.clone().into_owned(), patterns })
}

/// A value of an attribute, or `prefix/*`.
fn pattern(attribute: &str, node: &Node<'_>, findings: &mut Findings) -> Option<Pattern> {
    let text = &*fields::scalar(node, "a value, a list of values, or `prefix/*`", findings)?.text;
    let refusal = match text.strip_suffix('*') {
        Some(prefix) if attribute == IP => no_address(prefix, node),
        Some(prefix) => match check_prefix(attribute, prefix, node) {
            None => return Some(Pattern::Under(prefix.as_bytes().to_vec())),
            Some(error) => error,
        },
        None if attribute == IP => match Address::parse(text) {
            Some(address) => return Some(Pattern::Equals(address.bytes().to_vec())),
            None => no_address(text, node),
        },
        None => match check_value(attribute, text, node) {
            None => return Some(Pattern::Equals(text.as_bytes().to_vec())),
            Some(error) => error,
        },
    };
    findings.push(refusal);
    None
}

fn no_address(text: &str, node: &Node<'_>) -> PolicyError {
    if text.split_once('/').is_some_and(|(address, _)| Address::parse(address).is_some()) {
        let message = "matching a range of addresses is not supported yet";
        return PolicyError::new(node.at, PolicyCode::Unsupported, message).expected("an address");
    }
    PolicyError::new(node.at, PolicyCode::Pattern, "not an address").expected("an IPv4 or IPv6 address")
}

fn check_prefix(attribute: &str, prefix: &str, node: &Node<'_>) -> Option<PolicyError> {
    let wrong = |message: &str, expected: &str| {
        Some(PolicyError::new(node.at, PolicyCode::Pattern, message).expected(expected))
    };
    if prefix.is_empty() {
        return wrong("`*` matches nothing", "a value or `prefix/*`; to match any value, leave the attribute out");
    }
    if !prefix.ends_with('/') {
        return wrong("`*` stands for whole segments", "`prefix/*`");
    }
    if prefix.matches('/').count() > PREFIX_SEGMENTS_MAX {
        return wrong("the prefix has too many segments", &format!("at most {PREFIX_SEGMENTS_MAX}"));
    }
    check_value(attribute, prefix, node)
}

/// A value that no attribute can have is a mistake.
fn check_value(attribute: &str, text: &str, node: &Node<'_>) -> Option<PolicyError> {
    let wrong = |message: &str, expected: &str| {
        Some(PolicyError::new(node.at, PolicyCode::Pattern, message).expected(expected))
    };
    if text.is_empty() {
        return wrong("values are never empty", "a value");
    }
    if text.len() > VALUE_MAX {
        return wrong("values are never that long", &format!("at most {VALUE_MAX} bytes"));
    }
    if text.contains('*') {
        return wrong("`*` stands at the end only", "a value or `prefix/*`");
    }
    if attribute == PATH && text.contains(['?', '#']) {
        return wrong("a path has no query", "a path, which ends before `?`");
    }
    None
}
