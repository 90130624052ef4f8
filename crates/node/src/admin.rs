//! What operators see of the cluster from this node, and how they change its policies: plain values that the admin API
//! prints.

use std::time::Duration;

use control::{Applied, Command, DomainPolicies, Expected, LimitDigest, PolicyProposal};
use limits::Span;
use ownership::Epoch;
use ownership::kept::Incarnation;
use ownership::lease::Terms;
use policy::{Document, PolicyError};

use crate::clock;
use crate::node::Node;
use crate::propose::NotProposed;

/// How long applying a policy looks for a leader before it gives up.
pub const APPLY_WITHIN: Duration = Duration::from_secs(3);

/// The cluster as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Its name.
    pub name: String,
    /// Its uuid; empty before founding.
    pub uuid: String,
    /// The leader's name, if there is one.
    pub leader: Option<String>,
    /// The leader's term.
    pub term: u64,
    /// The version of the map.
    pub map_version: u64,
    /// The last log entry applied here.
    pub applied: u64,
    /// Among how many nodes emergency shares are divided.
    pub n_max: u32,
    /// The nodes, by name, whose session expired and that may lend from their shares all the same: they have opened none
    /// since, so that nobody knows whether they know.
    pub lenders: Vec<String>,
    /// In which life of the store, by an operator's word, nothing was lost; `None` while nobody has vouched for any.
    pub trusted: Option<Incarnation>,
    /// The terms of leases; `None` before founding.
    pub lease: Option<LeaseStatus>,
    /// How many nodes vote, those of both sets while a change of voters is under way.
    pub voters: usize,
    /// Whether such a change is under way: until it is done, a majority of the old set is needed as well as one of the new.
    pub voters_changing: bool,
    /// Partitions with an owner.
    pub owned: usize,
    /// Partitions without one.
    pub vacant: usize,
    /// The node that says so.
    pub this_node: String,
    /// Every node that lives, and those that ended and did not return, by name.
    pub nodes: Vec<NodeStatus>,
}

/// The times that ownership rests on, as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// How long a lease lasts.
    pub ttl: Span,
    /// How long leaders wait for one: longer than it lasts while leases of an earlier ttl may be held.
    pub waited: Span,
    /// How often it is renewed.
    pub renew: Span,
    /// How old an owner's answer may be.
    pub d_max: Span,
    /// What clocks may be off, in thousandths of the time that passes.
    pub rho_per_mille: u16,
}

impl LeaseStatus {
    fn of(terms: &Terms) -> LeaseStatus {
        let (ttl, waited, renew, d_max) = (terms.ttl(), terms.waited(), terms.renew(), terms.d_max());
        LeaseStatus { ttl, waited, renew, d_max, rho_per_mille: terms.rho_per_mille() }
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: u64,
    /// `live`, `expired` or `released`.
    pub state: &'static str,
    /// `voter` or `learner`.
    pub role: &'static str,
    /// Its session, as `nonce/counter`.
    pub session: String,
    /// How many partitions it owns.
    pub partitions: usize,
    /// In which life of the store its records count, as the log says; `None`: a crash of it is a worst case.
    pub durable: Option<Incarnation>,
    /// Its addresses: API, peer, admin; empty for one that ended.
    pub api: String,
    /// For peers.
    pub peer: String,
    /// For operators.
    pub admin: String,
}

/// Neighbouring partitions with one owner and one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRun {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
    /// Their epoch.
    pub epoch: Epoch,
    /// Their owner's name; `None` while vacant.
    pub owner: Option<String>,
}

/// A revision of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub revision: u64,
    /// The document.
    pub document: String,
    /// Who applied it.
    pub author: String,
    /// Why.
    pub reason: String,
    /// When, in milliseconds since 1970, by the clock of the node that took it.
    pub at_unix_ms: u64,
}

/// What applying a document did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedPolicy {
    /// The new revision.
    pub revision: u64,
    /// What became of each limit, by name.
    pub changes: Vec<(String, LimitChange)>,
}

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChange {
    /// It is new, and so is every key under it.
    Added,
    /// It is gone.
    Removed,
    /// It goes on with what was used.
    Keeps,
    /// Its key or route changed: every key starts anew.
    Restarts,
}

impl LimitChange {
    /// The word that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            LimitChange::Added => "added",
            LimitChange::Removed => "removed",
            LimitChange::Keeps => "keeps",
            LimitChange::Restarts => "restarts",
        }
    }
}

/// Why a document did not become the next revision. Nothing changed, except where the outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApplied {
    /// The document is wrong: every finding with its place. Its author's doing.
    #[error("the document has {} errors", .0.len())]
    Invalid(Vec<PolicyError>),
    /// The document is the policy of another domain. Its author's doing.
    #[error("the document is the policy of domain {found}, not of {expected}")]
    OtherDomain {
        /// The domain it was sent for.
        expected: String,
        /// The domain it names.
        found: String,
    },
    /// The log refused, or nobody could take it.
    #[error(transparent)]
    NotProposed(#[from] NotProposed),
}

