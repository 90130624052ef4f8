//! This process's part in the log. A copy of a machine has none: two voters of one name would break what the log rests on.
//! It follows what its original applied, and is never confirmed.

use std::collections::VecDeque;

use limits::Moment;

use crate::world::consensus::{Ask, Committed, Consensus, Disk, Leadership, Message, NotAsked, Outcome};
use crate::world::packet::Entry;

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly every log is the large one")]
pub(super) enum Log {
    Voter(Consensus<Entry>),
    Copy { believes: Leadership, followed: VecDeque<(u64, Option<Entry>)>, applied: u64 },
}

impl Log {
    pub(super) fn start(me: u8, nodes: u8, disk: Disk<Entry>, seed: u64, now: Moment) -> Log {
        Log::Voter(Consensus::new(me, nodes, disk, seed, now))
    }

    pub(super) fn copied(&self) -> Log {
        let mut believes = self.leadership();
        believes.is_me = false;
        Log::Copy { believes, followed: VecDeque::new(), applied: 0 }
    }

    pub(super) fn into_disk(self) -> Option<Disk<Entry>> {
        match self {
            Log::Voter(consensus) => Some(consensus.into_disk()),
            Log::Copy { .. } => None,
        }
    }

    pub(super) fn handle_message(&mut self, message: Message<Entry>, now: Moment) {
        match self {
            Log::Voter(consensus) => consensus.handle_message(message, now),
            Log::Copy { .. } => {}
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        match self {
            Log::Voter(consensus) if consensus.poll_timeout().is_some_and(|at| at <= now) => {
                consensus.handle_timeout(now)
            }
            Log::Voter(_) | Log::Copy { .. } => {}
        }
    }

    pub(super) fn handle_disk(&mut self, stuck: bool, now: Moment) {
        match self {
            Log::Voter(consensus) => consensus.handle_disk(stuck, now),
            Log::Copy { .. } => {}
        }
    }

    /// Of a copy: what its original applied.
    pub(super) fn follow(&mut self, index: u64, entry: Option<Entry>) {
        match self {
            Log::Copy { followed, .. } => followed.push_back((index, entry)),
            Log::Voter(_) => {}
        }
    }

    /// Of a copy: whom its original believes to lead. Never itself, since nobody follows it.
    pub(super) fn believe(&mut self, leadership: Leadership) {
        match self {
            Log::Copy { believes, .. } => *believes = Leadership { is_me: false, ..leadership },
            Log::Voter(_) => {}
        }
    }

    pub(super) fn propose(&mut self, entry: Entry, now: Moment) -> Result<Ask, NotAsked> {
        match self {
            Log::Voter(consensus) => consensus.propose(entry, now),
            Log::Copy { believes, .. } => Err(NotAsked::NotLeader { leader: believes.leader }),
        }
    }

    pub(super) fn confirm(&mut self, now: Moment) -> Result<Ask, NotAsked> {
        match self {
            Log::Voter(consensus) => consensus.confirm(now),
            Log::Copy { believes, .. } => Err(NotAsked::NotLeader { leader: believes.leader }),
        }
    }

    pub(super) fn poll_committed(&mut self) -> Option<Committed<Entry>> {
        match self {
            Log::Voter(consensus) => consensus.poll_committed(),
            Log::Copy { followed, applied, .. } => loop {
                let (index, payload) = followed.pop_front()?;
                if index > *applied {
                    *applied = index;
                    return Some(Committed { index, term: 0, payload, answers: None });
                }
            },
        }
    }

    pub(super) fn poll_outcome(&mut self) -> Option<Outcome> {
        match self {
            Log::Voter(consensus) => consensus.poll_outcome(),
            Log::Copy { .. } => None,
        }
    }

    pub(super) fn poll_message(&mut self) -> Option<Message<Entry>> {
        match self {
            Log::Voter(consensus) => consensus.poll_message(),
            Log::Copy { .. } => None,
        }
    }

    pub(super) fn leadership(&self) -> Leadership {
        match self {
            Log::Voter(consensus) => consensus.leadership(),
            Log::Copy { believes, .. } => *believes,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        match self {
            Log::Voter(consensus) => consensus.has_begun(),
            Log::Copy { .. } => false,
        }
    }

    pub(super) fn is_confirming(&self) -> bool {
        match self {
            Log::Voter(consensus) => consensus.is_confirming(),
            Log::Copy { .. } => false,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        match self {
            Log::Voter(consensus) => consensus.poll_timeout(),
            Log::Copy { .. } => None,
        }
    }
}
