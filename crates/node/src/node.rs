//! A running node, as front doors and operators see it: it decides checks, tells what it knows of the cluster, and stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::{Event, VersionRange};
use histogram::Durations;
use limits::{Moment, Span, WallTime};
use parking_lot::Mutex;
use ring::NodeId;
use store::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock_source::ClockSource;
use crate::config::Bounds;
use crate::decision::{Checked, Question};
use crate::desk::Desk;
use crate::events::{Events, SeenEvent};
use crate::gossip::{self, GossipHandle};
use crate::ingress::Ingress;
use crate::keeping;
use crate::leave::Left;
use crate::owner::{Holdings, Owner, StoreAges};
use crate::peer::Links;
use crate::propose::Proposer;
use crate::raft::{self, RaftNode, Standing};
use crate::refusals::{Refusals, Refused};
use crate::replica::{Followers, Replica};
use crate::secret::Secrets;
use crate::session::{Exit, Phase};
use crate::transport::{Connections, Credentials};
use crate::views::{Policies, Views};

/// The versions of the cluster's rules that this program follows.
pub const VERSIONS: VersionRange = VersionRange { oldest: 1, newest: 1 };

/// The shortest time in which anything can be asked; a caller that grants less is taken to grant this.
pub const BUDGET_MIN: Span = Span::from_millis(1);

/// A running node.
pub struct Node {
    me: NodeId,
    name: String,
    cluster: String,
    bounds: Bounds,
    pub(crate) views: Arc<Views>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) ingress: Arc<Ingress>,
    links: Arc<Links>,
    desk: Arc<Desk>,
    replica: Arc<Replica>,
    raft: RaftNode,
    proposer: Arc<Proposer>,
    pub(crate) gossip: Arc<GossipHandle>,
    connections: Connections,
    credentials: Arc<Credentials>,
    pub(crate) events: Arc<Events>,
    refusals: Arc<Refusals>,
    clock_source: ClockSource,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) exit: watch::Sender<Exit>,
    /// The store, once it is opened.
    store: watch::Receiver<Option<Store>>,
    /// What came of leaving, once it is known.
    pub(crate) left: tokio::sync::Mutex<Option<Left>>,
    /// The last revision of each domain that was told to bind; no more domains than have a policy.
    pub(crate) told_binding: Mutex<BTreeMap<String, u64>>,
    /// Everything the node does on its own account; it ends with the node.
    tasks: Mutex<JoinSet<()>>,
}

