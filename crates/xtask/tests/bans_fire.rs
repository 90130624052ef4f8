//! The bans of the pure crates are only as good as clippy's reading of their file. Here a crate made for the occasion
//! breaks them under the very file that the pure crates have, and clippy must object, with our reason.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Each line breaks one ban; the words are what clippy must name.
const BREACHES: &[(&str, &str)] = &[
    ("pub fn clock() { let _ = std::time::Instant::now(); }", "`std::time::Instant::now`"),
    ("pub fn wall() { let _ = std::time::SystemTime::now(); }", "`std::time::SystemTime::now`"),
    ("pub fn thread() { let _ = std::thread::spawn(|| ()); }", "`std::thread::spawn`"),
    ("pub fn pause() { std::thread::sleep(std::time::Duration::ZERO); }", "`std::thread::sleep`"),
    ("pub fn setting() -> Option<String> { std::env::var(\"X\").ok() }", "`std::env::var`"),
    ("pub fn text() -> Option<String> { std::fs::read_to_string(\"x\").ok() }", "`std::fs::read_to_string`"),
    ("pub fn end() { std::process::exit(0) }", "`std::process::exit`"),
    ("pub fn instant(_: std::time::Instant) {}", "type `std::time::Instant`"),
    ("pub fn date(_: std::time::SystemTime) {}", "type `std::time::SystemTime`"),
    ("pub fn order(_: std::collections::HashMap<u8, u8>) {}", "HashMap`"),
    ("pub fn set(_: std::collections::HashSet<u8>) {}", "HashSet`"),
    ("pub fn chance(_: std::hash::RandomState) {}", "RandomState`"),
    ("pub fn file(_: std::fs::File) {}", "`std::fs::File`"),
    ("pub fn socket(_: std::net::UdpSocket) {}", "UdpSocket`"),
];

#[test]
fn each_ban_of_the_pure_crates_fires_and_gives_its_reason() {
    let said = clippy_on(&scratch_crate("broken", &BREACHES.iter().map(|(code, _)| *code).collect::<Vec<_>>()));
    let objections: Vec<&str> = said.split("\n\n").filter(|part| part.contains("disallowed")).collect();
    for (code, name) in BREACHES {
        let objection = objections.iter().find(|part| part.contains(name));
        let objection = objection.unwrap_or_else(|| panic!("clippy is silent about {code}\n{said}"));
        assert!(objection.contains("= note: "), "no reason given for {name}:\n{objection}");
    }
}

#[test]
fn code_that_breaks_no_ban_passes_under_the_same_file() {
    let said = clippy_on(&scratch_crate("sound", &["pub fn later(now: u64, wait: u64) -> u64 { now + wait }"]));
    assert!(!said.contains("disallowed"), "{said}");
    assert!(said.contains("Finished"), "{said}");
}

/// A crate without dependencies that holds this code and the pure crates' `clippy.toml`.
fn scratch_crate(name: &str, code: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bans").join(name);
    fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n");
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/lib.rs"), code.join("\n")).unwrap();
    let bans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../limits/clippy.toml");
    fs::copy(bans, folder.join("clippy.toml")).unwrap();
    folder
}

/// What clippy says about the crate in this folder.
fn clippy_on(folder: &Path) -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["clippy", "--offline", "--color", "never", "--target-dir", "target"]).current_dir(folder);
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}
