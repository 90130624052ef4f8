//! `ringfence cluster`: what the cluster looks like from one node, as tables for people or JSON for programs.

pub mod events;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ownership::kept::Incarnation;
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::cli::{Cluster, Output, Target};
use crate::commands::{print_json, put, shown};
use crate::exit::Exit;

/// How often `status --wait` looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Runs one of the cluster commands.
pub fn run(command: &Cluster, target: &Target, output: Output) -> anyhow::Result<Exit> {
    let calls = Calls::to_admin(target)?;
    match command {
        Cluster::Status { wait, nodes } => status(&calls, *wait, nodes.unwrap_or(1), output),
        Cluster::SetLease { ttl } => set_lease(&calls, *ttl, output),
        Cluster::TrustStore { incarnation } => trust_store(&calls, incarnation, output),
        Cluster::Map => map(&calls, output),
        Cluster::Events { follow: false } => events::print(&calls, output),
        Cluster::Events { follow: true } => events::follow(&calls, output),
    }
}

fn status(calls: &Calls, wait: Option<Duration>, nodes: usize, output: Output) -> anyhow::Result<Exit> {
    let (cluster, settled) = match wait {
        None => (cluster_of(calls)?, true),
        Some(wait) => settled_cluster(calls, wait, nodes)?,
    };
    match output {
        Output::Json => print_json("cluster", &cluster),
        Output::Text => put(&status_text(&cluster)),
    }
    if settled {
        return Ok(Exit::Ok);
    }
    eprintln!("ringfence: not settled: {}", unsettled(&cluster, nodes).unwrap_or_else(|| "unknown".to_owned()));
    Ok(Exit::Failure)
}

/// What `status` prints, as text for people.
pub fn status_of(calls: &Calls) -> anyhow::Result<String> {
    Ok(status_text(&cluster_of(calls)?))
}

