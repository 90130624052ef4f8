//! The top keys of the whole cluster: every node is asked for its own, and what they tell is merged. A node that does not
//! answer in time is named, since nothing that it counted is in any number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::NodeSpec;
use futures_util::future::join_all;
use limits::top::{By, Summary, TopKey};
use limits::{LimitId, WallTime};
use tokio::task::JoinError;
use wire::peer::control_client::ControlClient;
use wire::top::{TopAsked, TopTold, top_asked_to_proto, top_told_from_proto};

use crate::aside;
use crate::node::Node;
use crate::raft::Peer;
use crate::views::Policies;

/// How long a node may take to tell its top keys, its connection included.
pub const TOP_WITHIN: Duration = Duration::from_secs(1);

/// The largest telling that is read, in bytes.
const TOLD_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What an operator asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopQuestion {
    /// The policy's name space.
    pub domain: String,
    /// Only this limit; `None` for all of the domain.
    pub limit: Option<LimitId>,
    /// What is counted.
    pub by: By,
    /// How many keys are wanted.
    pub count: usize,
}

/// The heaviest keys of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKeys {
    /// Since when anything here was counted, by the nodes' machines' clocks.
    pub since: WallTime,
    /// The heaviest first, with the names of their limits.
    pub keys: Vec<(Box<str>, TopKey)>,
    /// Every limit of which anything was counted, the busiest first.
    pub limits: Vec<TopLimit>,
    /// How many less busy limits no node had room to tell, at least.
    pub limits_left_out: u32,
    /// The names of the nodes whose counts are in the numbers.
    pub nodes: Vec<String>,
    /// Those whose counts are not.
    pub silent: Vec<Silent>,
}

/// What holds of a limit beside the keys that are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLimit {
    /// Its name.
    pub limit: Box<str>,
    /// The weight of all its keys.
    pub total: u64,
    /// The most that any key has that is not told.
    pub absent: u64,
}

/// A node whose counts are not in the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Its name.
    pub node: String,
    /// Why, for people.
    pub why: String,
}

impl Node {
    /// The heaviest keys of the cluster, as far as its nodes tell in time.
    pub async fn top_keys(&self, question: &TopQuestion) -> TopKeys {
        let asked = TopAsked { domain: question.domain.clone(), limit: question.limit, by: question.by };
        let others: Vec<NodeSpec> =
            self.views.roster.load().iter().filter(|node| node.id != self.id()).cloned().collect();
        let tellings = join_all(others.iter().map(|node| self.ask_for_top(node, &asked)));
        let (mine, theirs) = tokio::join!(told_here(self.policies(), asked.clone()), tellings);
        let mut told = vec![mine];
        let mut nodes = vec![self.name().to_owned()];
        let mut silent = self.gone();
        for (node, telling) in others.into_iter().zip(theirs) {
            match telling {
                Ok(telling) => {
                    told.push(telling);
                    nodes.push(node.name);
                }
                Err(why) => silent.push(Silent { node: node.name, why }),
            }
        }
        nodes.sort();
        silent.sort_by(|one, other| one.node.cmp(&other.node));
        let policies = self.policies();
        let ranked = Ranked::of(told, question.count);
        let name = |id: LimitId| policies.limit(id).map_or_else(|| id.0.to_string().into(), |known| known.name.clone());
        TopKeys {
            since: ranked.since,
            keys: ranked.keys.into_iter().map(|(id, key)| (name(id), key)).collect(),
            limits: ranked
                .limits
                .into_iter()
                .map(|(id, summary)| TopLimit { limit: name(id), total: summary.total, absent: summary.absent })
                .collect(),
            limits_left_out: ranked.left_out,
            nodes,
            silent,
        }
    }

    /// On a connection of its own: a large answer never stands before checks.
    async fn ask_for_top(&self, node: &NodeSpec, asked: &TopAsked) -> Result<TopTold, String> {
        let peer = Peer { id: node.id, address: node.addresses.peer.clone(), name: node.name.clone() };
        let channel = self.links().dial_apart(&peer).map_err(|error| error.to_string())?;
        let mut client = ControlClient::new(channel).max_decoding_message_size(TOLD_BYTES_MAX);
        let reply = tokio::time::timeout(TOP_WITHIN, client.top(top_asked_to_proto(asked))).await;
        let reply = reply.map_err(|_| format!("no answer within {} ms", TOP_WITHIN.as_millis()))?;
        let reply = reply.map_err(|status| status.message().to_owned())?;
        top_told_from_proto(reply.into_inner()).map_err(|malformed| malformed.to_string())
    }

    /// Nodes that ended and did not return.
    fn gone(&self) -> Vec<Silent> {
        let ended = self.cluster_status().nodes.into_iter().filter(|node| node.state != "live");
        ended.map(|node| Silent { node: node.name, why: node.state.to_owned() }).collect()
    }
}

