//! What comes from outside comes in by one door each, so that a simulation can stand in its place (`tests/shells`): no
//! other file of this crate names it, neither whole nor by way of a `use`. tokio's timers need no door, for a simulated
//! runtime has its own time.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

/// What may be named, and in which files only.
const DOORS: &[(&str, &[&str])] = &[
    ("tokio::net", &["net.rs"]),
    ("std::net::TcpListener", &["net.rs"]),
    ("std::net::TcpStream", &[]),
    ("std::net::UdpSocket", &["net.rs"]),
    ("clock_gettime", &["clock/system.rs"]),
    ("std::time::Instant", &[]),
    ("SystemTime", &[]),
    ("rand::random", &["chance.rs"]),
    ("rand::rng(", &[]),
    ("spawn_blocking", &["aside.rs"]),
    // The one thread of the journal: it commits what came while the last commit ran, so it outlives any piece of work that
    // `aside` could be given. A simulation has none, and commits at once (`Writer::Inline`).
    ("std::thread::Builder", &["raft/journal/writer.rs"]),
    ("std::thread::spawn", &[]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The file without its tests at the end, and without comments.
fn code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The paths that the code brings in, each whole and with its name here: `use std::time::{self, Instant as Clock}` brings in
/// `std::time` as `time`, and `std::time::Instant` as `Clock`.
fn imports(code: &str) -> Vec<(String, String)> {
    let uses = code.split(';').filter_map(|statement| statement.rsplit_once("use ").map(|(_, tree)| tree));
    uses.flat_map(|tree| paths("", &tree.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
}

/// The paths of one tree of imports below `prefix`.
fn paths(prefix: &str, tree: &str) -> Vec<(String, String)> {
    match tree.split_once('{') {
        None => {
            let (path, alias) =
                tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
            let path = format!("{prefix}{}", path.trim());
            let path = path.strip_suffix("::self").unwrap_or(&path);
            let name = alias.unwrap_or_else(|| path.rsplit("::").next().unwrap_or_default());
            vec![(path.to_owned(), name.to_owned())]
        }
        Some((stem, rest)) => {
            let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
            let prefix = format!("{prefix}{}", stem.trim());
            branches(inner).into_iter().flat_map(|branch| paths(&prefix, branch.trim())).collect()
        }
    }
}

/// The parts between the commas that lie in no inner braces.
fn branches(inner: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_split = |letter: char| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    };
    inner.split(is_split).filter(|branch| !branch.trim().is_empty()).collect()
}

/// Whether the code names `what`: as it stands, as something brought in, or by the end of a path whose beginning is.
fn names(code: &str, what: &str) -> bool {
    let by_way_of = |(import, name): &(String, String)| {
        let (import, all) = import.strip_suffix("::*").map_or((import.as_str(), false), |stem| (stem, true));
        let rest = what.strip_prefix(import).and_then(|rest| rest.strip_prefix("::"));
        // `rand::rng(` is meant, and `rand::rngs` is not.
        let is_it = what.strip_suffix('(').map_or(import.contains(what), |function| import == function);
        is_it || rest.is_some_and(|rest| all || code.contains(&format!("{name}::{rest}")))
    };
    code.contains(what) || imports(code).iter().any(by_way_of)
}

#[test]
fn the_outside_comes_in_by_its_doors_and_nowhere_else() {
    for file in files(&source()) {
        let name = file.strip_prefix(source()).unwrap().to_str().unwrap().to_owned();
        let code = code(&file);
        for (what, doors) in DOORS {
            assert!(!names(&code, what) || doors.contains(&name.as_str()), "{name} names {what}: only {doors:?} may");
        }
    }
}

#[test]
fn every_door_is_there_and_in_use() {
    for (what, doors) in DOORS {
        for door in *doors {
            assert!(names(&code(&source().join(door)), what), "{door} does not name {what}");
        }
    }
}

#[test]
fn a_name_is_found_however_it_is_brought_in() {
    let instant = "std::time::Instant";
    for code in [
        "let now = std::time::Instant::now();",
        "use std::time::Instant;",
        "use std::time::{Duration, Instant};",
        "use std::time::{Duration, Instant as Clock};",
        "pub(crate) use std::{io, time::{\n    Duration,\n    Instant,\n}};",
        "use std::time;\nlet now = time::Instant::now();",
        "use std::{fs, time};\nlet now = time::Instant::now();",
        "use std::time::*;",
        "use std::time::{self, Duration};\nlet now = time::Instant::now();",
        "use std::time as clock;\nlet now = clock::Instant::now();",
    ] {
        assert!(names(code, instant), "{code}");
    }
    for code in [
        "use std::time::Duration;",
        "use tokio::time::{Duration, Instant};\nuse std::time::Duration as Length;",
        "use tokio::time;\nlet now = time::Instant::now();",
    ] {
        assert!(!names(code, instant), "{code}");
    }
}
