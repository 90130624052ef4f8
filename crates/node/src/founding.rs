//! Founding and joining, carried out: the machine of `control::founding` says what to write down, whom to ask and what to
//! do; this file writes, sends and does it, until this node's own state has the genesis of its cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::founding::{
    Birth, Founding, FoundingMessage, Hello, Notice, Outcome, Outgoing, PromiseReply, PromiseRequest, Standing, Start,
    Voter,
};
use control::{ClusterId, NodeSpec};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tonic::transport::Channel;
use wire::peer::JoinRequest;
use wire::peer::control_client::ControlClient;
use wire::peer::join_reply::Reply as Joined;

use crate::chance;
use crate::clock;
use crate::cluster::ClusterUuid;
use crate::config::Config;
use crate::gossip::GossipHandle;
use crate::node::StartError;
use crate::raft::{BootstrapError, Door, Journal, Peer, RaftNode};
use crate::refusals::{Refusals, Refused};
use crate::replica::Replica;
use crate::transport::{Credentials, Dialler};

/// The journal's cell that holds what was promised, or the cluster this node belongs to.
const STANDING: &str = "founding";

/// How often a node says hello until it has entered.
const HELLO_EVERY: Duration = Duration::from_millis(250);

/// How long one word to another node may take.
const WORD_WITHIN: Duration = Duration::from_secs(2);

/// How long being added may take: a learner is caught up first.
const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// How many nodes one attempt to join asks: the one that is known, and the leader that it names.
const JOIN_HOPS_MAX: usize = 2;

/// Words from tasks that wait to be read.
const HEARD_MAX: usize = 256;

/// The machine with what it needs to answer from any task.
pub struct Founder {
    machine: Mutex<Founding>,
    journal: Journal,
    /// Something was handed in: there may be something to carry out.
    woken: Notify,
    /// Founders that wait for this node's promise, by name and nonce.
    waiting: Mutex<BTreeMap<(String, u64), oneshot::Sender<PromiseReply>>>,
    birth: watch::Sender<Option<Birth>>,
}

impl Founder {
    /// What this node was when it stopped, and what it may become.
    pub async fn remember(config: &Config, journal: &Journal, me: &NodeSpec) -> Result<Founder, StartError> {
        let standing = match journal.cell(STANDING).await? {
            None => Standing::default(),
            Some(bytes) => wire::control::standing_from_bytes(&bytes).map_err(StartError::Standing)?,
        };
        let birth = match &standing {
            Standing::Member(birth) => Some(birth.clone()),
            Standing::Free | Standing::Promised { .. } => None,
        };
        let start = Start {
            me: Voter { name: me.name.clone(), id: me.id, peer: me.addresses.peer.clone() },
            cluster_name: config.founding.name.clone(),
            founders: config.founding.founders.clone(),
            standing,
            candidate: ClusterId(chance::random()),
            nonce: chance::random(),
        };
        Ok(Founder {
            machine: Mutex::new(Founding::new(start, clock::now())),
            journal: journal.clone(),
            woken: Notify::new(),
            waiting: Mutex::default(),
            birth: watch::Sender::new(birth),
        })
    }

    /// The cluster this node belongs to, as written down.
    pub fn uuid(&self) -> Option<ClusterUuid> {
        self.machine.lock().cluster().and_then(|cluster| ClusterUuid::from_bytes(cluster.0))
    }

    /// The birth of the cluster this node belongs to, once it does.
    pub fn birth(&self) -> watch::Receiver<Option<Birth>> {
        self.birth.subscribe()
    }

    /// Another node's word of itself; the answer is this node's.
    pub fn hear(&self, hello: Hello) -> Hello {
        let answer = {
            let mut machine = self.machine.lock();
            let challenge = hello.challenge;
            machine.handle_hello(hello, clock::now());
            machine.answer(challenge)
        };
        self.woken.notify_one();
        answer
    }

