//! The page of the grid: a part of docs/simulation.md that this program writes, between two marks.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::resume::State;

const BEGIN: &str = "<!-- grid: written by `cargo xtask sim --write-docs` -->";
const END: &str = "<!-- end of the grid -->";

/// Puts what the campaign covered into the page.
///
/// # Errors
/// When the page is not there, has no marks, or cannot be written.
pub fn write(state: &State) -> Result<()> {
    let path = path();
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let played = state.next - state.seeds.start;
    let part = format!("Seeds {}..{}, {played} in all.\n\n{}", state.seeds.start, state.next, state.grid.markdown());
    let text = with_part(&text, &part).with_context(|| format!("{} has no place for the grid", path.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn with_part(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim_end()))
}

/// This crate lies two folders below the root.
fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_between_the_marks_is_replaced_and_nothing_else() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = with_part(&text, "new\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert_eq!(with_part(&once, "new\n").unwrap(), once);
        assert_eq!(with_part("nothing", "new"), None);
    }

    #[test]
    fn the_page_in_the_tree_has_a_place_for_it() {
        let text = fs::read_to_string(path()).unwrap();
        assert!(with_part(&text, "").is_some());
    }
}
