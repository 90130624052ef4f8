//! The file of a long campaign: how far its range was played and what that covered, so that it can be played in several
//! goes. It is replaced in one step, so that a campaign that dies loses no more than its last moments. It names the build that
//! played: what another one played says nothing of this one.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use sim::campaign::Grid;

/// The first line: what kind of file it is.
const HEAD: &str = "ringfence simulation campaign 2";

/// The build that runs: its version, and a hash of the program's file.
///
/// # Errors
/// When that file cannot be read.
pub fn this_build() -> Result<String> {
    let path = std::env::current_exe().context("cannot tell which program this is")?;
    let program = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = DefaultHasher::new();
    hash.write(&program);
    Ok(format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hash.finish()))
}

/// How far a campaign is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The build that played, in one line.
    pub build: String,
    /// All its seeds.
    pub seeds: Range<u64>,
    /// The first that has not been played.
    pub next: u64,
    /// What those before covered.
    pub grid: Grid,
}

impl State {
    /// A campaign that has played nothing.
    pub fn new(seeds: Range<u64>, build: String) -> State {
        State { build, next: seeds.start, seeds, grid: Grid::default() }
    }

    /// What the file says about a campaign of this build over these seeds, or a new one if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or is about other seeds, another build or another grid.
    pub fn read(path: &Path, seeds: Range<u64>, build: &str) -> Result<State> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::new(seeds, build.to_owned())),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let state =
            parse(&text).with_context(|| format!("{} is no campaign's file of this version", path.display()))?;
        if state.build != build {
            bail!(
                "{} is of another build ({}, and this is {build}): what that played says nothing of this one; \
                 remove the file, or name another",
                path.display(),
                state.build
            );
        }
        if state.seeds != seeds {
            bail!(
                "{} is about seeds {}..{}, not {}..{}: name those, or another file",
                path.display(),
                state.seeds.start,
                state.seeds.end,
                seeds.start,
                seeds.end
            );
        }
        Ok(state)
    }

    /// Writes the file anew.
    ///
    /// # Errors
    /// When that is not possible; the old file is as it was.
    pub fn write(&self, path: &Path) -> Result<()> {
        let beside = path.with_extension("new");
        fs::write(&beside, self.text()).with_context(|| format!("cannot write {}", beside.display()))?;
        fs::rename(&beside, path).with_context(|| format!("cannot replace {}", path.display()))
    }

    fn text(&self) -> String {
        let State { build, seeds, next, grid } = self;
        let mut text = format!("{HEAD}\nbuild {build}\nseeds {}..{}\nnext {next}\ngrid", seeds.start, seeds.end);
        for count in grid.numbers() {
            let _ = write!(text, " {count}");
        }
        text + "\n"
    }
}

fn parse(text: &str) -> Option<State> {
    let mut lines = text.lines();
    let build = (lines.next()? == HEAD).then(|| lines.next())??.strip_prefix("build ")?.to_owned();
    let seeds = lines.next()?;
    let seeds = crate::words::seeds(seeds.strip_prefix("seeds ")?).ok()?;
    let next = lines.next()?.strip_prefix("next ")?.parse().ok()?;
    let numbers = lines.next()?.strip_prefix("grid ")?.split(' ').map(|count| count.parse().ok());
    let grid = Grid::from_numbers(&numbers.collect::<Option<Vec<u64>>>()?)?;
    (seeds.start..=seeds.end).contains(&next).then_some(State { build, seeds, next, grid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("campaign");
        let mut state = State::read(&path, 10..50, "1 a").unwrap();
        assert_eq!(state, State::new(10..50, "1 a".to_owned()));
        state.next = 26;
        state.write(&path).unwrap();
        assert_eq!(State::read(&path, 10..50, "1 a").unwrap(), state);
    }

    #[test]
    fn a_build_is_told_by_its_version_and_its_bytes() {
        let build = this_build().unwrap();
        assert_eq!(build, this_build().unwrap());
        assert!(build.starts_with(env!("CARGO_PKG_VERSION")) && !build.contains('\n'), "{build}");
    }

    #[test]
    fn a_file_about_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("campaign");
        State::new(0..9, "1 a".to_owned()).write(&path).unwrap();
        let refused = State::read(&path, 0..10, "1 a").unwrap_err().to_string();
        assert!(refused.contains("is about seeds 0..9, not 0..10"), "{refused}");
        let refused = State::read(&path, 0..9, "1 b").unwrap_err().to_string();
        assert!(refused.contains("is of another build (1 a, and this is 1 b)"), "{refused}");
        fs::write(&path, "something\n").unwrap();
        let refused = State::read(&path, 0..10, "1 a").unwrap_err().to_string();
        assert!(refused.contains("is no campaign's file"), "{refused}");
    }
}
