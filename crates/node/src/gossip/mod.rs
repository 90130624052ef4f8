//! Who seems to be there. [SWIM](https://www.cs.cornell.edu/projects/Quicksilver/public_pdfs/SWIM.pdf) with suspicion, by
//! foca, over authenticated UDP: [`Core`] decides and knows neither socket nor clock, [`start`] is the task that owns both.
//! What gossip says is a hint: it proposes members, addresses and the cluster's uuid; it appoints nobody.
//!
//! A datagram counts if it verifies with a secret in force, names this cluster, and carries this cluster's uuid or none
//! (or is read by a node that has none yet): see [`ClusterId::admits`](crate::cluster::ClusterId::admits). Replayed
//! datagrams of a life still running are not told from fresh ones; the peer network is taken to be private.

mod codec;
mod core;
mod counters;
mod frame;
mod identity;
mod task;
mod timers;
mod view;

pub use self::core::{Core, FORGET_DOWN_AFTER, SEED_ADDRESSES_MAX, Settings, Transmit};
pub use counters::Counters;
pub use frame::{DATAGRAM_MAX, Dropped};
pub use identity::{AddressError, Identity, Incarnation};
pub use task::{Config, EVENTS_KEPT, GossipHandle, start};
pub use view::{Event, Member, State, View, Who};
