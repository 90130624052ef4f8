//! What cargo knows about this workspace: its packages, who depends on whom, and under which licence. Read once from
//! `cargo metadata`; the gates work on this value, so a test can make one up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::shell;

/// All packages of the dependency graph, ours and others'.
#[derive(Debug, Default)]
pub struct Workspace {
    /// By cargo's package id.
    packages: BTreeMap<String, Package>,
}

/// One package at one version.
#[derive(Debug)]
pub struct Package {
    /// As in its `Cargo.toml`.
    pub name: String,
    pub version: String,
    /// SPDX expression; absent when the package names none.
    pub licence: Option<String>,
    /// One of ours.
    pub member: bool,
    /// Runs inside the compiler: it never becomes part of what we ship.
    pub proc_macro: bool,
    /// Where its `Cargo.toml` lies.
    pub folder: PathBuf,
    /// What its manifest asks for, as code spells it: renamed, with underscores.
    pub asks_for: Vec<String>,
    /// Root files of its libraries, binaries, tests, benches, examples and build script.
    pub roots: Vec<PathBuf>,
    /// Has at least one bench of its own.
    pub has_benches: bool,
    dependencies: Vec<Dependency>,
}

/// One edge of the graph.
#[derive(Debug)]
struct Dependency {
    id: String,
    /// Needed to run, as against only to build or to test.
    normal: bool,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    /// When cargo cannot answer: a broken manifest, or crates that are neither here nor on the network.
    pub fn load(root: &Path) -> Result<Workspace> {
        let text = shell::answer(&mut shell::cargo(root, &["metadata", "--format-version", "1"]))
            .context("cargo metadata has no answer; `cargo metadata` by itself says why")?;
        Workspace::from_json(&serde_json::from_str(&text)?)
    }

    /// Reads the document that `cargo metadata --format-version 1` prints.
    ///
    /// # Errors
    /// When a field that we rely on is missing.
    pub fn from_json(document: &Value) -> Result<Workspace> {
        let members: BTreeSet<&str> = array(document, "workspace_members")?.iter().filter_map(Value::as_str).collect();
        let mut packages = BTreeMap::new();
        let mut listed = BTreeMap::new();
        for package in array(document, "packages")? {
            let id = text(package, "id")?;
            packages.insert(id.clone(), Package::from_json(package, members.contains(id.as_str()))?);
            listed.insert(id, package);
        }
        for node in array(&document["resolve"], "nodes")? {
            let id = text(node, "id")?;
            let package = packages.get_mut(&id).context("a resolved package that is not listed")?;
            let edges = array(node, "deps")?.iter().filter(|edge| is_switched_on(edge, node, listed[&id]));
            package.dependencies = edges.map(Dependency::from_json).collect::<Result<_>>()?;
        }
        Ok(Workspace { packages })
    }

    /// Every package, ours and others', in the order of their ids.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.values()
    }

    /// Our own packages.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages().filter(|package| package.member)
    }

    /// Our own packages that `package` names in its manifest, for whatever purpose.
    pub fn own_dependencies<'a>(&'a self, package: &'a Package) -> impl Iterator<Item = &'a Package> {
        package.dependencies.iter().filter_map(|edge| self.packages.get(&edge.id)).filter(|to| to.member)
    }

    /// Every package that becomes part of `package` when it runs, with the way there: the names from `package` to it.
    pub fn reached_by<'a>(&'a self, package: &'a Package) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut ways = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![(package, vec![package.name.as_str()])];
        while let Some((from, way)) = waiting.pop() {
            for edge in from.dependencies.iter().filter(|edge| edge.normal) {
                let Some(to) = self.packages.get(&edge.id) else { continue };
                // By id and not by name: two versions of one crate may need different things.
                if to.proc_macro || !seen.insert(edge.id.as_str()) {
                    continue;
                }
                let way: Vec<&str> = way.iter().copied().chain([to.name.as_str()]).collect();
                ways.insert(to.name.as_str(), way.clone());
                waiting.push((to, way));
            }
        }
        ways
    }
}

