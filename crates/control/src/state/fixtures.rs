//! Clusters to tell stories about: nodes n1, n2 ..., and a history that is applied entry by entry.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use limits::FingerprintKey;
use ownership::SessionId;
use ring::{NodeId, PartitionCount, PartitionId, RoutingSeed};

use super::*;
use crate::command::{Addresses, Expected, LimitDigest, NodeSpec, VersionRange};
use crate::genesis::{ClusterId, HashIds, LeaseTerms};

pub(crate) fn genesis(founders: u64) -> Genesis {
    Genesis {
        cluster: ClusterId([7; 16]),
        format: Genesis::FORMAT,
        cluster_version: 1,
        name: "main".into(),
        founders: (1..=founders).map(|n| format!("n{n}")).collect(),
        partitions: PartitionCount::new(16).unwrap(),
        hashes: HashIds::KNOWN,
        key_encoding: Genesis::KEY_ENCODING,
        routing_seed: RoutingSeed([1; 16]),
        fingerprint_key: FingerprintKey([2; 16]),
        lease: LeaseTerms::default(),
    }
}

/// The session that node `n` opens as its `counter`th, always in the same process.
pub(crate) fn session(n: u64, counter: u32) -> SessionId {
    SessionId { node: node(n), nonce: n * 100, counter }
}

pub(crate) fn node(n: u64) -> NodeId {
    NodeId(NonZeroU64::new(n).unwrap())
}

pub(crate) fn spec(n: u64) -> NodeSpec {
    let addresses = Addresses { peer: format!("n{n}:7601"), api: format!("n{n}:7600"), admin: format!("n{n}:7602") };
    NodeSpec { id: node(n), name: format!("n{n}"), addresses, versions: VersionRange { oldest: 1, newest: 1 } }
}

pub(crate) fn open(n: u64, counter: u32) -> Command {
    Command::OpenSession { session: session(n, counter), node: Box::new(spec(n)) }
}

pub(crate) fn run(first: u16, len: u16, to: SessionId) -> Run {
    Run { first: PartitionId(first), len, to }
}

pub(crate) fn policy(domain: &str, expected: Expected, document: &str, limits: &[(&str, u8)]) -> PolicyProposal {
    let digest =
        |&(name, digest): &(&str, u8)| LimitDigest { name: name.into(), digest: [digest; 16], renamed_from: None };
    PolicyProposal {
        domain: domain.into(),
        expected,
        document: Arc::from(document),
        limits: limits.iter().map(digest).collect(),
        author: "ann".into(),
        reason: String::new(),
        at_unix_ms: 0,
    }
}

/// A state and the index of its next entry.
pub(crate) struct History {
    pub(crate) state: State,
    pub(crate) effects: Effects,
}

impl History {
    pub(crate) fn empty() -> History {
        History { state: State::new(), effects: Effects::default() }
    }

    pub(crate) fn founded(founders: u64) -> History {
        let mut history = History::empty();
        history.apply(Command::Found(Box::new(genesis(founders)))).unwrap();
        history
    }

    /// All founders live, and everything is placed.
    pub(crate) fn placed(founders: u64) -> History {
        let mut history = History::founded(founders);
        for n in 1..=founders {
            history.apply(open(n, 1)).unwrap();
        }
        let runs = history.cluster().plan_first_placement(&BTreeSet::new()).unwrap();
        history.apply(Command::Appoint { runs, by: AppointedBy::Leader }).unwrap();
        history
    }

    /// Applies the next entry; `effects` are those of this entry.
    pub(crate) fn apply(&mut self, command: Command) -> Result<Applied, Refusal> {
        self.effects = Effects::default();
        self.state.apply(self.state.applied() + 1, &command, &mut self.effects)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.state.cluster().unwrap()
    }

    pub(crate) fn owned(&self, session: SessionId) -> usize {
        self.cluster().map.owned_by(session).count()
    }

    pub(crate) fn words(&self) -> Vec<&'static str> {
        self.effects.events.iter().map(Event::word).collect()
    }
}
