//! One process: the machines that real nodes run, and the glue between them, which does what the shells of `node` do in the
//! same order. Nothing here knows the network or real time: an input comes in with a reading of the machine's clocks, and
//! what is to be done about it goes out as effects.

mod calls;
mod conclude;
mod desk;
mod ingress;
mod keep;
mod lead;
mod leave;
mod log;
mod map;
mod owner;
mod plan;
mod session;

use std::sync::Arc;

use control::{Cluster, State};
use limits::{Moment, Now, Span, WallTime};
use ownership::cluster_time::ClusterTime;
use ownership::lease::{Holder, Terms};
use ownership::{Bug, LeaseBound, Routes, SessionId};
use policy::Catalogue;

use self::calls::Calls;
use self::desk::Desk;
use self::ingress::Ingress;
use self::keep::Keep;
use self::lead::Lead;
pub(crate) use self::leave::LEAVE_WITHIN;
use self::leave::Leave;
use self::log::Log;
use self::owner::Owner;
use self::session::Life;
use super::consensus::{Disk, Leadership};
use super::making::Chance;
use super::packet::{Address, Entry, Input, Packet, Put, Waited};
use super::script::{Script, id_of};
use super::store::Asking;
use super::trace::{Decision, Event};

/// What a process reads on its machine's clocks when it is given something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// The boot-time clock.
    pub(crate) boot: Moment,
    /// The wall clock.
    pub(crate) wall: WallTime,
}

/// What a process does.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Sends a message of the log to that node.
    Log(u8, Packet),
    /// Sends a call to that node; not heard of again if `Failed` never comes.
    Call(u8, Packet),
    /// Answers a call.
    Reply(Address, Packet),
    /// Sends something on the ordered stream of checks to that node.
    Forward(u8, Packet),
    /// Answers on such a stream.
    Back(Address, Packet),
    /// A thread waits for so long, and then goes on.
    Wait(Span, Waited),
    /// A caller has its answer; without one, an error that decides nothing.
    Tell(Put, Option<Decision>),
    /// An entry of the log was applied here.
    Applied(u64, Option<Entry>),
    /// Whom this node believes to lead has changed.
    Believes(Leadership),
    /// The command of the operator of this number was applied, or not.
    Operated(usize, bool),
    /// This process has left, and is to be stopped.
    Left,
    /// For the trace.
    Trace(Event),
    /// A lease lasts longer; the real moment is the world's to add.
    Extended { session: SessionId, sent: Moment, end: Moment },
    /// Looks for the store.
    Dial,
    /// Gives its connection with the store up.
    HangUp,
    /// Asks the store, under a number of its own.
    AskStore(u64, Asking),
    /// Something worth counting happened.
    Count(&'static str),
}

/// One process of one machine. A clone of it is what a copied machine goes on with.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The node's number, by which the others know it.
    pub(crate) me: u8,
    /// The machine's number: that of the node, or of a copy.
    pub(crate) machine: u8,
    nonce: u64,
    script: Arc<Script>,
    chance: Chance,
    at: At,
    log: Log,
    state: State,
    /// The session under which this process lives or is about to.
    mine: Option<SessionId>,
    /// A seeded bug: the session of the process before, which this one goes on with.
    reused: Option<SessionId>,
    terms: Terms,
    routes: Arc<Routes>,
    catalogue: Arc<Catalogue>,
    /// The revision of the domain that the catalogue holds.
    revision: u64,
    time: ClusterTime,
    owner: Owner,
    /// What it has in the store, where there is one.
    keep: Option<Keep>,
    life: Life,
    exit: Exit,
    leave: Leave,
    desk: Option<Desk>,
    lead: Option<Lead>,
    /// What was last told of who leads.
    believed: Option<Leadership>,
    calls: Calls,
    ingress: Ingress,
    /// Something changed that others in this process wait for.
    announced: bool,
    /// No thread is kept waiting any more.
    calm: bool,
    out: Effects,
}

/// What is to be done, in order. A clone begins with nothing.
#[derive(Debug, Default)]
struct Effects(Vec<Effect>);

impl Clone for Effects {
    fn clone(&self) -> Effects {
        Effects::default()
    }
}

/// Whether the process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    None,
    Leaving,
    Left,
}

/// What a process finds where it starts.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) me: u8,
    pub(crate) script: Arc<Script>,
    pub(crate) disk: Disk<Entry>,
    /// What the process before knew of its lease. Nothing of it may be used; a seeded bug does.
    pub(crate) remains: Option<Holder>,
}

impl Node {
    /// A process that starts now: a nonce of its own, nothing in memory, and the disk of those before.
    pub(crate) fn start(place: Place, chance: Chance, at: At) -> Node {
        let Place { me, script, disk, remains } = place;
        let keep = script.has_store.then(|| Keep::new(at.boot));
        let mut chance = chance;
        let reused = remains.filter(|_| Bug::RestartReusesLease.is_here() || Bug::RestartKeepsEpoch.is_here());
        let own = chance.next();
        let nonce = reused.as_ref().map_or(own, |holder| holder.session().nonce);
        let none = LeaseBound {
            session: SessionId { node: id_of(me), nonce, counter: 0 },
            end: Moment::ZERO,
            margin: Terms::DEFAULT.margin(),
        };
        let mut node = Node {
            me,
            machine: me,
            nonce,
            log: Log::start(me, script.nodes, disk, chance.next(), at.boot),
            script,
            chance,
            at,
            state: State::new(),
            mine: None,
            reused: reused.as_ref().map(Holder::session),
            terms: Terms::DEFAULT,
            routes: Arc::new(Routes::unknown()),
            catalogue: Arc::new(Catalogue::empty()),
            revision: 0,
            time: ClusterTime::unknown(),
            owner: Owner::new(none),
            keep,
            life: Life::unborn(),
            exit: Exit::None,
            leave: Leave::default(),
            desk: None,
            lead: None,
            believed: None,
            calls: Calls::default(),
            ingress: Ingress::new(nonce),
            announced: false,
            calm: false,
            out: Effects::default(),
        };
        node.trace(Event::Started { node: me, nonce: own });
        if node.keep.is_some() {
            node.effect(Effect::Dial);
        }
        node.be_born(reused);
        node.go_on();
        node
    }

