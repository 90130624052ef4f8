//! The container image of the program as it is built here: a release build, copied into Debian. What `docker build`
//! makes of the sources alone, in the image of Rust, is the other target of deploy/Dockerfile.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{machine, shell};

/// An image that others make, and what `deploy/base-images.sh` calls it.
pub struct Base {
    image: &'static str,
    word: &'static str,
}

/// What the image begins with.
pub const DEBIAN: Base = Base { image: "debian:bookworm-slim", word: "debian" };

/// What deploy/compose.yaml starts beside it.
pub const REDIS: Base = Base { image: "redis:7-bookworm", word: "redis" };

/// What deploy/compose.yaml starts.
const IMAGE: &str = "ringfence:local";

/// Builds the program and puts it into an image.
///
/// # Errors
/// When there is no engine ([`machine::DidNotRun`]), or something does not build.
pub fn run(root: &Path) -> Result<()> {
    machine::need_engine()?;
    need_base(root, &DEBIAN)?;
    build_program(root)?;
    let revision = shell::answer(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root)).unwrap_or_default();
    let revision = format!("REVISION={}", revision.trim());
    let version = concat!("VERSION=", env!("CARGO_PKG_VERSION"));
    let mut build = Command::new("docker");
    build.args(["build", "--quiet", "--file=deploy/Dockerfile", "--target=prebuilt", "--tag", IMAGE]);
    build.args(["--build-arg", version, "--build-arg", &revision, "."]);
    shell::run(build.current_dir(root))?;
    let says = shell::answer(Command::new("docker").args(["run", "--rm", "--network=none", IMAGE, "--version"]));
    println!("{IMAGE}: {}", says.context("the image does not run `ringfence --version`")?.trim());
    Ok(())
}

/// Sees to it that such an image is there: from the registry where one is reached, made here where none is.
///
/// # Errors
/// When it can neither be had nor made; the script says why.
pub fn need_base(root: &Path, base: &Base) -> Result<()> {
    let docker = |words: [&str; 3]| shell::answer(Command::new("docker").args(words)).is_some();
    if docker(["image", "inspect", base.image]) || docker(["pull", "--quiet", base.image]) {
        return Ok(());
    }
    shell::run(Command::new("deploy/base-images.sh").arg(base.word).current_dir(root))
}

/// Builds the program as it is shipped.
///
/// # Errors
/// When it does not build.
pub fn build_program(root: &Path) -> Result<()> {
    shell::run(&mut shell::cargo(root, &["build", "--quiet", "--release", "--locked", "--package=ringfence"]))
}
