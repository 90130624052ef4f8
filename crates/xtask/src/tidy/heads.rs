//! Every Rust file opens with `//!` and one to five sentences on its idea: whoever opens it at three in the morning
//! should know within a breath whether this is the place.

use super::Finding;
use super::tree::Tree;

/// Files whose first line is not a module head, or whose head says nothing.
pub fn missing(tree: &Tree) -> Vec<Finding> {
    let silent = tree.rust().filter(|(_, text)| head(text).is_empty());
    silent.map(|(file, _)| Finding::at(&file.path, 1, "open with //! and one to five sentences on its idea")).collect()
}

/// The words of the head, without its marks.
fn head(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_head_is_found() {
        let tree =
            Tree::of(&[("a.rs", "//! An idea.\nfn a() {}\n"), ("b.rs", "// no\n"), ("c.rs", "//!\n"), ("d.rs", "")]);
        let found: Vec<String> = missing(&tree).into_iter().map(|finding| finding.file).collect();
        assert_eq!(found, ["b.rs", "c.rs", "d.rs"]);
    }

    #[test]
    fn only_rust_is_asked_for_a_head() {
        assert_eq!(missing(&Tree::of(&[("README.md", "# Title\n")])), []);
    }
}