/// Looks until the cluster is settled or the time is up; a node that cannot be reached yet is waited for as well.
fn settled_cluster(calls: &Calls, wait: Duration, nodes: usize) -> anyhow::Result<(Value, bool)> {
    let until = Instant::now() + wait;
    loop {
        let seen = cluster_of(calls);
        let late = Instant::now() >= until;
        match seen {
            Ok(cluster) if unsettled(&cluster, nodes).is_none() => return Ok((cluster, true)),
            Ok(cluster) if late => return Ok((cluster, false)),
            // Waiting does not make a token good.
            Err(error) if late || Exit::of_error(&error) != Exit::Unreachable => return Err(error),
            Ok(_) | Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

fn cluster_of(calls: &Calls) -> anyhow::Result<Value> {
    let answer = calls.get("/v1/cluster")?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    Ok(answer.body)
}

/// What keeps the cluster from being settled, if anything does. A node that ended and did not return keeps nobody waiting
/// once its partitions have other owners: whoever waits for a certain number of nodes says so.
fn unsettled(cluster: &Value, nodes: usize) -> Option<String> {
    if let Some(why) = cluster.get("unready").and_then(Value::as_str) {
        return Some(format!("{} is not ready: {why}", shown(cluster, "this_node")));
    }
    if cluster.get("leader").is_none_or(Value::is_null) {
        return Some("no leader".to_owned());
    }
    let changing = cluster.get("voters").and_then(|voters| voters.get("changing")?.as_bool());
    if changing.unwrap_or(false) {
        return Some(
            "the voters are changing: until that is done, a majority of the old ones is needed too".to_owned(),
        );
    }
    let count = |name: &str| cluster.get("partitions").and_then(|partitions| partitions.get(name)?.as_u64());
    match (count("owned"), count("vacant")) {
        (Some(owned), Some(0)) if owned > 0 => {}
        (_, vacant) => return Some(format!("{} partitions have no owner", vacant.unwrap_or_default())),
    }
    let live = nodes_of(cluster).filter(|node| shown(node, "state") == "live").count();
    (live < nodes).then(|| format!("{live} nodes live, {nodes} are waited for"))
}

fn nodes_of(cluster: &Value) -> impl Iterator<Item = &Value> {
    cluster.get("nodes").and_then(Value::as_array).into_iter().flatten()
}

/// The state of a node, as the table shows it: one that lives and is on its way out says so itself.
fn state_of(cluster: &Value, node: &Value) -> String {
    let itself = shown(cluster, "this_node") == shown(node, "name");
    let leaving = itself && cluster.get("draining").and_then(Value::as_bool).unwrap_or(false);
    match shown(node, "state") {
        state if leaving && state == "live" => "leaving".to_owned(),
        state => state,
    }
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
    text.push_str(&terms_text(cluster));
    text.push_str(&store_text(cluster));
    let keeps = cluster.get("redis").is_some_and(|store| !store.is_null());
    let kept = |word: &str| if keeps { format!("{word:<9}") } else { String::new() };
    text.push_str(&format!(
        "{:<12} {:<8} {:>10}  {}{:<21} {:<21} {}\n",
        "NODE",
        "STATE",
        "PARTITIONS",
        kept("KEPT"),
        "API",
        "ADMIN",
        "ID"
    ));
    for node in nodes_of(cluster) {
        text.push_str(&format!(
            "{:<12} {:<8} {:>10}  {}{:<21} {:<21} {}\n",
            shown(node, "name"),
            state_of(cluster, node),
            shown(node, "partitions"),
            kept(if node.get("durable").is_some_and(Value::is_string) { "durable" } else { "volatile" }),
            shown(node, "api"),
            shown(node, "admin"),
            shown(node, "id"),
        ));
    }
    text
}

/// The line about what ownership rests on: the lease, the asked node's clock, and how emergency shares are divided.
fn terms_text(cluster: &Value) -> String {
    let Some(lease) = cluster.get("lease").filter(|lease| !lease.is_null()) else { return String::new() };
    let clock = cluster.get("clock").cloned().unwrap_or_default();
    let waits = if lease.get("waited_ms") == lease.get("ttl_ms") {
        String::new()
    } else {
        format!(", leaders still wait {} ms", shown(lease, "waited_ms"))
    };
    let lenders = cluster.get("lenders").and_then(Value::as_array).cloned().unwrap_or_default();
    let lenders: Vec<&str> = lenders.iter().filter_map(Value::as_str).collect();
    let lenders = if lenders.is_empty() { String::new() } else { format!(" (with {}, gone)", lenders.join(", ")) };
    format!(
        "lease {} ms{waits}  emergency shares for {}{lenders}  clock of {}: {}, {}\n",
        shown(lease, "ttl_ms"),
        shown(cluster, "n_max"),
        shown(cluster, "this_node"),
        shown(&clock, "source"),
        shown(&clock, "trust"),
    )
}

/// The lines about the asked node's store, where it has one: how it stands, what this node has there, whose records count by
/// the log, and an operator's word for it.
fn store_text(cluster: &Value) -> String {
    let Some(store) = cluster.get("redis").filter(|store| !store.is_null()) else { return String::new() };
    let (node, life) = (shown(cluster, "this_node"), shown(store, "incarnation"));
    let stands = match store.get("up").and_then(Value::as_bool) {
        Some(true) => format!("up, {}, {}, incarnation {life}", shown(store, "role"), shown(store, "version")),
        Some(false) | None => format!("down: {}", shown(store, "down")),
    };
    let mut text = format!("redis of {node}: {stands}  {node} is {}\n", shown(cluster, "durability"));
    for warning in store.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        text.push_str(&format!("redis of {node}: {warning}\n"));
    }
    text.push_str(&format!("redis of {node}: {}\n", kept_text(store)));
    text.push_str(&log_text(cluster));
    if let Some(trusted) = cluster.get("trusted").and_then(Value::as_str) {
        text.push_str(&format!(
            "degraded: what Redis has is trusted on an operator's word, in incarnation {trusted}\n"
        ));
    }
    text
}

/// How old what is kept is, and what came of keeping it.
fn kept_text(store: &Value) -> String {
    let age = |name: &str| match store.get(name).and_then(Value::as_u64) {
        Some(millis) => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        None => "none".to_owned(),
    };
    let waits = store.get("put_off").map_or("0".to_owned(), |put_off| shown(put_off, "allowance"));
    format!(
        "oldest snapshot {}  oldest unwritten {}  allowance waits {waits}  fenced writes {}",
        age("snapshot_age_ms"),
        age("unwritten_ms"),
        shown(store, "fenced_writes")
    )
}

/// In which life of the store the records of whom count, as the log says: a successor believes no other.
fn log_text(cluster: &Value) -> String {
    let mut lives: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
    for node in nodes_of(cluster).filter(|node| shown(node, "state") == "live") {
        lives.entry(node.get("durable").and_then(Value::as_str)).or_default().push(shown(node, "name"));
    }
    let line = |(life, names): (Option<&str>, Vec<String>)| match life {
        Some(life) => format!("log: {} durable in {life}\n", names.join(", ")),
        None => format!("log: {} volatile\n", names.join(", ")),
    };
    lives.into_iter().map(line).collect()
}

fn set_lease(calls: &Calls, ttl: Duration, output: Output) -> anyhow::Result<Exit> {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let answer = calls.put_json("/v1/cluster/lease", &json!({ "ttl_ms": ttl_ms }))?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    match output {
        Output::Json => print_json("lease", &answer.body),
        Output::Text => put(&format!("leases last {ttl_ms} ms from now on\n")),
    }
    Ok(Exit::Ok)
}

fn trust_store(calls: &Calls, incarnation: &Incarnation, output: Output) -> anyhow::Result<Exit> {
    let answer = calls.put_json("/v1/cluster/trust-store", &json!({ "incarnation": incarnation.to_string() }))?;
    anyhow::ensure!(answer.is_ok(), "{}", answer.problem());
    match output {
        Output::Json => print_json("trusted", &answer.body),
        Output::Text => put(&format!("trusted: {incarnation}\n")),
    }
    Ok(Exit::Ok)
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
    use super::*;

    fn cluster(leader: Value, vacant: u64, state: &str) -> Value {
        json!({"name": "main", "leader": leader, "this_node": "n1", "draining": false, "unready": null,
               "partitions": {"owned": 3, "vacant": vacant},
               "nodes": [{"name": "n1", "state": "live"}, {"name": "n2", "state": state}]})
    }

    #[test]
    fn a_cluster_is_settled_when_it_is_ready_led_and_owned() {
        assert_eq!(unsettled(&cluster(json!("n1"), 0, "live"), 1), None);
        assert_eq!(unsettled(&cluster(Value::Null, 0, "live"), 1).as_deref(), Some("no leader"));
        assert_eq!(unsettled(&cluster(json!("n1"), 2, "live"), 1).as_deref(), Some("2 partitions have no owner"));
        let mut changing = cluster(json!("n1"), 0, "live");
        changing["voters"] = json!({"count": 4, "changing": true});
        assert!(unsettled(&changing, 1).is_some_and(|why| why.starts_with("the voters are changing")));
        let mut unready = cluster(json!("n1"), 0, "live");
        unready["unready"] = json!("this node is leaving");
        assert_eq!(unsettled(&unready, 1).as_deref(), Some("n1 is not ready: this node is leaving"));
        let mut blank = cluster(json!("n1"), 0, "live");
        blank["partitions"] = json!({"owned": 0, "vacant": 0});
        assert!(unsettled(&blank, 1).is_some(), "a node that knows of no partitions knows nothing yet");
    }

    #[test]
    fn what_ownership_rests_on_is_one_line() {
        let mut cluster = json!({"this_node": "n1", "n_max": 3, "lenders": [], "clock": {"source": "tsc", "trust": "trusted"},
            "lease": {"ttl_ms": 3000, "waited_ms": 3000}});
        assert_eq!(terms_text(&cluster), "lease 3000 ms  emergency shares for 3  clock of n1: tsc, trusted\n");
        cluster["lease"]["waited_ms"] = json!(6000);
        cluster["lenders"] = json!(["n3"]);
        let text = terms_text(&cluster);
        assert!(
            text.starts_with("lease 3000 ms, leaders still wait 6000 ms  emergency shares for 3 (with n3, gone)  ")
        );
        assert_eq!(terms_text(&json!({"lease": null})), "", "before founding");
    }

    #[test]
    fn who_ended_and_did_not_return_is_waited_for_only_on_request() {
        for state in ["expired", "released"] {
            let cluster = cluster(json!("n1"), 0, state);
            assert_eq!(unsettled(&cluster, 1), None, "{state}");
            assert_eq!(unsettled(&cluster, 2).as_deref(), Some("1 nodes live, 2 are waited for"), "{state}");
        }
    }

    #[test]
    fn a_store_is_told_with_the_age_of_what_it_has_and_with_whose_records_count() {
        let mut cluster = cluster(json!("n1"), 0, "live");
        assert_eq!(store_text(&cluster), "", "a node without a store");
        cluster["durability"] = json!("durable");
        cluster["redis"] = json!({"up": true, "role": "primary", "version": "7.0.15", "incarnation": "aa.bb", "warnings": [],
            "snapshot_age_ms": 61_540, "unwritten_ms": null, "put_off": {"allowance": 4, "loading": 9}, "fenced_writes": 1});
        cluster["nodes"][0]["durable"] = json!("aa.bb");
        assert_eq!(
            store_text(&cluster),
            "redis of n1: up, primary, 7.0.15, incarnation aa.bb  n1 is durable\n\
             redis of n1: oldest snapshot 61.5 s  oldest unwritten none  allowance waits 4  fenced writes 1\n\
             log: n2 volatile\n\
             log: n1 durable in aa.bb\n"
        );
        cluster["nodes"][1]["durable"] = json!("aa.bb");
        assert!(store_text(&cluster).ends_with("log: n1, n2 durable in aa.bb\n"));
    }

    #[test]
    fn a_node_that_is_leaving_is_shown_so_by_itself() {
        let mut cluster = cluster(json!("n1"), 0, "live");
        assert!(!status_text(&cluster).contains("leaving"));
        cluster["draining"] = json!(true);
        let text = status_text(&cluster);
        assert_eq!(text.lines().filter(|line| line.contains("leaving")).count(), 1, "{text}");
    }
}
