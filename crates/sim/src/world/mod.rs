//! The simulator: a whole cluster in one thread, made of the machines that real nodes run, under one seeded scheduler.
//! Real time, the network, disks and processes are the world's; what the nodes know of them comes through their own
//! clocks and through messages that can be lost. The same seed tells the same story, byte for byte.

mod phase;
mod scenario;
pub mod trace;

pub use phase::Phase;
pub use scenario::{Ask, ClockSpec, Fault, NODES_MAX, NODES_MIN, Planned, Scenario, Weather, When, Who};
