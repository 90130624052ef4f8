//! What a node knows of its cluster, as immutable values that are exchanged whole: the path of a check loads them
//! without a lock. They are published by the one task that applies the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use control::NodeSpec;
use limits::{Book as _, FailMode, LimitId, Shape, Span, Variant};
use ownership::Routes;
use policy::{Catalogue, IpPrefixes};
use ring::NodeId;
use tokio::sync::watch;

use crate::clock;
use crate::tally::Tally;
use crate::top::Tops;

/// Every policy in force, compiled, with the counters of its limits.
#[derive(Debug)]
pub struct Policies {
    /// Compiled documents.
    pub catalogue: Catalogue,
    /// Decisions counted per limit.
    pub tally: Tally,
    /// The keys that each limit's checks are of, as far as they are many.
    pub(crate) tops: Tops,
    /// What answers say of a limit, by its identity.
    limits: Vec<Option<KnownLimit>>,
}

/// What answers say of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLimit {
    /// Its name.
    pub name: Box<str>,
    /// Its domain.
    pub domain: Box<str>,
    /// The revision of its domain.
    pub revision: u64,
    /// What its owner decides with, by its own numbers.
    pub shape: Shape,
    /// What its ingress does without an owner.
    pub fail: FailMode,
    /// The attributes that it counts by.
    pub key: Box<[Box<str>]>,
    /// By which prefixes it counts addresses.
    pub prefixes: IpPrefixes,
}

impl Policies {
    /// No policy at all.
    pub fn none() -> Policies {
        Policies {
            catalogue: Catalogue::empty(),
            tally: Tally::default(),
            tops: Tops::beginning(clock::wall()),
            limits: Vec::new(),
        }
    }

    /// These policies after those: counters and top keys of limits that stand already are kept.
    pub fn after(previous: &Policies, catalogue: Catalogue) -> Policies {
        let mut limits = Vec::new();
        for domain in catalogue.domains() {
            for limit in domain.limits() {
                let index = limit.id().0 as usize;
                limits.resize(limits.len().max(index + 1), None);
                limits[index] = Some(KnownLimit {
                    name: limit.name().into(),
                    domain: domain.name().into(),
                    revision: domain.revision(),
                    shape: *limit.shape(),
                    fail: *limit.fail(),
                    key: domain.key_names(limit).map(Box::from).collect(),
                    prefixes: domain.key_prefixes(limit),
                });
            }
        }
        let ids = limits.iter().enumerate().filter_map(|(index, known)| known.as_ref().map(|_| LimitId(index as u32)));
        let tally = previous.tally.with_limits(ids.clone());
        let tops = previous.tops.with_limits(ids);
        Policies { catalogue, tally, tops, limits }
    }

    /// What is known of a limit.
    pub fn limit(&self, id: LimitId) -> Option<&KnownLimit> {
        self.limits.get(id.0 as usize).and_then(Option::as_ref)
    }

    /// What the owner of a limit decides with, under these numbers of it.
    pub fn shape(&self, id: LimitId, variant: Variant) -> Option<&Shape> {
        let entry = self.catalogue.limit(id, variant)?;
        Some(self.catalogue.shapes().get(entry.shape))
    }

    /// The revision of a limit's domain; 0 for a limit that is not known.
    pub fn revision_of(&self, id: LimitId) -> u64 {
        self.limit(id).map_or(0, |known| known.revision)
    }
}

/// The nodes that the control plane knows, by identity.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    nodes: BTreeMap<NodeId, NodeSpec>,
}

impl Roster {
    /// A roster of these nodes.
    pub fn new(nodes: impl IntoIterator<Item = NodeSpec>) -> Roster {
        Roster { nodes: nodes.into_iter().map(|node| (node.id, node)).collect() }
    }

    /// What is known of a node.
    pub fn node(&self, id: NodeId) -> Option<&NodeSpec> {
        self.nodes.get(&id)
    }

    /// All nodes, by identity.
    pub fn iter(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.values()
    }
}

/// The published views. Whoever waits for one to change subscribes to [`Views::changes`].
#[derive(Debug)]
pub struct Views {
    /// Who owns what.
    pub routes: ArcSwap<Routes>,
    /// What limits whom.
    pub policies: ArcSwap<Policies>,
    /// Who is who.
    pub roster: ArcSwap<Roster>,
    /// How long leases last, in nanoseconds; 0 before that is known.
    ttl: AtomicU64,
    generation: watch::Sender<u64>,
}

impl Views {
    /// Views of a cluster of which nothing is known yet.
    pub fn unknown() -> Views {
        Views {
            routes: ArcSwap::from_pointee(Routes::unknown()),
            policies: ArcSwap::from_pointee(Policies::none()),
            roster: ArcSwap::from_pointee(Roster::default()),
            ttl: AtomicU64::new(0),
            generation: watch::Sender::new(0),
        }
    }

    /// How long leases last, once that is known.
    pub fn ttl(&self) -> Option<Span> {
        Some(self.ttl.load(Ordering::Relaxed)).filter(|nanos| *nanos > 0).map(Span::from_nanos)
    }

    /// Tells how long leases last.
    pub fn set_ttl(&self, ttl: Span) {
        self.ttl.store(ttl.as_nanos(), Ordering::Relaxed);
    }

    /// Wakes everyone who waits for a change of any view. Call it after the new view is in place.
    pub fn announce(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// A receiver that changes whenever a view did.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }
}
