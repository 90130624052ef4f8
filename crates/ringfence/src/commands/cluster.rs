//! `ringfence cluster`: what the cluster looks like from one node, as tables for people or JSON for programs.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::calls::Calls;
use crate::cli::{Cluster, Output, Target};
use crate::commands::{print_json, put, shown};
use crate::exit::Exit;

/// How often `status --wait` looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Runs one of the cluster commands.
pub fn run(command: &Cluster, target: &Target, output: Output) -> anyhow::Result<Exit> {
    let calls = Calls::to(&target.admin);
    match command {
        Cluster::Status { wait } => status(&calls, *wait, output),
        Cluster::Map => map(&calls, output),
    }
}

fn status(calls: &Calls, wait: Option<Duration>, output: Output) -> anyhow::Result<Exit> {
    let (cluster, settled) = match wait {
        None => (cluster_of(calls)?, true),
        Some(wait) => settled_cluster(calls, wait)?,
    };
    match output {
        Output::Json => print_json("cluster", &cluster),
        Output::Text => put(&status_text(&cluster)),
    }
    if settled {
        return Ok(Exit::Ok);
    }
    eprintln!("ringfence: not settled: {}", unsettled(&cluster).unwrap_or_else(|| "unknown".to_owned()));
    Ok(Exit::Failure)
}

/// What `status` prints, as text for people.
pub fn status_of(calls: &Calls) -> anyhow::Result<String> {
    Ok(status_text(&cluster_of(calls)?))
}

/// Looks until the cluster is settled or the time is up; a node that cannot be reached yet is waited for as well.
fn settled_cluster(calls: &Calls, wait: Duration) -> anyhow::Result<(Value, bool)> {
    let until = Instant::now() + wait;
    loop {
        let seen = cluster_of(calls);
        let late = Instant::now() >= until;
        match seen {
            Ok(cluster) if unsettled(&cluster).is_none() => return Ok((cluster, true)),
            Ok(cluster) if late => return Ok((cluster, false)),
            Err(error) if late => return Err(error),
            Ok(_) | Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

fn cluster_of(calls: &Calls) -> anyhow::Result<Value> {
    let answer = calls.get("/v1/cluster")?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    Ok(answer.body)
}

/// What keeps the cluster from being settled, if anything does.
fn unsettled(cluster: &Value) -> Option<String> {
    if cluster.get("leader").is_none_or(Value::is_null) {
        return Some("no leader".to_owned());
    }
    let partitions = cluster.get("partitions")?;
    let vacant = partitions.get("vacant").and_then(Value::as_u64).unwrap_or(u64::MAX);
    if vacant > 0 {
        return Some(format!("{vacant} partitions have no owner"));
    }
    let dead = cluster.get("nodes").and_then(Value::as_array)?.iter().find(|node| shown(node, "state") != "live");
    dead.map(|node| format!("node {} is {}", shown(node, "name"), shown(node, "state")))
}

fn status_text(cluster: &Value) -> String {
    let partitions = cluster.get("partitions").cloned().unwrap_or_default();
    let mut text = format!(
        "cluster {} ({})  leader {}  map {}  partitions {} owned, {} vacant\n",
        shown(cluster, "name"),
        shown(cluster, "uuid"),
        shown(cluster, "leader"),
        shown(cluster, "map_version"),
        shown(&partitions, "owned"),
        shown(&partitions, "vacant"),
    );
    text.push_str(&format!(
        "{:<12} {:<8} {:>10}  {:<21} {:<21} {}\n",
        "NODE", "STATE", "PARTITIONS", "API", "ADMIN", "ID"
    ));
    for node in cluster.get("nodes").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!(
            "{:<12} {:<8} {:>10}  {:<21} {:<21} {}\n",
            shown(node, "name"),
            shown(node, "state"),
            shown(node, "partitions"),
            shown(node, "api"),
            shown(node, "admin"),
            shown(node, "id"),
        ));
    }
    text
}

fn map(calls: &Calls, output: Output) -> anyhow::Result<Exit> {
    let answer = calls.get("/v1/cluster/map")?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    match output {
        Output::Json => print_json("map", &answer.body),
        Output::Text => put(&map_text(&answer.body)),
    }
    Ok(Exit::Ok)
}

fn map_text(map: &Value) -> String {
    let mut text = format!("map {}\n{:<13} {:>8}  {}\n", shown(map, "version"), "PARTITIONS", "EPOCH", "OWNER");
    for run in map.get("runs").and_then(Value::as_array).into_iter().flatten() {
        let range = format!("{}-{}", shown(run, "first"), shown(run, "last"));
        text.push_str(&format!("{range:<13} {:>8}  {}\n", shown(run, "epoch"), shown(run, "owner")));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(leader: Value, vacant: u64, state: &str) -> Value {
        json!({"name": "main", "leader": leader, "partitions": {"owned": 3, "vacant": vacant},
               "nodes": [{"name": "n1", "state": state}]})
    }

    #[test]
    fn a_cluster_is_settled_when_it_is_led_owned_and_live() {
        assert_eq!(unsettled(&cluster(json!("n1"), 0, "live")), None);
        assert_eq!(unsettled(&cluster(Value::Null, 0, "live")).as_deref(), Some("no leader"));
        assert_eq!(unsettled(&cluster(json!("n1"), 2, "live")).as_deref(), Some("2 partitions have no owner"));
        assert_eq!(unsettled(&cluster(json!("n1"), 0, "expired")).as_deref(), Some("node n1 is expired"));
    }
}