    /// A founder's question; resolves when the promise is durable, or refused. `None` when it is not answered: ask again.
    pub async fn promise(&self, request: PromiseRequest) -> Option<PromiseReply> {
        let key = (request.from.name.clone(), request.nonce);
        let (waiting, reply) = oneshot::channel();
        self.waiting.lock().insert(key.clone(), waiting);
        self.machine.lock().handle_request(request);
        self.woken.notify_one();
        let reply = tokio::time::timeout(WORD_WITHIN, reply).await;
        self.waiting.lock().remove(&key);
        reply.ok()?.ok()
    }

    /// Writes down what must be durable before anything that rests on it is said.
    async fn persist(&self) -> bool {
        let Some(standing) = self.machine.lock().poll_persist() else { return false };
        if let Err(error) = self.journal.put_cell(STANDING, &wire::control::standing_to_bytes(&standing)).await {
            // Not durable, so not said: the machine stays silent, which is safe, and an operator is told.
            tracing::error!(%error, "what founding promised could not be written down");
            return false;
        }
        self.machine.lock().handle_persisted(clock::now());
        if let Standing::Member(birth) = standing {
            self.birth.send_replace(Some(birth));
        }
        true
    }

    fn answer(&self, to: String, reply: PromiseReply) {
        if let Some(waiting) = self.waiting.lock().remove(&(to, reply.nonce)) {
            // The asker may have given up; it asks again.
            let _ = waiting.send(reply);
        }
    }
}

/// What a node does until it has entered its cluster.
pub struct Meeting {
    /// The machine.
    pub founder: Arc<Founder>,
    /// Whose log begins.
    pub raft: RaftNode,
    /// Opens that log to others, once this node has written down to which cluster it belongs.
    pub door: Door,
    /// Where genesis shows up.
    pub replica: Arc<Replica>,
    /// How others are reached before they are known.
    pub dialler: Dialler,
    /// What is said to belong to the cluster from now on.
    pub credentials: Arc<Credentials>,
    /// Who tells of other nodes, and is told the uuid.
    pub gossip: Arc<GossipHandle>,
    /// Where to look first.
    pub seeds: Vec<String>,
    /// This node.
    pub spec: NodeSpec,
    /// The founders as this node was given them.
    pub founders: Vec<String>,
    /// Where it is told who was told otherwise.
    pub refusals: Arc<Refusals>,
}

/// What tasks of the meeting heard.
enum Heard {
    Hello(Hello),
    Reply(PromiseReply),
    Admitted(ClusterId),
}

impl Meeting {
    /// Says hello, founds or joins, until this node's state has the genesis of its cluster. From then on it only answers
    /// hellos and questions, for as long as the node runs.
    pub async fn run(self) {
        let (heard, mut words) = mpsc::channel(HEARD_MAX);
        let mut addresses = BTreeMap::new();
        let mut genesis = self.replica.genesis();
        let mut entered = false;
        let mut hello = tokio::time::interval(HELLO_EVERY);
        loop {
            self.carry_out(&heard, &addresses).await;
            if self.follow_uuid() && !entered {
                // Whoever waits for this word waits with a shut log.
                self.greet(&heard);
            }
            // The machine may refuse: a node that has not yet written down to which cluster it belongs has not entered,
            // even if that cluster's log has reached it already.
            if !entered && let Some(cluster) = genesis.borrow_and_update().as_ref().map(|genesis| genesis.cluster) {
                let mut machine = self.founder.machine.lock();
                machine.handle_entered(cluster);
                entered = machine.accepts(cluster);
            }
            let timeout = self.founder.machine.lock().poll_timeout();
            let wait = timeout.map_or(HELLO_EVERY, |at| at.since(clock::now()).into());
            tokio::select! {
                biased;
                () = self.founder.woken.notified() => {}
                Some(word) = words.recv() => self.take(word, &mut addresses),
                Ok(()) = genesis.changed(), if !entered => {}
                _ = hello.tick(), if !entered => self.greet(&heard),
                () = tokio::time::sleep(wait), if !entered => self.founder.machine.lock().handle_timeout(clock::now()),
            }
        }
    }

