//! Who lives. A session opens once and ends once, by release or by expiry, and never returns; a node has at most one,
//! and so has a name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ownership::SessionId;
use ownership::kept::Incarnation;
use ring::NodeId;

use crate::command::{Addresses, NodeSpec};
use crate::genesis::{Genesis, NAME_MAX};
use crate::refusal::Refusal;

/// How many sessions can live at once. One more is refused with [`Refusal::TooManySessions`].
pub const SESSIONS_MAX: usize = 128;

/// How many ended sessions are remembered; beyond it the oldest by which nobody lends is forgotten, and if there is none, the
/// oldest. They are what refuses a late copy of an
/// `OpenSession`. A copy that came after its session was forgotten would open a session that no process lives, which
/// expires unused.
pub const SESSIONS_REMEMBERED: usize = 256;

/// All sessions that live, and the last that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// The live ones.
    pub live: BTreeMap<SessionId, LiveSession>,
    /// Ended ones, the oldest first; at most [`SESSIONS_REMEMBERED`].
    pub ended: VecDeque<EndedSession>,
    /// Among how many nodes an emergency budget is shared: rises with a session before that session can lend, falls by
    /// command only. Never below [`Sessions::lending`].
    pub n_max: u32,
    /// How many ended sessions were forgotten whose node may still lend.
    pub forgotten_lenders: u32,
}

/// A session that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSession {
    /// Its node.
    pub node: NodeSpec,
    /// The log index at which it opened.
    pub opened_at: u64,
    /// Where its records count.
    pub kept: KeptIn,
}

/// Where the records of a session count, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptIn {
    /// The number of its last word; 0 before the first.
    pub number: u64,
    /// In which life of the store; `None` while nowhere.
    pub store: Option<Incarnation>,
}

/// A session that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Which.
    pub session: SessionId,
    /// Its node's name.
    pub name: String,
    /// The log index at which it opened.
    pub opened_at: u64,
    /// The log index at which it ended.
    pub ended_at: u64,
    /// How.
    pub ending: Ending,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its lease ran out.
    Expired,
    /// Its node sealed everything and left.
    Released,
}

impl Sessions {
    /// Whether `session` lives.
    pub fn lives(&self, session: SessionId) -> bool {
        self.live.contains_key(&session)
    }

    /// The live session of a node.
    pub fn of_node(&self, node: NodeId) -> Option<(SessionId, &LiveSession)> {
        self.live.iter().find(|(session, _)| session.node == node).map(|(&session, live)| (session, live))
    }

    /// The live session under a name.
    pub fn of_name(&self, name: &str) -> Option<(SessionId, &LiveSession)> {
        self.live.iter().find(|(_, live)| live.node.name == name).map(|(&session, live)| (session, live))
    }

    /// The number of live sessions, at most [`SESSIONS_MAX`].
    pub fn live_count(&self) -> u32 {
        self.live.len() as u32
    }

    /// The nodes whose last session expired, and that opened none since. Such a node may be cut off, not know that its
    /// session is over, and go on lending from its emergency share for as long as nobody reaches it. One that released its
    /// session, or opened a later one, has given up lending under the earlier before it said so.
    pub fn lenders(&self) -> BTreeSet<NodeId> {
        let mut lenders = BTreeSet::new();
        for EndedSession { session, ending, .. } in &self.ended {
            match ending {
                Ending::Expired => lenders.insert(session.node),
                Ending::Released => lenders.remove(&session.node),
            };
        }
        lenders.retain(|node| self.of_node(*node).is_none());
        lenders
    }

    /// The [`lenders`](Sessions::lenders), if all of them are known: `None` once one was forgotten, since nobody can know any
    /// more by what such a node divides.
    pub fn lenders_known(&self) -> Option<BTreeSet<NodeId>> {
        (self.forgotten_lenders == 0).then(|| self.lenders())
    }

    /// How many sessions may lend from emergency shares: those that live, and the last ones of [`Sessions::lenders`].
    pub fn lending(&self) -> u32 {
        let ended = self.lenders().len() as u32;
        self.live_count().saturating_add(ended).saturating_add(self.forgotten_lenders)
    }

