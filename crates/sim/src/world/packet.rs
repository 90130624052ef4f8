//! What travels between nodes, and what comes in at one: messages, the thread's own turns, and what an operator or a caller
//! wants. A call names its caller's process, so that an answer never reaches the one that started after it.

use std::sync::Arc;

use control::{Applied, Command, Refusal};
use limits::{Moment, Span};
use ownership::ingress::Delivery;
use ownership::kept::Incarnation;
use ownership::lease::{Ack, Refused, Renewal};
use ownership::{Answer, Asker, Check, CheckId, CheckLeg, Epoch, SessionId};
use ring::PartitionId;

use super::consensus::{Leadership, Message};
use super::store::Heard;
use super::trace::LegSeen;

/// An entry of the log.
pub(crate) type Entry = Arc<Command>;

/// One process of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// The machine.
    pub(crate) machine: u8,
    /// Which of its processes; the first is 1.
    pub(crate) life: u64,
}

/// A call that waits for an answer; unique within its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call(pub(crate) u64);

/// What one node sends to another.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// Of the log.
    Log(Message<Entry>),
    /// A renewal to whoever leads.
    Renew(Call, Renewal),
    /// What came of it.
    Renewed(Call, Result<Ack, NotRenewed>),
    /// A command to be proposed by whoever leads.
    Propose(Call, Entry),
    /// What came of it.
    Proposed(Call, Result<Applied, NotProposed>),
    /// A check, to whoever owns its partition.
    Check(Call, PartitionId, Box<Check>),
    /// Its answer.
    Answer(Call, Box<Reply>),
    /// What became of a check, to the owner that was asked.
    Tell(PartitionId, Telling),
}

/// What an owner is told of a check; nobody answers.
#[derive(Clone, Debug)]
pub(crate) enum Telling {
    Cancel(CheckId, Asker),
    Trim(CheckId, Asker, u64),
    Debt(CheckId, Asker, Vec<CheckLeg>),
}

/// An owner's answer with what proves it.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) epoch: Epoch,
    pub(crate) answer: Answer,
    /// The session in whose name it was decided, and the legs as they were; for the trace alone.
    pub(crate) session: Option<SessionId>,
    pub(crate) legs: Vec<LegSeen>,
}

/// Why a renewal was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRenewed {
    NotLeader,
    Refused(Refused),
    Dropped,
}

/// Why a command has no known outcome, or did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotProposed {
    Refused(Refusal),
    NoLeader,
    Undecided,
}

/// What comes in at a process.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// Time has come.
    Wake,
    /// A packet.
    Packet(Address, Packet),
    /// A call has come to nothing.
    Failed(Call, Delivery),
    /// All connections with that machine are gone.
    Broken(u8),
    /// A caller's question.
    Put(Put),
    /// A thread of this process goes on where it was kept waiting.
    GoOn(Waited),
    /// Gossip says that this node is dead.
    Suspect(u8),
    /// The operator of this number wants this in the log.
    Operate(usize, Entry),
    /// The process is asked to leave.
    Leave,
    /// The disk is stuck, or is not any more.
    Disk(bool),
    /// Of a copy: what its original applied, and whom that believes to lead.
    Follow(u64, Option<Entry>),
    /// Of a copy: whom its original believes to lead.
    Believe(Leadership),
    /// The store is connected, in this life, or is not any more.
    Store(Option<Incarnation>),
    /// It answers what was asked under this number.
    StoreSays(u64, Heard),
}

/// A question as it is put to an ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    /// The scenario's ask.
    pub(crate) ask: usize,
    /// For the how-manieth time it is put to anyone, from 0.
    pub(crate) nth: u8,
    pub(crate) id: CheckId,
    pub(crate) attempt: u8,
    pub(crate) budget: Span,
}

/// Where a thread was kept waiting: at a gate that another held, or on its way back from it.
#[derive(Clone, Debug)]
pub(crate) enum Waited {
    /// Before the gate, with a reading of the clock from before the wait.
    Gate(Moment, Asked, PartitionId, Box<Check>),
    /// Behind it, with the answer in hand.
    Back(Asked, Box<Reply>),
}

/// Who asked an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// A question of this very process: its number, its group, and which attempt.
    Here(u64, u8, u8),
    /// Another process.
    There(Address, Call),
}
