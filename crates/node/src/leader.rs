//! What the leader does while it leads, as concurrent duties: it grants leases, places partitions, and keeps the
//! voters those that live; and it keeps up what follows from leases. What is legal is for the log to say; everything here
//! only proposes.

mod upkeep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use control::{AppointedBy, Cluster, ClusterId, Command, Expected, Genesis, HashIds, LeaseTerms};
use futures_util::future::OptionFuture;
use limits::FingerprintKey;
use ownership::SessionId;
use ownership::cluster_time::ClusterTime;
use ownership::lease::{Grantor, News, Round};
use parking_lot::Mutex;
use policy::Document;
use ring::{NodeId, RoutingSeed};
use tokio::sync::Notify;

use crate::admin::proposal_of;
use crate::chance;
use crate::clock;
use crate::config::Founding;
use crate::desk::Desk;
use crate::events::Events;
use crate::founding::Founder;
use crate::node::VERSIONS;
use crate::owner::Owner;
use crate::raft::{Leadership, Members, Peer, RaftNode};
use crate::replica::Replica;
use crate::views::Views;

/// How long a duty rests after it failed.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How often a leader looks at its members although nothing seems to have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Everything a leader needs of its node.
#[derive(Clone)]
pub struct Leader {
    /// Consensus.
    pub raft: RaftNode,
    /// What the log says.
    pub replica: Arc<Replica>,
    /// Where renewals wait.
    pub desk: Arc<Desk>,
    /// What changes when the log does.
    pub views: Arc<Views>,
    /// Who reads cluster time.
    pub owner: Arc<Owner>,
    /// Cluster time, shared with this node's session.
    pub time: Arc<Mutex<ClusterTime>>,
    /// Knows the birth of the cluster, for whoever has to write genesis.
    pub founder: Arc<Founder>,
    /// What genesis says where nobody said otherwise, and the policies that a new cluster begins with.
    pub founding: Founding,
    /// What it found out is told here.
    pub events: Arc<Events>,
}

impl Leader {
    /// Leads whenever this node is the leader, for as long as the process lives.
    pub async fn run(self) {
        let mut leadership = self.raft.leader_watch();
        loop {
            let Ok(led) = leadership.wait_for(|now| now.is_me).await.map(|led| *led) else { return };
            tokio::select! {
                biased;
                ended = leadership.wait_for(|now| *now != led) => if ended.is_err() { return },
                () = self.lead(led) => {}
            }
            self.desk.close();
        }
    }

