//! The path between an ingress and an owner on another node: batches of checks on streams, answers on the way back.

mod circuit;
mod link;
mod links;
mod service;
mod tally;

pub use link::Unreachable;
pub use links::Links;
pub use service::PeerService;
