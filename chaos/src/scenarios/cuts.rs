//! An owner is cut off from the others and finds itself in the minority, while callers still reach everybody.

use std::time::Duration;

use anyhow::Result;

use crate::net::Cut;
use crate::stage::{Stage, sessions};

/// How long the cut lasts after the others have taken over.
const APART: Duration = Duration::from_secs(2);

/// The hardest one to lose: the log's leader.
pub fn both(stage: &mut Stage) -> Result<()> {
    let (leader, _) = stage.leader_and_follower()?;
    apart(stage, leader, Cut::Both)
}

pub fn inbound(stage: &mut Stage) -> Result<()> {
    let (_, owner) = stage.leader_and_follower()?;
    apart(stage, owner, Cut::Inbound)
}

pub fn outbound(stage: &mut Stage) -> Result<()> {
    let (_, owner) = stage.leader_and_follower()?;
    apart(stage, owner, Cut::Outbound)
}

fn apart(stage: &mut Stage, node: usize, cut: Cut) -> Result<()> {
    let lost = sessions(&stage.cluster(node)?, &[node]);
    let at = stage.cut(node, cut)?;
    stage.claim_taken_over(at, &lost)?;
    stage.pass(APART);
    stage.mend(node)
}
