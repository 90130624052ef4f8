//! How packets get from one process to another: by the network's weather and cuts, to whichever machine answers under the
//! address, and back to the very process that called.

use limits::{Moment, Span};
use ownership::ingress::Delivery;

use super::network::{Fate, KEEPALIVE, Way};
use super::packet::{Address, Call, Input, Packet};
use super::play::{Happening, World};

/// How long a connection to a machine that says nothing is tried.
const OPEN_WITHIN: Span = Span::from_millis(500);

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
                self.held.push(Held { number, from, to, way, packet, sent });
                self.plan_after(KEEPALIVE, Happening::GivenUp(number));
            }
            Fate::Lost => self.swallow(&packet),
            Fate::Breaks => self.break_connection(from, to, packet, sent),
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
                Some(machine) => self.input(machine, Input::Packet(from, packet)),
                None => self.refuse(from, node, &packet, sent),
            },
        }
    }

    /// Nobody is there. A machine whose process died says so; one that is gone altogether says nothing.
    fn refuse(&mut self, from: Address, node: u8, packet: &Packet, sent: Moment) {
        let Some(call) = call_of(packet) else { return };
        let (died, loud) = self.machine(node).died.unwrap_or((Moment::ZERO, true));
        let delivery = if sent < died { Delivery::Lost } else { Delivery::NeverSent };
        let after = match (loud, delivery) {
            (true, _) => self.network.delay(),
            (false, Delivery::Lost) => KEEPALIVE,
            (false, Delivery::NeverSent) => OPEN_WITHIN,
        };
        self.plan_after(after, Happening::Fail(from, call, delivery));
    }

    /// A process died: all that are connected with it notice.
    pub(super) fn break_connections(&mut self, machine: u8, node: u8, loud: bool) {
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

    /// A connection was given up with what still waited on it.
    pub(super) fn give_up_held(&mut self, number: u64) {
        let Some(place) = self.held.iter().position(|held| held.number == number) else { return };
        let Held { from, to, packet, .. } = self.held.remove(place);
        self.swallow(&packet);
        let caller = match to {
            To::Node(_) => Some(from),
            To::Process(caller) => Some(caller),
        };
        let call = call_of(&packet).or(answer_of(&packet));
        if let (Some(caller), Some(call)) = (caller, call) {
            self.plan_after(Span::ZERO, Happening::Fail(caller, call, Delivery::Lost));
        }
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
