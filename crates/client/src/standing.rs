//! How one node stands with this client. Its link writes it down; checks read it to choose whom to ask, without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::asking::Standing;
use crate::error::Trouble;

/// What a client knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStanding {
    /// The node's address, as the client was told it.
    pub address: Arc<str>,
    /// How it stands.
    pub state: NodeState,
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The client connects for the first time; checks may wait for that.
    Connecting,
    /// A stream is open.
    Reachable,
    /// It failed, and is tried again from time to time; checks go elsewhere meanwhile.
    Unreachable(Trouble),
    /// It answers, and does not accept the client's token.
    Refusing,
}

/// One node's standing, shared by its link and all checks.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) address: Arc<str>,
    /// 0 while the node may be asked, else when it is tried again: nanoseconds since `epoch`, never 0.
    next_try: AtomicU64,
    state: Mutex<NodeState>,
    epoch: Instant,
    changes: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new(address: Arc<str>, epoch: Instant, changes: watch::Sender<()>) -> Shared {
        Shared { address, next_try: AtomicU64::new(0), state: Mutex::new(NodeState::Connecting), epoch, changes }
    }

    /// For choosing whom to ask.
    pub(crate) fn standing(&self) -> Standing {
        match self.next_try.load(Ordering::Acquire) {
            0 => Standing::Usable,
            nanos => Standing::Down { next_try: self.epoch + Duration::from_nanos(nanos) },
        }
    }

    /// What went wrong, if the node is unreachable.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        match &*self.state.lock() {
            NodeState::Unreachable(trouble) => Some(trouble.clone()),
            NodeState::Connecting | NodeState::Reachable | NodeState::Refusing => None,
        }
    }

    pub(crate) fn told(&self) -> NodeStanding {
        NodeStanding { address: Arc::clone(&self.address), state: self.state.lock().clone() }
    }

    /// A stream is open.
    pub(crate) fn is_reachable(&self) {
        self.change(NodeState::Reachable, 0);
    }

    /// It answers, but not to this caller: checks still go to it, and are told so.
    pub(crate) fn is_refusing(&self) {
        self.change(NodeState::Refusing, 0);
    }

    /// It is left alone until then.
    pub(crate) fn is_unreachable(&self, trouble: Trouble, next_try: Instant) {
        let nanos = next_try.saturating_duration_since(self.epoch).as_nanos();
        self.change(NodeState::Unreachable(trouble), u64::try_from(nanos).unwrap_or(u64::MAX).max(1));
    }

    fn change(&self, state: NodeState, next_try: u64) {
        *self.state.lock() = state;
        self.next_try.store(next_try, Ordering::Release);
        self.changes.send_replace(());
    }
}
