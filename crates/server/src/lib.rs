//! The front doors of a node: JSON over HTTP and gRPC for callers on one port, the admin API for operators on another.
//! They decode, ask the node, and tell its decision; no rule of limits or ownership lives here.

pub mod admin;
pub mod body;
pub mod check;
pub mod code;
pub mod grpc;
pub mod headers;
pub mod json;
pub mod meter;
pub mod metrics;
mod serve;
mod time;

pub use serve::{BODY_BYTES_MAX, Sockets, serve};
