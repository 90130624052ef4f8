//! What a manifest asks for and no code names is built for nothing, on every machine. A word search is enough to find
//! it: code cannot use a crate without naming it, but for the few that only generated code names.

use std::collections::BTreeSet;

use super::Finding;
use super::source::words;
use super::tree::{AskedFor, Tree};

/// Crates that only code made by the build script names.
const IN_GENERATED_CODE: &[(&str, &str)] = &[("crates/wire", "tonic_prost"), ("crates/wire", "prost")];

/// Dependencies that no Rust file of their package names.
pub fn dependencies(tree: &Tree) -> Vec<Finding> {
    let named: Vec<(&str, BTreeSet<&str>)> = tree.code().map(|(file, code)| (&*file.path, names_in(code))).collect();
    let unused = tree.asked_for.iter().filter(|asked| !is_used(asked, &named));
    let finding = |asked: &AskedFor| {
        let manifest = format!("{}/Cargo.toml", asked.folder);
        Finding::at(&manifest, 0, format!("no code names {}: strike it", asked.name))
    };
    let findings: BTreeSet<Finding> = unused.map(finding).collect();
    findings.into_iter().collect()
}

fn names_in(code: &str) -> BTreeSet<&str> {
    words(code).map(|(_, word)| word).collect()
}

fn is_used(asked: &AskedFor, named: &[(&str, BTreeSet<&str>)]) -> bool {
    let AskedFor { folder, sources, name, own: _ } = asked;
    let is_inside = |path: &str| {
        sources.iter().any(|source| path.strip_prefix(source.as_str()).is_some_and(|rest| rest.starts_with('/')))
    };
    IN_GENERATED_CODE.contains(&(folder, name))
        || named.iter().any(|(path, names)| is_inside(path) && names.contains(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(asked: &[(&str, &str)], files: &[(&str, &str)]) -> Vec<String> {
        let asked_for = |(folder, name): &(&str, &str)| AskedFor {
            folder: (*folder).to_owned(),
            sources: vec![(*folder).to_owned(), "tests/cluster".to_owned()],
            name: (*name).to_owned(),
            own: false,
        };
        let tree = Tree { asked_for: asked.iter().map(asked_for).collect(), ..Tree::of(files) };
        dependencies(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_dependency_that_only_a_comment_names_is_found() {
        let files = [("crates/a/src/lib.rs", "// tokio\nuse serde_json::Value;")];
        let expected = ["crates/a/Cargo.toml: no code names tokio: strike it"];
        assert_eq!(says(&[("crates/a", "tokio"), ("crates/a", "serde_json")], &files), expected);
    }

    #[test]
    fn another_crates_code_does_not_count() {
        let files = [("crates/ab/src/lib.rs", "use tokio::task;")];
        assert_eq!(says(&[("crates/a", "tokio")], &files).len(), 1);
    }

    #[test]
    fn code_of_a_target_that_lies_elsewhere_counts() {
        let files = [("tests/cluster/main.rs", "use tokio::task;")];
        assert_eq!(says(&[("crates/a", "tokio")], &files), [""; 0]);
    }

    #[test]
    fn what_only_generated_code_names_is_excused_where_it_is_listed() {
        assert_eq!(says(&[("crates/wire", "tonic_prost")], &[]), [""; 0]);
        assert_eq!(says(&[("crates/node", "tonic_prost")], &[]).len(), 1);
    }
}
