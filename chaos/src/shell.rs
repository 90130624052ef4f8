//! Programs of the system, called so that a failure says which call it was and what it printed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// When it cannot be started, or says that it failed; with what it said.
pub fn run(program: &str, words: &[&str]) -> Result<String> {
    run_with_input(program, words, "")
}

/// The same, with a text for its standard input.
///
/// # Errors
/// As [`run`].
pub fn run_with_input(program: &str, words: &[&str], input: &str) -> Result<String> {
    let called = || format!("{program} {}", words.join(" "));
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(called)?;
    // The inputs here are far shorter than a pipe holds, so writing them never waits.
    child.stdin.take().expect("it was asked for").write_all(input.as_bytes()).with_context(called)?;
    let output = child.wait_with_output().with_context(called)?;
    if !output.status.success() {
        bail!("{}: {}: {}", called(), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_a_program_prints_comes_back_and_a_failure_names_the_call() {
        assert_eq!(run_with_input("cat", &[], "a line").unwrap(), "a line");
        let error = run("sh", &["-c", "echo no >&2; exit 3"]).unwrap_err().to_string();
        assert_eq!(error, "sh -c echo no >&2; exit 3: exit status: 3: no");
        assert!(run("ringfence-has-no-such-program", &[]).unwrap_err().to_string().contains("no-such-program"));
    }
}
