//! The map as the path of a check reads it: who owns a partition, looked up in an array. It is a picture of one map
//! version, made whole and never changed, so that readers share it behind one pointer. It tells an ingress whom to ask;
//! it is no authority to decide, which only a node's own applied state is.

use ring::PartitionId;

use crate::session::{Epoch, SessionId};

/// Who decides for a partition, and at which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The session that the map names.
    pub session: SessionId,
    /// The epoch at which it does.
    pub epoch: Epoch,
}

/// What is known of one partition: its newest epoch, and who has it, if anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// 0 for a partition that nobody was ever appointed to.
    pub epoch: Epoch,
    /// The session that the map names at that epoch.
    pub session: Option<SessionId>,
}

impl Route {
    /// Nothing is known.
    pub const UNKNOWN: Route = Route { epoch: Epoch(0), session: None };

    /// The owner, if the map names one.
    pub fn owner(&self) -> Option<Owner> {
        self.session.map(|session| Owner { session, epoch: self.epoch })
    }

    /// Whether this says something that `known` did not: a later epoch, or who has the same one.
    pub fn is_news_to(&self, known: &Route) -> bool {
        let names_the_owner = self.session.is_some() && known.session.is_none();
        self.epoch > known.epoch || (self.epoch == known.epoch && names_the_owner)
    }
}

/// One version of the map, for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    map_version: u64,
    routes: Box<[Route]>,
}

impl Routes {
    /// The map before the first one was applied: no partition has an owner.
    pub fn unknown() -> Routes {
        Routes { map_version: 0, routes: Box::default() }
    }

    /// Version `map_version` of the map, which names the route of each partition in order, from partition 0.
    pub fn new(map_version: u64, routes: impl IntoIterator<Item = Route>) -> Routes {
        Routes { map_version, routes: routes.into_iter().collect() }
    }

    /// Rises with each change of the map.
    pub const fn map_version(&self) -> u64 {
        self.map_version
    }

    /// What is known of a partition; nothing, for one that the map does not have.
    pub fn route_of(&self, partition: PartitionId) -> Route {
        self.routes.get(usize::from(partition.0)).copied().unwrap_or(Route::UNKNOWN)
    }

    /// Whom to ask.
    pub fn owner_of(&self, partition: PartitionId) -> Option<Owner> {
        self.route_of(partition).owner()
    }

    /// All partitions in order.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, Route)> {
        (0..=u16::MAX).map(PartitionId).zip(self.routes.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use ring::NodeId;

    use super::*;

    const SESSION: SessionId = SessionId { node: NodeId(NonZeroU64::MIN), nonce: 1, counter: 1 };

    #[test]
    fn an_owner_is_found_by_its_partition_and_a_vacant_or_foreign_one_has_none() {
        let held = Route { epoch: Epoch(4), session: Some(SESSION) };
        let routes = Routes::new(9, [Route { epoch: Epoch(2), session: None }, held]);
        assert_eq!(routes.owner_of(PartitionId(1)), Some(Owner { session: SESSION, epoch: Epoch(4) }));
        assert_eq!(routes.owner_of(PartitionId(0)), None);
        assert_eq!(routes.route_of(PartitionId(0)).epoch, Epoch(2));
        assert_eq!(routes.route_of(PartitionId(4_095)), Route::UNKNOWN);
        assert_eq!(routes.iter().last(), Some((PartitionId(1), held)));
    }

    #[test]
    fn a_later_epoch_is_news_and_so_is_the_owner_of_a_known_one() {
        let route = |epoch, session| Route { epoch: Epoch(epoch), session };
        assert!(route(3, None).is_news_to(&route(2, Some(SESSION))));
        assert!(route(2, Some(SESSION)).is_news_to(&route(2, None)));
        assert!(!route(2, Some(SESSION)).is_news_to(&route(2, Some(SESSION))));
        assert!(!route(1, Some(SESSION)).is_news_to(&route(2, None)));
    }

    #[test]
    fn a_whole_map_fits_into_a_corner_of_a_cache() {
        assert!(size_of::<Route>() <= 40, "{} bytes for one of 4,096", size_of::<Route>());
    }
}