impl Node {
    /// The cluster as this node sees it.
    pub fn cluster_status(&self) -> ClusterStatus {
        let standing = self.standing();
        let leader = standing.leader_peer().map(|peer| peer.name.clone());
        self.replica().read(|state| {
            let applied = state.applied();
            let cluster = state.cluster();
            let owned = cluster.map_or(0, |cluster| cluster.map.iter().filter(|(_, one)| one.owner.is_some()).count());
            ClusterStatus {
                name: self.cluster_name().to_owned(),
                uuid: cluster.map(|cluster| cluster.genesis.cluster.to_string()).unwrap_or_default(),
                leader,
                term: standing.term,
                map_version: cluster.map_or(0, |cluster| cluster.map.version),
                applied,
                n_max: cluster.map_or(0, |cluster| cluster.sessions.n_max),
                lenders: cluster.map(lenders_of).unwrap_or_default(),
                trusted: cluster.and_then(|cluster| cluster.trust).map(|trust| trust.incarnation),
                lease: cluster.map(|cluster| LeaseStatus::of(&cluster.terms())),
                voters: standing.members.voters.len(),
                voters_changing: standing.members.changing,
                owned,
                vacant: cluster.map_or(0, |cluster| cluster.map.iter().count() - owned),
                this_node: self.name().to_owned(),
                nodes: cluster.map(|cluster| nodes_of(cluster, &standing.members.voters)).unwrap_or_default(),
            }
        })
    }

    /// Makes leases last so long, on all nodes. A longer ttl binds leaders first, a shorter one holders first, and leaders
    /// once every longer lease is over.
    ///
    /// # Errors
    ///
    /// [`NotProposed`] says whose doing it is.
    pub async fn set_ttl(&self, ttl: Span) -> Result<(), NotProposed> {
        self.have_applied(&Command::SetTtl { ttl }, Applied::LeaseChanged).await
    }

    /// Takes an operator's word that the store has lost nothing on its way into this life: what sessions had kept there that
    /// have ended by now counts.
    ///
    /// # Errors
    ///
    /// [`NotProposed`] says whose doing it is.
    pub async fn trust_store(&self, incarnation: Incarnation) -> Result<(), NotProposed> {
        self.have_applied(&Command::Trust { incarnation }, Applied::StoreNoted).await
    }

    /// Proposes a command that the log answers in one way only, if it takes it.
    async fn have_applied(&self, command: &Command, expected: Applied) -> Result<(), NotProposed> {
        match self.proposer().propose_within(command, APPLY_WITHIN).await? {
            applied if applied == expected => Ok(()),
            other => Err(answered_otherwise(other)),
        }
    }

    /// Who owns what, in runs of neighbours.
    pub fn map_runs(&self) -> (u64, Vec<MapRun>) {
        let runs = |cluster: &control::Cluster| (cluster.map.version, runs_of(cluster));
        self.replica().read_cluster(runs).unwrap_or_default()
    }

    /// The current revision of a domain's policy.
    pub fn policy(&self, domain: &str) -> Option<Revision> {
        let read =
            |cluster: &control::Cluster| cluster.policies.domain(domain).map(|found| revision_of(found.current()));
        self.replica().read_cluster(read).flatten()
    }

    /// Every kept revision of a domain's policy, the newest first; empty for a domain that has none.
    pub fn policy_history(&self, domain: &str) -> Vec<Revision> {
        let read = |cluster: &control::Cluster| {
            cluster.policies.domain(domain).map(|found| found.revisions.iter().rev().map(revision_of).collect())
        };
        self.replica().read_cluster(read).flatten().unwrap_or_default()
    }

    /// Makes `text` the next revision of `domain`, on all nodes at once; `expected` is the revision it is meant to follow.
    ///
    /// # Errors
    ///
    /// [`NotApplied`] says whose doing it is.
    pub async fn apply_policy(
        &self,
        domain: &str,
        text: &str,
        expected: Expected,
        author: &str,
        reason: &str,
    ) -> Result<AppliedPolicy, NotApplied> {
        let document = Document::parse(text).map_err(NotApplied::Invalid)?;
        if document.domain() != domain {
            let (expected, found) = (domain.to_owned(), document.domain().to_owned());
            return Err(NotApplied::OtherDomain { expected, found });
        }
        let proposal = proposal_of(&document, text, expected, author, reason);
        let changes = self.changes_of(domain, &proposal.limits);
        let command = Command::ApplyPolicy(Box::new(proposal));
        match self.proposer().propose_within(&command, APPLY_WITHIN).await? {
            Applied::PolicyApplied { revision } => Ok(AppliedPolicy { revision, changes }),
            other @ (Applied::Founded
            | Applied::SessionOpened { .. }
            | Applied::MapChanged { .. }
            | Applied::NMaxLowered
            | Applied::InlineDefined
            | Applied::LeaseChanged
            | Applied::StoreNoted) => Err(answered_otherwise(other).into()),
        }
    }

