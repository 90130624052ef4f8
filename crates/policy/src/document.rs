//! A policy document: one domain, its limits, and the rules that pick them. What [`Document::parse`] returns is whole:
//! every name it mentions exists, every number is within its range, and nothing in the text was ignored.

mod limit;
mod rule;

use crate::bounds::{ATTRIBUTES_NAMED_MAX, Bounds, LIMITS_PER_CHECK_MAX, MATCH_SETS_MAX};
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::{self, Fields, Later, shortened};
use crate::name::{NAME_SHAPE, is_name};
use crate::rate_text;
use crate::tree::{self, Node};

pub use limit::{LimitSpec, Missing, Mode};
pub use rule::{MatchSpec, Pattern, RuleSpec};

/// The policy that `ringfence dev` starts with.
pub const SAMPLE: &str = include_str!("../../../examples/policies/default.yaml");

/// The version of the language that this program reads: `ringfence: 1`.
const VERSION: u128 = 1;

/// How the state of a limit is written into HTTP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// `RateLimit-Policy` and `RateLimit` item lists of the IETF draft; the default.
    Draft10,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`.
    Triple,
    /// `X-RateLimit-*` with the reset as seconds from now.
    XDelta,
    /// `X-RateLimit-*` with the reset as a Unix time.
    XEpoch,
}

/// A policy document, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub(crate) domain: String,
    pub(crate) headers: Vec<Dialect>,
    pub(crate) limits: Vec<LimitSpec>,
    /// `None` without `rules:`: every limit applies to every check.
    pub(crate) rules: Option<Vec<RuleSpec>>,
}

const KNOWN: [&str; 5] = ["ringfence", "domain", "headers", "limits", "rules"];
const LATER: [Later; 4] = [
    ("plans", "rates by plan"),
    ("overrides", "rates for single keys"),
    ("tests", "tests inside the policy"),
    ("inline", "rates that come with the check"),
];

impl Document {
    /// Reads a document in YAML or JSON within the default [`Bounds`].
    ///
    /// # Errors
    ///
    /// All findings, at least one and at most [`crate::error::FINDINGS_MAX`], in the order of the text.
    pub fn parse(text: &str) -> Result<Document, Vec<PolicyError>> {
        Document::parse_within(text, &Bounds::default())
    }

    /// Reads a document within bounds of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`].
    pub fn parse_within(text: &str, bounds: &Bounds) -> Result<Document, Vec<PolicyError>> {
        let root = tree::read(text, bounds)?;
        let mut findings = Findings::default();
        let document = Document::read(&root, bounds, &mut findings);
        match document {
            Some(document) if findings.is_empty() => Ok(document),
            Some(_) | None => Err(findings.into_errors()),
        }
    }

    /// The domain that it is the policy of.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The header dialects to answer in; none for `headers: none`.
    pub fn headers(&self) -> &[Dialect] {
        &self.headers
    }

    /// The limits, in the order of the text.
    pub fn limits(&self) -> &[LimitSpec] {
        &self.limits
    }

    /// The rules, in the order of the text; `None` if there are no `rules:`, so that every limit applies to every check.
    pub fn rules(&self) -> Option<&[RuleSpec]> {
        self.rules.as_deref()
    }

    fn read(root: &Node<'_>, bounds: &Bounds, findings: &mut Findings) -> Option<Document> {
        let fields = Fields::of(root, "a policy", &KNOWN, &LATER, findings)?;
        version(&fields, findings);
        let shape: (fn(&str) -> bool, &str) = (is_name, NAME_SHAPE);
        let domain = fields
            .require("domain", "the name of a domain", findings)
            .and_then(|node| fields::name(node, "the name of a domain", shape, findings));
        let headers = match fields.get("headers") {
            Some(node) => dialects(node, findings),
            None => Some(vec![Dialect::Draft10]),
        };
        let limits = fields
            .require("limits", "a mapping of names to limits", findings)
            .and_then(|node| limit::read_all(node, bounds, findings));
        let names = limit::Names::of(fields.get("limits"));
        let rules = fields.get("rules").map(|node| rule::read_all(node, &names, bounds, findings));
        if rules.is_none() {
            check_limits_per_check(fields.place_of("limits"), names.len(), findings);
        }
        let rules = match rules {
            Some(rules) => Some(rules?),
            None => None,
        };
        let document = Document { domain: domain?.to_owned(), headers: headers?, limits: limits?, rules };
        document.check_attributes(fields.place_of("limits"), fields.place_of("rules"), findings);
        Some(document)
    }

    /// The attributes that limits or rules name, each once, sorted.
    pub(crate) fn attributes(&self) -> Vec<&str> {
        let keys = self.limits.iter().flat_map(|limit| &limit.key);
        let matches = self.rules.iter().flatten().flat_map(|rule| rule.matches.iter().map(|it| &it.attribute));
        let mut names: Vec<&str> = keys.chain(matches).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn check_attributes(&self, limits_at: Position, rules_at: Position, findings: &mut Findings) {
        let named = self.attributes().len();
        if named > ATTRIBUTES_NAMED_MAX {
            let message = format!("limits and rules name {named} different attributes");
            findings.push(too_many(limits_at, message, ATTRIBUTES_NAMED_MAX));
        }
        let mut sets: Vec<Vec<(&str, bool)>> = self.rules.iter().flatten().flat_map(RuleSpec::match_sets).collect();
        sets.sort_unstable();
        sets.dedup();
        if sets.len() > MATCH_SETS_MAX {
            let message = format!("rules match on {} different sets of attributes", sets.len());
            findings.push(too_many(rules_at, message, MATCH_SETS_MAX));
        }
    }
}

