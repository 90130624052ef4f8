//! How a node comes to life: it remembers who it is, opens its peer port, starts to gossip, and then consensus, founding,
//! its session and its duties as a leader follow by themselves.

use std::net::SocketAddr;
use std::sync::Arc;

use control::{Addresses, NodeSpec};
use limits::{Moment, Span};
use ownership::cluster_time::ClusterTime;
use ownership::{LeaseBound, SessionId};
use parking_lot::Mutex;
use ring::NodeId;
use store::{Store, StoreConfig};
use tokio::task::JoinSet;
use wire::peer::control_server::ControlServer;
use wire::peer::peer_server::PeerServer;
use wire::peer::raft_server::RaftServer;

use crate::chance;
use crate::clock_source::ClockSource;
use crate::cluster::{ClusterId, ClusterName, NameError, NodeName};
use crate::config::{Advertise, Config, Founding, Place};
use crate::control_service::ControlService;
use crate::events::Events;
use crate::founding::{Founder, Meeting};
use crate::gossip::{self, GossipHandle, Identity, Incarnation};
use crate::ingress::Ingress;
use crate::keeping::{self, Keeping};
use crate::leader::Leader;
use crate::net;
use crate::node::{Node, Parts, StartError, VERSIONS};
use crate::owner::Owner;
use crate::peer::{Links, PeerService};
use crate::propose::Proposer;
use crate::raft::{self, Dial, Door, Journal, RaftNode, RaftService};
use crate::refusals::{Refusals, Refused};
use crate::replica::{Driven, Followers, Replica};
use crate::secret::Secrets;
use crate::session::{Exit, Life, Phase};
use crate::top;
use crate::transport::{self, Credentials, Dialler, Incoming};
use crate::views::Views;
use crate::watch;

/// The journal's cell that counts how often this node started.
const BOOTS: &str = "boots";

/// How long the sweeper rests between two partitions: a whole turn takes a few seconds, and costs next to nothing.
const SWEEP_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// Who a node is, and how it proves that to others.
struct Oneself {
    journal: Journal,
    spec: NodeSpec,
    founder: Arc<Founder>,
    cluster: ClusterId,
    secrets: Secrets,
    credentials: Arc<Credentials>,
    dialler: Dialler,
    events: Arc<Events>,
    refusals: Arc<Refusals>,
}

impl Node {
    /// Starts a node. It founds or joins its cluster in the background; [`Node::ready`] resolves when it can decide.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing runs then.
    pub async fn start(config: Config) -> Result<Arc<Node>, StartError> {
        let me = remember(&config).await?;
        let clock_source = ClockSource::of_this_machine();
        clock_source.tell();
        let keeping = config.store.as_ref().map(|_| Arc::<Keeping>::default());
        let followers = followers(&me, keeping.clone());
        let replica = Arc::new(Replica::new(followers.clone(), config.bounds.keys_max, Arc::clone(&me.events)));
        let gossip = gossip_of(&config, &me).await?;
        let mut tasks = JoinSet::new();
        let (gossip, noticed) = gossip::start(net::udp(config.peer.udp)?, gossip)
            .map_err(|error| not_advertised(&config.advertise.peer, error))?;
        tasks.spawn(watch::gossip(noticed, Arc::clone(&me.events), Arc::clone(&me.refusals)));
        let gossip = Arc::new(gossip);

        let door = Door::held();
        let raft_service = door.service();
        let told = Some(Arc::clone(&me.refusals));
        let (incoming, _) = transport::listen_telling(net::tcp(config.peer.tcp)?, Arc::clone(&me.credentials), told);
        let raft = raft_of(&me, &replica, door.clone()).await?;
        if replica.genesis().borrow().is_some() {
            // What the journal held has been applied by now; whatever follows is news.
            replica.tell_from_now_on();
        }
        let connections = incoming.connections();
        let control = ControlService {
            founder: Arc::clone(&me.founder),
            raft: raft.clone(),
            desk: Arc::clone(&followers.desk),
            views: Arc::clone(&followers.views),
        };
        tasks.spawn(serve_peers(incoming, raft_service, PeerService::of(&followers), control));

        let proposer = Arc::new(Proposer::new(raft.clone(), dial_with(me.dialler.clone())));
        let (name, cluster, bounds) = (config.name.clone(), config.founding.name.clone(), config.bounds);
        let (credentials, events, refusals) =
            (Arc::clone(&me.credentials), Arc::clone(&me.events), Arc::clone(&me.refusals));
        let (said, phase) = tokio::sync::watch::channel(Phase::Unborn);
        let exit = tokio::sync::watch::Sender::new(Exit::None);
        let doing = Doing {
            followers: &followers,
            replica: &replica,
            raft: &raft,
            door,
            proposer: &proposer,
            gossip: &gossip,
            phase: said,
            exit: exit.subscribe(),
        };
        let store = doing.keep(&mut tasks, config.store.zip(keeping), &events);
        doing.spawn(&mut tasks, me, config.seeds, config.founding);
        Ok(Arc::new(Node::of(Parts {
            name,
            cluster,
            bounds,
            followers,
            replica,
            raft,
            proposer,
            gossip,
            connections,
            credentials,
            events,
            refusals,
            clock_source,
            phase,
            exit,
            store,
            tasks,
        })))
    }
}

