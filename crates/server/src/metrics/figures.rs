//! What one scrape tells, gathered at one moment: counters that go on are shared, everything else is copied.

use std::sync::Arc;

use histogram::Durations;
use limits::Span;
use node::keeping::Totals;
use node::{ClockTrust, Node, Policies, StoreAges};

use crate::access::Access;
use crate::front::Front;
use crate::meter::Meter;

/// The figures of a node.
#[derive(Debug)]
pub struct Figures {
    /// What limits whom, with the counters of each limit.
    pub policies: Arc<Policies>,
    /// Calls at the doors.
    pub meter: Arc<Meter>,
    /// Tokens that were shown.
    pub access: Arc<Access>,
    /// Checks that could not be delivered: peer, reason, how many.
    pub forward_errors: Vec<(String, &'static str, u64)>,
    /// How long owners took to answer: peer, durations.
    pub forward_durations: Vec<(String, Durations)>,
    /// Cancels and debts that were dropped: peer, how many.
    pub lost_corrections: Vec<(String, u64)>,
    /// Connections and datagrams refused between nodes, by reason.
    pub peer_refusals: Vec<(&'static str, u64)>,
    /// Questions to owners that came to no decision, by reason.
    pub unanswered: Vec<(&'static str, u64)>,
    /// Whether each peer is left alone, and how often it began to be.
    pub circuits: Vec<(String, bool, u64)>,
    /// Denials that may be repeated.
    pub denials: usize,
    /// Charges taken back.
    pub cancelled_charges: u64,
    /// Keys held here, by domain.
    pub keys: Vec<(String, u64)>,
    /// Partitions by what they are to this node.
    pub partitions: [(&'static str, usize); 3],
    /// Reigns that began here, by what was known.
    pub takeovers: [(&'static str, u64); 3],
    /// The store; `None` where this node was given none.
    pub store: Option<StoreFigures>,
    /// How long this node may still decide.
    pub lease_remaining: Span,
    /// How long a lease lasts.
    pub lease_ttl: Span,
    /// Whether the machine's clock is trusted.
    pub clock_trusted: bool,
    /// Among how many nodes emergency shares are divided.
    pub n_max: u32,
    /// The version of the map.
    pub map_version: u64,
    /// Nodes by what gossip thinks of them.
    pub members: [(&'static str, usize); 3],
}

/// The figures of a node's store.
#[derive(Debug, Default)]
pub struct StoreFigures {
    /// Whether it answers.
    pub up: bool,
    /// Whether what is kept there counts.
    pub durable: bool,
    /// Connections, by what came of them.
    pub connects: [(&'static str, u64); 2],
    /// Requests: kind, what came of them, how many.
    pub requests: Vec<(&'static str, &'static str, u64)>,
    /// Keys in writes that were done.
    pub keys_written: u64,
    /// How old what is kept is, and what is not kept yet.
    pub ages: StoreAges,
    /// How long answers took, by kind.
    pub durations: Vec<(&'static str, Durations)>,
    /// Claims and what was put off.
    pub totals: Totals,
}

impl StoreFigures {
    fn of(node: &Node) -> Option<StoreFigures> {
        let (view, totals) = (node.store()?, node.store_totals()?);
        let mut figures = StoreFigures {
            up: view.up.is_some(),
            durable: view.durable.is_some(),
            totals,
            ages: node.store_ages(),
            ..StoreFigures::default()
        };
        node.store_tally(|tally| {
            figures.connects = [("up", tally.connected()), ("failed", tally.failed())];
            figures.keys_written = tally.keys_written();
            figures.requests =
                tally.asked().map(|(op, outcome, count)| (op.as_str(), outcome.as_str(), count)).collect();
            figures.durations = store::Op::ALL.map(|op| (op.as_str(), tally.durations(op))).into();
        });
        Some(figures)
    }
}

impl Figures {
    /// The figures of this moment.
    pub fn of(front: &Front) -> Figures {
        let node = &*front.node;
        let (holdings, status) = (node.holdings(), node.cluster_status());
        Figures {
            policies: node.policies(),
            meter: Arc::clone(&front.meter),
            access: Arc::clone(&front.access),
            forward_errors: node.forward_errors(),
            forward_durations: node.forward_durations(),
            lost_corrections: node.untold(),
            peer_refusals: node.peer_refusals(),
            unanswered: node.unanswered(),
            circuits: node.circuits(),
            denials: node.denials(),
            cancelled_charges: node.cancelled_charges(),
            keys: node.keys(),
            partitions: [
                ("active", holdings.active),
                ("elsewhere", status.owned.saturating_sub(holdings.active)),
                ("vacant", status.vacant),
            ],
            takeovers: node.takeovers(),
            store: StoreFigures::of(node),
            lease_remaining: node.lease_remaining(),
            lease_ttl: status.lease.map_or(Span::ZERO, |lease| lease.ttl),
            clock_trusted: node.clock_source().trust == ClockTrust::Trusted,
            n_max: status.n_max,
            map_version: status.map_version,
            members: node.members(),
        }
    }
}
