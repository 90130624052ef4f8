//! Who may depend on whom. The table below is the whole of it: ARCHITECTURE.md quotes it word for word, and what cargo
//! says about the tree is held against it. Pure crates are also held to what they may never reach, however far away.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::{Package, Workspace};

/// The allowed edges between our crates: a crate may use what stands to the right of it, and need not.
pub const EDGES: &str = "\
limits     -> nothing of ours
ring       -> nothing of ours
policy     -> limits
ownership  -> limits, ring
control    -> limits, ring, ownership
wire       -> limits, ring, policy, ownership, control
histogram  -> nothing of ours
store      -> limits, ring, ownership, wire, histogram
node       -> limits, ring, policy, ownership, control, wire, histogram, store, sim
server     -> limits, policy, ownership, control, wire, histogram, store, node
client     -> wire, ring, limits
ringfence  -> ring, policy, ownership, wire, store, node, server, client, sim
sim        -> limits, ring, policy, ownership, control
simulate   -> ownership, sim
chaos      -> limits, policy, client, sim
xtask      -> nothing of ours
";

/// Nothing may depend on these, whatever the table says: they are ends, not means.
const ENDS: &[&str] = &["ringfence", "xtask", "tests", "chaos", "simulate"];

/// The crates that decide and touch nothing, each with what it must never reach through what it needs to run.
pub const PURE: &[(&str, &[&[Banned]])] = &[
    ("limits", &[IO, FORMATS, SERDE]),
    ("ring", &[IO, FORMATS, SERDE]),
    // Policy documents are read from text by a parser that speaks serde; the compiled catalogue does not.
    ("policy", &[IO, FORMATS]),
    ("ownership", &[IO, FORMATS, SERDE]),
    ("control", &[IO, FORMATS, SERDE]),
    ("sim", &[IO, FORMATS, SERDE]),
];

/// A crate by its name, and why it has no place below a pure crate.
pub type Banned = (&'static str, &'static str);

const IO: &[Banned] = &[
    ("tokio", "an async runtime belongs to the shells"),
    ("async-std", "an async runtime belongs to the shells"),
    ("smol", "an async runtime belongs to the shells"),
    ("futures-util", "whoever waits is a shell"),
    ("mio", "sockets belong to the shells"),
    ("socket2", "sockets belong to the shells"),
    ("hyper", "sockets belong to the shells"),
    ("axum", "front doors belong to server"),
    ("tonic", "front doors belong to server, peers to node"),
    ("ureq", "sockets belong to the shells"),
    ("libc", "system calls belong to the shells"),
    ("rustix", "system calls belong to the shells"),
    ("nix", "system calls belong to the shells"),
    ("redb", "files belong to node"),
    ("redis", "stores belong to the shells"),
    ("openraft", "its generics stay in node"),
    ("foca", "gossip is driven by node"),
    ("rand", "chance comes in as an argument, from a seed that the shell made"),
    ("getrandom", "chance comes in as an argument, from a seed that the shell made"),
    ("fastrand", "chance comes in as an argument, from a seed that the shell made"),
    ("ahash", "a hash with a random seed makes two runs differ"),
    ("dashmap", "locks belong to whoever shares, and iteration must have an order"),
    ("parking_lot", "locks belong to whoever shares"),
    ("tracing", "a machine tells what happened as a value; the shell writes it down"),
    ("log", "a machine tells what happened as a value; the shell writes it down"),
];

const FORMATS: &[Banned] = &[("prost", "wire types stop at the door, in the crate wire")];

const SERDE: &[Banned] =
    &[("serde", "domain types are not documents"), ("serde_core", "domain types are not documents")];

/// Asks cargo and says what does not fit.
///
/// # Errors
/// When an edge is not in the table, or a pure crate reaches what it must not; each is printed.
pub fn run(root: &Path) -> Result<()> {
    let findings = findings(&Workspace::load(root)?, EDGES);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} edges do not fit the table in crates/xtask/src/layering.rs", findings.len());
    }
    Ok(())
}

/// Everything about this workspace that `edges` does not allow, in words.
fn findings(workspace: &Workspace, edges: &str) -> Vec<String> {
    let table = Table::parse(edges);
    let mut findings = table.rows_without_a_crate(workspace);
    for package in workspace.members() {
        findings.extend(table.refused_edges(workspace, package));
        findings.extend(banned_reaches(workspace, package));
    }
    findings
}

struct Table<'a> {
    may_use: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Table<'a> {
    fn parse(edges: &'a str) -> Table<'a> {
        let rows = edges.lines().filter_map(|line| line.split_once("->"));
        let names = |uses: &'a str| uses.split(',').map(str::trim).filter(|name| *name != "nothing of ours").collect();
        Table { may_use: rows.map(|(name, uses)| (name.trim(), names(uses))).collect() }
    }

    fn rows_without_a_crate(&self, workspace: &Workspace) -> Vec<String> {
        let there: BTreeSet<&str> = workspace.members().map(Package::short_name).collect();
        let gone = self.may_use.keys().filter(|name| !there.contains(*name));
        gone.map(|name| format!("the table has a row for {name}, and there is no such crate")).collect()
    }

    fn refused_edges(&self, workspace: &Workspace, package: &Package) -> Vec<String> {
        let from = package.short_name();
        let Some(may_use) = self.may_use.get(from) else {
            return vec![format!(
                "{from} has no row in the table of edges: give it one, and say so in ARCHITECTURE.md"
            )];
        };
        let used = workspace.own_dependencies(package).map(Package::short_name);
        used.filter_map(|to| match to {
            _ if ENDS.contains(&to) => Some(format!("{from} -> {to}: nothing depends on {to}")),
            _ if !may_use.contains(to) => Some(format!("{from} -> {to}: not in the table of edges")),
            _ => None,
        })
        .collect()
    }
}

