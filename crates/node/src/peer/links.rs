//! The links to every other node, kept in step with the roster. Looking one up takes no lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use limits::Span;
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
                    Known { address: address.clone(), link, tally }
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

    /// Asks every node; resolves when each has answered or cannot. Those that are left alone are asked too, and nobody
    /// waits for them.
    pub fn ask_all(&self, item: &Forwarded) -> impl Future<Output = ()> + use<> {
        let links = self.links.load();
        let asked = links.values().map(|known| (known.link.may_ask(), known.link.ask(item.clone())));
        let awaited: Vec<_> = asked.filter(|(may_answer, _)| *may_answer).map(|(_, answer)| answer).collect();
        async move { drop(join_all(awaited).await) }
    }

    /// Whether each peer is left alone, and how often it began to be, by name, those that are gone included.
    pub fn circuits(&self) -> Vec<(String, bool, u64)> {
        let links = self.links.load();
        let is_left_alone = |tally: &Arc<PeerTally>| {
            links.values().any(|known| Arc::ptr_eq(&known.tally, tally) && known.link.is_left_alone())
        };
        let of = |(name, tally): (String, Arc<PeerTally>)| (name, is_left_alone(&tally), tally.opened());
        self.tallies().into_iter().map(of).collect()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::num::NonZeroU64;
    use std::pin::Pin;
    use std::time::Duration;

    use control::{Addresses, NodeSpec};
    use tokio_stream::wrappers::TcpListenerStream;
    use tokio_stream::{Stream, pending};
    use tonic::transport::Endpoint;
    use tonic::{Request, Response, Status, Streaming};
    use wire::peer as proto;
    use wire::peer::peer_server::{Peer as Service, PeerServer};

    use super::*;
    use crate::node::VERSIONS;

    /// Takes whatever it is sent and never says a word.
    struct Mute;

    #[tonic::async_trait]
    impl Service for Mute {
        async fn renew(&self, _: Request<proto::RenewRequest>) -> Result<Response<proto::RenewReply>, Status> {
            std::future::pending().await
        }

        type ForwardStream = Pin<Box<dyn Stream<Item = Result<proto::ForwardReplies, Status>> + Send>>;

        async fn forward(
            &self,
            _: Request<Streaming<proto::ForwardBatch>>,
        ) -> Result<Response<Self::ForwardStream>, Status> {
            Ok(Response::new(Box::pin(pending())))
        }
    }

    fn id(number: u64) -> NodeId {
        NodeId(NonZeroU64::new(number).unwrap())
    }

    #[tokio::test]
    async fn nobody_waits_for_a_peer_that_is_left_alone_and_it_is_counted_when_it_is_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = listener.local_addr().unwrap().to_string();
        let server = tonic::transport::Server::builder().add_service(PeerServer::new(Mute));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let dial: Dial = Arc::new(|peer| Ok(Endpoint::new(format!("http://{}", peer.address))?.connect_lazy()));
        let links = Links::new(id(1), dial);
        let addresses = Addresses { peer, api: String::new(), admin: String::new() };
        let spec = NodeSpec { id: id(2), name: "n2".to_owned(), addresses, versions: VERSIONS };
        links.follow(&Roster::new([spec]));

        // Whether it is asked at this moment is chance: it is tried once in a while. It never answers.
        let told = || tokio::time::timeout(Duration::from_millis(10), links.ask_all(&Forwarded::Forget));
        tokio::time::timeout(Duration::from_secs(20), async { while told().await.is_err() {} }).await.unwrap();
        assert_eq!(links.circuits(), [("n2".to_owned(), true, 1)]);

        links.follow(&Roster::default());
        assert_eq!(links.circuits(), [("n2".to_owned(), false, 1)]);
    }
}
