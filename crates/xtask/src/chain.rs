//! The one test command as a chain of steps. The table is the chain: what is announced, when it runs, and what it
//! does. Every step runs, even after one that failed, so that one round tells everything; the end names the failures.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::layering::PURE;
use crate::machine::{DidNotRun, Program, need_programs};
use crate::{chaos, gateway, layering, licences, shell, simulation, tidy};

/// How much of the chain runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The inner loop: under three minutes once everything is built.
    Quick,
    /// Everything that must hold before a change goes in.
    Full,
    /// The full chain and the release build.
    Ci,
}

struct Step {
    name: &'static str,
    /// What holds when the step passes.
    claim: &'static str,
    paces: &'static [Pace],
    run: fn(&Path, &mut Tally) -> Result<()>,
}

const EVERY: &[Pace] = &[Pace::Quick, Pace::Full, Pace::Ci];
const QUICK: &[Pace] = &[Pace::Quick];
const FULL: &[Pace] = &[Pace::Full, Pace::Ci];
const CI: &[Pace] = &[Pace::Ci];

/// From the cheapest step to the dearest.
const CHAIN: &[Step] = &[
    Step { name: "lock", claim: "Cargo.lock is up to date", paces: CI, run: |root, _| lock(root) },
    Step { name: "fmt", claim: "rustfmt agrees with every file", paces: EVERY, run: |root, _| fmt(root) },
    Step { name: "layering", claim: "crates use whom they may", paces: EVERY, run: |root, _| layering::run(root) },
    Step { name: "tidy", claim: "the text of the tree is in order", paces: EVERY, run: |root, _| tidy::run(root) },
    Step { name: "licences", claim: "every licence is on the list", paces: FULL, run: |root, _| licences::run(root) },
    Step { name: "clippy", claim: "no lint complains about any target", paces: FULL, run: |root, _| clippy(root) },
    Step { name: "pure tests", claim: "the crates that decide, decide right", paces: QUICK, run: pure_tests },
    Step { name: "tests", claim: "every test passes", paces: FULL, run: all_tests },
    Step { name: "conformance", claim: "every case holds, in three ways", paces: FULL, run: conformance },
    Step { name: "a few seeds", claim: "a simulated cluster keeps its word", paces: QUICK, run: quick_simulation },
    Step { name: "simulation", claim: "under every fault, and mistakes show", paces: FULL, run: full_simulation },
    Step { name: "shells", claim: "so do whole nodes on a simulated network", paces: FULL, run: shells },
    Step { name: "doc tests", claim: "every example in the docs holds", paces: FULL, run: doc_tests },
    Step { name: "gateway", claim: "a real gateway limits by asking us", paces: FULL, run: gateway_tests },
    Step { name: "chaos", claim: "what breaks, breaks as documented", paces: FULL, run: chaos_suite },
    Step { name: "compose", claim: "the compose cluster stays exact", paces: FULL, run: compose_scenario },
    Step { name: "release", claim: "the build that the README begins with", paces: CI, run: |root, _| release(root) },
];

/// A program that the chain calls, and what to do where it is not there.
struct Need {
    call: &'static [&'static str],
    remedy: &'static str,
}

/// All that must be there, Rust itself apart. The suites at the end of the chain ask for more, and say so where they did
/// not run; see [`DidNotRun`].
const NEEDS: &[Need] = &[
    Need { call: &["cargo", "fmt", "--version"], remedy: "rustfmt is missing: rustup component add rustfmt" },
    Need { call: &["cargo", "clippy", "--version"], remedy: "clippy is missing: rustup component add clippy" },
    Need { call: &["cc", "--version"], remedy: "a C compiler is missing, rustc links with it: install gcc or clang" },
];

/// Runs the steps of this pace, says how each ended, and returns whether all of them passed.
///
/// # Errors
/// When something from outside is missing; nothing ran.
pub fn run(pace: Pace, root: &Path) -> Result<bool> {
    check_needs(NEEDS)?;
    let failed = run_steps(CHAIN.iter().filter(|step| step.paces.contains(&pace)), root);
    Ok(failed.is_empty())
}

fn check_needs(needs: &[Need]) -> Result<()> {
    for Need { call, remedy } in needs {
        if shell::answer(Command::new(call[0]).args(&call[1..])).is_none() {
            bail!("{remedy}");
        }
    }
    Ok(())
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Held,
    Failed,
    /// The machine lacks something; that is no failure, and never counts as success.
    DidNotRun,
}

/// Runs these steps and returns the names of those that failed. The last line is cargo test's.
fn run_steps<'a>(steps: impl Iterator<Item = &'a Step>, root: &Path) -> Vec<&'static str> {
    let began = Instant::now();
    let mut tally = Tally::default();
    let endings: Vec<_> = steps.map(|step| (step.name, carry_out(step, root, &mut tally))).collect();
    let those = |which: Ending| -> Vec<&'static str> {
        endings.iter().filter(|(_, ending)| *ending == which).map(|(name, _)| *name).collect()
    };
    let (failed, left_out) = (those(Ending::Failed), those(Ending::DidNotRun));
    for (word, names) in [("did not run", &left_out), ("failed", &failed)] {
        if !names.is_empty() {
            println!("xtask: {word}: {}", names.join(", "));
        }
    }
    println!("{}", closing_line(failed.is_empty(), &tally, began.elapsed()));
    failed
}

