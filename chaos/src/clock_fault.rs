//! Clocks that are wrong, by faketime's library: a wall clock that can be set while the node runs, or all clocks of a node
//! running at another rate. A fault counts only when the node itself reports the clock that it was given.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// How a node's clocks differ from the machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// The time of day is off by what a file says, read anew each time; the clocks that only run forward are true.
    Wall {
        /// faketime's library.
        library: PathBuf,
        /// The file.
        offset: PathBuf,
    },
    /// All clocks run at this rate, written as faketime wants it, `1.005`.
    Rate {
        /// faketime's library.
        library: PathBuf,
        /// The rate.
        rate: String,
    },
}

impl ClockFault {
    /// A wall clock that is true until it is [set](ClockFault::step).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn wall(library: &Path, offset: PathBuf) -> Result<ClockFault> {
        let fault = ClockFault::Wall { library: library.to_owned(), offset };
        fault.step(0)?;
        Ok(fault)
    }

    /// Sets the wall clock to this many seconds before or after the machine's; a rate stays what it is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn step(&self, seconds: i64) -> Result<()> {
        match self {
            ClockFault::Wall { offset, .. } => {
                // The library reads the file at any time, so a new one takes its place whole.
                let fresh = offset.with_extension("new");
                std::fs::write(&fresh, format!("{seconds:+}\n")).context("the clock's offset")?;
                std::fs::rename(&fresh, offset).context("the clock's offset")
            }
            ClockFault::Rate { .. } => Ok(()),
        }
    }

    /// The environment that a node is started with.
    pub fn variables(&self) -> Vec<String> {
        match self {
            ClockFault::Wall { library, offset } => vec![
                format!("LD_PRELOAD={}", library.display()),
                format!("FAKETIME_TIMESTAMP_FILE={}", offset.display()),
                "FAKETIME_NO_CACHE=1".to_owned(),
                // The library has had both names for it.
                "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
                "DONT_FAKE_MONOTONIC=1".to_owned(),
            ],
            ClockFault::Rate { library, rate } => {
                vec![format!("LD_PRELOAD={}", library.display()), format!("FAKETIME=+0 x{rate}")]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_offset_is_written_with_its_sign() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let fault = ClockFault::wall(Path::new("/lib/f.so"), file.clone()).unwrap();
        let read = || std::fs::read_to_string(&file).unwrap();
        assert_eq!(read(), "+0\n");
        fault.step(3_600).unwrap();
        assert_eq!(read(), "+3600\n");
        fault.step(-7).unwrap();
        assert_eq!(read(), "-7\n");
    }

    #[test]
    fn a_rate_fakes_every_clock_and_an_offset_only_the_wall() {
        let rate = ClockFault::Rate { library: "/lib/f.so".into(), rate: "1.005".into() };
        assert_eq!(rate.variables(), ["LD_PRELOAD=/lib/f.so", "FAKETIME=+0 x1.005"]);
        let wall = ClockFault::Wall { library: "/lib/f.so".into(), offset: "/o".into() };
        assert!(wall.variables().contains(&"FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned()));
    }
}
