//! What is kept of partitions in Redis, so that a successor of a dead owner knows what was used: the only crate that talks to
//! it. It connects, asks and hands over what came back; what an answer means is decided elsewhere.
//!
//! A [`Store`] is opened once and never waits for Redis. A task of its own keeps one connection up, looks twice a second
//! whether the server is still the one it was, and tells its [`Standing`]. While there is none, every call answers
//! [`StoreError::Away`] at once. An answer that does not come is [`StoreError::Unknown`]: what was asked may have happened, or
//! may happen yet, and the scripts are made so that this does no harm.
//!
//! **Layout.** A partition is one hash, `ringfence:<cluster>:<uuid>:p:<partition>`. Its header are the fields `f` (format),
//! `e` (epoch), `s` (session), `q` (number of the last write, or the one it was claimed under), `n` (how many keys), `c` (1 if
//! whole), from the first write on `a` (how long it was since the worst had been assumed of keys that nothing was known of, in
//! nanoseconds; empty if it had not) and, from a claim until the next write, `pe`, `ps`, `pn`, `pc` (the header before). Every
//! other field is a key: its name `k`, limit and fingerprint, its value as [`wire::store`] writes it. `ringfence:<cluster>` is
//! a hash of `uuid` and `previous`: which cluster of that name lives, and which lived before. Nothing expires.
//!
//! **Scripts.** All writing is done by three scripts, each in one piece. `claim` puts a partition into the name of a new
//! keeper and tells what was there; `rewrite` writes all keys anew, if the header still names exactly the writer, and `write`
//! sets keys, if the record is whole besides: the first write after a claim is a `rewrite`. A late copy of either is refused by
//! its number. A flush makes Redis forget that number, so only `claim` makes a header, and it brings the number of its keeper's
//! last write along: whatever was flushed stays lost until its keeper claims it again and says all of it anew, and no write
//! from before can bring it back.
//!
//! **What is asked of Redis.** One server, 7.0 or later, no cluster and no sentinel, a primary, with
//! `maxmemory-policy noeviction`. The permissions that it takes, and the line that grants them, are [`ACL_LINE`]; all of it is
//! told for operators in `docs/redis.md`.

mod answer;
mod config;
mod dial;
mod error;
mod examine;
mod link;
mod names;
mod scripts;
mod shared;
mod standing;
mod tally;
mod upkeep;

mod store;

pub use config::{BadConfig, BadUrl, CLUSTER_NAME_MAX, RedisUrl, StoreConfig};
pub use error::StoreError;
pub use examine::VERSION_MIN;
pub use link::TIMEOUTS_MAX;
pub use scripts::ACL_LINE;
pub use shared::IN_FLIGHT_MAX;
pub use standing::Standing;
pub use store::{CALL_BYTES_MAX, KEYS_MAX, NUMBER_MAX, Store};
pub use tally::{Op, Outcome, Tally};
pub use upkeep::{BACKOFF_MAX, BACKOFF_MIN, HEARTBEAT_EVERY, HEARTBEAT_TIMEOUT};
