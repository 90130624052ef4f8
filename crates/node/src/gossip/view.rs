//! What gossip believes of the other nodes: a hint, never an authority. The view is the truth of the matter here; events
//! are only its differences, for logs.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use ring::NodeId;

use super::frame::Dropped;
use super::identity::{Identity, Incarnation};
use crate::cluster::{ClusterUuid, NodeName};

/// How a member seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It answers.
    Alive,
    /// It did not answer; it is given time to object.
    Suspect,
    /// It did not object, or said that it leaves. Remembered for a while, then forgotten.
    Down,
}

impl State {
    /// The state as a word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Suspect => "suspect",
            State::Down => "down",
        }
    }

    /// Whether the member still counts as a member.
    pub const fn is_active(self) -> bool {
        match self {
            State::Alive | State::Suspect => true,
            State::Down => false,
        }
    }
}

/// Another node, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What people call it.
    pub name: NodeName,
    /// Where its peers reach it: gossip on UDP, RPC on TCP.
    pub peer: SocketAddr,
    /// Where clients reach it, if it says.
    pub api: Option<SocketAddr>,
    /// Which of its lives is meant.
    pub incarnation: Incarnation,
    /// How it seems to be.
    pub state: State,
    /// The cluster it belongs to, as it last said itself; `None` while it is blank, or has not spoken to this node yet.
    pub uuid: Option<ClusterUuid>,
    /// The newest map it has applied, as it last said itself; 0 while it has not spoken to this node yet.
    pub map_version: u64,
}

/// Everyone else that gossip knows of. A node is not in its own view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The members by id, those that are down included until they are forgotten.
    pub members: BTreeMap<NodeId, Member>,
    /// The cluster that someone was heard to belong to: how a blank node learns that founding is over. Once heard it
    /// stays; it is this node's own uuid as soon as it has one.
    pub uuid: Option<ClusterUuid>,
    /// The newest map version that anyone said it has applied. Never falls.
    pub map_version: u64,
}

impl View {
    /// The members that are not down.
    pub fn active(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().filter(|(_, member)| member.state.is_active()).map(|(id, member)| (*id, member))
    }
}

/// A change of what gossip believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `node_seen`: a node appeared, came back in a later life, or objected to a suspicion.
    Seen(Who),
    /// `node_suspected`: a node did not answer, neither directly nor through others.
    Suspected(Who),
    /// `node_gone`: a node is taken to be down, or left.
    Gone(Who),
    /// A datagram was dropped. At most one of these per reason and [`REPORT_EVERY`](crate::quiet::REPORT_EVERY); the counters
    /// count all.
    Refused {
        /// Who sent it.
        from: SocketAddr,
        /// Why.
        reason: Dropped,
    },
    /// The others had given this node up; it came back as this incarnation.
    Returned(Incarnation),
}

impl Event {
    /// The event as a word for logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Event::Seen(_) => "node_seen",
            Event::Suspected(_) => "node_suspected",
            Event::Gone(_) => "node_gone",
            Event::Refused { .. } => "gossip_refused",
            Event::Returned(_) => "node_returned",
        }
    }
}

/// Whom an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The node.
    pub id: NodeId,
    /// What people call it.
    pub name: NodeName,
    /// Where its peers reach it.
    pub peer: SocketAddr,
    /// Which of its lives is meant.
    pub incarnation: Incarnation,
}

/// Writes what foca knows into the view, tells what that changed, and says whether it changed anything.
pub(super) fn refresh(
    view: &mut BTreeMap<NodeId, Member>,
    known: &[(&Identity, State)],
    events: &mut VecDeque<Event>,
) -> bool {
    let mut changed = false;
    for (identity, state) in known {
        let before = view.get(&identity.id).map(|member| (member.incarnation, member.state));
        if before == Some((identity.incarnation, *state)) {
            continue;
        }
        changed = true;
        events.extend(difference(identity, before, *state));
        remember(view, identity, *state);
    }
    if view.len() > known.len() {
        changed = true;
        view.retain(|id, _| known.iter().any(|(identity, _)| identity.id == *id));
    }
    changed
}

/// A member in a new life has said nothing of itself yet.
fn remember(view: &mut BTreeMap<NodeId, Member>, identity: &Identity, state: State) {
    if let Some(member) = view.get_mut(&identity.id)
        && member.incarnation == identity.incarnation
    {
        member.state = state;
        return;
    }
    let member = Member {
        name: identity.name.clone(),
        peer: identity.peer,
        api: identity.api,
        incarnation: identity.incarnation,
        state,
        uuid: None,
        map_version: 0,
    };
    view.insert(identity.id, member);
}

fn difference(identity: &Identity, before: Option<(Incarnation, State)>, after: State) -> Option<Event> {
    let incarnation = identity.incarnation;
    let who = || Who { id: identity.id, name: identity.name.clone(), peer: identity.peer, incarnation };
    let was_active = before.is_some_and(|(_, state)| state.is_active());
    match after {
        State::Alive => Some(Event::Seen(who())),
        State::Suspect => Some(Event::Suspected(who())),
        State::Down => was_active.then(|| Event::Gone(who())),
    }
}