    /// Opens a session. `Ok(false)` when it lives already just so: a proposer that heard no answer asks again.
    ///
    /// A node whose earlier session lives is refused even when the new one is plainly a restart of the same process:
    /// only the end of a lease proves that nobody decides under it any more (S7), and the wait is one TTL at most.
    pub(crate) fn open(
        &mut self,
        index: u64,
        session: SessionId,
        node: &NodeSpec,
        genesis: &Genesis,
    ) -> Result<bool, Refusal> {
        check_spec(session, node, genesis)?;
        if let Some((lives, live)) = self.of_node(session.node) {
            let again = lives == session && live.node == *node;
            return if again { Ok(false) } else { Err(Refusal::AlreadyLive { session: lives }) };
        }
        if let Some((_, holder)) = self.of_name(&node.name) {
            return Err(Refusal::NameInUse { name: node.name.clone(), held_by: holder.node.addresses.peer.clone() });
        }
        if self.has_ended(session) {
            return Err(Refusal::SessionEnded);
        }
        if self.live.len() >= SESSIONS_MAX {
            return Err(Refusal::TooManySessions);
        }
        self.live.insert(session, LiveSession { node: node.clone(), opened_at: index, kept: KeptIn::default() });
        self.n_max = self.n_max.max(self.lending());
        Ok(true)
    }

    /// S5: a process counts its sessions upwards, so whatever is not above one that ended is gone too.
    fn has_ended(&self, session: SessionId) -> bool {
        self.ended.iter().any(|ended| {
            ended.session.node == session.node
                && ended.session.nonce == session.nonce
                && ended.session.counter >= session.counter
        })
    }

    /// Takes a session's word on where its records count. Returns where they did, if that has changed.
    pub(crate) fn keep(&mut self, session: SessionId, kept: KeptIn) -> Result<Option<Option<Incarnation>>, Refusal> {
        let live = self.live.get_mut(&session).ok_or(Refusal::NotLive { session })?;
        if kept.number <= live.kept.number {
            return Err(Refusal::StoreOutdated { taken: live.kept.number });
        }
        let before = std::mem::replace(&mut live.kept, kept);
        Ok((before.store != kept.store).then_some(before.store))
    }

    /// Ends a session that lives.
    pub(crate) fn end(&mut self, index: u64, session: SessionId, ending: Ending) -> EndedSession {
        let live = self.live.remove(&session).expect("only sessions that were found to live are ended");
        let ended = EndedSession { session, name: live.node.name, opened_at: live.opened_at, ended_at: index, ending };
        self.ended.push_back(ended.clone());
        if self.ended.len() > SESSIONS_REMEMBERED {
            self.forget_oldest();
        }
        ended
    }

    /// The oldest of those whose node lends nothing, or has said something since; if there is none, the oldest of all, whose
    /// node may lend all the same.
    fn forget_oldest(&mut self) {
        let (mut lenders, mut says_nothing) = (self.lenders(), None);
        for (place, ended) in self.ended.iter().enumerate().rev() {
            // The last session of a lender is what makes it one.
            if !lenders.remove(&ended.session.node) {
                says_nothing = Some(place);
            }
        }
        match says_nothing {
            Some(place) => drop(self.ended.remove(place)),
            None => {
                self.ended.pop_front();
                self.forgotten_lenders = self.forgotten_lenders.saturating_add(1);
            }
        }
    }

    /// What every history keeps: one session per node and name, each under its node's id, and no more than may live.
    pub(crate) fn are_consistent(&self) -> bool {
        let nodes: BTreeSet<NodeId> = self.live.keys().map(|session| session.node).collect();
        let names: BTreeSet<&str> = self.live.values().map(|live| live.node.name.as_str()).collect();
        let ids_match = self.live.iter().all(|(session, live)| session.node == live.node.id);
        ids_match
            && nodes.len() == self.live.len()
            && names.len() == self.live.len()
            && self.live.len() <= SESSIONS_MAX
            && self.ended.len() <= SESSIONS_REMEMBERED
            && self.n_max >= self.lending()
    }

    pub(crate) fn lower_n_max(&mut self, to: u32) -> Result<(), Refusal> {
        if to >= self.n_max || to < self.lending() || to == 0 {
            return Err(Refusal::NMax { n_max: self.n_max, lending: self.lending() });
        }
        self.n_max = to;
        Ok(())
    }
}

fn check_spec(session: SessionId, node: &NodeSpec, genesis: &Genesis) -> Result<(), Refusal> {
    let Addresses { peer, api, admin } = &node.addresses;
    let texts_fit = [&node.name, peer, api, admin].iter().all(|text| (1..=NAME_MAX).contains(&text.len()));
    if session.node != node.id || !texts_fit {
        return Err(Refusal::BadNode);
    }
    if !node.versions.contains(genesis.cluster_version) {
        return Err(Refusal::VersionUnsupported { cluster_version: genesis.cluster_version });
    }
    Ok(())
}