/// What a node does on its own account needs these.
struct Doing<'n> {
    followers: &'n Followers,
    replica: &'n Arc<Replica>,
    raft: &'n RaftNode,
    door: Door,
    proposer: &'n Arc<Proposer>,
    gossip: &'n Arc<GossipHandle>,
    phase: tokio::sync::watch::Sender<Phase>,
    exit: tokio::sync::watch::Receiver<Exit>,
}

impl Doing<'_> {
    /// Keeps what was used in the store, if there is one. Returns where the store is found once it is opened.
    fn keep(
        &self,
        tasks: &mut JoinSet<()>,
        store: Option<(StoreConfig, Arc<Keeping>)>,
        events: &Arc<Events>,
    ) -> tokio::sync::watch::Receiver<Option<Store>> {
        let (opened, found) = tokio::sync::watch::channel(None);
        if let Some((config, keeping)) = store {
            let Followers { owner, views, .. } = self.followers.clone();
            let (replica, proposer, events) = (self.replica.clone(), self.proposer.clone(), events.clone());
            tasks.spawn(keeping::Task { config, keeping, owner, replica, proposer, views, events, opened }.run());
        }
        found
    }

    fn spawn(self, tasks: &mut JoinSet<()>, me: Oneself, seeds: Vec<String>, founding: Founding) {
        let Followers { views, owner, ingress, desk, .. } = self.followers.clone();
        let (replica, raft) = (Arc::clone(self.replica), self.raft.clone());
        let meeting = Meeting {
            founder: Arc::clone(&me.founder),
            raft: raft.clone(),
            door: self.door,
            replica: Arc::clone(&replica),
            dialler: me.dialler,
            credentials: me.credentials,
            gossip: Arc::clone(self.gossip),
            seeds,
            spec: me.spec.clone(),
            founders: founding.founders.clone(),
            refusals: Arc::clone(&me.refusals),
        };
        tasks.spawn(meeting.run());
        tasks.spawn(watch::leader(raft.clone(), Arc::clone(&me.events)));
        tasks.spawn(watch::clocks(Arc::clone(&owner), Arc::clone(&me.events)));
        tasks.spawn(watch::map(Arc::clone(&views), Arc::clone(self.gossip)));
        tasks.spawn(top::turn(Arc::clone(&views)));
        let time = Arc::new(Mutex::new(ClusterTime::unknown()));
        let leader = Leader {
            raft: raft.clone(),
            replica: Arc::clone(&replica),
            desk: Arc::clone(&desk),
            views: Arc::clone(&views),
            owner: Arc::clone(&owner),
            time: Arc::clone(&time),
            founder: me.founder,
            founding: founding.clone(),
            events: Arc::clone(&me.events),
        };
        tasks.spawn(leader.run());
        tasks.spawn(sweep(Arc::clone(&replica), Arc::clone(&owner)));
        let (spec, nonce, proposer) = (me.spec, chance::random(), Arc::clone(self.proposer));
        let (events, refusals, phase, exit) = (me.events, me.refusals, self.phase, self.exit);
        let life =
            Life { spec, nonce, proposer, replica, owner, ingress, views, desk, time, events, refusals, phase, exit };
        tasks.spawn(live(life, founding, raft));
    }
}

