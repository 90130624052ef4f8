//! A node stands still for longer than its lease, and goes on as if nothing had happened.

use std::time::Duration;

use anyhow::Result;
use limits::Span;

use crate::stage::{NODES, Stage, sessions};

/// How long it stands still.
const FROZEN: Duration = Duration::from_secs(10);

pub fn ten_seconds(stage: &mut Stage) -> Result<()> {
    let (_, owner) = stage.leader_and_follower()?;
    let lost = sessions(&stage.cluster(owner)?, &[owner]);
    let at = stage.freeze(owner)?;
    stage.claim_taken_over(at, &lost)?;
    let frozen = stage.watch.now().since(at);
    stage.pass(Span::from(FROZEN).saturating_sub(frozen).into());
    stage.thaw(owner)?;
    stage.up(owner)?;
    let session = stage.settle().and_then(|_| stage.cluster(owner)).map(|cluster| sessions(&cluster, &[owner]))?;
    let but = Some("it lives under the session that had expired".to_owned()).filter(|_| session == lost);
    stage.claim("the node that stood still opens another session", but);
    Ok(())
}

/// A machine that sleeps with all its nodes: leases run out by the clock, but nobody was there to see it, so nobody may
/// lose anything.
pub fn everybody(stage: &mut Stage) -> Result<()> {
    let before = stage.cluster(0)?;
    for node in 0..NODES {
        stage.freeze(node)?;
    }
    stage.pass(FROZEN);
    for node in 0..NODES {
        stage.thaw(node)?;
    }
    for node in 0..NODES {
        stage.up(node)?;
    }
    stage.settle()?;
    let after = stage.cluster(0)?;
    let all = [0, 1, 2];
    let moved = after.map_version != before.map_version || sessions(&after, &all) != sessions(&before, &all);
    let but = Some(format!("the map went from {} to {}", before.map_version, after.map_version)).filter(|_| moved);
    stage.claim("no session ends and no partition moves", but);
    stage.notes.is_unmoved = true;
    Ok(())
}
