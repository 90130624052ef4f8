//! The simulator: a whole cluster in one thread, made of the machines that real nodes run, under one seeded scheduler.
//! Real time, the network, disks and processes are the world's; what the nodes know of them comes through their own
//! clocks and through messages that can be lost. The same seed tells the same story, byte for byte.

mod breaking;
mod callers;
pub mod consensus;
mod course;
mod kind;
mod layers;
mod machine;
pub mod making;
mod network;
mod node;
mod operators;
mod packet;
mod phase;
mod phases;
mod play;
mod run;
mod scenario;
mod schedule;
mod script;
mod store;
pub mod trace;
mod transport;
mod words;

pub use callers::CALLER_SLACK;
pub use course::{Course, FROZEN_PPM};
pub use kind::{FaultKind, RESTART_MAX};
pub use phase::Phase;
pub use play::play;
pub use run::Run;
pub use scenario::{
    Ask, ClockSpec, Fault, Has, NODES_MAX, NODES_MIN, Planned, Scenario, StoreFault, Weather, When, Who,
};
