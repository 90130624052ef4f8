//! Compiles the protobuf files without a system `protoc`: protox parses them, prost and tonic generate, and the same
//! descriptor set feeds gRPC reflection.

use std::path::PathBuf;

use prost::Message as _;

const FILES: &[&str] = &[
    "ringfence/v1/rate_limiter.proto",
    "ringfence/peer/v1/raft.proto",
    "ringfence/peer/v1/control.proto",
    "ringfence/peer/v1/peer.proto",
    "ringfence/store/v1/record.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let public = protox::compile(&FILES[..1], [&root])?;
    std::fs::write(out.join("public_descriptors.bin"), public.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
