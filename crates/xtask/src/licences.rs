//! Under which licences the code we build on may stand. Every package of the graph is held against one list, those for
//! tests and builds included; `deny.toml` mirrors the list, and cargo-deny adds the advisories where it is installed.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell;
use crate::spdx::Expression;
use crate::workspace::{Package, Workspace};

/// Licences that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// One package under a licence that is fine for it and would not be for others.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Copyleft by the file. It is used unchanged and linked beside our code, which keeps its own licence.
    ("foca", "MPL-2.0"),
];

/// Holds every licence against the list, then asks cargo-deny where it is there.
///
/// # Errors
/// When a package stands under a licence that is not listed, or under none; each is printed. When cargo-deny objects.
pub fn run(root: &Path) -> Result<()> {
    let findings = findings(&Workspace::load(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} packages stand under licences that crates/xtask/src/licences.rs does not list", findings.len());
    }
    if shell::answer(&mut shell::cargo(root, &["deny", "--version"])).is_none() {
        println!("cargo-deny is not installed: licences are checked, advisories are not");
        return Ok(());
    }
    shell::run(&mut shell::cargo(root, &["deny", "check"]))
}

fn findings(workspace: &Workspace) -> Vec<String> {
    workspace.packages().filter_map(objection).collect()
}

fn objection(package: &Package) -> Option<String> {
    let Package { name, version, licence, .. } = package;
    let Some(licence) = licence else { return Some(format!("{name} {version} names no licence")) };
    match Expression::parse(licence) {
        Ok(expression) if expression.is_satisfied(&|licence| is_allowed(name, licence)) => None,
        Ok(_) => Some(format!("{name} {version} is under `{licence}`, which is not on the list")),
        Err(error) => {
            Some(format!("{name} {version} says `{licence}`: found `{}`, expected {}", error.found, error.expected))
        }
    }
}

fn is_allowed(package: &str, licence: &str) -> bool {
    ALLOWED.contains(&licence) || EXCEPTIONS.contains(&(package, licence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::made_up::workspace;

    #[test]
    fn a_listed_licence_passes_and_another_is_named_with_its_package() {
        let tree = workspace(&[("good", "MIT OR GPL-3.0-only", &[]), ("bad", "GPL-3.0-only", &[])]);
        assert_eq!(findings(&tree), ["bad 1.0.0 is under `GPL-3.0-only`, which is not on the list"]);
    }

    #[test]
    fn an_exception_is_for_its_package_alone() {
        let tree = workspace(&[("foca", "MPL-2.0", &[]), ("other", "MPL-2.0", &[])]);
        assert_eq!(findings(&tree), ["other 1.0.0 is under `MPL-2.0`, which is not on the list"]);
    }

    #[test]
    fn a_package_without_a_licence_is_refused() {
        assert_eq!(findings(&workspace(&[("bare", "", &[])])), ["bare 1.0.0 names no licence"]);
    }

    #[test]
    fn an_unreadable_licence_is_refused_with_what_was_due() {
        let expected = "odd 1.0.0 says `MIT and ISC`: found `and`, expected AND, OR or the end";
        assert_eq!(findings(&workspace(&[("odd", "MIT and ISC", &[])])), [expected]);
    }

    #[test]
    fn the_tree_as_it_stands_is_under_listed_licences() {
        assert_eq!(findings(&Workspace::load(&crate::root()).unwrap()), [""; 0]);
    }

    #[test]
    fn cargo_denys_file_holds_the_same_list_and_the_same_exceptions() {
        let file = std::fs::read_to_string(crate::root().join("deny.toml")).unwrap();
        let (_, after) = file.split_once("\nallow = [").unwrap();
        let (list, rest) = after.split_once(']').unwrap();
        let listed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(listed, ALLOWED);

        let (_, after) = rest.split_once("\nexceptions = [").unwrap();
        let (exceptions, _) = after.split_once("]\n").unwrap();
        let words: Vec<&str> = exceptions.split('"').skip(1).step_by(2).collect();
        let ours: Vec<&str> = EXCEPTIONS.iter().flat_map(|(package, licence)| [*package, *licence]).collect();
        assert_eq!(words, ours);
    }
}
