//! What tests of the store begin with: servers, a proxy that misbehaves, records to keep, and waiting for what must come.

mod proxy;
mod server;

use std::num::NonZeroU64;
use std::time::Duration;

use limits::{Fingerprint, Form, LimitId, Span, Used};
use ownership::kept::{Incarnation, Keeper, KeptKey};
use ownership::{Epoch, SessionId, Write};
use ring::{NodeId, PartitionId};
use store::{Standing, Store, StoreConfig};

pub use proxy::Proxy;
pub use server::{Redis, free_port, program};

/// What must happen happens within this time, or not at all.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub const CLUSTER: &str = "prod";
pub const UUID: [u8; 16] = [0xab; 16];
pub const P: PartitionId = PartitionId(2_817);

pub fn config(url: &str) -> StoreConfig {
    StoreConfig::new(url.parse().unwrap(), CLUSTER)
}

/// A store at that URL.
pub fn open(url: &str) -> Store {
    Store::open(&config(url), UUID).unwrap()
}

/// A store at that port that can be asked.
pub async fn open_up(port: u16) -> Store {
    let store = open(&format!("redis://127.0.0.1:{port}"));
    up(&store).await;
    store
}

/// Waits until the store stands as `wanted` says, and returns what `wanted` made of it.
pub async fn until<T>(store: &Store, mut wanted: impl FnMut(&Standing) -> Option<T>) -> T {
    let mut standing = store.standing();
    let waiting = async {
        loop {
            if let Some(found) = wanted(&standing.borrow_and_update()) {
                return found;
            }
            standing.changed().await.unwrap();
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, waiting).await;
    outcome.unwrap_or_else(|_| panic!("the store stays {:?}", *store.standing().borrow()))
}

pub async fn up(store: &Store) -> Incarnation {
    until(store, |standing| match standing {
        Standing::Up { incarnation, .. } => Some(*incarnation),
        Standing::Connecting | Standing::Down { .. } | Standing::Refused { .. } => None,
    })
    .await
}

pub async fn down(store: &Store) -> String {
    until(store, |standing| match standing {
        Standing::Down { why, .. } => Some(why.clone()),
        Standing::Connecting | Standing::Up { .. } | Standing::Refused { .. } => None,
    })
    .await
}

pub async fn refused(store: &Store) -> String {
    until(store, |standing| match standing {
        Standing::Refused { why } => Some(why.clone()),
        Standing::Connecting | Standing::Up { .. } | Standing::Down { .. } => None,
    })
    .await
}

/// The name of a partition's hash.
pub fn partition_key(partition: PartitionId) -> String {
    format!("ringfence:{CLUSTER}:{}:p:{}", "ab".repeat(16), partition.0)
}

pub fn session(node: u64) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::new(node).unwrap()), nonce: 7, counter: 1 }
}

pub fn keeper(epoch: u64, node: u64) -> Keeper {
    Keeper { epoch: Epoch(epoch), session: session(node) }
}

/// The key of that number, used as much.
pub fn kept(number: u64, units: u64) -> KeptKey {
    let used = Used::Window { left: Span::from_secs(60), units };
    KeptKey { limit: LimitId(3), key: Fingerprint([number, 1]), form: Form(9), at: None, used, units, allowance: 10 }
}

/// A write of these keys.
pub fn adding(keeper: Keeper, seq: u64, keys: &[KeptKey]) -> Write {
    Write { keeper, seq, anew: false, assumed_full: None, keys: keys.to_vec() }
}

/// A rewrite with these keys.
pub fn anew(keeper: Keeper, seq: u64, keys: &[KeptKey]) -> Write {
    Write { anew: true, ..adding(keeper, seq, keys) }
}
