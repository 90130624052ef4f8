//! What a node says about itself and the cluster, over its admin API, with the operators' token: the suite knows no more
//! than any operator does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use ureq::Agent;

/// How long an answer may take before the node counts as silent.
const WITHIN: Duration = Duration::from_millis(500);

/// Asks nodes.
#[derive(Clone, Debug)]
pub struct Admin {
    agent: Agent,
    token: String,
}

/// A node's own clocks, as it reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedClock {
    /// Nanoseconds since its boot.
    pub boot_ns: u64,
    /// Milliseconds since 1970.
    pub wall_unix_ms: u64,
}

/// The cluster, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its uuid.
    pub uuid: String,
    /// The leader's name, if there is one.
    pub leader: Option<String>,
    /// The version of the map.
    pub map_version: u64,
    /// Partitions without an owner.
    pub vacant: u64,
    /// Every node.
    pub nodes: Vec<Member>,
    /// The clocks of the node that says so.
    pub clock: ReportedClock,
    /// The Redis of the node that says so, where it was given one.
    pub redis: Option<ReportedRedis>,
}

/// A node's Redis, as it reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedRedis {
    /// In which life it answers, if it does.
    pub life: Option<String>,
    /// Partitions that were claimed in it, by what was found.
    pub claims: BTreeMap<String, u64>,
    /// Writes that it refused, since the partition was not in this node's name.
    pub fenced_writes: u64,
}

/// One node in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its identity, as text.
    pub id: String,
    /// `live`, `expired` or `released`.
    pub state: String,
    /// `voter` or `learner`.
    pub role: String,
    /// Its session.
    pub session: String,
    /// How many partitions it owns.
    pub partitions: u64,
    /// In which life of Redis what it keeps counts, if it does.
    pub durable: Option<String>,
}

impl Admin {
    /// With this token.
    pub fn new(token: &str) -> Admin {
        let config =
            Agent::config_builder().timeout_global(Some(WITHIN)).http_status_as_error(false).max_idle_connections(0);
        Admin { agent: config.build().into(), token: token.to_owned() }
    }

    /// The cluster, as this node sees it.
    ///
    /// # Errors
    /// When the node does not answer in time, or in words that are not the API's.
    pub fn cluster(&self, address: &str) -> Result<Cluster> {
        read_cluster(&self.get(address, "/v1/cluster")?)
    }

    /// Whether the node says that it is ready.
    pub fn is_ready(&self, address: &str) -> bool {
        self.status(address, "/readyz").is_ok_and(|status| status == 200)
    }

    /// The status of an answer; its body does not matter.
    ///
    /// # Errors
    /// When the node does not answer in time.
    pub fn status(&self, address: &str, path: &str) -> Result<u16> {
        Ok(self.agent.get(format!("http://{address}{path}")).call()?.status().as_u16())
    }

    fn get(&self, address: &str, path: &str) -> Result<Value> {
        let bearer = format!("Bearer {}", self.token);
        let request = self.agent.get(format!("http://{address}{path}")).header("authorization", bearer);
        let mut response = request.call()?;
        let (status, text) = (response.status(), response.body_mut().read_to_string()?);
        if status != 200 {
            bail!("{address}{path}: {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("{address}{path} answers with what is no JSON"))
    }
}

fn read_cluster(body: &Value) -> Result<Cluster> {
    let number = |value: &Value, name: &str| value.as_u64().with_context(|| format!("no number {name} in {body}"));
    let nodes = body["nodes"].as_array().with_context(|| format!("no nodes in {body}"))?;
    let member = |node: &Value| {
        Ok(Member {
            name: text(&node["name"]),
            id: text(&node["id"]),
            state: text(&node["state"]),
            role: text(&node["role"]),
            session: text(&node["session"]),
            partitions: number(&node["partitions"], "partitions")?,
            durable: node["durable"].as_str().map(str::to_owned),
        })
    };
    Ok(Cluster {
        uuid: text(&body["uuid"]),
        leader: body["leader"].as_str().map(str::to_owned),
        map_version: number(&body["map_version"], "map_version")?,
        vacant: number(&body["partitions"]["vacant"], "partitions.vacant")?,
        nodes: nodes.iter().map(member).collect::<Result<_>>()?,
        clock: ReportedClock {
            boot_ns: number(&body["clock"]["boot_ns"], "clock.boot_ns")?,
            wall_unix_ms: number(&body["clock"]["wall_unix_ms"], "clock.wall_unix_ms")?,
        },
        redis: Some(&body["redis"]).filter(|redis| !redis.is_null()).map(read_redis).transpose()?,
    })
}

fn read_redis(body: &Value) -> Result<ReportedRedis> {
    let claims = body["claims"].as_object().with_context(|| format!("no claims in {body}"))?;
    let count = |(found, count): (&String, &Value)| {
        let count = count.as_u64().with_context(|| format!("no number claims.{found} in {body}"))?;
        Ok((found.clone(), count))
    };
    Ok(ReportedRedis {
        life: body["incarnation"].as_str().map(str::to_owned),
        claims: claims.iter().map(count).collect::<Result<_>>()?,
        fenced_writes: body["fenced_writes"].as_u64().with_context(|| format!("no number fenced_writes in {body}"))?,
    })
}

/// Identities are numbers or texts; here they are only compared.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Cluster {
    /// The node of this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.nodes.iter().find(|member| member.name == name)
    }

