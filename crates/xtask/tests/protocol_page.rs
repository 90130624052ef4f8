//! The protocol page names places in the code, judges, seeded mistakes, kinds of faults and scenarios. Whatever it names is
//! there, and every number of the design has its row: a page that people check claims by must not rot.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/protocol.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What stands between backticks on the page, each with the word before it; diagrams are left out.
fn quoted(page: &str) -> Vec<(String, String)> {
    let prose: Vec<&str> = page.split("```").step_by(2).collect();
    let prose = prose.join("\n");
    let parts: Vec<&str> = prose.split('`').collect();
    let word_before = |text: &str| text.split_whitespace().last().unwrap_or_default().to_owned();
    parts.chunks_exact(2).map(|pair| (word_before(pair[0]), pair[1].split_whitespace().collect())).collect()
}

#[derive(Debug, Default)]
struct Named {
    places: Vec<(String, Option<String>)>,
    judges: Vec<String>,
    kinds: Vec<String>,
    bugs: Vec<String>,
    scenarios: Vec<String>,
}

fn named(page: &str) -> Named {
    let mut named = Named::default();
    for (before, text) in quoted(page) {
        let is_path = text.contains('/') && [".rs", ".txt", ".proto"].iter().any(|end| text.contains(end));
        match before.as_str() {
            "sim" if text.chars().nth(1).is_some_and(char::is_lowercase) && text.starts_with(char::is_uppercase) => {
                named.kinds.push(text);
            }
            "sim" => named.judges.push(text),
            "bug" => named.bugs.push(text),
            "chaos" => named.scenarios.push(text),
            _ if is_path => {
                let (path, name) =
                    text.split_once('#').map_or((text.as_str(), None), |(path, name)| (path, Some(name)));
                named.places.push((path.to_owned(), name.map(str::to_owned)));
            }
            _ => {}
        }
    }
    named
}

/// Whether a line of that file defines the name: as an item, or as a variant of an enum.
fn defines(text: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    text.lines().map(str::trim_start).any(|line| {
        let items = ["fn ", "struct ", "enum ", "const ", "trait ", "type ", "mod "];
        let item = |item: &&str| line.split_once(*item);
        let is_item = items.iter().filter_map(item).any(|(before, rest)| {
            let is_head = before
                .split_whitespace()
                .all(|word| ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"].contains(&word));
            is_head && rest.strip_prefix(name).is_some_and(is_end)
        });
        let is_variant = line.strip_prefix(name).is_some_and(|rest| {
            ["", ",", " {", "("].iter().any(|end| if end.is_empty() { rest.is_empty() } else { rest.starts_with(end) })
        }) && name.starts_with(char::is_uppercase);
        is_item || is_variant
    })
}

#[test]
fn every_place_that_the_page_names_is_there() {
    let named = named(&read(PAGE));
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut gone = Vec::new();
    for (path, name) in &named.places {
        if !root().join(path).is_file() {
            gone.push(path.clone());
            continue;
        }
        let text = files.entry(path.clone()).or_insert_with(|| read(path));
        if name.as_ref().is_some_and(|name| !defines(text, name)) {
            gone.push(format!("{path}#{}", name.as_deref().unwrap_or_default()));
        }
    }
    assert!(named.places.len() >= 60, "{} places: the page is read wrongly", named.places.len());
    assert!(gone.is_empty(), "{PAGE} names what is not there: {gone:#?}");
}

#[test]
fn every_judge_mistake_kind_and_scenario_that_the_page_names_is_there() {
    let named = named(&read(PAGE));
    let judges = read("crates/sim/src/oracles/mod.rs");
    let bugs = read("crates/ownership/src/bug.rs");
    let kinds = read("crates/sim/src/world/kind.rs");
    let scenarios = read("chaos/src/scenarios/mod.rs");
    let lacks = |names: &[String], there: &dyn Fn(&str) -> bool| -> Vec<String> {
        names.iter().filter(|name| !there(name)).cloned().collect()
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(lacks(&named.judges, &|name| judges.contains(&format!("name: \"{name}\","))), none, "judges");
    assert_eq!(lacks(&named.bugs, &|name| defines(&bugs, name)), none, "seeded mistakes");
    assert_eq!(lacks(&named.kinds, &|name| defines(&kinds, name)), none, "kinds of faults");
    assert_eq!(lacks(&named.scenarios, &|name| scenarios.contains(&format!("name: \"{name}\""))), none, "scenarios");
    assert!(named.judges.len() >= 20 && named.bugs.len() >= 12 && named.kinds.len() >= 20, "{named:?}");
    assert!(named.scenarios.len() >= 15, "{named:?}");
}

#[test]
fn every_judge_mistake_and_kind_that_exists_is_named_on_the_page() {
    let named = named(&read(PAGE));
    let variants = |path: &str| -> Vec<String> {
        let text = read(path);
        let all = text.split_once("ALL: &[").unwrap().1.split_once("];").unwrap().0;
        all.lines().filter_map(|line| line.trim().split_once("::")).map(|(_, name)| name.replace(',', "")).collect()
    };
    let judges = read("crates/sim/src/oracles/mod.rs");
    let judges: Vec<String> = judges
        .split_once("const JUDGES")
        .unwrap()
        .1
        .lines()
        .filter_map(|line| Some(line.split_once("name: \"")?.1.split_once('"')?.0.to_owned()))
        .collect();
    let missing = |all: Vec<String>, on_page: &[String]| -> Vec<String> {
        assert!(all.len() >= 12, "read wrongly: {all:?}");
        all.into_iter().filter(|name| !on_page.contains(name)).collect()
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(missing(variants("crates/ownership/src/bug.rs"), &named.bugs), none, "mistakes without a row");
    assert_eq!(missing(variants("crates/sim/src/world/kind.rs"), &named.kinds), none, "kinds of faults without a row");
    assert_eq!(missing(judges, &named.judges), none, "judges without a row");
}

#[test]
fn every_number_of_the_design_has_one_row() {
    let page = read(PAGE);
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .map(|(first, _)| first)
        .filter(|first| first.chars().any(|letter| letter.is_ascii_digit()) && first.len() <= 3)
        .collect();
    let invariants = (1..=17).map(|number| format!("S{number}")).chain((1..=5).map(|number| format!("L{number}")));
    let events = (1..=29).flat_map(|number| match number {
        8 | 9 | 11 => vec![number.to_string(), format!("{number}b")],
        _ => vec![number.to_string()],
    });
    let all: Vec<String> = invariants.chain(events).collect();
    assert_eq!(rows, all);
}

#[test]
fn names_are_found_where_they_are_defined_and_nowhere_else() {
    let text = "    pub(crate) const fn one(&self) {}\npub struct Two;\nenum Three {\n    Four,\n    Five { of: u8 },\n}\n// fn six\nlet fn_seven = 1;\n";
    assert!(["one", "Two", "Three", "Four", "Five"].iter().all(|name| defines(text, name)));
    assert!(["on", "two", "Fou", "six", "seven", "of"].iter().all(|name| !defines(text, name)));
}
