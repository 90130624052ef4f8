//! Runs the benches and prints what they say about each other. Only ratios of one run on one machine mean anything, and
//! none is asserted: a number that fails a build gets widened, a number that is read gets understood.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::machine::{self, Program};
use crate::shell;
use crate::workspace::{Package, Workspace};

/// One figure against another from the same run.
struct Ratio {
    says: &'static str,
    /// Names of benches as criterion files them: `group/function`, or `group/parameter`.
    of: &'static str,
    to: &'static str,
    wanted: &'static str,
}

const RATIOS: &[Ratio] = &[
    Ratio {
        says: "decide at 1 M keys: ringfence / governor",
        of: "decide/ringfence-1M",
        to: "decide/governor-1M",
        wanted: "at most 0.60",
    },
    Ratio { says: "match: 10,000 limits / 10 limits", of: "match/10000", to: "match/10", wanted: "0.80 to 1.20" },
    Ratio {
        says: "a check in a batch of 64 on a stream / alone",
        of: "check/stream-64",
        to: "check/unary",
        wanted: "far below 1",
    },
];

/// Nanoseconds per element where the bench says how many a round has, else per round; by the name of the bench.
type Figures = BTreeMap<String, f64>;

/// What a live key costs, by algorithm: a test that prints what it measures before it judges it.
const BYTES_PER_KEY: [&str; 8] =
    ["test", "--package", "ringfence-limits", "--test", "memory", "--", "--nocapture", "--test-threads=1"];

/// What the bench `store` needs besides.
const REDIS: Program = Program { name: "redis-server", package: "redis-server" };

/// Runs the bench of what a Redis costs and saves alone, on real nodes: all of its parts, or those that are named.
///
/// # Errors
/// When Redis is missing, or the bench cannot be built or fails.
pub fn store(root: &Path, parts: &[&str]) -> Result<()> {
    machine::need_programs(&[REDIS])?;
    let words = ["bench", "--package", "ringfence", "--bench", "store", "--"];
    shell::run(&mut shell::cargo(root, &[&words, parts].concat()))
}

/// Runs every bench of the workspace, then prints all figures and the ratios among them. What criterion does not measure (ratios
/// of things that take turns, the longest that a decision takes, bytes per key) is printed as it comes.
///
/// # Errors
/// When a bench cannot be built or run, or its figures cannot be read.
pub fn run(root: &Path) -> Result<()> {
    let workspace = Workspace::load(root)?;
    let benched: Vec<&str> = workspace.members().filter(|p| p.has_benches).map(|p: &Package| p.name.as_str()).collect();
    if benched.is_empty() {
        println!("no crate has benches");
        return Ok(());
    }
    // Where it cannot be had, the bench that needs it says so, and the others run.
    let _ = machine::need_programs(&[REDIS]);
    let began = SystemTime::now();
    let packages = benched.iter().flat_map(|name| ["--package", name]);
    let words: Vec<&str> = ["bench", "--bench", "*"].into_iter().chain(packages).collect();
    shell::run(&mut shell::cargo(root, &words))?;
    shell::run(&mut shell::cargo(root, &BYTES_PER_KEY))?;
    print!("{}", table(&read(&root.join("target/criterion"), began)?));
    Ok(())
}

fn table(figures: &Figures) -> String {
    let mut lines = vec![format!("{:<46} {:>14}", "bench", "ns")];
    lines.extend(figures.iter().map(|(name, time)| format!("{name:<46} {time:>14.1}")));
    lines.push(format!("\n{:<46} {:>14}   {}", "ratio", "measured", "wanted"));
    lines.extend(RATIOS.iter().map(|ratio| ratio_line(ratio, figures)));
    lines.join("\n") + "\n"
}

fn ratio_line(ratio: &Ratio, figures: &Figures) -> String {
    let measured = match (figures.get(ratio.of), figures.get(ratio.to)) {
        (Some(of), Some(to)) => format!("{:.2}", of / to),
        _ => "not measured".to_owned(),
    };
    format!("{:<46} {measured:>14}   {}", ratio.says, ratio.wanted)
}

