//! Calling other programs: cargo above all. Where the numbers of a test run matter, its lines are read as they pass by
//! and shown unchanged.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// `cargo` with these words, at the root. Uses the very cargo that started this errand.
pub fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root);
    command
}

/// The folder that cargo builds into.
///
/// # Errors
/// When cargo cannot say.
pub fn target(root: &Path) -> Result<PathBuf> {
    let metadata = answer(&mut cargo(root, &["metadata", "--no-deps", "--format-version", "1"]))
        .context("cargo metadata has no answer; `cargo metadata` by itself says why")?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    Ok(metadata["target_directory"].as_str().context("cargo metadata names no `target_directory`")?.into())
}

/// Runs to the end with our own stdout and stderr.
///
/// # Errors
/// When the program cannot be started or does not end with success; its own words are on the screen by then.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{} ended with {status}", spelled(command));
    }
    Ok(())
}

/// Runs to the end, shows every line, and hands each to `see` as well. Both of the program's streams come out on ours
/// in the order they were written: they share one pipe.
///
/// # Errors
/// As [`run`].
pub fn run_and_read(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    // The command keeps the pipe's writing ends; without them the reader sees its end when the child is done.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        see(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}", spelled(command));
    }
    Ok(())
}

/// What the program prints, as text, when it can be run at all and ends with success.
pub fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_streams_are_read_in_the_order_they_were_written() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three"]);
        run_and_read(&mut command, |line| seen.push(line.to_owned())).unwrap();
        assert_eq!(seen, ["one", "two", "three"]);
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_words() {
        let error = run_and_read(Command::new("sh").args(["-c", "exit 3"]), |_| ()).unwrap_err().to_string();
        assert!(error.starts_with("sh -c exit 3 ended with"), "{error}");
    }

    #[test]
    fn cargo_says_where_this_very_test_was_built() {
        let here = std::env::current_exe().unwrap();
        assert!(here.starts_with(target(&crate::root()).unwrap()), "{here:?}");
    }

    #[test]
    fn a_program_that_is_not_there_has_no_answer() {
        assert_eq!(answer(&mut Command::new("ringfence-has-no-such-program")), None);
    }
}
