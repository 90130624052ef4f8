//! Small rules about the text of the tree, for what neither rustfmt nor clippy looks at. A rule reads the whole tree as
//! a value and returns what it found, so that each can be seen to fire on a made-up tree of a few lines.

mod clippy_files;
mod dead_files;
mod explained;
mod heads;
mod lengths;
mod plain_text;
mod source;
mod tree;
mod unused;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use tree::Tree;

/// One rule: what it asks for, and how to find what breaks it.
struct Rule {
    asks: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { asks: "every file opens with its idea", check: heads::missing },
    Rule { asks: "every file is part of the build", check: dead_files::unreachable },
    Rule { asks: "what a manifest asks for is used", check: unused::dependencies },
    Rule { asks: "what a manifest asks for has a reason", check: explained::missing },
    Rule { asks: "a function fits on a screen", check: lengths::too_long },
    Rule { asks: "types are named for what they are", check: words::vague_types },
    Rule { asks: "what is left to do has an issue", check: words::unnumbered_reminders },
    Rule { asks: "no machine is named", check: words::paths_of_machines },
    Rule { asks: "a lint is silenced with a reason", check: words::silent_allows },
    Rule { asks: "lines end where their text ends", check: plain_text::trailing_space },
    Rule { asks: "files are small", check: plain_text::too_large },
    Rule { asks: "the pure crates share one set of bans", check: clippy_files::disagreements },
];

/// A place that breaks a rule, and what to do there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// From the root of the tree.
    file: String,
    /// From 1; 0 speaks of the whole file.
    line: usize,
    says: String,
}

/// Reads the tree, holds it against every rule, and prints what breaks one.
///
/// # Errors
/// When anything does, or the tree cannot be read.
pub fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root, &Workspace::load(root)?)?;
    let mut count = 0;
    for rule in RULES {
        for finding in (rule.check)(&tree) {
            println!("{finding} ({})", rule.asks);
            count += 1;
        }
    }
    if count > 0 {
        bail!("{count} places are not tidy");
    }
    Ok(())
}

impl Finding {
    fn at(file: &str, line: usize, says: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, says: says.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.says),
            line => write!(f, "{}:{line}: {}", self.file, self.says),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_prints_as_a_place_that_editors_open() {
        assert_eq!(Finding::at("src/a.rs", 3, "why").to_string(), "src/a.rs:3: why");
        assert_eq!(Finding::at("src/a.rs", 0, "why").to_string(), "src/a.rs: why");
    }
}
