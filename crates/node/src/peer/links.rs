//! The links to every other node, kept in step with the roster. Looking one up takes no lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use ring::NodeId;
use tokio::sync::oneshot;
use wire::forward::Forwarded;

use crate::peer::link::{Link, Outcome, Unreachable};
use crate::raft::{Dial, Peer};
use crate::views::Roster;

/// One link per node that the control plane knows, other than this one.
pub struct Links {
    me: NodeId,
    dial: Dial,
    links: ArcSwap<BTreeMap<NodeId, Known>>,
    changing: Mutex<()>,
    errors: [AtomicU64; Unreachable::ALL.len()],
}

#[derive(Clone)]
struct Known {
    address: String,
    link: Arc<Link>,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("me", &self.me).field("to", &self.links.load().len()).finish_non_exhaustive()
    }
}

impl Links {
    /// No links yet.
    pub fn new(me: NodeId, dial: Dial) -> Links {
        Links { me, dial, links: ArcSwap::default(), changing: Mutex::new(()), errors: Default::default() }
    }

    /// Starts links to nodes that are new or moved, and drops those to nodes that left.
    pub fn follow(&self, roster: &Roster) {
        let _one_at_a_time = self.changing.lock();
        let standing = self.links.load();
        let next = roster.iter().filter(|node| node.id != self.me).filter_map(|node| {
            let address = &node.addresses.peer;
            let known = match standing.get(&node.id) {
                Some(known) if known.address == *address => known.clone(),
                Some(_) | None => {
                    let peer = Peer { id: node.id, address: address.clone(), name: node.name.clone() };
                    let channel = (self.dial)(&peer)
                        .inspect_err(|error| tracing::warn!(%error, address, "a peer's address cannot be dialled"))
                        .ok()?;
                    Known { address: address.clone(), link: Arc::new(Link::start(node.id, channel)) }
                }
            };
            Some((node.id, known))
        });
        self.links.store(Arc::new(next.collect()));
    }

    /// Asks a node; the receiver resolves to its reply or to why there is none.
    pub fn ask(&self, node: NodeId, item: Forwarded) -> oneshot::Receiver<Outcome> {
        match self.links.load().get(&node) {
            Some(known) => known.link.ask(item),
            None => {
                let (unknown, answer) = oneshot::channel();
                let _ = unknown.send(Err(Unreachable::UnknownPeer));
                answer
            }
        }
    }

    /// Counts a check that could not be delivered.
    pub fn count(&self, why: Unreachable) {
        self.errors[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that could not be delivered, by reason.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Unreachable::ALL.into_iter().zip(&self.errors).map(|(why, count)| (why.as_str(), count.load(Ordering::Relaxed)))
    }

    /// Tells a node something that needs no answer.
    pub fn tell(&self, node: NodeId, item: Forwarded) {
        if let Some(known) = self.links.load().get(&node) {
            known.link.tell(item);
        }
    }
}
