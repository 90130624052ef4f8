//! How a cluster is founded exactly once, whatever the network shows to whom. The founders are a list of names, the
//! same on every node. The first of them founds, with a promise from every other; everybody else joins what was
//! founded.
//!
//! Why that is once. A promise is written down before it is given, and only by a node that belongs to no cluster; from
//! then on that node enters no cluster but one founded by the node it promised, or one that the founder by name
//! follows, in an answer to a question put after the promise; a founder that follows a cluster founds none any more in
//! this life. A promise to an earlier life of the founder is given anew to the next one only when that shows that its
//! question is no older than the promise. So when a founder holds all promises, no other founder belongs to an earlier
//! cluster, and none will. A founder that lost its disk asks again under a new identity: either nobody else had entered
//! the earlier cluster, which is then gone with that disk, or somebody had, who refuses and says so. A cluster's log
//! begins with up to five founders as voters, all named in its [`Birth`]; whatever was committed, most of them have,
//! and so has one who would refuse.
//!
//! What it cannot repair: two founders' disks lost before everybody entered, and two live nodes of one name.

mod messages;

use std::collections::{BTreeMap, VecDeque};

use limits::{Moment, Span};

pub use messages::{
    Birth, FoundingMessage, Hello, Outgoing, PromiseAnswer, PromiseReply, PromiseRequest, Standing, Voter,
};

use crate::genesis::{ClusterId, FoundersDigest};

/// How long after a question without an answer it is asked again at first; doubles each time.
pub const RETRY_FIRST: Span = Span::from_millis(100);
/// The longest pause between two questions.
pub const RETRY_MAX: Span = Span::from_secs(2);
/// The most voters that a log begins with.
pub const VOTERS_MAX: usize = 5;

/// What a node starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// This node.
    pub me: Voter,
    /// The cluster's name.
    pub cluster_name: String,
    /// The founders' names, 1 to [`crate::FOUNDERS_MAX`], the same on every node in any order.
    pub founders: Vec<String>,
    /// What was written down.
    pub standing: Standing,
    /// The uuid to found under, if this node comes to found: random, new in every process.
    pub candidate: ClusterId,
    /// Random, new in every process.
    pub nonce: u64,
}

/// What this node is to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Found the cluster: begin the log with the voters of the birth, unless it has begun, and propose genesis under
    /// its uuid. The standing is written down already.
    Found(Birth),
    /// Enter the cluster. A voter of the birth begins its log with the same voters (an equal first entry, so it does
    /// not matter who is first); whoever then leads a log without genesis proposes it under the birth's uuid. Another
    /// node asks `via`, a node that should belong to it, to be added, and reports [`Founding::handle_admitted`]. Said
    /// again, with another `via`, until [`Founding::handle_entered`].
    Join {
        /// Which cluster.
        birth: Birth,
        /// Whom to ask.
        via: String,
    },
}

/// What an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `wrong-founders`: that node was given another list.
    WrongFounders {
        /// Its name.
        name: String,
        /// Whether it belongs to a cluster and this node to none: then it is this node's list that is wrong.
        founded: bool,
    },
    /// `wrong-cluster`: that node belongs to another cluster.
    WrongCluster {
        /// Its name.
        name: String,
        /// Its cluster.
        cluster: ClusterId,
    },
    /// That node does not take this one for the founder.
    NotFounder {
        /// Its name.
        name: String,
    },
    /// That node has promised the founder of another list.
    PromisedTo {
        /// Its name.
        name: String,
        /// The other founder.
        founder: String,
    },
}

/// The machine. Inputs are `handle_*`; after each, drain the outlets in this order: [`Founding::poll_persist`] (and
/// report [`Founding::handle_persisted`] once it is durable, which may fill the others), [`Founding::poll_message`],
/// [`Founding::poll_outcome`], [`Founding::poll_notice`]. Time is [`Founding::poll_timeout`] and
/// [`Founding::handle_timeout`]. A node sends its [`Founding::hello`] to whomever it meets, and again about once a
/// second; a hello is answered with [`Founding::answer`], which its sender hands in likewise.
#[derive(Debug)]
pub struct Founding {
    me: Voter,
    /// In the order of names.
    founders: Vec<String>,
    digest: FoundersDigest,
    candidate: ClusterId,
    nonce: u64,
    /// What a later life of the founder must show that it has heard; another in every process and with every promise.
    challenge: u64,
    /// As it is on disk.
    standing: Standing,
    writing: Option<Writing>,
    stage: Stage,
    retry: Retry,
    messages: VecDeque<Outgoing>,
    outcomes: VecDeque<Outcome>,
    notices: VecDeque<Notice>,
    #[cfg(test)]
    pub(crate) seeded: tests::Seeded,
}