fn version(fields: &Fields<'_, '_>, findings: &mut Findings) {
    let expected = "the version of the policy language, `ringfence: 1`";
    let Some(node) = fields.require("ringfence", expected, findings) else { return };
    let Some(scalar) = fields::scalar(node, expected, findings) else { return };
    if scalar.plain && rate_text::whole_number(&scalar.text) == Some(VERSION) {
        return;
    }
    let message = format!("`{}` is no version of the policy language that this program reads", shortened(&scalar.text));
    findings.push(PolicyError::new(node.at, PolicyCode::Version, message).expected("1, without quotes"));
}

/// One word or a list; `none` stands alone.
fn dialects(node: &Node<'_>, findings: &mut Findings) -> Option<Vec<Dialect>> {
    const WORDS: [(&str, Option<Dialect>); 5] = [
        ("draft-10", Some(Dialect::Draft10)),
        ("triple", Some(Dialect::Triple)),
        ("x-delta", Some(Dialect::XDelta)),
        ("x-epoch", Some(Dialect::XEpoch)),
        ("none", None),
    ];
    let items = fields::one_or_more(node);
    let mut dialects = Vec::new();
    for item in items {
        let Some(word) = fields::word(item, "headers", &WORDS, &[], findings) else { continue };
        match word {
            None if items.len() > 1 => findings.push(conflict(item.at, "`none` stands alone")),
            None => {}
            Some(dialect) if dialects.contains(&dialect) => {
                findings.push(PolicyError::new(item.at, PolicyCode::Duplicate, "a header dialect is listed twice"));
            }
            Some(dialect) => dialects.push(dialect),
        }
    }
    if dialects.contains(&Dialect::XDelta) && dialects.contains(&Dialect::XEpoch) {
        findings.push(conflict(node.at, "`x-delta` and `x-epoch` write the same header"));
    }
    if items.is_empty() {
        findings.push(fields::wrong_type(node, "header dialects, or `none`"));
    }
    Some(dialects)
}

/// Without rules all limits apply at once, and a check has so many legs at most.
fn check_limits_per_check(at: Position, limits: usize, findings: &mut Findings) {
    if limits > LIMITS_PER_CHECK_MAX {
        let message = format!("without `rules` all {limits} limits would apply to every check");
        findings.push(too_many(at, message, LIMITS_PER_CHECK_MAX));
    }
}

fn conflict(at: Position, message: &str) -> PolicyError {
    PolicyError::new(at, PolicyCode::Conflict, message)
}

fn too_many(at: Position, message: String, most: usize) -> PolicyError {
    PolicyError::new(at, PolicyCode::TooMany, message).expected(format!("at most {most}"))
}
