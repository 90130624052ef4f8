//! What comes from outside comes in by one door each, so that a simulation can stand in its place (`tests/shells`): no
//! other file of this crate names it. tokio's timers need no door, for a simulated runtime has its own time.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

/// What may be named, and in which files only.
const DOORS: &[(&str, &[&str])] = &[
    ("tokio::net", &["net.rs"]),
    ("std::net::TcpListener", &["net.rs"]),
    ("std::net::UdpSocket", &["net.rs"]),
    ("clock_gettime", &["clock/system.rs"]),
    ("std::time::Instant", &[]),
    ("SystemTime", &[]),
    ("rand::random", &["chance.rs"]),
    ("rand::rng(", &[]),
    ("spawn_blocking", &["aside.rs", "raft/journal/mod.rs"]),
    ("thread::Builder", &["raft/journal/writer.rs"]),
    ("thread::spawn", &[]),
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

#[test]
fn the_outside_comes_in_by_its_doors_and_nowhere_else() {
    for file in files(&source()) {
        let name = file.strip_prefix(source()).unwrap().to_str().unwrap().to_owned();
        let code = code(&file);
        for (what, doors) in DOORS {
            assert!(!code.contains(what) || doors.contains(&name.as_str()), "{name} names {what}: only {doors:?} may");
        }
    }
}

#[test]
fn every_door_is_there_and_in_use() {
    for (what, doors) in DOORS {
        for door in *doors {
            assert!(code(&source().join(door)).contains(what), "{door} does not name {what}");
        }
    }
}