/// Every `new/estimates.json` below the folder, named by the folders that lead to it. Criterion never forgets a bench
/// that was renamed or removed, so only what was written since then counts.
fn read(folder: &Path, since: SystemTime) -> Result<Figures> {
    let mut figures = Figures::new();
    read_below(folder, "", since, &mut figures)?;
    Ok(figures)
}

fn read_below(folder: &Path, name: &str, since: SystemTime, figures: &mut Figures) -> Result<()> {
    let estimates = folder.join("new/estimates.json");
    if estimates.metadata().and_then(|file| file.modified()).is_ok_and(|written| written >= since) {
        let elements = elements_of(&fs::read_to_string(folder.join("new/benchmark.json"))?)?;
        figures.insert(name.to_owned(), time_of(&fs::read_to_string(&estimates)?)? / elements);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let part = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() && !["new", "base", "change", "report"].contains(&part.as_str()) {
            let name = if name.is_empty() { part } else { format!("{name}/{part}") };
            read_below(&entry.path(), &name, since, figures)?;
        }
    }
    Ok(())
}

/// The slope over growing rounds where criterion measured one, since it leaves the constant cost of a sample out.
fn time_of(estimates: &str) -> Result<f64> {
    let estimates: Value = serde_json::from_str(estimates)?;
    let estimate = |kind: &str| estimates[kind]["point_estimate"].as_f64();
    estimate("slope").or_else(|| estimate("median")).context("criterion's file holds neither slope nor median")
}

/// How many elements one round has; 1 where the bench does not say.
fn elements_of(benchmark: &str) -> Result<f64> {
    let benchmark: Value = serde_json::from_str(benchmark)?;
    Ok(benchmark["throughput"]["Elements"].as_f64().unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_printed_when_both_of_its_sides_were_measured() {
        let both = Figures::from([("decide/ringfence-1M".to_owned(), 60.0), ("decide/governor-1M".to_owned(), 120.0)]);
        let table = table(&both);
        let measured = table.lines().find(|line| line.starts_with("decide at 1 M keys")).unwrap();
        assert!(measured.contains("0.50   at most 0.60"), "{measured}");
        let missing = table.lines().find(|line| line.starts_with("match:")).unwrap();
        assert!(missing.contains("not measured"), "{missing}");
    }

    #[test]
    fn figures_of_an_earlier_run_are_left_out() {
        let folder = std::env::temp_dir().join(format!("ringfence-bench-{}", std::process::id()));
        let new = folder.join("match/10/new");
        fs::create_dir_all(&new).unwrap();
        fs::write(new.join("estimates.json"), r#"{"slope":{"point_estimate":4000.0}}"#).unwrap();
        fs::write(new.join("benchmark.json"), r#"{"throughput":{"Elements":1000}}"#).unwrap();
        let written = fs::metadata(new.join("estimates.json")).unwrap().modified().unwrap();
        let this_run = read(&folder, written).unwrap();
        let next_run = read(&folder, written + std::time::Duration::from_secs(1)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(this_run, Figures::from([("match/10".to_owned(), 4.0)]));
        assert_eq!(next_run, Figures::new());
    }

    #[test]
    fn the_slope_is_preferred_and_the_median_will_do() {
        let slope = r#"{"slope":{"point_estimate":2.5},"median":{"point_estimate":3.0}}"#;
        assert_eq!(time_of(slope).unwrap(), 2.5);
        assert_eq!(time_of(r#"{"slope":null,"median":{"point_estimate":3.0}}"#).unwrap(), 3.0);
        assert!(time_of("{}").is_err());
    }

    #[test]
    fn a_round_of_many_elements_is_divided_among_them() {
        assert_eq!(elements_of(r#"{"throughput":{"Elements":4096}}"#).unwrap(), 4096.0);
        assert_eq!(elements_of(r#"{"throughput":null}"#).unwrap(), 1.0);
    }
}
