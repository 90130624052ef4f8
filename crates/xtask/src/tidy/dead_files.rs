//! A Rust file that no `mod` leads to is never compiled: it rots in silence. The check follows the declarations from
//! the roots that cargo builds, the same way the compiler does.

use std::collections::BTreeSet;

use super::Finding;
use super::source::words;
use super::tree::Tree;

/// Rust files that no root reaches.
pub fn unreachable(tree: &Tree) -> Vec<Finding> {
    let reached = reached(tree);
    let dead = tree.rust().filter(|(file, _)| !reached.contains(&file.path));
    dead.map(|(file, _)| Finding::at(&file.path, 0, "no `mod` leads here: declare it, or delete it")).collect()
}

fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut waiting = tree.roots.clone();
    while let Some(path) = waiting.pop() {
        let Some(code) = tree.code().find(|(file, _)| file.path == path).map(|(_, code)| code) else { continue };
        if reached.insert(path.clone()) {
            waiting.extend(declared(code).iter().flat_map(|name| places(&path, name, tree)));
        }
    }
    reached
}

/// The names in `mod name;`. A module written in place needs no file.
fn declared(code: &str) -> Vec<&str> {
    let all: Vec<(usize, &str)> = words(code).collect();
    let pairs = all.windows(2).filter(|pair| pair[0].1 == "mod");
    let declarations = pairs.filter(|pair| code[pair[1].0 + pair[1].1.len()..].trim_start().starts_with(';'));
    declarations.map(|pair| pair[1].1).collect()
}

/// Where the module may lie: beside a root or a `mod.rs`, else in the folder named like the file that declares it.
fn places(declaring: &str, name: &str, tree: &Tree) -> [String; 2] {
    let (folder, file) = declaring.rsplit_once('/').unwrap_or(("", declaring));
    let is_head = file == "mod.rs" || tree.roots.iter().any(|root| root == declaring);
    let home = if is_head { folder.to_owned() } else { declaring.trim_end_matches(".rs").to_owned() };
    let home = if home.is_empty() { home } else { home + "/" };
    [format!("{home}{name}.rs"), format!("{home}{name}/mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        unreachable(&Tree::of(files)).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn a_file_that_nothing_declares_is_dead() {
        assert_eq!(dead(&[("src/lib.rs", "mod a;"), ("src/a.rs", ""), ("src/b.rs", "")]), ["src/b.rs"]);
    }

    #[test]
    fn modules_are_found_beside_roots_and_below_others() {
        let files = [
            ("src/lib.rs", "pub mod a;\n#[cfg(test)]\nmod twin;"),
            ("src/twin.rs", ""),
            ("src/a/mod.rs", "mod b;"),
            ("src/a/b.rs", "pub(crate) mod c;"),
            ("src/a/b/c.rs", ""),
        ];
        assert_eq!(dead(&files), [""; 0]);
    }

    #[test]
    fn a_module_in_place_or_in_a_comment_leads_nowhere() {
        let files = [("src/lib.rs", "mod a { }\n// mod b;\n"), ("src/a.rs", ""), ("src/b.rs", "")];
        assert_eq!(dead(&files), ["src/a.rs", "src/b.rs"]);
    }

    #[test]
    fn what_only_a_dead_file_declares_is_dead_too() {
        let files = [("src/lib.rs", ""), ("src/a.rs", "mod b;"), ("src/a/b.rs", "")];
        assert_eq!(dead(&files), ["src/a.rs", "src/a/b.rs"]);
    }
}
