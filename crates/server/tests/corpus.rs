//! The fuzzer's targets over its corpus, on stable Rust: what is known to be good is acted on, what is known to be wrong is
//! refused, and nothing of either panics. What the fuzzer has found once is a file there, and never comes back unseen.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

extern crate ringfence_server as server;

#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use std::path::{Path, PathBuf};

// The targets' own; what this package asks for is looked for in its own folder.
use prost as _;
use targets::{TARGETS, Target};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// What lies in a folder, by name.
fn listed(folder: &Path) -> Vec<(String, PathBuf)> {
    let found = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = found.map(|file| file.unwrap().path());
    let mut listed: Vec<_> =
        paths.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path)).collect();
    listed.sort();
    listed
}

#[test]
fn what_is_good_is_acted_on_and_what_is_wrong_is_refused() {
    for Target { name, run } in &TARGETS {
        let (mut good, mut wrong) = (0, 0);
        for (file, path) in listed(&corpus().join(name)) {
            let acted_on = run(&std::fs::read(&path).unwrap());
            if file.starts_with("ok-") {
                assert!(acted_on, "{name}/{file} is refused");
                good += 1;
            } else if file.starts_with("bad-") {
                assert!(!acted_on, "{name}/{file} is acted on");
                wrong += 1;
            } else {
                assert!(file.starts_with("found-"), "{name}/{file}: expected ok-, bad- or found-");
            }
        }
        assert!(good > 0 && wrong > 0, "{name} has {good} good seeds and {wrong} wrong ones");
    }
}

#[test]
fn every_folder_of_seeds_is_a_targets() {
    let folders: Vec<String> = listed(&corpus()).into_iter().map(|(name, _)| name).collect();
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
}
