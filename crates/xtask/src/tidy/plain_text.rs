//! Bytes that no reader sees and every diff shows, and files that belong somewhere else.

use super::Finding;
use super::tree::Tree;

/// What a file of the tree may weigh: a repository is for what people read.
const BYTES_MAX: u64 = 1024 * 1024;

/// Lines that end in spaces or tabs.
pub fn trailing_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts() {
        let lines = text.split('\n').enumerate().filter(|(_, line)| line.ends_with([' ', '\t', '\r']));
        findings.extend(lines.map(|(at, _)| Finding::at(&file.path, at + 1, "space at the end of the line")));
    }
    findings
}

/// Files that weigh more than a mebibyte.
pub fn too_large(tree: &Tree) -> Vec<Finding> {
    let large = tree.files.iter().filter(|file| file.size > BYTES_MAX);
    large.map(|file| Finding::at(&file.path, 0, format!("{} bytes; at most {BYTES_MAX}", file.size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_at_the_end_of_a_line_is_found_where_it_is() {
        let tree = Tree::of(&[("a.md", "fine\nnot \nnor\t\nnor\r\nfine")]);
        let lines: Vec<usize> = trailing_space(&tree).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3, 4]);
    }

    #[test]
    fn a_file_of_a_mebibyte_may_stay_and_one_byte_more_may_not() {
        let mut tree = Tree::of(&[("fits", ""), ("large", "")]);
        tree.files[0].size = BYTES_MAX;
        tree.files[1].size = BYTES_MAX + 1;
        assert_eq!(too_large(&tree), [Finding::at("large", 0, "1048577 bytes; at most 1048576")]);
    }
}