    /// This process as it goes on where its machine was copied to.
    pub(crate) fn copied(&self, machine: u8, chance: Chance) -> Node {
        let catalogue = Arc::new(self.catalogue.copied());
        let mut copy = Node { machine, chance, catalogue, ..self.clone() };
        copy.log = self.log.copied();
        copy.ingress.go_by(&self.catalogue, &copy.catalogue);
        if copy.keep.is_some() {
            // It has no connection, and hears no answer.
            copy.store_seen(None);
            copy.effect(Effect::Dial);
        }
        copy
    }

    /// What the process's disk holds when it dies.
    pub(crate) fn into_remains(self) -> (Option<Disk<Entry>>, Option<Holder>) {
        (self.log.into_disk(), self.life.into_holder())
    }

    /// Takes something in.
    pub(crate) fn handle(&mut self, input: Input, at: At) {
        self.at = at;
        match input {
            Input::Wake => {}
            Input::Packet(from, packet) => self.take(from, packet),
            Input::Failed(call, delivery) => self.failed(call, delivery),
            Input::Broken(machine) => self.broken(machine),
            Input::Put(put) => self.put(put),
            Input::GoOn(waited) => self.waited(waited),
            Input::Suspect(node) => self.suspect(node),
            Input::Store(life) => self.store_seen(life),
            Input::StoreSays(number, heard) => self.store_says(number, heard),
            Input::Operate(operator, command) => self.operate(operator, command),
            Input::Leave => self.begin_to_leave(),
            Input::Disk(stuck) => self.log.handle_disk(stuck, at.boot),
            Input::Follow(index, entry) => self.log.follow(index, entry),
            Input::Believe(leadership) => self.log.believe(leadership),
        }
        self.go_on();
    }

    /// The next thing that is to be done.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.out.0)
    }

    /// Puts the emptied buffer back.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<Effect>) {
        if self.out.0.is_empty() {
            buffer.clear();
            self.out.0 = buffer;
        }
    }

    /// When the process next has something to do by itself, on its own clock.
    pub(crate) fn poll_timeout(&self) -> Option<Moment> {
        let parts = [
            self.log.poll_timeout(),
            self.life.poll_timeout(),
            self.desk.as_ref().map(Desk::poll_timeout),
            self.lead.as_ref().and_then(Lead::poll_timeout),
            self.leave.poll_timeout(),
            self.keep.as_ref().and_then(Keep::poll_timeout),
            self.calls.poll_timeout(),
            self.ingress.poll_timeout(),
        ];
        parts.into_iter().flatten().min()
    }

    /// Lets every part do what is due, until none has anything left.
    fn go_on(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let busy = self.follow_log()
                | self.go_on_living()
                | self.serve_desk()
                | self.go_on_leading()
                | self.go_on_leaving()
                | self.go_on_keeping()
                | self.give_calls_up()
                | self.go_on_asking();
            if !busy {
                return;
            }
        }
        debug_assert!(false, "a process comes to rest");
    }

    fn take(&mut self, from: Address, packet: Packet) {
        match packet {
            Packet::Log(message) => self.log.handle_message(message, self.at.boot),
            Packet::Renew(call, renewal) => self.take_renewal(from, call, &renewal),
            Packet::Renewed(call, answer) => self.renewed(call, answer),
            Packet::Propose(call, command) => self.propose_for(from, call, command),
            Packet::Proposed(call, result) => self.proposed_there(call, result),
            Packet::Check(call, partition, check) => self.take_check(from, call, partition, check),
            Packet::Answer(call, reply) => self.answered(call, *reply),
            Packet::Tell(partition, told) => self.be_told(partition, told),
        }
    }

    /// Limit time: the clock, and the cluster time that belongs to the reading.
    fn now(&self) -> Now {
        self.now_at(self.at.boot)
    }

    fn now_at(&self, moment: Moment) -> Now {
        Now { moment, wall: self.time.now(moment) }
    }

    /// Whether this process has proposed that its records count nowhere, and has not heard of it.
    pub(crate) fn is_giving_records_up(&self) -> bool {
        self.calls.is_giving_records_up()
    }

    /// How long leases last, as far as this process knows.
    pub(crate) fn ttl(&self) -> Span {
        self.terms.ttl()
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.state.cluster()
    }

    fn lives(&self, session: SessionId) -> bool {
        self.cluster().is_some_and(|cluster| cluster.sessions.lives(session))
    }

    fn effect(&mut self, effect: Effect) {
        self.out.0.push(effect);
    }

    fn trace(&mut self, event: Event) {
        self.effect(Effect::Trace(event));
    }
}

/// How often the parts of a process are gone through for one input before that counts as a mistake.
const ROUNDS_MAX: usize = 64;
