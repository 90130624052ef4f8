//! A policy document: one domain, its limits, and the rules that pick them. What [`Document::parse`] returns is whole:
//! every name it mentions exists, every number is within its range, and nothing in the text was ignored.

mod brought;
mod inline;
mod limit;
mod numbers;
mod overrides;
mod plan;
mod rule;
mod variants;

use crate::address::IpPrefixes;
use crate::attributes::PLAN;
use crate::bounds::{ATTRIBUTES_NAMED_MAX, Bounds, IP_PREFIXES_MAX, LIMITS_PER_CHECK_MAX, MATCH_SETS_MAX};
use crate::error::{Findings, PolicyCode, PolicyError, Position};
use crate::fields::{self, Fields, Later, shortened};
use crate::inline::{Inline, InlineLimit, InlineRefusal};
use crate::name::{NAME_SHAPE, is_name};
use crate::rate_text;
use crate::tree::{self, Node};

use limit::Names;
use variants::Variants;

pub use limit::{LimitSpec, Missing, Mode};
pub use numbers::Numbers;
pub use overrides::OverrideSpec;
pub use plan::{PLAN_DEFAULT, PlanSpec};
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
    pub(crate) plans: Vec<PlanSpec>,
    pub(crate) overrides: Vec<OverrideSpec>,
    pub(crate) inline: Option<Inline>,
    /// What checks brought along; the last of `limits`.
    pub(crate) brought: Vec<InlineLimit>,
    /// What they brought along and does not fit, by name.
    pub(crate) left_out: Vec<(String, InlineRefusal)>,
    /// `None` without `rules:`: every limit applies to every check.
    pub(crate) rules: Option<Vec<RuleSpec>>,
}

const KNOWN: [&str; 8] = ["ringfence", "domain", "headers", "inline", "plans", "limits", "rules", "overrides"];
const LATER: [Later; 1] = [("tests", "tests inside the policy")];

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

    /// The plans, in the order of the text.
    pub fn plans(&self) -> &[PlanSpec] {
        &self.plans
    }

    /// The overrides, in the order of the text.
    pub fn overrides(&self) -> &[OverrideSpec] {
        &self.overrides
    }

    /// Whether rates may come with the check, and which.
    pub fn inline(&self) -> Option<&Inline> {
        self.inline.as_ref()
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
        let inline = optional(fields.get("inline"), |node| inline::read(node, findings));
        let limits = fields
            .require("limits", "a mapping of names to limits", findings)
            .and_then(|node| limit::read_all(node, bounds, findings));
        let names = Names::of(fields.get("limits"));
        let rates = read_rates(&fields, &names, limits.as_deref(), bounds, findings);
        let rules = optional(fields.get("rules"), |node| rule::read_all(node, &names, bounds, findings));
        if fields.get("rules").is_none() {
            check_limits_per_check(fields.place_of("limits"), names.len(), findings);
        }
        let (domain, (plans, overrides)) = (domain?.to_owned(), rates?);
        let (headers, limits, inline, rules) = (headers?, limits?, inline?, rules?);
        let document = Document {
            domain,
            headers,
            limits,
            plans,
            overrides,
            inline,
            brought: Vec::new(),
            left_out: Vec::new(),
            rules,
        };
        document.check_attributes(fields.place_of("limits"), fields.place_of("rules"), findings);
        Some(document)
    }

    /// The attributes that limits or rules name, each once, sorted.
    pub(crate) fn attributes(&self) -> Vec<&str> {
        let keys = self.limits.iter().flat_map(|limit| &limit.key);
        let matches = self.rules.iter().flatten().flat_map(|rule| rule.matches.iter().map(|it| &it.attribute));
        let plan = self.limits.iter().any(|limit| limit.numbers.is_none()).then_some(PLAN);
        let mut names: Vec<&str> = keys.chain(matches).map(String::as_str).chain(plan).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The pairs of prefixes that limits on `ip` count by, each once, sorted.
    pub(crate) fn prefixes(&self) -> Vec<IpPrefixes> {
        let by_ip = self.limits.iter().filter(|limit| limit.key.iter().any(|name| name == crate::attributes::IP));
        let mut prefixes: Vec<IpPrefixes> = by_ip.map(|limit| limit.prefixes).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes
    }

    fn check_attributes(&self, limits_at: Position, rules_at: Position, findings: &mut Findings) {
        let named = self.attributes().len();
        if named > ATTRIBUTES_NAMED_MAX {
            let message = format!("limits and rules name {named} different attributes");
            findings.push(too_many(limits_at, message, ATTRIBUTES_NAMED_MAX));
        }
        let prefixes = self.prefixes().len();
        if prefixes > IP_PREFIXES_MAX {
            let message = format!("limits count addresses by {prefixes} different pairs of prefixes");
            findings.push(too_many(limits_at, message, IP_PREFIXES_MAX));
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

/// `None` if a part is there and could not be read.
fn optional<'t, 's, T>(node: Option<&'t Node<'s>>, read: impl FnOnce(&'t Node<'s>) -> Option<T>) -> Option<Option<T>> {
    match node {
        None => Some(None),
        Some(node) => read(node).map(Some),
    }
}

/// The numbers that limits have not of their own: plans and overrides.
fn read_rates(
    fields: &Fields<'_, '_>,
    names: &Names<'_>,
    limits: Option<&[LimitSpec]>,
    bounds: &Bounds,
    findings: &mut Findings,
) -> Option<(Vec<PlanSpec>, Vec<OverrideSpec>)> {
    let mut variants = Variants::default();
    let plans =
        optional(fields.get("plans"), |node| plan::read_all(node, names, limits, bounds, &mut variants, findings));
    let overrides = optional(fields.get("overrides"), |node| {
        overrides::read_all(node, names, limits, bounds, &mut variants, findings)
    });
    let plans = plans?.unwrap_or_default();
    plan::check_limits(&plans, limits?, names, findings);
    Some((plans, overrides?.unwrap_or_default()))
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

#[cfg(test)]
mod page;
