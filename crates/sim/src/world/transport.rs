//! How packets get from one process to another: by the network's weather and cuts, to whichever machine answers under the
//! address, and back to the very process that called.
//!
//! Calls and checks need a connection. One opens with the first packet that arrives, and stands until its caller notices that it
//! is gone. What is sent while none stands and none can be opened never left, and its sender knows; what is lost on one that
//! stands may have arrived.

use std::collections::{BTreeMap, BTreeSet};

use limits::{Moment, Span};
use ownership::ingress::Delivery;

use super::machine::Machine;
use super::network::{Fate, KEEPALIVE, Way};
use super::packet::{Address, Call, Input, Packet};
use super::play::{Happening, World};

/// How long a connection to a machine that says nothing is tried.
const OPEN_WITHIN: Span = Span::from_millis(500);

/// How long after that no other attempt is made: what is to be sent meanwhile fails at once.
const OPEN_PAUSE: Span = Span::from_millis(100);

/// For whom a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Whoever answers for that node.
    Node(u8),
    /// That process, which called.
    Process(Address),
}

/// A packet that waits behind a cut.
#[derive(Debug)]
pub(super) struct Held {
    number: u64,
    from: Address,
    to: To,
    way: Way,
    packet: Packet,
    sent: Moment,
    /// Whether it waits for a connection, and so has not left.
    is_opening: bool,
}

/// Connections, by the machine from which they lead and the node to which they do.
#[derive(Debug, Default)]
pub(super) struct Connections {
    stand: BTreeSet<(u8, u8)>,
    /// Until when none is opened.
    pause: BTreeMap<(u8, u8), Moment>,
}

impl Connections {
    fn stands(&self, from: u8, to: u8) -> bool {
        self.stand.contains(&(from, to))
    }

    fn pauses(&self, from: u8, to: u8, now: Moment) -> bool {
        !self.stands(from, to) && self.pause.get(&(from, to)).is_some_and(|until| now < *until)
    }
}

