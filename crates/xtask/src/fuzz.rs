//! Fuzzing as an errand: the workspace in `fuzz/`, built with coverage counters by the compiler that is there, and run
//! target by target for a while. It needs a C++ compiler for libFuzzer, and neither `cargo-fuzz` nor nightly Rust: what
//! `cargo-fuzz` adds to a build are these flags.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::machine::{self, Program};
use crate::shell;

/// What libFuzzer is built with.
const PROGRAMS: &[Program] = &[Program { name: "c++", package: "g++" }];

/// How long each target runs unless it is said.
const SECONDS_DEFAULT: u32 = 60;

/// The longest input that is tried, in bytes. All readers bound what they read, by more than this; what is longer only
/// makes the search slower.
const INPUT_BYTES_MAX: u32 = 8_192;

/// Counters on every edge, and the values of comparisons, which lead the search (SanitizerCoverage).
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// What is to be fuzzed, and how long.
#[derive(Debug, PartialEq, Eq)]
struct Wish<'a> {
    target: Option<&'a str>,
    seconds: u32,
}

/// Builds the fuzzer and runs one target, or all of them one after the other.
///
/// # Errors
/// When a word is not understood, the fuzzer does not build, or a target has found something.
pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let wish = wish_of(words)?;
    let targets = targets(root)?;
    let chosen: Vec<&String> = match wish.target {
        None => targets.iter().collect(),
        Some(name) => targets.iter().filter(|target| *target == name).collect(),
    };
    if chosen.is_empty() {
        bail!("no target is called `{}`; there are {}", wish.target.unwrap_or(""), targets.join(", "));
    }
    machine::need_programs(PROGRAMS)?;
    let program = build(root)?;
    chosen.into_iter().try_for_each(|target| fuzz(root, &program, target, wish.seconds))
}

fn wish_of<'a>(words: &[&'a str]) -> Result<Wish<'a>> {
    let (target, rest) = match words {
        [name, rest @ ..] if !name.starts_with("--") => (Some(*name), rest),
        rest => (None, rest),
    };
    let seconds = match rest {
        [] => SECONDS_DEFAULT,
        ["--seconds", seconds] => {
            seconds.parse().with_context(|| format!("--seconds takes a whole number, found `{seconds}`"))?
        }
        other => bail!("expected [target] [--seconds N], found `{}`", other.join(" ")),
    };
    Ok(Wish { target, seconds })
}

/// Every target has a folder of seeds under its name.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folders = std::fs::read_dir(root.join("fuzz/corpus")).context("fuzz/corpus")?;
    let mut names = folders
        .map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    names.sort();
    Ok(names)
}

/// With the target named, cargo keeps the flags from build scripts and macros, which run without a fuzzer around them.
fn build(root: &Path) -> Result<PathBuf> {
    let host = host()?;
    let target = shell::target(root)?.join("fuzz");
    let manifest = root.join("fuzz/Cargo.toml");
    let mut cargo = shell::cargo(root, &["build", "--release", "--target", &host]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target);
    shell::run(cargo.env("RUSTFLAGS", COVERAGE.join(" ")))?;
    Ok(target.join(host).join("release/ringfence-fuzz"))
}

fn host() -> Result<String> {
    let said = shell::answer(Command::new("rustc").arg("-vV")).context("rustc does not run")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

/// What is found is kept beside the build; the seeds in the tree are only read.
fn fuzz(root: &Path, program: &Path, target: &str, seconds: u32) -> Result<()> {
    let found = shell::target(root)?.join("fuzz").join("found").join(target);
    let corpus = found.join("corpus");
    std::fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
    println!("fuzz: {target}, {seconds} s");
    let mut fuzzer = Command::new(program);
    fuzzer.arg(&corpus).arg(root.join("fuzz/corpus").join(target));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    fuzzer.arg(format!("-artifact_prefix={}/", found.display())).args(["-timeout=10", "-print_final_stats=1"]);
    shell::run(fuzzer.env("RINGFENCE_FUZZ", target)).with_context(|| format!("{target}: see {}", found.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_target_and_a_time_or_neither() {
        let wish = |words: &[&'static str]| wish_of(words).ok();
        assert_eq!(wish(&[]), Some(Wish { target: None, seconds: SECONDS_DEFAULT }));
        assert_eq!(wish(&["rate"]), Some(Wish { target: Some("rate"), seconds: SECONDS_DEFAULT }));
        assert_eq!(wish(&["rate", "--seconds", "5"]), Some(Wish { target: Some("rate"), seconds: 5 }));
        assert_eq!(wish(&["--seconds", "5"]), Some(Wish { target: None, seconds: 5 }));
        for wrong in [&["rate", "5"][..], &["--seconds"], &["--seconds", "x"], &["--minutes", "5"]] {
            assert_eq!(wish(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_target_that_there_is_not_is_refused_with_those_there_are() {
        let error = run(&crate::root(), &["rat"]).unwrap_err().to_string();
        assert!(error.contains("no target is called `rat`") && error.contains("rate"), "{error}");
    }
}
