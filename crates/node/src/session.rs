//! This process's life in the cluster: it opens a session through the log, keeps its lease renewed at whoever leads, and
//! when the log ends the session, opens the next. The rules of leases are the holder's; this file sends and waits.

use std::sync::Arc;
use std::time::Duration;

use control::{Cluster, Command, Event, NodeSpec, Refusal};
use limits::Moment;
use ownership::SessionId;
use ownership::cluster_time::ClusterTime;
use ownership::lease::{Ack, Holder, Refused as LeaseRefused, Renewal, Terms};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use wire::lease::{NotRenewed, renewal_to_proto, renewed_from_proto};
use wire::peer::peer_client::PeerClient;

use crate::clock;
use crate::desk::Desk;
use crate::events::Events;
use crate::ingress::Ingress;
use crate::owner::Owner;
use crate::propose::{NotProposed, Proposer};
use crate::refusals::{Refusals, Refused};
use crate::replica::Replica;
use crate::views::Views;

/// How long a refused or failed attempt to open a session rests.
const OPEN_AGAIN: Duration = Duration::from_millis(200);

/// Acknowledgements that may wait to be read.
const ACKS_MAX: usize = 64;

/// How far a process's life in the cluster has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The node belongs to no cluster yet.
    Unborn,
    /// It has asked the log for a session, or is about to.
    Opening,
    /// The log has this session.
    Living(SessionId),
    /// It opens no session any more.
    Over,
}

/// How far a planned exit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nobody asked for one.
    None,
    /// The node owns nothing any more, and is about to say so: no session is opened after the one that lives.
    Leaving,
    /// It has said what there was to say. A session that lives still is renewed no more.
    Left,
}

/// A session that was in the way of this node's own.
#[derive(Clone, Copy, Debug)]
struct HolderMet {
    session: SessionId,
    /// The number of its last renewal then.
    heard: u64,
    /// When it was met.
    at: Moment,
}

/// Everything a session needs of its node.
#[derive(Clone)]
pub struct Life {
    /// Who this node says it is.
    pub spec: NodeSpec,
    /// Random per process.
    pub nonce: u64,
    /// Where it proposes.
    pub proposer: Arc<Proposer>,
    /// What the log says.
    pub replica: Arc<Replica>,
    /// Whom the lease lets decide.
    pub owner: Arc<Owner>,
    /// Whose emergency limiter lives as long as the session.
    pub ingress: Arc<Ingress>,
    /// What changes when the log does.
    pub views: Arc<Views>,
    /// The leader's desk, when this node leads.
    pub desk: Arc<Desk>,
    /// Cluster time, shared with the leader's part of this node.
    pub time: Arc<Mutex<ClusterTime>>,
    /// What happened is told here.
    pub events: Arc<Events>,
    /// Whom this node may not be.
    pub refusals: Arc<Refusals>,
    /// Where this life stands, for whoever ends it.
    pub phase: watch::Sender<Phase>,
    /// Whether it is to end.
    pub exit: watch::Receiver<Exit>,
}

impl Life {
    /// Lives one session after another, for as long as the process does or until it is to leave.
    pub async fn run(self) {
        let mut session = SessionId { node: self.spec.id, nonce: self.nonce, counter: 1 };
        // Said before the exit is looked at, as whoever leaves looks the other way round: one of the two sees the other.
        self.phase.send_replace(Phase::Opening);
        while *self.exit.borrow() == Exit::None {
            self.open(session).await;
            session = self.live(session).await;
        }
        self.phase.send_replace(Phase::Over);
    }

