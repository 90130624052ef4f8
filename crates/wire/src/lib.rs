//! Protobuf on one side, domain types on the other: the only crate that knows both. It converts or refuses; it never
//! decides, and no default here changes a meaning.

pub mod control;
pub mod forward;
pub mod lease;
pub mod store;
pub mod top;

/// Messages and services between nodes.
pub mod peer {
    #![allow(missing_docs, reason = "generated; the .proto files hold the words")]
    tonic::include_proto!("ringfence.peer.v1");
}

/// What is kept in a store.
pub mod kept {
    #![allow(missing_docs, reason = "generated; the .proto files hold the words")]
    tonic::include_proto!("ringfence.store.v1");
}

/// The public API.
pub mod v1 {
    #![allow(missing_docs, reason = "generated; the .proto files hold the words")]
    #![allow(
        clippy::large_enum_variant,
        reason = "a decision in a box would be an allocation for each check; errors are rare"
    )]
    tonic::include_proto!("ringfence.v1");
}

/// The descriptors of the public API, for gRPC reflection.
pub const PUBLIC_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/public_descriptors.bin"));
