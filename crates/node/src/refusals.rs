//! Whom this node does not come to talk to, and why it must not go on itself. Both are an operator's to mend, so they are
//! told by name: the first once per peer and reason, the second to whoever runs the node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use control::Event;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::events::Events;
use crate::gossip::{self, Dropped};
use crate::transport::{DialError, HandshakeError, Reason};

/// How many pairs of peer and reason are remembered as told. Beyond it nothing more is told; the counters count all.
pub const TOLD_MAX: usize = 256;

/// Why a node must not go on: it belongs to a cluster that cannot take it as it is. Nothing was changed on any other node.
/// Each is mended in the node's own configuration, so trying again as it is changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another process lives under this node's name, and goes on to renew its session.
    #[error("name-in-use: {name} is the name of the node at {held_by}, which lives; give this node a name of its own")]
    NameInUse {
        /// The name.
        name: String,
        /// The peer address of the node that holds it.
        held_by: String,
    },
    /// The cluster was founded by other founders than this node was given.
    #[error(
        "wrong-founders: {told_by} belongs to a cluster that was founded by others than this node was given ({}); \
         cluster.founders is the same on every node",
        .ours.join(", ")
    )]
    WrongFounders {
        /// The node that belongs to the cluster.
        told_by: String,
        /// What this node was given.
        ours: Vec<String>,
    },
    /// This node was told otherwise than genesis says, in which no two nodes may differ.
    #[error("bad-config: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    BadConfig(Vec<Difference>),
}

/// A setting in which this node and genesis differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {here} here and {genesis} in genesis")]
pub struct Difference {
    /// Its name in the node file.
    pub setting: &'static str,
    /// What this node was given.
    pub here: String,
    /// What the cluster goes by.
    pub genesis: String,
}

impl Refused {
    /// The stable word.
    pub const fn code(&self) -> &'static str {
        match self {
            Refused::NameInUse { .. } => "name-in-use",
            Refused::WrongFounders { .. } => "wrong-founders",
            Refused::BadConfig(_) => "bad-config",
        }
    }
}

/// Where refusals meet.
#[derive(Debug)]
pub struct Refusals {
    events: Arc<Events>,
    told: Mutex<BTreeSet<(String, &'static str)>>,
    newest: Mutex<Option<String>>,
    fatal: watch::Sender<Option<Refused>>,
    handshakes: [AtomicU64; Reason::ALL.len()],
}

impl Refusals {
    /// None so far.
    pub fn new(events: Arc<Events>) -> Refusals {
        Refusals {
            events,
            told: Mutex::default(),
            newest: Mutex::default(),
            fatal: watch::Sender::new(None),
            handshakes: Default::default(),
        }
    }

    /// A peer and this node do not come to talk, for a reason that stays until somebody acts. `text` says it in words.
    pub fn tell(&self, peer: &str, reason: &'static str, text: &str) {
        {
            let mut told = self.told.lock();
            if told.len() >= TOLD_MAX || !told.insert((peer.to_owned(), reason)) {
                return;
            }
        }
        *self.newest.lock() = Some(format!("{peer}: {text}"));
        self.events.tell(Event::PeerRefused { peer: peer.to_owned(), reason: reason.to_owned() });
    }

    /// That peer was reached after all: should it be refused again, that is news.
    pub fn forget(&self, peer: &str) {
        let mut told = self.told.lock();
        if !told.is_empty() {
            told.retain(|(known, _)| known != peer);
        }
    }

    /// What came of a dialled connection.
    pub fn handle_dialled(&self, address: &str, outcome: Result<(), &DialError>) {
        match outcome {
            Ok(()) => self.forget(address),
            Err(DialError::Refused(error)) => self.handle_refused(address, error),
            Err(DialError::Unreachable(_)) => {}
        }
    }

    /// A handshake failed.
    pub fn handle_refused(&self, peer: &str, error: &HandshakeError) {
        let reason = error.reason();
        self.handshakes[reason as usize].fetch_add(1, Ordering::Relaxed);
        if is_an_operators(reason) {
            self.tell(peer, reason.as_str(), &error.to_string());
        }
    }