/// What this node tells, made on a thread that decides no checks.
pub(crate) async fn told_here(policies: Arc<Policies>, asked: TopAsked) -> TopTold {
    match aside::run(move || super::told(&policies, &asked)).await.map_err(JoinError::try_into_panic) {
        Ok(told) => told,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends, and whoever waits here with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// What several nodes told, in one order.
#[derive(Debug, PartialEq, Eq)]
struct Ranked {
    since: WallTime,
    keys: Vec<(LimitId, TopKey)>,
    limits: Vec<(LimitId, Summary)>,
    left_out: u32,
}

impl Ranked {
    /// Merges limit by limit, and tells the `count` heaviest keys of all. Those that are not told are below their limit's
    /// `absent`, whether no sketch knows them or there was no room for them here.
    fn of(told: Vec<TopTold>, count: usize) -> Ranked {
        let since = told.iter().map(|telling| telling.since).min().unwrap_or(WallTime::from_unix_nanos(0));
        let left_out = told.iter().map(|telling| telling.left_out).max().unwrap_or(0);
        let mut by_limit: BTreeMap<LimitId, Vec<Summary>> = BTreeMap::new();
        for (id, summary) in told.into_iter().flat_map(|telling| telling.limits) {
            by_limit.entry(id).or_default().push(summary);
        }
        let mut limits: Vec<_> = by_limit.into_iter().map(|(id, told)| (id, Summary::merge(&told))).collect();
        limits.sort_by_key(|(id, summary)| (std::cmp::Reverse(summary.total), *id));
        let all = limits.iter().flat_map(|(id, summary)| summary.keys.iter().map(|key| (*id, key.clone())));
        let mut keys: Vec<_> = all.collect();
        // Stable, so that equal keys stay as their summaries and limits have them.
        keys.sort_by_key(|(_, key)| std::cmp::Reverse(key.count));
        keys.truncate(count);
        for (id, summary) in &mut limits {
            summary.truncate(keys.iter().filter(|(of, _)| of == id).count());
        }
        Ranked { since, keys, limits, left_out }
    }
}

#[cfg(test)]
mod tests {
    use limits::Fingerprint;

    use super::*;

    fn key(number: u64, count: u64, error: u64) -> TopKey {
        TopKey { key: Fingerprint([number, 0]), text: format!("client={number}").into(), count, error }
    }

    fn telling(since: u64, left_out: u32, limits: Vec<(u32, Summary)>) -> TopTold {
        let limits = limits.into_iter().map(|(id, summary)| (LimitId(id), summary)).collect();
        TopTold { since: WallTime::from_unix_nanos(since), limits, left_out }
    }

    fn numbers(ranked: &Ranked) -> Vec<(u32, u64, u64, u64)> {
        ranked.keys.iter().map(|(id, key)| (id.0, key.key.0[0], key.count, key.error)).collect()
    }

    #[test]
    fn what_nodes_tell_of_a_key_is_added_up_limit_by_limit() {
        let one = telling(9, 0, vec![(1, Summary { keys: vec![key(7, 50, 0), key(8, 20, 1)], total: 75, absent: 2 })]);
        let same = Summary { keys: vec![key(7, 60, 0)], total: 60, absent: 0 };
        let two =
            telling(5, 3, vec![(2, same.clone()), (1, Summary { keys: vec![key(7, 5, 0)], total: 5, absent: 0 })]);
        let ranked = Ranked::of(vec![one, two], 10);
        assert_eq!(numbers(&ranked), [(2, 7, 60, 0), (1, 7, 55, 0), (1, 8, 20, 1)]);
        assert_eq!((ranked.since, ranked.left_out), (WallTime::from_unix_nanos(5), 3));
        let told: Vec<_> = ranked.limits.iter().map(|(id, summary)| (id.0, summary.total, summary.absent)).collect();
        assert_eq!(told, [(1, 80, 2), (2, 60, 0)], "the busiest limit first");
    }

    #[test]
    fn a_key_that_there_is_no_room_for_is_below_what_its_limit_says_of_absent_ones() {
        let keys = vec![key(1, 50, 0), key(2, 30, 0), key(3, 20, 0)];
        let told = telling(0, 0, vec![(1, Summary { keys, total: 100, absent: 0 })]);
        let ranked = Ranked::of(vec![told], 1);
        assert_eq!(numbers(&ranked), [(1, 1, 50, 0)]);
        assert_eq!(ranked.limits[0].1.absent, 30);
    }

    #[test]
    fn nobody_told_anything() {
        let ranked = Ranked::of(vec![telling(4, 0, Vec::new())], 10);
        assert_eq!((numbers(&ranked), ranked.limits.len()), (Vec::new(), 0));
    }
}