impl Package {
    /// How our own code calls it: `ringfence-limits` is `limits`.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("ringfence-").unwrap_or(&self.name)
    }

    fn from_json(package: &Value, member: bool) -> Result<Package> {
        let manifest = PathBuf::from(text(package, "manifest_path")?);
        let targets = array(package, "targets")?;
        let is = |target: &Value, kind: &str| target["kind"].as_array().is_some_and(|all| all.contains(&kind.into()));
        Ok(Package {
            name: text(package, "name")?,
            version: text(package, "version")?,
            licence: package["license"].as_str().map(str::to_owned),
            member,
            proc_macro: targets.iter().any(|target| is(target, "proc-macro")),
            folder: manifest.parent().context("a manifest lies in a folder")?.to_path_buf(),
            asks_for: array(package, "dependencies")?.iter().map(spelling).collect::<Result<_>>()?,
            roots: targets.iter().map(|target| Ok(PathBuf::from(text(target, "src_path")?))).collect::<Result<_>>()?,
            has_benches: targets.iter().any(|target| is(target, "bench")),
            dependencies: Vec::new(),
        })
    }
}

impl Dependency {
    fn from_json(edge: &Value) -> Result<Dependency> {
        Ok(Dependency {
            id: text(edge, "pkg")?,
            normal: array(edge, "dep_kinds")?.iter().any(|kind| kind["kind"].is_null()),
        })
    }
}

/// Whether a dependency is built at all. Cargo lists an optional one as soon as a feature *would* pass something on to it
/// (`log?/std`), which by itself does not switch it on.
fn is_switched_on(edge: &Value, node: &Value, package: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let runs = |asked: &Value| asked["kind"].is_null();
    let is_it = |asked: &&Value| runs(asked) && spelling(asked).is_ok_and(|name| edge["name"] == name.as_str());
    let asked: Vec<Value> = list(&package["dependencies"]);
    let asked: Vec<&Value> = asked.iter().filter(is_it).collect();
    let optional = !asked.is_empty() && asked.iter().all(|asked| asked["optional"] == true);
    let switches = |entry: &Value| {
        let entry = entry.as_str().unwrap_or_default();
        let name = entry.strip_prefix("dep:").or_else(|| entry.split_once('/').map(|(name, _)| name)).unwrap_or(entry);
        edge["name"] == name.replace('-', "_").as_str()
    };
    let features = list(&node["features"]);
    let entries = features.iter().filter_map(Value::as_str).map(|feature| list(&package["features"][feature]));
    !optional || entries.flatten().any(|entry| switches(&entry))
}

/// How code calls a dependency: by its new name where it has one.
fn spelling(dependency: &Value) -> Result<String> {
    let name = dependency["rename"].as_str().map_or_else(|| text(dependency, "name"), |name| Ok(name.to_owned()));
    Ok(name?.replace('-', "_"))
}

fn array<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("cargo metadata: `{field}` is not a list"))
}

fn text(value: &Value, field: &str) -> Result<String> {
    Ok(value[field].as_str().with_context(|| format!("cargo metadata: `{field}` is not text"))?.to_owned())
}

/// A made-up workspace, for the gates' own tests.
#[cfg(test)]
pub mod made_up {
    use serde_json::{Value, json};

    use super::Workspace;

    /// A workspace in which each `(package, licence, dependencies)` is one line. Packages named `ringfence*` or `xtask`
    /// are members; a dependency written `dev:x` is only for tests, and a package written `macro:x` is a proc macro.
    pub fn workspace(lines: &[(&str, &str, &[&str])]) -> Workspace {
        let mine = |name: &str| name.starts_with("ringfence") || name == "xtask";
        let plain = |name: &str| name.trim_start_matches("macro:").to_owned();
        let members: Vec<String> = lines.iter().map(|line| plain(line.0)).filter(|name| mine(name)).collect();
        let packages: Vec<Value> = lines.iter().map(|(name, licence, _)| package(name, licence)).collect();
        let nodes: Vec<Value> =
            lines.iter().map(|(name, _, uses)| json!({ "id": plain(name), "deps": edges(uses) })).collect();
        let document = json!({ "workspace_members": members, "packages": packages, "resolve": { "nodes": nodes } });
        Workspace::from_json(&document).expect("made up in the shape cargo uses")
    }

