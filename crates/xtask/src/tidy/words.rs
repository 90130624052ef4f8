//! Words that say too little, promise without a date, or name somebody's machine. This file must hold them to find
//! them, so it is the one file that the search for them leaves out.

use super::Finding;
use super::source::{line_of, words};
use super::tree::{File, Tree};

const THIS_FILE: &str = "crates/xtask/src/tidy/words.rs";

/// Last words of type names that hide the idea, and where to look for it instead.
const VAGUE: &[(&str, &str)] = &[
    ("Manager", "name what it keeps or decides: Table, Sessions, Map"),
    ("Helper", "a function beside its caller, or the idea it serves"),
    ("Util", "a type lives with its idea; name that"),
    ("Utils", "a type lives with its idea; name that"),
    ("Context", "pass what is needed, or name what it is: Book, Now, Check"),
    ("Data", "name what it is data of: Record, Entry, Snapshot"),
    ("Info", "name what it tells: Status, Place, Session"),
];

const REMINDERS: &[&str] = &["TODO", "FIXME"];

const MACHINES: &[&str] = &["/home/", "/root/", "/Users/", "C:\\Users"];

/// Types of ours whose last word says nothing.
pub fn vague_types(tree: &Tree) -> Vec<Finding> {
    tree.code().flat_map(|(file, code)| vague_in(file, code)).collect()
}

fn vague_in(file: &File, code: &str) -> Vec<Finding> {
    let all: Vec<(usize, &str)> = words(code).collect();
    let defined = all.windows(2).filter(|pair| defines(code, pair[0]));
    defined
        .filter_map(|pair| {
            let (at, name) = pair[1];
            let (word, instead) = VAGUE.iter().find(|(word, _)| name.ends_with(word))?;
            let says = format!("{name}: {word} says nothing; {instead}");
            Some(Finding::at(&file.path, line_of(code, at), says))
        })
        .collect()
}

/// Whether the word defines the type that follows it. A `type` that stands inside something is a trait's, and its name
/// may be another crate's choice.
fn defines(code: &str, (at, word): (usize, &str)) -> bool {
    let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..];
    match word {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    }
}

/// Reminders without an issue: `TODO(#12)` is fine, `TODO` is a wish.
pub fn unnumbered_reminders(tree: &Tree) -> Vec<Finding> {
    let numbered =
        |rest: &str| rest.strip_prefix("(#").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    on_each_line(tree, |line| {
        let mut places = REMINDERS.iter().flat_map(|word| line.match_indices(word));
        let (_, word) = places.find(|(at, word)| !numbered(&line[at + word.len()..]))?;
        Some(format!("{word} without an issue: write {word}(#number), or do it"))
    })
}

/// Paths that exist on one machine only.
pub fn paths_of_machines(tree: &Tree) -> Vec<Finding> {
    on_each_line(tree, |line| {
        let path = MACHINES.iter().find(|path| line.contains(**path))?;
        Some(format!("{path} is somebody's machine; say it from the root of the tree"))
    })
}

/// Lints that are allowed without saying why.
pub fn silent_allows(tree: &Tree) -> Vec<Finding> {
    tree.code().flat_map(|(file, code)| silent_in(file, code)).collect()
}

fn silent_in(file: &File, code: &str) -> Vec<Finding> {
    let heads = ["[allow(", "[expect("].into_iter().flat_map(|head| code.match_indices(head));
    let silent = heads.filter(|(at, _)| {
        let end = code[*at..].find(']').map_or(code.len(), |length| at + length);
        !words(&code[*at..end]).any(|(_, word)| word == "reason")
    });
    silent.map(|(at, _)| Finding::at(&file.path, line_of(code, at), "say the reason = \"...\"")).collect()
}

fn on_each_line(tree: &Tree, objection: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| file.path != THIS_FILE) {
        for (at, line) in text.lines().enumerate() {
            findings.extend(objection(line).map(|says| Finding::at(&file.path, at + 1, says)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        rule(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.says).collect()
    }

    #[test]
    fn every_vague_last_word_is_found_with_a_better_one() {
        for (word, instead) in VAGUE {
            let expected = format!("Lease{word}: {word} says nothing; {instead}");
            assert_eq!(says(vague_types, "a.rs", &format!("pub struct Lease{word};\n")), [expected]);
        }
    }

    #[test]
    fn words_inside_names_and_in_comments_are_free() {
        let fine = "//! No LeaseManager.\nstruct Metadata;\nstruct ContextFree;\nuse anyhow::Context as _;\nimpl C for S {\n    type ConnectInfo = ();\n}\n";
        assert_eq!(says(vague_types, "a.rs", fine), [""; 0]);
    }

    #[test]
    fn a_reminder_needs_an_issue() {
        let expected = ["TODO without an issue: write TODO(#number), or do it"];
        assert_eq!(says(unnumbered_reminders, "a.md", "TODO: more\n"), expected);
        assert_eq!(says(unnumbered_reminders, "a.rs", "// FIXME(later)\n").len(), 1);
        assert_eq!(says(unnumbered_reminders, "a.rs", "// TODO(#7): more\n"), [""; 0]);
    }

    #[test]
    fn every_path_of_a_machine_is_found_in_any_text() {
        for path in MACHINES {
            assert_eq!(says(paths_of_machines, "a.toml", &format!("at = '{path}x'\n")).len(), 1, "{path}");
        }
    }

    #[test]
    fn a_lint_is_silenced_with_a_reason_only() {
        assert_eq!(says(silent_allows, "a.rs", "#[allow(dead_code)]\nfn f() {}\n"), ["say the reason = \"...\""]);
        assert_eq!(says(silent_allows, "a.rs", "#![expect(dead_code)]\n").len(), 1);
        assert_eq!(says(silent_allows, "a.rs", "#![allow(\n    dead_code,\n    reason = \"[tests]\"\n)]\n"), [""; 0]);
    }
}