/// What is being written, and what follows once it is durable.
#[derive(Debug)]
struct Writing {
    standing: Standing,
    handed_out: bool,
    reply_to: Option<PromiseRequest>,
}

#[derive(Debug)]
enum Stage {
    /// The first founder, collecting promises: from whom so far, and the numbers that others want to see again.
    Asking { promised: BTreeMap<String, Voter>, proofs: BTreeMap<String, u64> },
    /// Somebody else founds; nothing is known of it.
    Waiting,
    /// A cluster is known, and whom to ask for it: the next first.
    Entering { birth: Birth, via: VecDeque<String> },
    /// The log of the cluster is here.
    Entered,
}

/// When to ask again.
#[derive(Debug)]
struct Retry {
    at: Option<Moment>,
    pause: Span,
}

impl Retry {
    fn after_first(now: Moment) -> Retry {
        Retry { at: Some(now.saturating_add(RETRY_FIRST)), pause: RETRY_FIRST }
    }

    fn back_off(&mut self, now: Moment) {
        self.pause = self.pause.saturating_add(self.pause).min(RETRY_MAX);
        self.at = Some(now.saturating_add(self.pause));
    }
}

impl Founding {
    /// A node that starts, with what it had written down.
    pub fn new(start: Start, now: Moment) -> Founding {
        let Start { me, cluster_name, mut founders, standing, candidate, nonce } = start;
        let digest = FoundersDigest::of(&cluster_name, &founders);
        founders.sort();
        let mut founding = Founding {
            me,
            founders,
            digest,
            candidate,
            nonce,
            challenge: nonce,
            standing,
            writing: None,
            stage: Stage::Waiting,
            retry: Retry { at: None, pause: RETRY_FIRST },
            messages: VecDeque::new(),
            outcomes: VecDeque::new(),
            notices: VecDeque::new(),
            #[cfg(test)]
            seeded: tests::Seeded::default(),
        };
        founding.begin(now);
        founding
    }

    fn begin(&mut self, now: Moment) {
        if let Standing::Member(birth) = &self.standing {
            let birth = birth.clone();
            self.enter(birth, None, now);
        } else if self.is_first() {
            self.stage = Stage::Asking { promised: BTreeMap::new(), proofs: BTreeMap::new() };
            self.ask_missing(now);
            self.found_if_all_promised();
        }
    }

    /// What this node says of itself in answer to a hello with that challenge.
    pub fn answer(&self, challenge: u64) -> Hello {
        Hello { echo: Some(challenge), ..self.hello() }
    }

    /// What this node says of itself.
    pub fn hello(&self) -> Hello {
        let cluster = match (&self.standing, &self.stage) {
            (Standing::Member(birth), _) => Some(birth.clone()),
            (Standing::Free | Standing::Promised { .. }, Stage::Entering { birth, .. }) if self.is_first() => {
                Some(birth.clone())
            }
            (Standing::Free | Standing::Promised { .. }, _) => None,
        };
        Hello { from: self.me.clone(), founders: self.digest, cluster, challenge: self.challenge, echo: None }
    }

    /// Whether the log of that cluster may be written here: a peer that speaks for any other is refused.
    pub fn accepts(&self, cluster: ClusterId) -> bool {
        matches!(&self.standing, Standing::Member(birth) if birth.cluster == cluster)
    }

    /// The cluster this node belongs to, as written down.
    pub fn cluster(&self) -> Option<ClusterId> {
        match &self.standing {
            Standing::Member(birth) => Some(birth.cluster),
            Standing::Free | Standing::Promised { .. } => None,
        }
    }

    /// Another node's word of itself.
    pub fn handle_hello(&mut self, hello: Hello, now: Moment) {
        let Hello { from, founders, cluster, echo, .. } = hello;
        if from.name == self.me.name {
            return;
        }
        if founders != self.digest {
            let founded = cluster.is_some() && self.cluster().is_none();
            self.notices.push_back(Notice::WrongFounders { name: from.name, founded });
            return;
        }
        if let Some(birth) = cluster {
            let frees = echo == Some(self.challenge) && self.founders.first() == Some(&from.name);
            self.handle_birth(birth, &from, frees, now);
        }
    }

    /// The founder's question. Answered at once, or when the promise is durable, or not at all while something else is
    /// being written: the founder asks again.
    pub fn handle_request(&mut self, request: PromiseRequest) {
        if self.writing.is_some() {
            return;
        }
        match self.objection(&request) {
            Some(answer) => self.reply(&request, answer),
            None => self.promise(request),
        }
    }

