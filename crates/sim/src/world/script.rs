//! What a story's processes read and never change: the questions, the policies as parsed documents, and what the cluster is
//! founded on. Parsed once per story, since a process starts many times.

use std::num::NonZeroU64;
use std::sync::Arc;

use control::{
    Addresses, ClusterId, Command, Expected, Genesis, HashIds, LeaseTerms, LimitDigest, NodeSpec, PolicyProposal,
    VersionRange,
};
use limits::FingerprintKey;
use policy::Document;
use ring::{NodeId, PartitionCount, RoutingSeed};

use super::making::Chance;
use super::{Ask, Scenario};

/// Chance for the keys that a cluster is founded on.
const KEYS_STREAM: u64 = 0x6e65;

/// See the module.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) asks: Vec<Ask>,
    pub(crate) nodes: u8,
    /// Whether nodes have a store.
    pub(crate) has_store: bool,
    documents: Vec<(Arc<str>, Document)>,
    genesis: Genesis,
}

impl Script {
    /// # Panics
    ///
    /// If a policy of the scenario is not readable, or its number of partitions is none that a cluster can have.
    pub(crate) fn of(scenario: &Scenario) -> Script {
        let document = |text: &String| {
            let parsed = Document::parse(text);
            (Arc::from(text.as_str()), parsed.unwrap_or_else(|why| panic!("a policy is not readable: {why:?}\n{text}")))
        };
        Script {
            asks: scenario.asks.clone(),
            nodes: scenario.nodes,
            has_store: scenario.store,
            documents: scenario.policies.iter().map(document).collect(),
            genesis: genesis(scenario),
        }
    }

    pub(crate) fn found(&self) -> Command {
        Command::Found(Box::new(self.genesis.clone()))
    }

    /// The document of this text.
    ///
    /// # Panics
    ///
    /// If no policy of the scenario reads so: nobody applies another.
    pub(crate) fn document(&self, text: &Arc<str>) -> &Document {
        let is_it = |(known, _): &&(Arc<str>, Document)| Arc::ptr_eq(known, text) || known == text;
        &self.documents.iter().find(is_it).expect("only policies of the scenario are applied").1
    }

    /// The domain that all policies and all questions are of; empty where there is no policy.
    pub(crate) fn domain(&self) -> &str {
        self.documents.first().map_or("", |(_, document)| document.domain())
    }

    /// The proposal of the scenario's policy of this number, if there is such a one.
    pub(crate) fn proposal(&self, number: usize) -> Option<Command> {
        let (text, document) = self.documents.get(number)?;
        let limits = document.limit_digests().into_iter().map(|limit| LimitDigest {
            name: limit.name,
            digest: limit.digest,
            renamed_from: limit.renamed_from,
        });
        Some(Command::ApplyPolicy(Box::new(PolicyProposal {
            domain: document.domain().to_owned(),
            expected: if number == 0 { Expected::Revision(0) } else { Expected::Any },
            document: Arc::clone(text),
            limits: limits.collect(),
            author: "ringfence".to_owned(),
            reason: "the story wants it".to_owned(),
            at_unix_ms: 0,
        })))
    }
}

/// How a node is called.
pub(crate) fn name_of(node: u8) -> String {
    format!("n{}", node + 1)
}

/// The identity of the node of this number.
pub(crate) fn id_of(node: u8) -> NodeId {
    NodeId(NonZeroU64::MIN.saturating_add(u64::from(node)))
}

/// The number of the node of this identity.
pub(crate) fn number_of(NodeId(id): NodeId) -> u8 {
    u8::try_from(id.get() - 1).expect("nodes are numbered below 256")
}

/// Who a node says that it is.
pub(crate) fn spec_of(node: u8) -> NodeSpec {
    let at = |port: u16| format!("{}:{port}", name_of(node));
    NodeSpec {
        id: id_of(node),
        name: name_of(node),
        addresses: Addresses { peer: at(7_000), api: at(8_080), admin: at(9_000) },
        versions: VersionRange { oldest: 1, newest: 1 },
    }
}

fn genesis(scenario: &Scenario) -> Genesis {
    let mut chance = Chance::of(scenario.seed, KEYS_STREAM);
    let mut secret = || {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&chance.next().to_le_bytes());
        bytes[8..].copy_from_slice(&chance.next().to_le_bytes());
        bytes
    };
    Genesis {
        cluster: ClusterId(secret()),
        format: Genesis::FORMAT,
        cluster_version: 1,
        name: "story".to_owned(),
        founders: (0..scenario.nodes).map(name_of).collect(),
        partitions: PartitionCount::new(scenario.partitions).expect("a scenario has a power of two of partitions"),
        hashes: HashIds::KNOWN,
        key_encoding: Genesis::KEY_ENCODING,
        routing_seed: RoutingSeed(secret()),
        fingerprint_key: FingerprintKey(secret()),
        lease: LeaseTerms::from(scenario.terms),
    }
}
