//! The front doors of a node: JSON over HTTP and gRPC for callers on one port, the admin API for operators on another.
//! They decode, ask the node, and tell its decision; no rule of limits or ownership lives here.

mod access;
pub mod admin;
#[cfg(test)]
mod api_page;
pub mod asked;
pub mod body;
pub mod call;
pub mod check;
mod closing;
pub mod code;
mod door;
pub mod forward_auth;
pub mod front;
pub mod grpc;
pub mod headers;
pub mod json;
pub mod meter;
pub mod metrics;
mod opening;
mod serve;
mod time;

pub use access::{Access, Domains, NoSuchScope, Scope, Scopes, Shown, Token};
pub use closing::CLOSING_WITHIN;
pub use door::Door;
pub use forward_auth::{NETWORKS_MAX, Network, NotANetwork, Proxies};
pub use serve::{BODY_BYTES_MAX, Settings, Sockets, serve, serve_until};