/// What a node's two clocks read, as shown to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The clock that everything here goes by.
    pub boot: Moment,
    /// The machine's idea of the time of day, by which nothing is decided.
    pub wall: WallTime,
}

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) bounds: Bounds,
    pub(crate) followers: Followers,
    pub(crate) replica: Arc<Replica>,
    pub(crate) raft: RaftNode,
    pub(crate) proposer: Arc<Proposer>,
    pub(crate) gossip: Arc<GossipHandle>,
    pub(crate) connections: Connections,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) events: Arc<Events>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) clock_source: ClockSource,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) exit: watch::Sender<Exit>,
    pub(crate) store: watch::Receiver<Option<Store>>,
    pub(crate) tasks: JoinSet<()>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("id", &self.me).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a node did not start. Nothing runs; each variant says what to mend.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used. It names the path.
    #[error(transparent)]
    Journal(#[from] raft::OpenError),
    /// The journal does not give back what was put into it.
    #[error(transparent)]
    JournalRead(#[from] raft::JournalError),
    /// What founding wrote down is not readable.
    #[error("what was written down about founding: {0}")]
    Standing(wire::control::DecodeError),
    /// Consensus did not start.
    #[error(transparent)]
    Consensus(#[from] raft::StartError),
    /// A name in the configuration cannot be one.
    #[error("{what} `{text}`: {error}")]
    Name {
        /// Which setting.
        what: &'static str,
        /// What it says.
        text: String,
        /// What is expected.
        error: crate::cluster::NameError,
    },
    /// An advertised address does not resolve, or cannot be one.
    #[error("the advertised address {address}: {problem}")]
    Advertise {
        /// The address.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A socket does not do what sockets do.
    #[error("the peer port: {0}")]
    Socket(#[from] std::io::Error),
}

impl Node {
    pub(crate) fn of(parts: Parts) -> Node {
        let Followers { views, owner, ingress, links, desk } = parts.followers;
        Node {
            me: parts.raft.id(),
            name: parts.name,
            cluster: parts.cluster,
            bounds: parts.bounds,
            views,
            owner,
            ingress,
            links,
            desk,
            replica: parts.replica,
            raft: parts.raft,
            proposer: parts.proposer,
            gossip: parts.gossip,
            connections: parts.connections,
            credentials: parts.credentials,
            events: parts.events,
            refusals: parts.refusals,
            clock_source: parts.clock_source,
            phase: parts.phase,
            exit: parts.exit,
            store: parts.store,
            left: tokio::sync::Mutex::new(None),
            told_binding: Mutex::default(),
            tasks: Mutex::new(parts.tasks),
        }
    }

    /// Resolves once this node has applied a state with genesis and policies: from then on it answers every check.
    pub async fn ready(&self) {
        let mut changes = self.views.changes();
        while self.unready().is_some() && changes.changed().await.is_ok() {}
    }

    /// Changes whenever this node's view of the cluster did, and when it begins to leave: whoever follows its readiness looks
    /// at [`Node::unready`] again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.views.changes()
    }

    /// Resolves once this node also knows an owner for every partition.
    pub async fn settled(&self) {
        self.ready().await;
        let mut changes = self.views.changes();
        while !self.is_settled() && changes.changed().await.is_ok() {}
    }

    fn is_settled(&self) -> bool {
        let routes = self.views.routes.load();
        let placed = routes.map_version() > 0 && routes.iter().all(|(_, route)| route.session.is_some());
        placed && self.lease_remaining() > Span::ZERO && self.owner.wall().is_some()
    }

    /// What keeps this node from answering checks, if anything does, in words.
    pub fn unready(&self) -> Option<String> {
        if self.is_leaving() {
            return Some("this node is leaving".to_owned());
        }
        if let Some(why) = &*self.refusals.fatal().borrow() {
            return Some(why.to_string());
        }
        if self.replica.genesis().borrow().is_none() {
            let none = "this node belongs to no cluster yet";
            return Some(self.refusals.newest().map_or(none.to_owned(), |newest| format!("{none}; {newest}")));
        }
        let policies = self.views.policies.load();
        policies.catalogue.domains().next().is_none().then(|| "the cluster has no policy yet".to_owned())
    }

    /// Pends for as long as this node may go on, which is as good as for ever; resolves to why it must not.
    pub async fn refused(&self) -> Refused {
        let mut fatal = self.refusals.fatal();
        match fatal.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// What this node saw and applied after event number `after`, the oldest first, as far as it is kept.
    pub fn events(&self, after: u64) -> Vec<SeenEvent> {
        self.events.after(after)
    }

    /// What this node's clocks read.
    pub fn clocks(&self) -> Clocks {
        Clocks { boot: crate::clock::now(), wall: crate::clock::wall() }
    }

    /// What its boot-time clock rests on.
    pub fn clock_source(&self) -> &ClockSource {
        &self.clock_source
    }

    /// What this node knows of its store; `None` where it was given none.
    pub fn store(&self) -> Option<keeping::View> {
        self.owner.keeping().map(|keeping| keeping.view())
    }

    /// What became of this node's dealings with its store; `None` where it was given none.
    pub fn store_totals(&self) -> Option<keeping::Totals> {
        self.owner.keeping().map(|keeping| keeping.totals())
    }

    /// How old the oldest is of what the store has of this node's partitions, and of what it is to have.
    pub fn store_ages(&self) -> StoreAges {
        self.owner.store_ages()
    }

    /// Lends the counters of the store's connection, once there is one.
    pub fn store_tally<T>(&self, read: impl FnOnce(&store::Tally) -> T) -> Option<T> {
        self.store.borrow().as_ref().map(|store| read(store.tally()))
    }

    /// From now on these secrets are in force, in gossip and for every connection that is made. What stands stays up.
    pub fn set_secrets(&self, secrets: Secrets) {
        self.credentials.set_secrets(secrets.clone());
        self.gossip.set_secrets(secrets);
    }

    /// Decides these questions, each for itself.
    pub async fn check(&self, questions: &[Question<'_>]) -> Checked {
        if questions.iter().all(|question| question.brought.is_empty()) {
            return self.ingress.check(questions).await;
        }
        let started = crate::clock::now();
        let refused = self.define_brought(questions).await;
        let spent = crate::clock::now().since(started);
        let put = questions.iter().zip(&refused).filter(|(_, why)| why.is_none());
        let left = |asked: Span| asked.saturating_sub(spent);
        let put = put.map(|(question, _)| Question { budget: left(question.budget), ..question.clone() });
        let put: Vec<_> = put.collect();
        let Checked { policies, decisions } = self.ingress.check(&put).await;
        let mut decided = decisions.into_iter();
        let decisions = refused.into_iter().filter_map(|why| match why {
            Some(why) => Some((Err(why), None)),
            None => decided.next(),
        });
        Checked { decisions: decisions.collect(), policies }
    }

    /// How long a caller waits: what it asked for, at least [`BUDGET_MIN`] and up to this node's maximum, or the default.
    pub fn budget(&self, asked: Option<Span>) -> Span {
        asked.unwrap_or(self.bounds.deadline_default).clamp(BUDGET_MIN, self.bounds.deadline_max)
    }

    /// How long a caller should wait before it asks again, when no owner could answer: until the longest takeover is over.
    pub fn recovery_hint(&self) -> Span {
        self.views.ttl().unwrap_or(Span::from_secs(1))
    }

    pub(crate) fn id(&self) -> NodeId {
        self.me
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// This node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster's name.
    pub fn cluster_name(&self) -> &str {
        &self.cluster
    }

    /// A node's name, if the control plane knows the node.
    pub fn name_of(&self, id: NodeId) -> Option<String> {
        if id == self.me {
            return Some(self.name.clone());
        }
        self.views.roster.load().node(id).map(|node| node.name.clone())
    }

    /// The policies in force here.
    pub fn policies(&self) -> Arc<Policies> {
        self.views.policies.load_full()
    }

    /// Cluster time, if it is known.
    pub fn cluster_time(&self) -> Option<WallTime> {
        self.owner.wall()
    }

    /// What this node holds.
    pub fn holdings(&self) -> Holdings {
        self.owner.holdings()
    }

    /// How long this node may still decide without being renewed.
    pub fn lease_remaining(&self) -> Span {
        self.owner.lease().end.since(crate::clock::now())
    }

    /// How many members gossip believes to be in which state.
    pub fn members(&self) -> [(&'static str, usize); 3] {
        let view = self.gossip.members().borrow().clone();
        let count = |state: gossip::State| view.members.values().filter(|member| member.state == state).count();
        [
            ("alive", count(gossip::State::Alive)),
            ("suspect", count(gossip::State::Suspect)),
            ("down", count(gossip::State::Down)),
        ]
    }

    /// Charges taken back because the check was refused elsewhere or too late.
    pub fn cancelled_charges(&self) -> u64 {
        self.ingress.cancelled()
    }

    /// Questions to owners that came to no decision, by the last that was heard of them.
    pub fn unanswered(&self) -> Vec<(&'static str, u64)> {
        self.ingress.unanswered().collect()
    }

    /// Every peer by name: whether it is left alone because it is silent or out of reach, and how often it began to be.
    pub fn circuits(&self) -> Vec<(String, bool, u64)> {
        self.links.circuits()
    }

    /// Denials that this node may repeat without asking their owners.
    pub fn denials(&self) -> usize {
        self.ingress.denials()
    }

    /// Reigns that began here, by what was known of what had been used.
    pub fn takeovers(&self) -> [(&'static str, u64); 3] {
        self.owner.reigns()
    }

    /// Checks that could not be delivered to their owner: its name, the reason, how many.
    pub fn forward_errors(&self) -> Vec<(String, &'static str, u64)> {
        self.links.errors()
    }

    /// How long owners took to answer what was forwarded to them, by name.
    pub fn forward_durations(&self) -> Vec<(String, Durations)> {
        self.links.tallies().into_iter().map(|(name, tally)| (name, tally.durations())).collect()
    }

    /// Cancels and debts that were lost because too much waited for their owner already, by its name. What they would have
    /// mended stays as it was: a charge that nobody used, or one that was not booked.
    pub fn untold(&self) -> Vec<(String, u64)> {
        self.links.tallies().into_iter().map(|(name, tally)| (name, tally.untold())).collect()
    }

    /// Connections and datagrams that were refused here or by the other side, by reason.
    pub fn peer_refusals(&self) -> Vec<(&'static str, u64)> {
        self.refusals.counts(&self.gossip.counters())
    }

    /// Keys held here by domain. There is no count by limit: a key is kept as a fingerprint, which does not tell its limit.
    pub fn keys(&self) -> Vec<(String, u64)> {
        let policies = self.views.policies.load();
        let catalogue = &policies.catalogue;
        let held = |domain: &policy::Domain| catalogue.shared_budgets().used(domain.id());
        catalogue.domains().map(|domain| (domain.name().to_owned(), held(domain))).collect()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.raft.watch().borrow().clone()
    }

    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    pub(crate) fn tell(&self, event: Event) {
        self.events.tell(event);
    }

    pub(crate) fn proposer(&self) -> &Proposer {
        &self.proposer
    }

    /// Stops: everything that the node does on its own account ends without a word, and its files are closed. The links to
    /// other nodes end when the node is dropped. See [`Node::leave`] for going politely.
    pub async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        self.gossip.end();
        self.connections.hang_up();
        self.raft.shutdown().await;
    }
}
