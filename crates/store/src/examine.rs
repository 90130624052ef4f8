//! What a server says of itself, and whether it will do. From the text of `INFO` alone, so a test can make one up.

use std::collections::HashMap;

use ownership::kept::Incarnation;

use crate::error::NotUp;

/// The oldest version that is used, major and minor.
pub const VERSION_MIN: (u32, u32) = (7, 0);

/// A server that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) incarnation: Incarnation,
    pub(crate) version: String,
    pub(crate) warnings: Vec<String>,
}

/// Reads what `INFO` answered.
pub(crate) fn examine(info: &str) -> Result<Found, NotUp> {
    let fields: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let field = |name: &str| fields.get(name).map_or("", |value| value.trim());
    let version = field("redis_version");
    refuse_other_kinds(version, field("redis_mode"), field("cluster_enabled"))?;
    if field("loading") == "1" {
        return Err(NotUp::Down("Redis is loading its data from disk".to_owned()));
    }
    if field("role") != "master" {
        return Err(NotUp::Down(
            "this Redis is a replica: writes go to its primary; promote it, or give the primary's address".to_owned(),
        ));
    }
    refuse_eviction(field("maxmemory_policy"))?;
    let incarnation = Incarnation::from_names(field("run_id"), field("master_replid"))
        .map_err(|_| NotUp::Refused("this server does not say its run_id and master_replid in INFO".to_owned()))?;
    let warnings = warnings(field("aof_enabled"), field("rdb_saves"));
    Ok(Found { incarnation, version: version.to_owned(), warnings })
}

fn refuse_other_kinds(version: &str, mode: &str, cluster_enabled: &str) -> Result<(), NotUp> {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0_u32));
    let of_two = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if of_two < VERSION_MIN {
        let (major, minor) = VERSION_MIN;
        return Err(NotUp::Refused(format!("Redis {version} is too old: {major}.{minor} or later is needed")));
    }
    let kind = match mode {
        "sentinel" => "a sentinel",
        "cluster" => "part of a Redis Cluster",
        _ if cluster_enabled == "1" => "part of a Redis Cluster",
        _ => return Ok(()),
    };
    Err(NotUp::Refused(format!(
        "Redis Cluster and Sentinel are not supported: this server is {kind}; give the address of one Redis server that \
         stands alone or is a primary"
    )))
}

fn refuse_eviction(policy: &str) -> Result<(), NotUp> {
    if policy == "noeviction" {
        return Ok(());
    }
    Err(NotUp::Refused(format!(
        "maxmemory-policy is {policy}: Redis may drop what it acknowledged; set `maxmemory-policy noeviction`, and \
         `CONFIG SET maxmemory-policy noeviction` on the running server"
    )))
}

/// Records do not outlive the server's process anyway, so little depends on its disk.
fn warnings(aof_enabled: &str, rdb_saves: &str) -> Vec<String> {
    let keeps_nothing = aof_enabled == "0" && rdb_saves == "0";
    let warning = "Redis has written nothing to disk since it started (aof_enabled:0, rdb_saves:0): after a restart it may \
                   not know that a cluster of this name lived before";
    keeps_nothing.then(|| warning.to_owned()).into_iter().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\
        run_id:0123456789abcdef0123456789abcdef01234567\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n\
        # Persistence\r\nloading:0\r\nrdb_saves:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n\
        master_replid:89abcdef0123456789abcdef0123456789abcdef\r\n# Cluster\r\ncluster_enabled:0\r\n";

    fn with(from: &str, to: &str) -> Result<Found, NotUp> {
        assert!(GOOD.contains(from), "{from}");
        examine(&GOOD.replace(from, to))
    }

    fn refused(from: &str, to: &str) -> String {
        match with(from, to) {
            Err(NotUp::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_that_will_do_is_known_by_its_life_and_history() {
        let found = examine(GOOD).unwrap();
        let expected = "0123456789abcdef0123456789abcdef01234567.89abcdef0123456789abcdef0123456789abcdef";
        assert_eq!(found.incarnation.to_string(), expected);
        assert_eq!((found.version.as_str(), found.warnings.len()), ("7.0.15", 0));
        assert!(with("7.0.15", "7.0.0").is_ok());
        assert!(with("7.0.15", "10.2").is_ok());
    }

    #[test]
    fn one_that_is_too_old_is_refused_by_its_version() {
        for version in ["6.2.14", "2.8", "", "x"] {
            assert_eq!(refused("7.0.15", version), format!("Redis {version} is too old: 7.0 or later is needed"));
        }
    }

    #[test]
    fn a_member_of_a_cluster_and_a_sentinel_are_refused() {
        for (from, to, kind) in [
            ("cluster_enabled:0", "cluster_enabled:1", "part of a Redis Cluster"),
            ("standalone", "cluster", "part of a Redis Cluster"),
            ("standalone", "sentinel", "a sentinel"),
        ] {
            let why = refused(from, to);
            assert!(why.starts_with("Redis Cluster and Sentinel are not supported: this server is "), "{why}");
            assert!(why.contains(kind), "{why}");
        }
    }

    #[test]
    fn one_that_may_drop_keys_is_refused_and_the_operator_is_told_what_to_set() {
        let why = refused("noeviction", "allkeys-lru");
        assert!(why.starts_with("maxmemory-policy is allkeys-lru"), "{why}");
        assert!(why.contains("CONFIG SET maxmemory-policy noeviction"), "{why}");
    }

    #[test]
    fn a_replica_and_one_that_is_loading_may_do_later() {
        for (from, to) in [("role:master", "role:slave"), ("loading:0", "loading:1")] {
            assert!(matches!(with(from, to), Err(NotUp::Down(_))), "{to}");
        }
    }

    #[test]
    fn one_without_a_disk_is_used_with_a_warning() {
        assert_eq!(with("aof_enabled:1", "aof_enabled:0").unwrap().warnings.len(), 1);
    }

    #[test]
    fn any_other_text_is_refused() {
        for text in ["", "redis_version", "redis_version:7.2\nrole:master\nmaxmemory_policy:noeviction"] {
            assert!(examine(text).is_err(), "{text}");
        }
    }
}
