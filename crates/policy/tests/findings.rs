//! Bad documents and exactly what is said about them: `golden/findings.txt` holds each document between `===` and `>>>`,
//! and after it the findings as people see them. `BLESS=1 cargo test -p ringfence-policy --test findings` rewrites them.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the golden file is rewritten on demand")]

use proptest::prelude::*;
use ringfence_policy::{Document, PolicyCode, PolicyError};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/findings.txt");

#[test]
fn each_bad_document_is_explained_as_written_down() {
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    let explained: String = golden.split("=== ").skip(1).map(explained).collect();
    let explained = golden.split("=== ").next().unwrap().to_owned() + &explained;
    if std::env::var("BLESS").is_ok() {
        return std::fs::write(GOLDEN, &explained).unwrap();
    }
    for (written, now) in golden.split("=== ").zip(explained.split("=== ")) {
        assert_eq!(written, now);
    }
}

/// A case with its findings made anew.
fn explained(case: &str) -> String {
    let (head, _) = case.split_once("\n>>>\n").unwrap();
    let (title, text) = head.split_once('\n').unwrap();
    let findings = match Document::parse(text) {
        Ok(document) => format!("no finding in {document:#?}\n"),
        Err(errors) => errors.iter().map(|error| error.render("policy.yaml", text)).collect(),
    };
    format!("=== {title}\n{text}\n>>>\n{findings}\n")
}

/// Each code stands in the golden file, so none is made up and none is untested.
#[test]
fn every_code_is_met() {
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    let elsewhere = [PolicyCode::TooLarge];
    for code in PolicyCode::ALL.into_iter().filter(|code| !elsewhere.contains(code)) {
        assert!(golden.contains(&format!("[{code}]")), "{code}");
    }
}

/// A document with a number of limits and a rule per limit.
fn document(limits: usize, rules: usize) -> String {
    let mut text = "ringfence: 1\ndomain: d\nlimits:\n".to_owned();
    (0..limits).for_each(|n| text += &format!(" l{n}: {{rate: 1/s,key: [a]}}\n"));
    text += "rules:\n";
    (0..rules).for_each(|n| text += &format!("- {{name: r{n},match: {{p: a{n}}},limits: [l0]}}\n"));
    text
}

fn codes(errors: &[PolicyError]) -> Vec<PolicyCode> {
    errors.iter().map(|error| error.code).collect()
}

#[test]
fn what_the_bounds_say_fits_does_fit() {
    assert!(Document::parse(&document(8_000, 1)).is_ok());
    assert!(Document::parse(&document(1, 4_000)).is_ok());
    let too_large = Document::parse(&document(10_000, 1)).unwrap_err();
    assert_eq!(codes(&too_large), [PolicyCode::TooLarge]);
}

#[test]
fn the_bounds_are_those_of_the_caller() {
    let bounds = ringfence_policy::Bounds { bytes: 1 << 20, limits: 9_000, ..ringfence_policy::Bounds::default() };
    let errors = Document::parse_within(&document(9_001, 1), &bounds).unwrap_err();
    assert_eq!(codes(&errors), [PolicyCode::TooMany]);
    assert_eq!(errors[0].line, 9_004);
    assert!(Document::parse_within(&document(9_000, 1), &bounds).is_ok());
}

#[test]
fn a_document_full_of_mistakes_says_twenty_and_takes_no_time() {
    let text = document(5_000, 2_000).replace("limits: [l0]", "limits: [ll1]");
    let bounds = ringfence_policy::Bounds { bytes: 1 << 20, ..ringfence_policy::Bounds::default() };
    let errors = Document::parse_within(&text, &bounds).unwrap_err();
    assert_eq!(codes(&errors), vec![PolicyCode::UnknownLimit; 20]);
    assert_eq!(errors[0].suggestion.as_deref(), Some("`l1`"));
}

#[test]
fn lists_that_multiply_are_bounded() {
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let list = values.join(",");
    let text = format!(
        "ringfence: 1\ndomain: d\nlimits: {{l: {{rate: 1/s,key: []}}}}\nrules:\n\
         - {{name: r,match: {{a: [{list}],b: [{list}],c: [{list}],d: [{list}]}},limits: [l]}}\n"
    );
    assert_eq!(codes(&Document::parse(&text).unwrap_err()), [PolicyCode::TooMany]);
}

