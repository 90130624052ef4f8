//! docs/api.md is written by hand and held to the program: every route, every field that a call takes, and every field
//! that an answer has are on it, each in its place. Its examples are asked again by the cluster tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use crate::body::{CameTo, CameToBody, DecisionBody, LimitBody};
use crate::call::Call;

const PAGE: &str = include_str!("../../../docs/api.md");

/// Where the routes are.
const SERVE: &str = include_str!("serve.rs");

/// The section under this heading, without those of other calls.
fn section(heading: &str) -> &'static str {
    let start = format!("\n## {heading}\n");
    let from = PAGE.find(&start).unwrap_or_else(|| panic!("docs/api.md has no section {heading}")) + start.len();
    let end = PAGE[from..].find("\n## ").map_or(PAGE.len(), |length| from + length);
    &PAGE[from..end]
}

/// The words in backticks in the first column of a section's tables.
fn documented(section: &'static str) -> Vec<&'static str> {
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_call_has_a_section_with_the_fields_that_it_takes_and_no_others() {
    for call in Call::ALL {
        let mut takes: Vec<_> = call.takes().iter().map(|field| field.as_str()).collect();
        let mut told = documented(section(&format!("POST {}", call.path())));
        takes.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, takes, "{}", call.path());
        let row = format!("[`POST {}`]", call.path());
        let listed = PAGE.lines().find(|line| line.contains(&row)).unwrap_or_default();
        assert!(listed.ends_with(&format!("| `{}` |", call.scope())), "{row} needs its scope: {listed}");
    }
}

#[test]
fn every_route_is_on_the_page() {
    let literals = SERVE.split('"').skip(1).step_by(2);
    let routes: Vec<_> =
        literals.filter(|text| text.starts_with("/v1/") || text.ends_with("yz") || *text == "/metrics").collect();
    assert!(routes.len() > 8, "{routes:?}");
    for route in routes {
        assert!(["GET", "POST", "PUT"].iter().any(|method| PAGE.contains(&format!("`{method} {route}`"))), "{route}");
    }
}

fn leg() -> LimitBody<'static> {
    LimitBody {
        limit: "",
        allowed: true,
        capacity: None,
        remaining: None,
        retry_after_ms: None,
        reset_after_ms: None,
        reason: "",
        source: "",
        owner: None,
        epoch: None,
        mode: "",
    }
}

fn decision() -> DecisionBody<'static> {
    DecisionBody {
        allowed: true,
        id: String::new(),
        domain: "",
        cost: 1,
        granted: Some(1),
        expires_after_ms: Some(1),
        limit: None,
        remaining: None,
        retry_after_ms: None,
        reset_after_ms: None,
        reason: "",
        source: "",
        degraded: false,
        owner: None,
        epoch: None,
        revision: 1,
        replayed: true,
        limits: vec![leg()],
    }
}

fn came_to(came_to: CameTo) -> Value {
    json!(CameToBody { id: Some(""), domain: "", came_to, reason: "", revision: 1, replayed: true, limits: Vec::new() })
}

fn names(value: &Value) -> Vec<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_field_of_every_answer_is_on_the_page() {
    let decisions = section("Decisions");
    let told = documented(decisions);
    for name in names(&json!(decision())) {
        assert!(told.contains(&name.as_str()), "{name} is not in {told:?}");
    }
    for name in names(&json!(leg())) {
        assert!(decisions.contains(&format!("`{name}`")), "{name}");
    }
    for (call, answer) in [
        (Call::Settle, CameTo::Settle { settled: true, refunded: 1 }),
        (Call::Renew, CameTo::Renew { renewed: true, expires_after_ms: 1 }),
        (Call::Release, CameTo::Release { released: true }),
        (Call::Refund, CameTo::Refund { found: true, refunded: 1 }),
        (Call::Reset, CameTo::Reset { reset: 1 }),
    ] {
        let own = section(&format!("POST {}", call.path()));
        for name in names(&came_to(answer)) {
            assert!(told.contains(&name.as_str()) || own.contains(&format!("`{name}`")), "{name} of {}", call.word());
        }
        let words = names(&json!(answer));
        assert!(words.iter().all(|word| own.contains(&format!("`{word}`"))), "{words:?} of {}", call.word());
    }
}
