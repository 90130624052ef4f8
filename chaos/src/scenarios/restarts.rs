//! Nodes that end and come back: as planned, without what they had on disk, and all together.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::bounds::{GIVEN_AWAY, OWNED_AGAIN};
use crate::node_file::name;
use crate::stage::{NODES, Stage, sessions};

/// How long a node stays away.
const AWAY: Duration = Duration::from_secs(1);

/// The node seals, gives everything away and ends; nobody waits for its lease.
pub fn planned(stage: &mut Stage) -> Result<()> {
    let (_, node) = stage.leader_and_follower()?;
    let lost = sessions(&stage.cluster(node)?, &[node]);
    let at = stage.terminate(node)?;
    stage.claim_owned_again(at, &lost, GIVEN_AWAY)?;
    stage.claim_clean_end(node)?;
    stage.pass(AWAY);
    stage.start(node)?;
    stage.up(node)
}

/// A new disk under an old name: it joins as somebody else, and replaces who had the name.
pub fn wiped(stage: &mut Stage) -> Result<()> {
    let (leader, node) = stage.leader_and_follower()?;
    let before = stage.cluster(leader)?;
    let lost = sessions(&before, &[node]);
    let at = stage.kill(node)?;
    stage.wipe(node)?;
    stage.start(node)?;
    stage.claim_taken_over(at, &lost)?;
    stage.up(node)?;
    stage.settle()?;
    for seen_by in 0..NODES {
        let after = stage.cluster(seen_by)?;
        let but = Some(format!("{} sees {}", name(seen_by), after.uuid)).filter(|_| after.uuid != before.uuid);
        stage.claim(format!("{} is in the same cluster, and there is no second", name(seen_by)), but);
    }
    let id = |cluster: &crate::admin::Cluster| cluster.member(&name(node)).map(|member| member.id.clone());
    let (old, new) = (id(&before).context("no such node")?, id(&stage.cluster(leader)?).context("no such node")?);
    let but = Some(format!("it is {new} again")).filter(|_| old == new);
    stage.claim("the wiped node has another identity", but);
    Ok(())
}

pub fn two_of_three(stage: &mut Stage) -> Result<()> {
    let (leader, third) = stage.leader_and_follower()?;
    let rest: Vec<usize> = (0..NODES).filter(|node| *node != third).collect();
    let lost = sessions(&stage.cluster(leader)?, &[0, 1, 2]);
    kill_all(stage)?;
    stage.pass(AWAY);
    for node in &rest {
        stage.start(*node)?;
    }
    for node in &rest {
        stage.up(*node)?;
    }
    let at = stage.mark("two are ready");
    stage.claim_owned_again(at, &lost, OWNED_AGAIN)?;
    stage.pass(AWAY);
    stage.start(third)?;
    stage.up(third)
}

pub fn all_three(stage: &mut Stage) -> Result<()> {
    let (leader, _) = stage.leader_and_follower()?;
    let before = stage.cluster(leader)?;
    let lost = sessions(&before, &[0, 1, 2]);
    kill_all(stage)?;
    stage.pass(AWAY);
    for node in 0..NODES {
        stage.start(node)?;
    }
    for node in 0..NODES {
        stage.up(node)?;
    }
    let at = stage.mark("three are ready");
    stage.claim_owned_again(at, &lost, OWNED_AGAIN)?;
    let uuid = stage.cluster(leader)?.uuid;
    let but = Some(format!("it is {uuid} now")).filter(|_| uuid != before.uuid);
    stage.claim("it is the same cluster", but);
    Ok(())
}

/// How long the one that is back is watched while it is alone: longer than callers need to find it.
const ALONE: Duration = Duration::from_secs(3);

/// Without a quorum nobody may decide, and the one that is back says so, by each limit's failure mode.
pub fn alone(stage: &mut Stage) -> Result<()> {
    let (one, _) = stage.leader_and_follower()?;
    let lost = sessions(&stage.cluster(one)?, &[0, 1, 2]);
    kill_all(stage)?;
    stage.start(one)?;
    stage.up(one)?;
    let from = stage.mark("one is alone");
    stage.pass(ALONE);
    let others: Vec<usize> = (0..NODES).filter(|node| *node != one).collect();
    let until = stage.mark("the others return");
    stage.notes.alone = Some((from, until));
    for node in &others {
        stage.start(*node)?;
    }
    for node in &others {
        stage.up(*node)?;
    }
    let at = stage.mark("three are ready");
    stage.claim_owned_again(at, &lost, OWNED_AGAIN).map(drop)
}

fn kill_all(stage: &mut Stage) -> Result<()> {
    for node in 0..NODES {
        stage.kill(node)?;
    }
    Ok(())
}
