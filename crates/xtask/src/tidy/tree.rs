//! The files of the repository as a value. Read from disk once; made up from a few lines in tests.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// Folders that are not ours to tidy: cargo's output, git's memory.
const NOT_OURS: &[&str] = &["target", ".git"];

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
    /// As code spells it.
    pub name: String,
}

/// One file.
pub struct File {
    /// From the root of the tree, with `/` between folders.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// Absent when the file is not UTF-8.
    pub text: Option<String>,
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
        let roots = roots.map(|path| from_root(root, path)).collect::<Result<_>>()?;
        let asked_for = asked_for(root, workspace)?;
        let long_functions = fs::read_to_string(root.join(super::lengths::LIST)).unwrap_or_default();
        Ok(Tree { files, roots, asked_for, long_functions })
    }

    /// The files that hold Rust, with their text.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &str)> {
        self.texts().filter(|(file, _)| file.path.ends_with(".rs"))
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
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            size: text.len() as u64,
            text: Some((*text).to_owned()),
        };
        Tree { files: files.iter().map(file).collect(), roots, asked_for: Vec::new(), long_functions: String::new() }
    }
}

fn asked_for(root: &Path, workspace: &Workspace) -> Result<Vec<AskedFor>> {
    let mut asked_for = Vec::new();
    for package in workspace.members() {
        let folder = from_root(root, &package.folder)?;
        asked_for.extend(package.asks_for.iter().map(|name| AskedFor { folder: folder.clone(), name: name.clone() }));
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
    Ok(File { path: from_root(root, path)?, size: bytes.len() as u64, text: String::from_utf8(bytes).ok() })
}

fn from_root(root: &Path, path: &Path) -> Result<String> {
    let inside = path.strip_prefix(root).with_context(|| format!("{} lies outside the tree", path.display()))?;
    let folders: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    Ok(folders.join("/"))
}