fn carry_out(step: &Step, root: &Path, tally: &mut Tally) -> Ending {
    println!("xtask: {}: {} ...", step.name, step.claim);
    let began = Instant::now();
    let outcome = (step.run)(root, tally);
    let time = began.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => {
            println!("xtask: {}: ok, {time:.1} s", step.name);
            Ending::Held
        }
        Err(error) => match error.downcast::<DidNotRun>() {
            Ok(reason) => {
                println!("xtask: {}: {reason}", step.name);
                tally.ignored += 1;
                Ending::DidNotRun
            }
            Err(error) => {
                println!("xtask: {}: FAILED, {time:.1} s: {error:#}", step.name);
                Ending::Failed
            }
        },
    }
}

/// In the form of cargo test, so that whatever reads the last line of that can read the last line of this.
fn closing_line(passed: bool, tally: &Tally, time: Duration) -> String {
    let verdict = if passed { "ok" } else { "FAILED" };
    format!("test result: {verdict}. {tally}; finished in {:.2}s", time.as_secs_f64())
}

fn lock(root: &Path) -> Result<()> {
    shell::run(
        shell::cargo(root, &["metadata", "--format-version", "1", "--locked"]).stdout(std::process::Stdio::null()),
    )
}

fn fmt(root: &Path) -> Result<()> {
    shell::run(&mut shell::cargo(root, &["fmt", "--all", "--check"]))
}

fn clippy(root: &Path) -> Result<()> {
    let words = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    shell::run(&mut shell::cargo(root, &words))
}

/// What the tests of the store start and call.
const STORE: &[Program] = &[
    Program { name: "redis-server", package: "redis-server" },
    Program { name: "redis-cli", package: "redis-tools" },
    Program { name: "openssl", package: "openssl" },
];

fn all_tests(root: &Path, tally: &mut Tally) -> Result<()> {
    if let Err(missing) = need_programs(STORE) {
        // All others run. These fail, and say the same.
        println!("xtask: tests of the store: {missing}");
    }
    tests(root, &["--workspace"], tally)
}

fn pure_tests(root: &Path, tally: &mut Tally) -> Result<()> {
    let packages: Vec<String> = PURE.iter().map(|(name, _)| format!("--package=ringfence-{name}")).collect();
    tests(root, &packages.iter().map(String::as_str).collect::<Vec<_>>(), tally)
}

/// Unit, property and integration tests of these packages, by cargo-nextest where it is installed.
fn tests(root: &Path, packages: &[&str], tally: &mut Tally) -> Result<()> {
    let nextest = shell::answer(&mut shell::cargo(root, &["nextest", "--version"])).is_some();
    let head: &[&str] = match nextest {
        true => &["nextest", "run", "--cargo-quiet", "--status-level=slow", "--final-status-level=slow"],
        false => &["test", "--quiet", "--no-fail-fast", "--lib", "--bins", "--tests"],
    };
    counted(&mut shell::cargo(root, &[head, packages].concat()), tally)
}

/// The table of cases, with its counts: through the twin and the engine, then through three nodes of a program that has a
/// clock for tests, which also see that promises made while limits change are kept. All other tests are of the program as it is given to people, which has none.
fn conformance(root: &Path, tally: &mut Tally) -> Result<()> {
    let shown = ["--", "--nocapture"];
    let pure = ["test", "--quiet", "--package=ringfence-sim", "--test=conformance"];
    counted(&mut shell::cargo(root, &[&pure[..], &shown].concat()), tally)?;
    let nodes = ["test", "--quiet", "--package=ringfence", "--features=test-clock", "--test=cluster"];
    let named = ["conformance::", "limit_changes::"];
    counted(&mut shell::cargo(root, &[&nodes[..], &shown, &named].concat()), tally)
}

fn quick_simulation(root: &Path, tally: &mut Tally) -> Result<()> {
    simulation::quick(root, |line| tally.add_line(line))
}

fn full_simulation(root: &Path, tally: &mut Tally) -> Result<()> {
    simulation::full(root, |line| tally.add_line(line))
}

/// Whole nodes on a simulated network, with the counts of what was seen: a build of its own, which the step for lints does
/// not look at.
fn shells(root: &Path, tally: &mut Tally) -> Result<()> {
    let build = ["--quiet", "--package=ringfence-node", "--features=simulated", "--test=shells", "--"];
    shell::run(&mut shell::cargo(root, &[&["clippy"], &build[..], &["-D", "warnings"]].concat()))?;
    counted(&mut shell::cargo(root, &[&["test"], &build[..], &["--nocapture"]].concat()), tally)
}

/// Apart from the other tests, since cargo-nextest does not run them.
fn doc_tests(root: &Path, tally: &mut Tally) -> Result<()> {
    counted(&mut shell::cargo(root, &["test", "--workspace", "--doc", "--quiet", "--no-fail-fast"]), tally)
}