    fn package(name: &str, licence: &str) -> Value {
        let kind = if name.starts_with("macro:") { "proc-macro" } else { "lib" };
        let name = name.trim_start_matches("macro:");
        let licence = if licence.is_empty() { Value::Null } else { licence.into() };
        json!({
            "id": name, "name": name, "version": "1.0.0", "license": licence, "dependencies": [],
            "manifest_path": format!("crates/{name}/Cargo.toml"),
            "targets": [{ "kind": [kind], "src_path": format!("crates/{name}/src/lib.rs") }],
        })
    }

    fn edges(uses: &[&str]) -> Vec<Value> {
        let kind = |name: &str| if name.starts_with("dev:") { "dev".into() } else { Value::Null };
        uses.iter()
            .map(|name| json!({ "pkg": name.trim_start_matches("dev:"), "dep_kinds": [{ "kind": kind(name) }] }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::made_up::workspace;
    use super::*;

    #[test]
    fn what_runs_is_followed_to_its_end_and_tests_and_macros_are_not() {
        let made_up = workspace(&[
            ("ringfence-limits", "MIT", &["a", "dev:proptest", "derive"]),
            ("a", "MIT", &["b"]),
            ("b", "MIT", &[]),
            ("proptest", "MIT", &["rand"]),
            ("rand", "MIT", &[]),
            ("macro:derive", "MIT", &["syn"]),
            ("syn", "MIT", &[]),
        ]);
        let limits = made_up.members().next().unwrap();
        let ways = made_up.reached_by(limits);
        assert_eq!(ways.keys().copied().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(ways["b"], ["ringfence-limits", "a", "b"]);
    }

    #[test]
    fn an_optional_crate_that_no_feature_switches_on_is_not_followed() {
        let reached = |enabled: &[&str]| {
            let edge = |name: &str| json!({ "name": name, "pkg": name, "dep_kinds": [{ "kind": null }] });
            let asked = |name: &str, optional: bool| json!({ "name": name, "rename": null, "optional": optional });
            let package = |name: &str, asks: Value, features: Value| {
                json!({
                    "id": name, "name": name, "version": "1.0.0", "license": "MIT", "targets": [],
                    "manifest_path": "Cargo.toml", "dependencies": asks, "features": features,
                })
            };
            let features = json!({ "std": ["log?/std"], "logging": ["dep:log"], "serde": ["serde-core/std"] });
            let for_tests = json!({ "name": "log", "rename": null, "optional": false, "kind": "dev" });
            let asks = json!([asked("log", true), for_tests, asked("serde-core", true), asked("plain", false)]);
            let document = json!({
                "workspace_members": ["a"],
                "packages": [
                    package("a", asks, features),
                    package("log", json!([]), json!({})),
                    package("serde_core", json!([]), json!({})),
                    package("plain", json!([]), json!({})),
                ],
                "resolve": { "nodes": [
                    { "id": "a", "features": enabled, "deps": [edge("log"), edge("serde_core"), edge("plain")] },
                ] },
            });
            let workspace = Workspace::from_json(&document).unwrap();
            let a = workspace.members().next().unwrap();
            workspace.reached_by(a).into_keys().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(reached(&["std"]), ["plain"]);
        assert_eq!(reached(&["std", "logging"]), ["log", "plain"]);
        assert_eq!(reached(&["serde"]), ["plain", "serde_core"]);
    }

    #[test]
    fn this_very_workspace_can_be_read() {
        let workspace = Workspace::load(&crate::root()).unwrap();
        assert!(workspace.members().any(|package| package.short_name() == "limits"));
        assert!(workspace.packages().any(|package| !package.member));
    }

    #[test]
    fn a_document_without_its_lists_is_refused_by_field() {
        let error = Workspace::from_json(&serde_json::json!({})).unwrap_err().to_string();
        assert_eq!(error, "cargo metadata: `workspace_members` is not a list");
    }
}
