//! The store as a story has it: one process after the other, each in a life of its own, and a connection from every process
//! of a node to whichever answered it. What is asked travels on the connection, and may arrive long after its asker has given
//! it up; what a process of the store had not taken in when it died is gone.

mod server;

use std::collections::BTreeMap;

use control::Command;
use limits::{Moment, Span};
use ownership::Write;
use ownership::kept::{Claimed, Incarnation, Keeper, WriteAnswer};
use ring::PartitionId;

use self::server::Server;
use super::Has;
use super::layers::Layers;
use super::making::Chance;
use super::packet::{Address, Input};
use super::play::{Happening, World};
use super::trace::{Event, KeyKept};

/// Chance of the store: how long things take, and what lives are called.
const STORE_STREAM: u64 = 0x7374;

/// How long one attempt to connect is after the one before, at least and at most.
const DIAL_AGAIN_MILLIS: (u64, u64) = (50, 1_000);

/// What was sent into a cut comes after it, so long after each attempt.
const SENT_AGAIN: Span = Span::from_millis(200);

/// For how long it is tried.
const SENT_FOR: Span = Span::from_secs(15);

/// All of the store there is in a story.
#[derive(Debug)]
pub(crate) struct Stores {
    servers: Vec<Running>,
    /// Which of them answers whoever connects now.
    answers: Option<usize>,
    /// Whether one of them ever had less than the one before it had acknowledged, and more than nothing.
    was_behind: bool,
    links: BTreeMap<u8, Link>,
    links_so_far: u64,
    slow: Layers<Span>,
    /// Machines that hear nothing of it, by the fault that is to blame.
    cut: Vec<(usize, u8)>,
    chance: Chance,
}

#[derive(Debug)]
struct Running {
    server: Server,
    lives: bool,
    /// It does one thing after the other.
    busy_until: Moment,
}

/// A process's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    number: u64,
    server: usize,
}

/// What a process asks of the store, by its number.
#[derive(Clone, Debug)]
pub(crate) enum Asking {
    /// Who answers.
    Who,
    Claim(PartitionId, Keeper, u64),
    Write(PartitionId, Box<Write>),
}

/// What it hears.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    Who(Incarnation),
    Claimed(Claimed),
    Written(WriteAnswer),
    /// It was not sent, since there is no connection.
    Away,
}

/// A question on its way.
#[derive(Debug)]
pub(crate) struct Sent {
    from: Address,
    link: Link,
    number: u64,
    asking: Asking,
    at: Moment,
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Answered {
    to: Address,
    link: Link,
    number: u64,
    heard: Heard,
    at: Moment,
}

impl Stores {
    pub(crate) fn new(seed: u64) -> Stores {
        let mut chance = Chance::of(seed, STORE_STREAM);
        let first = Server::empty(life(&mut chance, None));
        let servers = vec![Running { server: first, lives: true, busy_until: Moment::ZERO }];
        Stores {
            servers,
            answers: Some(0),
            was_behind: false,
            links: BTreeMap::new(),
            links_so_far: 0,
            slow: Layers::default(),
            cut: Vec::new(),
            chance,
        }
    }

    fn is_cut(&self, machine: u8) -> bool {
        self.cut.iter().any(|(_, cut)| *cut == machine)
    }

    /// Whether it answers whoever connects.
    pub(crate) fn is_up(&self) -> bool {
        self.answers.is_some()
    }

    pub(crate) fn slow_down(&mut self, fault: usize, each: Span) {
        self.slow.lay(fault, each);
    }

    pub(crate) fn cut_off(&mut self, fault: usize, machine: u8) {
        self.cut.push((fault, machine));
    }

    /// What this fault did to it is over.
    pub(crate) fn mend(&mut self, fault: usize) {
        self.slow.lift(fault);
        self.cut.retain(|(by, _)| *by != fault);
    }
}

/// A new life; of the same run where a process got its place back.
fn life(chance: &mut Chance, run: Option<[u8; 20]>) -> Incarnation {
    let mut name = || {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&chance.next().to_le_bytes());
        bytes
    };
    Incarnation { run: run.unwrap_or_else(&mut name), history: name() }
}