    /// In words, the newest refusal; `None` when there was none.
    pub fn newest(&self) -> Option<String> {
        self.newest.lock().clone()
    }

    /// Handshakes and datagrams that were refused, by reason.
    pub fn counts(&self, gossip: &gossip::Counters) -> Vec<(&'static str, u64)> {
        let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
        for reason in Reason::ALL.into_iter().filter(|reason| is_an_operators(*reason)) {
            *counts.entry(reason.as_str()).or_default() += self.handshakes[reason as usize].load(Ordering::Relaxed);
        }
        for reason in [Dropped::WrongSecret, Dropped::WrongCluster, Dropped::Version] {
            *counts.entry(reason.as_str()).or_default() += gossip.dropped(reason);
        }
        counts.into_iter().collect()
    }

    /// This node must not go on. The first reason stands.
    pub fn stop_for(&self, why: Refused) {
        self.fatal.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                tracing::error!("{why}");
                *known = Some(why);
            }
            first
        });
    }

    /// Why this node must not go on, once that is so.
    pub fn fatal(&self) -> watch::Receiver<Option<Refused>> {
        self.fatal.subscribe()
    }
}

/// Whether a reason stays until an operator acts. An address that leads to another node than was meant is ordinary after a
/// node lost its disk, and mends itself.
const fn is_an_operators(reason: Reason) -> bool {
    match reason {
        Reason::WrongSecret | Reason::WrongCluster | Reason::Version | Reason::NotAPeer => true,
        Reason::WrongNode | Reason::Timeout | Reason::Closed | Reason::Crowded | Reason::Unreachable => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_told_of_once_per_reason_and_again_after_it_was_reached() {
        let events = Arc::new(Events::default());
        let refusals = Refusals::new(Arc::clone(&events));
        let told = || events.after(0).len();
        for _ in 0..3 {
            refusals.handle_refused("n2:7601", &HandshakeError::WrongSecret);
        }
        assert_eq!(told(), 1);
        assert!(refusals.newest().is_some_and(|text| text.starts_with("n2:7601: wrong-secret")), "{refusals:?}");
        refusals.handle_refused("n2:7601", &HandshakeError::NotAPeer);
        refusals.handle_refused("n3:7601", &HandshakeError::WrongSecret);
        assert_eq!(told(), 3);
        refusals.handle_refused("n3:7601", &HandshakeError::Timeout);
        assert_eq!(told(), 3, "a timeout mends itself");
        refusals.handle_dialled("n2:7601", Ok(()));
        refusals.handle_refused("n2:7601", &HandshakeError::WrongSecret);
        assert_eq!(told(), 4);
    }

    #[test]
    fn what_is_told_is_bounded() {
        let events = Arc::new(Events::default());
        let refusals = Refusals::new(Arc::clone(&events));
        for port in 0..2 * TOLD_MAX {
            refusals.handle_refused(&format!("10.0.0.1:{port}"), &HandshakeError::WrongSecret);
        }
        assert_eq!(events.after(0).len(), TOLD_MAX);
    }

    #[test]
    fn the_first_reason_to_stop_stands_and_begins_with_its_word() {
        let refusals = Refusals::new(Arc::default());
        let ttl = Difference { setting: "lease.ttl", here: "5s".into(), genesis: "3s".into() };
        let founders = Difference { setting: "cluster.founders", here: "[n1]".into(), genesis: "[n1, n2]".into() };
        refusals.stop_for(Refused::BadConfig(vec![ttl, founders]));
        refusals.stop_for(Refused::NameInUse { name: "n1".into(), held_by: "n2:7601".into() });
        let why = refusals.fatal().borrow().clone().map(|why| (why.code(), why.to_string()));
        let text =
            "bad-config: lease.ttl is 5s here and 3s in genesis; cluster.founders is [n1] here and [n1, n2] in genesis";
        assert_eq!(why, Some(("bad-config", text.to_owned())));
    }
}
