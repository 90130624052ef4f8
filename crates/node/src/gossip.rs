//! gossip