/// The tests that ask for nginx, which are marked to be ignored where nobody has seen to it.
fn gateway_tests(root: &Path, tally: &mut Tally) -> Result<()> {
    gateway::run(root, |line| tally.add_line_again(line))
}

fn chaos_suite(root: &Path, tally: &mut Tally) -> Result<()> {
    chaos::run(root, &[], |line| tally.add_line(line))
}

fn compose_scenario(root: &Path, tally: &mut Tally) -> Result<()> {
    chaos::compose(root, |line| tally.add_line(line))
}

fn release(root: &Path) -> Result<()> {
    shell::run(&mut shell::cargo(root, &["build", "--release", "--locked", "--package", "ringfence"]))
}

fn counted(command: &mut Command, tally: &mut Tally) -> Result<()> {
    shell::run_and_read(command, |line| tally.add_line(line))
}

/// How many tests ended how, over all steps.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Adds what the closing line of tests says that an earlier step has counted as ignored.
    fn add_line_again(&mut self, line: &str) {
        let mut again = Tally::default();
        again.add_line(line);
        self.passed += again.passed;
        self.failed += again.failed;
        self.ignored = self.ignored.saturating_sub(again.passed + again.failed);
    }

    /// Adds what a closing line of cargo test or of cargo-nextest says; other lines say nothing. Nextest quotes what a
    /// failed test printed, a closing line of cargo test included, but not at the margin.
    fn add_line(&mut self, line: &str) {
        if !line.starts_with("test result:") && !line.trim_start().starts_with("Summary [") {
            return;
        }
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_end_matches([',', ';'])).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" | "timed" => self.failed += count,
                "ignored" | "skipped" => self.ignored += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed; {} failed; {} ignored; 0 measured; 0 filtered out",
            self.passed, self.failed, self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.add_line(line));
        tally
    }

    #[test]
    fn the_closing_lines_of_both_runners_are_counted_and_nothing_else_is() {
        let tally = tally_of(&[
            "test result: FAILED. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "     Summary [   0.005s] 4/7 tests run: 3 passed (1 slow), 2 failed, 1 timed out, 5 skipped",
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 66 filtered out; finished in 1.20s",
            "running 99 tests",
            "it said: 7 passed",
        ]);
        assert_eq!(tally, Tally { passed: 15, failed: 4, ignored: 7 });
    }

    #[test]
    fn tests_that_an_earlier_step_left_out_are_counted_once() {
        let mut tally = tally_of(&["test result: ok. 7 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out"]);
        tally.add_line_again("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out");
        assert_eq!(tally, Tally { passed: 8, failed: 1, ignored: 1 });
    }

    #[test]
    fn our_own_closing_line_reads_as_cargos() {
        let tally = Tally { passed: 3, failed: 1, ignored: 2 };
        let line = closing_line(false, &tally, Duration::from_millis(2_500));
        let expected =
            "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 2.50s";
        assert_eq!(line, expected);
        assert_eq!(tally_of(&[&line]), tally);
    }

    #[test]
    fn a_failing_step_is_named_and_the_others_still_run() {
        let step = |name, run| Step { name, claim: "", paces: EVERY, run };
        let steps = [
            step("first", |_, _| bail!("because")),
            step("second", |_, _| Ok(())),
            step("third", |_, _| bail!("because")),
        ];
        assert_eq!(run_steps(steps.iter(), Path::new(".")), ["first", "third"]);
    }

    #[test]
    fn a_step_that_the_machine_has_not_the_means_for_neither_fails_nor_passes() {
        let step = Step { name: "", claim: "", paces: EVERY, run: |_, _| Err(DidNotRun("no engine".into()).into()) };
        let mut tally = Tally::default();
        assert_eq!(carry_out(&step, Path::new("."), &mut tally), Ending::DidNotRun);
        assert_eq!(tally, Tally { passed: 0, failed: 0, ignored: 1 });
    }

    #[test]
    fn what_is_missing_is_said_before_anything_runs() {
        let needs = [Need { call: &["ringfence-has-no-such-program"], remedy: "make one" }];
        assert_eq!(check_needs(&needs).unwrap_err().to_string(), "make one");
    }

    #[test]
    fn the_inner_loop_leaves_out_what_takes_long_and_keeps_the_gates() {
        let names = |pace: Pace| -> Vec<&str> {
            CHAIN.iter().filter(|step| step.paces.contains(&pace)).map(|step| step.name).collect()
        };
        assert_eq!(names(Pace::Quick), ["fmt", "layering", "tidy", "pure tests", "a few seeds"]);
        let full = [
            "fmt",
            "layering",
            "tidy",
            "licences",
            "clippy",
            "tests",
            "conformance",
            "simulation",
            "shells",
            "doc tests",
            "gateway",
            "chaos",
            "compose",
        ];
        assert_eq!(names(Pace::Full), full);
        assert!(names(Pace::Ci).ends_with(&["release"]));
    }
}