impl World<'_> {
    pub(super) fn send_log(&mut self, from: Address, to: u8, packet: Packet) {
        self.send(from, To::Node(to), Way::Datagram, packet, self.now);
    }

    pub(super) fn send_call(&mut self, from: Address, to: To, packet: Packet) {
        // A call comes once; that matters where the log would take it twice.
        let may_double = match packet {
            Packet::Renew(..) | Packet::Renewed(..) | Packet::Proposed(..) => true,
            Packet::Propose(..) | Packet::Log(_) | Packet::Check(..) | Packet::Answer(..) | Packet::Tell(..) => false,
        };
        self.send(from, to, Way::Call { may_double }, packet, self.now);
    }

    pub(super) fn send_stream(&mut self, from: Address, to: To, packet: Packet) {
        // What brings checks is a stream, so each attempt comes once: an owner that could not decide the first copy (its log
        // was behind) might decide the second, and nobody would know. All else may as well come twice.
        let may_double = match &packet {
            Packet::Answer(..) | Packet::Tell(..) => true,
            Packet::Check(..)
            | Packet::Log(_)
            | Packet::Renew(..)
            | Packet::Renewed(..)
            | Packet::Propose(..)
            | Packet::Proposed(..) => false,
        };
        if let Packet::Tell(..) = packet {
            self.corrections += 1;
        }
        self.send(from, to, Way::Stream { may_double }, packet, self.now);
    }

    fn node_of(&self, to: To) -> u8 {
        match to {
            To::Node(node) => node,
            To::Process(Address { machine, .. }) => self.machines[usize::from(machine)].node_number,
        }
    }

    fn send(&mut self, from: Address, to: To, way: Way, packet: Packet, sent: Moment) {
        let (here, there) = (self.machines[usize::from(from.machine)].node_number, self.node_of(to));
        if let (To::Node(node), Way::Stream { .. }) = (to, way)
            && self.connections.pauses(from.machine, node, self.now)
        {
            return self.never_send(from, &packet);
        }
        match self.network.send(way, here, there, self.now) {
            Fate::Arrives(at, again) => {
                if let Some(again) = again {
                    if let Packet::Tell(..) = packet {
                        self.corrections += 1;
                    }
                    let packet = packet.clone();
                    self.schedule.plan(again, Happening::Arrive { from, to, packet, sent });
                }
                self.schedule.plan(at, Happening::Arrive { from, to, packet, sent });
            }
            Fate::Held => {
                self.held_so_far += 1;
                let number = self.held_so_far;
                let is_opening = matches!(to, To::Node(node) if !self.connections.stands(from.machine, node));
                self.held.push(Held { number, from, to, way, packet, sent, is_opening });
                let within = if is_opening { OPEN_WITHIN } else { KEEPALIVE };
                self.plan_after(within, Happening::GivenUp(number));
            }
            Fate::Lost => self.swallow(&packet),
            Fate::Breaks => self.break_connection(from, to, packet, sent),
        }
    }

    /// A packet never left, and its sender hears so.
    fn never_send(&mut self, from: Address, packet: &Packet) {
        self.swallow(packet);
        self.count("packets never sent");
        if let Some(call) = call_of(packet) {
            self.plan_after(Span::ZERO, Happening::Fail(from, call, Delivery::NeverSent));
        }
    }

    /// A correction that never arrives is no longer under way.
    fn swallow(&mut self, packet: &Packet) {
        if let Packet::Tell(..) = packet {
            self.corrections = self.corrections.saturating_sub(1);
        }
        self.count("packets lost");
    }

    /// The connection breaks. What was sent on it last may have arrived, or not.
    fn break_connection(&mut self, from: Address, to: To, packet: Packet, sent: Moment) {
        self.count("connections broken");
        let (here, there) = (self.machines[usize::from(from.machine)].node_number, self.node_of(to));
        let caller = match to {
            To::Node(_) => (from.machine, there),
            To::Process(Address { machine, .. }) => (machine, here),
        };
        if matches!(to, To::Node(_)) && self.chance.one_in(2) {
            let delay = self.network.delay();
            self.plan_after(delay, Happening::Arrive { from, to, packet, sent });
        } else {
            self.swallow(&packet);
        }
        let delay = self.network.delay();
        self.plan_after(delay, Happening::Broken(caller.0, caller.1));
    }

    pub(super) fn arrive(&mut self, from: Address, to: To, packet: Packet, sent: Moment) {
        if let Packet::Tell(..) = packet {
            self.corrections = self.corrections.saturating_sub(1);
        }
        match to {
            To::Process(Address { machine, life }) => {
                if self.machine(machine).life == life {
                    self.input(machine, Input::Packet(from, packet));
                }
            }
            To::Node(node) => match self.behind(node) {
                Some(machine) => {
                    self.connect(from, node, &packet);
                    self.input(machine, Input::Packet(from, packet));
                }
                None => self.refuse(from, node, &packet, sent),
            },
        }
    }

    /// A machine that answers under a node's address and on which a process runs or stands still, by lot where there are two.
    pub(super) fn behind(&mut self, node: u8) -> Option<u8> {
        let is_up = |machine: &Machine| machine.node_number == node && machine.node.is_some();
        let mut up = (0..).zip(&self.machines).filter(|(_, machine)| is_up(machine)).map(|(number, _)| number);
        let (first, second) = (up.next(), up.next());
        if second.is_some() && self.chance.one_in(2) { second } else { first }
    }

    /// What arrived came on a connection, but for what the log says.
    fn connect(&mut self, from: Address, node: u8, packet: &Packet) {
        if !matches!(packet, Packet::Log(_)) && self.machine(from.machine).life == from.life {
            self.connections.stand.insert((from.machine, node));
        }
    }

    /// A machine notices that its connection with a node is gone.
    pub(super) fn notice_broken(&mut self, machine: u8, node: u8) {
        self.connections.stand.remove(&(machine, node));
        self.input(machine, Input::Broken(node));
    }

    /// Nobody is there. A machine whose process died says so; one that is gone altogether says nothing. On a connection that
    /// stood when its process died, it may have come before that, as far as its sender knows.
    fn refuse(&mut self, from: Address, node: u8, packet: &Packet, sent: Moment) {
        let Some(call) = call_of(packet) else { return };
        let (died, loud) = self.machine(node).died.unwrap_or((Moment::ZERO, true));
        let stands = self.connections.stands(from.machine, node);
        let delivery = if sent < died || stands { Delivery::Lost } else { Delivery::NeverSent };
        let after = match (loud, delivery) {
            (true, _) => self.network.delay(),
            (false, Delivery::Lost) => KEEPALIVE,
            (false, Delivery::NeverSent) => OPEN_WITHIN,
        };
        self.plan_after(after, Happening::Fail(from, call, delivery));
    }

    /// A process died, and with it its own connections: all that are connected with it notice.
    pub(super) fn break_connections(&mut self, machine: u8, node: u8, loud: bool) {
        self.connections.stand.retain(|(from, _)| *from != machine);
        self.connections.pause.retain(|(from, _), _| *from != machine);
        for other in 0..self.machines.len() as u8 {
            let number = self.machine(other).node_number;
            if other == machine {
                continue;
            }
            let hears = loud && !self.network.is_cut(node, number);
            let after = if hears { self.network.delay() } else { KEEPALIVE };
            self.plan_after(after, Happening::Broken(other, node));
        }
    }

    /// A cut has ended: what waited behind it goes on.
    pub(super) fn release_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        for packet in held {
            let (here, there) = (self.machines[usize::from(packet.from.machine)].node_number, self.node_of(packet.to));
            if self.network.is_cut(here, there) {
                self.held.push(packet);
            } else {
                let Held { from, to, way, packet, sent, .. } = packet;
                self.send(from, to, way, packet, sent);
            }
        }
    }

    /// A connection was given up with what still waited on it, or could not be opened for what waits for that.
    pub(super) fn give_up_held(&mut self, number: u64) {
        let Some(place) = self.held.iter().position(|held| held.number == number) else { return };
        if let Held { from, to: To::Node(node), is_opening: true, .. } = self.held[place] {
            return self.give_up_opening(from.machine, node);
        }
        let Held { from, to, packet, .. } = self.held.remove(place);
        self.swallow(&packet);
        let (caller, node) = match to {
            To::Node(node) => (from, node),
            To::Process(caller) => (caller, self.machine(from.machine).node_number),
        };
        self.connections.stand.remove(&(caller.machine, node));
        if let Some(call) = call_of(&packet).or(answer_of(&packet)) {
            self.plan_after(Span::ZERO, Happening::Fail(caller, call, Delivery::Lost));
        }
    }

    /// No connection could be opened: all that waits for one fails at once, and so does what comes in a while.
    fn give_up_opening(&mut self, machine: u8, node: u8) {
        self.connections.pause.insert((machine, node), self.now.saturating_add(OPEN_PAUSE));
        let waits = |held: &Held| held.is_opening && held.from.machine == machine && held.to == To::Node(node);
        let (waiting, held): (Vec<Held>, Vec<Held>) = std::mem::take(&mut self.held).into_iter().partition(waits);
        self.held = held;
        waiting.iter().for_each(|held| self.never_send(held.from, &held.packet));
    }
}

const fn call_of(packet: &Packet) -> Option<Call> {
    match packet {
        Packet::Renew(call, _) | Packet::Propose(call, _) | Packet::Check(call, _, _) => Some(*call),
        Packet::Log(_) | Packet::Renewed(..) | Packet::Proposed(..) | Packet::Answer(..) | Packet::Tell(..) => None,
    }
}

const fn answer_of(packet: &Packet) -> Option<Call> {
    match packet {
        Packet::Renewed(call, _) | Packet::Proposed(call, _) | Packet::Answer(call, _) => Some(*call),
        Packet::Log(_) | Packet::Renew(..) | Packet::Propose(..) | Packet::Check(..) | Packet::Tell(..) => None,
    }
}
