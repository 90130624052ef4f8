//! One node of a history: the partitions that it owns, its lease, its clock, and as an ingress its picture of the map and
//! its emergency limiter.

use std::num::NonZeroU64;

use limits::{Moment, Now, Span, WallTime};
use ring::NodeId;
use ringfence_ownership::{Emergency, Epoch, Floor, LeaseBound, Partition, Route, SessionId};

use crate::bug::Bug;
use crate::scene::{Loss, NODES, Scene};
use crate::used::WALL_MS;

/// How old an answer may be.
pub const D_MAX_MS: u64 = 200;

/// How long a lease lasts after the last renewal that got through.
pub const LEASE_MS: u64 = 600;

/// Clocks begin long before the history, each at another time: everything that a boot leaves uncertain has passed.
const BOOT_MS: u64 = 20_000_000;

pub struct Node {
    number: usize,
    pub partitions: Vec<Partition>,
    pub routes: Vec<Route>,
    pub emergency: Emergency,
    loss: Option<(u64, bool)>,
}

pub fn session(node: usize) -> SessionId {
    let id = NodeId(NonZeroU64::new(node as u64 + 1).expect("not zero"));
    SessionId { node: id, nonce: 0x5EED + node as u64, counter: 1 }
}

/// The node whose session this is.
pub fn node_of(session: SessionId) -> usize {
    session.node.0.get() as usize - 1
}

/// Who owns a partition when a history begins.
pub fn first_owner(partition: usize) -> usize {
    partition % NODES
}

impl Node {
    pub fn new(number: usize, scene: &Scene, bug: Bug) -> Node {
        let loss = scene.loss.as_ref().filter(|loss| loss.node == number);
        let loss = loss.map(|Loss { at, dead, .. }| (*at, *dead));
        let route = |partition| Route { epoch: Epoch(1), session: Some(session(first_owner(partition))) };
        let mut partitions: Vec<Partition> = (0..scene.partitions).map(|_| Partition::vacant()).collect();
        for (partition, place) in partitions.iter_mut().enumerate() {
            if first_owner(partition) == number {
                place.activate(Epoch(1), session(number), Floor::Fresh);
            }
        }
        let mut emergency = Emergency::new(Now::at(Moment::ZERO));
        emergency.handle_n_max(if bug == Bug::EmergencyUndivided { 1 } else { NODES as u32 }, Moment::ZERO);
        let routes = (0..scene.partitions).map(route).collect();
        Node { number, partitions, routes, emergency, loss }
    }

    /// What the node's clock says, and cluster time.
    pub fn clock(&self, now: u64) -> Now {
        let moment = Moment::from_nanos((BOOT_MS * (1 + self.number as u64) + now) * 1_000_000);
        Now::with_wall(moment, WallTime::from_unix_nanos((WALL_MS + now) * 1_000_000))
    }

    pub fn is_dead(&self, now: u64) -> bool {
        self.loss.is_some_and(|(at, dead)| dead && now >= at)
    }

    pub fn lease(&self, now: u64) -> LeaseBound {
        let renewed = self.loss.map_or(now, |(at, _)| at.min(now));
        let end = self.clock(renewed + LEASE_MS).moment;
        // How far an answer may travel, and what two clocks may differ meanwhile.
        LeaseBound { session: session(self.number), end, margin: Span::from_millis(D_MAX_MS * 103 / 100) }
    }
}
