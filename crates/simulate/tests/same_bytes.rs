//! One seed tells one story: two processes print the same bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn told(seed: u64) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ringfence-simulate"));
    program.args(["--tell", "--seed", &seed.to_string()]).output().unwrap()
}

#[test]
fn two_processes_tell_the_same_story_byte_for_byte() {
    for seed in [0, 1, 2, 3] {
        let (one, other) = (told(seed), told(seed));
        assert!(one.stdout.len() > 10_000, "a whole story, not {} bytes", one.stdout.len());
        assert!(one.stdout == other.stdout, "seed {seed} was told in two ways");
    }
    assert_ne!(told(0).stdout, told(1).stdout);
}

#[test]
fn a_run_that_plays_nothing_or_names_what_is_not_there_does_not_pass() {
    let program = || Command::new(env!("CARGO_BIN_EXE_ringfence-simulate"));
    let nothing = program().args(["--seeds", "0..9", "--time", "0s"]).output().unwrap();
    let says = String::from_utf8(nothing.stderr).unwrap();
    assert!(nothing.status.code() == Some(1) && says.contains("not one seed was played"), "{says}");
    let beyond = program().args(["--seed", "3", "--faults", "0,900"]).output().unwrap();
    let says = String::from_utf8(beyond.stderr).unwrap();
    assert!(beyond.status.code() == Some(2) && says.contains("seed 3: there is no fault 900"), "{says}");
}

#[test]
fn words_that_mean_nothing_are_refused() {
    let program = || Command::new(env!("CARGO_BIN_EXE_ringfence-simulate"));
    let refused = program().args(["--seeds", "9"]).output().unwrap();
    let says = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(says.contains("expected seeds such as `0..8000`"), "{says}");
}