async fn remember(config: &Config) -> Result<Oneself, StartError> {
    let journal = open(&config.data)?;
    let spec = spec_of(config, journal.identity());
    let founder = Arc::new(Founder::remember(config, &journal, &spec).await?);
    let name = named("cluster.name", &config.founding.name, ClusterName::new)?;
    let cluster = ClusterId { name, uuid: founder.uuid() };
    let secrets = config.secrets.clone();
    let credentials = Arc::new(Credentials::new(spec.id, cluster.clone(), secrets.clone()));
    let events = Arc::<Events>::default();
    let refusals = Arc::new(Refusals::new(Arc::clone(&events)));
    let dialler = Dialler::new(Arc::clone(&credentials)).telling(Arc::clone(&refusals));
    Ok(Oneself { journal, spec, founder, cluster, secrets, credentials, dialler, events, refusals })
}

async fn gossip_of(config: &Config, me: &Oneself) -> Result<gossip::Config, StartError> {
    Ok(gossip::Config {
        identity: identity_of(config, me.spec.id, boot(&me.journal).await?).await?,
        cluster: me.cluster.clone(),
        secrets: me.secrets.clone(),
        settings: gossip::Settings::default(),
        seeds: config.seeds.clone(),
        seed: chance::random(),
    })
}

async fn raft_of(me: &Oneself, replica: &Arc<Replica>, door: Door) -> Result<RaftNode, raft::StartError> {
    RaftNode::start(raft::Setup {
        settings: raft::Settings::default(),
        journal: me.journal.clone(),
        machine: Box::new(Driven(Arc::clone(replica))),
        dial: dial_with(me.dialler.clone()),
        door,
    })
    .await
}

fn open(data: &Place) -> Result<Journal, StartError> {
    match data {
        Place::Memory => Ok(Journal::in_memory()),
        Place::Directory(directory) => Ok(Journal::open(directory)?),
    }
}

/// Counts this start; the number makes a restarted node's incarnation higher than all before.
async fn boot(journal: &Journal) -> Result<u32, StartError> {
    let before = journal.cell(BOOTS).await?;
    let before = before.and_then(|bytes| Some(u32::from_le_bytes(bytes.as_ref().try_into().ok()?))).unwrap_or(0);
    let boots = before.saturating_add(1);
    journal.put_cell(BOOTS, &boots.to_le_bytes()).await?;
    Ok(boots)
}

fn spec_of(config: &Config, id: NodeId) -> NodeSpec {
    let Advertise { peer, api, admin } = config.advertise.clone();
    NodeSpec { id, name: config.name.clone(), addresses: Addresses { peer, api, admin }, versions: VERSIONS }
}

fn named<Name>(
    what: &'static str,
    text: &str,
    make: impl FnOnce(&str) -> Result<Name, NameError>,
) -> Result<Name, StartError> {
    make(text).map_err(|error| StartError::Name { what, text: text.to_owned(), error })
}

async fn identity_of(config: &Config, id: NodeId, boots: u32) -> Result<Identity, StartError> {
    let name = named("node.name", &config.name, NodeName::new)?;
    let peer = resolved(&config.advertise.peer).await?;
    // Gossip carries the API's address only as a hint, so one that does not resolve is left out.
    let api = resolved(&config.advertise.api).await.ok();
    Ok(Identity { id, incarnation: Incarnation::of_boot(boots), name, peer, api })
}