    /// What a document with these limits would change, as the state is now.
    fn changes_of(&self, domain: &str, limits: &[LimitDigest]) -> Vec<(String, LimitChange)> {
        let read =
            |cluster: &control::Cluster| cluster.policies.domain(domain).map(|standing| changes(standing, limits));
        self.replica()
            .read_cluster(read)
            .flatten()
            .unwrap_or_else(|| limits.iter().map(|limit| (limit.name.clone(), LimitChange::Added)).collect())
    }
}

fn answered_otherwise(answer: Applied) -> NotProposed {
    NotProposed::Undecided(format!("the log answered {answer:?}"))
}

/// The entry that makes a document its domain's next revision.
pub(crate) fn proposal_of(
    document: &Document,
    text: &str,
    expected: Expected,
    author: &str,
    reason: &str,
) -> PolicyProposal {
    let limits = document.limit_digests().into_iter().map(|limit| LimitDigest {
        name: limit.name,
        digest: limit.digest,
        renamed_from: limit.renamed_from,
    });
    PolicyProposal {
        domain: document.domain().to_owned(),
        expected,
        document: text.into(),
        limits: limits.collect(),
        author: author.to_owned(),
        reason: reason.to_owned(),
        at_unix_ms: clock::wall().as_unix_nanos() / 1_000_000,
    }
}

fn changes(standing: &DomainPolicies, limits: &[LimitDigest]) -> Vec<(String, LimitChange)> {
    let change = |limit: &LimitDigest| {
        let before = limit.renamed_from.as_ref().unwrap_or(&limit.name);
        match standing.limits.get(before) {
            None => LimitChange::Added,
            Some(entry) if entry.digest == limit.digest => LimitChange::Keeps,
            Some(_) => LimitChange::Restarts,
        }
    };
    let named =
        |name: &String| limits.iter().any(|limit| limit.name == *name || limit.renamed_from.as_ref() == Some(name));
    let removed = standing.limits.keys().filter(|name| !named(name)).map(|name| (name.clone(), LimitChange::Removed));
    limits.iter().map(|limit| (limit.name.clone(), change(limit))).chain(removed).collect()
}

fn revision_of(revision: &control::PolicyRevision) -> Revision {
    Revision {
        revision: revision.revision,
        document: revision.document.to_string(),
        author: revision.author.clone(),
        reason: revision.reason.clone(),
        at_unix_ms: revision.at_unix_ms,
    }
}

fn nodes_of(cluster: &control::Cluster, voters: &std::collections::BTreeSet<ring::NodeId>) -> Vec<NodeStatus> {
    let role = |id: &ring::NodeId| if voters.contains(id) { "voter" } else { "learner" };
    let live = cluster.sessions.live.iter().map(|(session, live)| NodeStatus {
        name: live.node.name.clone(),
        id: session.node.0.get(),
        state: "live",
        role: role(&session.node),
        session: format!("{:016x}/{}", session.nonce, session.counter),
        partitions: cluster.map.owned_by(*session).count(),
        durable: live.kept.store,
        api: live.node.addresses.api.clone(),
        peer: live.node.addresses.peer.clone(),
        admin: live.node.addresses.admin.clone(),
    });
    let mut nodes: Vec<_> = live.collect();
    // Of a name that lives no more, its last session tells how it ended.
    for ended in cluster.sessions.ended.iter().rev() {
        if nodes.iter().all(|node| node.name != ended.name) {
            nodes.push(NodeStatus {
                name: ended.name.clone(),
                id: ended.session.node.0.get(),
                state: match ended.ending {
                    control::Ending::Expired => "expired",
                    control::Ending::Released => "released",
                },
                role: role(&ended.session.node),
                session: format!("{:016x}/{}", ended.session.nonce, ended.session.counter),
                partitions: 0,
                durable: None,
                api: String::new(),
                peer: String::new(),
                admin: String::new(),
            });
        }
    }
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes
}

fn lenders_of(cluster: &control::Cluster) -> Vec<String> {
    let mut lenders = cluster.sessions.lenders();
    // The last session of a node names it.
    let ended = cluster.sessions.ended.iter().rev();
    ended.filter(|ended| lenders.remove(&ended.session.node)).map(|ended| ended.name.clone()).collect()
}

fn runs_of(cluster: &control::Cluster) -> Vec<MapRun> {
    let mut runs: Vec<MapRun> = Vec::new();
    for (partition, assignment) in cluster.map.iter() {
        let owner =
            assignment.owner.and_then(|session| cluster.sessions.live.get(&session)).map(|live| &live.node.name);
        match runs.last_mut() {
            Some(run) if run.owner.as_ref() == owner && run.epoch == assignment.epoch => run.last = partition.0,
            Some(_) | None => runs.push(MapRun {
                first: partition.0,
                last: partition.0,
                epoch: assignment.epoch,
                owner: owner.cloned(),
            }),
        }
    }
    runs
}