    /// Proposes the session until the log has it. A node that leaves gives up between two proposals, never within one:
    /// what was proposed must be seen to its end.
    async fn open(&self, session: SessionId) {
        self.replica.expect(session);
        let node = Box::new(self.spec.clone());
        let command = Command::OpenSession { session, node };
        let mut told = None;
        let mut holder = None;
        while !self.lives(session) && *self.exit.borrow() == Exit::None {
            match self.proposer.propose(&command).await {
                Ok(_) => self.seen(session).await,
                Err(error) => {
                    // Once per kind of trouble: the name of a node that died stays taken until its lease has run out.
                    let text = error.to_string();
                    if told.as_ref() != Some(&text) {
                        tracing::info!(%error, "no session yet");
                        told = Some(text);
                    }
                    if matches!(error, NotProposed::Refused(Refusal::SessionEnded)) {
                        return;
                    }
                    self.watch_holder(session, &error, &mut holder).await;
                    tokio::time::sleep(OPEN_AGAIN).await;
                }
            }
        }
    }

    /// A session that stands in the way ends by itself if nobody lives it. If somebody still renews it two leases after it
    /// was first met, there are two nodes where there should be one, and this one was later.
    async fn watch_holder(&self, session: SessionId, error: &NotProposed, met: &mut Option<HolderMet>) {
        let Some((holder, held_by)) = self.holder_behind(session, error) else { return };
        let now = clock::now();
        let known = met.filter(|met| met.session == holder);
        let Some(known) = known else {
            let heard = self.proposer.renewals_of(holder, &self.desk).await;
            *met = heard.map(|heard| HolderMet { session: holder, heard, at: now });
            return;
        };
        let ttl = self.terms().ttl();
        if now.since(known.at) < ttl.saturating_add(ttl) {
            return;
        }
        match self.proposer.renewals_of(holder, &self.desk).await {
            Some(heard) if heard > known.heard => {
                self.refusals.stop_for(Refused::NameInUse { name: self.spec.name.clone(), held_by });
                self.views.announce();
            }
            // It counts anew under another leader.
            Some(heard) => *met = Some(HolderMet { heard, at: now, ..known }),
            None => {}
        }
    }

    /// The session that keeps `session` from being opened, and the peer address of its node, if that is why.
    fn holder_behind(&self, session: SessionId, error: &NotProposed) -> Option<(SessionId, String)> {
        let NotProposed::Refused(Refusal::NameInUse { .. } | Refusal::AlreadyLive { .. }) = error else { return None };
        let found = |cluster: &control::Cluster| {
            let by_node = cluster.sessions.of_node(session.node);
            let (holder, live) = by_node.or_else(|| cluster.sessions.of_name(&self.spec.name))?;
            Some((holder, live.node.addresses.peer.clone()))
        };
        // An earlier session of this very process is not another's.
        self.replica.read_cluster(found).flatten().filter(|(holder, _)| holder.nonce != session.nonce)
    }

    /// Waits until this node's own replica has the session, or knows that it ended.
    async fn seen(&self, session: SessionId) {
        let mut changes = self.views.changes();
        while !self.lives(session) && !self.has_ended(session) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn lives(&self, session: SessionId) -> bool {
        self.replica.read_cluster(|cluster| cluster.sessions.lives(session)).unwrap_or(false)
    }

    fn has_ended(&self, session: SessionId) -> bool {
        let ended = |cluster: &control::Cluster| cluster.sessions.ended.iter().any(|ended| ended.session == session);
        self.replica.read_cluster(ended).unwrap_or(false)
    }

    /// Renews until the log has ended the session; returns the next one.
    async fn live(&self, session: SessionId) -> SessionId {
        let mut holder = Holder::new(session, self.terms(), clock::now());
        let (acks, mut heard) = mpsc::channel(ACKS_MAX);
        let mut changes = self.views.changes();
        let mut exit = self.exit.clone();
        if self.lives(session) {
            self.phase.send_replace(Phase::Living(session));
        }
        let mut refused = None;
        while self.lives(session) && *exit.borrow_and_update() != Exit::Left {
            holder.handle_terms(self.terms());
            holder.handle_applied(self.replica.read(control::State::applied));
            while let Some(renewal) = holder.poll_renewal(self.map_version(), Some(clock::wall())) {
                self.send(renewal, acks.clone());
            }
            if holder.poll_lapsed().is_some() {
                self.events.tell(Event::LeaseLapsed { session });
            }
            let Some(timeout) = holder.poll_timeout() else { break };
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { break },
                Ok(()) = exit.changed() => {}
                Some(heard) = heard.recv() => match heard {
                    Ok(ack) => self.handle_ack(&mut holder, &ack),
                    Err(why) => self.handle_refusal(why, &mut refused),
                },
                () = tokio::time::sleep(timeout.since(clock::now()).into()) => holder.handle_timeout(clock::now()),
            }
        }
        self.phase.send_replace(Phase::Opening);
        let next = holder.handle_session_dead();
        // Whoever lived by the session's lease does not any more.
        self.owner.set_lease(holder.bound());
        self.ingress.end_emergency();
        next
    }

