//! The conformance table, against the slow exact twin and against the engine. Both print how many cases they hold, and
//! which they cannot express.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sim::conformance::case::Expect;
use sim::conformance::{Case, Ending, Engine, Exact, Report, cases, run};

/// The table's home.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

#[allow(clippy::disallowed_methods, reason = "the table is files; only its test reads them")]
fn table() -> Vec<Case> {
    let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        cases(&text).unwrap_or_else(|mistake| panic!("{}: {mistake}", file.display()))
    };
    files.iter().flat_map(read).collect()
}

fn held(report: Report) -> Report {
    println!("{report}");
    assert!(report.holds(), "{report}");
    report
}

#[test]
fn the_twin_holds_every_case_that_it_can_express() {
    let table = table();
    let report = held(run(&table.iter().collect::<Vec<_>>(), &mut Exact::new()));
    assert!(report.held() >= 180, "{report}");
}

#[test]
fn the_engine_holds_every_case_that_it_can_express() {
    let table = table();
    let report = held(run(&table.iter().collect::<Vec<_>>(), &mut Engine::new()));
    assert!(report.held() >= 190, "{report}");
}

/// The table with one thing in one call told wrongly; `None` where the call does not say it.
fn spoilt(case: &Case, call: usize, spoil: Spoil) -> Option<Case> {
    let mut case = case.clone();
    spoil(&mut case.calls[call].expect)?;
    Some(case)
}

/// Tells one thing wrongly, where it is told.
type Spoil = fn(&mut Expect) -> Option<()>;

const SPOILS: [(&str, Spoil); 8] = [
    ("allowed", |expect| expect.allowed.as_mut().map(|allowed| *allowed = !*allowed)),
    ("admits", |expect| expect.admits.as_mut().map(|admits| *admits += 1)),
    ("remaining", |expect| expect.remaining.as_mut().map(|remaining| *remaining += 1)),
    ("retry_after_ms", |expect| expect.retry_after_ms.as_mut().map(|wait| *wait += 1)),
    ("reset_after_ms", |expect| expect.reset_after_ms.as_mut().map(|reset| *reset += 1)),
    ("reason", |expect| expect.reason.as_mut().map(|reason| reason.push('x'))),
    ("limit", |expect| expect.limit.as_mut().map(|limit| limit.push('x'))),
    ("units", |expect| expect.units.as_mut().map(|units| *units += 1)),
];

#[test]
fn every_number_of_the_table_is_compared() {
    let table = table();
    let expressed = run(&table.iter().collect::<Vec<_>>(), &mut Engine::new());
    let mut spoils = 0;
    for (case, (id, ending)) in table.iter().zip(expressed.endings()) {
        if *ending != Ending::Held {
            continue;
        }
        let calls = (0..case.calls.len()).flat_map(|call| SPOILS.map(|(what, spoil)| (call, what, spoil)));
        for (call, what, spoil) in calls {
            let Some(wrong) = spoilt(case, call, spoil) else { continue };
            assert!(!run(&[&wrong], &mut Engine::new()).holds(), "{id}, call {call}: nobody compares {what}");
            spoils += 1;
        }
    }
    assert!(spoils > 2_000, "{spoils}");
}

#[test]
fn every_case_has_an_id_and_a_domain_of_its_own() {
    let table = table();
    let domains: BTreeSet<_> = table.iter().map(Case::domain).collect();
    assert_eq!(domains.len(), table.len());
}
