//! This node's replica of what the cluster agreed on, and what follows from each entry here: partitions begin and end
//! their reigns, policies are compiled, links follow the roster. Everything is derived from the state, so that a snapshot
//! and the entries it stands for lead to the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use control::event::ActivatedState;
use control::{Applied, Cluster, Command, Effects, Event, Genesis, Refusal, State};
use ownership::{Route, Routes, SessionId};
use parking_lot::Mutex;
use policy::{Document, InlineLimit};
use ring::PartitionId;
use tokio::sync::watch;

use crate::desk::Desk;
use crate::events::Events;
use crate::ingress::{Ingress, Keys};
use crate::owner::Owner;
use crate::peer::Links;
use crate::raft::{Machine, RestoreError};
use crate::views::{Policies, Roster, Views};

/// What follows from the log on one node.
#[derive(Debug)]
pub struct Replica {
    state: Mutex<State>,
    mine: Mutex<Option<SessionId>>,
    views: Arc<Views>,
    owner: Arc<Owner>,
    ingress: Arc<Ingress>,
    links: Arc<Links>,
    desk: Arc<Desk>,
    keys_max: u64,
    genesis: watch::Sender<Option<Arc<Genesis>>>,
    /// The revision of each domain that is published.
    compiled: Mutex<BTreeMap<String, (u64, usize)>>,
    events: Arc<Events>,
    /// Whether what the log brings is news: see [`crate::events`].
    telling: AtomicBool,
}

/// Partitions that began to be decided here, by what is known of what was used.
#[derive(Clone, Copy, Debug, Default)]
struct Activated {
    fresh: u16,
    worst_case: u16,
}

/// The parts of a node that follow its replica.
#[derive(Clone, Debug)]
pub struct Followers {
    /// What checks read.
    pub views: Arc<Views>,
    /// The partitions.
    pub owner: Arc<Owner>,
    /// Where checks come in.
    pub ingress: Arc<Ingress>,
    /// The ways to other nodes.
    pub links: Arc<Links>,
    /// The leader's renewals.
    pub desk: Arc<Desk>,
}

/// The replica as the log drives it.
#[derive(Clone, Debug)]
pub struct Driven(pub Arc<Replica>);

impl Replica {
    /// The replica before the first entry.
    pub fn new(followers: Followers, keys_max: u64, events: Arc<Events>) -> Replica {
        let Followers { views, owner, ingress, links, desk } = followers;
        Replica {
            state: Mutex::new(State::new()),
            mine: Mutex::new(None),
            views,
            owner,
            ingress,
            links,
            desk,
            keys_max,
            genesis: watch::Sender::new(None),
            compiled: Mutex::new(BTreeMap::new()),
            events,
            telling: AtomicBool::new(false),
        }
    }

    /// From now on what the log brings is news, and is told.
    pub fn tell_from_now_on(&self) {
        self.telling.store(true, Ordering::Relaxed);
    }