fn banned_reaches(workspace: &Workspace, package: &Package) -> Vec<String> {
    let Some((_, lists)) = PURE.iter().find(|(name, _)| *name == package.short_name()) else { return Vec::new() };
    let ways = workspace.reached_by(package);
    let banned = lists.iter().copied().flatten();
    banned.filter_map(|(name, why)| ways.get(name).map(|way| format!("{}: {why}", way.join(" -> ")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::made_up::workspace;

    const SMALL: &str = "limits -> nothing of ours\npolicy -> limits\n";

    #[test]
    fn a_tree_that_fits_has_no_findings() {
        let tree = workspace(&[
            ("ringfence-limits", "MIT", &["hashbrown"]),
            ("ringfence-policy", "MIT", &["ringfence-limits"]),
            ("hashbrown", "MIT", &[]),
        ]);
        assert_eq!(findings(&tree, SMALL), [""; 0]);
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_refused() {
        let tree = workspace(&[("ringfence-limits", "MIT", &["ringfence-policy"]), ("ringfence-policy", "MIT", &[])]);
        assert_eq!(findings(&tree, SMALL), ["limits -> policy: not in the table of edges"]);
    }

    #[test]
    fn an_edge_for_tests_only_is_an_edge_too() {
        let tree =
            workspace(&[("ringfence-limits", "MIT", &["dev:ringfence-policy"]), ("ringfence-policy", "MIT", &[])]);
        assert_eq!(findings(&tree, SMALL), ["limits -> policy: not in the table of edges"]);
    }

    #[test]
    fn nothing_depends_on_the_binary_or_the_errands_even_if_the_table_says_so() {
        let tree = workspace(&[
            ("ringfence-limits", "MIT", &["ringfence", "xtask"]),
            ("ringfence", "MIT", &[]),
            ("xtask", "MIT", &[]),
        ]);
        let edges = "limits -> ringfence, xtask\nringfence -> nothing of ours\nxtask -> nothing of ours\n";
        let expected =
            ["limits -> ringfence: nothing depends on ringfence", "limits -> xtask: nothing depends on xtask"];
        assert_eq!(findings(&tree, edges), expected);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_both_named() {
        let tree = workspace(&[("ringfence-limits", "MIT", &[]), ("ringfence-mystery", "MIT", &[])]);
        let findings = findings(&tree, SMALL);
        assert_eq!(findings[0], "the table has a row for policy, and there is no such crate");
        assert!(findings[1].starts_with("mystery has no row in the table of edges"), "{findings:?}");
    }

    #[test]
    fn a_pure_crate_that_reaches_a_runtime_through_others_is_shown_the_way() {
        let tree = workspace(&[
            ("ringfence-limits", "MIT", &["handy"]),
            ("ringfence-policy", "MIT", &[]),
            ("handy", "MIT", &["tokio"]),
            ("tokio", "MIT", &[]),
        ]);
        let expected = ["ringfence-limits -> handy -> tokio: an async runtime belongs to the shells"];
        assert_eq!(findings(&tree, SMALL), expected);
    }

    #[test]
    fn what_only_tests_of_a_pure_crate_use_is_free() {
        let tree = workspace(&[
            ("ringfence-limits", "MIT", &["dev:tokio"]),
            ("ringfence-policy", "MIT", &[]),
            ("tokio", "MIT", &[]),
        ]);
        assert_eq!(findings(&tree, SMALL), [""; 0]);
    }

    #[test]
    fn every_ban_of_every_pure_crate_fires() {
        for (name, lists) in PURE {
            for (banned, why) in lists.iter().copied().flatten() {
                let package = format!("ringfence-{name}");
                let tree = workspace(&[(&package, "MIT", &[banned]), (banned, "MIT", &[])]);
                let expected = format!("{package} -> {banned}: {why}");
                assert_eq!(findings(&tree, &format!("{name} -> nothing of ours")), [expected]);
            }
        }
    }

    #[test]
    fn only_policy_may_reach_serde() {
        let reads_documents = |name: &str| {
            let package = format!("ringfence-{name}");
            let tree = workspace(&[(&package, "MIT", &["serde"]), ("serde", "MIT", &[])]);
            findings(&tree, &format!("{name} -> nothing of ours")).is_empty()
        };
        let allowed: Vec<&str> = PURE.iter().map(|(name, _)| *name).filter(|name| reads_documents(name)).collect();
        assert_eq!(allowed, ["policy"]);
    }

    #[test]
    fn the_architecture_document_quotes_the_table_word_for_word() {
        let document = std::fs::read_to_string(crate::root().join("ARCHITECTURE.md")).unwrap();
        assert!(document.contains(EDGES), "ARCHITECTURE.md must hold this, as it is:\n{EDGES}");
    }

    #[test]
    fn the_tree_as_it_stands_fits_the_table() {
        assert_eq!(findings(&Workspace::load(&crate::root()).unwrap(), EDGES), [""; 0]);
    }
}