/// Pieces of the language, so that chance gets far into the reader.
fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "ringfence",
        "domain",
        "limits",
        "rules",
        "rate",
        "key",
        "fail",
        "match",
        "cost",
        "name",
        "route",
        "algorithm",
        "1",
        "10/s",
        "burst",
        "20%",
        "sliding-log",
        "concurrency",
        "slots",
        "ttl",
        "max_hold",
        "plans",
        "$plan",
        "overrides",
        "until",
        "inline",
        "/day calendar",
        "UTC",
        "[",
        "]",
        "{",
        "}",
        ": ",
        ":",
        ", ",
        ",",
        "\n",
        "\n  ",
        "- ",
        "'",
        "\"",
        "&a",
        "*a",
        "!t",
        "---",
        "#",
        "|",
        ">",
        "?",
        "~",
        "\t",
        "é",
        "\u{feff}",
        "a",
        "open",
        "emergency",
        "/*",
        "::1",
        "%",
        "\\",
        "_",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..60).prop_map(|pieces| pieces.concat())
}

const GOOD: [&str; 2] =
    [include_str!("../../../examples/policies/payments.yaml"), include_str!("../../../examples/policies/plans.yaml")];

/// A good document with a few characters replaced, doubled or left out.
fn nearly_good() -> impl Strategy<Value = String> {
    let change = (
        0..GOOD[0].chars().count(),
        0..3u8,
        proptest::sample::select("{}[]:,- \n'\"*&!/%#m0é".chars().collect::<Vec<_>>()),
    );
    (proptest::sample::select(GOOD.to_vec()), proptest::collection::vec(change, 1..6)).prop_map(|(good, changes)| {
        let mut text: Vec<char> = good.chars().collect();
        for (at, kind, new) in changes {
            let at = at.min(text.len() - 1);
            match kind {
                0 => text[at] = new,
                1 => text.insert(at, new),
                _ => drop(text.remove(at)),
            }
        }
        text.into_iter().collect()
    })
}

/// Every finding can be shown, and points into the text or just behind it.
fn check_findings(text: &str) -> Result<(), TestCaseError> {
    let Err(errors) = Document::parse(text) else { return Ok(()) };
    prop_assert!(!errors.is_empty() && errors.len() <= ringfence_policy::error::FINDINGS_MAX);
    for error in errors {
        prop_assert!(error.line >= 1 && error.line as usize <= text.lines().count() + 1, "{error}");
        prop_assert!(error.column >= 1, "{error}");
        prop_assert!(error.render("p", text).ends_with('\n'));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn any_text_is_a_document_or_has_findings(text in "\\PC*") {
        check_findings(&text)?;
    }

    #[test]
    fn pieces_of_the_language_in_any_order_are_a_document_or_have_findings(text in soup()) {
        check_findings(&text)?;
    }

    #[test]
    fn a_good_document_with_typing_errors_is_a_document_or_has_findings(text in nearly_good()) {
        check_findings(&text)?;
    }
}

#[test]
fn the_examples_are_good() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let rendered = |errors: Vec<PolicyError>| {
            errors.iter().map(|it| it.render(&path.display().to_string(), &text)).collect::<String>()
        };
        Document::parse(&text).map_err(rendered).unwrap();
        read += 1;
    }
    assert!(read >= 4, "the examples were found");
}

#[test]
fn the_same_document_in_json_is_the_same() {
    let yaml = "ringfence: 1\ndomain: d\nlimits:\n  a: { rate: 10/s burst 20, key: [client] }\nrules:\n  - { name: r, match: { path: /v1/* }, cost: 2, limits: [a] }\n";
    let json = r#"{"ringfence":1,"domain":"d","limits":{"a":{"rate":"10/s burst 20","key":["client"]}},
                   "rules":[{"name":"r","match":{"path":"/v1/*"},"cost":2,"limits":["a"]}]}"#;
    assert_eq!(Document::parse(json), Document::parse(yaml));
    assert!(Document::parse(yaml).is_ok());
}
