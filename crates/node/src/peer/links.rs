//! The links to every other node, kept in step with the roster. Looking one up takes no lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use limits::Span;
use ownership::ingress::Standing;
use parking_lot::Mutex;
use ring::NodeId;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use wire::forward::Forwarded;

use crate::peer::link::{Link, Outcome, Unreachable};
use crate::peer::tally::PeerTally;
use crate::raft::{Dial, Peer};
use crate::views::Roster;

/// How many names of peers have counters of their own; those beyond share [`OTHER`].
pub const NAMES_MAX: usize = 128;

/// Stands for every name beyond [`NAMES_MAX`].
pub const OTHER: &str = "_other";

/// Stands for nodes that are not known when they are to be asked.
const UNKNOWN: &str = "_unknown";

/// One link per node that the control plane knows, other than this one.
pub struct Links {
    me: NodeId,
    dial: Dial,
    links: ArcSwap<BTreeMap<NodeId, Known>>,
    /// By name; held while the links change, too.
    tallies: Mutex<BTreeMap<String, Arc<PeerTally>>>,
    unknown: PeerTally,
}

#[derive(Clone)]
struct Known {
    name: String,
    address: String,
    link: Arc<Link>,
    tally: Arc<PeerTally>,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("me", &self.me).field("to", &self.links.load().len()).finish_non_exhaustive()
    }
}

impl Links {
    /// No links yet.
    pub fn new(me: NodeId, dial: Dial) -> Links {
        Links { me, dial, links: ArcSwap::default(), tallies: Mutex::default(), unknown: PeerTally::default() }
    }

    /// Starts links to nodes that are new or moved, and drops those to nodes that left.
    pub fn follow(&self, roster: &Roster) {
        let mut tallies = self.tallies.lock();
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
                    let tally = tally_of(&mut tallies, &node.name);
                    let link = Arc::new(Link::start(node.id, channel, Arc::clone(&tally)));
                    Known { name: node.name.clone(), address: address.clone(), link, tally }
                }
            };
            Some((node.id, known))
        });
        self.links.store(Arc::new(next.collect()));
    }

    /// A channel to a node beside its link, for what must not stand before checks.
    pub fn dial_apart(&self, peer: &Peer) -> Result<Channel, tonic::transport::Error> {
        (self.dial)(peer)
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

    /// Whether a node may be asked now, or is left alone because it is silent to everybody. Whoever may asks it.
    pub fn may_ask(&self, node: NodeId) -> bool {
        self.links.load().get(&node).is_none_or(|known| known.link.may_ask())
    }

    /// Asks every node; resolves when each has answered or cannot.
    pub fn ask_all(&self, item: &Forwarded) -> impl Future<Output = ()> + use<> {
        let links = self.links.load();
        let answers: Vec<_> = links.values().map(|known| known.link.ask(item.clone())).collect();
        async move { drop(join_all(answers).await) }
    }

    /// How every peer stands, and how often it began to be left alone, by name.
    pub fn circuits(&self) -> Vec<(String, Standing, u64)> {
        let links = self.links.load();
        let circuit = |known: &Known| {
            let (standing, opened) = known.link.circuit();
            (known.name.clone(), standing, opened)
        };
        links.values().map(circuit).collect()
    }

    /// Counts a check that could not be delivered.
    pub fn count_error(&self, node: NodeId, why: Unreachable) {
        match self.links.load().get(&node) {
            Some(known) => known.tally.count_error(why),
            None => self.unknown.count_error(why),
        }
    }

    /// Counts an answer that came so long after its check was sent.
    pub fn count_answer(&self, node: NodeId, took: Span) {
        if let Some(known) = self.links.load().get(&node) {
            known.tally.count_answer(took);
        }
    }

    /// The counters of every peer by name, those that are gone included.
    pub fn tallies(&self) -> Vec<(String, Arc<PeerTally>)> {
        self.tallies.lock().iter().map(|(name, tally)| (name.clone(), Arc::clone(tally))).collect()
    }

    /// Checks that could not be delivered: peer, reason, how many.
    pub fn errors(&self) -> Vec<(String, &'static str, u64)> {
        let of = |name: &str, tally: &PeerTally| -> Vec<_> {
            tally.errors().map(|(reason, count)| (name.to_owned(), reason, count)).collect()
        };
        let unknown = of(UNKNOWN, &self.unknown).into_iter().filter(|(_, _, count)| *count > 0);
        self.tallies().iter().flat_map(|(name, tally)| of(name, tally)).chain(unknown).collect()
    }

    /// Tells a node something that needs no answer.
    pub fn tell(&self, node: NodeId, item: Forwarded) {
        if let Some(known) = self.links.load().get(&node) {
            known.link.tell(item);
        }
    }
}

/// The counters of a name, made where there are none and there is room.
fn tally_of(tallies: &mut BTreeMap<String, Arc<PeerTally>>, name: &str) -> Arc<PeerTally> {
    let name = if tallies.len() < NAMES_MAX || tallies.contains_key(name) { name } else { OTHER };
    Arc::clone(tallies.entry(name.to_owned()).or_default())
}
