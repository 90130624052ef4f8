//! Golden transcripts: each file of `tests/golden` begins with a script in our words, and goes on with everything that
//! happened when the simulator played it. The script is read, played again in every run and compared line by line, so
//! whoever changes what nodes do sees it here, and it is reviewed like code. With `RINGFENCE_WRITE_GOLDEN=1` in the
//! environment the transcripts are written anew instead.

#![allow(clippy::unwrap_used, reason = "tests")]

mod script;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sim::oracles;
use sim::world::play;
use sim::world::trace::{Entry, Event};

use crate::script::Script;

/// Where the script ends and the transcript begins.
const RULER: &str = "----\n";

/// Lines of a transcript at most: one that is longer is not read.
const LINES_MAX: usize = 260;

#[test]
fn a_steady_cluster() {
    holds("steady");
}

#[test]
fn an_owner_dies_and_another_takes_over() {
    holds("takeover");
}

#[test]
fn an_owner_is_cut_off() {
    holds("partition");
}

#[test]
fn the_leader_dies_and_nobody_loses_a_lease() {
    holds("leader-loss");
}

#[test]
fn a_process_starts_anew_in_place() {
    holds("restart-in-place");
}

#[test]
fn a_policy_changes_while_it_is_used() {
    holds("policy-change");
}

#[test]
fn an_owner_dies_and_its_store_too_and_an_operator_vouches_for_that() {
    holds("store-vouched-for");
}

#[test]
fn an_owner_dies_and_a_store_has_what_it_used() {
    holds("store-takeover");
}

#[test]
fn a_process_starts_anew_in_place_and_its_store_was_out_of_reach() {
    holds("store-restart-in-place");
}

#[test]
fn a_store_fails_over_and_back_and_an_owner_dies() {
    holds("store-failover-and-back");
}

#[test]
fn an_owner_leaves_as_planned() {
    holds("planned-exit");
}

#[test]
fn every_file_is_played() {
    let here = include_str!("main.rs");
    for file in files().iter().filter(|file| file.extension().is_some_and(|extension| extension == "txt")) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(here.contains(&format!("    holds(\"{name}\");")), "nobody plays {}", file.display());
    }
}

/// Plays the script of that name, and compares what happens with what is written below it.
fn holds(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let written = read(&path);
    let (text, before) = written.split_once(RULER).unwrap_or_else(|| panic!("{}: no {RULER:?}", path.display()));
    let script = Script::parse(text).unwrap_or_else(|mistake| panic!("{}: {mistake}", path.display()));
    let after = transcript(&script);
    assert!(after.lines().count() <= LINES_MAX, "{name} has {} lines: nobody reads that", after.lines().count());
    if is_asked_to_write() {
        return write(&path, &format!("{text}{RULER}{after}"));
    }
    if let Some((line, (was, is))) = first_difference(before, &after) {
        panic!(
            "{}: line {line} of the transcript was\n  {was}\nand is now\n  {is}\nIf that is right: \
             RINGFENCE_WRITE_GOLDEN=1 cargo test -p ringfence-sim --test golden, and read what it changes.",
            path.display()
        );
    }
}

fn transcript(script: &Script) -> String {
    let run = play(&script.scenario);
    oracles::judge(&script.scenario, &run).unwrap_or_else(|failure| panic!("{failure:?}"));
    let told = run.trace.iter().filter(|entry| script.tells_all || !is_detail(entry));
    let mut transcript = String::new();
    told.for_each(|entry| writeln!(transcript, "{entry}").unwrap());
    transcript
}

/// Whether it is one of the many steps of renewing a lease, or of an entry of the log that is told anyhow. The story of a
/// steady cluster tells them; elsewhere they would bury what it is about.
fn is_detail(entry: &Entry) -> bool {
    matches!(entry.event, Event::Granted { .. } | Event::Extended { .. } | Event::Appointed { .. })
}

fn first_difference<'a>(before: &'a str, after: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let longest = before.lines().count().max(after.lines().count());
    let padded = |text: &'a str| text.lines().chain(std::iter::repeat("(nothing)")).take(longest);
    padded(before).zip(padded(after)).enumerate().find(|(_, (was, is))| was != is).map(|(at, both)| (at + 1, both))
}

#[test]
fn the_first_line_that_differs_is_found() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, ("b", "c"))));
    assert_eq!(first_difference("a\n", "a\nb\n"), Some((2, ("(nothing)", "b"))));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

#[allow(clippy::disallowed_methods, reason = "transcripts are files; only their test reads and writes them")]
fn files() -> Vec<PathBuf> {
    std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[allow(clippy::disallowed_methods, reason = "transcripts are files; only their test reads and writes them")]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[allow(clippy::disallowed_methods, reason = "transcripts are files; only their test reads and writes them")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[allow(clippy::disallowed_methods, reason = "whether to write is whoever runs the tests to say")]
fn is_asked_to_write() -> bool {
    std::env::var("RINGFENCE_WRITE_GOLDEN").is_ok_and(|value| value == "1")
}
