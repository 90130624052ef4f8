//! Clippy reads the `clippy.toml` nearest to a crate and that one alone. So each pure crate has the whole set: the bans
//! with their reasons, and the settings of the file at the root. Here they are held together.

use super::Finding;
use super::tree::Tree;
use crate::layering::PURE;

const ROOT: &str = "clippy.toml";

/// Pure crates without the file, files that differ from the first, and settings of the root that they lack.
pub fn disagreements(tree: &Tree) -> Vec<Finding> {
    let paths: Vec<String> = PURE.iter().map(|(name, _)| format!("crates/{name}/clippy.toml")).collect();
    let Some((first, model)) = paths.iter().find_map(|path| Some((path, tree.text(path)?))) else {
        return vec![Finding::at(&paths[0], 0, "the pure crates have no bans")];
    };
    let mut findings: Vec<Finding> = paths.iter().filter_map(|path| disagreement(tree, path, first, model)).collect();
    let settings =
        tree.text(ROOT).unwrap_or_default().lines().filter(|line| line.contains('=') && !line.starts_with('#'));
    let lacking = settings.filter(|setting| !model.lines().any(|line| line == *setting));
    findings.extend(lacking.map(|setting| Finding::at(first, 0, format!("lacks `{setting}`, which the root has"))));
    findings
}

fn disagreement(tree: &Tree, path: &str, first: &str, model: &str) -> Option<Finding> {
    match tree.text(path) {
        None => Some(Finding::at(path, 0, format!("is not there: copy {first}"))),
        Some(text) if text != model => Some(Finding::at(path, 0, format!("differs from {first}"))),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(own: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![(ROOT, "# why\nallow-unwrap-in-tests = true\n")];
        files.extend(own);
        disagreements(&Tree::of(&files)).iter().map(Finding::to_string).collect()
    }

    fn all_with(text: &str) -> Vec<(String, String)> {
        PURE.iter().map(|(name, _)| (format!("crates/{name}/clippy.toml"), text.to_owned())).collect()
    }

    fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
    }

    #[test]
    fn equal_files_that_keep_the_roots_settings_agree() {
        let files = all_with("allow-unwrap-in-tests = true\ndisallowed-methods = []\n");
        assert_eq!(says(&borrowed(&files)), [""; 0]);
    }

    #[test]
    fn a_file_that_is_missing_or_differs_is_named() {
        let mut files = all_with("allow-unwrap-in-tests = true\n");
        files[1].1.push_str("# mine\n");
        files.remove(2);
        let expected = [
            "crates/ring/clippy.toml: differs from crates/limits/clippy.toml",
            "crates/policy/clippy.toml: is not there: copy crates/limits/clippy.toml",
        ];
        assert_eq!(says(&borrowed(&files)), expected);
    }

    #[test]
    fn a_setting_of_the_root_that_they_lack_is_named() {
        let files = all_with("disallowed-methods = []\n");
        let expected = ["crates/limits/clippy.toml: lacks `allow-unwrap-in-tests = true`, which the root has"];
        assert_eq!(says(&borrowed(&files)), expected);
    }

    #[test]
    fn no_bans_at_all_is_a_finding() {
        assert_eq!(says(&[]), ["crates/limits/clippy.toml: the pure crates have no bans"]);
    }
}