    async fn lead(&self, led: Leadership) {
        // The first confirmation also says that everything before this term has been applied here.
        while self.raft.confirm_leadership().await.is_err() {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        tracing::debug!(term = led.term, "this node leads");
        self.write_genesis().await;
        // Under the state's lock, so that no session opens or ends between the reading and the opening.
        self.replica.read_cluster(|cluster| {
            let live = cluster.sessions.live.keys().copied();
            self.desk.open(Grantor::new(clock::now(), live, cluster.terms(), led.term));
        });
        let due = Due::default();
        tokio::join!(self.grant(led.term, &due), self.expire(&due), self.place(), self.keep_voters(), self.keep_up());
    }

    /// Writes the first entry, if there is none: whoever leads first does, under the uuid that the cluster was founded with.
    async fn write_genesis(&self) {
        let mut birth = self.founder.birth();
        while self.replica.genesis().borrow().is_none() {
            // A log is begun only by a node that has written down to which cluster it belongs.
            let Ok(cluster) =
                birth.wait_for(Option::is_some).await.map(|birth| birth.as_ref().map(|birth| birth.cluster))
            else {
                return;
            };
            let Some(cluster) = cluster else { return };
            if self.propose(&Command::Found(Box::new(self.genesis(cluster)))).await != Came::Done {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    fn genesis(&self, cluster: ClusterId) -> Genesis {
        let Founding { name, founders, terms, partitions, .. } = &self.founding;
        Genesis {
            cluster,
            format: Genesis::FORMAT,
            cluster_version: VERSIONS.newest,
            name: name.clone(),
            founders: founders.clone(),
            partitions: *partitions,
            hashes: HashIds::KNOWN,
            key_encoding: Genesis::KEY_ENCODING,
            routing_seed: RoutingSeed(chance::random()),
            fingerprint_key: FingerprintKey(chance::random()),
            lease: LeaseTerms::from(*terms),
        }
    }

    /// Confirms leadership for those who wait at the desk, and notes the sessions whose lease has run out.
    async fn grant(&self, term: u64, due: &Due) {
        let mut confirmation = OptionFuture::from(None);
        loop {
            if let Some(round) = self.desk.poll_confirmation() {
                confirmation = OptionFuture::from(Some(Box::pin(self.confirm(round, term))));
            }
            let expired = self.desk.handle_timeout(clock::now());
            due.add(expired);
            let Some(timeout) = self.desk.poll_timeout() else { return };
            tokio::select! {
                biased;
                Some(()) = &mut confirmation => confirmation = OptionFuture::from(None),
                () = self.desk.rung() => {}
                () = tokio::time::sleep(timeout.since(clock::now()).into()) => {}
            }
        }
    }

    async fn confirm(&self, round: Round, term: u64) {
        match self.raft.confirm_leadership().await {
            Ok(confirmed) if confirmed.term == term => self.desk.handle_confirmed(round, self.news()),
            Ok(_) | Err(_) => self.desk.handle_unconfirmed(round),
        }
    }

    /// Whether this node's own wall clock is far from those of the others.
    fn is_odd(&self) -> bool {
        self.desk.odd_clocks().contains(&self.owner.lease().session)
    }

    fn news(&self) -> News {
        let mut time = self.time.lock();
        let (now, wall) = (clock::now(), clock::wall());
        let cluster_time = Some(time.lead(now, wall));
        if !self.is_odd() {
            time.steer(now, wall);
        }
        self.owner.set_time(*time);
        let (n_max, n_max_settled) = self.shares().unwrap_or((u32::MAX, false));
        News { n_max, n_max_settled, cluster_time, map_version: self.views.routes.load().map_version() }
    }

    /// One entry ends all sessions that are due and gives away what they owned, so that nothing goes to one that ends next.
    async fn expire(&self, due: &Due) {
        loop {
            let plan = |cluster: &Cluster| {
                let sessions = due.still_live(cluster);
                let takeovers = cluster.plan_takeovers(&sessions, &self.desk.passed_over());
                (!sessions.is_empty()).then_some(Command::Expire { sessions, takeovers })
            };
            match self.replica.read_cluster(plan).flatten() {
                None => due.rang.notified().await,
                // What was refused was planned from a picture that had changed meanwhile; planned anew, together with
                // whatever has become due.
                Some(command) => {
                    if self.propose(&command).await != Came::Done {
                        tokio::time::sleep(AGAIN_AFTER).await;
                    }
                }
            }
        }
    }

    /// Appoints owners for what has none, once that is due.
    async fn place(&self) {
        let mut changes = self.views.changes();
        // Domains whose first policy the log does not take. It would not take it a second time either: the cluster goes on
        // without, and an operator applies another.
        let mut refused = BTreeSet::new();
        loop {
            let plan = |cluster: &Cluster| self.placement(cluster, &refused);
            if let Some(command) = self.replica.read_cluster(plan).flatten() {
                match (self.propose(&command).await, command) {
                    (Came::Done, _) => {}
                    (Came::Refused, Command::ApplyPolicy(proposal)) => {
                        tracing::warn!(domain = proposal.domain, "the log does not take this first policy");
                        refused.insert(proposal.domain);
                        continue;
                    }
                    (Came::Refused | Came::Unknown, _) => {
                        tokio::time::sleep(AGAIN_AFTER).await;
                        continue;
                    }
                }
            }
            // The voters are no view; looking now and then sees them too.
            let _ = tokio::time::timeout(LOOK_EVERY, changes.changed()).await;
        }
    }

    fn placement(&self, cluster: &Cluster, refused: &BTreeSet<String>) -> Option<Command> {
        let by = AppointedBy::Leader;
        if cluster.map.is_placed() {
            let runs = cluster.plan_vacant(&self.desk.passed_over());
            return (!runs.is_empty()).then_some(Command::Appoint { runs, by });
        }
        if let Some(command) = self.missing_policy(cluster, refused) {
            return Some(command);
        }
        // Before the first owner decides, the log must survive the loss of any one node that can vote.
        let founders = cluster.genesis.founders.len();
        let voters = self.raft.watch().borrow().members.voters.len();
        let runs = cluster.plan_first_placement(&self.desk.passed_over()).filter(|_| voters >= voters_for(founders))?;
        Some(Command::Appoint { runs, by })
    }

    /// The first of the policies that a new cluster begins with and does not have yet. Only before the first placement: a
    /// policy that was applied later by an operator is never touched.
    fn missing_policy(&self, cluster: &Cluster, refused: &BTreeSet<String>) -> Option<Command> {
        let documents = self.founding.policies.iter().filter_map(|text| Some((text, Document::parse(text).ok()?)));
        let is_missing = |domain: &str| cluster.policies.domain(domain).is_none() && !refused.contains(domain);
        let mut missing = documents.filter(|(_, document)| is_missing(document.domain()));
        let (text, document) = missing.next()?;
        let proposal = proposal_of(&document, text, Expected::Revision(0), "ringfence", "founding");
        Some(Command::ApplyPolicy(Box::new(proposal)))
    }

    /// Makes those vote who live: a dead voter is replaced as soon as somebody can take its place, never merely removed.
    async fn keep_voters(&self) {
        let mut changes = self.views.changes();
        loop {
            let members = self.raft.watch().borrow().members.clone();
            let (live, ended) =
                self.replica.read_cluster(|cluster| (live_members(cluster), ended(cluster))).unwrap_or_default();
            let failed = match change_of(&members, &live, &ended) {
                Some(Change::Voters(voters)) => self.raft.change_voters(voters).await.err(),
                Some(Change::Remove(gone)) => self.raft.remove(gone).await.err(),
                None => {
                    let _ = tokio::time::timeout(LOOK_EVERY, changes.changed()).await;
                    None
                }
            };
            if let Some(error) = failed {
                tracing::warn!(%error, "members could not be changed");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    async fn propose(&self, command: &Command) -> Came {
        match self.raft.propose(wire::control::command_to_bytes(command)).await {
            Ok(proposed) => match wire::control::outcome_from_bytes(&proposed.reply) {
                Ok(Ok(_)) => Came::Done,
                Ok(Err(refusal)) => {
                    tracing::info!(%refusal, "the log refused");
                    Came::Refused
                }
                Err(error) => {
                    tracing::error!(%error, "the log's answer is not readable");
                    Came::Unknown
                }
            },
            Err(error) => {
                tracing::debug!(%error, "not proposed");
                Came::Unknown
            }
        }
    }
}

/// What came of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// It is applied here.
    Done,
    /// It was not legal: nothing changed.
    Refused,
    /// It may be applied, or not.
    Unknown,
}

/// Sessions whose lease has run out while this node leads, until the log has ended them. A session gets in once its
/// grantor extends it no more, so it never needs to come out again while it lives.
#[derive(Debug, Default)]
struct Due {
    sessions: Mutex<BTreeSet<SessionId>>,
    rang: Notify,
}

impl Due {
    fn add(&self, sessions: Vec<SessionId>) {
        if !sessions.is_empty() {
            self.sessions.lock().extend(sessions);
            self.rang.notify_one();
        }
    }

    fn still_live(&self, cluster: &Cluster) -> Vec<SessionId> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| cluster.sessions.lives(*session));
        sessions.iter().copied().collect()
    }
}

/// The members that have a live session, with the names they live under, in the order in which they opened it.
fn live_members(cluster: &Cluster) -> Vec<(NodeId, String)> {
    let mut live: Vec<_> = cluster.sessions.live.iter().collect();
    live.sort_by_key(|(_, session)| session.opened_at);
    live.into_iter().map(|(session, live)| (session.node, live.node.name.clone())).collect()
}

/// The nodes that lived once; some may live again.
fn ended(cluster: &Cluster) -> BTreeSet<NodeId> {
    cluster.sessions.ended.iter().map(|ended| ended.session.node).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    Voters(BTreeSet<NodeId>),
    Remove(NodeId),
}

/// How many of `nodes` vote: five, three or one.
const fn voters_for(nodes: usize) -> usize {
    match nodes {
        0..=2 => 1,
        3..=4 => 3,
        5.. => 5,
    }
}

/// What should change about the members, if anything: first who votes, then whom the log need not be sent to any more.
fn change_of(members: &Members, live: &[(NodeId, String)], ended: &BTreeSet<NodeId>) -> Option<Change> {
    if members.changing {
        return None;
    }
    let lives = |id: &NodeId| live.iter().any(|(living, _)| living == id);
    let count = voters_for(live.len()).max(members.voters.len());
    let standing = members.voters.iter().copied().filter(|id| lives(id));
    let newcomers =
        live.iter().map(|(id, _)| *id).filter(|id| members.peers.contains_key(id) && !members.voters.contains(id));
    let gone = members.voters.iter().copied().filter(|id| !lives(id));
    let voters: BTreeSet<NodeId> = standing.chain(newcomers).chain(gone).take(count).collect();
    if voters != members.voters && voters.len() == count {
        return Some(Change::Voters(voters));
    }
    let mut peers = members.peers.values();
    peers.find(|peer| ended.contains(&peer.id) && is_replaced(peer, members, live)).map(|peer| Change::Remove(peer.id))
}

/// A node whose session has ended and whose name lives on under another identity has lost its disk: it never comes back as
/// what it was. (One that is only about to open its first session has no name in the log yet.)
fn is_replaced(peer: &Peer, members: &Members, live: &[(NodeId, String)]) -> bool {
    !members.voters.contains(&peer.id)
        && live.iter().any(|(id, name)| *name == peer.name && *id != peer.id)
        && !live.iter().any(|(id, _)| *id == peer.id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;
    use std::num::NonZeroU64;

    use super::*;

    fn id(number: u64) -> NodeId {
        NodeId(NonZeroU64::new(number).unwrap())
    }

    fn members(voters: &[u64], peers: &[(u64, &str)]) -> Members {
        let peer = |(number, name): &(u64, &str)| {
            (id(*number), Peer { id: id(*number), address: String::new(), name: (*name).to_owned() })
        };
        let peers: BTreeMap<_, _> = peers.iter().map(peer).collect();
        Members { index: Some(1), voters: voters.iter().map(|voter| id(*voter)).collect(), changing: false, peers }
    }

    fn live(nodes: &[(u64, &str)]) -> Vec<(NodeId, String)> {
        nodes.iter().map(|(number, name)| (id(*number), (*name).to_owned())).collect()
    }

    fn voters(numbers: &[u64]) -> Option<Change> {
        Some(Change::Voters(numbers.iter().map(|number| id(*number)).collect()))
    }

    fn none() -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    const THREE: &[(u64, &str)] = &[(1, "n1"), (2, "n2"), (3, "n3")];

    #[test]
    fn three_live_members_all_vote() {
        assert_eq!(change_of(&members(&[1], THREE), &live(THREE), &none()), voters(&[1, 2, 3]));
        assert_eq!(change_of(&members(&[1], THREE), &live(&THREE[..2]), &none()), None, "two are no better than one");
        assert_eq!(change_of(&members(&[1, 2, 3], THREE), &live(THREE), &none()), None);
    }

    #[test]
    fn a_dead_voter_stays_until_somebody_can_replace_it() {
        assert_eq!(change_of(&members(&[1, 2, 3], THREE), &live(&[(1, "n1"), (3, "n3")]), &none()), None);
        let back = [(1, "n1"), (2, "n2"), (3, "n3"), (4, "n2")];
        let living = live(&[(1, "n1"), (3, "n3"), (4, "n2")]);
        assert_eq!(change_of(&members(&[1, 2, 3], &back), &living, &BTreeSet::from([id(2)])), voters(&[1, 3, 4]));
        assert_eq!(
            change_of(&members(&[1, 3, 4], &back), &living, &BTreeSet::from([id(2)])),
            Some(Change::Remove(id(2))),
            "its name lives on"
        );
    }

    #[test]
    fn a_node_that_returns_before_its_old_session_expired_is_kept() {
        let back = [(1, "n1"), (2, "n2"), (3, "n3"), (4, "n2")];
        assert_eq!(change_of(&members(&[1, 2, 3], &back), &live(THREE), &none()), None);
    }

    #[test]
    fn a_member_that_is_merely_away_is_kept() {
        let four = [(1, "n1"), (2, "n2"), (3, "n3"), (4, "n4")];
        assert_eq!(change_of(&members(&[1, 2, 3], &four), &live(THREE), &BTreeSet::from([id(4)])), None);
    }
}
