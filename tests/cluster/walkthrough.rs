//! docs/walkthrough.md, line by line: every command of its console blocks is typed into one shell, in order, against a
//! cluster with the policy that the page shows, and must print what the page says. `…` stands there for what differs from
//! run to run: who owns a key, and times.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::dev::Dev;
use crate::patience::PATIENCE;

const PAGE: &str = include_str!("../../docs/walkthrough.md");
const POLICY: &str = include_str!("../../examples/policies/walkthrough.yaml");

/// What the shell prints after each command, on a line of its own.
const DONE: &str = "@@done@@";

/// A command of the page, and what it prints.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    /// Its line in the page, from 1.
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// The commands of all console blocks.
fn commands(page: &str) -> Vec<Typed> {
    let (mut typed, mut inside): (Vec<Typed>, bool) = (Vec::new(), false);
    for (line, text) in (1..).zip(page.lines()) {
        match (inside, text.strip_prefix("$ ")) {
            (false, _) => inside = text == "```console",
            (true, _) if text == "```" => inside = false,
            (true, Some(command)) => typed.push(Typed { line, command: command.to_owned(), expected: Vec::new() }),
            (true, None) => typed.last_mut().expect("a block begins with a command").expected.push(text.to_owned()),
        }
    }
    typed
}

/// Whether a line is what the page says, where each `…` of the page may be anything.
fn fits(said: &str, printed: &str) -> bool {
    let mut pieces = said.split('…');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// A shell that is typed into.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Shell {
    /// A shell for which the program is on the path and the cluster where the page says.
    fn start(dev: &Dev) -> Shell {
        let program = Path::new(env!("CARGO_BIN_EXE_ringfence")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut child = Command::new("sh")
            .env("PATH", path)
            .env("RINGFENCE_API", dev.api(1))
            .env("RINGFENCE_ADMIN", dev.admin(1))
            .env_remove("RINGFENCE_TOKEN_FILE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"exec 2>&1\n").unwrap();
        Shell { child, stdin, lines }
    }

    /// Types a command and returns what it prints. `$?` and `$!` are afterwards what the command has left.
    fn type_line(&mut self, command: &str) -> Vec<String> {
        let line = format!("{command}\nleft=$?; printf '\\n%s\\n' {DONE}; (exit $left)\n");
        self.stdin.write_all(line.as_bytes()).unwrap();
        let mut printed = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == DONE => break,
                Ok(line) => printed.push(line),
                Err(_) => panic!("`{command}` does not end; it has printed {printed:#?}"),
            }
        }
        while printed.last().is_some_and(String::is_empty) {
            printed.pop();
        }
        printed
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_line_of_the_walk_through_prints_what_the_page_says() {
    let dev = Dev::start_with_policy(POLICY);
    let mut shell = Shell::start(&dev);
    let typed: Vec<Typed> = commands(PAGE).into_iter().collect();
    assert!(typed.len() > 20, "{} commands were found on the page", typed.len());
    for Typed { line, command, expected } in typed {
        let printed = shell.type_line(&command);
        let as_said =
            printed.len() == expected.len() && printed.iter().zip(&expected).all(|(out, said)| fits(said, out));
        assert!(as_said, "docs/walkthrough.md:{line}: {command}\nsays {expected:#?}\nand got {printed:#?}");
    }
}

#[test]
fn the_walk_through_shows_the_very_policy_that_it_is_run_with() {
    assert!(
        PAGE.contains(&format!("```yaml\n{POLICY}```")),
        "examples/policies/walkthrough.yaml is not what the page shows"
    );
}

#[test]
fn a_page_is_read_as_commands_with_what_they_print() {
    let page = "$ no\n```console\n$ one\nout\n\n$ two\n```\n```sh\n$ no\n```\n```console\n$ three\n```\n";
    let typed = |line, command: &str, expected: &[&str]| Typed {
        line,
        command: command.to_owned(),
        expected: expected.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(commands(page), [typed(3, "one", &["out", ""]), typed(6, "two", &[]), typed(12, "three", &[])]);
}

#[test]
fn a_line_fits_what_the_page_says_but_for_what_it_leaves_open() {
    for (said, printed) in [("a", "a"), ("… b", "anything b"), ("a … b … c", "a 1 b 2 c"), ("a…", "a"), ("…", "")]
    {
        assert!(fits(said, printed), "{said}: {printed}");
    }
    for (said, printed) in [("a", "ab"), ("a", ""), ("a … c", "a b"), ("a…b…c", "ac"), ("a…a", "a"), ("", "x")]
    {
        assert!(!fits(said, printed), "{said}: {printed}");
    }
}
