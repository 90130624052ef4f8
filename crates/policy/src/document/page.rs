//! docs/policy.md against the reader: its examples are policies, and what the reader knows is on the page.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Document, KNOWN, LATER, inline, limit, overrides, rule};

const PAGE: &str = include_str!("../../../../docs/policy.md");

/// The blocks of YAML, with the first two lines where they leave them out.
fn examples() -> Vec<String> {
    let blocks = PAGE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|text| if text.starts_with("ringfence:") { text.to_owned() } else { completed(text) }).collect()
}

fn completed(text: &str) -> String {
    format!("ringfence: 1\ndomain: d\n{text}")
}

#[test]
fn every_example_is_a_policy() {
    let examples = examples();
    assert!(examples.len() >= 8, "the examples were found");
    for text in examples {
        let rendered =
            |errors: Vec<crate::PolicyError>| errors.iter().map(|it| it.render("policy.md", &text)).collect();
        Document::parse(&text).map_err(rendered).unwrap_or_else(|said: String| panic!("{said}"));
    }
}

#[test]
fn every_key_that_the_reader_knows_is_on_the_page_and_in_an_example() {
    let lists: [&[&str]; 6] =
        [&KNOWN, &limit::KNOWN, &limit::FAIL_KNOWN, &rule::KNOWN, &overrides::KNOWN, &inline::KNOWN];
    let examples = examples().concat();
    // Two keys have nothing to say in an example: a limit's old name, and the only proof there is.
    let without_example = ["renamed_from", "proof", "headers", "ipv4_prefix"];
    for key in lists.into_iter().flatten() {
        let told = PAGE.contains(&format!("`{key}`")) || PAGE.contains(&format!("{key}: "));
        assert!(told, "`{key}` is not on the page");
        assert!(examples.contains(&format!("{key}:")) || without_example.contains(key), "no example has `{key}`");
    }
}

#[test]
fn every_key_that_comes_later_is_told_so() {
    let later = PAGE.split("## What is not there yet").nth(1).unwrap().split("##").next().unwrap();
    for (key, _) in LATER.iter().chain(&limit::LATER).chain(&rule::LATER).chain(&overrides::LATER) {
        assert!(later.contains(&format!("`{key}`")), "`{key}`");
    }
}

#[test]
fn every_word_and_every_code_is_on_the_page() {
    let words = ["token-bucket", "sliding-log", "fixed-window", "sliding-counter", "calendar", "concurrency"];
    let others = ["epoch", "first", "hashed", "deny", "skip", "anonymous", "enforce", "shadow", "off", "draft-10"];
    for word in words.into_iter().chain(others).chain(["triple", "x-delta", "x-epoch", "none", "open", "closed"]) {
        assert!(PAGE.contains(&format!("`{word}`")), "{word}");
    }
    for code in crate::PolicyCode::ALL {
        assert!(PAGE.contains(&format!("`{code}`")), "{code}");
    }
}