    /// Whether every partition has an owner whose session lives.
    pub fn is_owned(&self) -> bool {
        self.vacant == 0 && self.nodes.iter().all(|member| member.state == "live" || member.partitions == 0)
    }

    /// Whether what every live node keeps counts, and in this life of Redis.
    pub fn is_durable_in(&self, life: &str) -> bool {
        let mut live = self.nodes.iter().filter(|member| member.state == "live");
        live.all(|member| member.durable.as_deref() == Some(life))
    }

    /// Whether a crash of any live node would be a worst case.
    pub fn is_volatile(&self) -> bool {
        self.nodes.iter().filter(|member| member.state == "live").all(|member| member.durable.is_none())
    }

    /// Whether so many nodes live, all of them voters, under a leader, with every partition owned.
    pub fn is_settled(&self, nodes: usize) -> bool {
        let settled = self.nodes.iter().filter(|member| member.state == "live" && member.role == "voter").count();
        self.leader.is_some() && settled == nodes && self.nodes.len() == nodes && self.is_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        let node = |name: &str| json!({ "name": name, "id": 7, "state": "live", "role": "voter", "session": "a/1", "partitions": 2048 });
        json!({
            "uuid": "u", "leader": "n1", "map_version": 3, "partitions": { "owned": 4096, "vacant": 0 },
            "nodes": [node("n1"), node("n2")], "clock": { "boot_ns": 5, "wall_unix_ms": 6 }, "more": true
        })
    }

    #[test]
    fn the_cluster_is_read_and_more_fields_do_no_harm() {
        let cluster = read_cluster(&body()).unwrap();
        assert_eq!((cluster.uuid.as_str(), cluster.leader.as_deref(), cluster.vacant), ("u", Some("n1"), 0));
        assert_eq!(cluster.member("n2").unwrap().id, "7");
        assert!(cluster.is_settled(2) && !cluster.is_settled(3));
    }

    #[test]
    fn a_cluster_with_a_dead_owner_a_learner_or_a_vacancy_is_not_settled() {
        for (path, value) in [
            ("/nodes/0/state", json!("expired")),
            ("/nodes/1/role", json!("learner")),
            ("/partitions/vacant", json!(1)),
            ("/leader", Value::Null),
        ] {
            let mut body = body();
            *body.pointer_mut(path).unwrap() = value;
            assert!(!read_cluster(&body).unwrap().is_settled(2), "{path}");
        }
    }

    #[test]
    fn a_cluster_is_durable_when_all_that_live_are_and_in_the_same_life() {
        let mut body = body();
        body["redis"] = json!({ "incarnation": "r.m", "claims": { "counted": 2 }, "fenced_writes": 1 });
        body["nodes"][0]["durable"] = json!("r.m");
        let cluster = read_cluster(&body).unwrap();
        let redis = cluster.redis.as_ref().unwrap();
        assert_eq!((redis.life.as_deref(), redis.claims["counted"], redis.fenced_writes), (Some("r.m"), 2, 1));
        assert!(!cluster.is_durable_in("r.m") && !cluster.is_volatile(), "one of two is");
        body["nodes"][1]["state"] = json!("expired");
        let cluster = read_cluster(&body).unwrap();
        assert!(cluster.is_durable_in("r.m") && !cluster.is_durable_in("r.n"), "the other one is gone");
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut body = body();
        body["clock"] = Value::Null;
        assert!(read_cluster(&body).unwrap_err().to_string().starts_with("no number clock.boot_ns"));
    }
}
