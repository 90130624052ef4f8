//! One node: the shell around the pure machines. It owns the sockets, the clock and the tasks, hands the machines what
//! came in and carries out what they say; it decides nothing that they could.

pub mod admin;
mod aside;
mod binding;
mod brought;
mod chance;
mod clock;
mod clock_source;
pub mod cluster;
pub mod config;
mod control_service;
mod decision;
mod desk;
mod events;
mod founding;
pub mod gossip;
mod ingress;
pub mod keeping;
mod leader;
mod leave;
pub mod net;
mod node;
mod owner;
mod peer;
mod propose;
mod quiet;
pub mod raft;
mod refusals;
mod replica;
pub mod secret;
mod session;
#[cfg(feature = "simulated")]
pub mod simulated;
mod start;
mod tally;
#[cfg(feature = "test-clock")]
pub mod test_clock;
mod top;
pub mod transport;
mod views;
mod watch;

pub use binding::BINDING_WITHIN;
pub use brought::{BROUGHT_MAX, Brought};
pub use clock_source::{ClockSource, ClockTrust};
pub use decision::{AskedId, Checked, Decision, LegAnswer, NotPut, Question, Reason, Source, Wanted};
pub use events::{EVENTS_KEPT, SeenEvent};
pub use leave::Left;
pub use node::{Clocks, Node, StartError, VERSIONS};
pub use owner::{Holdings, StoreAges};
pub use propose::NotProposed;
pub use refusals::{Difference, Refused};
pub use tally::{LimitTally, Outcome, Tally};
pub use top::{GENERATION, Silent, TOP_WITHIN, TopKeys, TopLimit, TopQuestion};
pub use views::{KnownLimit, Policies};