async fn resolved(address: &str) -> Result<SocketAddr, StartError> {
    let found = net::lookup_host(address).await.map_err(|error| not_advertised(address, error))?.next();
    found.ok_or_else(|| not_advertised(address, "it resolves to nothing"))
}

fn not_advertised(address: &str, problem: impl std::fmt::Display) -> StartError {
    StartError::Advertise { address: address.to_owned(), problem: problem.to_string() }
}

fn dial_with(dialler: Dialler) -> Dial {
    Arc::new(move |peer| Ok(dialler.channel(&peer.address, Some(peer.id))))
}

/// The parts that follow the replica. There is no lease before the first session: this one ended at the boot.
fn followers(Oneself { spec, dialler, events, .. }: &Oneself, keeping: Option<Arc<Keeping>>) -> Followers {
    let me = spec.id;
    let views = Arc::new(Views::unknown());
    let nobody = SessionId { node: me, nonce: 0, counter: 0 };
    let none = LeaseBound { session: nobody, end: Moment::ZERO, margin: Span::ZERO };
    let owner = Arc::new(Owner::new(Arc::clone(&views), none, Arc::clone(events), keeping));
    let links = Arc::new(Links::new(me, dial_with(dialler.clone())));
    let ingress = Ingress::new(me, Arc::clone(&owner), Arc::clone(&views), Arc::clone(&links), chance::random());
    Followers { views, owner, ingress: Arc::new(ingress), links, desk: Arc::default() }
}

async fn serve_peers(incoming: Incoming, raft: RaftServer<RaftService>, peers: PeerService, control: ControlService) {
    let server = transport::server()
        .add_service(raft)
        .add_service(PeerServer::new(peers))
        .add_service(ControlServer::new(control).max_decoding_message_size(raft::MESSAGE_BYTES_MAX));
    if let Err(error) = server.serve_with_incoming(incoming).await {
        tracing::error!(%error, "the peer port is closed");
    }
}

/// Lives once the cluster is founded, if this node was told the same as it goes by, and no longer than consensus runs here:
/// a node that hears no more who was appointed decides nothing from then on.
async fn live(life: Life, founding: Founding, raft: RaftNode) {
    let mut genesis = life.replica.genesis();
    let owner = Arc::clone(&life.owner);
    let mut fatal = life.refusals.fatal();
    let lived = async {
        let Ok(Some(genesis)) = genesis.wait_for(Option::is_some).await.map(|genesis| genesis.clone()) else { return };
        if founding.names_another_ttl(&genesis) && founding.lasting_differences(&genesis).is_empty() {
            // It may be one that was set since, and then the log says so, sooner or later.
            tracing::info!(
                "lease.ttl is not what the cluster was founded with: a leader is asked whether it was set since"
            );
            life.proposer.caught_up().await;
        }
        let ttl = life.replica.read_cluster(|cluster| cluster.lease.ttl).unwrap_or(genesis.lease.ttl);
        let differences = founding.differences(&genesis, ttl);
        if differences.is_empty() {
            life.run().await;
        } else {
            life.refusals.stop_for(Refused::BadConfig(differences));
            life.views.announce();
        }
    };
    tokio::select! {
        biased;
        // A node that must not go on opens no session, and renews none.
        Ok(_) = fatal.wait_for(Option::is_some) => {}
        () = lived => {}
        why = raft.stopped() => tracing::error!(why, "consensus has stopped on this node; it decides nothing any more"),
    }
    owner.set_lease(LeaseBound { end: Moment::ZERO, ..owner.lease() });
}

/// Forgets what is as fresh, partition by partition, for as long as the node runs.
async fn sweep(replica: Arc<Replica>, owner: Arc<Owner>) {
    loop {
        for partition in replica.partitions() {
            owner.sweep(partition);
            tokio::time::sleep(SWEEP_PAUSE).await;
        }
        tokio::time::sleep(SWEEP_PAUSE).await;
    }
}