    /// Reads the state as it is now. Keep it short: the log waits meanwhile.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock())
    }

    /// Reads what was agreed on, if there is a genesis.
    pub fn read_cluster<T>(&self, read: impl FnOnce(&Cluster) -> T) -> Option<T> {
        self.state.lock().cluster().map(read)
    }

    /// Genesis, once it is applied.
    pub fn genesis(&self) -> watch::Receiver<Option<Arc<Genesis>>> {
        self.genesis.subscribe()
    }

    /// The session under which this process lives or is about to. It must be told before the log can appoint it.
    pub fn expect(&self, session: SessionId) {
        *self.mine.lock() = Some(session);
    }

    fn apply(&self, index: u64, command: &Command) -> Result<Applied, Refusal> {
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        let result = state.apply(index, command, &mut effects);
        let mut activated = Activated::default();
        if let (Ok(_), Some(cluster)) = (&result, state.cluster()) {
            if let Command::OpenSession { session, .. } = command
                && Some(*session) == *self.mine.lock()
            {
                self.tell_from_now_on();
            }
            activated = self.follow(cluster, command);
        }
        drop(state);
        if self.telling.load(Ordering::Relaxed) {
            effects.events.drain(..).for_each(|event| self.events.tell(event));
        }
        self.tell_activated(activated);
        result
    }

    fn follow(&self, cluster: &Cluster, command: &Command) -> Activated {
        let mut activated = Activated::default();
        match command {
            Command::Found(_) => {
                self.follow_genesis(cluster);
                self.follow_terms(cluster);
            }
            Command::OpenSession { session, .. } => {
                self.follow_sessions(cluster);
                self.desk.handle_session_opened(*session);
            }
            Command::Release { session, .. } => {
                activated = self.follow_map(cluster);
                self.follow_sessions(cluster);
                self.desk.handle_session_closed(*session);
            }
            Command::Expire { sessions, .. } => {
                activated = self.follow_map(cluster);
                self.follow_sessions(cluster);
                for session in sessions {
                    self.desk.handle_session_closed(*session);
                }
            }
            Command::Appoint { .. } => activated = self.follow_map(cluster),
            Command::ApplyPolicy(_) | Command::DefineInline(_) => self.follow_policies(cluster),
            Command::LowerNMax { .. } => {}
            Command::SetTtl { .. } | Command::SettleTtl { .. } => self.follow_terms(cluster),
            // The task that talks to the store looks at the state when it is announced.
            Command::Keep { .. } | Command::Trust { .. } => {}
        }
        self.views.announce();
        activated
    }

    fn follow_everything(&self, cluster: &Cluster) {
        self.follow_genesis(cluster);
        self.follow_policies(cluster);
        let activated = self.follow_map(cluster);
        self.follow_sessions(cluster);
        self.follow_terms(cluster);
        self.views.announce();
        self.tell_activated(activated);
    }

    fn tell_activated(&self, Activated { fresh, worst_case }: Activated) {
        for (partitions, state) in [(fresh, ActivatedState::Fresh), (worst_case, ActivatedState::WorstCase)] {
            if partitions > 0 {
                self.events.tell(Event::PartitionActivated { partitions, state });
            }
        }
    }

    fn follow_genesis(&self, cluster: &Cluster) {
        let genesis = &cluster.genesis;
        self.ingress.set_keys(Keys {
            routing_seed: genesis.routing_seed,
            fingerprint_key: genesis.fingerprint_key,
            partitions: genesis.partitions,
            d_max: genesis.lease.d_max,
        });
        self.genesis.send_replace(Some(Arc::new(genesis.clone())));
    }

    fn follow_terms(&self, cluster: &Cluster) {
        self.desk.handle_terms(cluster.terms());
        self.views.set_ttl(cluster.lease.ttl);
    }

    fn follow_sessions(&self, cluster: &Cluster) {
        let roster = Roster::new(cluster.sessions.live.values().map(|live| live.node.clone()));
        self.links.follow(&roster);
        self.views.roster.store(Arc::new(roster));
    }

    /// Reigns end before others begin, and routes change last: whoever follows them finds the gate open.
    fn follow_map(&self, cluster: &Cluster) -> Activated {
        let mut activated = Activated::default();
        let mine = *self.mine.lock();
        for (partition, assignment) in cluster.map.iter() {
            match cluster.map.appointment(partition) {
                Some(appointment) if Some(appointment.session) == mine => match self.owner.reign(&appointment) {
                    Some(ActivatedState::Fresh) => activated.fresh += 1,
                    Some(ActivatedState::WorstCase) => activated.worst_case += 1,
                    Some(ActivatedState::Allowance) | None => {}
                },
                Some(_) | None => self.owner.deactivate(partition, assignment.epoch, assignment.owner),
            }
        }
        let routes =
            cluster.map.iter().map(|(_, assignment)| Route { epoch: assignment.epoch, session: assignment.owner });
        self.views.routes.store(Arc::new(Routes::new(cluster.map.version, routes)));
        activated
    }

    fn follow_policies(&self, cluster: &Cluster) {
        let mut compiled = self.compiled.lock();
        for (name, domain) in &cluster.policies.domains {
            let current = domain.current();
            let mut brought: Vec<_> = domain.inline.in_force(current.revision).collect();
            // In the order in which they came, so that all nodes leave out the same if not all of them fit.
            brought.sort_by_key(|(_, limit)| (limit.entry.allotted_at, limit.entry.id));
            let state = (current.revision, brought.len());
            if compiled.get(name) == Some(&state) {
                continue;
            }
            // Whoever proposed the document had read it with this same parser. A node that cannot read what the others
            // decide by must not decide: it stops here, and its lease runs out.
            let document = Document::parse(&current.document).unwrap_or_else(|errors| {
                panic!("revision {} of domain {name} is not readable here: {errors:?}", current.revision)
            });
            let document = document.with_inline(brought.into_iter().map(|(limit, known)| {
                // As above: what was defined had been read with this parser.
                let read = InlineLimit::parse(limit, &known.definition);
                read.unwrap_or_else(|| panic!("inline limit {limit} of domain {name} is not readable here"))
            }));
            let published = self.views.policies.load();
            let ids =
                |limit: &str| cluster.policies.limit(name, limit).or_else(|| cluster.policies.inline(name, limit));
            let catalogue =
                published.catalogue.with_domain(&document, current.revision, &ids, self.keys_max).unwrap_or_else(
                    |error| panic!("revision {} of domain {name} does not fit here: {error}", current.revision),
                );
            self.views.policies.store(Arc::new(Policies::after(&published, catalogue)));
            compiled.insert(name.clone(), state);
        }
    }

    /// Partitions that this node should look after, for whoever sweeps.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let count = self.genesis.borrow().as_ref().map_or(0, |genesis| genesis.partitions.get());
        (0..count).map(PartitionId)
    }
}

impl Machine for Driven {
    fn apply(&mut self, index: u64, payload: &[u8]) -> Bytes {
        // An entry that this version does not know would leave this replica unlike the others.
        let command = wire::control::command_from_bytes(payload)
            .unwrap_or_else(|error| panic!("entry {index} is not readable here, so this node stops: {error}"));
        wire::control::outcome_to_bytes(&self.0.apply(index, &command))
    }

    fn snapshot(&self) -> Bytes {
        wire::control::state_to_bytes(&self.0.state.lock())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let state = wire::control::state_from_bytes(snapshot).map_err(|error| RestoreError(error.to_string()))?;
        let mut current = self.0.state.lock();
        *current = state;
        if let Some(cluster) = current.cluster() {
            self.0.follow_everything(cluster);
        }
        Ok(())
    }
}
