//! The files of the repository as a value. Read from disk once; made up from a few lines in tests.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::source::code_of;
use crate::workspace::Workspace;

/// Folders that are not ours to tidy: cargo's output, git's memory, and the fuzzer's seeds, which are odd on purpose.
const NOT_OURS: &[&str] = &["target", ".git", "corpus"];

/// The root of the fuzzer, which is a workspace of its own.
const FUZZER: &str = "fuzz/src/main.rs";

/// Every file of the repository, in the order of their paths.
pub struct Tree {
    pub files: Vec<File>,
    /// Files that cargo builds by themselves: the roots of libraries, binaries, tests, benches, build scripts.
    pub roots: Vec<String>,
    /// What our manifests ask for.
    pub asked_for: Vec<AskedFor>,
    /// The errands' own list of long functions; see `lengths`.
    pub long_functions: String,
}

/// One dependency in one of our manifests.
pub struct AskedFor {
    /// The folder of the manifest, from the root of the tree.
    pub folder: String,
    /// Where its code lies: that folder, and those of targets elsewhere.
    pub sources: Vec<String>,
    /// As code spells it.
    pub name: String,
    /// One of our own crates.
    pub own: bool,
}

/// One file.
pub struct File {
    /// From the root of the tree, with `/` between folders.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// Absent when the file is not UTF-8.
    pub text: Option<String>,
    /// Of Rust, the text without comments and strings; see [`code_of`].
    pub code: Option<String>,
}

impl Tree {
    /// Reads everything under `root`, but for folders that are not ours.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn read(root: &Path, workspace: &Workspace) -> Result<Tree> {
        let mut files = Vec::new();
        read_folder(root, root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let roots = workspace.members().flat_map(|package| &package.roots);
        let roots = roots.map(|path| from_root(root, path)).chain([Ok(FUZZER.to_owned())]).collect::<Result<_>>()?;
        let asked_for = asked_for(root, workspace)?;
        let long_functions = fs::read_to_string(root.join(super::lengths::LIST)).unwrap_or_default();
        Ok(Tree { files, roots, asked_for, long_functions })
    }

    /// The files that hold Rust, with their text.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &str)> {
        self.texts().filter(|(file, _)| file.path.ends_with(".rs"))
    }

    /// The files that hold Rust, with their code.
    pub fn code(&self) -> impl Iterator<Item = (&File, &str)> {
        self.files.iter().filter_map(|file| Some((file, file.code.as_deref()?)))
    }

    /// The files that hold text of any kind.
    pub fn texts(&self) -> impl Iterator<Item = (&File, &str)> {
        self.files.iter().filter_map(|file| Some((file, file.text.as_deref()?)))
    }

    /// The text of the file at this path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(file, _)| file.path == path).map(|(_, text)| text)
    }

    /// A tree of these paths and texts. Files called `lib.rs` or `main.rs` are roots.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let is_root = |path: &&str| path.ends_with("lib.rs") || path.ends_with("main.rs");
        let roots = files.iter().map(|(path, _)| *path).filter(is_root).map(str::to_owned).collect();
        let file = |(path, text): &(&str, &str)| File::new((*path).to_owned(), text.as_bytes().to_vec());
        Tree { files: files.iter().map(file).collect(), roots, asked_for: Vec::new(), long_functions: String::new() }
    }
}

impl File {
    fn new(path: String, bytes: Vec<u8>) -> File {
        let size = bytes.len() as u64;
        let text = String::from_utf8(bytes).ok();
        let code = text.as_deref().filter(|_| path.ends_with(".rs")).map(code_of);
        File { path, size, text, code }
    }
}

fn asked_for(root: &Path, workspace: &Workspace) -> Result<Vec<AskedFor>> {
    let mut asked_for = Vec::new();
    for package in workspace.members() {
        let folder = from_root(root, &package.folder)?;
        let elsewhere = package.roots.iter().filter_map(|path| path.parent()).map(|folder| from_root(root, folder));
        let sources = elsewhere.chain([Ok(folder.clone())]).collect::<Result<Vec<_>>>()?;
        let asked = |name: &String| AskedFor {
            folder: folder.clone(),
            sources: sources.clone(),
            name: name.clone(),
            own: workspace.members().any(|member| member.short_name() == name),
        };
        asked_for.extend(package.asks_for.iter().map(asked));
    }
    Ok(asked_for)
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            read_folder(root, &entry.path(), files)?;
        } else if kind.is_file() {
            files.push(read_file(root, &entry.path())?);
        }
    }
    Ok(())
}

fn read_file(root: &Path, path: &Path) -> Result<File> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(File::new(from_root(root, path)?, bytes))
}

/// The path from the root of the tree. Cargo writes a target outside its package as `crates/x/../../tests/y`.
fn from_root(root: &Path, path: &Path) -> Result<String> {
    let inside = path.strip_prefix(root).with_context(|| format!("{} lies outside the tree", path.display()))?;
    let mut folders = Vec::new();
    for part in inside.iter().map(|part| part.to_string_lossy()) {
        match part.as_ref() {
            ".." => drop(folders.pop()),
            _ => folders.push(part),
        }
    }
    Ok(folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_goes_up_and_down_again_is_straightened() {
        let path = from_root(Path::new("/r"), Path::new("/r/crates/x/../../tests/y/main.rs")).unwrap();
        assert_eq!(path, "tests/y/main.rs");
        assert!(from_root(Path::new("/r"), Path::new("/elsewhere/x.rs")).is_err());
    }
}