    fn handle_ack(&self, holder: &mut Holder, ack: &Ack) {
        let now = clock::now();
        let Some(heard) = holder.handle_ack(ack, now) else { return };
        // Cluster time first: whoever may decide or lend can also read it.
        if let Some(told) = ack.news.cluster_time {
            let mut time = self.time.lock();
            time.handle_ack_time(heard.sent, now, told);
            self.owner.set_time(*time);
        }
        if let Some(n_max) = holder.n_max() {
            self.ingress.set_n_max(n_max);
        }
        let before = self.owner.lease();
        self.owner.set_lease(holder.bound());
        if before.session != ack.session || before.end <= now {
            // From now on this node decides; whoever waits for that looks again.
            self.views.announce();
        }
    }

    /// A session that is extended no more is told once why; the process opens the next when the log has ended it.
    fn handle_refusal(&self, why: NotRenewed, told: &mut Option<NotRenewed>) {
        tracing::debug!(%why, "not renewed");
        let odd = match why {
            NotRenewed::Refused(LeaseRefused::OddClock | LeaseRefused::Forked) => true,
            NotRenewed::Refused(LeaseRefused::UnknownSession | LeaseRefused::Stale)
            | NotRenewed::NotLeader
            | NotRenewed::Dropped => false,
        };
        if odd && *told != Some(why) {
            *told = Some(why);
            self.events.tell(Event::ClockSuspect { what: format!("this node's session is extended no more: {why}") });
        }
    }

    /// Lease times, as the log has them; a session begins after genesis.
    fn terms(&self) -> Terms {
        self.replica.read_cluster(Cluster::terms).unwrap_or(Terms::DEFAULT)
    }

    fn map_version(&self) -> u64 {
        self.views.routes.load().map_version()
    }

    /// Sends one renewal on a task of its own: a leader that does not answer must not delay the next.
    fn send(&self, renewal: Renewal, heard: mpsc::Sender<Result<Ack, NotRenewed>>) {
        let life = self.clone();
        tokio::spawn(async move {
            let ttl: Duration = life.terms().ttl().into();
            // A renewal that is not answered within the lease it asks for is of no use any more.
            match tokio::time::timeout(ttl, life.renew(&renewal)).await {
                // A session that has ended meanwhile hears nothing more.
                Ok(renewed) => drop(heard.send(renewed).await),
                Err(_) => tracing::debug!("renewal timed out"),
            }
        });
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Ack, NotRenewed> {
        let Some(leader) = self.proposer.leader() else { return Err(NotRenewed::NotLeader) };
        if leader.id == self.spec.id {
            return self.desk.renew(renewal).await;
        }
        let channel = self.proposer.channel_to(&leader).ok_or(NotRenewed::Dropped)?;
        let reply = PeerClient::new(channel).renew(renewal_to_proto(renewal)).await.map_err(|_| NotRenewed::Dropped)?;
        renewed_from_proto(reply.get_ref()).map_err(|_| NotRenewed::Dropped)?
    }
}
