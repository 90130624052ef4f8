//! Clocks that are wrong. A wall clock decides nothing, so setting it changes nothing; a rate within what leases allow for
//! is allowed for by the judge too, as it was measured. Both count only where the node itself reports the wrong clock.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use limits::{Moment, Span};

use crate::admin::ReportedClock;
use crate::clock_fault::ClockFault;
use crate::node_file::name;
use crate::stage::{NODES, Stage, sessions};

/// How far the wall clock is set.
const HOUR: i64 = 3_600;

/// How far off a reported clock may be: an answer travels, and is read in milliseconds.
const READING: i64 = 500;

/// The rate of the fast node.
const RATE: &str = "1.005";

/// The same, in millionths above one, and how well it must be seen.
const RATE_MILLIONTHS: i64 = 5_000;
const RATE_SEEN_WITHIN: i64 = 1_000;

/// How far off the measured rate itself may be, in millionths: two readings a few milliseconds off, over some ten seconds.
const RATE_ERROR: i64 = 500;

/// The node that is fast.
const FAST: usize = 1;

/// How long the cluster is watched with a wrong clock.
const WRONG: Duration = Duration::from_secs(2);

/// Everybody's wall clock can be set, since nobody knows yet who will lead.
pub fn settable(stage: &mut Stage, library: &Path) -> Result<()> {
    for node in 0..NODES {
        let offset = stage.folder().join(name(node)).join("wall-offset");
        stage.set_clock_fault(node, ClockFault::wall(library, offset)?);
    }
    Ok(())
}

/// The leader, whose wall clock matters if anybody's does. While its clock is wrong another owner dies, so that somebody
/// takes over under it.
pub fn step(stage: &mut Stage) -> Result<()> {
    let (leader, owner) = stage.leader_and_follower()?;
    let before = wall_off(stage, leader)?;
    stage.step_wall(leader, HOUR)?;
    let after = wall_off(stage, leader)?;
    let moved = after - before;
    let but = Some(format!("it moved by {moved} ms")).filter(|_| (moved - HOUR * 1_000).abs() > READING);
    stage.claim("the leader itself reports that its clock is an hour ahead", but);
    stage.pass(WRONG);
    let lost = sessions(&stage.cluster(leader)?, &[owner]);
    let at = stage.kill(owner)?;
    stage.claim_taken_over(at, &lost)?;
    stage.start(owner)?;
    stage.up(owner)?;
    stage.settle()?;
    stage.step_wall(leader, 0)
}

/// How far a node's wall clock is ahead of the suite's, in milliseconds.
fn wall_off(stage: &Stage, node: usize) -> Result<i64> {
    let (clock, at) = stage.clocks_of(node)?;
    let wall = i64::try_from(clock.wall_unix_ms).unwrap_or(i64::MAX);
    Ok(wall - i64::try_from(stage.watch.wall_millis(at)).unwrap_or(0))
}

#[allow(clippy::unnecessary_wraps, reason = "other scenarios' preparations can fail")]
pub fn fast(stage: &mut Stage, library: &Path) -> Result<()> {
    stage.set_clock_fault(FAST, ClockFault::Rate { library: library.to_owned(), rate: RATE.to_owned() });
    Ok(())
}

/// While one node's clocks are fast another owner dies, so that the fast one takes over some of its partitions.
pub fn rate(stage: &mut Stage) -> Result<()> {
    let from = stage.clocks_of(FAST)?;
    let (leader, _) = stage.leader_and_follower()?;
    let owner = (0..NODES).find(|node| *node != FAST && *node != leader).unwrap_or(leader);
    stage.pass(WRONG);
    let lost = sessions(&stage.cluster(FAST)?, &[owner]);
    let at = stage.kill(owner)?;
    stage.claim_taken_over(at, &lost)?;
    stage.start(owner)?;
    stage.up(owner)?;
    stage.settle()?;
    let seen = millionths(from, stage.clocks_of(FAST)?);
    let but =
        Some(format!("it runs {seen} millionths fast")).filter(|_| (seen - RATE_MILLIONTHS).abs() > RATE_SEEN_WITHIN);
    stage.claim(format!("{} itself reports a clock that runs at {RATE}", name(FAST)), but);
    // The judge allows for what was measured, and for nothing else.
    stage.notes.clocks_off = i32::try_from(seen.max(0) + RATE_ERROR).unwrap_or(0);
    Ok(())
}

/// By how much a node's boot clock ran faster than the suite's between two readings, in millionths.
fn millionths(from: (ReportedClock, Moment), until: (ReportedClock, Moment)) -> i64 {
    let theirs = Span::from_nanos(until.0.boot_ns.saturating_sub(from.0.boot_ns)).as_nanos();
    let ours = until.1.since(from.1).as_nanos().max(1);
    let ahead = i128::from(theirs) - i128::from(ours);
    i64::try_from(ahead * 1_000_000 / i128::from(ours)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_seen_from_two_readings() {
        let reading = |boot_ns: u64, own: u64| (ReportedClock { boot_ns, wall_unix_ms: 0 }, Moment::from_nanos(own));
        let second = 1_000_000_000;
        assert_eq!(millionths(reading(7, 0), reading(7 + 10_050_000_000, 10 * second)), 5_000);
        assert_eq!(millionths(reading(0, 0), reading(9_950_000_000, 10 * second)), -5_000);
    }
}
