//! What the suite needs of the machine, looked at before anything is made: root, a few programs, and the library that
//! fakes clocks. What is missing is said in one line; then nothing ran, and nothing passed.

use std::env;
use std::path::{Path, PathBuf};

/// Programs that are called, each with the package of Debian that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("iptables-restore", "iptables"),
    ("iptables-save", "iptables"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("mount", "mount"),
    ("env", "coreutils"),
    ("nice", "coreutils"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
];

/// The library, as Debian's package `faketime` has it.
const LIBRARY: &str = "libfaketimeMT.so.1";

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The library that fakes clocks.
    pub faketime: PathBuf,
}

/// Looks for everything.
///
/// # Errors
/// The first thing that is missing, and what would bring it, in one line.
pub fn look() -> Result<Found, String> {
    if !cfg!(target_os = "linux") {
        return Err("it needs Linux, for network namespaces".into());
    }
    if !is_root() {
        return Err("it makes network namespaces, which needs root".into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if let Some((name, package)) = PROGRAMS.iter().find(|(name, _)| !is_there(name)) {
        return Err(format!("`{name}` is not on the PATH; on Debian: apt-get install {package}"));
    }
    let faketime = library(Path::new("/usr/lib"))
        .ok_or_else(|| format!("{LIBRARY} is not below /usr/lib; on Debian: apt-get install faketime"))?;
    Ok(Found { faketime })
}

fn is_root() -> bool {
    crate::signal::effective_user() == 0
}

/// `/usr/lib/faketime/...` or `/usr/lib/<architecture>/faketime/...`.
fn library(folder: &Path) -> Option<PathBuf> {
    let below = |folder: &Path| Some(folder.join("faketime").join(LIBRARY)).filter(|path| path.is_file());
    let mut inner: Vec<_> = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    inner.sort();
    below(folder).or_else(|| inner.iter().find_map(|inner| below(inner)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_library_is_found_below_the_architectures_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(library(folder.path()), None);
        let place = folder.path().join("some-linux-gnu/faketime");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(LIBRARY), "").unwrap();
        assert_eq!(library(folder.path()), Some(place.join(LIBRARY)));
    }
}
