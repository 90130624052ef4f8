//! A node dies at once, and is started again when its partitions have new owners.

use std::time::Duration;

use anyhow::Result;

use crate::stage::{Stage, sessions};

/// How long the survivors are watched before the dead node returns.
const ALONE: Duration = Duration::from_secs(1);

pub fn owner(stage: &mut Stage) -> Result<()> {
    let (_, follower) = stage.leader_and_follower()?;
    dies_and_returns(stage, follower)
}

/// The node that a third of all questions is sent to. What matters here is that its callers get their answers elsewhere,
/// so the questions about keys of the survivors are looked at.
pub fn ingress(stage: &mut Stage) -> Result<()> {
    let (leader, follower) = stage.leader_and_follower()?;
    let other = (0..crate::stage::NODES).find(|node| *node != leader && *node != follower).unwrap_or(follower);
    dies_and_returns(stage, other)
}

pub fn leader(stage: &mut Stage) -> Result<()> {
    let (leader, _) = stage.leader_and_follower()?;
    dies_and_returns(stage, leader)
}

fn dies_and_returns(stage: &mut Stage, node: usize) -> Result<()> {
    let lost = sessions(&stage.cluster(node)?, &[node]);
    let at = stage.kill(node)?;
    stage.claim_taken_over(at, &lost)?;
    stage.pass(ALONE);
    stage.start(node)?;
    stage.up(node)
}