    /// Empties the machine's outlets, in its order.
    async fn carry_out(&self, heard: &mpsc::Sender<Heard>, addresses: &BTreeMap<String, String>) {
        while self.founder.persist().await {}
        loop {
            let message = self.founder.machine.lock().poll_message();
            let Some(Outgoing { to, message }) = message else { break };
            match message {
                FoundingMessage::Reply(reply) => self.founder.answer(to, reply),
                FoundingMessage::Request(request) => {
                    if let Some(channel) = self.channel_to(&to, addresses) {
                        tokio::spawn(ask(channel, request, heard.clone()));
                    }
                }
            }
        }
        loop {
            let outcome = self.founder.machine.lock().poll_outcome();
            let Some(outcome) = outcome else { break };
            self.carry_out_outcome(outcome, heard, addresses).await;
        }
        loop {
            let notice = self.founder.machine.lock().poll_notice();
            let Some(notice) = notice else { break };
            self.tell(&notice);
        }
    }

    fn tell(&self, notice: &Notice) {
        match notice {
            // Who belongs to the cluster is right: the list is as old as the cluster.
            Notice::WrongFounders { name, founded: true } => {
                self.refusals.stop_for(Refused::WrongFounders { told_by: name.clone(), ours: self.founders.clone() })
            }
            Notice::WrongFounders { name, founded: false } => {
                self.refusals.tell(name, "wrong-founders", "wrong-founders: it was given another list of founders");
            }
            Notice::WrongCluster { name, cluster } => {
                self.refusals.tell(name, "wrong-cluster", &format!("wrong-cluster: it belongs to cluster {cluster}"));
            }
            Notice::NotFounder { name } => {
                self.refusals.tell(
                    name,
                    "wrong-founders",
                    "wrong-founders: it does not take this node for the founder",
                );
            }
            Notice::PromisedTo { name, founder } => {
                let text = format!("wrong-founders: it has promised {founder}, the founder of another list");
                self.refusals.tell(name, "wrong-founders", &text);
            }
        }
    }

    async fn carry_out_outcome(
        &self,
        outcome: Outcome,
        heard: &mpsc::Sender<Heard>,
        addresses: &BTreeMap<String, String>,
    ) {
        match outcome {
            Outcome::Found(birth) => self.begin_log(&birth).await,
            Outcome::Join { birth, .. } if birth.has_voter(self.spec.id) => self.begin_log(&birth).await,
            Outcome::Join { birth, via } => {
                let at_birth = birth.voters.iter().find(|voter| voter.name == via).map(|voter| voter.peer.clone());
                let channel = self.channel_to(&via, addresses).or_else(|| Some(self.dialler.channel(&at_birth?, None)));
                if let Some(channel) = channel {
                    let dialler = self.dialler.clone();
                    tokio::spawn(join(channel, dialler, self.spec.clone(), birth.cluster, heard.clone()));
                }
            }
        }
    }

    /// Begins the log with the voters of the birth, unless it has begun.
    async fn begin_log(&self, birth: &Birth) {
        let voters: Vec<_> = birth
            .voters
            .iter()
            .map(|voter| Peer { id: voter.id, address: voter.peer.clone(), name: voter.name.clone() })
            .collect();
        // Nothing of this log is older than this node's part in it.
        self.replica.tell_from_now_on();
        match self.raft.found(&voters).await {
            Ok(()) => tracing::info!(cluster = %birth.cluster, voters = voters.len(), "the log begins"),
            Err(BootstrapError::AlreadyMember) => {}
            Err(error) => tracing::warn!(%error, "the log does not begin"),
        }
    }