impl World<'_> {
    /// A process looks for the store: now, or after a while if there is none.
    pub(super) fn dial(&mut self, who: Address) {
        if self.machine(who.machine).life != who.life || self.machine(who.machine).node.is_none() {
            return;
        }
        let cut = self.store.is_cut(who.machine);
        let Some(server) = self.store.answers.filter(|_| !cut) else {
            let after = self.store.chance.millis(DIAL_AGAIN_MILLIS.0, DIAL_AGAIN_MILLIS.1);
            return self.plan_after(after, Happening::Dial(who));
        };
        self.store.links_so_far += 1;
        let link = Link { number: self.store.links_so_far, server };
        self.store.links.insert(who.machine, link);
        let life = self.store.servers[server].server.life;
        let after = self.takes().saturating_add(self.takes());
        self.plan_after(after, Happening::Connected(who, link.number, life));
    }

    /// A connection stands, if nothing broke it meanwhile.
    pub(super) fn connected(&mut self, who: Address, link: u64, life: Incarnation) {
        if self.is_linked(who, link) {
            self.input(who.machine, Input::Store(Some(life)));
        }
    }

    fn is_linked(&mut self, who: Address, link: u64) -> bool {
        let linked = self.store.links.get(&who.machine).is_some_and(|known| known.number == link);
        linked && self.machine(who.machine).life == who.life
    }

    /// A process gives its connection up, and looks for another.
    pub(super) fn hang_up(&mut self, who: Address) {
        self.store.links.remove(&who.machine);
        let after = self.store.chance.millis(DIAL_AGAIN_MILLIS.0, 2 * DIAL_AGAIN_MILLIS.0);
        self.plan_after(after, Happening::Dial(who));
    }

    /// A process died, and its connection with it. What it sent may still arrive.
    pub(super) fn unlink(&mut self, machine: u8) {
        self.store.links.remove(&machine);
    }

    pub(super) fn ask_store(&mut self, from: Address, number: u64, asking: Asking) {
        let Some(link) = self.store.links.get(&from.machine).copied() else {
            let (answer, after) = (Input::StoreSays(number, Heard::Away), self.takes());
            return self.plan_after(after, Happening::GoOn(from, answer));
        };
        let after = self.takes();
        self.plan_after(after, Happening::AtStore(Sent { from, link, number, asking, at: self.now }));
    }

    /// How long one way takes.
    fn takes(&mut self) -> Span {
        Span::from_micros(self.store.chance.between(50, 2_000))
    }

    /// A question arrives, or waits until it can.
    pub(super) fn at_store(&mut self, sent: Sent) {
        let server = &self.store.servers[sent.link.server];
        if !server.lives {
            return;
        }
        if self.store.is_cut(sent.from.machine) {
            if self.now.since(sent.at) < SENT_FOR {
                self.plan_after(SENT_AGAIN, Happening::AtStore(sent));
            }
            return;
        }
        match self.store.slow.top() {
            Some(each) => {
                let running = &mut self.store.servers[sent.link.server];
                running.busy_until = running.busy_until.max(self.now).saturating_add(each);
                self.schedule.plan(running.busy_until, Happening::DoneByStore(sent));
            }
            None => self.done_by_store(sent),
        }
    }

    /// The store does what it was asked.
    pub(super) fn done_by_store(&mut self, sent: Sent) {
        let Sent { from, link, number, asking, at } = sent;
        let now = self.now;
        let Running { server, lives, .. } = &mut self.store.servers[link.server];
        if !*lives {
            return;
        }
        let life = server.life;
        let heard = match asking {
            Asking::Who => Heard::Who(life),
            Asking::Claim(partition, keeper, last) => {
                let claimed = server.claim(partition, keeper, last, now);
                if matches!(claimed, Claimed::New { .. } | Claimed::Taken { .. }) {
                    self.trace(Event::Claimed { life, partition, keeper });
                }
                Heard::Claimed(claimed)
            }
            Asking::Write(partition, write) => {
                let written = server.write(partition, &write, now);
                if written == WriteAnswer::Ok {
                    let keys = write.keys.iter().map(KeyKept::of).collect();
                    let (keeper, anew) = (write.keeper, write.anew);
                    self.trace(Event::Kept { life, partition, keeper, anew, made: at, keys });
                }
                Heard::Written(written)
            }
        };
        let after = self.takes();
        self.plan_after(after, Happening::FromStore(Answered { to: from, link, number, heard, at: now }));
    }

    /// An answer arrives where its connection still stands.
    pub(super) fn answer_of_store(&mut self, answered: Answered) {
        if !self.is_linked(answered.to, answered.link.number) {
            return;
        }
        if self.store.is_cut(answered.to.machine) {
            if self.now.since(answered.at) < SENT_FOR {
                self.plan_after(SENT_AGAIN, Happening::FromStore(answered));
            }
            return;
        }
        let Answered { to, number, heard, .. } = answered;
        self.input(to.machine, Input::StoreSays(number, heard));
    }

    /// The store that answered dies, and all that are connected with it notice.
    pub(super) fn store_dies(&mut self) {
        if let Some(server) = self.store.answers.take() {
            self.server_dies(server);
        }
    }

    fn server_dies(&mut self, server: usize) {
        self.store.servers[server].lives = false;
        let linked: Vec<u8> =
            self.store.links.iter().filter(|(_, link)| link.server == server).map(|(machine, _)| *machine).collect();
        for machine in linked {
            self.store.links.remove(&machine);
            let after = self.takes();
            let life = self.machine(machine).life;
            let who = Address { machine, life };
            self.plan_after(after, Happening::GoOn(who, Input::Store(None)));
            let again = self.store.chance.millis(DIAL_AGAIN_MILLIS.0, DIAL_AGAIN_MILLIS.1);
            self.plan_after(again, Happening::Dial(who));
        }
    }

    /// It starts anew. An operator who knows that it lacks nothing, and never did, says so.
    pub(super) fn store_starts(&mut self, fault: usize, has: Has) {
        if self.store.is_up() {
            return;
        }
        let life = life(&mut self.store.chance, None);
        let last = &self.store.servers[self.store.servers.len() - 1].server;
        let server = match has {
            Has::Nothing => Server::empty(life),
            Has::AllBut(lost) => Server::behind(last, self.now.saturating_sub(lost), life),
            Has::All => Server::behind(last, self.now, life),
        };
        self.store.was_behind |= matches!(has, Has::AllBut(_));
        self.store_is(server);
        if has == Has::All && !self.store.was_behind {
            self.engage(fault, Command::Trust { incarnation: life });
        }
    }

    fn store_is(&mut self, server: Server) {
        self.store.servers.push(Running { server, lives: true, busy_until: Moment::ZERO });
        self.store.answers = Some(self.store.servers.len() - 1);
        self.count("lives of the store");
    }

    /// A replica that was so far behind takes its place. Whoever is connected with the one before hears so, or `lingers`: goes
    /// on talking to it.
    pub(super) fn store_fails_over(&mut self, lost: Span, lingers: bool) {
        let Some(before) = self.store.answers else { return };
        let life = life(&mut self.store.chance, None);
        let server = Server::behind(&self.store.servers[before].server, self.now.saturating_sub(lost), life);
        self.store.was_behind = true;
        self.store_is(server);
        if !lingers {
            self.server_dies(before);
        }
    }

    /// The process that was first has its place back, as a replica of the other that was so far behind: its run is the same,
    /// and its history is not.
    pub(super) fn store_fails_back(&mut self, lost: Span) {
        let Some(before) = self.store.answers.filter(|before| *before > 0) else {
            return self.those_that_linger_are_gone();
        };
        let run = self.store.servers[before - 1].server.life.run;
        let life = life(&mut self.store.chance, Some(run));
        let server = Server::behind(&self.store.servers[before].server, self.now.saturating_sub(lost), life);
        self.store.was_behind = true;
        self.store_is(server);
        self.server_dies(before);
        self.those_that_linger_are_gone();
    }

    /// Processes of the store that nobody answers for any more, and that some are still connected with.
    pub(super) fn those_that_linger_are_gone(&mut self) {
        for server in 0..self.store.servers.len() {
            if self.store.servers[server].lives && self.store.answers != Some(server) {
                self.server_dies(server);
            }
        }
    }

    pub(super) fn store_is_flushed(&mut self) {
        let now = self.now;
        if let Some(answers) = self.store.answers {
            let server = &mut self.store.servers[answers].server;
            let life = server.life;
            server.flush(now);
            self.trace(Event::Flushed { life });
        }
    }
}