    /// An answer to this node's question.
    pub fn handle_reply(&mut self, reply: PromiseReply, now: Moment) {
        let PromiseReply { from, nonce, answer } = reply;
        let Stage::Asking { promised, proofs } = &mut self.stage else { return };
        if nonce != self.nonce || self.writing.is_some() || !self.founders.contains(&from.name) {
            return;
        }
        let name = from.name.clone();
        match answer {
            PromiseAnswer::Promised => {
                promised.insert(name, from);
                self.found_if_all_promised();
            }
            PromiseAnswer::Member(birth) => self.handle_birth(birth, &from, false, now),
            PromiseAnswer::Prove { challenge } => {
                proofs.insert(name.clone(), challenge);
                self.messages.push_back(self.request(&name));
            }
            PromiseAnswer::WrongFounders => {
                self.notices.push_back(Notice::WrongFounders { name, founded: false });
            }
            PromiseAnswer::NotYours => self.notices.push_back(Notice::NotFounder { name }),
            PromiseAnswer::PromisedTo { founder } => self.notices.push_back(Notice::PromisedTo { name, founder }),
        }
    }

    /// The cluster has added this node, which is no voter of its birth: the entry is committed. From when this is
    /// durable the log is accepted.
    pub fn handle_admitted(&mut self, cluster: ClusterId) {
        if let Stage::Entering { birth, .. } = &self.stage
            && birth.cluster == cluster
            && self.writing.is_none()
            && !self.accepts(cluster)
        {
            self.write(Standing::Member(birth.clone()), None);
        }
    }

    /// This node's own applied state has the genesis of its cluster: nothing is left to do.
    pub fn handle_entered(&mut self, cluster: ClusterId) {
        if self.accepts(cluster) {
            self.stage = Stage::Entered;
            self.retry.at = None;
        }
    }

    /// What [`Founding::poll_persist`] gave is durable.
    pub fn handle_persisted(&mut self, now: Moment) {
        let Some(Writing { standing, reply_to, .. }) = self.writing.take() else { return };
        self.standing = standing.clone();
        match (standing, reply_to) {
            (Standing::Member(birth), _) => self.enter(birth, None, now),
            (Standing::Promised { .. }, Some(request)) => self.reply(&request, PromiseAnswer::Promised),
            (Standing::Promised { .. } | Standing::Free, _) => {}
        }
    }

