//! The Rust SDK of ringfence: ask any node of a cluster for decisions.
