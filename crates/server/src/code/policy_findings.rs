//! The codes of findings in a policy document, as they stand in the `errors` of a `policy-invalid` answer and in what
//! `ringfence policy validate` prints. Whoever wrote the document mends all of them; nothing changes before.

use policy::PolicyCode;

/// One kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct PolicyFinding {
    /// Its code.
    pub code: PolicyCode,
    /// What it says.
    pub what: &'static str,
}

const fn finding(code: PolicyCode, what: &'static str) -> PolicyFinding {
    PolicyFinding { code, what }
}

const FINDINGS: [PolicyFinding; 20] = [
    finding(PolicyCode::Syntax, "The text is not YAML, nor JSON."),
    finding(PolicyCode::TooLarge, "The document is larger than 256 KiB. Split it into domains."),
    finding(PolicyCode::TooDeep, "Lists and mappings are nested deeper than any policy needs."),
    finding(
        PolicyCode::YamlFeature,
        "Valid YAML that a policy does not use: anchors, aliases, tags, directives, several documents in one file.",
    ),
    finding(PolicyCode::DuplicateKey, "A key stands twice in one mapping."),
    finding(PolicyCode::UnknownKey, "A key that the language does not have; the nearest one is suggested."),
    finding(PolicyCode::MissingKey, "A key that has to be there is not."),
    finding(PolicyCode::WrongType, "A list where a mapping was expected, a mapping where a number was, and so on."),
    finding(PolicyCode::Version, "`ringfence:` names a version of the language that this program does not read."),
    finding(PolicyCode::Name, "A name of a domain, limit, rule or attribute is not spelt as names are."),
    finding(PolicyCode::Word, "A word that is none of those that may stand there."),
    finding(PolicyCode::Range, "A number outside its range."),
    finding(PolicyCode::Rate, "A rate cannot be read; rates look like `10/s`, `100/min`, `1000/h`."),
    finding(PolicyCode::Conflict, "Two settings that do not go together."),
    finding(PolicyCode::Duplicate, "A name, value or limit is listed twice."),
    finding(PolicyCode::UnknownLimit, "A rule names a limit that the document does not have."),
    finding(PolicyCode::Route, "A limit is routed by an attribute that is not part of its key."),
    finding(
        PolicyCode::Pattern,
        "A value to match that no attribute can have, or a pattern of a kind that there is not.",
    ),
    finding(PolicyCode::TooMany, "More of something than a document may have."),
    finding(
        PolicyCode::Unsupported,
        "A part of the language that this version does not have yet. It is never ignored.",
    ),
];

/// Every kind of finding, in the order of the page.
pub const fn policy_findings() -> &'static [PolicyFinding] {
    &FINDINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new code of the language does not compile until it has a place here, and then the test asks for its row.
    const fn row(code: PolicyCode) -> usize {
        match code {
            PolicyCode::Syntax => 0,
            PolicyCode::TooLarge => 1,
            PolicyCode::TooDeep => 2,
            PolicyCode::YamlFeature => 3,
            PolicyCode::DuplicateKey => 4,
            PolicyCode::UnknownKey => 5,
            PolicyCode::MissingKey => 6,
            PolicyCode::WrongType => 7,
            PolicyCode::Version => 8,
            PolicyCode::Name => 9,
            PolicyCode::Word => 10,
            PolicyCode::Range => 11,
            PolicyCode::Rate => 12,
            PolicyCode::Conflict => 13,
            PolicyCode::Duplicate => 14,
            PolicyCode::UnknownLimit => 15,
            PolicyCode::Route => 16,
            PolicyCode::Pattern => 17,
            PolicyCode::TooMany => 18,
            PolicyCode::Unsupported => 19,
        }
    }

    #[test]
    fn every_finding_stands_in_its_own_row() {
        for (index, finding) in policy_findings().iter().enumerate() {
            assert_eq!(row(finding.code), index, "{}", finding.code);
            assert!(finding.code.as_str().starts_with("policy-"));
        }
    }
}