    /// When [`Founding::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Moment> {
        self.retry.at
    }

    /// Time has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.retry.at.is_none_or(|at| now < at) {
            return;
        }
        self.retry.back_off(now);
        match &self.stage {
            Stage::Asking { .. } => self.send_requests(),
            Stage::Entering { .. } => self.say_join(),
            Stage::Waiting | Stage::Entered => self.retry.at = None,
        }
    }

    /// What must be durable before anything that rests on it is said. One thing at a time, each handed out once.
    pub fn poll_persist(&mut self) -> Option<Standing> {
        let writing = self.writing.as_mut().filter(|writing| !writing.handed_out)?;
        writing.handed_out = true;
        Some(writing.standing.clone())
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<Outgoing> {
        self.messages.pop_front()
    }

    /// What this node is to do.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// What an operator should know.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

/// The founder's side.
impl Founding {
    fn is_first(&self) -> bool {
        self.founders.first() == Some(&self.me.name)
    }

    fn ask_missing(&mut self, now: Moment) {
        self.retry = Retry::after_first(now);
        self.send_requests();
    }

    fn send_requests(&mut self) {
        let Stage::Asking { promised, .. } = &self.stage else { return };
        let missing = |name: &&String| **name != self.me.name && !promised.contains_key(*name);
        let requests: Vec<Outgoing> = self.founders.iter().filter(missing).map(|name| self.request(name)).collect();
        self.messages.extend(requests);
    }

    fn request(&self, to: &str) -> Outgoing {
        let proof = match &self.stage {
            Stage::Asking { proofs, .. } => proofs.get(to).copied(),
            Stage::Waiting | Stage::Entering { .. } | Stage::Entered => None,
        };
        let (from, founders, nonce) = (self.me.clone(), self.digest, self.nonce);
        let message = FoundingMessage::Request(PromiseRequest { from, founders, nonce, proof });
        Outgoing { to: to.to_owned(), message }
    }

    fn found_if_all_promised(&mut self) {
        let Stage::Asking { promised, .. } = &self.stage else { return };
        if promised.len() + 1 < self.promises_needed() {
            return;
        }
        let mut voters: Vec<Voter> = [&self.me].into_iter().chain(promised.values()).cloned().collect();
        voters.truncate(match voters.len() {
            VOTERS_MAX.. => VOTERS_MAX,
            3 | 4 => 3,
            _ => 1,
        });
        let birth = Birth { cluster: self.candidate, founder: self.me.id, voters };
        self.write(Standing::Member(birth), None);
    }

    /// All of them, this one included.
    fn promises_needed(&self) -> usize {
        #[cfg(test)]
        if self.seeded == tests::Seeded::MajorityFounds {
            return self.founders.len() / 2 + 1;
        }
        self.founders.len()
    }
}

/// The side of everybody else.
impl Founding {
    /// Why a promise cannot be given.
    fn objection(&self, request: &PromiseRequest) -> Option<PromiseAnswer> {
        if request.founders != self.digest {
            return Some(PromiseAnswer::WrongFounders);
        }
        let asker_is_first = self.founders.first() == Some(&request.from.name);
        if !asker_is_first || self.is_first() || !self.founders.contains(&self.me.name) {
            return Some(PromiseAnswer::NotYours);
        }
        match &self.standing {
            Standing::Member(birth) => Some(PromiseAnswer::Member(birth.clone())),
            Standing::Promised { name, .. } if *name != request.from.name => {
                Some(PromiseAnswer::PromisedTo { founder: name.clone() })
            }
            Standing::Promised { founder, .. }
                if *founder != request.from.id && request.proof != Some(self.challenge) =>
            {
                Some(PromiseAnswer::Prove { challenge: self.challenge })
            }
            Standing::Free | Standing::Promised { .. } => None,
        }
    }

    /// Promises, durably first. Hopes of joining something else end here.
    fn promise(&mut self, request: PromiseRequest) {
        self.stage = Stage::Waiting;
        self.retry.at = None;
        let PromiseRequest { from: Voter { name, id: founder, .. }, founders, .. } = request.clone();
        let promise = Standing::Promised { name, founder, founders };
        if self.standing == promise {
            self.reply(&request, PromiseAnswer::Promised);
        } else {
            self.challenge = self.challenge.wrapping_add(1);
            self.write(promise, Some(request));
        }
    }

    fn reply(&mut self, request: &PromiseRequest, answer: PromiseAnswer) {
        let reply = PromiseReply { from: self.me.clone(), nonce: request.nonce, answer };
        self.messages.push_back(Outgoing { to: request.from.name.clone(), message: FoundingMessage::Reply(reply) });
    }

    /// A cluster is there, as one says who belongs to it, or who is the founder by name and follows it; whether that
    /// frees this node from a promise.
    fn handle_birth(&mut self, birth: Birth, teller: &Voter, frees: bool, now: Moment) {
        if let Standing::Member(mine) = &self.standing {
            if mine.cluster != birth.cluster {
                self.notices.push_back(Notice::WrongCluster { name: teller.name.clone(), cluster: birth.cluster });
            } else if matches!(self.stage, Stage::Entering { .. }) {
                self.enter(birth, Some(&teller.name), now);
            }
            return;
        }
        if self.writing.is_some() || !(frees || self.may_follow(&birth)) {
            return;
        }
        if birth.has_voter(self.me.id) {
            self.write(Standing::Member(birth), None);
        } else {
            self.enter(birth, Some(&teller.name), now);
        }
    }

    /// A promise binds to the cluster that its founder founds.
    fn may_follow(&self, birth: &Birth) -> bool {
        #[cfg(test)]
        if self.seeded == tests::Seeded::PromiseDoesNotBind {
            return true;
        }
        match &self.standing {
            Standing::Promised { founder, .. } => birth.founder == *founder,
            Standing::Free => true,
            Standing::Member(_) => false,
        }
    }

    /// Enters a cluster, or learns of one more node to ask about it.
    fn enter(&mut self, birth: Birth, teller: Option<&String>, now: Moment) {
        if let Stage::Entering { birth: known, via } = &mut self.stage
            && *known == birth
            && let Some(teller) = teller
        {
            if !via.contains(teller) && via.len() <= VOTERS_MAX {
                via.push_front(teller.clone());
            }
            return;
        }
        let voters = birth.voters.iter().map(|voter| &voter.name).filter(|name| **name != self.me.name);
        let mut via: VecDeque<String> = voters.cloned().collect();
        if let Some(teller) = teller {
            via.retain(|name| name != teller);
            via.push_front(teller.clone());
        }
        self.stage = Stage::Entering { birth, via };
        self.retry = Retry::after_first(now);
        self.say_join();
    }

    fn say_join(&mut self) {
        let Stage::Entering { birth, via } = &mut self.stage else { return };
        let birth = birth.clone();
        if birth.founder == self.me.id {
            self.outcomes.push_back(Outcome::Found(birth));
            return;
        }
        via.rotate_left(usize::from(!via.is_empty()));
        if let Some(via) = via.back().cloned() {
            self.outcomes.push_back(Outcome::Join { birth, via });
        }
    }

    fn write(&mut self, standing: Standing, reply_to: Option<PromiseRequest>) {
        debug_assert!(self.writing.is_none(), "one thing is written at a time");
        self.writing = Some(Writing { standing, handed_out: false, reply_to });
    }
}

#[cfg(test)]
mod tests;
