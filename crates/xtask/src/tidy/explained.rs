//! Every crate that we build on has its reason written down, in the last chapter of ARCHITECTURE.md. A dependency that
//! nobody can explain in a line is one that nobody would miss.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

const DOCUMENT: &str = "ARCHITECTURE.md";
const CHAPTER: &str = "## Why each dependency";

/// Crates that a manifest asks for and the chapter does not name, and the other way round.
pub fn missing(tree: &Tree) -> Vec<Finding> {
    let chapter = tree.text(DOCUMENT).and_then(|text| text.split_once(CHAPTER)).map_or("", |(_, chapter)| chapter);
    let named: BTreeSet<String> = chapter.lines().flat_map(names_in_row).collect();
    let others = tree.asked_for.iter().filter(|asked| !asked.own);
    let asked: BTreeSet<String> = others.map(|asked| asked.name.clone()).collect();
    let unexplained =
        asked.difference(&named).map(|name| format!("{name} is asked for and has no row: say what it is for"));
    let gone = named.difference(&asked).map(|name| format!("{name} has a row and nothing asks for it: strike it"));
    unexplained.chain(gone).map(|says| Finding::at(DOCUMENT, 0, says)).collect()
}

/// The crates in the first column of a row, as code spells them; headings and rules of the table hold none.
fn names_in_row(line: &str) -> Vec<String> {
    let column = line.strip_prefix("| ").and_then(|row| row.split_once(" |")).map_or("", |(column, _)| column);
    let names = column.split([',', ';', ' ']).filter(|name| !name.is_empty() && *name != "crate");
    names.map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::AskedFor;

    fn says(asked: &[(&str, bool)], rows: &str) -> Vec<String> {
        let document = format!("| other | table |\n\n{CHAPTER}\n\n| crate | for |\n|---|---|\n{rows}");
        let asked_for = |(name, own): &(&str, bool)| AskedFor {
            folder: "crates/a".to_owned(),
            sources: Vec::new(),
            name: (*name).to_owned(),
            own: *own,
        };
        let tree = Tree { asked_for: asked.iter().map(asked_for).collect(), ..Tree::of(&[(DOCUMENT, &document)]) };
        missing(&tree).into_iter().map(|finding| finding.says).collect()
    }

    #[test]
    fn a_crate_without_a_row_is_found_and_ours_need_none() {
        let asked = [("tokio", false), ("arc_swap", false), ("limits", true)];
        assert_eq!(says(&asked, "| tokio, arc-swap | both |\n"), [""; 0]);
        assert_eq!(says(&asked, "| tokio | io |\n"), ["arc_swap is asked for and has no row: say what it is for"]);
    }

    #[test]
    fn a_row_that_outlived_its_crate_is_found() {
        assert_eq!(says(&[], "| tokio | io |\n"), ["tokio has a row and nothing asks for it: strike it"]);
    }
}