    /// From when this node belongs to a cluster, everything it says carries the uuid, and its log may be written. Returns
    /// whether that is news.
    fn follow_uuid(&self) -> bool {
        let Some(uuid) = self.founder.uuid() else { return false };
        self.credentials.set_uuid(uuid);
        self.gossip.set_uuid(uuid);
        self.door.admit()
    }

    fn take(&self, word: Heard, addresses: &mut BTreeMap<String, String>) {
        let mut machine = self.founder.machine.lock();
        match word {
            Heard::Hello(hello) => {
                addresses.insert(hello.from.name.clone(), hello.from.peer.clone());
                machine.handle_hello(hello, clock::now());
            }
            Heard::Reply(reply) => machine.handle_reply(reply, clock::now()),
            Heard::Admitted(cluster) => machine.handle_admitted(cluster),
        }
    }

    /// Says hello to every seed and to everyone that gossip met.
    fn greet(&self, heard: &mpsc::Sender<Heard>) {
        let met: Vec<String> =
            self.gossip.members().borrow().active().map(|(_, member)| member.peer.to_string()).collect();
        let mut addresses: Vec<&String> = self.seeds.iter().chain(&met).collect();
        addresses.sort();
        addresses.dedup();
        let hello = self.founder.machine.lock().hello();
        for address in addresses.into_iter().filter(|address| **address != self.spec.addresses.peer) {
            tokio::spawn(greet(self.dialler.channel(address, None), hello.clone(), heard.clone()));
        }
    }

    fn channel_to(&self, name: &str, addresses: &BTreeMap<String, String>) -> Option<Channel> {
        let met = self.gossip.members();
        let met = met
            .borrow()
            .active()
            .find(|(_, member)| member.name.as_str() == name)
            .map(|(_, member)| member.peer.to_string());
        let address = addresses.get(name).cloned().or(met)?;
        Some(self.dialler.channel(&address, None))
    }
}

async fn greet(channel: Channel, hello: Hello, heard: mpsc::Sender<Heard>) {
    let mut client = ControlClient::new(channel);
    let said = client.hello(wire::control::hello_to_proto(&hello));
    let Ok(Ok(answer)) = tokio::time::timeout(WORD_WITHIN, said).await else { return };
    if let Ok(hello) = wire::control::hello_from_proto(answer.into_inner()) {
        let _ = heard.send(Heard::Hello(hello)).await;
    }
}

async fn ask(channel: Channel, request: PromiseRequest, heard: mpsc::Sender<Heard>) {
    let mut client = ControlClient::new(channel);
    let said = client.promise(wire::control::promise_request_to_proto(&request));
    let Ok(Ok(answer)) = tokio::time::timeout(WORD_WITHIN, said).await else { return };
    if let Ok(reply) = wire::control::promise_reply_from_proto(answer.into_inner()) {
        let _ = heard.send(Heard::Reply(reply)).await;
    }
}

/// Asks `channel`'s node to be added, and the leader that it names, once.
async fn join(channel: Channel, dialler: Dialler, spec: NodeSpec, cluster: ClusterId, heard: mpsc::Sender<Heard>) {
    let mut next = Some(channel);
    for _ in 0..JOIN_HOPS_MAX {
        let Some(channel) = next.take() else { return };
        let node = Some(wire::control::node_spec_to_proto(&spec));
        let request = JoinRequest { node, cluster: cluster.0.to_vec().into() };
        let mut client = ControlClient::new(channel);
        let Ok(Ok(answer)) = tokio::time::timeout(JOIN_WITHIN, client.join(request)).await else { return };
        match answer.into_inner().reply {
            Some(Joined::Accepted(_)) => {
                let _ = heard.send(Heard::Admitted(cluster)).await;
            }
            Some(Joined::NotLeader(hint)) if !hint.peer.is_empty() => next = Some(dialler.channel(&hint.peer, None)),
            Some(Joined::NotLeader(_) | Joined::WrongCluster(_)) | None => {}
        }
    }
}
